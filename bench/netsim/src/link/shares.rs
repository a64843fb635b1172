//! Bytes of each flow on a link over time, and the packet sizes in which they travelled.

use std::ops::Range;

use fathom_units::Time;

/// Width of a bin in nanoseconds: 0.1 s, the shortest window of Packet size §4.3.1.
const WIDTH: u64 = 100_000_000;
/// Number of bins in a second. Rates are averaged over a second unless requested otherwise, as in
/// the figures 4.4 to 4.7 of Packet size §4.3.1. Packet sizes are kept per second.
const SECOND: usize = 10;
/// Maximum numbers of flows, of bins, and of entries, which limit memory to 32 MB. An entry holds
/// the bytes of a flow in a bin. A run beyond these limits has no shares.
const FLOWS: usize = 2_048;
const BINS: usize = 40_960;
const ENTRIES: usize = 4_000_000;
/// Width in bytes of the steps in which packet sizes are counted. The last step includes all larger
/// sizes.
const STEP: u32 = 8;
const STEPS: usize = 192;

/// Bytes per flow in each 0.1 s, and bytes per packet size in each second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// Bytes of each flow, per 0.1 s. If a bin's list has no entry for a flow, the flow has no
    /// bytes in this bin.
    bins: Vec<Vec<FlowBytes>>,
    /// Total number of entries in all bins.
    entries: usize,
    /// Bytes that travelled in packets of each size step, per second.
    sizes: Vec<Vec<u32>>,
    /// First and last bin of each flow.
    spans: Vec<Option<(usize, usize)>>,
    overflowed: bool,
}

/// Bytes and packets of a flow in 0.1 s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FlowBytes {
    /// Bytes of UDP payload.
    payload: u32,
    packets: u32,
}

/// Bytes of a packet that count for its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedBytes {
    /// The bytes of the UDP payload.
    #[default]
    Payload,
    /// The bytes that the packet occupies on the link.
    Wire {
        /// Bytes of a packet in addition to its UDP payload.
        overhead: u32,
    },
}

impl CountedBytes {
    fn bytes(self, entry: FlowBytes) -> u64 {
        let overhead = match self {
            Self::Payload => 0,
            Self::Wire { overhead } => overhead,
        };
        u64::from(entry.payload) + u64::from(entry.packets) * u64::from(overhead)
    }
}

impl Shares {
    /// Records that a packet of `flow` with this UDP payload leaves at `at`.
    pub(crate) fn add(&mut self, at: Time, flow: u32, payload: u32) {
        let (bin, flow) = ((at.as_nanos() / WIDTH) as usize, flow as usize);
        if self.overflowed || bin >= BINS || flow >= FLOWS {
            return self.give_up();
        }
        let flows = self.spans.len().max(flow + 1);
        self.spans.resize(flows, None);
        let span = self.spans[flow].get_or_insert((bin, bin));
        span.1 = bin;
        if bin >= self.bins.len() {
            self.bins.resize_with(bin + 1, Vec::new);
            self.sizes.resize_with(bin / SECOND + 1, || vec![0; STEPS]);
        }
        let entries = &mut self.bins[bin];
        if flow >= entries.len() {
            // Make room for exactly the flows known so far. A bin then needs only one allocation as
            // long as no new flow arrives.
            let more = flows - entries.len();
            self.entries += more;
            if self.entries > ENTRIES {
                return self.give_up();
            }
            entries.reserve_exact(more);
            entries.resize(flows, FlowBytes::default());
        }
        entries[flow].payload += payload;
        entries[flow].packets += 1;
        self.sizes[bin / SECOND][((payload / STEP) as usize).min(STEPS - 1)] += payload;
    }

    fn give_up(&mut self) {
        *self = Self { overflowed: true, ..Self::default() };
    }

    /// Returns the width of the bins of [`Shares::rates`] and [`Shares::size_quantile`] in seconds.
    pub const fn width(&self) -> f64 {
        1.0
    }

    /// Returns, for each second, the rates of all flows that were present for the whole second, in
    /// bytes of UDP payload per second. The result is empty if the run was too large to keep rates.
    pub fn rates(&self) -> Vec<Vec<f64>> {
        self.rates_over(SECOND, CountedBytes::Payload)
    }

