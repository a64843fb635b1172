//! Results, one file or object per run: `<fingerprint>.json`, complete or not there. Many processes may write to one place; the first
//! result of a run stays. Results of several machines merge by copying their files into one folder.
//!
//! | name | what it is |
//! |---|---|
//! | `FINGERPRINT.json` | the result of a run |
//! | `FINGERPRINT.failed` | why a run failed the last time; where there is a result, too, that counts |
//! | `HOST-PID-NONCE.running` | the runs that a process is making, written anew every few seconds while it lives |
//! | `.WHAT-HOST-PID-NONCE.tmp` | a file that is being written |

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

/// A temporary file of this age was left by a stop in the middle of writing: no write takes hours.
const LEFT_BEHIND: Duration = Duration::from_secs(6 * 3600);
/// How often a process says what it is running.
pub(super) const BEAT: Duration = Duration::from_secs(10);
/// A process that has said nothing for so long runs no more: several beats, and a clock that is half a minute wrong.
const SILENT: Duration = Duration::from_secs(60);

/// What a store is made of: named files that are there as a whole or not at all. All of what many writers rely on is `create`.
trait Files: Send + Sync + std::fmt::Debug {
    /// Makes the place where it is not there.
    fn prepare(&self) -> io::Result<()>;
    /// Reads files and hands them over in order; `None` is not there.
    fn each(
        &self,
        names: &[String],
        take: &mut dyn FnMut(usize, io::Result<Option<Vec<u8>>>),
    ) -> io::Result<()>;
    /// Writes a file that is not there yet; `false`: it is there, and stays as it is.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;
    /// Writes a file, whatever there was.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Removes a file; there may be none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All files.
    fn list(&self) -> io::Result<Vec<Entry>>;
    /// Where a file is, for messages.
    fn place(&self, name: &str) -> String;
}

/// A file, and when it was written by the clock of what keeps it.
#[derive(Debug)]
struct Entry {
    name: String,
    modified: SystemTime,
}

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

/// What became of a result that was to be stored.
#[derive(Debug)]
pub(super) enum Saved {
    /// It is stored, or one that is equal.
    Kept,
    /// Another process stored this one first, which is not equal.
    Other(Box<StudyRunResult>),
}

/// What processes say of runs without a result.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// By fingerprint: where it runs.
    pub(super) running: BTreeMap<String, String>,
    /// By fingerprint: why it failed the last time.
    pub(super) failed: BTreeMap<String, String>,
}

/// `HOST-PID-NONCE.running`.
#[derive(Serialize, Deserialize)]
struct Running {
    process: String,
    fingerprints: BTreeSet<String>,
}

/// `FINGERPRINT.failed`.
#[derive(Serialize, Deserialize)]
struct Failure {
    process: String,
    run: String,
    error: String,
}

/// Where the results of a study are.
#[derive(Debug)]
pub(super) struct Store {
    files: Box<dyn Files>,
}

impl Store {
    /// The place as it is, for reading only.
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

    /// Opens the place, makes it where it is not there, and tries whether it can be written to, and whether what is there stays. What
    /// stops in the middle left of these runs hours ago is removed.
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
                "it writes over what is there although asked not to (If-None-Match)",
            ));
        }
        let entries = entries?;
        // The same clock stamps the files of all machines that share the place.
        if let Some(now) =
            entries.iter().find(|entry| entry.name == probe).map(|probe| probe.modified)
        {
            store.sweep(&entries, now, runs);
        }
        Ok(store)
    }

    /// Where the result of a run is, for messages.
    pub(super) fn place(&self, fingerprint: &str) -> String {
        self.files.place(&name(fingerprint))
    }

    /// What is stored of runs, in their order. The key of what is handed over is the run's: an axis may have been renamed since.
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

    /// Stores a result, unless there is one.
    pub(super) fn save(&self, run: &StudyRun, result: &StudyRunResult) -> io::Result<Saved> {
        let text = serde_json::to_string(result)?;
        // A number that JSON does not have would be written and never read again.
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

    /// Says that a run failed, for whoever asks how a study stands. That this cannot be said changes nothing.
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

    /// Says which runs this process is making, under a name of this process's; none: it has ended. As with failures.
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

    /// A name to say so under.
    pub(super) fn beat_name() -> String {
        format!("{}{RUNNING}", writer_name())
    }

    /// What processes say of these runs.
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
            // What is gone by now, or was never whole, says nothing.
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

    /// What is younger may be another process's, here or on another machine, that is at work.
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

/// The end of the names of failures, and of processes at work.
const FAILED: &str = ".failed";
const RUNNING: &str = ".running";
/// What a file is for that tries whether the place can be written to.
const PROBE: &str = "probe";

fn name(fingerprint: &str) -> String {
    format!("{fingerprint}.json")
}

fn parse(run: &StudyRun, bytes: &[u8]) -> Stored {
    match serde_json::from_slice::<StudyRunResult>(bytes) {
        Ok(result) if result.fingerprint == run.fingerprint && result.seed == run.seed => {
            Stored::Result(Box::new(StudyRunResult { key: run.key.clone(), ..result }))
        }
        Ok(_) => Stored::Broken("it is the result of another run".to_owned()),
        Err(e) => Stored::Broken(e.to_string()),
    }
}

/// The edge of the process: what others left is old or young by the clock.
#[allow(clippy::disallowed_methods)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn is_older(entry: &Entry, now: SystemTime, age: Duration) -> bool {
    now.duration_since(entry.modified).is_ok_and(|is| is >= age)
}

/// What a temporary file of this name is for; `None`: it is none of a store's.
fn written_for(name: &str) -> Option<&str> {
    let (what, rest) = name.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
    is_process(rest).then_some(what)
}

/// `HOST-PID-NONCE`; a host's name may have dashes.
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

/// `HOST-PID-NONCE`, another one each time: a name that no other writer gives, on this machine or on one that shares the place.
fn writer_name() -> String {
    let nonce = RandomState::new().build_hasher().finish();
    format!("{}-{nonce:016x}", process_name())
}

/// The name of a file while it is written.
fn temporary(what: &str) -> String {
    format!(".{what}-{}.tmp", writer_name())
}

/// `HOST-PID` of this process.
fn process_name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| format!("{}-{}", host(), process::id()));
    &NAME
}

/// The machine's name, as far as it is fit for a file's.
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
