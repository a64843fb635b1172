//! Ranking of a comparison: controllers in the order of the primary measure, and the conclusions
//! that it supports.
//!
//! `measures/standings.rs` explains how controllers are compared.

use std::collections::BTreeMap;

use fathom_cc::Rate;
use fathom_metrics::Estimate;

use super::plan::FORWARD;
use super::result::{Candidate, Comparison};
use crate::measures::{
    Better, Change, Entrant, MEASURES, MOST_LEFT_OUT, Measure, Standings, listed, primary,
};
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
    /// measure leaves failed requests out, and too many of its requests failed.
    pub misses_failures: bool,
    /// Whether the controller may be as good as the first one: no other controller is better by
    /// more than the interval of their change. Always `false` for the first controller and with one
    /// run each.
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
    /// Number of seeds if all seeds give the same run; `None` if the runs differ.
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
        let standings =
            Standings::new(measure, candidates.iter().map(|of| of.entrant(measure)).collect());
        let is_ranked = self.plan.backends.len() < 2;
        let place = |i: usize| standings.order.iter().position(|of| *of == i);
        let entry = |i: usize| {
            let candidate = &candidates[i];
            let base = self.baseline_of(candidate, &candidates);
            let base =
                base.and_then(|base| candidates.iter().position(|of| of.label == base.label));
            Ranked {
                candidate: candidate.clone(),
                place: place(i).filter(|_| is_ranked).map(|place| place + 1),
                misses_failures: standings.misses_failures(i),
                tied: is_ranked
                    && place(i) != Some(0)
                    && standings.seeds() > 1
                    && standings.first.contains(&i),
                value: standings.estimate(i),
                change: base.filter(|base| *base != i).and_then(|base| standings.change(base, i)),
            }
        };
        let mut entries: Vec<Ranked<'_>> = (0..candidates.len()).map(entry).collect();
        if is_ranked {
            entries.sort_by_key(|entry| (entry.misses_failures, entry.place.unwrap_or(usize::MAX)));
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
    /// Returns sentences that state the conclusions, and sentences that state which conclusions the
    /// data do not support.
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
                    "With {} controllers, about one interval in twenty misses the true value by \
                     chance: repeat close comparisons with more seeds.",
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
                "{} {are} not ranked: more than {:.0} % of their requests failed, and the {} \
                 describes only the other requests.",
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
                "All {seeds} seeds gave the same run, because nothing in this scenario is random. \
                 So there is no interval, and more seeds add nothing. To add randomness, use \
                 --loss, --jitter or transfers that start at random times."
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
                "Compared with {base}, by {measure} over {seeds} seeds: {}.",
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
        let is_better = |entry: &&&Ranked<'_>| {
            let change = entry.candidate.change_from(&with[0].candidate, self.measure);
            let change = change.filter(Change::is_significant);
            change.is_some_and(|change| change.is_improvement(self.measure))
        };
        let beats_first = with.iter().find(is_better);
        if let Some(better) = beats_first {
            lines.push(format!(
                "{} has the best mean, but {} is better if each seed is compared: a few seeds \
                 determine the mean.",
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
                    format!("It is undecided which of {} is the best.", listed(several))
                }
                several => {
                    format!(
                        "It is undecided which of the {} controllers ranked first or marked ~ is \
                         the best.",
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
                "{}: {} {} compared with the first backend.",
                entry.candidate.label,
                self.measure.name,
                change.text()
            ))
        });
        let one = (seeds == 1).then(|| self.one_seed());
        self.not_ranked().into_iter().chain(changes).chain(one).collect()
    }
}

/// Maximum number of controllers that a sentence names. More are counted.
const NAMED: usize = 4;

const ONE_SEED: &str =
    "One seed is not a result: another seed may give a very different value (--seeds 5).";

impl<'a> Candidate<'a> {
    /// Returns the value of every run that has a value of the measure, by seed.
    pub fn values(&self, measure: &Measure) -> BTreeMap<u64, f64> {
        let of = |run: &&super::ComparedRun| {
            Some((run.seed, measure.of(&run.outcome, FORWARD.0, &run.bottleneck)?))
        };
        self.runs.iter().filter_map(of).collect()
    }

    /// Returns the candidate's entry in a ranking by a measure.
    fn entrant(&self, measure: &Measure) -> Entrant {
        let sum = |of: fn(&GroupOutcome) -> u64| self.runs.iter().map(|run| of(run.group())).sum();
        Entrant {
            values: self.values(measure),
            failed: sum(|group| group.failed),
            completed: sum(|group| group.responses),
        }
    }

    /// Returns a measure over the seeds; `None` if no run has a value or if there are too few
    /// samples.
    pub fn estimate(&self, measure: &Measure) -> Option<Estimate> {
        let samples: u64 = self.runs.iter().map(|run| measure.samples(run.group())).sum();
        let values: Vec<f64> = self.values(measure).into_values().collect();
        (samples >= measure.samples_needed()).then(|| Estimate::of(&values)).flatten()
    }

    /// Returns the change of a measure from `base` to this candidate: points for a percentage, a
    /// ratio for any other measure.
    pub fn change_from(&self, base: &Candidate<'_>, measure: &Measure) -> Option<Change> {
        Change::by_seed(measure, &base.values(measure), &self.values(measure))
    }

    /// Returns this candidate's value minus the value of `base`, over the seeds that both have.
    pub fn difference_from(&self, base: &Candidate<'_>, measure: &Measure) -> Option<Estimate> {
        let of_base = base.values(measure);
        let pair = |(seed, own): (u64, f64)| Some((own, *of_base.get(&seed)?));
        let (own, theirs): (Vec<f64>, Vec<f64>) =
            self.values(measure).into_iter().filter_map(pair).unzip();
        Estimate::of_differences(&own, &theirs)
    }
}
