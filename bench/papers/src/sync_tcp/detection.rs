//! Figure 2: a sender's estimate of the queueing delay compared with the queue. The sender of the
//! run detects congestion but does not react.

use std::collections::BTreeMap;

use fathom_cc::sync_tcp::detect::{SAMPLES, STEP, Trend, trend};
use fathom_experiments::scenario::Outcome;
use fathom_report::{Axis, Series};

use super::DETECTION;
use crate::claims::above;
use crate::results::BySeed;
use crate::{Artefact, ClaimCheck, Finding, Results, claim};

/// Fraction of the run after which the figure begins.
const SHOWN: f64 = 0.5;
/// Milliseconds that a packet of 1420 bytes takes at 10 Mbps.
const PACKET_MS: f64 = 1_420.0 * 8.0 / 10_000.0;
/// Minimum correlation at which an estimate tracks the queue. Our choice.
const TRACKS: f64 = 0.7;
/// Minimum fraction of the verdicts that agree with the queue's slope. Our choice.
const AGREES: f64 = 0.8;
/// Longest lag of the estimate in seconds: a full queue in both directions, the base round trip and
/// eight ACKs.
const LONGEST_LAG: f64 = 1.0;

pub(super) const CLAIMS: &[ClaimCheck] = &[
    claim("sync-detection-tracks-queue", "Sync-TCP §3.3, figure 2", &[DETECTION])
        .says("the averaged queueing delay tracks the actual queueing delay relatively well, with a lag")
        .test("with a fixed lag of at most 1 s, Pearson's correlation between the estimate and the \
               queue is at least 0.7 (our choice)")
        .asks(|r| {
            let best = detected(r, |o| Some(best_correlation(o)?.0));
            let lag = detected(r, |o| Some(best_correlation(o)?.1));
            Finding::new(above(&best, TRACKS), format!("correlation {best} at a lag of {lag} s"))
        }),
    claim("sync-detection-tracks-trend", "Sync-TCP §3.3, figure 2", &[DETECTION])
        .says("the trend analysis can track the trend of the queueing delay well")
        .test(
            "at least 80 % (our choice) of the trend verdicts agree with the trend of the link's \
             queue. The queue's trend is the sign of its least-squares slope during the nine \
             averages of a verdict, shifted by the lag of the best correlation",
        )
        .asks(|r| {
            let agree = detected(r, agreement);
            Finding::new(above(&agree, AGREES), format!("fraction of the verdicts that agree: {agree}"))
        }),
];

fn detected(r: &Results, of: impl Fn(&Outcome) -> Option<f64>) -> BySeed {
    r.by_seed(DETECTION, &[], of)
}

/// Returns the estimates of the traced sender, one per acknowledgement, in seconds and
/// milliseconds.
fn estimates(o: &Outcome) -> Vec<(f64, f64)> {
    let points = o.groups.get("forward").into_iter().flat_map(|g| &g.window);
    let mut samples: Vec<(f64, f64)> =
        points.filter_map(|p| Some((p.at, p.queueing_ms?))).collect();
    // The trace also has points at losses and sends, at which the average is unchanged.
    samples.dedup_by_key(|(_, ms)| *ms);
    samples
}

/// Returns the verdicts as in Sync-TCP §3.3: with the ninth average and every third after it, each
/// with the index of its last average.
fn verdicts(samples: &[(f64, f64)]) -> impl Iterator<Item = (usize, Trend)> + '_ {
    samples.windows(SAMPLES).enumerate().step_by(STEP).map(|(first, nine)| {
        let averages: [u64; SAMPLES] = std::array::from_fn(|i| (nine[i].1 * 1e6) as u64);
        (first + SAMPLES - 1, trend(&averages))
    })
}

/// Returns the queue of each bin as delay in milliseconds, with the width of the bins in seconds.
fn delays(o: &Outcome) -> Option<(f64, Vec<f64>)> {
    let link = o.links.get("left-right").filter(|l| l.bin_seconds > 0.0)?;
    Some((link.bin_seconds, link.queue_mean.iter().map(|packets| packets * PACKET_MS).collect()))
}

/// Returns Pearson's correlation.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    (spread > 0.0).then(|| sum(&|x, y| x * y) / spread)
}

