//! The papers' experiments, run again: which studies each table and figure needs, how they come from the studies' results, and what the
//! paper claims of them, checked by code.
//!
//! | file | what is in it |
//! |---|---|
//! | `select.rs` | which tables and figures are meant |
//! | `work.rs` | the studies they need, and what those cost |
//! | `results.rs` | results of studies by key |
//! | `report.rs` | tables, figures and claims as data |
//! | `record.rs` | a report with all that it depends on |
//! | `claims/` | claims and their verdicts: of pairs (`mod.rs`), of values, and curves (`values.rs`) |
//! | `sync_tcp/`, `sdc/`, `ghstcp/`, `packet_size/` | one paper each |
//!
//! A claim is a statement of the paper and a predicate over measured numbers, written before the numbers were seen or marked otherwise.
//! Nothing is tuned to look right: what does not hold is said not to hold, and the departures say what differs from the paper.

mod claims;
mod dca;
mod ghstcp;
mod packet_size;
mod record;
mod report;
mod results;
mod sdc;
mod select;
mod sync_tcp;
#[cfg(test)]
pub(crate) mod testing;
mod work;

pub use record::{Record, StudyRecord};
pub use report::{Artefact, Axis, Body, Claim, Entry, Figure, Report, Row, Series, Table, Verdict};
pub use results::Results;
pub use select::{find, select};
pub use work::{Overrides, StudyWork, cost, list};

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// What users type: `sync-tcp`.
    pub name: &'static str,
    /// Authors, title, where and when.
    pub citation: &'static str,
    /// Its tables and figures that are reproduced, and the shipped studies that each needs.
    pub artefacts: &'static [ArtefactSpec],
    /// Makes the tables and figures, in the order of `artefacts`.
    pub figures: fn(&Results) -> Vec<Artefact>,
    /// Judges the claims whose studies have results.
    pub claims: fn(&Results) -> Vec<Claim>,
    /// Where the experiments differ from the paper's, one sentence each.
    pub departures: &'static [&'static str],
}

impl Paper {
    /// The report of what is there: artefacts and claims whose studies have no results are left out.
    pub fn report(&self, results: &Results) -> Report {
        let has = |id: &str| self.artefacts.iter().any(|wanted| wanted.id == id && results.have(wanted.studies));
        let mut artefacts = (self.figures)(results);
        artefacts.retain(|artefact| has(&artefact.id));
        Report {
            paper: self.name.into(),
            artefacts,
            claims: (self.claims)(results),
            departures: self.departures.iter().map(|departure| (*departure).to_owned()).collect(),
        }
    }
}

/// A table or figure that a paper has.
#[derive(Clone, Copy, Debug)]
pub struct ArtefactSpec {
    /// `table 1`, `figure 10`: as users name it and as [`Artefact::id`] has it.
    pub id: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
    /// Names of the studies it needs ([`crate::study::shipped`]).
    pub studies: &'static [&'static str],
}

/// Every paper.
pub const PAPERS: &[Paper] = &[sync_tcp::PAPER, dca::PAPER, sdc::PAPER, ghstcp::PAPER, packet_size::PAPER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_has_its_studies_and_each_name_once() {
        let overrides = Overrides { scale: 0.01, seeds: Some(1), stack: None };
        for (i, paper) in PAPERS.iter().enumerate() {
            assert!(PAPERS[..i].iter().all(|other| other.name != paper.name), "{} twice", paper.name);
            for (j, wanted) in paper.artefacts.iter().enumerate() {
                assert!(paper.artefacts[..j].iter().all(|other| other.id != wanted.id), "{} twice", wanted.id);
                let figure = wanted.id.strip_prefix("figure ").map(str::to_owned).into_iter().collect::<Vec<_>>();
                let name = wanted.id.strip_prefix("table ").unwrap_or(wanted.id).to_owned();
                let table = if figure.is_empty() { vec![name] } else { Vec::new() };
                let found = select(paper, &figure, &table).unwrap_or_else(|e| panic!("{}: {e}", paper.name));
                assert_eq!(found.iter().map(|w| w.id).collect::<Vec<_>>(), [wanted.id]);
                let work = overrides.work(&[wanted]).unwrap_or_else(|e| panic!("{} {}: {e}", paper.name, wanted.id));
                assert!(!work.is_empty(), "{} {}", paper.name, wanted.id);
            }
            assert!(paper.report(&Results::default()).artefacts.is_empty(), "{}: artefacts of no results", paper.name);
        }
    }
}
