//! Claims and their verdicts: what counts as a difference, and how several verdicts combine.
//!
//! Numbers of the same seeds are compared as pairs. With several seeds a difference counts when zero lies outside its 95 % confidence
//! interval; with one seed, when it is larger than a margin that the claim names. Both margins below are ours.

pub(super) mod values;

use fathom_experiments::scenario::Outcome;
use fathom_metrics::Estimate;

use super::{Claim, Results, Verdict};

/// With one seed: part of the larger of two means.
pub(super) const MARGIN: f64 = 0.05;
/// With one seed, of fractions of responses: half a percent of all.
pub(super) const FRACTION_MARGIN: f64 = 0.005;

/// The verdict on a claim, and the measured numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) numbers: String,
}

/// A claim with its predicate.
pub(super) struct ClaimCheck {
    pub(super) id: &'static str,
    pub(super) source: &'static str,
    pub(super) says: &'static str,
    pub(super) test: &'static str,
    /// Without results of all of them the claim is left out.
    pub(super) studies: &'static [&'static str],
    pub(super) predicate: fn(&Results) -> Finding,
}

impl ClaimCheck {
    /// The claim, where its studies have results.
    pub(super) fn claim(&self, results: &Results) -> Option<Claim> {
        results.have(self.studies).then(|| {
            let Finding { verdict, numbers } = (self.predicate)(results);
            Claim {
                id: self.id.into(),
                source: self.source.into(),
                says: self.says.into(),
                test: self.test.into(),
                verdict,
                found: numbers,
            }
        })
    }
}

/// Runs of a study: its name, and axes with their values.
pub(super) type RunKey<'a> = (&'a str, &'a [(&'a str, &'a str)]);
/// A number of a run.
pub(super) type Of<'a> = &'a dyn Fn(&Outcome) -> Option<f64>;

/// A number of the runs `a` and one of the runs `b`, for every seed that has both.
pub(super) fn pairs(
    results: &Results,
    (a, of_a): (RunKey<'_>, Of<'_>),
    (b, of_b): (RunKey<'_>, Of<'_>),
) -> Vec<(f64, f64)> {
    let others: std::collections::BTreeMap<u64, &Outcome> = results.outcomes(b.0, b.1).collect();
    let pair = |(seed, outcome): (u64, &Outcome)| Some((of_a(outcome)?, of_b(others.get(&seed)?)?));
    results.outcomes(a.0, a.1).filter_map(pair).collect()
}

/// The difference of pairs with what it may be off by: half its confidence interval, or the margin where there is one pair.
fn difference(pairs: &[(f64, f64)], margin: f64) -> Option<(f64, f64)> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let estimate = Estimate::of_differences(&a, &b)?;
    Some((estimate.mean, estimate.half_width.unwrap_or(margin)))
}

/// [`MARGIN`] of the larger mean.
pub(super) fn margin(pairs: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>().abs() / pairs.len().max(1) as f64;
    MARGIN * mean(|p| p.0).max(mean(|p| p.1))
}

