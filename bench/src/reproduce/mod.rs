//! The papers' experiments, run again: which studies each table and figure needs, how they come from the studies' results, and what the
//! paper claims of them, checked by code.
//!
//! | file | what is in it |
//! |---|---|
//! | `results.rs` | results of studies, asked by key |
//! | `report.rs` | tables, figures and claims as data |
//! | `sync_tcp.rs`, `dca.rs`, `sdc.rs`, `ghstcp.rs`, `packet_size.rs` | one paper each |
//!
//! A claim is a statement of the paper and a predicate over measured numbers, written before the numbers were seen or marked otherwise.
//! Nothing is tuned to look right: what does not hold is said not to hold, and the departures say what differs from the paper.

mod dca;
mod report;
mod results;

pub use report::{Artefact, Axis, Body, Claim, Entry, Figure, Report, Row, Series, Table, Verdict};
pub use results::Results;

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// What users type: `sync-tcp`.
    pub name: &'static str,
    /// Authors, title, where and when.
    pub citation: &'static str,
    /// Its tables and figures that are reproduced, and the shipped studies that each needs.
    pub artefacts: &'static [Wanted],
    /// Makes the report of what is there: artefacts and claims whose studies have no results are left out.
    pub report: fn(&Results) -> Report,
}

/// A table or figure that a paper has.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `table 1`, `figure 10`: as users name it and as [`Artefact::id`] has it.
    pub id: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
    /// Names of the studies it needs ([`crate::study::shipped`]).
    pub studies: &'static [&'static str],
}

/// Every paper.
pub const PAPERS: &[Paper] = &[dca::PAPER];
