//! Metrics of the access log and of qlog files.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use fathom_qlog::LogFolder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::registration::{add, bytes};

/// Metrics of the access log.
#[derive(Clone, Debug, Default)]
pub struct AccessLogMetrics {
    lines: Counter,
    dropped: Counter,
}

impl AccessLogMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            lines: add(r, "access_log_lines", "Lines written to the access log"),
            dropped: add(
                r,
                "access_log_dropped",
                "Access log lines lost because the writer could not keep up",
            ),
        }
    }

    /// Counts lines that were written.
    pub fn written(&self, lines: u64) {
        self.lines.inc_by(lines);
    }

    /// Counts lines that were lost.
    pub fn dropped(&self, lines: u64) {
        self.dropped.inc_by(lines);
    }
}

/// Totals of the qlog files, updated on each scrape.
#[derive(Debug)]
pub(super) struct LogMetrics {
    pub(super) folder: OnceLock<Arc<LogFolder>>,
    files: Counter,
    bytes: Counter,
    dropped: Counter,
    refused: Counter,
    failed: Counter,
}

impl LogMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            folder: OnceLock::new(),
            files: add(r, "qlog_files", "qlog files created"),
            bytes: bytes(r, "qlog", "Bytes written to qlog files"),
            dropped: add(
                r,
                "qlog_events_dropped",
                "qlog events dropped because of a slow disk or a size limit",
            ),
            refused: add(
                r,
                "qlog_refused",
                "Connections that got no qlog file because a limit was reached",
            ),
            failed: add(r, "qlog_failed", "qlog files that could not be created or written"),
        }
    }

    pub(super) fn update(&self) {
        let Some(folder) = self.folder.get() else { return };
        let fathom_qlog::LogCounts { files, bytes, dropped, refused, failed, .. } = folder.counts();
        for (counter, count) in [
            (&self.files, files),
            (&self.bytes, bytes),
            (&self.dropped, dropped),
            (&self.refused, refused),
            (&self.failed, failed),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
    }
}
