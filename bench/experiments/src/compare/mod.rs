//! Comparisons of congestion controllers. A [`Plan`] says what to compare, and [`compare`] runs it.
//! Each run is a [`Scenario`](crate::scenario::Scenario) of Sync-TCP's network with one bottleneck,
//! or of the path that the plan describes.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs`, `beside.rs`, `unused.rs` | plans, their cross traffic, and checks of their fields |
//! | `from_study.rs`, `to_study.rs` | plans read from studies and written as studies |
//! | `all_runs.rs`, `responses.rs` | execution of all runs, and the log of single responses |
//! | `remaining.rs` | commands for the rest of an interrupted comparison |
//! | `result.rs` | runs and results |
//! | `ranking.rs`, `seeds.rs` | order of the controllers, and how far the seeds support it |
//! | `failures.rs`, `limits.rs`, `notes.rs` | failures, limits and other influences on the result |
//! | `report/` | table, HTML page and data files |

mod all_runs;
mod beside;
mod failures;
mod from_study;
mod limits;
mod notes;
mod plan;
mod ranking;
mod remaining;
pub mod report;
mod responses;
mod result;
mod seeds;
mod to_study;
mod unused;

pub use all_runs::{CompareOptions, Stage, compare, compare_with};
pub use from_study::PAGE_LOAD;
pub use limits::Limit;
pub use plan::Plan;
pub use ranking::{Ranked, Ranking};
pub use remaining::Remaining;
pub use responses::ResponseLog;
pub use result::{Candidate, ComparedRun, Comparison, Missing, Reference};
