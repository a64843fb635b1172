//! The papers' experiments, run again: the studies that each table and figure needs, how they are
//! made from the studies' results, and the paper's claims, checked by code.
//!
//! | file | contents |
//! |---|---|
//! | `select.rs` | selection of tables and figures |
//! | `work.rs` | the required studies and their cost |
//! | `results.rs` | results of studies by key, numbers by seed, curves along an axis |
//! | `artefact.rs` | tables, figures and claims as data |
//! | `report/` | a record for a terminal, as one HTML file, as a page of the documentation |
//! | `record.rs` | a report with everything it depends on |
//! | `claims.rs` | claims with their predicates, and the comparisons that predicates use |
//! | `sync_tcp/`, `dca/`, `sdc/`, `ghstcp/`, `packet_size/` | one paper each |
//! | `validation/` | the papers' scenarios with TCP, and bands around their numbers |
//! | `ns2.rs` | results of ns-2 on these scenarios |
//! | `causes.rs` | settings of these scenarios, changed one at a time |
//! | `ladders.rs` | mechanisms of QUIC, added to these scenarios one at a time |
//!
//! A claim is a statement of the paper with a predicate over measured numbers, written before the
//! numbers were known or marked otherwise. Nothing is tuned to look right: claims that do not hold
//! are reported as such, and the departures describe the differences from the paper.

mod artefact;
mod causes;
mod claims;
mod dca;
mod ghstcp;
mod ladders;
mod ns2;
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

/// A reproduced paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name on the command line: `sync-tcp`.
    pub name: &'static str,
    /// Authors, title, venue and year.
    pub citation: &'static str,
    /// Reproduced tables and figures, in the paper's order.
    pub artefacts: &'static [ArtefactSpec],
    /// Claims about them.
    pub claims: &'static [&'static [ClaimCheck]],
    /// Differences between the experiments and the paper's, one sentence each.
    pub departures: &'static [&'static str],
    /// Changes since results were first kept that move the paper's numbers.
    pub changes: &'static [Change],
}

/// A change of the laboratory or of a controller that moves a paper's numbers and that fingerprints
/// do not show or do not explain. Records made before the change mention it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Identifier stored in records.
    pub id: &'static str,
    /// Effect on earlier results, in one sentence.
    pub says: &'static str,
}

impl Paper {
    /// Builds the report from the available results. Artefacts and claims whose studies have no
    /// results are left out.
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

/// Specification of a table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct ArtefactSpec {
    /// Identifier, `table 1` or `figure 10`, as used on the command line and in [`Artefact::id`].
    pub id: &'static str,
    /// Short description.
    pub shows: &'static str,
    /// Names of the required studies ([`fathom_experiments::study::shipped`]).
    pub studies: &'static [&'static str],
    /// Function that builds the artefact from results of these studies.
    pub make: fn(&Results) -> Artefact,
}

/// Creates a specification from the identifier, the description, the required studies and the
/// function that builds the artefact.
pub const fn spec(
    id: &'static str,
    shows: &'static str,
    studies: &'static [&'static str],
    make: fn(&Results) -> Artefact,
) -> ArtefactSpec {
    ArtefactSpec { id, shows, studies, make }
}

/// All papers.
pub const PAPERS: &[Paper] = &[
    sync_tcp::PAPER,
    dca::PAPER,
    sdc::PAPER,
    ghstcp::PAPER,
    packet_size::PAPER,
    validation::PAPER,
    causes::PAPER,
    ladders::PAPER,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::study;

    #[test]
    fn papers_have_unique_names_and_existing_studies() {
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
                assert_eq!(work.len(), wanted.studies.len(), "{} {}", paper.name, wanted.id);
                wanted
                    .studies
                    .iter()
                    .for_each(|name| assert!(!study(name).runs(1.0).unwrap().is_empty(), "{name}"));
            }
            let report = paper.report(&Results::default());
            let without_runs = paper.artefacts.iter().filter(|wanted| wanted.studies.is_empty());
            let without_runs: Vec<&str> = without_runs.map(|wanted| wanted.id).collect();
            let reported: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
            assert_eq!(reported, without_runs, "{}: a report of nothing", paper.name);
            assert!(report.claims.is_empty(), "{}: a report of nothing", paper.name);
            assert!(!report.departures.is_empty());
        }
    }

    #[test]
    fn empty_runs_leave_claims_undecided() {
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
                // The number of incomplete responses is a result as well.
                let counted = claim.id == "sync-largest-ared-incomplete";
                let unknown = matches!(claim.verdict, Verdict::Undecided | Verdict::Inapplicable);
                assert!(counted || unknown, "{claim:?}");
            }
        }
    }
}
