//! Storage of results: one file or object per run, `FINGERPRINT.json`, either complete or absent.
//! Many processes may write to one location. The first stored result of a run stays. To merge the
//! results of several machines, copy their files into one folder.
//!
//! | name | contents |
//! |---|---|
//! | `FINGERPRINT.json` | the result of a run |
//! | `FINGERPRINT.failed` | the error of the last failed attempt; a result takes precedence |
//! | `HOST-PID-NONCE.running` | the runs in progress in a process, rewritten every 10 s |
//! | `.PURPOSE-HOST-PID-NONCE.tmp` | a file that is being written |

mod folder;
mod location;
#[cfg(feature = "object-store")]
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::process;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::study_run::{StudyRun, StudyRunResult};
pub use location::Location;

/// Minimum age at which a temporary file counts as left over from an interrupted write. No write
/// takes hours.
const LEFT_BEHIND: Duration = Duration::from_secs(6 * 3600);
/// Interval at which a process reports its runs in progress.
pub(super) const BEAT: Duration = Duration::from_secs(10);
/// Age of a process's last report at which the process counts as ended: three intervals, plus half
/// a minute for clock errors.
const SILENT: Duration = Duration::from_secs(60);

/// Storage of named files that are either complete or absent. Concurrent writers rely only on
/// `create`.
trait Files: Send + Sync + std::fmt::Debug {
    /// Creates the location if it does not exist, or checks that it can be reached.
    fn prepare(&self) -> io::Result<()>;
    /// Reads files and passes their contents to `take` in order, with their indices. A missing file
    /// is passed as `None`.
    fn each(
        &self,
        names: &[String],
        take: &mut dyn FnMut(usize, io::Result<Option<Vec<u8>>>),
    ) -> io::Result<()>;
    /// Writes a file unless it exists. Returns `false` if the file exists, and leaves it unchanged.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;
    /// Writes a file and replaces any existing file of that name.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Removes a file. A missing file is not an error.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns all files.
    fn list(&self) -> io::Result<Vec<Entry>>;
    /// Returns the location of a file, for messages.
    fn place(&self, name: &str) -> String;
}

/// A file and its modification time, by the clock of the storage.
#[derive(Debug)]
struct Entry {
    name: String,
    modified: SystemTime,
}

/// Stored data of a run.
#[derive(Debug)]
pub(super) enum Stored {
    /// The result of the run.
    Result(Box<StudyRunResult>),
    /// There is no stored result.
    Nothing,
    /// A file that cannot be read or is not a result of the run, for this reason.
    Broken(String),
}

/// Outcome of storing a result.
#[derive(Debug)]
pub(super) enum Saved {
    /// The result is stored, or an equal result already was.
    Kept,
    /// Another process stored this different result first.
    Other(Box<StudyRunResult>),
}

/// Reports of processes on runs without a result.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Processes that execute runs, by fingerprint.
    pub(super) running: BTreeMap<String, String>,
    /// Errors of the last failed attempts, by fingerprint.
    pub(super) failed: BTreeMap<String, String>,
}

/// Contents of `HOST-PID-NONCE.running`.
#[derive(Serialize, Deserialize)]
struct Running {
    process: String,
    fingerprints: BTreeSet<String>,
}

/// Contents of `FINGERPRINT.failed`.
#[derive(Serialize, Deserialize)]
struct Failure {
    process: String,
    run: String,
    error: String,
}

/// Storage of the results of a study.
#[derive(Debug)]
pub(super) struct Store {
    files: Box<dyn Files>,
}

impl Store {
    /// Opens the location for reading only, without changing anything there.
    pub(super) fn read_only(location: &Location) -> io::Result<Self> {
        let files: Box<dyn Files> = match location {
            Location::Folder(folder) => Box::new(folder::Folder::new(folder)),
            #[cfg(feature = "object-store")]
            Location::Objects(url) => Box::new(objects::Objects::new(url)?),
            #[cfg(not(feature = "object-store"))]
            Location::Objects(_) => {
                let lacks = "this build lacks object stores: build it with --features object-store, or name a folder";
                return Err(io::Error::new(io::ErrorKind::Unsupported, lacks));
            }
        };
        Ok(Self { files })
    }

