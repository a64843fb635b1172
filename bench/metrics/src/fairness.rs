//! Fairness of the sharing of a link: the measures of Packet size §4.2.
//!
//! In each window of time, every flow gets some percentage of its fair share. The main measure of
//! the thesis is the distribution of these percentages over flows, in buckets of 5%, averaged over
//! windows (Packet size §4.2.3). The two measures that the thesis tried first are also reported:
//! the ratio of the smallest to the largest share (Packet size §4.2.1) and Jain's index (Packet
//! size §4.2.2).
//!
//! # Departures
//! - **At most**: the thesis says that its function counts flows "that got at least that much".
//!   However, its example has "30% fair share or less", and its curves rise. Here, the distribution
//!   counts flows that got x or less, including a flow with exactly x.
//! - **Groups**: each group has its own fair share, and overall measures use each flow's percentage
//!   of the share of its own group. The thesis accounts for the penalty of small packets in the
//!   same way: [`fair_by_packets`].
//! - **Windows in which no flow got any bytes** have neither an index nor a ratio, but they count
//!   in the distribution.
//! - **Starved** flows are flows below 5% of their share. The thesis uses the word without a
//!   number.

use fathom_netsim::link::jain;
use serde::{Deserialize, Serialize};

use super::latency::round;

/// Window lengths of the thesis in tenths of a second: 0.1, 1, 10 and 100 s (Packet size §4.3.1).
pub const WINDOWS: [usize; 4] = [1, 10, 100, 1_000];
/// Number of buckets per fair share: each bucket is 5% (Packet size §4.2.3).
const PER_SHARE: f64 = 20.0;
/// Number of the last bucket, at five fair shares. Flows above five fair shares are counted but
/// have no point.
const BUCKETS: usize = 100;
/// Fraction of its share below which a flow is starved.
const STARVED: f64 = 0.05;

/// Flows of one kind, for example flows with large packets, and the bytes that they got.
#[derive(Clone, Debug)]
pub struct GroupBytes {
    /// Name in reports.
    pub name: String,
    /// Fair share of one flow in bytes per second: the link's rate divided by the number of flows
    /// (Packet size §4.2). Bytes are counted in the same way as in `flows`, as payload or on the
    /// wire.
    pub fair: f64,
    /// Bytes of each flow in each tenth of a second of the measured time. Missing values at the end
    /// of a row count as zeros. All flows of the group must be listed, including flows that got no
    /// bytes.
    pub flows: Vec<Vec<u64>>,
}

/// Returns the fair rates in bytes per second of groups whose flows all get the same number of
/// packets through a link of `link` bytes per second. Flows with larger packets get more bytes, in
/// proportion to the packet size (Packet size §4.3.2). Each group is given as its number of flows
/// and its bytes per packet. The rates are zero without flows.
pub fn fair_by_packets(link: f64, groups: &[(usize, u32)]) -> Vec<f64> {
    let all: f64 = groups.iter().map(|(flows, size)| *flows as f64 * f64::from(*size)).sum();
    let of = |size: u32| if all > 0.0 { link * f64::from(size) / all } else { 0.0 };
    groups.iter().map(|(_, size)| of(*size)).collect()
}

/// Distribution of flows by their percentage of the fair share, over all windows of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareDistribution {
    /// Number of flows.
    pub flows: usize,
    /// Mean percentage of the fair share.
    pub mean_percent: f64,
    /// Percentage of flows below 5% of the fair share, averaged over windows.
    pub starved_percent: f64,
    /// Points of the distribution at 0, 5, 10 to 500% of the fair share. Each is the percentage of
    /// flows that got this much or less, averaged over windows.
    pub cdf: Vec<(f64, f64)>,
}

/// Shares of the flows of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupShares {
    /// Name of the group.
    pub name: String,
    /// Shares of the flows.
    pub shares: ShareDistribution,
}

/// Fairness over windows of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowFairness {
    /// Length of a window in seconds.
    pub seconds: f64,
    /// Number of windows.
    pub windows: usize,
    /// Jain's index of the shares, averaged over windows in which at least one flow got any bytes.
    pub jain: Option<f64>,
    /// Ratio of the smallest to the largest share, averaged over windows in which at least one flow
    /// got any bytes.
    pub min_max: Option<f64>,
    /// Shares of all flows.
    pub all: ShareDistribution,
    /// Shares by group, in the given order.
    pub groups: Vec<GroupShares>,
}

