//! The studies needed by one call, each once, with their runs and their estimated cost.

use std::fmt::Write;

use fathom_cc::Invalid;
use fathom_experiments::stack::Stack;
use fathom_experiments::study::{Study, StudyRun, estimate, shipped, time_text};

use super::{ArtefactSpec, Paper};

/// Options of one call that override those of a paper's studies.
#[derive(Clone, Copy, Debug)]
pub struct Overrides {
    /// Factor for the time or responses of every run: above 0, at most 1.
    pub scale: f64,
    /// Repetitions of each run instead of each study's own number.
    pub seeds: Option<u64>,
    /// Stack of both ends instead of each study's own.
    pub stack: Option<Stack>,
}

/// A study and its requested runs.
#[derive(Clone, Debug)]
pub struct StudyWork {
    /// The study.
    pub study: Study,
    /// Runs at the given scale.
    pub runs: Vec<StudyRun>,
}

impl Overrides {
    /// Returns one of the shipped studies.
    pub(crate) fn named(&self, name: &str) -> Result<StudyWork, Invalid> {
        let text = shipped(name)
            .ok_or_else(|| Invalid::because(format!("no study '{name}' is in this build")))?;
        let mut study = Study::from_toml(name, text)?;
        if let Some(seeds) = self.seeds {
            study = study.with_seeds(seeds)?;
        }
        if let Some(stack) = self.stack {
            study = study.with_stack(stack)?;
        }
        let runs = study.runs(self.scale)?;
        Ok(StudyWork { study, runs })
    }

    /// Returns the studies that these tables and figures need, each once, in order of first
    /// appearance.
    ///
    /// # Errors
    /// Returns an error if scale or seeds are out of range, or if a study cannot run on the stack.
    pub fn work(&self, wanted: &[&ArtefactSpec]) -> Result<Vec<StudyWork>, Invalid> {
        names(wanted).into_iter().map(|name| self.study(name)).collect()
    }

    /// Returns the studies as [`Overrides::work`] does, but without those that run on their own stack
    /// and not on the requested one. Also returns the reasons for leaving them out.
    ///
    /// # Errors
    /// Returns an error if a study cannot run on its own stack either, or if no study is left.
    pub fn possible(
        &self,
        wanted: &[&ArtefactSpec],
    ) -> Result<(Vec<StudyWork>, Vec<Invalid>), Invalid> {
        let (mut work, mut errors) = (Vec::new(), Vec::new());
        let own = Self { stack: None, ..*self };
        for name in names(wanted) {
            match self.study(name) {
                Ok(study) => work.push(study),
                Err(e) => {
                    own.study(name)?;
                    errors.push(e);
                }
            }
        }
        if work.is_empty() && !errors.is_empty() {
            return Err(errors.swap_remove(0));
        }
        Ok((work, errors))
    }

    fn study(&self, name: &str) -> Result<StudyWork, Invalid> {
        self.named(name).map_err(|e| e.in_field(format!("study '{name}'")))
    }
}

