//! How much of files is kept.

/// Round trips kept in all; 256 MB of them.
const SAMPLES: u64 = 8 << 20;
/// Responses kept in all.
const RESPONSES: u64 = 2 << 20;

/// How much is kept of all files together: what more there is, is left out and reported.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    samples: u64,
    responses: u64,
    /// Something was left out.
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
