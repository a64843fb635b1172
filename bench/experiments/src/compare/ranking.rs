//! Ranking of a comparison: controllers in the order of the primary measure, and the conclusions
//! that it supports.
//!
//! With one seed, every controller gets the same requests, so controllers are compared seed by
//! seed. A change is a ratio: its logarithm is averaged over the seeds and has a 95 % interval by
//! Student's t. A change from A to B is thus the inverse of the change from B to A, and a seed with
//! long response times counts no more than another seed. Measures in percent change by points
//! instead.

use fathom_cc::Rate;
use fathom_metrics::Estimate;

use super::plan::FORWARD;
use super::result::{Candidate, Comparison};
use crate::measures::{Better, Change, MEASURES, MOST_LEFT_OUT, Measure, listed, primary};
use crate::scenario::{GroupOutcome, Workload};

/// A controller in the ranking.
#[derive(Clone, Debug)]
pub struct Ranked<'a> {
    /// The controller, with its runs.
    pub candidate: Candidate<'a>,
    /// Rank by the mean, from 1. `None` if the controller has no value of the measure, if it is not
    /// ranked, or if several backends are compared.
    pub place: Option<usize>,
    /// Whether the controller is not ranked, and no change from it or to it is reported: the
    /// measure leaves failed requests out, and too many of its requests failed. Always `false` if
    /// several backends are compared.
    pub misses_failures: bool,
    /// Whether the controller may be the best as well: the interval of its change from the best
    /// contains zero, and no other controller is better beyond the interval of their change. Always
    /// `false` for the first controller and with one run each.
    pub tied: bool,
    /// Primary measure over the seeds.
    pub value: Option<Estimate>,
    /// Change from the baseline. `None` for the baseline itself, and if there is no change to
    /// report.
    pub change: Option<Change>,
}

/// Controllers in order of the primary measure.
#[derive(Clone, Debug)]
pub struct Ranking<'a> {
    /// Measure that decides the order.
    pub measure: &'static Measure,
    /// Controllers, best first. If several backends are compared, in the plan's order and without
    /// ranks.
    pub entries: Vec<Ranked<'a>>,
    /// Label of the baseline, the first controller that has results. If several backends are
    /// compared, each controller is compared with itself on the first backend instead.
    pub baseline: String,
    /// Number of seeds, if all of them give one run; `None` if they differ.
    pub one_run: Option<u64>,
}

impl Comparison {
    /// Returns the workload of the plan for a link of 10 Mbps. Only its kind is meaningful.
    pub(crate) fn workload(&self) -> Option<Workload> {
        self.plan.workload(Rate::from_bits_per_sec(10_000_000)).ok().map(|(_, workload)| workload)
    }

