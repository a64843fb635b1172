//! What one call asks of a paper: the studies, each once, with their cells, and what they will cost.

use std::fmt::Write;

use super::{Paper, Wanted};
use crate::experiment::PlanError;
use crate::stack::Stack;
use crate::study::{Cell, Study, estimate, shipped, time_text};

/// What changes a paper's studies for one call.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Multiplies time or responses of every cell: above 0, at most 1.
    pub scale: f64,
    /// Repetitions of each cell, instead of each study's own.
    pub seeds: Option<u64>,
    /// Stack of both ends, instead of each study's own.
    pub stack: Option<Stack>,
}

/// A study, and the cells of it that are asked for.
#[derive(Clone, Debug)]
pub struct Work {
    /// The study.
    pub study: Study,
    /// Its cells at the scale.
    pub cells: Vec<Cell>,
}

impl Asked {
    /// One study of those that ship.
    fn study(&self, name: &str) -> Result<Work, PlanError> {
        let text = shipped(name).ok_or_else(|| PlanError(format!("no study '{name}' comes with this build")))?;
        let mut study = Study::from_toml(name, text)?;
        if let Some(seeds) = self.seeds {
            study = study.with_seeds(seeds)?;
        }
        if let Some(stack) = self.stack {
            study = study.with_stack(stack)?;
        }
        let cells = study.cells(self.scale)?;
        Ok(Work { study, cells })
    }

    /// The studies that these tables and figures need, each once, in the order in which they first come.
    ///
    /// # Errors
    /// Scale or seeds are out of range, or a study cannot run on the stack.
    pub fn work(&self, wanted: &[&Wanted]) -> Result<Vec<Work>, PlanError> {
        let mut names: Vec<&str> = Vec::new();
        for name in wanted.iter().flat_map(|wanted| wanted.studies) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let named = |name: &str| self.study(name).map_err(|PlanError(e)| PlanError(format!("study '{name}': {e}")));
        names.into_iter().map(named).collect()
    }
}

/// CPU seconds of these studies on one core, guessed.
fn cpu(work: &[Work]) -> f64 {
    work.iter().flat_map(|w| &w.cells).map(|cell| estimate(&cell.scenario).cpu_seconds).sum()
}

/// `2 studies, 72 cells, 12 min of CPU`: the CPU is a guess.
pub fn cost(work: &[Work]) -> String {
    let cells: usize = work.iter().map(|w| w.cells.len()).sum();
    let count = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    format!(
        "{}, {}, {} of CPU",
        count(work.len(), "study", "studies"),
        count(cells, "cell", "cells"),
        time_text(cpu(work))
    )
}

/// Papers with their tables and figures, and what each costs, guessed.
///
/// # Errors
/// As [`Asked::work`].
pub fn list(papers: &[Paper], asked: &Asked, cores: usize) -> Result<String, PlanError> {
    let mut text = String::new();
    for paper in papers {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{}: {}", paper.name, paper.citation);
        let width = paper.artefacts.iter().map(|wanted| wanted.id.chars().count()).max().unwrap_or(0);
        for wanted in paper.artefacts {
            let work = asked.work(&[wanted])?;
            let _ = writeln!(text, "  {:width$}  {}", wanted.id, wanted.shows);
            let _ = writeln!(text, "  {:width$}  {}: {}", "", wanted.studies.join(", "), cost(&work));
        }
        let work = asked.work(&paper.artefacts.iter().collect::<Vec<_>>())?;
        let wall = time_text(cpu(&work) / cores.max(1) as f64);
        let _ = writeln!(text, "  {:width$}  {}: {wall} on this machine", "all", cost(&work));
    }
    if papers.is_empty() {
        text.push_str("no papers are in this build\n");
    }
    if asked.scale < 1.0 {
        let _ = writeln!(text, "costs are at scale {}", asked.scale);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::PAPERS;

    const FULL: Asked = Asked { scale: 1.0, seeds: None, stack: None };

    #[test]
    fn every_study_comes_once() {
        let wanted: Vec<&Wanted> = PAPERS[0].artefacts.iter().collect();
        let names = |work: Vec<Work>| work.into_iter().map(|w| w.study.name).collect::<Vec<_>>();
        assert_eq!(names(FULL.work(&wanted).unwrap()), ["sdc-figure-4", "packet-size-4.3.1"]);
        assert_eq!(names(FULL.work(&wanted[..1]).unwrap()), ["sdc-figure-4"]);
    }

    #[test]
    fn what_is_asked_changes_the_cells_and_what_is_wrong_is_told() {
        let wanted = [&PAPERS[0].artefacts[0]];
        let asked = Asked { scale: 0.1, seeds: Some(2), stack: Some(Stack::Noq) };
        let work = asked.work(&wanted).unwrap();
        // 18 numbers of flows, two systems (SDC §3.1), two seeds.
        assert_eq!(work[0].cells.len(), 72);
        assert!(work[0].cells.iter().all(|cell| cell.scenario.stack == Stack::Noq));
        let error = Asked { scale: 2.0, ..FULL }.work(&wanted).unwrap_err();
        assert!(error.0.contains("sdc-figure-4") && error.0.contains("scale"), "{error}");
        let unknown = Wanted { id: "figure 1", shows: "", studies: &["no-such-study"] };
        assert!(FULL.work(&[&unknown]).unwrap_err().0.contains("no-such-study"));
    }

    #[test]
    fn the_list_names_everything_and_counts_shared_studies_once() {
        let text = list(PAPERS, &Asked { seeds: Some(1), ..FULL }, 2).unwrap();
        for wanted in PAPERS[0].artefacts {
            assert!(text.contains(wanted.id) && text.contains(wanted.shows), "{text}");
        }
        let cells = |name: &str| {
            let asked = Asked { seeds: Some(1), ..FULL };
            asked.study(name).unwrap().cells.len()
        };
        let both = cells("sdc-figure-4") + cells("packet-size-4.3.1");
        assert!(text.contains(&format!("2 studies, {both} cells, ")), "{text}");
        assert!(list(&[], &FULL, 1).unwrap().contains("no papers"));
    }
}