/// Returns the names of the studies that these tables and figures need, in order of first
/// appearance.
fn names(wanted: &[&ArtefactSpec]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in wanted.iter().flat_map(|wanted| wanted.studies) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

/// Returns the estimated CPU seconds of these studies on one core.
fn cpu(work: &[StudyWork]) -> f64 {
    work.iter().flat_map(|w| &w.runs).map(|run| estimate(&run.scenario).cpu_seconds).sum()
}

/// Formats the cost: `2 studies, 72 runs, 12 min of CPU`. The CPU time is an estimate.
pub fn cost(work: &[StudyWork]) -> String {
    let runs: usize = work.iter().map(|w| w.runs.len()).sum();
    let count =
        |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let absent = match work.iter().map(|w| w.study.absent * w.study.seeds as usize).sum() {
        0 => String::new(),
        n => format!(", {} left out for want of quiche in this build", count(n, "run", "runs")),
    };
    format!(
        "{}, {}, {} of CPU{absent}",
        count(work.len(), "study", "studies"),
        count(runs, "run", "runs"),
        time_text(cpu(work))
    )
}

/// Lists papers with their tables and figures and the estimated cost of each.
///
/// # Errors
/// Returns errors as [`Overrides::possible`] does.
pub fn list(papers: &[Paper], overrides: &Overrides, cores: usize) -> Result<String, Invalid> {
    let mut text = String::new();
    for paper in papers {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{}: {}", paper.name, paper.citation);
        let width =
            paper.artefacts.iter().map(|wanted| wanted.id.chars().count()).max().unwrap_or(0);
        for wanted in paper.artefacts {
            let _ = writeln!(text, "  {:width$}  {}", wanted.id, wanted.shows);
            if wanted.studies.is_empty() {
                let _ = writeln!(text, "  {:width$}  needs no runs", "");
                continue;
            }
            let studies = wanted.studies.join(", ");
            let _ = match overrides.possible(&[wanted]) {
                Ok((work, _)) => writeln!(text, "  {:width$}  {studies}: {}", "", cost(&work)),
                Err(e) if overrides.stack.is_some() => {
                    writeln!(text, "  {:width$}  cannot be run: {e}", "")
                }
                Err(e) => return Err(e),
            };
        }
        let _ = match overrides.possible(&paper.artefacts.iter().collect::<Vec<_>>()) {
            Ok((work, _)) => {
                let wall = time_text(cpu(&work) / cores.max(1) as f64);
                writeln!(text, "  {:width$}  {}: {wall} on this machine", "all", cost(&work))
            }
            // No study of the paper runs on the stack, as the lines above say.
            Err(_) if overrides.stack.is_some() => Ok(()),
            Err(e) => return Err(e),
        };
    }
    if papers.is_empty() {
        text.push_str("no papers are in this build\n");
    }
    if overrides.scale < 1.0 {
        let _ = writeln!(text, "costs are at scale {}", overrides.scale);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PAPERS;

    const FULL: Overrides = Overrides { scale: 1.0, seeds: None, stack: None };

    /// Runs of fixed length, or flows that start over a fixed time, would violate this.
    #[test]
    fn every_paper_at_the_smallest_scale_takes_under_a_minute() {
        let quick = Overrides { scale: 0.002, ..FULL };
        for paper in crate::PAPERS {
            let wanted: Vec<&ArtefactSpec> = paper.artefacts.iter().collect();
            let seconds = cpu(&quick.work(&wanted).unwrap());
            assert!(seconds < 60.0, "{}: {seconds} s of CPU, guessed", paper.name);
        }
    }

    #[test]
    fn study_shared_by_several_artefacts_is_run_once() {
        let wanted: Vec<&ArtefactSpec> = PAPERS[0].artefacts.iter().collect();
        let names =
            |work: Vec<StudyWork>| work.into_iter().map(|w| w.study.name).collect::<Vec<_>>();
        assert_eq!(names(FULL.work(&wanted).unwrap()), ["sdc-figure-4", "packet-size-4.3.1"]);
        assert_eq!(names(FULL.work(&wanted[..1]).unwrap()), ["sdc-figure-4"]);
    }

    #[test]
    fn overrides_of_scale_seeds_and_stack_are_checked_and_applied() {
        let wanted = [&PAPERS[0].artefacts[0]];
        let overrides = Overrides { scale: 0.1, seeds: Some(2), stack: Some(Stack::Noq) };
        let work = overrides.work(&wanted).unwrap();
        // There are 18 numbers of flows, two systems (SDC §3.1), and two seeds.
        assert_eq!(work[0].runs.len(), 72);
        assert!(work[0].runs.iter().all(|run| run.scenario.stacks() == [Stack::Noq]));
        let error = Overrides { scale: 2.0, ..FULL }.work(&wanted).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("sdc-figure-4") && error.contains("scale"), "{error}");
        let unknown = ArtefactSpec { studies: &["no-such-study"], ..PAPERS[0].artefacts[0] };
        assert!(FULL.work(&[&unknown]).unwrap_err().to_string().contains("no-such-study"));
    }

    #[test]
    fn every_paper_can_be_listed_on_another_stack() {
        let noq = Overrides { stack: Some(Stack::Noq), ..FULL };
        let text = list(crate::PAPERS, &noq, 2).unwrap();
        for paper in crate::PAPERS {
            assert!(text.contains(&format!("{}: ", paper.name)), "{text}");
        }
        assert!(text.contains("cannot be run: "), "{text}");
    }

    #[test]
    fn only_a_requested_stack_leaves_studies_out_and_never_all() {
        let known = PAPERS[0].artefacts[0];
        // This study compares stacks itself.
        let compares = ArtefactSpec { studies: &["collapse-stacks"], ..known };
        let unknown = ArtefactSpec { studies: &["no-such-study"], ..known };
        let noq = Overrides { stack: Some(Stack::Noq), ..FULL };
        let (work, left_out) = noq.possible(&[&compares, &known]).unwrap();
        assert_eq!((work.len(), left_out.len()), (1, 1));
        assert!(left_out[0].to_string().contains("collapse-stacks"), "{}", left_out[0]);
        assert!(FULL.possible(&[&compares, &known]).unwrap().1.is_empty());
        assert!(noq.possible(&[&compares]).is_err());
        let error = noq.possible(&[&unknown, &known]).unwrap_err().to_string();
        assert!(error.contains("no-such-study"), "{error}");
    }

    #[test]
    fn reproduce_list_counts_each_shared_study_once() {
        let text = list(PAPERS, &Overrides { seeds: Some(1), ..FULL }, 2).unwrap();
        for wanted in PAPERS[0].artefacts {
            assert!(text.contains(wanted.id) && text.contains(wanted.shows), "{text}");
        }
        let runs = |name: &str| {
            let overrides = Overrides { seeds: Some(1), ..FULL };
            overrides.named(name).unwrap().runs.len()
        };
        let both = runs("sdc-figure-4") + runs("packet-size-4.3.1");
        assert!(text.contains(&format!("2 studies, {both} runs, ")), "{text}");
        assert!(list(&[], &FULL, 1).unwrap().contains("no papers"));
    }
}
