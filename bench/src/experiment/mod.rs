//! Comparisons: a [`Plan`] says what is asked; [`compare`] runs it with several controllers, each run a
//! [`Scenario`](crate::scenario::Scenario) of Sync-TCP's network with one bottleneck.

mod calibrate;
mod compare;
mod plan;
mod plan_file;
mod result;
mod run;

pub use compare::{Stage, compare, compare_until};
pub use plan::Plan;
pub use result::{Comparison, Missing, Reference, RunResult};