/// Fairness over windows of several lengths. Percentages are rounded to three decimals, indices and
/// ratios to four.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// One entry for each window length that fits into the measured time at least once.
    pub windows: Vec<WindowFairness>,
}

impl Fairness {
    /// Computes the fairness of these groups in consecutive windows of these lengths, in tenths of
    /// a second ([`WINDOWS`]). The first window starts at the first tenth. An incomplete window at
    /// the end is left out.
    ///
    /// Returns `None` without flows, or if a group with flows has no positive finite fair share.
    pub fn of(groups: &[GroupBytes], lengths: &[usize]) -> Option<Self> {
        let flows: usize = groups.iter().map(|g| g.flows.len()).sum();
        let judged = |g: &GroupBytes| g.flows.is_empty() || (g.fair.is_finite() && g.fair > 0.0);
        if flows == 0 || !groups.iter().all(judged) {
            return None;
        }
        let tenths = groups.iter().flat_map(|g| &g.flows).map(Vec::len).max().unwrap_or(0);
        let whole = lengths.iter().filter(|length| **length > 0 && **length <= tenths);
        Some(Self {
            windows: whole
                .map(|length| WindowFairness::of(groups, *length, tenths / length))
                .collect(),
        })
    }
}

impl WindowFairness {
    fn of(groups: &[GroupBytes], length: usize, windows: usize) -> Self {
        let seconds = length as f64 / 10.0;
        let mut histograms = vec![ShareHistogram::default(); groups.len()];
        let (mut indices, mut ratios) = (Mean::default(), Mean::default());
        let mut shares = Vec::new();
        for window in 0..windows {
            shares.clear();
            for (group, histogram) in groups.iter().zip(&mut histograms) {
                let fair = group.fair * seconds;
                for row in &group.flows {
                    let bytes: u64 = row.iter().skip(window * length).take(length).sum();
                    let share = bytes as f64 / fair;
                    histogram.add(share);
                    shares.push(share);
                }
            }
            if let Some(index) = jain(&shares) {
                let (least, most) = shares
                    .iter()
                    .fold((f64::INFINITY, 0.0_f64), |(l, m), s| (l.min(*s), m.max(*s)));
                indices.add(index);
                ratios.add(least / most);
            }
        }
        let named = groups.iter().zip(&histograms);
        let groups = named
            .map(|(g, t)| GroupShares { name: g.name.clone(), shares: t.distribution(windows) })
            .collect();
        let mut all = ShareHistogram::default();
        histograms.iter().for_each(|histogram| all.merge(histogram));
        Self {
            seconds,
            windows,
            jain: indices.rounded(),
            min_max: ratios.rounded(),
            all: all.distribution(windows),
            groups,
        }
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, x: f64) {
        self.sum += x;
        self.count += 1;
    }

    fn rounded(&self) -> Option<f64> {
        (self.count > 0).then(|| round(self.sum / self.count as f64, 4))
    }
}

/// Histogram of the shares of flows in windows. Every window has the same flows, so the mean over
/// windows equals the mean over all shares.
#[derive(Clone)]
struct ShareHistogram {
    buckets: [u64; BUCKETS + 1],
    count: u64,
    starved: u64,
    sum: f64,
}

impl Default for ShareHistogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS + 1], count: 0, starved: 0, sum: 0.0 }
    }
}

