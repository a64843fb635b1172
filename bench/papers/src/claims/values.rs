//! Verdicts on measured values, and curves, for the reports of several papers.

use fathom_experiments::scenario::Outcome;
use fathom_metrics::Estimate;
use fathom_report::Series;

use super::{all, opposite};
use crate::{Results, Verdict};

/// A single run decides only where it is off by more than this part of what it is compared with: ours.
const ONE_RUN: f64 = 0.1;

/// The mean of `values` lies above `limit`: held where the whole interval does, not held where the whole interval lies below.
pub(crate) fn above(values: &[f64], limit: f64) -> Verdict {
    signed(Estimate::of(&values.iter().map(|v| v - limit).collect::<Vec<_>>()), limit.abs())
}

/// The mean of `values` lies below `limit`.
pub(crate) fn below(values: &[f64], limit: f64) -> Verdict {
    opposite(above(values, limit))
}

/// The mean of `values` lies from `low` to `high`.
pub(crate) fn within(values: &[f64], low: f64, high: f64) -> Verdict {
    all([above(values, low), below(values, high)])
}

/// `a` is more than `b`, seed by seed.
pub(crate) fn more(a: &[f64], b: &[f64]) -> Verdict {
    let scale = b.iter().chain(a).fold(0.0_f64, |most, v| most.max(v.abs()));
    signed(Estimate::of_differences(a, b), scale)
}

/// `a` is less than `b`, seed by seed.
pub(crate) fn less(a: &[f64], b: &[f64]) -> Verdict {
    more(b, a)
}

/// A difference is positive; `scale` is what a single one is compared with.
fn signed(difference: Option<Estimate>, scale: f64) -> Verdict {
    let Some(e) = difference else { return Verdict::Undecided };
    let sure = if e.half_width.is_some() { e.is_significant() } else { e.mean.abs() > ONE_RUN * scale };
    match sure {
        true if e.mean > 0.0 => Verdict::Held,
        true => Verdict::NotHeld,
        false => Verdict::Undecided,
    }
}

/// `12.3 ± 0.4`, or that there is nothing.
pub(crate) fn shown(values: &[f64]) -> String {
    Estimate::of(values).map_or_else(|| "not measured".into(), |e| e.to_string())
}

/// A curve over an axis of numbers; `fixed` are the values of the other axes.
pub(crate) fn curve(
    results: &Results,
    study: &str,
    axis: &str,
    fixed: &[(&str, &str)],
    name: &str,
    of: impl Fn(&Outcome) -> Option<f64> + Copy,
) -> Series {
    let mut points: Vec<(f64, Estimate)> = results
        .axis(study, axis)
        .iter()
        .filter_map(|value| {
            let key = with(fixed, axis, value);
            Some((value.parse().ok()?, results.estimate(study, &key, of)?))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    series(name, &points)
}

/// A curve through these estimates.
pub(crate) fn series(name: &str, points: &[(f64, Estimate)]) -> Series {
    let several = points.iter().any(|(_, e)| e.half_width.is_some());
    Series {
        name: name.into(),
        points: points.iter().map(|(x, e)| (*x, e.mean)).collect(),
        spread: several.then(|| points.iter().map(|(_, e)| e.half_width.unwrap_or(0.0)).collect()),
        scatter: false,
    }
}

/// Points that a paper's text gives.
pub(crate) fn marks(name: &str, points: &[(f64, f64)]) -> Series {
    Series { name: name.into(), points: points.to_vec(), spread: None, scatter: true }
}

/// A key with one more axis.
pub(crate) fn with<'a>(fixed: &[(&'a str, &'a str)], axis: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    fixed.iter().copied().chain([(axis, value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Held, NotHeld, Undecided};

    #[test]
    fn a_limit_inside_the_interval_decides_nothing() {
        // Mean 10, deviation 1, three seeds: the half width is 4.303 / sqrt 3 = 2.484.
        let values = [9.0, 10.0, 11.0];
        let verdicts = [7.5, 7.6, 10.0, 12.4, 12.5].map(|limit| above(&values, limit));
        assert_eq!(verdicts, [Held, Undecided, Undecided, Undecided, NotHeld]);
        assert_eq!((below(&values, 12.5), below(&values, 7.5)), (Held, NotHeld));
        assert_eq!(within(&values, 7.0, 13.0), Held);
        assert_eq!(within(&values, 7.0, 11.0), Undecided);
        assert_eq!(within(&values, 1.0, 2.0), NotHeld);
        assert_eq!(above(&[], 0.0), Undecided);
    }

    #[test]
    fn pairs_are_judged_by_their_differences() {
        let (a, b) = ([10.0, 20.0, 30.0], [9.0, 19.1, 29.0]);
        assert_eq!((more(&a, &b), less(&a, &b), less(&b, &a)), (Held, NotHeld, Held));
        assert_eq!(more(&a, &b[..2]), Undecided, "not the same seeds");
        assert_eq!(more(&[0.0; 3], &[0.0; 3]), Undecided);
    }

    #[test]
    fn one_run_decides_only_large_differences() {
        assert_eq!((more(&[10.0], &[8.9]), more(&[10.0], &[9.1])), (Held, Undecided));
        assert_eq!((above(&[10.0], 9.0), above(&[10.0], 9.5), above(&[10.0], 12.0)), (Held, Undecided, NotHeld));
    }
}
