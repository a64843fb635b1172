//! Tables 3-4 and 3-5, figures 3-1 to 3-3: the metrics of DCA §3 on the tcpRTT series of a Reno connection.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_cc::dca::Epoch;
use fathom_experiments::scenario::Outcome;
use fathom_metrics::{
    Counts, DelayEvent, LAGS, Latencies, RttSample, SendRate, Timeouts, indication, lagged, predict, replay,
};
use fathom_report::{Axis, Entry, Figure, Row, Series};

use super::super::{Artefact, Body, Results};
use super::{ALTERED, ASU, BySeed, EMORY, LEVELS, by_seed, entry, estimate, mean_of, row, table};

/// A path of ours beside one of the paper's.
pub(super) struct Measured {
    pub(super) study: &'static str,
    pub(super) name: &'static str,
    levels: &'static [&'static str],
    /// Largest window in packets (DCA table 3-1).
    window: f64,
    /// The paper's row of table 3-4, by time of day.
    indication: [&'static str; 5],
    /// The paper's row of table 3-5.
    degradation: [&'static str; 5],
}

const CONGESTION: &[&str] = &["heavy", "light"];

pub(super) const PATHS: [Measured; 3] = [
    Measured {
        study: EMORY,
        name: "path 1, Emory",
        levels: &LEVELS,
        window: 12.0,
        indication: [".186 (.1)", ".2 (.036)", ".137 (.068)", ".162 (.034)", ".149 (.022)"],
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
        indication: [".081 (.011)", ".072 (.015)", ".073 (.022)", ".063 (2.0)", ".068 (.023)"],
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

/// The tcpRTT series of a group.
pub(super) fn series<'a>(o: &'a Outcome, group: &str) -> Option<&'a [RttSample]> {
    o.groups.get(group)?.rtt.as_ref().map(|rtt| rtt.samples.as_slice())
}

/// P\[sampledRTT(2) > windowAVG(20) + std\] of a group's series.
pub(super) fn predicted(o: &Outcome, group: &str) -> Option<f64> {
    indication(series(o, group)?, DelayEvent::default()).probability
}

/// Mean and mean deviation of round trips, in seconds.
pub(super) fn round_trips(samples: &[RttSample]) -> Option<(f64, f64)> {
    let n = samples.len() as f64;
    let mean = samples.iter().map(|s| s.rtt.as_secs_f64()).sum::<f64>() / n;
    let off = samples.iter().map(|s| (s.rtt.as_secs_f64() - mean).abs()).sum::<f64>() / n;
    (!samples.is_empty()).then_some((mean, off))
}

/// What DCA would change of the throughput, in percent (DCA §3.3).
pub(super) fn degradation(o: &Outcome, window: f64) -> Option<f64> {
    let samples = series(o, "reno")?;
    let group = o.groups.get("reno")?;
    let (mean, off) = round_trips(samples)?;
    let path = SendRate {
        rtt: Duration::from_secs_f64(mean),
        // RFC 9002 §6.2.1: smoothed round trip, four times the mean deviation, the peer's largest delay.
        timeout: Duration::from_secs_f64(mean + 4.0 * off) + Duration::from_millis(25),
        packets_per_ack: 2.0,
        max_window: Some(window),
    };
    let counts = replay(samples, DelayEvent::default(), Epoch::Average);
    let counts =
        Counts { sent: group.sent, retransmits: group.lost, reactions: counts.reactions, avoided: counts.avoided };
    predict(&path, counts, Timeouts::OfLosses).map(|p| p.degradation_percent)
}

impl Measured {
    pub(super) fn predicted(&self, results: &Results, level: &str) -> BySeed {
        by_seed(results, self.study, &[("level", level)], |o| predicted(o, "reno"))
    }

    pub(super) fn degradation(&self, results: &Results, level: &str) -> BySeed {
        by_seed(results, self.study, &[("level", level)], |o| degradation(o, self.window))
    }

    /// Mean over the levels, seed by seed.
    pub(super) fn over_levels(&self, of: impl Fn(&str) -> BySeed) -> BySeed {
        mean_of(&self.levels.iter().map(|level| of(level)).collect::<Vec<_>>())
    }
}

/// A row of ours by level and of the paper's by time of day.
fn by_level(path: &Measured, of: impl Fn(&str) -> BySeed, paper: &[&str; 5], paper_all: &str) -> Row {
    let columns = LEVELS.iter().chain(CONGESTION);
    let ours = columns.map(|level| path.levels.contains(level).then(|| of(level)).and_then(|v| estimate(&v)));
    let mut entries: Vec<Entry> = ours.map(|ours| entry(ours, "")).collect();
    entries.extend(paper.iter().map(|printed| entry(None, printed)));
    entries.push(entry(estimate(&path.over_levels(&of)), paper_all));
    row(path.name, entries)
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

const STAND_IN: &str = "Ours by level of background, which stands for the time of day, with seeds for days; the paper's by time of day, \
                        measured over the Internet.";

pub(super) fn table_3_4(results: &Results) -> Artefact {
    let rows = PATHS.iter().map(|path| {
        let all = if path.study == ALTERED { "" } else { ".07 to .18 over the seven paths" };
        by_level(path, |level| path.predicted(results, level), &path.indication, all)
    });
    let title = "P[sampledRTT(2) > windowAVG(20) + std] before a loss: mean (deviation)";
    table("table 3-4", title, &COLUMNS, rows.collect(), STAND_IN)
}

pub(super) fn table_3_5(results: &Results) -> Artefact {
    let rows = PATHS.iter().map(|path| {
        let all = if path.study == ALTERED { "" } else { "-4 to -70 over the seven paths" };
        by_level(path, |level| path.degradation(results, level), &path.degradation, all)
    });
    let title = "Predicted change of throughput with DCA, percent: mean (deviation) (95 % confidence interval)";
    table("table 3-5", title, &COLUMNS, rows.collect(), STAND_IN)
}

/// Delay at each lag relative to the mean, over all runs of a study, each loss counting once.
fn lag_curve(results: &Results, study: &str) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
    for (_, outcome) in results.outcomes(study, &[]) {
        for at in series(outcome, "reno").map_or_else(Vec::new, |samples| lagged(samples, LAGS)) {
            let sum = sums.entry(at.lag).or_default();
            sum.0 += at.relative * at.losses as f64;
            sum.1 += at.losses as f64;
        }
    }
    sums.into_iter().map(|(lag, (total, losses))| (f64::from(lag), total / losses)).collect()
}

/// Relative delay at these lags, the mean over a seed's runs weighted by their losses.
pub(super) fn at_lags(results: &Results, study: &str, lags: &[i32]) -> Vec<BySeed> {
    let most = lags.iter().map(|lag| lag.unsigned_abs() as usize).max().unwrap_or(0);
    let mut sums: Vec<BTreeMap<u64, (f64, f64)>> = vec![BTreeMap::new(); lags.len()];
    for (seed, outcome) in results.outcomes(study, &[]) {
        for at in series(outcome, "reno").map_or_else(Vec::new, |samples| lagged(samples, most)) {
            if let Some(place) = lags.iter().position(|lag| *lag == at.lag) {
                let sum = sums[place].entry(seed).or_default();
                sum.0 += at.relative * at.losses as f64;
                sum.1 += at.losses as f64;
            }
        }
    }
    sums.into_iter().map(|s| s.into_iter().map(|(seed, (total, losses))| (seed, total / losses)).collect()).collect()
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), log: false, range: None }
}