impl ShareHistogram {
    fn add(&mut self, share: f64) {
        // Bucket n holds shares above (n - 1) * 5% and up to n * 5%. The factor corrects rounding
        // errors, because an exact multiple of 5% may be computed as a slightly larger number.
        let bucket = (share * PER_SHARE * (1.0 - 1e-9)).ceil() as usize;
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.starved += u64::from(share < STARVED);
        self.sum += share;
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(ours, theirs)| *ours += theirs);
        self.count += other.count;
        self.starved += other.starved;
        self.sum += other.sum;
    }

    /// Returns the distribution. All its values are zero if there are no flows.
    fn distribution(&self, windows: usize) -> ShareDistribution {
        let percent = |part: f64| round(100.0 * part / self.count.max(1) as f64, 3);
        let mut at_most = 0;
        let mut point = |(bucket, count): (usize, &u64)| {
            at_most += count;
            (bucket as f64 * 100.0 / PER_SHARE, percent(at_most as f64))
        };
        ShareDistribution {
            flows: self.count as usize / windows.max(1),
            mean_percent: percent(self.sum),
            starved_percent: percent(self.starved as f64),
            cdf: self.buckets.iter().enumerate().map(&mut point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a group with these bytes of each flow in each tenth; the fair share is 1000 bytes
    /// per tenth.
    fn group(flows: &[&[u64]]) -> GroupBytes {
        GroupBytes {
            name: "flows".into(),
            fair: 10_000.0,
            flows: flows.iter().map(|row| row.to_vec()).collect(),
        }
    }

    fn fairness(groups: &[GroupBytes], length: usize) -> WindowFairness {
        Fairness::of(groups, &[length]).unwrap().windows.remove(0)
    }

    fn at_most(shares: &ShareDistribution, percent: f64) -> f64 {
        shares.cdf.iter().find(|(x, _)| *x == percent).unwrap().1
    }

    #[test]
    fn equal_sharing_gives_a_distribution_step_at_100_percent() {
        let groups = [group(&[&[1_000; 20][..]; 7])];
        for length in [1, 10, 20] {
            let f = fairness(&groups, length);
            assert_eq!((f.seconds, f.windows), (length as f64 / 10.0, 20 / length));
            assert_eq!((f.jain, f.min_max), (Some(1.0), Some(1.0)));
            assert_eq!((f.all.flows, f.all.mean_percent, f.all.starved_percent), (7, 100.0, 0.0));
            let points = [95.0, 100.0, 500.0].map(|x| at_most(&f.all, x));
            assert_eq!(points, [0.0, 100.0, 100.0]);
        }
    }

    #[test]
    fn share_of_exactly_30_percent_falls_into_its_own_bucket() {
        // A third of 10,000 bytes per second over 2.3 s is 7666.67 bytes, and 2300 bytes of it are
        // 30%, or 0.30000000000000004 in floating point.
        let thirds = GroupBytes { fair: 10_000.0 / 3.0, ..group(&[&[100; 23]]) };
        let f = fairness(&[thirds], 23);
        assert_eq!((at_most(&f.all, 25.0), at_most(&f.all, 30.0)), (0.0, 100.0));
    }

    #[test]
    fn distribution_of_shares_matches_hand_calculation() {
        // Two windows of four flows: 0, 30, 50, 320% and 4.9, 5, 30, 360.1%.
        let f = fairness(&[group(&[&[0, 49], &[300, 50], &[500, 300], &[3_200, 3_601]])], 1);
        let cdf: Vec<f64> = [0.0, 5.0, 25.0, 30.0, 45.0, 50.0, 315.0, 320.0, 360.0, 365.0]
            .map(|x| at_most(&f.all, x))
            .into();
        assert_eq!(cdf, [12.5, 37.5, 37.5, 62.5, 62.5, 75.0, 75.0, 87.5, 87.5, 100.0]);
        assert_eq!((f.all.starved_percent, f.all.mean_percent), (25.0, 100.0));
        // Jain: 16 / (4 (0.09 + 0.25 + 10.24)) = 0.37807 and 16 / (4 (0.002401 + 0.0025 + 0.09 +
        // 12.967201)) = 0.306229; the mean is 0.342151.
        assert_eq!(f.jain, Some(0.3422));
        // 0 / 320 and 4.9 / 360.1 = 0.013607.
        assert_eq!(f.min_max, Some(0.0068));
        assert_eq!((f.all.cdf.len(), f.all.cdf[0].0, f.all.cdf[100].0), (101, 0.0, 500.0));
    }

    #[test]
    fn long_windows_hide_short_term_unfairness() {
        // Two flows take turns.
        let turns = [group(&[&[2_000, 0, 2_000, 0], &[0, 2_000, 0, 2_000]])];
        let (short, long) = (fairness(&turns, 1), fairness(&turns, 2));
        assert_eq!(
            (short.jain, short.min_max, short.all.starved_percent),
            (Some(0.5), Some(0.0), 50.0)
        );
        assert_eq!(
            (long.jain, long.min_max, long.all.starved_percent),
            (Some(1.0), Some(1.0), 0.0)
        );
        assert_eq!(
            (at_most(&short.all, 0.0), at_most(&short.all, 195.0), at_most(&short.all, 200.0)),
            (50.0, 50.0, 100.0)
        );
    }

    #[test]
    fn fairness_is_reported_per_group() {
        // 25 Mbps are 3,125,000 bytes per second; 10 flows of 1500 bytes and 30 flows of 250 bytes:
        // 22,500 bytes if each flow sends one packet.
        let fair = fair_by_packets(3_125_000.0, &[(10, 1_500), (30, 250)]);
        assert!(
            (fair[0] - 208_333.333).abs() < 1e-2 && (fair[1] - 34_722.222).abs() < 1e-2,
            "{fair:?}"
        );
        assert_eq!(fair_by_packets(1e6, &[(0, 1_500), (5, 0)]), [0.0, 0.0]);
        let one = |name: &str, fair: f64, rows: &[&[u64]]| GroupBytes {
            name: name.into(),
            fair,
            ..group(rows)
        };
        let f = fairness(
            &[
                one("large", 60_000.0, &[&[6_000]]),
                one("small", 10_000.0, &[&[1_000], &[500], &[0]]),
            ],
            1,
        );
        let groups: Vec<_> =
            f.groups.iter().map(|g| (&*g.name, g.shares.flows, g.shares.mean_percent)).collect();
        assert_eq!(groups, [("large", 1, 100.0), ("small", 3, 50.0)]);
        assert_eq!((f.all.flows, f.all.mean_percent, f.all.starved_percent), (4, 62.5, 25.0));
        assert_eq!((at_most(&f.groups[1].shares, 50.0), at_most(&f.all, 50.0)), (66.667, 50.0));
        // Shares 1, 1, 0.5, 0: 2.5^2 / (4 * 2.25).
        assert_eq!(f.jain, Some(0.6944));
    }

    #[test]
    fn fairness_accepts_short_rows_and_incomplete_windows() {
        let f = Fairness::of(&[group(&[&[1_000; 25], &[1_000; 10]])], &WINDOWS).unwrap();
        let windows: Vec<_> = f.windows.iter().map(|w| (w.seconds, w.windows, w.min_max)).collect();
        // In 10 of 25 tenths both flows get something; of the two whole seconds, only in the first.
        assert_eq!(windows, [(0.1, 25, Some(0.4)), (1.0, 2, Some(0.5))]);
        // If no flow gets anything, there is no index, and all flows are starved.
        let f = fairness(&[group(&[&[0, 0], &[0, 0]])], 1);
        assert_eq!(
            (f.jain, f.min_max, f.all.starved_percent, at_most(&f.all, 0.0)),
            (None, None, 100.0, 100.0)
        );
        // A window without bytes does not count in the index.
        assert_eq!(fairness(&[group(&[&[0, 9], &[0, 9]])], 1).jain, Some(1.0));
        // A single flow gets everything.
        assert_eq!(fairness(&[group(&[&[7]])], 1).jain, Some(1.0));
        assert_eq!(Fairness::of(&[], &WINDOWS), None);
        assert_eq!(Fairness::of(&[group(&[])], &WINDOWS), None);
        for fair in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Fairness::of(&[GroupBytes { fair, ..group(&[&[1]]) }], &WINDOWS), None);
        }
        assert_eq!(Fairness::of(&[group(&[&[1]])], &[0, 2]), Some(Fairness { windows: vec![] }));
    }

    #[test]
    fn flows_above_five_fair_shares_get_no_point_in_the_curve() {
        let f = fairness(&[group(&[&[5_000], &[5_001], &[u64::MAX / 2]])], 1);
        assert_eq!(at_most(&f.all, 500.0), 33.333);
        let text = serde_json::to_string(&f).unwrap();
        assert_eq!(serde_json::from_str::<WindowFairness>(&text).unwrap(), f);
    }

    proptest! {
        #[test]
        fn distributions_of_shares_rise_from_0_to_100_percent(
            rows in prop::collection::vec(prop::collection::vec(0_u64..8_000, 40), 1..9),
            length in 1_usize..41,
        ) {
            let n = rows.len() as f64;
            let groups = [GroupBytes { flows: rows.clone(), ..group(&[]) }];
            let f = fairness(&groups, length);
            prop_assert!(f.all.cdf.windows(2).all(|p| p[0].1 <= p[1].1) && f.all.cdf[100].1 <= 100.0);
            prop_assert!(f.jain.is_none_or(|j| (1.0 / n - 1e-4..=1.0).contains(&j)));
            prop_assert!(f.min_max.is_none_or(|m| (0.0..=1.0).contains(&m)));
            // Check by counting: with a fair share of 1000 bytes per tenth, one percent of a window
            // is ten bytes per tenth.
            let windows = || rows.iter().flat_map(|row| row.chunks_exact(length)).map(|w| w.iter().sum::<u64>());
            for (x, y) in f.all.cdf.iter().skip(1) {
                let below = windows().filter(|bytes| *bytes <= *x as u64 * 10 * length as u64).count();
                prop_assert!((y - 100.0 * below as f64 / windows().count() as f64).abs() < 6e-4, "{} {}", x, y);
            }
        }
    }
}
