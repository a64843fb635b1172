//! A paper's report with everything it depends on: the form that is printed, stored and published.

use fathom_experiments::stack::Stack;
use fathom_experiments::study::StudyRunResult;
use fathom_metrics::significant;
use fathom_netsim::hash::StableHash;
use fathom_report::{Figure, Series};
use serde::{Deserialize, Serialize};

use super::{Artefact, ArtefactSpec, Body, Overrides, Paper, Report, Results, StudyWork};

/// Significant digits of points that are stored permanently; more than a plot shows.
const DIGITS: i32 = 5;
/// Maximum number of points of a curve that are stored permanently.
const POINTS: usize = 400;

/// A report and the inputs that it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of fathom.
    pub fathom: String,
    /// Authors, title, venue and year of the paper.
    pub citation: String,
    /// Command that reproduces this record.
    pub command: String,
    /// Scale of time or responses.
    pub scale: f64,
    /// Studies that were run.
    pub studies: Vec<StudyRecord>,
    /// Requested tables and figures without results.
    pub missing: Vec<String>,
    /// Changes of the paper that were already in effect for these results
    /// ([`Change::id`](crate::Change::id)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Changes since then, one sentence each. If there are any, the results should be made again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
    /// Stack that `--stack` named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Studies that cannot run on this stack, one reason each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The report.
    pub report: Report,
}

/// A study and the number of its runs with results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRecord {
    /// Name of the study.
    pub study: String,
    /// Repetitions of each combination: seeds 1 to this.
    pub seeds: u64,
    /// Stacks that ran the study.
    pub stacks: Vec<String>,
    /// Number of requested runs.
    #[serde(rename = "cells")]
    pub runs: usize,
    /// Number of runs with results.
    pub done: usize,
    /// Combined fingerprint of all runs; equal if scenarios, seeds and scale are equal.
    pub fingerprint: String,
}

impl StudyRecord {
    fn of(work: &StudyWork, results: &[StudyRunResult]) -> Self {
        let mut hash = StableHash::default();
        let mut stacks: Vec<String> = Vec::new();
        for run in &work.runs {
            hash.add_bytes(&run.fingerprint);
            for stack in run.scenario.stacks() {
                if !stacks.iter().any(|s| s == stack.name()) {
                    stacks.push(stack.name().to_owned());
                }
            }
        }
        Self {
            study: work.study.name.clone(),
            seeds: work.study.seeds,
            stacks,
            runs: work.runs.len(),
            done: results.len(),
            fingerprint: format!("{:016x}", hash.value()),
        }
    }
}

impl StudyRecord {
    /// Returns whether the study's runs would differ now.
    fn changed(&self, scale: f64, stack: Option<&str>) -> bool {
        let stack = match stack.map(str::parse::<Stack>) {
            // This build lacks the stack, so the runs cannot be compared.
            Some(Err(_)) => return false,
            Some(Ok(stack)) => Some(stack),
            None => None,
        };
        let now = Overrides { scale, seeds: Some(self.seeds), stack }.named(&self.study);
        // A study that no longer exists, or that no longer runs on the stack, has changed.
        let Ok(now) = now else { return true };
        let now = Self::of(&now, &[]);
        // Results of before `stack` was stored may come from another stack, or this build may lack
        // one of the study's stacks. They cannot be compared.
        now.fingerprint != self.fingerprint && (stack.is_some() || now.stacks == self.stacks)
    }
}

/// Returns the command, `fathom reproduce sdc --figure 4 --scale 0.1`, with everything that the
/// results depend on and nothing about the machine.
fn command(paper: &Paper, wanted: &[&ArtefactSpec], overrides: &Overrides) -> String {
    let mut words = format!("fathom reproduce {}", paper.name);
    if wanted.len() < paper.artefacts.len() {
        for wanted in wanted {
            words += &wanted
                .id
                .split_once(' ')
                .map_or(String::new(), |(kind, name)| format!(" --{kind} {name}"));
        }
    }
    if overrides.scale < 1.0 {
        words += &format!(" --scale {}", overrides.scale);
    }
    if let Some(seeds) = overrides.seeds {
        words += &format!(" --seeds {seeds}");
    }
    if let Some(stack) = overrides.stack {
        words += &format!(" --stack {stack}");
    }
    words
}