    /// Opens the location and creates it if it does not exist. Checks that it can be written to and
    /// that `create` does not overwrite files. Removes files of these runs that an interrupted
    /// process left hours ago.
    pub(super) fn open(location: &Location, runs: &[StudyRun]) -> io::Result<Self> {
        let store = Self::read_only(location)?;
        let files = &store.files;
        files.prepare()?;
        let probe = temporary(PROBE);
        let stays =
            files.create(&probe, b"first").and_then(|_| Ok(!files.create(&probe, b"second")?));
        let entries = files.list();
        files.remove(&probe)?;
        if !stays? {
            return Err(io::Error::other(
                "the store ignores If-None-Match and overwrites existing objects",
            ));
        }
        let entries = entries?;
        // Take the time from the modification time of the probe, because the clock of the storage
        // stamps the files of all machines.
        if let Some(now) =
            entries.iter().find(|entry| entry.name == probe).map(|probe| probe.modified)
        {
            store.sweep(&entries, now, runs);
        }
        Ok(store)
    }

    /// Returns the location of a run's result, for messages.
    pub(super) fn place(&self, fingerprint: &str) -> String {
        self.files.place(&name(fingerprint))
    }

    /// Loads the stored data of runs, in the order of the runs. Each result gets the key of its
    /// run, because axes may have been renamed since.
    pub(super) fn load(
        &self,
        runs: &[&StudyRun],
        take: &mut dyn FnMut(&StudyRun, Stored),
    ) -> io::Result<()> {
        let names: Vec<String> = runs.iter().map(|run| name(&run.fingerprint)).collect();
        self.files.each(&names, &mut |i, read| {
            let stored = match read {
                Ok(None) => Stored::Nothing,
                Ok(Some(bytes)) => parse(runs[i], &bytes),
                Err(e) => Stored::Broken(e.to_string()),
            };
            take(runs[i], stored);
        })
    }

    /// Stores a result unless the run already has a stored result. Replaces a broken file.
    pub(super) fn save(&self, run: &StudyRun, result: &StudyRunResult) -> io::Result<Saved> {
        let text = serde_json::to_string(result)?;
        // JSON has no NaN or infinity. Such a result would be written but could never be read
        // again.
        serde_json::from_str::<StudyRunResult>(&text)?;
        let file = name(&result.fingerprint);
        if self.files.create(&file, text.as_bytes())? {
            return Ok(Saved::Kept);
        }
        let mut there = Ok(Stored::Nothing);
        self.files.each(std::slice::from_ref(&file), &mut |_, read| {
            there = read.map(|bytes| bytes.map_or(Stored::Nothing, |bytes| parse(run, &bytes)));
        })?;
        match there? {
            Stored::Result(first) if first.outcome == result.outcome => Ok(Saved::Kept),
            Stored::Result(first) => Ok(Saved::Other(first)),
            Stored::Nothing | Stored::Broken(_) => {
                self.files.replace(&file, text.as_bytes()).map(|()| Saved::Kept)
            }
        }
    }

    /// Records the failure of a run for `fathom plan status`. Ignores errors in writing the record.
    pub(super) fn record_failure(&self, run: &StudyRun, error: &dyn std::fmt::Display) {
        let failure = Failure {
            process: process_name().to_owned(),
            run: run.label(),
            error: error.to_string(),
        };
        if let Ok(text) = serde_json::to_string(&failure) {
            let _ = self.files.replace(&format!("{}{FAILED}", run.fingerprint), text.as_bytes());
        }
    }

    /// Writes the record `beat` of the runs that this process is executing, or removes the record
    /// if there are no such runs. Ignores errors.
    pub(super) fn record_running(&self, beat: &str, fingerprints: &BTreeSet<String>) {
        if fingerprints.is_empty() {
            let _ = self.files.remove(beat);
            return;
        }
        let running =
            Running { process: process_name().to_owned(), fingerprints: fingerprints.clone() };
        if let Ok(text) = serde_json::to_string(&running) {
            let _ = self.files.replace(beat, text.as_bytes());
        }
    }

    /// Returns a new name for a record of runs in progress.
    pub(super) fn beat_name() -> String {
        format!("{}{RUNNING}", writer_name())
    }

