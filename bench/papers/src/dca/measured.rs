//! Tables 3-4 and 3-5, figures 3-1 to 3-3: the metrics of DCA §3 on the tcpRTT series of a Reno
//! connection.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_cc::dca::Epoch;
use fathom_experiments::scenario::Outcome;
use fathom_metrics::{
    Counts, DelayEvent, LAGS, Latencies, RttSample, SendRate, Timeouts, indication, lagged,
    predict, replay,
};
use fathom_report::{Axis, Entry, Row, Series};

use super::{ALTERED, ASU, EMORY, LEVELS};
use crate::results::BySeed;
use crate::{Artefact, Results};

/// One of our paths with the numbers of the paper's corresponding path.
pub(super) struct Measured {
    pub(super) study: &'static str,
    pub(super) name: &'static str,
    levels: &'static [&'static str],
    /// Maximum window in packets (DCA table 3-1).
    window: f64,
    /// Paper's row of table 3-4, by time of day.
    indication: [&'static str; 5],
    /// Paper's row of table 3-5.
    degradation: [&'static str; 5],
}

const CONGESTION: &[&str] = &["heavy", "light"];

pub(super) const PATHS: [Measured; 3] = [
    Measured {
        study: EMORY,
        name: "path 1, Emory",
        levels: &LEVELS,
        window: 12.0,
        indication: [
            "0.186 (0.1)",
            "0.2 (0.036)",
            "0.137 (0.068)",
            "0.162 (0.034)",
            "0.149 (0.022)",
        ],
        degradation: [
            "-54 (13) (-70, -40)",
            "-50 (9) (-60, -40)",
            "-53 (17) (-73, -34)",
            "-33 (15) (-50, -16)",
            "-44 (22) (-70, -20)",
        ],
    },
    Measured {
        study: ASU,
        name: "path 7, ASU",
        levels: &LEVELS,
        window: 6.0,
        indication: [
            "0.081 (0.011)",
            "0.072 (0.015)",
            "0.073 (0.022)",
            "0.063 (2.0)",
            "0.068 (0.023)",
        ],
        degradation: [
            "-19 (9) (-29, -9)",
            "-13 (7) (-21, -4)",
            "-5.4 (6.6) (-13, 2.2)",
            "-4.2 (2.1) (-6, -2)",
            "-12 (10) (-24, -1)",
        ],
    },
    Measured {
        study: ALTERED,
        name: "altered Emory model",
        levels: CONGESTION,
        window: 12.0,
        indication: [""; 5],
        degradation: [""; 5],
    },
];

/// Returns the tcpRTT series of a group.
pub(super) fn series<'a>(o: &'a Outcome, group: &str) -> Option<&'a [RttSample]> {
    o.groups.get(group)?.rtt.as_ref().map(|rtt| rtt.samples.as_slice())
}

/// Returns P\[sampledRTT(2) > windowAVG(20) + std\] of a group's series.
pub(super) fn predicted(o: &Outcome, group: &str) -> Option<f64> {
    indication(series(o, group)?, DelayEvent::default()).probability
}

/// Returns the mean and the mean deviation of round trips, in seconds.
pub(super) fn round_trips(samples: &[RttSample]) -> Option<(f64, f64)> {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.rtt.as_secs_f64()).sum::<f64>() / n;
    let off = samples.iter().map(|s| (s.rtt.as_secs_f64() - mean).abs()).sum::<f64>() / n;
    (!samples.is_empty()).then_some((mean, off))
}

