//! Limits and counts of a folder of logs, shared by loggers and the writer thread.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Limits of a folder of logs. Connections beyond the limits are counted but not logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Maximum number of files that are created while the folder is open.
    pub files: u64,
    /// Maximum total size of all files in bytes. When it is reached, open logs end early, each with
    /// a record that reports the reason.
    pub bytes: u64,
    /// Maximum number of files that are open at once. Each takes a descriptor and 8 KiB of memory.
    pub open: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 4_000_000_000, open: 1_000 }
    }
}

/// State shared by loggers and the writer thread.
#[derive(Debug, Default)]
pub(crate) struct FolderState {
    pub(crate) bounds: LogLimits,
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Logs admitted so far, including logs whose files could not be created.
    pub(crate) begun: AtomicU64,
    /// Logs whose end has not been written yet.
    pub(crate) open: AtomicUsize,
    /// Events in the queue.
    pub(crate) waiting: AtomicUsize,
    pub(crate) warned: AtomicBool,
}

impl FolderState {
    /// Reserves a place for another log. The writer releases the place when the log has ended.
    pub(crate) fn admit(&self) -> Result<(), &'static str> {
        let below = |count: &AtomicUsize, bound| {
            count
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                    (n < bound).then_some(n + 1)
                })
                .is_ok()
        };
        if self.bytes.load(Ordering::Relaxed) >= self.bounds.bytes {
            return Err("the size limit of the qlog files is reached");
        }
        if !below(&self.open, self.bounds.open) {
            return Err("the limit of open files is reached");
        }
        let more = |n| (n < self.bounds.files).then_some(n + 1);
        if self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err("the limit of qlog files is reached");
        }
        Ok(())
    }

    pub(crate) fn refuse(&self, why: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        // Warn only once, because thousands of warnings would say no more.
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "qlog: {why}; further connections are not logged (fathom_qlog_refused_total counts \
                 them)"
            );
        }
    }
}
