//! Studies: a question, a scenario template and a parameter sweep. A study expands into runs; a run is a pure function of its scenario and
//! seed, so runs may be made in any order, on any machine, and their results merge by copying files.
//!
//! | file | what is in it |
//! |---|---|
//! | `read.rs` | a study as written in TOML: axes, combinations, skips |
//! | `substitute.rs` | `$axis` and `$axis.field` in the strings of a scenario template |
//! | `study_run.rs` | runs: scale, seed, fingerprint, parts |
//! | `own_code.rs` | what runs with a user's own controllers depend on besides |
//! | `executor.rs` | makes the runs on all cores |
//! | `store/` | results as files, or as objects of an object store: each complete or not there |
//! | `status.rs` | how a study stands: done, running, failed, broken, missing |
//! | `late_events.rs` | events of paths that came after a run's end |
//! | `notes.rs` | what must be known before the table: failures, limits that are not the controllers' |
//! | `estimate.rs` | what a run will cost |
//! | `explain.rs` | a study in words |
//! | `table.rs` | results by key, and their table |
//! | `report/` | the answer in sentences, a page, a row per run, and JSON |
//! | `shipped.rs` | the studies that come with this crate |

mod estimate;
mod executor;
mod explain;
mod late_events;
mod notes;
mod own_code;
mod read;
mod report;
mod shipped;
mod status;
mod store;
mod study_run;
mod substitute;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use executor::execute;
pub use executor::{Differs, Event, Executed, Failed, RunOptions, StudyError, run_study, stored};
pub use explain::explain;
pub use late_events::late_events;
pub use notes::{Notes, notes};
pub(crate) use read::check_seeds;
pub use read::{Axis, MOST_SEEDS, Study, is_study};
pub use report::{AxisScale, Document, ReportSpec, dataset, headline, html};
pub use shipped::{shipped, shipped_studies};
pub use status::{RunState, status};
pub use store::Location;
pub use study_run::{Part, RunFilter, StudyRun, StudyRunResult, only, part};
pub use table::table;

pub use estimate::{Estimate, estimate};
pub use explain::time_text;

/// Part of every fingerprint. Raised when a run of the same scenario and seed may come out otherwise than before: results stored under
/// an older version are then run again. What changes only runs of one kind is in `run.rs`.
pub(crate) const RESULTS_VERSION: u32 = 1;

/// `flows=10, system=SDC`, as messages call a run; `the only run` where a study has no axes.
pub(crate) fn key_text(key: &std::collections::BTreeMap<String, String>) -> String {
    if key.is_empty() {
        return "the only run".to_owned();
    }
    key.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
}
