//! Numbers of Sync-TCP's web traffic with measured noise.

use fathom_experiments::scenario::Outcome;

use super::curves::{AFTER_400, Curve, FIRST, TIMES, times};
use super::{drops, goodput, mean, median, queue, size};
use crate::claims::NEVER;
use crate::noise::Noise;

#[cfg(test)]
use super::detection::{AGREEMENT, CORRELATION};

const WEB: &str = "noise-web";

pub(super) const LEVEL: Noise =
    Noise::absolute(WEB, "mean fraction within 100 to 1500 ms", |o| fraction(o, &TIMES));
pub(super) const EARLY: Noise =
    Noise::absolute(WEB, "mean fraction within 50 to 350 ms", |o| fraction(o, &FIRST));
pub(super) const LATE: Noise =
    Noise::absolute(WEB, "mean fraction within 500 to 1500 ms", |o| fraction(o, AFTER_400));
pub(super) const AT_200: Noise =
    Noise::absolute(WEB, "fraction within 200 ms", |o| fraction(o, &[200.0]));
const AT_500: Noise = Noise::absolute(WEB, "fraction within 500 ms", |o| fraction(o, &[500.0]));
const AT_1000: Noise = Noise::absolute(WEB, "fraction within 1000 ms", |o| fraction(o, &[1_000.0]));
pub(super) const DROPS: Noise = Noise::relative(WEB, "drops in %", drops);
pub(super) const QUEUE: Noise = Noise::relative(WEB, "packets", queue);
pub(super) const SIZE: Noise = Noise::relative(WEB, "bytes", size);
pub(super) const GOODPUT: Noise = Noise::relative(WEB, "kbps", goodput);
pub(super) const MEDIAN: Noise = Noise::relative(WEB, "median in ms", median);
pub(super) const MEAN: Noise = Noise::relative(WEB, "mean in ms", mean);
pub(super) const LARGE_PERCENT: Noise =
    Noise::absolute(WEB, "responses above 25 kB in %", |o| large_percent(o, "forward"));
const LARGE_1: Noise = Noise::absolute(WEB, "fraction of them within 1 s", |o| large(o, 1.0));
const LARGE_5: Noise = Noise::absolute(WEB, "fraction of them within 5 s", |o| large(o, 5.0));
const LARGE_20: Noise = Noise::absolute(WEB, "fraction of them within 20 s", |o| large(o, 20.0));
pub(super) const LONGEST: Noise =
    Noise::relative(WEB, "longest of them in s", largest_seconds_of_all).of_one_seed();

/// All numbers with measured noise, with those of figure 2.
#[cfg(test)]
pub(crate) const NOISE: &[Noise] = &[
    LEVEL,
    EARLY,
    LATE,
    AT_200,
    AT_500,
    AT_1000,
    DROPS,
    QUEUE,
    SIZE,
    GOODPUT,
    MEDIAN,
    MEAN,
    LARGE_PERCENT,
    LARGE_1,
    LARGE_5,
    LARGE_20,
    LONGEST,
    CORRELATION,
    AGREEMENT,
];

fn fraction(o: &Outcome, at: &[f64]) -> Option<f64> {
    let times = times(o, "forward")?;
    Some(at.iter().map(|ms| times.within_ms(*ms)).sum::<f64>() / at.len() as f64)
}

fn large(o: &Outcome, seconds: f64) -> Option<f64> {
    Some(o.groups.get("forward")?.times_large.as_ref()?.within_ms(seconds * 1e3))
}

/// Returns the responses of a group above 25 kB, in percent of all.
pub(super) fn large_percent(o: &Outcome, group: &str) -> Option<f64> {
    let large = o.groups.get(group)?.times_large.as_ref().map_or(0, |t| t.count);
    Some(100.0 * large as f64 / o.groups.get("forward")?.responses as f64)
}

/// Returns the duration of the slowest of the responses above 25 kB.
fn largest_seconds_of_all(o: &Outcome) -> Option<f64> {
    Some(o.groups.get("forward")?.times_large.as_ref()?.max_ms / 1e3)
}

/// Returns the noise of the fraction within this many milliseconds: the noise at the last measured
/// time before, at which the fraction varies more.
pub(super) fn within(ms: f64) -> Noise {
    if ms < 500.0 {
        AT_200
    } else if ms < 1_000.0 {
        AT_500
    } else {
        AT_1000
    }
}

/// Returns the noise of the fraction of responses above 25 kB within this many seconds.
pub(super) fn large_within(seconds: f64) -> Noise {
    if seconds < 5.0 {
        LARGE_1
    } else if seconds < 20.0 {
        LARGE_5
    } else {
        LARGE_20
    }
}

/// Returns the minimum difference between two curves of one seed. Noise was measured at 75% load
/// only.
pub(super) fn between(noise: Noise, a: &Curve, b: &Curve, pairs: &[(f64, f64)]) -> f64 {
    let (Some(a), Some(b)) = (a.system_at_75(), b.system_at_75()) else { return NEVER };
    noise.between(a, b, pairs)
}

/// Returns the minimum distance of one seed's number from a bound.
pub(super) fn beside_bound(noise: Noise, curve: &Curve, pairs: &[(f64, f64)]) -> f64 {
    let system = curve.system_at_75();
    system.zip(pairs.first()).map_or(NEVER, |(system, pair)| noise.beside_bound(system, pair.0))
}
