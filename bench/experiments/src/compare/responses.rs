//! Single responses of all runs of a comparison.

use std::io;

use fathom_netsim::backend::Backend;
use parking_lot::Mutex;

use super::result::ComparedRun;
use crate::scenario::{ResponseRow, ResponseSpool};
use crate::stack::Stack;

/// Keeps every response of a comparison's runs, in a temporary file: memory does not grow with them.
#[derive(Debug)]
pub struct ResponseLog(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    spool: ResponseSpool,
    runs: Vec<Place>,
}

/// A run and where its rows are.
#[derive(Debug)]
struct Place {
    run: Run,
    groups: Vec<String>,
    first: u64,
    rows: u64,
}

/// Controller, stack, backend and seed.
pub(super) type Run = (String, Stack, Backend, u64);

fn key(run: &ComparedRun) -> Run {
    (run.controller.clone(), run.stack, run.backend, run.seed)
}

impl ResponseLog {
    /// An empty log.
    ///
    /// # Errors
    /// There can be no temporary file.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mutex::new(Kept { spool: ResponseSpool::new()?, runs: Vec::new() })))
    }

    /// Adds the responses of a run whose groups have these names.
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

    /// Hands the responses of a run to `each`, with the name of their group, in the order in which they ended.
    ///
    /// # Errors
    /// The file cannot be read, or what `each` says.
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