fn curve(name: &str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), points, spread: None, scatter: false }
}

fn lcdc(results: &Results, id: &str, study: &str, title: &str, note: &str) -> Artefact {
    let figure = Figure {
        x: axis("lag in tcpRTT samples from a loss"),
        y: axis("round trip over the mean round trip"),
        series: vec![curve("after and before losses", lag_curve(results, study))],
    };
    Artefact { id: id.into(), title: title.into(), body: Body::Figure(figure), note: note.into() }
}

pub(super) fn figure_3_1(results: &Results) -> Artefact {
    let note = "All levels and seeds together. In the paper's path 1 there is some rise at lag -1, a larger one at -10, and no single peak.";
    lcdc(results, "figure 3-1", EMORY, "Delay conditioned on a loss, Emory", note)
}

pub(super) fn figure_3_2(results: &Results) -> Artefact {
    let note = "All levels and seeds together. The paper's path 7 has its one peak around lag +1.";
    lcdc(results, "figure 3-2", ASU, "Delay conditioned on a loss, ASU", note)
}

/// sampledRTT(2) before each loss.
fn before_losses(samples: &[RttSample]) -> impl Iterator<Item = Duration> {
    samples.windows(2).filter(|pair| pair[1].loss_follows).map(|pair| (pair[0].rtt + pair[1].rtt) / 2)
}

/// Part of the losses whose sampledRTT(2) does not exceed the median of all samples.
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

pub(super) fn figure_3_3(results: &Results) -> Artefact {
    let (mut all, mut before) = (Latencies::default(), Latencies::default());
    for samples in results.outcomes(EMORY, &[]).filter_map(|(_, o)| series(o, "reno")) {
        samples.iter().for_each(|s| all.record(s.rtt));
        before_losses(samples).for_each(|rtt| before.record(rtt));
    }
    let figure = Figure {
        x: axis("round trip in ms"),
        y: Axis { label: "fraction that is no longer".into(), log: false, range: Some((0.0, 1.0)) },
        series: vec![
            curve("tcpRTT", all.distribution().cdf),
            curve("sampledRTT(2) before losses", before.distribution().cdf),
        ],
    };
    Artefact {
        id: "figure 3-3".into(),
        title: "Round trips, and those before losses, Emory".into(),
        body: Body::Figure(figure),
        note: "All levels and seeds together.".into(),
    }
}
