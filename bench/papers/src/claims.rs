//! Claims and their verdicts: the criteria for a difference, and the combination of several
//! verdicts.
//!
//! Numbers of the same seed are compared as pairs. A difference counts if zero lies outside its 95%
//! confidence interval. One seed decides nothing.
//!
//! A claim that needs something QUIC does not have is declared [`ClaimCheck::inapplicable`]. A
//! claim about certain conditions (an active queue that drops or marks, web traffic that does not
//! collapse) has a regime: [`ClaimCheck::regime`] for the whole claim, [`Finding::unless`] for a
//! part. Verdicts combine as in three-valued logic with three kinds of unknown, of which the
//! strongest wins:
//!
//! | | wins over |
//! |---|---|
//! | not held | everything: one failed part is enough |
//! | inapplicable | not in regime: no run can decide it, but another run may decide the latter |
//! | not in regime | undecided: more seeds do not help |
//! | undecided | held |
//!
//! The opposite of an unknown verdict is that verdict.

use std::fmt::Display;

use fathom_metrics::Estimate;

use super::results::BySeed;
use super::{Claim, Results, Verdict};

/// Verdict on a claim with the measured numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Verdict.
    pub verdict: Verdict,
    /// Numbers that decided, in words.
    pub numbers: String,
    /// Reasons why the claim or a part of it is inapplicable or not in its regime.
    pub(crate) reasons: Vec<Reason>,
}

/// Reason why a claim is inapplicable or runs missed its regime.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// Reason in words.
    cause: String,
    /// Runs to which the reason applies; empty for a declared reason.
    runs: Vec<String>,
}

impl Reason {
    /// Creates a reason that applies to one run.
    pub(crate) fn of(run: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), runs: vec![run.into()] }
    }

    fn declared(cause: &str) -> Self {
        Self { cause: cause.to_owned(), runs: Vec::new() }
    }

    /// Merges reasons with the same cause, keeping all of their runs.
    fn merged(reasons: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for reason in reasons {
            let Some(known) = merged.iter_mut().find(|known| known.cause == reason.cause) else {
                merged.push(reason);
                continue;
            };
            let new = reason.runs.into_iter().filter(|run| !known.runs.contains(run));
            let new: Vec<String> = new.collect();
            known.runs.extend(new);
        }
        merged
    }

    /// Returns all reasons in words; empty without reasons.
    fn text(reasons: &[Self]) -> String {
        let one = |reason: &Self| match reason.runs.is_empty() {
            true => reason.cause.clone(),
            false => format!("{}: {}", reason.cause, reason.runs.join(", ")),
        };
        reasons.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

impl Finding {
    /// Creates a finding without reasons.
    pub fn new(verdict: Verdict, numbers: impl Into<String>) -> Self {
        Self { verdict, numbers: numbers.into(), reasons: Vec::new() }
    }

    /// Returns the finding if `missed` is empty. Otherwise the verdict is "not in regime" for these
    /// reasons, whatever the numbers.
    pub(crate) fn unless(self, missed: Vec<Reason>) -> Self {
        match missed.is_empty() {
            true => self,
            false => {
                Self { verdict: Verdict::NotInRegime, reasons: Reason::merged(missed), ..self }
            }
        }
    }

    /// Creates a finding on pairs that shows both sides.
    pub(crate) fn of_pairs(what: impl Display, pairs: &[(f64, f64)], verdict: Verdict) -> Self {
        let side = |of: fn(&(f64, f64)) -> f64| (0..).zip(pairs.iter().map(of)).collect::<BySeed>();
        Self::new(verdict, format!("{what}: {} against {}", side(|p| p.0), side(|p| p.1)))
    }

    /// Prefixes the numbers with a description.
    pub(crate) fn named(self, what: &str) -> Self {
        Self { numbers: format!("{what}: {}", self.numbers), ..self }
    }

    /// Combines all findings into one, with all numbers in sequence and each reason once.
    pub(crate) fn together(findings: impl IntoIterator<Item = Self>) -> Self {
        let findings: Vec<Self> = findings.into_iter().collect();
        let verdict = all(findings.iter().map(|f| f.verdict));
        let (numbers, reasons): (Vec<String>, Vec<_>) =
            findings.into_iter().map(|f| (f.numbers, f.reasons)).unzip();
        Self {
            reasons: Reason::merged(reasons.into_iter().flatten()),
            ..Self::new(verdict, numbers.join("; "))
        }
    }
}

/// A claim of a paper with its predicate, written before the numbers were known.
#[derive(Clone, Copy, Debug)]
pub struct ClaimCheck {
    pub(crate) id: &'static str,
    source: &'static str,
    /// Required studies; the claim is left out unless all of them have results.
    studies: &'static [&'static str],
    says: &'static str,
    test: &'static str,
    inapplicable: Option<&'static str>,
    cause: &'static str,
    regime: fn(&Results) -> Vec<Reason>,
    predicate: fn(&Results) -> Finding,
}