    /// Returns the measure that ranks the controllers.
    pub fn primary(&self) -> &'static Measure {
        self.workload().map_or(&MEASURES[0], |workload| primary(&workload))
    }

    /// Returns the ranking by the primary measure.
    pub fn ranking(&self) -> Ranking<'_> {
        let measure = self.primary();
        let candidates = self.candidates();
        let baseline = candidates.first().map_or_else(String::new, |first| first.label.to_owned());
        let value = |c: &Candidate<'_>| {
            Estimate::of(&c.values(measure).into_iter().map(|v| v.1).collect::<Vec<_>>())
        };
        let mut entries: Vec<Ranked<'_>> = (candidates.iter())
            .map(|candidate| {
                let base = self.baseline_of(candidate, &candidates);
                let misses_failures =
                    self.plan.backends.len() < 2 && candidate.misses_failures(measure);
                let change = base.filter(|base| {
                    base.label != candidate.label
                        && !misses_failures
                        && !base.misses_failures(measure)
                });
                Ranked {
                    candidate: candidate.clone(),
                    place: None,
                    misses_failures,
                    tied: false,
                    value: value(candidate),
                    change: change.and_then(|base| candidate.change_from(base, measure)),
                }
            })
            .collect();
        if self.plan.backends.len() < 2 {
            let sign = if measure.better == Better::Higher { -1.0 } else { 1.0 };
            let key =
                |entry: &Ranked<'_>| entry.value.map_or(f64::INFINITY, |value| sign * value.mean);
            entries.sort_by(|a, b| {
                a.misses_failures.cmp(&b.misses_failures).then(key(a).total_cmp(&key(b)))
            });
            let best = entries.first().map(|best| best.candidate.clone());
            let several = entries.iter().any(|entry| entry.candidate.runs.len() > 1);
            let all: Vec<Candidate<'_>> =
                entries.iter().map(|entry| entry.candidate.clone()).collect();
            let ranked = |entry: &Ranked<'_>| entry.value.is_some() && !entry.misses_failures;
            for (i, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| ranked(entry)) {
                let change =
                    best.as_ref().and_then(|best| entry.candidate.change_from(best, measure));
                let apart = change.is_some_and(|c| c.is_significant());
                entry.tied = i > 0
                    && several
                    && !apart
                    && !all.iter().any(|other| other.beats(&entry.candidate, measure));
                entry.place = Some(i + 1);
            }
        }
        let one_run = self.seeds_are_one_run().then_some(self.plan.seeds);
        Ranking { measure, entries, baseline, one_run }
    }

    /// Returns the baseline of a candidate: the first candidate or, if several backends are
    /// compared, the same controller and stack on the first backend.
    pub(crate) fn baseline_of<'c, 'a>(
        &self,
        candidate: &Candidate<'a>,
        all: &'c [Candidate<'a>],
    ) -> Option<&'c Candidate<'a>> {
        let first = all.first()?;
        let (run, other) = (candidate.runs.first()?, first.runs.first()?);
        let same = |c: &&Candidate<'_>| {
            c.runs.first().is_some_and(|r| {
                r.backend == other.backend && r.controller == run.controller && r.stack == run.stack
            })
        };
        if self.plan.backends.len() > 1 {
            all.iter().find(same).or(Some(first))
        } else {
            Some(first)
        }
    }
}

