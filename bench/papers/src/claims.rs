//! Claims and their verdicts: what counts as a difference, and how several verdicts combine.
//!
//! Numbers of the same seeds are compared as pairs. With several seeds a difference counts when zero lies outside its 95 % confidence
//! interval; with one seed, when it is larger than a margin that the predicate names. The margins below are ours.

use std::fmt::Display;

use fathom_metrics::Estimate;

use super::results::{BySeed, Pairs};
use super::{Claim, Results, Verdict};

/// With one seed: part of the larger of two means.
pub(crate) const MARGIN: f64 = 0.05;
/// With one seed, of fractions of responses: half a percent of all.
pub(crate) const FRACTION_MARGIN: f64 = 0.005;
/// With one seed: part of what a number is compared with.
const ONE_RUN: f64 = 0.1;
/// One seed decides nothing.
pub(crate) const NEVER: f64 = f64::INFINITY;

/// The verdict on a claim, and the measured numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether it held.
    pub verdict: Verdict,
    /// The numbers that decided, in words.
    pub numbers: String,
}

impl Finding {
    /// A verdict with its numbers.
    pub fn new(verdict: Verdict, numbers: impl Into<String>) -> Self {
        Self { verdict, numbers: numbers.into() }
    }

    /// A verdict on pairs, both sides shown.
    pub(crate) fn of_pairs(what: impl Display, pairs: &[(f64, f64)], verdict: Verdict) -> Self {
        let side = |of: fn(&(f64, f64)) -> f64| (0..).zip(pairs.iter().map(of)).collect::<BySeed>();
        Self::new(verdict, format!("{what}: {} against {}", side(|p| p.0), side(|p| p.1)))
    }

    /// The same with what the numbers are in front of them.
    pub(crate) fn named(self, what: &str) -> Self {
        Self { numbers: format!("{what}: {}", self.numbers), ..self }
    }

    /// All findings as one, their numbers in a row.
    pub(crate) fn together(findings: impl IntoIterator<Item = Self>) -> Self {
        let findings: Vec<Self> = findings.into_iter().collect();
        let verdict = all(findings.iter().map(|f| f.verdict));
        Self::new(verdict, findings.into_iter().map(|f| f.numbers).collect::<Vec<_>>().join("; "))
    }
}

/// A claim of a paper with its predicate, written before the numbers were seen.
#[derive(Clone, Copy, Debug)]
pub struct ClaimCheck {
    pub(crate) id: &'static str,
    source: &'static str,
    /// Without results of all of them the claim is left out.
    studies: &'static [&'static str],
    says: &'static str,
    test: &'static str,
    pub(crate) predicate: fn(&Results) -> Finding,
}

/// A claim by its name, where the paper has it, and the studies without whose results it is left out. What it says, its test and the
/// predicate follow.
pub const fn claim(id: &'static str, source: &'static str, studies: &'static [&'static str]) -> ClaimCheck {
    ClaimCheck { id, source, studies, says: "", test: "", predicate: |_| Finding::together([]) }
}

impl ClaimCheck {
    /// What the paper says, in our words.
    pub const fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    /// What is tested on the numbers, for readers.
    pub const fn test(self, test: &'static str) -> Self {
        Self { test, ..self }
    }

    /// The predicate.
    pub const fn asks(self, predicate: fn(&Results) -> Finding) -> Self {
        Self { predicate, ..self }
    }

    /// The claim, where its studies have results.
    pub(super) fn claim(&self, results: &Results) -> Option<Claim> {
        let Finding { verdict, numbers } = results.have(self.studies).then(|| (self.predicate)(results))?;
        let [id, source, says, test] = [self.id, self.source, self.says, self.test].map(str::to_owned);
        Some(Claim { id, source, says, test, verdict, found: numbers })
    }
}

/// [`MARGIN`] of the larger mean.
pub(crate) fn margin(pairs: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>().abs() / pairs.len().max(1) as f64;
    MARGIN * mean(|p| p.0).max(mean(|p| p.1))
}

fn difference(pairs: &[(f64, f64)]) -> Option<Estimate> {
    Estimate::of(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<_>>())
}

