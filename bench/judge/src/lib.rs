//! Judges a congestion controller: the criteria of a document as a battery of studies, thresholds
//! with reasons, and a verdict for each criterion.
//!
//! | file | contents |
//! |---|---|
//! | `../profiles/*/criteria/*.toml` | one file per criterion: requirement of the document, and its tests |
//! | `../profiles/*/thresholds.toml` | thresholds of the profile with their reasons |
//! | `../thresholds.toml` | thresholds of every profile |
//! | `profile.rs` | profiles: the documents from which criteria come |
//! | `battery.rs` | reading and checking these files |
//! | `plan.rs` | the battery for one controller: its studies and their runs |
//! | `seeds.rs` | more seeds for undecided combinations |
//! | `measure.rs` | measures that tests read from a run's outcome |
//! | `value.rs` | means over seeds with their intervals |
//! | `verdict.rs` | comparison of an interval with a threshold |
//! | `cpu.rs` | CPU time per ACK frame, compared with the reference's |
//! | `derivation.rs` | how the verdicts follow from results |
//! | `scorecard.rs` | all verdicts as data |
//! | `changes.rs` | checks that became better or worse between two scorecards |
//! | `league.rs` | several scorecards as one table |
//! | `report/` | a scorecard for a terminal, as HTML and as JUnit XML |
//!
//! RFC 9743 gives no thresholds and says that its criteria are not a checklist. The thresholds are
//! our choice, and every report says so.

mod battery;
mod changes;
mod cpu;
mod derivation;
mod league;
mod measure;
mod plan;
mod profile;
pub mod report;
mod scorecard;
mod seeds;
mod value;
mod verdict;

pub use battery::{
    Basis, Battery, BatteryError, Check, Criterion, Relation, Strength, Test, Threshold,
};
pub use changes::{Change, Direction, changes, check_baseline};
pub use cpu::{CpuPerAck, cpu_per_ack};
pub use derivation::scorecard;
pub use league::{League, LeagueError};
pub use plan::{Depth, JudgePlan, Settings};
pub use profile::Profile;
pub use scorecard::{
    Counts, JudgedCheck, JudgedCriterion, JudgedTest, SCHEMA, Scorecard, ScorecardError,
};
pub use value::Value;
pub use verdict::Verdict;
