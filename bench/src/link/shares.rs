//! What each flow got of a link over time, and in packets of what size.

/// Width of a bin: one second, as in Packet size §4.3.1 (its figures 4.4 to 4.7).
const WIDTH: u64 = 1_000_000_000;
/// Flows and bins kept at most: what grows with a run must end somewhere. A run beyond them has no shares.
const FLOWS: usize = 2_048;
const BINS: usize = 4_096;
/// Sizes are counted in steps of so many bytes, the last step holds everything larger.
const STEP: u32 = 8;
const STEPS: usize = 192;

/// Bytes per flow and second, and bytes per packet size and second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    bins: Vec<Bin>,
    /// First and last bin of each flow.
    spans: Vec<Option<(usize, usize)>>,
    overflowed: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Bin {
    /// Bytes of each flow; flows beyond its end sent nothing yet.
    flows: Vec<u32>,
    /// Bytes that travelled in packets of each size step.
    sizes: Vec<u32>,
}

impl Default for Bin {
    fn default() -> Self {
        Self { flows: Vec::new(), sizes: vec![0; STEPS] }
    }
}

impl Shares {
    /// A packet of `flow` with this UDP payload leaves at `at` (nanoseconds).
    pub(crate) fn add(&mut self, at: u64, flow: u32, payload: u32) {
        let (bin, flow) = ((at / WIDTH) as usize, flow as usize);
        if bin >= BINS || flow >= FLOWS {
            self.overflowed = true;
        }
        if self.overflowed {
            return;
        }
        let grown = self.bins.len().max(bin + 1);
        self.bins.resize_with(grown, Bin::default);
        let grown = self.spans.len().max(flow + 1);
        self.spans.resize(grown, None);
        let span = self.spans[flow].get_or_insert((bin, bin));
        span.1 = bin;
        let bin = &mut self.bins[bin];
        let grown = bin.flows.len().max(flow + 1);
        bin.flows.resize(grown, 0);
        bin.flows[flow] += payload;
        bin.sizes[((payload / STEP) as usize).min(STEPS - 1)] += payload;
    }

    /// Width of a bin in seconds.
    pub const fn width(&self) -> f64 {
        WIDTH as f64 * 1e-9
    }

    /// Bytes per second of every flow that was there for the whole of a bin, per bin. Empty when the run was too large to keep them.
    pub fn rates(&self) -> Vec<Vec<f64>> {
        if self.overflowed {
            return Vec::new();
        }
        let there = |bin: usize| {
            let whole =
                move |span: &Option<(usize, usize)>| span.is_some_and(|(first, last)| first < bin && bin < last);
            self.spans.iter().enumerate().filter(move |(_, span)| whole(span)).map(|(flow, _)| flow)
        };
        let bytes = |bin: usize, flow: usize| self.bins[bin].flows.get(flow).copied().unwrap_or(0);
        (0..self.bins.len())
            .map(|bin| there(bin).map(|flow| f64::from(bytes(bin, flow)) / self.width()).collect())
            .collect()
    }

    /// The size in bytes (rounded down to steps of 8) below which `fraction` of a bin's bytes travelled, per bin.
    pub fn size_quantile(&self, fraction: f64) -> Vec<f64> {
        if self.overflowed {
            return Vec::new();
        }
        let quantile = |bin: &Bin| {
            let wanted = fraction * bin.sizes.iter().map(|b| f64::from(*b)).sum::<f64>();
            let mut sum = 0.0;
            let step = bin.sizes.iter().position(|bytes| {
                sum += f64::from(*bytes);
                sum >= wanted && sum > 0.0
            });
            f64::from(step.unwrap_or(0) as u32 * STEP)
        };
        self.bins.iter().map(quantile).collect()
    }
}

/// Jain's index of fairness (Packet size §4.2.2): 1 when all rates are equal, 1/n when one flow has everything. `None` without flows, or
/// when none got anything.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// The part of `rates` below a twentieth of their mean: flows that starve, which Jain's index hardly shows (Packet size §4.2.2). `None`
/// as for [`jain`].
pub fn starved(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let n = rates.len() as f64;
    (sum > 0.0).then(|| rates.iter().filter(|r| **r < sum / n / 20.0).count() as f64 / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopoly() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[0.0, 0.0, 7.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[3.0, 1.0]), Some(16.0 / 20.0));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }

    #[test]
    fn who_has_less_than_a_twentieth_of_its_share_starves() {
        assert_eq!(starved(&[100.0, 100.0, 100.0, 100.0]), Some(0.0));
        // The mean is 75: 3.75 is the line.
        assert_eq!(starved(&[3.7, 3.8, 146.3, 146.2]), Some(0.25));
        assert_eq!(starved(&[]), None);
    }

    #[test]
    fn a_flow_counts_in_the_seconds_it_was_there_from_end_to_end() {
        let mut shares = Shares::default();
        for second in 0..5 {
            shares.add(second * S, 0, 1_000);
        }
        // Another comes in second 1, gets nothing in second 2, and ends in second 3.
        shares.add(S, 1, 400);
        shares.add(3 * S, 1, 400);
        let rates = shares.rates();
        assert_eq!(rates, [vec![], vec![1_000.0], vec![1_000.0, 0.0], vec![1_000.0], vec![]]);
    }

    #[test]
    fn sizes_are_weighed_by_the_bytes_they_carry() {
        let mut shares = Shares::default();
        shares.add(0, 0, 1_392);
        for _ in 0..20 {
            shares.add(0, 0, 40);
        }
        // 1392 of 2192 bytes travel in the large packet.
        assert_eq!(shares.size_quantile(0.5), [1_392.0]);
        assert_eq!(shares.size_quantile(0.3), [40.0]);
    }

    #[test]
    fn a_run_too_large_has_no_shares() {
        let mut shares = Shares::default();
        shares.add(0, FLOWS as u32, 1);
        assert!(shares.rates().is_empty() && shares.size_quantile(0.5).is_empty());
    }
}