/// Creates a claim from its name, its location in the paper and the studies it requires. Statement,
/// test and predicate are added afterwards.
pub const fn claim(
    id: &'static str,
    source: &'static str,
    studies: &'static [&'static str],
) -> ClaimCheck {
    let (says, test) = ("", "");
    ClaimCheck {
        id,
        source,
        studies,
        says,
        test,
        inapplicable: None,
        cause: "",
        regime: |_| Vec::new(),
        predicate: |_| Finding::together([]),
    }
}

impl ClaimCheck {
    /// Sets the paper's statement in our words.
    pub const fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    /// Sets the description of the test for readers.
    pub const fn test(self, test: &'static str) -> Self {
        Self { test, ..self }
    }

    /// Sets the predicate.
    pub const fn asks(self, predicate: fn(&Results) -> Finding) -> Self {
        Self { predicate, ..self }
    }

    /// Declares that the claim needs something QUIC does not have, for this reason. The numbers of
    /// the predicate are still shown.
    pub const fn inapplicable(self, reason: &'static str) -> Self {
        Self { inapplicable: Some(reason), ..self }
    }

    /// Sets the reason why the claim is not held, in a few sentences; shown only with that verdict.
    /// The reason names the study or the step of a ladder that shows it, or says that none was
    /// found.
    pub const fn cause(self, cause: &'static str) -> Self {
        Self { cause, ..self }
    }

    /// Sets a function that returns the ways in which runs missed the conditions of the whole
    /// claim; empty if they met them. It takes precedence over the predicate.
    pub const fn regime(self, missed: fn(&Results) -> Vec<Reason>) -> Self {
        Self { regime: missed, ..self }
    }

    /// Returns the verdict on these results.
    pub(crate) fn judge(&self, results: &Results) -> Finding {
        let finding = (self.predicate)(results);
        match self.inapplicable {
            Some(reason) => Finding {
                verdict: Verdict::Inapplicable,
                reasons: vec![Reason::declared(reason)],
                ..finding
            },
            None => finding.unless((self.regime)(results)),
        }
    }

    /// Updates a claim that was judged earlier and whose studies have no results here. The verdict
    /// stands if the test is unchanged.
    pub(super) fn reread(&self, kept: Claim) -> Claim {
        let test = kept.test == self.test;
        let reason = self.inapplicable.map_or(String::new(), str::to_owned);
        let (verdict, found) = match (test, self.inapplicable) {
            (true, None) => (kept.verdict, kept.found),
            (_, Some(_)) => (Verdict::Inapplicable, kept.found),
            (false, None) => (
                Verdict::Undecided,
                format!("the test is new, its runs are to be made again; before: {}", kept.found),
            ),
        };
        let reason = if test && reason.is_empty() { kept.reason } else { reason };
        self.with(verdict, found, reason)
    }

    /// Returns the claim if its studies have results.
    pub(super) fn claim(&self, results: &Results) -> Option<Claim> {
        let Finding { verdict, numbers, reasons } =
            results.have(self.studies).then(|| self.judge(results))?;
        Some(self.with(verdict, numbers, Reason::text(&reasons)))
    }

    fn with(&self, verdict: Verdict, found: String, reason: String) -> Claim {
        let [id, source, says, test] =
            [self.id, self.source, self.says, self.test].map(str::to_owned);
        let cause = if verdict == Verdict::NotHeld { self.cause } else { "" }.to_owned();
        Claim { id, source, says, test, verdict, found, ns2: self.of_ns2(), reason, cause }
    }

    /// Returns the numbers of ns-2, if it ran all studies of the claim.
    fn of_ns2(&self) -> String {
        let results = crate::ns2::results();
        let has = !self.studies.is_empty() && results.have(self.studies);
        let numbers = has.then(|| (self.predicate)(results).numbers);
        numbers.unwrap_or_default()
    }
}

fn difference(pairs: &[(f64, f64)]) -> Option<Estimate> {
    Estimate::of(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<_>>())
}

