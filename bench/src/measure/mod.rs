//! Measures: what a run is asked for, and the checks every run must pass.

mod responses;
mod trace;
mod verify;

pub use responses::{Distribution, Responses};
pub use trace::{WindowPoint, WindowTrace};
pub use verify::verify;

pub(crate) use responses::{Completed, round};