/// Returns the predicted change of throughput by DCA, in percent (DCA §3.3).
pub(super) fn degradation(o: &Outcome, window: f64) -> Option<f64> {
    let samples = series(o, "reno")?;
    let group = o.groups.get("reno")?;
    let (mean, off) = round_trips(samples)?;
    let path = SendRate {
        rtt: Duration::from_secs_f64(mean),
        // RFC 9002 §6.2.1: smoothed round trip, four times the mean deviation, the peer's maximum
        // delay.
        timeout: Duration::from_secs_f64(mean + 4.0 * off) + Duration::from_millis(25),
        packets_per_ack: 2.0,
        max_window: Some(window),
    };
    let counts = replay(samples, DelayEvent::default(), Epoch::Average);
    let counts = Counts {
        sent: group.sent,
        retransmits: group.lost,
        reactions: counts.reactions,
        avoided: counts.avoided,
    };
    predict(&path, counts, Timeouts::OfLosses).map(|p| p.degradation_percent)
}

impl Measured {
    pub(super) fn predicted(&self, results: &Results, level: &str) -> BySeed {
        results.by_seed(self.study, &[("level", level)], |o| predicted(o, "reno"))
    }

    pub(super) fn degradation(&self, results: &Results, level: &str) -> BySeed {
        results.by_seed(self.study, &[("level", level)], |o| degradation(o, self.window))
    }

    /// Returns the mean over the levels, for the seeds that all levels have.
    pub(super) fn over_levels(&self, of: impl Fn(&str) -> BySeed) -> BySeed {
        let sum = self
            .levels
            .iter()
            .map(|level| of(level))
            .reduce(|sum, level| sum.zip(&level, |a, b| Some(a + b)));
        sum.unwrap_or_default().map(|sum| sum / self.levels.len() as f64)
    }

    /// Returns a row with our numbers by level and the paper's by time of day.
    fn by_level(&self, of: impl Fn(&str) -> BySeed, paper: [&str; 5], paper_all: &str) -> Row {
        let there = |level: &&str| {
            self.levels.contains(level).then(|| of(level)).and_then(|v| v.estimate())
        };
        let ours = LEVELS.iter().chain(CONGESTION).map(|level| Entry::new(there(level), ""));
        let paper = paper.into_iter().map(|printed| Entry::new(None, printed));
        // The paper's range covers its seven paths.
        let paper_all = if self.study == ALTERED { "" } else { paper_all };
        let all = Entry::new(self.over_levels(&of).estimate(), paper_all);
        Row::new(self.name, ours.chain(paper).chain([all]))
    }
}

const COLUMNS: [&str; 13] = [
    "80 % of the users",
    "90 %",
    "100 %",
    "110 %",
    "120 %",
    "heavy",
    "light",
    "9:00AM",
    "11:00AM",
    "1:00PM",
    "3:00PM",
    "5:00PM",
    "all",
];

const STAND_IN: &str = "Our values are by level of background traffic. Levels stand for times of \
                        day, and seeds stand for days. The paper's values were measured over the \
                        Internet at different times of day.";

pub(super) fn table_3_4(r: &Results) -> Artefact {
    let rows = PATHS.iter().map(|path| {
        path.by_level(
            |level| path.predicted(r, level),
            path.indication,
            "0.07 to 0.18 over the seven paths",
        )
    });
    Artefact::table(
        "P[sampledRTT(2) > windowAVG(20) + std] before a loss: mean (deviation)",
        COLUMNS,
        rows,
        STAND_IN,
    )
}

pub(super) fn table_3_5(r: &Results) -> Artefact {
    let rows = PATHS.iter().map(|path| {
        path.by_level(
            |level| path.degradation(r, level),
            path.degradation,
            "-4 to -70 over the seven paths",
        )
    });
    let title = "Predicted change of throughput with DCA, percent: mean (deviation) (95 % confidence interval)";
    Artefact::table(title, COLUMNS, rows, STAND_IN)
}