impl Record {
    /// Builds the record from the studies' results, with the requested tables and figures that have
    /// results.
    pub fn of(
        paper: &Paper,
        wanted: &[&ArtefactSpec],
        overrides: &Overrides,
        ran: &[(StudyWork, Vec<StudyRunResult>)],
    ) -> Self {
        let mut results = Results::default();
        for (work, of_study) in ran {
            results.add(&work.study.name, of_study.clone());
        }
        let mut report = paper.report(&results);
        report.artefacts.retain(|artefact| wanted.iter().any(|wanted| wanted.id == artefact.id));
        let there = |id: &str| report.artefacts.iter().any(|artefact| artefact.id == id);
        let missing = wanted.iter().filter(|w| !there(w.id)).map(|w| w.id.to_owned()).collect();
        figures(&mut report.artefacts).for_each(finite);
        Self {
            fathom: env!("CARGO_PKG_VERSION").to_owned(),
            citation: paper.citation.to_owned(),
            command: command(paper, wanted, overrides),
            scale: overrides.scale,
            studies: ran.iter().map(|(work, results)| StudyRecord::of(work, results)).collect(),
            missing,
            changes: paper.changes.iter().map(|change| change.id.to_owned()).collect(),
            stale: Vec::new(),
            stack: overrides.stack.map(|stack| stack.name().to_owned()),
            left_out: Vec::new(),
            report,
        }
    }

    /// Judges and describes the results again with the current predicates and texts of the paper,
    /// and lists the changes since they were made. `results` are the results whose runs are still
    /// stored. Tables, figures and claims of other studies stay as they were, except that a claim
    /// with a changed test becomes undecided until its runs are made again.
    pub fn again(mut self, paper: &Paper, results: &Results) -> Self {
        self.citation = paper.citation.to_owned();
        self.stale = self.changes_since(paper);
        let kept =
            |id: &str| self.report.artefacts.iter().find(|artefact| artefact.id == id).cloned();
        let mut now = paper.report(results);
        let artefacts =
            paper.artefacts.iter().filter_map(|spec| match results.have(spec.studies) {
                true => now.artefacts.iter().find(|artefact| artefact.id == spec.id).cloned(),
                false => kept(spec.id),
            });
        let mut artefacts: Vec<_> = artefacts.collect();
        figures(&mut artefacts).for_each(finite);
        let claims = paper.claims.iter().copied().flatten().filter_map(|check| {
            let kept = || self.report.claims.iter().find(|claim| claim.id == check.id).cloned();
            check.claim(results).or_else(|| Some(check.reread(kept()?)))
        });
        now.claims = claims.collect();
        now.artefacts = if self.report.artefacts.is_empty() { Vec::new() } else { artefacts };
        self.report = now;
        self.compact()
    }

    /// Returns the changes since these results were made, from the paper's own list and from the
    /// fingerprints of its studies.
    fn changes_since(&self, paper: &Paper) -> Vec<String> {
        let unknown = paper
            .changes
            .iter()
            .filter(|change| !self.changes.iter().any(|known| known == change.id));
        let mut stale: Vec<String> = unknown.map(|change| change.says.to_owned()).collect();
        let studies: Vec<&str> = self
            .studies
            .iter()
            .filter(|s| s.changed(self.scale, self.stack.as_deref()))
            .map(|s| s.study.as_str())
            .collect();
        if !studies.is_empty() {
            stale.push(format!(
                "Scenarios or rules of these studies have changed: {}.",
                studies.join(", ")
            ));
        }
        stale
    }

    /// Removes tables and figures, and keeps the verdicts on the claims. `left_out` are the reasons
    /// why studies were not run.
    pub fn verdicts_only(mut self, left_out: Vec<String>) -> Self {
        self.report.artefacts.clear();
        self.missing.clear();
        self.left_out = left_out;
        self
    }

    /// Reduces curves to at most 400 points of five digits, for files that are kept permanently.
    pub fn compact(mut self) -> Self {
        figures(&mut self.report.artefacts).flat_map(|f| &mut f.series).for_each(thin);
        self
    }
}

fn figures(artefacts: &mut [Artefact]) -> impl Iterator<Item = &mut Figure> {
    artefacts.iter_mut().filter_map(|artefact| match &mut artefact.body {
        Body::Figure(figure) => Some(figure),
        Body::Table(_) => None,
    })
}

