//! Results as files, one per run: `<folder>/<fingerprint>.json`. A file is complete or not there. Results of several machines merge by
//! copying their files into one folder.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use super::study_run::{StudyRun, StudyRunResult};

/// A temporary file of this age was left by a stop in the middle of writing: no write takes hours.
const LEFT_BEHIND: Duration = Duration::from_secs(6 * 3600);

/// What is stored of a run.
#[derive(Debug)]
pub(super) enum Stored {
    /// Its result.
    Result(Box<StudyRunResult>),
    /// Nothing.
    Nothing,
    /// A file that is no result of it, and why.
    Broken(String),
}

/// The folder of a study's results.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    /// When it was opened, by the clock of the folder's file system; `None`: it is for reading only.
    opened: Option<SystemTime>,
}

impl Store {
    /// The folder as it is, for reading only.
    pub(super) fn read_only(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), opened: None }
    }

    /// Opens the folder, makes it where it is not there, and tries whether it can be written to.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut store = Self::read_only(folder);
        let probe = store.temporary(PROBE);
        fs::write(&probe, "")?;
        // The same clock stamps the files of all machines that share the folder.
        store.opened = fs::metadata(&probe).and_then(|probe| probe.modified()).ok();
        // Another process may take it for left behind, where clocks were set.
        match fs::remove_file(&probe) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(store),
        }
    }

    /// Where the result of a run is.
    pub(super) fn path(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(format!("{fingerprint}.json"))
    }

    /// The key of what is returned is the run's: an axis may have been renamed since.
    pub(super) fn load(&self, run: &StudyRun) -> Stored {
        let text = match fs::read_to_string(self.path(&run.fingerprint)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Stored::Nothing,
            Err(e) => return Stored::Broken(e.to_string()),
        };
        match serde_json::from_str::<StudyRunResult>(&text) {
            Ok(result) if result.fingerprint == run.fingerprint && result.seed == run.seed => {
                Stored::Result(Box::new(StudyRunResult { key: run.key.clone(), ..result }))
            }
            Ok(_) => Stored::Broken("it is the result of another run".to_owned()),
            Err(e) => Stored::Broken(e.to_string()),
        }
    }

    /// Writes a result under a temporary name, then gives it its own: readers and a stop at any moment find all of it or nothing.
    pub(super) fn save(&self, result: &StudyRunResult) -> io::Result<()> {
        let text = serde_json::to_string(result)?;
        // A number that JSON does not have would be written and never read again.
        serde_json::from_str::<StudyRunResult>(&text)?;
        let temporary = self.temporary(&result.fingerprint);
        let written =
            fs::write(&temporary, &text).and_then(|()| fs::rename(&temporary, self.path(&result.fingerprint)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes what stops in the middle of writing left of these runs hours ago. What is younger may be another process's, here or on
    /// another machine, that is at work.
    pub(super) fn sweep(&self, runs: &[StudyRun]) {
        let (Some(now), Ok(entries)) = (self.opened, fs::read_dir(&self.folder)) else { return };
        let mine: BTreeSet<&str> = runs.iter().map(|c| c.fingerprint.as_str()).chain([PROBE]).collect();
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !name.to_str().and_then(written_for).is_some_and(|what| mine.contains(what)) {
                continue;
            }
            let modified = entry.metadata().and_then(|file| file.modified());
            if modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age >= LEFT_BEHIND)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// A name that no other process gives, on this machine or on one that shares the folder: with the machine's name, for people, and with
    /// a number drawn at random.
    fn temporary(&self, what: &str) -> PathBuf {
        let nonce = RandomState::new().build_hasher().finish();
        self.folder.join(format!(".{what}-{}-{}-{nonce:016x}.tmp", host(), process::id()))
    }
}

/// What a file is for that tries whether the folder can be written to.
const PROBE: &str = "probe";

/// What a temporary file of this name is for; `None`: it is none of a store's.
fn written_for(name: &str) -> Option<&str> {
    let (what, rest) = name.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
    let mut parts = rest.rsplitn(3, '-');
    let (nonce, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
    let sound = nonce.len() == 16
        && nonce.bytes().all(|b| b.is_ascii_hexdigit())
        && !pid.is_empty()
        && pid.bytes().all(|b| b.is_ascii_digit())
        && !host.is_empty();
    sound.then_some(what)
}

/// The machine's name, as far as it is fit for a file's.
fn host() -> String {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let name = files.iter().find_map(|file| fs::read_to_string(file).ok()).or_else(|| std::env::var("HOSTNAME").ok());
    let name: String = name
        .unwrap_or_default()
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
        .take(40)
        .collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}