/// Returns the best correlation of the estimates with an earlier queue, and the lag in seconds.
fn best_correlation(o: &Outcome) -> Option<(f64, f64)> {
    let (width, queue) = delays(o)?;
    let samples = estimates(o);
    let shown = samples.iter().filter(|(at, _)| *at >= SHOWN * o.seconds);
    let lags = (0..=(LONGEST_LAG / width) as usize).filter_map(|lag| {
        let pair = |(at, ms): &(f64, f64)| {
            Some((*ms, *queue.get(((at / width) as usize).checked_sub(lag)?)?))
        };
        Some((
            correlation(&shown.clone().filter_map(pair).collect::<Vec<_>>())?,
            lag as f64 * width,
        ))
    });
    lags.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the slope of the queue by least squares over the bins whose middle lies in this time;
/// `None` if there are fewer than two.
fn slope(queue: &[f64], width: f64, from: f64, to: f64) -> Option<f64> {
    let middle = |bin: usize| (bin as f64 + 0.5) * width;
    let bins: Vec<(f64, f64)> = (queue.iter().enumerate().map(|(bin, ms)| (middle(bin), *ms)))
        .filter(|(at, _)| (from..=to).contains(at))
        .collect();
    let mean = bins.iter().map(|(at, _)| at).sum::<f64>() / bins.len() as f64;
    (bins.len() > 1).then(|| bins.iter().map(|(at, ms)| (at - mean) * ms).sum())
}

/// Returns the fraction of the verdicts whose trend agrees with that of the queue, shifted by the
/// lag of the estimate.
fn agreement(o: &Outcome) -> Option<f64> {
    let (width, queue) = delays(o)?;
    let (_, lag) = best_correlation(o)?;
    let samples = estimates(o);
    let agrees = |(last, trend): (usize, Trend)| {
        let [from, to] = [last + 1 - SAMPLES, last].map(|i| samples[i].0 - lag);
        let slope = slope(&queue, width, from, to)?;
        Some(match trend {
            Trend::Increasing => slope > 0.0,
            Trend::Decreasing => slope < 0.0,
            Trend::Level => slope == 0.0,
        })
    };
    let judged: Vec<bool> = verdicts(&samples).filter_map(agrees).collect();
    (!judged.is_empty())
        .then(|| judged.iter().filter(|agrees| **agrees).count() as f64 / judged.len() as f64)
}

/// Draws the queue, the estimates by their trend, and the borders of the regions.
pub(super) fn figure(results: &Results) -> Artefact {
    let series = results.outcomes(DETECTION, &[]).next().map_or_else(Vec::new, |(_, o)| series(o));
    let note = "The figure shows the second half of the run with the first seed. The queueing \
                delay is a mean per time bin. Trends are computed from the averages that the \
                sender reported. \"The largest\" in the legend is the delay of the longest queue \
                in the whole run.";
    let axes = [Axis::linear("Time (s)"), Axis::linear("Queueing delay (ms)")];
    Artefact::figure("Sync-TCP congestion detection", axes, series, note)
}

fn series(o: &Outcome) -> Vec<Series> {
    let Some((width, queue)) = delays(o) else { return Vec::new() };
    let from = SHOWN * o.seconds;
    let actual = queue.iter().enumerate().map(|(bin, ms)| ((bin as f64 + 0.5) * width, *ms));
    let samples = estimates(o);
    let by_ack: BTreeMap<usize, Trend> = verdicts(&samples).collect();
    let marks = |name, wanted: Option<Trend>| {
        let chosen = samples.iter().enumerate().filter(|(i, _)| by_ack.get(i).copied() == wanted);
        Series::marks(name, chosen.map(|(_, point)| *point).filter(|(at, _)| *at >= from).collect())
    };
    let max = o
        .links
        .get("left-right")
        .map_or(0.0, |l| l.queue_max.iter().copied().fold(0.0, f64::max) * PACKET_MS);
    let border = |part: f64| {
        Series::line(
            format!("{:.0} % of the largest", part * 100.0),
            vec![(from, part * max), (o.seconds, part * max)],
        )
    };
    [
        Series::line("queueing delay", actual.filter(|(at, _)| *at >= from).collect()),
        marks("average, no new trend", None),
        marks("average, decreasing", Some(Trend::Decreasing)),
        marks("average, increasing", Some(Trend::Increasing)),
    ]
    .into_iter()
    .chain([0.25, 0.5, 0.75, 1.0].map(border))
    .collect()
}