/// Removes points that are not finite, because JSON cannot represent them and plots cannot show
/// them.
fn finite(figure: &mut Figure) {
    for series in &mut figure.series {
        let good: Vec<bool> =
            series.points.iter().map(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let mut keep = good.iter();
        series.points.retain(|_| keep.next().is_some_and(|k| *k));
        if let Some(spread) = &mut series.spread {
            let mut keep = good.iter();
            spread.retain(|_| keep.next().is_some_and(|k| *k));
            spread.iter_mut().filter(|s| !s.is_finite()).for_each(|s| *s = 0.0);
        }
    }
}

fn thin(series: &mut Series) {
    let n = series.points.len();
    // The first and the last point are always kept.
    let kept = |i: usize| {
        n <= POINTS || i == 0 || (i * (POINTS - 1)) / (n - 1) != ((i - 1) * (POINTS - 1)) / (n - 1)
    };
    let mut i = 0;
    let mut next = || {
        i += 1;
        kept(i - 1)
    };
    series.points.retain(|_| next());
    if let Some(spread) = &mut series.spread {
        let mut i = 0;
        spread.retain(|_| {
            i += 1;
            kept(i - 1)
        });
        spread.iter_mut().for_each(|s| *s = significant(*s, DIGITS));
    }
    series
        .points
        .iter_mut()
        .for_each(|(x, y)| (*x, *y) = (significant(*x, DIGITS), significant(*y, DIGITS)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select;
    use crate::testing::{self, PAPERS};

    #[test]
    fn record_names_the_command_that_reproduces_it() {
        let figures = ["5".to_owned(), "3-4".to_owned()];
        let wanted = select(&PAPERS[0], &figures, &[]).unwrap();
        let overrides = Overrides {
            scale: 0.1,
            seeds: Some(3),
            stack: Some(fathom_experiments::stack::Stack::Noq),
        };
        let work = overrides
            .work(&wanted)
            .unwrap()
            .into_iter()
            .map(|w| (w, Vec::new()))
            .collect::<Vec<_>>();
        let record = Record::of(&PAPERS[0], &wanted, &overrides, &work);
        assert_eq!(
            record.command,
            "fathom reproduce made-up --figure 3-4 --figure 5 --scale 0.1 --seeds 3 --stack noq"
        );
        // There are no results, and both requested figures need studies, so both are missing.
        assert_eq!(record.missing, ["figure 3-4", "figure 5"]);
        let ran = &record.studies[0];
        assert_eq!((ran.done, ran.seeds, ran.stacks.as_slice()), (0, 3, &["noq".to_owned()][..]));
        let other = StudyRecord::of(
            &Overrides { seeds: Some(2), ..overrides }.work(&wanted).unwrap()[0],
            &[],
        );
        assert_ne!(other.fingerprint, ran.fingerprint);
        let whole = Overrides { scale: 1.0, seeds: None, stack: None };
        let all: Vec<&ArtefactSpec> = PAPERS[0].artefacts.iter().collect();
        assert_eq!(Record::of(&PAPERS[0], &all, &whole, &[]).command, "fathom reproduce made-up");
    }

    /// Returns a complete record and the results that it was made from.
    fn made() -> (Record, Results) {
        let record = testing::record();
        let wanted: Vec<&ArtefactSpec> = PAPERS[0].artefacts.iter().collect();
        let work = Overrides { scale: 0.5, seeds: Some(2), stack: None }.work(&wanted).unwrap();
        let mut results = Results::default();
        work.iter().for_each(|w| results.add(&w.study.name, testing::results(w)));
        (record.compact(), results)
    }

    #[test]
    fn rejudged_record_is_unchanged() {
        let (record, results) = made();
        assert_eq!(record.clone().again(&PAPERS[0], &results), record);
        assert!(record.stale.is_empty());
        // Without the runs, the record keeps its contents.
        assert_eq!(record.clone().again(&PAPERS[0], &Results::default()), record);
    }

    /// Some figures need no runs, so they could be made again from nothing.
    #[test]
    fn verdicts_on_another_stack_stay_without_tables_and_figures() {
        for paper in crate::PAPERS {
            let wanted: Vec<&ArtefactSpec> = paper.artefacts.iter().collect();
            let overrides = Overrides { scale: 1.0, seeds: Some(2), stack: Some(Stack::Noq) };
            let (work, _) = match overrides.possible(&wanted) {
                Ok(possible) => possible,
                // Such a paper is about TCP, or compares stacks.
                Err(_) => continue,
            };
            let ran: Vec<_> = work.into_iter().map(|work| (work, Vec::new())).collect();
            let record = Record::of(paper, &wanted, &overrides, &ran).verdicts_only(Vec::new());
            assert_eq!(record.stack.as_deref(), Some("noq"), "{}", paper.name);
            assert_eq!(record.clone().again(paper, &Results::default()), record, "{}", paper.name);

            let mut old = record;
            old.studies[0].fingerprint = "00".to_owned();
            let stale = old.again(paper, &Results::default()).stale;
            assert_eq!(stale.len(), 1, "{}: {stale:?}", paper.name);
        }
    }

    #[test]
    fn verdicts_are_recomputed_from_stored_results() {
        let (now, results) = made();
        let mut old = now.clone();
        let claim = &mut old.report.claims[0];
        (claim.verdict, claim.says, claim.found) =
            (crate::Verdict::NotHeld, "x".into(), "y".into());
        assert_eq!(old.clone().again(&PAPERS[0], &results), now);
        // The claims need no results, so they are judged even without any; texts and departures are
        // the current ones.
        old.report.departures.clear();
        assert_eq!(old.again(&PAPERS[0], &Results::default()), now);
    }

    #[test]
    fn record_lists_changes_made_since_it_was_stored() {
        let (mut record, results) = made();
        record.changes.clear();
        record.studies[0].fingerprint = "00".into();
        let record = record.again(&PAPERS[0], &results);
        assert_eq!(record.stale.len(), 2, "{:?}", record.stale);
        assert!(
            record.stale[0].contains("RED marked") && record.stale[1].contains("sdc-figure-4.")
        );
        let (text, page) = (crate::report::text(&record), crate::report::markdown(&record, &[]));
        for said in ["RED marked three times", "sdc-figure-4.", "Applies to these results until"] {
            assert!(
                text.contains(said)
                    && page.contains(said)
                    && crate::report::html(&record).contains(said),
                "{said}"
            );
        }
        assert!(page.contains("These results have to be computed again"), "{page}");
    }

    #[test]
    fn report_contains_only_the_requested_figures_and_tables() {
        let wanted = select(&PAPERS[0], &["5".to_owned()], &[]).unwrap();
        let overrides = Overrides { scale: 1.0, seeds: Some(1), stack: None };
        let ran: Vec<_> = overrides
            .work(&wanted)
            .unwrap()
            .into_iter()
            .map(|w| (w.clone(), testing::results(&w)))
            .collect();
        let record = Record::of(&PAPERS[0], &wanted, &overrides, &ran);
        assert_eq!(
            record.report.artefacts.iter().map(|a| a.id.as_str()).collect::<Vec<_>>(),
            ["figure 5"]
        );
        assert!(record.missing.is_empty());
        assert_eq!(record.studies[0].done, record.studies[0].runs);
        // Points that are not finite are left out: JSON would turn them into null, which cannot be
        // read back.
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn compacted_curves_keep_their_end_points_and_spread() {
        let mut series = Series {
            name: "a".into(),
            points: (0..10_001).map(|i| (f64::from(i) / 3.0, f64::from(i))).collect(),
            spread: Some((0..10_001).map(|i| f64::from(i) * 2.0).collect()),
            scatter: false,
        };
        thin(&mut series);
        assert_eq!(
            (series.points.len(), series.points[0], series.points[399].1),
            (400, (0.0, 0.0), 10_000.0)
        );
        assert_eq!(series.points[399].0, 3333.3);
        for ((_, y), spread) in series.points.iter().zip(series.spread.unwrap()) {
            assert!((spread - 2.0 * y).abs() <= 1e-4 * spread.max(1.0));
        }
        let mut short =
            Series { name: "b".into(), points: vec![(1.0, 2.0)], spread: None, scatter: true };
        thin(&mut short);
        assert_eq!(short.points, [(1.0, 2.0)]);
    }
}