/// Returns the delay relative to the mean at lags of up to `most` samples from a loss. Each loss
/// counts once, over all runs of a study with the same `part`, such as the runs of a seed.
fn relative_delays<K: Ord>(
    r: &Results,
    study: &str,
    most: usize,
    part: impl Fn(u64) -> K,
) -> BTreeMap<(i32, K), f64> {
    let mut sums: BTreeMap<(i32, K), (f64, f64)> = BTreeMap::new();
    for (seed, outcome) in r.outcomes(study, &[]) {
        for at in series(outcome, "reno").map_or_else(Vec::new, |samples| lagged(samples, most)) {
            let (total, losses) = sums.entry((at.lag, part(seed))).or_default();
            *total += at.relative * at.losses as f64;
            *losses += at.losses as f64;
        }
    }
    sums.into_iter().map(|(at, (total, losses))| (at, total / losses)).collect()
}

/// Returns the relative delay at these lags.
pub(super) fn at_lags<const N: usize>(r: &Results, study: &str, lags: [i32; N]) -> [BySeed; N] {
    let most = lags.iter().map(|lag| lag.unsigned_abs() as usize).max().unwrap_or(0);
    let delays = relative_delays(r, study, most, |seed| seed);
    lags.map(|lag| {
        delays.iter().filter(|((at, _), _)| *at == lag).map(|((_, seed), x)| (*seed, *x)).collect()
    })
}

fn lcdc(r: &Results, study: &str, title: &str, paper: &str) -> Artefact {
    let delays = relative_delays(r, study, LAGS, |_| ());
    let points =
        delays.into_iter().map(|((lag, ()), relative)| (f64::from(lag), relative)).collect();
    let axes = [
        Axis::linear("lag in tcpRTT samples from a loss"),
        Axis::linear("round trip over the mean round trip"),
    ];
    let lines = [Series::line("after and before losses", points)];
    Artefact::figure(
        title,
        axes,
        lines,
        format!("Values are from all levels and seeds together. {paper}"),
    )
}

pub(super) fn figure_3_1(r: &Results) -> Artefact {
    let paper = "On the paper's path 1, the delay has a small rise at lag -1, a larger rise at lag \
                 -10, and no single peak.";
    lcdc(r, EMORY, "Delay conditioned on a loss, Emory", paper)
}

pub(super) fn figure_3_2(r: &Results) -> Artefact {
    lcdc(
        r,
        ASU,
        "Delay conditioned on a loss, ASU",
        "On the paper's path 7, the delay has a single peak around lag +1.",
    )
}

/// Returns sampledRTT(2) before each loss.
fn before_losses(samples: &[RttSample]) -> impl Iterator<Item = Duration> {
    samples
        .windows(2)
        .filter(|pair| pair[1].loss_follows)
        .map(|pair| (pair[0].rtt + pair[1].rtt) / 2)
}

/// Returns the fraction of losses whose sampledRTT(2) does not exceed the median of all samples.
pub(super) fn before_losses_below_median(o: &Outcome) -> Option<f64> {
    let samples = series(o, "reno")?;
    let mut sorted: Vec<Duration> = samples.iter().map(|s| s.rtt).collect();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let (mut below, mut all) = (0u32, 0u32);
    for sampled in before_losses(samples) {
        all += 1;
        below += u32::from(sampled <= median);
    }
    (all > 0).then(|| f64::from(below) / f64::from(all))
}

pub(super) fn figure_3_3(r: &Results) -> Artefact {
    let (mut all, mut before) = (Latencies::default(), Latencies::default());
    for samples in r.outcomes(EMORY, &[]).filter_map(|(_, o)| series(o, "reno")) {
        samples.iter().for_each(|s| all.record(s.rtt));
        before_losses(samples).for_each(|rtt| before.record(rtt));
    }
    let axes =
        [Axis::linear("round trip in ms"), Axis::linear("cumulative fraction").over(0.0, 1.0)];
    let lines = [("tcpRTT", all), ("sampledRTT(2) before losses", before)];
    let lines = lines.map(|(name, latencies)| Series::line(name, latencies.distribution().cdf));
    Artefact::figure(
        "Round trips, and those before losses, Emory",
        axes,
        lines,
        "Values are from all levels and seeds together.",
    )
}
