//! Studies: a question, a scenario template and a parameter sweep. A study expands into runs. In
//! virtual time, the outcome of a run depends only on its scenario and seed, so runs may be
//! executed in any order and on any machine. To merge results, copy their files.
//!
//! | file | contents |
//! |---|---|
//! | `read.rs` | reads a study from TOML |
//! | `axes.rs` | axes of a study, their combinations, and skipped combinations |
//! | `substitute.rs` | `$axis` and `$axis.field` in the strings of a scenario template |
//! | `study_run.rs` | runs: scale, seed, fingerprint, parts |
//! | `own_code.rs` | the program's hash in the fingerprint of runs with user-defined controllers |
//! | `executor.rs` | executes the runs on all cores |
//! | `store/` | stores results as files or objects |
//! | `status.rs` | state of each run: done, running, failed, broken, missing |
//! | `late_events.rs` | path events that came after the end of a run |
//! | `notes.rs` | failed requests, and limits other than the controllers |
//! | `estimate.rs` | estimated cost of a run |
//! | `explain.rs` | description of a study in words |
//! | `table.rs` | results by combination, and their table |
//! | `report/` | the answer in sentences, an HTML page, one row per run, and JSON |
//! | `shipped.rs` | studies that are built into the program |

mod axes;
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
pub use read::{Axis, MOST_SEEDS, Study};
pub use report::{AxisScale, Document, ReportSpec, dataset, headline, html};
pub use shipped::{shipped, shipped_studies};
pub use status::{RunState, executing, status};
pub use store::Location;
pub use study_run::{Part, RunFilter, StudyRun, StudyRunResult, only, part};
pub use table::table;

pub use estimate::{Estimate, estimate};
pub use explain::time_text;

/// Version of the results, a part of every fingerprint. Raise this version if a run of the same
/// scenario and seed may have a different outcome than before. Results stored under an older
/// version are then computed again. `study_run.rs` has versions for changes that affect only some
/// runs.
pub(crate) const RESULTS_VERSION: u32 = 1;

/// Returns the name of a run in messages: `flows=10, system=SDC`, or `the only run` if the study
/// has no axes.
pub(crate) fn key_text(key: &std::collections::BTreeMap<String, String>) -> String {
    if key.is_empty() {
        return "the only run".to_owned();
    }
    key.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
}
