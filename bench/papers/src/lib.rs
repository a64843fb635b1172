//! The papers' experiments, run again: which studies each table and figure needs, how they come from the studies' results, and what the
//! paper claims of them, checked by code.
//!
//! | file | what is in it |
//! |---|---|
//! | `select.rs` | which tables and figures are meant |
//! | `work.rs` | the studies they need, and what those cost |
//! | `results.rs` | results of studies by key, numbers by seed, curves along an axis |
//! | `noise.rs` | how far numbers move by chance: what one seed has to differ by |
//! | `artefact.rs` | tables, figures and claims as data |
//! | `report/` | a record for a terminal, as one HTML file, as a page of the documentation |
//! | `record.rs` | a report with all that it depends on |
//! | `claims.rs` | claims with their predicates, and the comparisons that these are made of |
//! | `sync_tcp/`, `dca/`, `sdc/`, `ghstcp/`, `packet_size/` | one paper each |
//! | `validation.rs` | the papers' scenarios with TCP, and bands around their numbers |
//!
//! A claim is a statement of the paper and a predicate over measured numbers, written before the numbers were seen or marked otherwise.
//! Nothing is tuned to look right: what does not hold is said not to hold, and the departures say what differs from the paper.

mod artefact;
mod claims;
mod dca;
mod ghstcp;
mod ladders;
mod noise;
mod packet_size;
mod record;
pub mod report;
mod results;
mod sdc;
mod select;
mod sync_tcp;
#[cfg(test)]
pub(crate) mod testing;
mod validation;
mod work;

pub use artefact::{Artefact, Body, Claim, Report, Verdict};
pub use claims::{ClaimCheck, Finding, Reason, claim};
pub use record::{Record, StudyRecord};
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
    /// Its tables and figures that are reproduced, in its order.
    pub artefacts: &'static [ArtefactSpec],
    /// What it claims of them.
    pub claims: &'static [&'static [ClaimCheck]],
    /// Where the experiments differ from the paper's, one sentence each.
    pub departures: &'static [&'static str],
    /// What has changed since results of it were first kept, and moves its numbers.
    pub changes: &'static [Change],
}

/// A change of the laboratory or of a controller that moves a paper's numbers, and that fingerprints do not show or do not explain. Records
/// made before it say so.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// What records keep of it.
    pub id: &'static str,
    /// How results from before differ, in a sentence.
    pub says: &'static str,
}

impl Paper {
    /// The report of what is there: artefacts and claims whose studies have no results are left out.
    pub fn report(&self, results: &Results) -> Report {
        let there = self.artefacts.iter().filter(|spec| results.have(spec.studies));
        Report {
            paper: self.name.into(),
            artefacts: there
                .map(|spec| Artefact { id: spec.id.into(), ..(spec.make)(results) })
                .collect(),
            claims: self
                .claims
                .iter()
                .copied()
                .flatten()
                .filter_map(|check| check.claim(results))
                .collect(),
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
    /// Names of the studies it needs ([`fathom_experiments::study::shipped`]).
    pub studies: &'static [&'static str],
    /// Makes it from results of these studies.
    pub make: fn(&Results) -> Artefact,
}

/// A table or figure: what users call it, what it shows, the studies it needs, and what makes it of their results.
pub const fn spec(
    id: &'static str,
    shows: &'static str,
    studies: &'static [&'static str],
    make: fn(&Results) -> Artefact,
) -> ArtefactSpec {
    ArtefactSpec { id, shows, studies, make }
}

/// Every paper.
pub const PAPERS: &[Paper] = &[
    sync_tcp::PAPER,
    dca::PAPER,
    sdc::PAPER,
    ghstcp::PAPER,
    packet_size::PAPER,
    validation::PAPER,
    ladders::PAPER,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::study;

    #[test]
    fn every_paper_has_its_studies_and_each_name_once() {
        let overrides = Overrides { scale: 0.01, seeds: Some(1), stack: None };
        for (i, paper) in PAPERS.iter().enumerate() {
            assert!(
                PAPERS[..i].iter().all(|other| other.name != paper.name),
                "{} twice",
                paper.name
            );
            for (j, change) in paper.changes.iter().enumerate() {
                assert!(
                    paper.changes[..j].iter().all(|other| other.id != change.id),
                    "{} twice",
                    change.id
                );
            }
            for (j, wanted) in paper.artefacts.iter().enumerate() {
                assert!(
                    paper.artefacts[..j].iter().all(|other| other.id != wanted.id),
                    "{} twice",
                    wanted.id
                );
                let figure = wanted
                    .id
                    .strip_prefix("figure ")
                    .map(str::to_owned)
                    .into_iter()
                    .collect::<Vec<_>>();
                let name = wanted.id.strip_prefix("table ").unwrap_or(wanted.id).to_owned();
                let table = if figure.is_empty() { vec![name] } else { Vec::new() };
                let found = select(paper, &figure, &table)
                    .unwrap_or_else(|e| panic!("{}: {e}", paper.name));
                assert_eq!(found.iter().map(|w| w.id).collect::<Vec<_>>(), [wanted.id]);
                let work = overrides
                    .work(&[wanted])
                    .unwrap_or_else(|e| panic!("{} {}: {e}", paper.name, wanted.id));
                assert!(!work.is_empty(), "{} {}", paper.name, wanted.id);
                wanted
                    .studies
                    .iter()
                    .for_each(|name| assert!(!study(name).runs(1.0).unwrap().is_empty(), "{name}"));
            }
            let report = paper.report(&Results::default());
            assert!(
                report.artefacts.is_empty() && report.claims.is_empty(),
                "{}: a report of nothing",
                paper.name
            );
            assert!(!report.departures.is_empty());
        }
    }

    #[test]
    fn runs_without_numbers_decide_nothing() {
        for paper in PAPERS {
            let wanted: Vec<&ArtefactSpec> = paper.artefacts.iter().collect();
            let work =
                Overrides { scale: 0.01, seeds: Some(2), stack: None }.work(&wanted).unwrap();
            let ran: Vec<_> = work.into_iter().map(|w| (w.clone(), testing::results(&w))).collect();
            let report = Record::of(
                paper,
                &wanted,
                &Overrides { scale: 1.0, seeds: None, stack: None },
                &ran,
            )
            .report;
            let made: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
            assert_eq!(made, wanted.iter().map(|w| w.id).collect::<Vec<_>>());
            let ids: BTreeSet<&str> = report.claims.iter().map(|c| c.id.as_str()).collect();
            let checks: Vec<&ClaimCheck> = paper.claims.iter().copied().flatten().collect();
            assert_eq!(
                (ids.len(), report.claims.len()),
                (checks.len(), checks.len()),
                "a claim is named twice"
            );
            for claim in &report.claims {
                assert!(
                    ![&claim.source, &claim.says, &claim.test, &claim.found]
                        .contains(&&String::new()),
                    "{claim:?}"
                );
                // That a response does not complete is a number as well.
                let counted = claim.id == "sync-largest-ared-incomplete";
                let unknown = matches!(claim.verdict, Verdict::Undecided | Verdict::Inapplicable);
                assert!(counted || unknown, "{claim:?}");
            }
        }
    }
}