/// Tests whether the first number of each pair is larger than the second.
pub(crate) fn more(pairs: &[(f64, f64)]) -> Verdict {
    match difference(pairs).map(|e| (e.mean, e.half_width.unwrap_or(f64::INFINITY))) {
        Some((mean, off)) if mean > off => Verdict::Held,
        Some((mean, off)) if mean < -off => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Tests whether the first number of each pair is smaller than the second.
pub(crate) fn less(pairs: &[(f64, f64)]) -> Verdict {
    opposite(more(pairs))
}

/// Tests whether the first number is smaller than the second by at most `tolerance`.
pub(crate) fn no_less(pairs: &[(f64, f64)], tolerance: f64) -> Verdict {
    more(&pairs.iter().map(|(a, b)| (a + tolerance, *b)).collect::<Vec<_>>())
}

/// Tests whether both numbers differ by at most `tolerance`.
pub(crate) fn same(pairs: &[(f64, f64)], tolerance: f64) -> Verdict {
    between(difference(pairs), -tolerance, tolerance)
}

/// Tests whether a number with its whole interval lies from `low` to `high`. Not held if the whole
/// interval lies outside.
pub(crate) fn between(e: Option<Estimate>, low: f64, high: f64) -> Verdict {
    let Some(e) = e else { return Verdict::Undecided };
    let off = e.half_width.unwrap_or(f64::INFINITY);
    match (e.mean - off, e.mean + off) {
        (from, to) if from >= low && to <= high => Verdict::Held,
        (from, to) if to < low || from > high => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Tests whether `a` is larger than `b`, seed by seed. One seed decides nothing, here and in the
/// functions below.
pub(crate) fn exceeds(a: &BySeed, b: &BySeed) -> Verdict {
    more(&a.pairs(b))
}

/// Tests whether `values` are above `limit`.
pub(crate) fn above(values: &BySeed, limit: f64) -> Verdict {
    more(&values.beside(limit))
}

/// Tests whether `values` are below `limit`.
pub(crate) fn below(values: &BySeed, limit: f64) -> Verdict {
    opposite(above(values, limit))
}

/// Tests whether `values` are between `low` and `high`.
pub(crate) fn within(values: &BySeed, low: f64, high: f64) -> Verdict {
    all([above(values, low), below(values, high)])
}

/// Combines verdicts. Returns the first of not held, inapplicable, not in regime, undecided that
/// occurs; otherwise held. Returns undecided without verdicts.
pub(crate) fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Held => 0,
        Verdict::Undecided => 1,
        Verdict::NotInRegime => 2,
        Verdict::Inapplicable => 3,
        Verdict::NotHeld => 4,
    };
    verdicts.into_iter().max_by_key(rank).unwrap_or(Verdict::Undecided)
}

/// Returns the verdict on the negated statement.
pub(crate) const fn opposite(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Held => Verdict::NotHeld,
        Verdict::NotHeld => Verdict::Held,
        unknown @ (Verdict::Undecided | Verdict::Inapplicable | Verdict::NotInRegime) => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeds;
    use Verdict::{Held, Inapplicable, NotHeld, NotInRegime, Undecided};

    #[test]
    fn difference_over_several_seeds_is_judged_by_its_interval() {
        // Differences 1 2 3: mean 2, half width t(2) / sqrt 3 = 2.48.
        assert_eq!(more(&[(10.0, 9.0), (20.0, 18.0), (30.0, 27.0)]), Undecided);
        // Differences 2 2.5 3: mean 2.5, half width 1.24.
        assert_eq!(more(&[(11.0, 9.0), (20.5, 18.0), (30.0, 27.0)]), Held);
        assert_eq!(more(&[(9.0, 11.0), (18.0, 20.5), (27.0, 30.0)]), NotHeld);
    }

    #[test]
    fn equality_is_judged_by_tolerance_and_interval() {
        // The half width of each difference is 0.5.
        let less_by = |d: f64| [d - 0.2, d, d + 0.2].map(|d| (100.0 - d, 100.0));
        assert_eq!([1.0, 2.0, 3.0].map(|d| same(&less_by(d), 2.0)), [Held, Undecided, NotHeld]);
        assert_eq!([1.0, 3.0].map(|d| no_less(&less_by(d), 2.0)), [Held, NotHeld]);
        // 12 ± 2.48 lies within 9 to 15, straddles 10, and lies outside 20 to 30.
        let e = seeds([11.0, 12.0, 13.0]).estimate();
        let ranges = [(9.0, 15.0), (10.0, 15.0), (20.0, 30.0)];
        assert_eq!(ranges.map(|(low, high)| between(e, low, high)), [Held, Undecided, NotHeld]);
        assert_eq!(between(seeds([5.0]).estimate(), 0.0, 9.0), Undecided);
    }

    #[test]
    fn limit_inside_the_interval_leaves_a_claim_undecided() {
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
    fn paired_seeds_are_judged_by_their_differences() {
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
    fn single_run_leaves_a_claim_undecided() {
        assert_eq!(
            (more(&[]), more(&[(5.0, 100.0)]), less(&[(5.0, 100.0)])),
            (Undecided, Undecided, Undecided)
        );
        let [ten, one] = [10.0, 1.0].map(|value| seeds([value]));
        assert_eq!(
            (exceeds(&ten, &one), above(&ten, 1.0), below(&ten, 99.0)),
            (Undecided, Undecided, Undecided)
        );
    }

    #[test]
    fn verdicts_combine_by_precedence() {
        let order = [NotHeld, Inapplicable, NotInRegime, Undecided, Held];
        for (i, first) in order.into_iter().enumerate() {
            for second in order.into_iter().skip(i) {
                let found =
                    [all([first, second]), all([second, first]), all([Held, first, second, Held])];
                assert_eq!(found, [first; 3], "{second:?}");
            }
        }
        assert_eq!((all([]), Verdict::ALL.len()), (Undecided, order.len()));
    }

    #[test]
    fn opposite_of_an_undecided_verdict_is_the_same_verdict() {
        let unknown = [Undecided, Inapplicable, NotInRegime];
        assert_eq!(unknown.map(opposite), unknown);
        assert_eq!([Held, NotHeld].map(opposite), [NotHeld, Held]);
    }

    /// A claim that always holds and needs no results.
    const HOLDS: ClaimCheck =
        claim("c", "s", &[]).says("x").test("y").asks(|_| Finding::new(Held, "1 against 2"));

    #[test]
    fn claim_outside_its_valid_regime_is_not_judged() {
        let of = |check: ClaimCheck| {
            let claim = check.claim(&Results::default()).unwrap();
            (claim.verdict, claim.reason, claim.found)
        };
        let found = || "1 against 2".to_owned();
        assert_eq!(of(HOLDS), (Held, String::new(), found()));
        assert_eq!(of(HOLDS.regime(|_| Vec::new())), (Held, String::new(), found()));
        let missed = HOLDS.regime(|r| {
            r.axis("none", "x").is_empty().then(|| Reason::of("a", "no drop")).into_iter().collect()
        });
        assert_eq!(of(missed), (NotInRegime, "no drop: a".to_owned(), found()));
        // An inapplicable claim takes precedence over a missed regime.
        assert_eq!(
            of(missed.inapplicable("no SACK")),
            (Inapplicable, "no SACK".to_owned(), found())
        );
    }

    #[test]
    fn verdict_without_runs_is_kept_until_its_test_changes() {
        let kept = || Claim {
            verdict: NotHeld,
            found: "3 against 4".into(),
            ..HOLDS.claim(&Results::default()).unwrap()
        };
        assert_eq!(HOLDS.reread(kept()), kept());
        let other = HOLDS.test("z").reread(kept());
        assert_eq!((other.verdict, other.test.as_str()), (Undecided, "z"));
        assert!(other.found.ends_with("before: 3 against 4"), "{}", other.found);
        let declared = HOLDS.inapplicable("no SACK").reread(kept());
        assert_eq!((declared.verdict, declared.reason.as_str()), (Inapplicable, "no SACK"));
    }

    #[test]
    fn failed_part_of_a_claim_outweighs_a_part_outside_its_regime() {
        let part = |verdict, missed: &[(&str, &str)]| {
            Finding::new(verdict, "n")
                .unless(missed.iter().map(|(run, cause)| Reason::of(*run, *cause)).collect())
        };
        let both = |parts: [Finding; 2]| {
            let finding = Finding::together(parts);
            (finding.verdict, Reason::text(&finding.reasons))
        };
        assert_eq!(
            both([part(Held, &[]), part(NotHeld, &[("a", "idle")])]),
            (NotInRegime, "idle: a".to_owned())
        );
        // One failed part within its regime is enough for the claim to fail.
        assert_eq!(
            both([part(NotHeld, &[]), part(Held, &[("a", "idle")])]),
            (NotHeld, "idle: a".to_owned())
        );
        let several = [
            part(Held, &[("a", "idle"), ("b", "full")]),
            part(Held, &[("c", "idle"), ("a", "idle")]),
        ];
        assert_eq!(both(several).1, "idle: a, c; full: b");
    }
}
