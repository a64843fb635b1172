//! Logs and tables as observations.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};

use fathom_analyze::{AnalyzeError, Kept, Source, gather_with};

use crate::observe::{Observation, Observer};
use crate::table;

/// Connections kept of all files together.
const CONNECTIONS: usize = 1 << 20;

/// What logs show.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Every connection of which a log has something.
    pub connections: Vec<Observation>,
    /// Sizes in bytes of responses that tables of `fathom load` have, which tell nothing of connections.
    pub responses: Vec<u64>,
    /// Files read.
    pub files: usize,
    /// Of them, without anything in it.
    pub empty: usize,
    /// What logs call themselves.
    pub titles: Vec<String>,
    /// What to know before this is believed.
    pub cautions: Vec<String>,
}

/// Titles of logs that are kept.
const TITLES: usize = 8;

impl Observed {
    /// Reads logs and tables; a folder is all of those in it. `bytes` hears how many more bytes were read.
    ///
    /// # Errors
    /// A file is neither, cannot be read, or none has a connection or response in it.
    pub fn read(paths: &[PathBuf], bytes: &mut dyn FnMut(u64)) -> Result<Self, AnalyzeError> {
        let mut all = Self::default();
        let mut kept = Kept::default();
        for path in paths {
            let inside = if path.is_dir() { files_of(path)? } else { vec![path.clone()] };
            for file in &inside {
                match all.add(file, &mut kept, bytes) {
                    // A connection that never came about has a log without events.
                    Err(AnalyzeError::Empty(..)) if path.is_dir() || paths.len() > 1 => all.empty += 1,
                    done => done?,
                }
                all.files += 1;
            }
        }
        if all.connections.is_empty() && all.responses.is_empty() {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let why = "has no connection that says anything; name logs of servers (.qlog, .sqlog) or tables (.csv)";
            return Err(AnalyzeError::File(names.join("', '"), why.into()));
        }
        if kept.full || all.connections.len() >= CONNECTIONS {
            all.cautions.push("There is more in these files than is kept; what came last was left out.".into());
        }
        if all.empty > 0 {
            all.cautions.push(format!("{} logs without an event were left out.", all.empty));
        }
        Ok(all)
    }

    /// Stack and controller, where all logs are of one `fathom serve`: its title is `fathom serve: quinn with cubic`.
    pub fn served_by(&self) -> Option<(&str, &str)> {
        let [title] = &self.titles[..] else { return None };
        title.strip_prefix("fathom serve: ")?.split_once(" with ")
    }

    fn add(&mut self, path: &Path, kept: &mut Kept, bytes: &mut dyn FnMut(u64)) -> Result<(), AnalyzeError> {
        let name = || path.display().to_string();
        if let Some(found) = table_of_connections(path) {
            let (connections, full) = found.map_err(|why| AnalyzeError::File(name(), why))?;
            if full {
                self.cautions.push(format!("{}: it has more rows than are kept; what came last was left out", name()));
            }
            self.keep(connections);
            return Ok(());
        }
        let mut observers: Vec<Observer> = Vec::new();
        let source = gather_with(path, kept, bytes, &mut |event, parsed| {
            if event.connection >= observers.len() {
                observers.resize_with(event.connection + 1, Observer::default);
            }
            observers[event.connection].take(event, parsed);
        })?;
        let Source { title, connections, rows, cautions, .. } = source;
        self.cautions.extend(cautions);
        if let Some(title) = title.filter(|title| self.titles.len() < TITLES && !self.titles.contains(title)) {
            self.titles.push(title);
        }
        self.responses.extend(rows.iter().map(|row| row.bytes).filter(|bytes| *bytes > 0));
        let observed = connections.iter().zip(observers);
        self.keep(observed.map(|(connection, observer)| observer.finish().with_responses(connection)));
        Ok(())
    }

    fn keep(&mut self, connections: impl IntoIterator<Item = Observation>) {
        let room = CONNECTIONS.saturating_sub(self.connections.len());
        let says = |c: &Observation| c.rtt_ms.is_some() || c.bytes > 0 || !c.responses.is_empty();
        self.connections.extend(connections.into_iter().filter(says).take(room));
    }
}

/// Logs and tables of a folder.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, AnalyzeError> {
    let wrong = |why: String| AnalyzeError::File(folder.display().to_string(), why);
    let there = std::fs::read_dir(folder).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let known = |path: &Path| path.extension().is_some_and(|e| e == "sqlog" || e == "qlog" || e == "csv");
    let mut files: Vec<PathBuf> = there.flatten().map(|entry| entry.path()).filter(|path| known(path)).collect();
    files.sort();
    match files.is_empty() {
        true => Err(wrong("has no .sqlog, .qlog or .csv file; name files".into())),
        false => Ok(files),
    }
}

/// The connections of a table of them; `None`: the file is none.
fn table_of_connections(path: &Path) -> Option<Result<(Vec<Observation>, bool), String>> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let begins = file.fill_buf().ok()?;
    let head = String::from_utf8_lossy(begins.split(|b| *b == b'\n').next()?).into_owned();
    if head.trim_start_matches('\u{feff}').starts_with(['{', '[', '\u{1e}']) || !table::is_of_connections(&head) {
        return None;
    }
    file.rewind().ok()?;
    Some(table::read(&mut file))
}
