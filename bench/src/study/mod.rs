//! Studies: a question, a scenario with holes, and what fills them. A study expands into cells; a cell is a pure function of its scenario
//! and seed, so cells run in any order, on any machine, and their results merge by copying files.
//!
//! | file | what is in it |
//! |---|---|
//! | `read.rs` | a study as written in TOML: axes, combinations, skips |
//! | `fill.rs` | `$axis` and `$axis.field` in the strings of a scenario |
//! | `cell.rs` | cells: scale, seed, fingerprint, parts |
//! | `run.rs` | runs cells on all cores |
//! | `store.rs` | results as files: each complete or not there |
//! | `estimate.rs` | what a cell will cost |
//! | `explain.rs` | a study in words |
//! | `table.rs` | results by key, and their table |
//! | `shipped.rs` | the studies that come with this crate |

mod cell;
mod estimate;
mod explain;
mod fill;
mod read;
mod run;
mod shipped;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use cell::{Cell, Part, part};
pub use estimate::{Estimate, estimate};
pub use explain::{explain, time_text};
pub use read::{Axis, MOST_SEEDS, Study, is_study};
pub use run::{CellResult, Event, Failed, RunOptions, StudyError, run_study, run_study_with, stored};
pub use shipped::{SHIPPED, shipped};
pub use table::{Keyed, by_key, table};

/// Part of every fingerprint. Raised when a run of the same scenario and seed may come out otherwise than before: results stored under
/// an older version are then run again. What changes only runs of one kind is in `cell.rs`.
pub const RESULTS_VERSION: u32 = 1;

/// `flows=10, system=SDC`, as messages call a cell; `the only cell` where a study has no axes.
pub fn key_text(key: &std::collections::BTreeMap<String, String>) -> String {
    if key.is_empty() {
        return "the only cell".to_owned();
    }
    key.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
}
