//! Verdicts over estimates. Whatever has no confidence interval, such as the result of one seed, decides nothing.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use fathom_metrics::Estimate;

use super::super::Verdict;
use super::super::claims::opposite;

/// It lies below zero, beyond its confidence interval.
pub(super) fn below_zero(e: Option<Estimate>) -> Verdict {
    match e {
        Some(e) if e.is_significant() && e.mean < 0.0 => Verdict::Held,
        Some(e) if e.is_significant() && e.mean > 0.0 => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// It lies above zero, beyond its confidence interval.
pub(super) fn above_zero(e: Option<Estimate>) -> Verdict {
    opposite(below_zero(e))
}

/// Its confidence interval lies in the range: held; outside: not held.
pub(super) fn within(e: Option<Estimate>, low: f64, high: f64) -> Verdict {
    match e.and_then(|e| e.interval()) {
        Some((from, to)) if from >= low && to <= high => Verdict::Held,
        Some((from, to)) if to < low || from > high => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// The first varies more than the second, by the F test of their variances at 5 %, two-sided.
pub(super) fn varies_more(a: Option<Estimate>, b: Option<Estimate>) -> Verdict {
    let freedom = |e: Estimate| Some((e.deviation?.powi(2), e.n.checked_sub(1).filter(|n| *n > 0)? as f64));
    let ratio = || {
        let ((a, n), (b, m)) = (freedom(a?)?, freedom(b?)?);
        let f = FisherSnedecor::new(n, m).ok()?;
        (b > 0.0).then(|| (a / b, f.inverse_cdf(0.025), f.inverse_cdf(0.975)))
    };
    match ratio() {
        Some((ratio, _, high)) if ratio > high => Verdict::Held,
        Some((ratio, low, _)) if ratio < low => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// `-12.0 ± 3.4`, or that it is missing.
pub(super) fn shown(e: Option<Estimate>) -> String {
    e.map_or_else(|| "not measured".into(), |e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Option<Estimate> {
        Estimate::of(values)
    }

    #[test]
    fn signs_and_ranges_respect_intervals() {
        // 1, 2, 3: mean 2, half width 4.303 / sqrt 3 = 2.48; 11, 12, 13 lies above zero.
        assert_eq!(above_zero(of(&[1.0, 2.0, 3.0])), Verdict::Undecided);
        assert_eq!(above_zero(of(&[11.0, 12.0, 13.0])), Verdict::Held);
        assert_eq!(below_zero(of(&[11.0, 12.0, 13.0])), Verdict::NotHeld);
        assert_eq!((below_zero(None), below_zero(of(&[-5.0]))), (Verdict::Undecided, Verdict::Undecided));
        // 12 +- 2.48 lies in 9 to 15, across 10, and outside 20 to 30.
        let e = of(&[11.0, 12.0, 13.0]);
        assert_eq!(within(e, 9.0, 15.0), Verdict::Held);
        assert_eq!(within(e, 10.0, 15.0), Verdict::Undecided);
        assert_eq!(within(e, 20.0, 30.0), Verdict::NotHeld);
    }

    #[test]
    fn variances_are_compared_by_f() {
        // With nine degrees of freedom each the bounds are 4.03 and 1/4.03 (tables of F).
        let spread = |by: f64| {
            let values: Vec<f64> = (0..10).map(|n| f64::from(n) * by).collect();
            of(&values)
        };
        assert_eq!(varies_more(spread(2.02), spread(1.0)), Verdict::Held, "a ratio of 4.08");
        assert_eq!(varies_more(spread(1.99), spread(1.0)), Verdict::Undecided, "a ratio of 3.96");
        assert_eq!(varies_more(spread(1.0), spread(2.02)), Verdict::NotHeld);
        assert_eq!(varies_more(of(&[1.0]), spread(1.0)), Verdict::Undecided);
    }
}
