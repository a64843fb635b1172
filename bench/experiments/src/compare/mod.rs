//! Comparisons: a [`Plan`] says what is compared; [`compare`] runs it with several controllers, each run a
//! [`Scenario`](crate::scenario::Scenario) of Sync-TCP's network with one bottleneck.

mod all_runs;
mod beside;
mod failures;
mod limits;
mod notes;
mod plan;
mod plan_file;
mod ranking;
mod remaining;
pub mod report;
mod responses;
mod result;
mod seeds;
mod to_study;
mod unused;

pub use all_runs::{CompareOptions, Stage, compare, compare_with};
pub use limits::Limit;
pub use plan::Plan;
pub use plan_file::PAGE_LOAD;
pub use ranking::{Ranked, Ranking};
pub use remaining::Remaining;
pub use responses::ResponseLog;
pub use result::{Candidate, ComparedRun, Comparison, Missing, Reference};