/// Whether the first of each pair is more than the second.
pub(super) fn more(pairs: &[(f64, f64)], margin: f64) -> Verdict {
    match difference(pairs, margin) {
        Some((mean, off)) if mean > off => Verdict::Held,
        Some((mean, off)) if mean < -off => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Whether the first is not less than the second by more than `tolerance`.
pub(super) fn no_less(pairs: &[(f64, f64)], tolerance: f64, margin: f64) -> Verdict {
    more(&pairs.iter().map(|(a, b)| (a + tolerance, *b)).collect::<Vec<_>>(), margin)
}

/// Whether both are the same but for `tolerance`.
pub(super) fn same(pairs: &[(f64, f64)], tolerance: f64, margin: f64) -> Verdict {
    match difference(pairs, margin) {
        Some((mean, off)) if mean.abs() + off <= tolerance => Verdict::Held,
        Some((mean, off)) if mean.abs() - off > tolerance => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Whether all of it held: not, if one did not; undecided, if one is, or there is none.
pub(super) fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let verdicts: Vec<Verdict> = verdicts.into_iter().collect();
    let is = |wanted| verdicts.contains(&wanted);
    if is(Verdict::NotHeld) {
        Verdict::NotHeld
    } else if is(Verdict::Undecided) || verdicts.is_empty() {
        Verdict::Undecided
    } else {
        Verdict::Held
    }
}

/// What it means that it does not hold.
pub(super) const fn opposite(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Held => Verdict::NotHeld,
        Verdict::NotHeld => Verdict::Held,
        Verdict::Undecided => Verdict::Undecided,
    }
}

/// All findings as one, their numbers in a row.
pub(super) fn together(findings: impl IntoIterator<Item = Finding>) -> Finding {
    let findings: Vec<Finding> = findings.into_iter().collect();
    Finding {
        verdict: all(findings.iter().map(|f| f.verdict)),
        numbers: findings.into_iter().map(|f| f.numbers).collect::<Vec<_>>().join("; "),
    }
}

/// The mean of values for `found`; `none` without values.
pub(super) fn shown(values: impl IntoIterator<Item = f64>) -> String {
    Estimate::of(&values.into_iter().collect::<Vec<_>>()).map_or_else(|| "none".into(), |e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_needs_its_margin() {
        assert_eq!(more(&[(106.0, 100.0)], 5.0), Verdict::Held);
        assert_eq!(more(&[(104.0, 100.0)], 5.0), Verdict::Undecided);
        assert_eq!(more(&[(94.0, 100.0)], 5.0), Verdict::NotHeld);
        assert_eq!(more(&[], 5.0), Verdict::Undecided);
        assert_eq!(margin(&[(80.0, 200.0)]), 10.0);
    }

    #[test]
    fn several_seeds_need_their_interval() {
        // Differences 1 2 3: mean 2, half width t(2) / sqrt 3 = 2.48; the margin does not count.
        assert_eq!(more(&[(10.0, 9.0), (20.0, 18.0), (30.0, 27.0)], 0.0), Verdict::Undecided);
        // Differences 2 2.5 3: mean 2.5, half width 1.24.
        assert_eq!(more(&[(11.0, 9.0), (20.5, 18.0), (30.0, 27.0)], 100.0), Verdict::Held);
        assert_eq!(more(&[(9.0, 11.0), (18.0, 20.5), (27.0, 30.0)], 100.0), Verdict::NotHeld);
    }

    #[test]
    fn tolerances_are_within_intervals_or_not() {
        assert_eq!(same(&[(100.0, 101.0)], 2.0, 0.5), Verdict::Held);
        assert_eq!(same(&[(100.0, 102.0)], 2.0, 0.5), Verdict::Undecided);
        assert_eq!(same(&[(100.0, 103.0)], 2.0, 0.5), Verdict::NotHeld);
        assert_eq!(no_less(&[(99.0, 100.0)], 2.0, 0.5), Verdict::Held);
        assert_eq!(no_less(&[(97.0, 100.0)], 2.0, 0.5), Verdict::NotHeld);
    }

    #[test]
    fn not_held_wins_over_undecided_over_held() {
        use Verdict::{Held, NotHeld, Undecided};
        assert_eq!(all([Held, Held]), Held);
        assert_eq!(all([Held, Undecided]), Undecided);
        assert_eq!(all([Held, Undecided, Held]), Undecided);
        assert_eq!(all([NotHeld, Undecided]), NotHeld);
        assert_eq!(all([NotHeld, Undecided, Held]), NotHeld);
        assert_eq!(all([Undecided, NotHeld, Held]), NotHeld);
        assert_eq!(all([Held, Undecided, NotHeld]), NotHeld);
        assert_eq!(all([]), Undecided);
    }
}