    /// Returns the reports of processes on these runs.
    pub(super) fn reports(&self, runs: &[StudyRun]) -> io::Result<Reports> {
        let mine: BTreeSet<&str> = runs.iter().map(|run| run.fingerprint.as_str()).collect();
        let now = now();
        let said = |entry: &Entry| match entry.name.strip_suffix(FAILED) {
            Some(of) => mine.contains(of),
            None => entry.name.ends_with(RUNNING) && !is_older(entry, now, SILENT),
        };
        let names: Vec<String> =
            self.files.list()?.into_iter().filter(said).map(|entry| entry.name).collect();
        let mut reports = Reports::default();
        self.files.each(&names, &mut |i, read| {
            // Ignore a record that has been removed or is incomplete.
            let Ok(Some(bytes)) = read else { return };
            if let Some(of) = names[i].strip_suffix(FAILED) {
                if let Ok(failure) = serde_json::from_slice::<Failure>(&bytes) {
                    reports.failed.insert(of.to_owned(), failure.error);
                }
            } else if let Ok(running) = serde_json::from_slice::<Running>(&bytes) {
                let of_mine =
                    running.fingerprints.into_iter().filter(|of| mine.contains(of.as_str()));
                reports.running.extend(of_mine.map(|of| (of, running.process.clone())));
            }
        })?;
        Ok(reports)
    }

    /// Removes files that have not changed for hours: records of runs in progress, and temporary
    /// files of such records, of these runs and of write checks. Younger files may belong to a
    /// process that is still running, on this machine or another.
    fn sweep(&self, entries: &[Entry], now: SystemTime, runs: &[StudyRun]) {
        let mine: BTreeSet<&str> =
            runs.iter().map(|c| c.fingerprint.as_str()).chain([PROBE, &RUNNING[1..]]).collect();
        for Entry { name, .. } in entries.iter().filter(|entry| is_older(entry, now, LEFT_BEHIND)) {
            let left = written_for(name).is_some_and(|what| mine.contains(what));
            if left || name.strip_suffix(RUNNING).is_some_and(is_process) {
                let _ = self.files.remove(name);
            }
        }
    }
}

/// File name endings of failures (`FAILED`) and of records of runs in progress (`RUNNING`).
const FAILED: &str = ".failed";
const RUNNING: &str = ".running";
/// Purpose of the temporary file that checks whether the location can be written to.
const PROBE: &str = "probe";

fn name(fingerprint: &str) -> String {
    format!("{fingerprint}.json")
}

fn parse(run: &StudyRun, bytes: &[u8]) -> Stored {
    match serde_json::from_slice::<StudyRunResult>(bytes) {
        Ok(result) if result.fingerprint == run.fingerprint && result.seed == run.seed => {
            Stored::Result(Box::new(StudyRunResult { key: run.key.clone(), ..result }))
        }
        Ok(_) => Stored::Broken("the file contains the result of another run".to_owned()),
        Err(e) => Stored::Broken(e.to_string()),
    }
}

/// Returns the system time, against which the age of other processes' files is measured.
#[allow(clippy::disallowed_methods)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn is_older(entry: &Entry, now: SystemTime, age: Duration) -> bool {
    now.duration_since(entry.modified).is_ok_and(|is| is >= age)
}

/// Returns the purpose of a temporary file; `None` if this is not the name of a store's temporary
/// file.
fn written_for(name: &str) -> Option<&str> {
    let (what, rest) = name.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
    is_process(rest).then_some(what)
}

/// Returns whether a name has the form `HOST-PID-NONCE`. The host name may contain dashes.
fn is_process(name: &str) -> bool {
    let mut parts = name.rsplitn(3, '-');
    let (Some(nonce), Some(pid), Some(host)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    nonce.len() == 16
        && nonce.bytes().all(|b| b.is_ascii_hexdigit())
        && !pid.is_empty()
        && pid.bytes().all(|b| b.is_ascii_digit())
        && !host.is_empty()
}

/// Returns `HOST-PID-NONCE` with a new nonce for each call: a name that no other writer uses,
/// neither on this machine nor on another machine that shares the location.
fn writer_name() -> String {
    let nonce = RandomState::new().build_hasher().finish();
    format!("{}-{nonce:016x}", process_name())
}

/// Returns the name of a temporary file with this purpose.
fn temporary(what: &str) -> String {
    format!(".{what}-{}.tmp", writer_name())
}

/// Returns `HOST-PID` of this process.
fn process_name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| format!("{}-{}", host(), process::id()));
    &NAME
}

/// Returns the name of this machine, limited to 40 characters that are valid in a file name.
fn host() -> String {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let name = files
        .iter()
        .find_map(|file| fs::read_to_string(file).ok())
        .or_else(|| std::env::var("HOSTNAME").ok());
    let name: String = name
        .unwrap_or_default()
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
        .take(40)
        .collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}
