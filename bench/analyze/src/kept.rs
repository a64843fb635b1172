//! Limits on the data kept from files.

/// Maximum number of round trips kept in total, 256 MB.
const SAMPLES: u64 = 8 << 20;
/// Maximum number of responses kept in total.
const RESPONSES: u64 = 2 << 20;

/// Remaining room for the data of all files together. Data beyond it are left out and reported.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    samples: u64,
    responses: u64,
    /// Whether anything was left out.
    pub full: bool,
}

impl Default for Kept {
    fn default() -> Self {
        Self { samples: SAMPLES, responses: RESPONSES, full: false }
    }
}

impl Kept {
    pub(super) fn sample(&mut self) -> bool {
        Self::one(&mut self.samples, &mut self.full)
    }

    pub(super) fn response(&mut self) -> bool {
        Self::one(&mut self.responses, &mut self.full)
    }

    fn one(left: &mut u64, full: &mut bool) -> bool {
        let there = *left > 0;
        *full |= !there;
        *left = left.saturating_sub(1);
        there
    }
}
