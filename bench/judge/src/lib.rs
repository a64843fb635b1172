//! Judges a congestion controller: the criteria of RFC 9743 as a battery of studies, thresholds with reasons, a verdict for each.
//!
//! | file | what is in it |
//! |---|---|
//! | `../criteria/*.toml` | a file per criterion: what RFC 9743 asks, and the tests that ask it |
//! | `../thresholds.toml` | every threshold, with the reason for it |
//! | `battery.rs` | reads and checks these files |
//! | `plan.rs` | the battery for one controller: its studies and their runs |
//! | `measure.rs` | what tests read from a run's outcome |
//! | `value.rs` | means over seeds with their intervals |
//! | `verdict.rs` | an interval against a threshold |
//! | `cpu.rs` | CPU time per ACK frame, beside the reference's |
//! | `scorecard.rs` | all verdicts as data, and from results to them |
//! | `changes.rs` | what became better or worse between two scorecards |
//! | `league.rs` | several scorecards as one table |
//! | `report/` | a scorecard for a terminal, as HTML and as JUnit XML |
//!
//! RFC 9743 gives no thresholds, and calls its criteria no checklist: the numbers are ours, and every report says so.

mod battery;
mod changes;
mod cpu;
mod league;
mod measure;
mod plan;
pub mod report;
mod scorecard;
mod value;
mod verdict;

pub use battery::{Battery, BatteryError, Check, Criterion, Relation, Strength, Test, Threshold};
pub use changes::{Change, changes};
pub use cpu::{CpuPerAck, cpu_per_ack};
pub use league::League;
pub use plan::{Depth, JudgePlan, Settings};
pub use scorecard::{
    Counts, JudgedCheck, JudgedCriterion, JudgedTest, SCHEMA, Scorecard, scorecard,
};
pub use value::Value;
pub use verdict::Verdict;