    /// Returns the same rates as [`Shares::rates`], but over bins of `tenths` tenths of a second
    /// (at least one). The unit is still bytes per second.
    pub fn rates_over(&self, tenths: usize, counted: CountedBytes) -> Vec<Vec<f64>> {
        let tenths = tenths.max(1);
        let seconds = tenths as f64 / SECOND as f64;
        let there = |bin: usize| {
            let whole = move |span: &Option<(usize, usize)>| {
                span.is_some_and(|(first, last)| first / tenths < bin && bin < last / tenths)
            };
            self.spans.iter().enumerate().filter(move |(_, span)| whole(span)).map(|(flow, _)| flow)
        };
        let bytes = |bin: usize, flow: usize| {
            let bins = self.bins.iter().skip(bin * tenths).take(tenths);
            bins.map(|entries| entries.get(flow).map_or(0, |entry| counted.bytes(*entry)))
                .sum::<u64>()
        };
        (0..self.bins.len().div_ceil(tenths))
            .map(|bin| there(bin).map(|flow| bytes(bin, flow) as f64 / seconds).collect())
            .collect()
    }

    /// Returns the bytes of `flow` in each tenth of a second of `tenths`. The value is zero for a
    /// tenth without bytes and for an unknown flow. Returns `None` if the run was too large to keep
    /// these bytes, or if the range ends beyond the last bin that can be kept (68 minutes).
    pub fn tenths(
        &self,
        flow: usize,
        tenths: Range<usize>,
        counted: CountedBytes,
    ) -> Option<Vec<u64>> {
        let bytes = |bin: usize| self.bins.get(bin)?.get(flow).map(|entry| counted.bytes(*entry));
        (!self.overflowed && tenths.end <= BINS)
            .then(|| tenths.map(|bin| bytes(bin).unwrap_or(0)).collect())
    }

    /// Returns, for each second, a packet size in bytes, rounded down to steps of 8. `fraction` of
    /// the second's bytes travelled in packets below this size.
    pub fn size_quantile(&self, fraction: f64) -> Vec<f64> {
        let quantile = |sizes: &Vec<u32>| {
            let wanted = fraction * sizes.iter().map(|b| f64::from(*b)).sum::<f64>();
            let mut sum = 0.0;
            let step = sizes.iter().position(|bytes| {
                sum += f64::from(*bytes);
                sum >= wanted && sum > 0.0
            });
            f64::from(step.unwrap_or(0) as u32 * STEP)
        };
        self.sizes.iter().map(quantile).collect()
    }
}

