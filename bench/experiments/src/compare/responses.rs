//! Log of the single responses of all runs of a comparison.

use std::io;

use fathom_netsim::backend::Backend;
use parking_lot::Mutex;

use super::result::ComparedRun;
use crate::scenario::{ResponseRow, ResponseSpool};
use crate::stack::Stack;

/// Keeps every response of a comparison's runs in a temporary file, so that memory does not grow
/// with the number of responses.
#[derive(Debug)]
pub struct ResponseLog(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    spool: ResponseSpool,
    runs: Vec<Place>,
}

/// A run, the names of its groups, and the position of its rows.
#[derive(Debug)]
struct Place {
    run: Run,
    groups: Vec<String>,
    first: u64,
    rows: u64,
}

/// Identity of a run: controller, stack, backend and seed.
pub(super) type Run = (String, Stack, Backend, u64);

fn key(run: &ComparedRun) -> Run {
    (run.controller.clone(), run.stack, run.backend, run.seed)
}

impl ResponseLog {
    /// Creates an empty log.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a temporary file.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mutex::new(Kept { spool: ResponseSpool::new()?, runs: Vec::new() })))
    }

    /// Adds the responses of a run. `groups` are the names of its groups, by number.
    ///
    /// # Errors
    /// Returns an error if the run is already in the log or if its rows cannot be copied.
    pub(super) fn add(
        &self,
        run: Run,
        groups: Vec<String>,
        rows: &mut ResponseSpool,
    ) -> io::Result<()> {
        let mut kept = self.0.lock();
        if kept.runs.iter().any(|place| place.run == run) {
            return Err(io::Error::other("a run is logged already"));
        }
        let (first, rows) = kept.spool.append(rows)?;
        kept.runs.push(Place { run, groups, first, rows });
        Ok(())
    }

    /// Calls `each` with the group name and the row of every response of a run, in the order in
    /// which the responses ended. Does nothing if the run is not in the log.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the error of `each`.
    pub fn of_run(
        &self,
        run: &ComparedRun,
        mut each: impl FnMut(&str, &ResponseRow) -> io::Result<()>,
    ) -> io::Result<()> {
        let Kept { spool, runs } = &mut *self.0.lock();
        let key = key(run);
        let Some(place) = runs.iter().find(|place| place.run == key) else { return Ok(()) };
        spool.read(place.first, place.rows, |row| {
            each(place.groups.get(usize::from(row.group)).map_or("", String::as_str), &row)
        })
    }
}