impl Ranking<'_> {
    /// Returns the conclusions as sentences, and what cannot be concluded.
    pub fn conclusion(&self) -> Vec<String> {
        let ranked = |entry: &&Ranked<'_>| entry.value.is_some() && !entry.misses_failures;
        let with: Vec<&Ranked<'_>> = self.entries.iter().filter(ranked).collect();
        let seeds = with.iter().map(|entry| entry.candidate.runs.len()).max().unwrap_or(0);
        let (Some(best), true) = (with.first(), with.len() > 1) else {
            let one = (seeds == 1).then(|| self.one_seed());
            return self.not_ranked().into_iter().chain(one).collect();
        };
        if best.place.is_none() {
            return self.of_backends(seeds);
        }
        let mut lines: Vec<String> = self.not_ranked().into_iter().collect();
        lines.extend(if seeds == 1 {
            vec![self.of_one_seed(&with)]
        } else {
            self.of_seeds(&with, seeds)
        });
        if seeds > 1 {
            lines.push(
                "Valid for these requests on this path; other paths or loads may rank differently."
                    .into(),
            );
            if with.len() > 6 {
                lines.push(format!(
                    "With {} controllers, one of twenty intervals misses by chance: judge close ones with more seeds.",
                    with.len()
                ));
            }
        }
        lines
    }

    /// Returns a sentence that names the controllers that are not ranked because too many of their
    /// requests failed; `None` if there are none.
    fn not_ranked(&self) -> Option<String> {
        let missed =
            self.entries.iter().filter(|entry| entry.misses_failures && entry.value.is_some());
        let names: Vec<String> = missed.map(|entry| entry.candidate.label.to_owned()).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        (!names.is_empty()).then(|| {
            format!(
                "{} {are} not ranked: more than {:.0} % of the requests failed there, and the {} is of the others.",
                listed(&names),
                100.0 * MOST_LEFT_OUT,
                self.measure.name
            )
        })
    }

    fn of_one_seed(&self, with: &[&Ranked<'_>]) -> String {
        let best = with[0];
        let value = best.value.map_or(0.0, |value| value.mean);
        format!(
            "{} has the {} {}{}, {value:.*} {}. {}",
            best.candidate.label,
            if self.measure.better == Better::Higher { "highest" } else { "lowest" },
            self.measure.name,
            if self.one_run.is_some() { "" } else { " in this seed" },
            self.measure.decimals([value]),
            self.measure.unit,
            self.one_seed(),
        )
    }

    /// Returns the caution that a single run calls for.
    fn one_seed(&self) -> String {
        match self.one_run {
            Some(seeds) => format!(
                "The {seeds} seeds are one run: nothing in this scenario is random, so there is no interval and more seeds \
                 add nothing (--loss, --jitter or transfers that start at random times would)."
            ),
            None => ONE_SEED.to_owned(),
        }
    }

    fn of_seeds(&self, with: &[&Ranked<'_>], seeds: usize) -> Vec<String> {
        let name = |entry: &Ranked<'_>| entry.candidate.label.to_owned();
        let significant =
            |entry: &&&Ranked<'_>| entry.change.is_some_and(|change| change.is_significant());
        let told: Vec<(String, f64)> = (with.iter().filter(significant))
            .filter_map(|entry| {
                let change = entry.change?;
                Some((format!("{} {}", name(entry), change.words(self.measure)), change.percent))
            })
            .collect();
        let mut lines = Vec::new();
        let (base, measure) = (&self.baseline, self.measure.name);
        let is = |text: &String| text.clone();
        let below: Vec<String> = told.iter().filter(|t| t.1 < 0.0).map(|t| is(&t.0)).collect();
        let above: Vec<String> = told.iter().filter(|t| t.1 >= 0.0).map(|t| is(&t.0)).collect();
        if !told.is_empty() {
            let all = [below, above].concat();
            lines.push(format!(
                "Against {base}, on {measure} over {seeds} seeds: {}.",
                all.join("; ")
            ));
        }
        let unclear: Vec<String> = with
            .iter()
            .filter(|e| e.change.is_some_and(|change| !change.is_significant()))
            .map(|e| name(e))
            .collect();
        if !unclear.is_empty() {
            let who = match unclear.len() {
                few if few <= NAMED => listed(&unclear),
                many => format!("The other {many}"),
            };
            lines.push(format!("{who} cannot be told apart from {base} with {seeds} seeds."));
        }
        // Means are averages of values, changes are averages of ratios: the controller with the
        // best mean may be worse seed by seed.
        let beats_first =
            with.iter().find(|entry| entry.candidate.beats(&with[0].candidate, self.measure));
        if let Some(better) = beats_first {
            lines.push(format!(
                "{} has the best mean, but {} is better seed by seed: a few seeds determine the \
                 mean.",
                name(with[0]),
                name(better)
            ));
        }
        let first: Vec<String> = with
            .iter()
            .filter(|entry| entry.place == Some(1) || entry.tied)
            .map(|e| name(e))
            .collect();
        if with.len() > 2 && beats_first.is_none() {
            lines.push(match &first[..] {
                [only] => format!("{only} is the best of all."),
                several if several.len() <= NAMED => {
                    format!("Which of {} is the best cannot be told.", listed(several))
                }
                several => {
                    format!(
                        "Which of the {} that are marked ~ or first is the best cannot be told.",
                        several.len()
                    )
                }
            });
        }
        lines
    }

    fn of_backends(&self, seeds: usize) -> Vec<String> {
        let changes = self.entries.iter().filter_map(|entry| {
            let change = entry.change?;
            Some(format!(
                "{}: {} {} against the first backend.",
                entry.candidate.label,
                self.measure.name,
                change.text()
            ))
        });
        let one = (seeds == 1).then(|| self.one_seed());
        changes.chain(one).collect()
    }
}

/// Maximum number of controllers that a sentence names. More are counted.
const NAMED: usize = 4;

const ONE_SEED: &str =
    "One seed is no result: another seed may give a very different value (--seeds 5).";

impl<'a> Candidate<'a> {
    /// Returns the seed and the value of every run that has a value of the measure.
    pub fn values(&self, measure: &Measure) -> Vec<(u64, f64)> {
        let of = |run: &&super::ComparedRun| {
            Some((run.seed, measure.of(&run.outcome, FORWARD.0, &run.bottleneck)?))
        };
        self.runs.iter().filter_map(of).collect()
    }

    /// Returns whether the measure hides too many failures of this candidate: it leaves failed
    /// requests out, and too many failed.
    pub fn misses_failures(&self, measure: &Measure) -> bool {
        let sum = |of: fn(&GroupOutcome) -> u64| self.runs.iter().map(|run| of(run.group())).sum();
        measure.misses_failures(sum(|group| group.failed), sum(|group| group.responses))
    }

    /// Returns a measure over the seeds; `None` if no run has a value or if there are too few
    /// samples.
    pub fn estimate(&self, measure: &Measure) -> Option<Estimate> {
        let samples: u64 = self.runs.iter().map(|run| measure.samples(run.group())).sum();
        let values: Vec<f64> = self.values(measure).into_iter().map(|(_, value)| value).collect();
        (samples >= measure.samples_needed()).then(|| Estimate::of(&values)).flatten()
    }

    /// Returns the values of `base` and of this candidate for the seeds that both have.
    fn pairs(&self, base: &Candidate<'_>, measure: &Measure) -> Vec<(f64, f64)> {
        let of_base = base.values(measure);
        let pair =
            |(seed, value): (u64, f64)| Some((of_base.iter().find(|(s, _)| *s == seed)?.1, value));
        self.values(measure).into_iter().filter_map(pair).collect()
    }

    /// Returns the change of a measure from `base` to this candidate: points for a percentage, a
    /// ratio for any other measure.
    pub fn change_from(&self, base: &Candidate<'_>, measure: &Measure) -> Option<Change> {
        let pairs = self.pairs(base, measure);
        if measure.unit == "%" { Change::in_points(&pairs) } else { Change::of(&pairs) }
    }

    /// Returns whether this candidate is better than another beyond the interval of the change.
    fn beats(&self, other: &Candidate<'_>, measure: &Measure) -> bool {
        let change = self.change_from(other, measure).filter(Change::is_significant);
        change.is_some_and(|change| (change.percent < 0.0) == (measure.better != Better::Higher))
    }

    /// Returns this candidate's value minus the value of `base`, over the seeds that both have.
    pub fn difference_from(&self, base: &Candidate<'_>, measure: &Measure) -> Option<Estimate> {
        let (of_base, own): (Vec<f64>, Vec<f64>) = self.pairs(base, measure).into_iter().unzip();
        Estimate::of_differences(&own, &of_base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_change_by_points_and_may_be_zero() {
        let pairs = [(0.0, 27.0), (0.1, 25.1), (0.2, 29.2)];
        let change = Change::in_points(&pairs).unwrap();
        assert!((change.percent - 27.0).abs() < 1e-9 && change.is_significant(), "{change:?}");
        assert!(change.text().starts_with("+27 points (") && Change::of(&pairs).is_none());
        assert!(!Change::in_points(&[(0.0, 0.0), (0.0, 0.0)]).unwrap().is_significant());
    }

    #[test]
    fn changes_are_ratios_with_students_interval() {
        // Both values halve: no spread.
        let halved = Change::of(&[(10.0, 5.0), (20.0, 10.0)]).unwrap();
        assert!((halved.percent + 50.0).abs() < 1e-6 && halved.is_significant(), "{halved:?}");
        // ln 1.1 and ln 1.3: mean 0.1788, half width 12.706 x 0.1181 / sqrt 2 = 1.0613.
        let change = Change::of(&[(100.0, 110.0), (100.0, 130.0)]).unwrap();
        let (low, high) = change.interval_percent.unwrap();
        assert!(
            (change.percent - 19.58).abs() < 0.01
                && (low + 58.6).abs() < 0.2
                && (high - 245.6).abs() < 0.6,
            "{change:?}"
        );
        assert!(!change.is_significant());
        // The change back is the inverse.
        let back = Change::of(&[(110.0, 100.0), (130.0, 100.0)]).unwrap();
        assert!((1.0 + back.percent / 100.0 - 1.0 / (1.0 + change.percent / 100.0)).abs() < 1e-6);
        let one = Change::of(&[(100.0, 90.0)]).unwrap();
        assert_eq!((one.interval_percent, one.is_significant()), (None, false));
        assert_eq!((Change::of(&[]), Change::of(&[(0.0, 1.0)])), (None, None));
        assert_eq!(halved.text(), "-50.0 % (-50.0 to -50.0)");
        assert_eq!(change.text(), "+20 % (-59 to +246)");
    }

    #[test]
    fn names_are_listed_in_words() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(
            (listed(&names), listed(&names[..1]), listed(&[])),
            ("a, b and c".into(), "a".into(), String::new())
        );
    }
}
