//! Results as files, one per cell: `<folder>/<fingerprint>.json`. A file is complete or not there. Results of several machines merge by
//! copying their files into one folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use super::cell::Cell;
use super::run::CellResult;

/// What is stored of a cell.
#[derive(Debug)]
pub(super) enum Stored {
    /// Its result.
    Result(Box<CellResult>),
    /// Nothing.
    Nothing,
    /// A file that is no result of it, and why.
    Broken(String),
}

/// The folder of a study's results.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    /// The folder as it is, for reading only.
    pub(super) fn read_only(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Opens the folder, makes it where it is not there, and tries whether it can be written to.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let store = Self { folder: folder.to_owned() };
        let probe = store.temporary("probe");
        fs::write(&probe, "")?;
        fs::remove_file(&probe)?;
        Ok(store)
    }

    /// Where the result of a cell is.
    pub(super) fn path(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.json"))
    }

    /// The key of what is returned is the cell's: an axis may have been renamed since.
    pub(super) fn load(&self, cell: &Cell) -> Stored {
        let text = match fs::read_to_string(self.path(&cell.fingerprint)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Stored::Nothing,
            Err(e) => return Stored::Broken(e.to_string()),
        };
        match serde_json::from_str::<CellResult>(&text) {
            Ok(result) if result.fingerprint == cell.fingerprint && result.seed == cell.seed => {
                Stored::Result(Box::new(CellResult { key: cell.key.clone(), ..result }))
            }
            Ok(_) => Stored::Broken("it is the result of another cell".to_owned()),
            Err(e) => Stored::Broken(e.to_string()),
        }
    }

    /// Writes a result under a temporary name, then gives it its own: readers and a stop at any moment find all of it or nothing.
    pub(super) fn save(&self, result: &CellResult) -> io::Result<()> {
        let text = serde_json::to_string(result)?;
        // A number that JSON does not have would be written and never read again.
        serde_json::from_str::<CellResult>(&text)?;
        let temporary = self.temporary(&result.fingerprint);
        let write =
            || fs::write(&temporary, &text).and_then(|()| fs::rename(&temporary, self.path(&result.fingerprint)));
        let written = match write() {
            // Another process that has the same cells swept it away as it began: it does so once.
            Err(e) if e.kind() == io::ErrorKind::NotFound => write(),
            written => written,
        };
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes what a stop in the middle of writing left of these cells.
    pub(super) fn sweep(&self, cells: &[Cell]) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mine: std::collections::BTreeSet<&str> = cells.iter().map(|c| c.fingerprint.as_str()).collect();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| n.strip_prefix('.')?.strip_suffix(".tmp")?.split('-').next());
            if owner.is_some_and(|fingerprint| mine.contains(fingerprint)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}-{}.tmp", process::id()))
    }
}