/// Returns Jain's index of fairness (Packet size §4.2.2). It is 1 if all rates are equal, and 1/n
/// if one of n flows has the whole rate. Returns `None` without flows, or if all rates are zero.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Returns the fraction of `rates` below a twentieth of their mean. Jain's index hardly shows such
/// starved flows (Packet size §4.2.2). Returns `None` in the same cases as [`jain`].
pub fn starved(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let n = rates.len() as f64;
    (sum > 0.0).then(|| rates.iter().filter(|r| **r < sum / n / 20.0).count() as f64 / n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Adds a packet that leaves at `at` nanoseconds.
    fn add(shares: &mut Shares, at: u64, flow: u32, payload: u32) {
        shares.add(Time::from_nanos(at), flow, payload);
    }

    #[test]
    fn jain_index_is_1_for_equal_flows_and_1_over_n_for_one_flow() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[0.0, 0.0, 7.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[3.0, 1.0]), Some(16.0 / 20.0));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }

    #[test]
    fn flows_below_a_twentieth_of_the_mean_count_as_starved() {
        assert_eq!(starved(&[100.0, 100.0, 100.0, 100.0]), Some(0.0));
        // The mean is 75, so the threshold is 3.75.
        assert_eq!(starved(&[3.7, 3.8, 146.3, 146.2]), Some(0.25));
        assert_eq!(starved(&[]), None);
    }

    #[test]
    fn flow_is_counted_only_in_its_whole_seconds() {
        let mut shares = Shares::default();
        for second in 0..5 {
            add(&mut shares, second * S, 0, 1_000);
        }
        // Another flow begins in second 1, gets nothing in second 2, and ends in second 3.
        add(&mut shares, S, 1, 400);
        add(&mut shares, 3 * S, 1, 400);
        let rates = shares.rates();
        assert_eq!(rates, [vec![], vec![1_000.0], vec![1_000.0, 0.0], vec![1_000.0], vec![]]);
    }

    #[test]
    fn packet_size_quantiles_are_weighted_by_bytes() {
        let mut shares = Shares::default();
        add(&mut shares, 0, 0, 1_392);
        for _ in 0..20 {
            add(&mut shares, 0, 0, 40);
        }
        // 1392 of 2192 bytes travel in the large packet.
        assert_eq!(shares.size_quantile(0.5), [1_392.0]);
        assert_eq!(shares.size_quantile(0.3), [40.0]);
    }

    #[test]
    fn shares_are_not_recorded_for_too_many_flows() {
        let mut shares = Shares::default();
        add(&mut shares, 0, FLOWS as u32, 1);
        assert!(shares.rates().is_empty() && shares.size_quantile(0.5).is_empty());
        add(&mut shares, 0, 0, 1);
        assert_eq!(
            (shares.tenths(0, 0..1, CountedBytes::Payload), shares.bins.capacity()),
            (None, 0)
        );
    }

    #[test]
    fn number_of_share_entries_is_limited() {
        let mut shares = Shares::default();
        add(&mut shares, 0, 1_999, 1);
        // Every tenth has 2000 entries from here on: 2000 tenths make 4 million entries.
        for tenth in 1..2_000 {
            add(&mut shares, tenth * S / 10, 1_999, 1);
        }
        assert_eq!((shares.entries, shares.rates().len()), (ENTRIES, 200));
        add(&mut shares, 200 * S, 0, 1);
        assert!(shares.rates().is_empty());
    }

    #[test]
    fn few_flows_may_use_every_time_bin_of_shares() {
        let mut shares = Shares::default();
        for tenth in 0..BINS as u64 {
            add(&mut shares, tenth * S / 10, 96, 1); // 97 entries
        }
        assert_eq!(shares.rates().len(), 4_096);
        add(&mut shares, 4_096 * S, 0, 1);
        assert!(shares.rates().is_empty());
    }

    #[test]
    fn share_bins_of_any_length_match_hand_calculation() {
        let mut shares = Shares::default();
        // Three packets in the tenths 0, 1 and 9, and one in tenth 20 that ends the flow.
        for (at, payload) in [(0, 100), (S / 10, 200), (S - 1, 300), (2 * S, 400)] {
            add(&mut shares, at, 1, payload);
        }
        let wire = CountedBytes::Wire { overhead: 28 };
        let tenths = shares.tenths(1, 0..11, wire).unwrap();
        assert_eq!(tenths, [128, 228, 0, 0, 0, 0, 0, 0, 0, 328, 0]);
        assert_eq!(
            shares.tenths(1, 19..23, CountedBytes::Payload).unwrap(),
            [0, 400, 0, 0],
            "nothing after the end"
        );
        assert_eq!(
            shares.tenths(0, 0..2, CountedBytes::Payload).unwrap(),
            [0, 0],
            "flow 0 sent nothing"
        );
        assert_eq!(
            shares.tenths(7, 0..2, CountedBytes::Payload).unwrap(),
            [0, 0],
            "flow 7 is not known"
        );
        assert_eq!(shares.tenths(1, 0..BINS + 1, CountedBytes::Payload), None);
        // Half seconds: bins 1 to 3 are whole ones, and bin 1 (0.5 s to 1 s) has 300 bytes.
        assert_eq!(
            shares.rates_over(5, CountedBytes::Payload),
            [vec![], vec![600.0], vec![0.0], vec![0.0], vec![]]
        );
        assert_eq!(shares.rates_over(5, wire)[1], [656.0]);
        assert_eq!(shares.rates_over(0, wire).len(), 21, "no tenth at all is one");
    }

    proptest! {
        #[test]
        fn share_bins_of_every_length_hold_the_same_bytes(
            packets in prop::collection::vec((0_u64..50 * S, 0_u32..5, 1_u32..1_500), 1..300),
            tenths in 1_usize..150,
        ) {
            let mut packets = packets;
            packets.sort_unstable();
            let mut shares = Shares::default();
            packets.iter().for_each(|(at, flow, payload)| add(&mut shares, *at, *flow, *payload));
            for flow in 0..5 {
                let of_flow = || packets.iter().filter(|p| p.1 == flow);
                let kept: u64 = shares.tenths(flow as usize, 0..500, CountedBytes::Payload).unwrap().iter().sum();
                prop_assert_eq!(kept, of_flow().map(|p| u64::from(p.2)).sum::<u64>());
            }
            // rates_over leaves out the first and the last bin of each flow.
            let bin = |at: u64| at / (tenths as u64 * WIDTH);
            let inside = |(at, flow, _): &&(u64, u32, u32)| {
                let of_flow = || packets.iter().filter(|p| p.1 == *flow).map(|p| bin(p.0));
                of_flow().min() < Some(bin(*at)) && Some(bin(*at)) < of_flow().max()
            };
            let expected: u64 = packets.iter().filter(inside).map(|p| u64::from(p.2)).sum();
            let seconds = tenths as f64 / 10.0;
            let kept: f64 = shares.rates_over(tenths, CountedBytes::Payload).iter().flatten().map(|rate| rate * seconds).sum();
            prop_assert!((kept - expected as f64).abs() < 1e-6, "{} {}", kept, expected);
        }
    }
}