/// Whether the first of each pair is more than the second.
pub(crate) fn more(pairs: &[(f64, f64)], margin: f64) -> Verdict {
    match difference(pairs).map(|e| (e.mean, e.half_width.unwrap_or(margin))) {
        Some((mean, off)) if mean > off => Verdict::Held,
        Some((mean, off)) if mean < -off => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Whether the first of each pair is less than the second.
pub(crate) fn less(pairs: &[(f64, f64)], margin: f64) -> Verdict {
    opposite(more(pairs, margin))
}

/// Whether the first is not less than the second by more than `tolerance`.
pub(crate) fn no_less(pairs: &[(f64, f64)], tolerance: f64, margin: f64) -> Verdict {
    more(&pairs.iter().map(|(a, b)| (a + tolerance, *b)).collect::<Vec<_>>(), margin)
}

/// Whether both are the same but for `tolerance`.
pub(crate) fn same(pairs: &[(f64, f64)], tolerance: f64, margin: f64) -> Verdict {
    between(difference(pairs), -tolerance, tolerance, margin)
}

/// Whether a number with all of its interval lies from `low` to `high`; not, where all of it lies outside.
pub(crate) fn between(e: Option<Estimate>, low: f64, high: f64, margin: f64) -> Verdict {
    let Some(e) = e else { return Verdict::Undecided };
    let off = e.half_width.unwrap_or(margin);
    match (e.mean - off, e.mean + off) {
        (from, to) if from >= low && to <= high => Verdict::Held,
        (from, to) if to < low || from > high => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// What one run must differ by: [`ONE_RUN`] of the largest number.
fn one_run(pairs: &[(f64, f64)]) -> f64 {
    ONE_RUN * pairs.iter().fold(0.0_f64, |most, (a, b)| most.max(a.abs()).max(b.abs()))
}

/// `a` is more than `b`, seed by seed.
pub(crate) fn exceeds(a: &BySeed, b: &BySeed) -> Verdict {
    let pairs: Pairs = a.pairs(b);
    more(&pairs, one_run(&pairs))
}

/// `values` lie above `limit`.
pub(crate) fn above(values: &BySeed, limit: f64) -> Verdict {
    more(&values.beside(limit), ONE_RUN * limit.abs())
}

/// `values` lie below `limit`.
pub(crate) fn below(values: &BySeed, limit: f64) -> Verdict {
    opposite(above(values, limit))
}

/// `values` lie between `low` and `high`.
pub(crate) fn within(values: &BySeed, low: f64, high: f64) -> Verdict {
    all([above(values, low), below(values, high)])
}

/// Whether all of it held: not, if one did not; undecided, if one is, or there is none.
pub(crate) fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
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
pub(crate) const fn opposite(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Held => Verdict::NotHeld,
        Verdict::NotHeld => Verdict::Held,
        Verdict::Undecided => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeds;
    use Verdict::{Held, NotHeld, Undecided};

    #[test]
    fn one_seed_needs_its_margin() {
        assert_eq!(more(&[(106.0, 100.0)], 5.0), Held);
        assert_eq!(more(&[(104.0, 100.0)], 5.0), Undecided);
        assert_eq!(more(&[(94.0, 100.0)], 5.0), NotHeld);
        assert_eq!(more(&[], 5.0), Undecided);
        assert_eq!(margin(&[(80.0, 200.0)]), 10.0);
        assert_eq!((less(&[(5.0, 100.0)], 5.0), less(&[(5.0, 100.0)], NEVER)), (Held, Undecided));
    }

    #[test]
    fn several_seeds_need_their_interval() {
        // Differences 1 2 3: mean 2, half width t(2) / sqrt 3 = 2.48; the margin does not count.
        assert_eq!(more(&[(10.0, 9.0), (20.0, 18.0), (30.0, 27.0)], 0.0), Undecided);
        // Differences 2 2.5 3: mean 2.5, half width 1.24.
        assert_eq!(more(&[(11.0, 9.0), (20.5, 18.0), (30.0, 27.0)], NEVER), Held);
        assert_eq!(more(&[(9.0, 11.0), (18.0, 20.5), (27.0, 30.0)], 100.0), NotHeld);
    }

    #[test]
    fn tolerances_are_within_intervals_or_not() {
        assert_eq!(same(&[(100.0, 101.0)], 2.0, 0.5), Held);
        assert_eq!(same(&[(100.0, 102.0)], 2.0, 0.5), Undecided);
        assert_eq!(same(&[(100.0, 103.0)], 2.0, 0.5), NotHeld);
        assert_eq!(no_less(&[(99.0, 100.0)], 2.0, 0.5), Held);
        assert_eq!(no_less(&[(97.0, 100.0)], 2.0, 0.5), NotHeld);
        // 12 +- 2.48 lies in 9 to 15, across 10, and outside 20 to 30.
        let e = seeds([11.0, 12.0, 13.0]).estimate();
        let ranges = [(9.0, 15.0), (10.0, 15.0), (20.0, 30.0)];
        assert_eq!(ranges.map(|(low, high)| between(e, low, high, 0.0)), [Held, Undecided, NotHeld]);
        assert_eq!(between(seeds([5.0]).estimate(), 0.0, 9.0, NEVER), Undecided);
    }

    #[test]
    fn a_limit_inside_the_interval_decides_nothing() {
        // Mean 10, deviation 1, three seeds: the half width is 4.303 / sqrt 3 = 2.484.
        let values = seeds([9.0, 10.0, 11.0]);
        let verdicts = [7.5, 7.6, 10.0, 12.4, 12.5].map(|limit| above(&values, limit));
        assert_eq!(verdicts, [Held, Undecided, Undecided, Undecided, NotHeld]);
        assert_eq!((below(&values, 12.5), below(&values, 7.5)), (Held, NotHeld));
        assert_eq!(within(&values, 7.0, 13.0), Held);
        assert_eq!(within(&values, 7.0, 11.0), Undecided);
        assert_eq!(within(&values, 1.0, 2.0), NotHeld);
        assert_eq!(above(&seeds([]), 0.0), Undecided);
    }

    #[test]
    fn pairs_are_judged_by_their_differences() {
        let (a, b) = (seeds([10.0, 20.0, 30.0]), seeds([9.0, 19.1, 29.0]));
        assert_eq!((exceeds(&a, &b), exceeds(&b, &a)), (Held, NotHeld));
        let third: BySeed = [(3, 9.0)].into_iter().collect();
        assert_eq!(
            (a.pairs(&third), exceeds(&seeds([10.0]), &third)),
            (vec![(30.0, 9.0)], Undecided),
            "not the same seeds"
        );
        assert_eq!(exceeds(&seeds([0.0; 3]), &seeds([0.0; 3])), Undecided);
    }

    #[test]
    fn one_run_decides_only_large_differences() {
        let [ten, less, close] = [10.0, 8.9, 9.1].map(|value| seeds([value]));
        assert_eq!((exceeds(&ten, &less), exceeds(&ten, &close)), (Held, Undecided));
        assert_eq!([9.0, 9.5, 12.0].map(|limit| above(&ten, limit)), [Held, Undecided, NotHeld]);
    }

    #[test]
    fn not_held_wins_over_undecided_over_held() {
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
