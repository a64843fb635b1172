//! Reads any file as connections and responses.

use std::path::Path;

use fathom_qlog::{
    Input, LoggedEvent, Malformed, ParsedEvent, ReadError, ResponseEnd, foreign, read_input,
};
use serde::Serialize;

use super::connection::{Builder, Connection};
use super::error::{AnalyzeError, FileError};
use super::inputs::{files_of, grouped};
use super::kept::Kept;
use super::responses::{ResponseTime, table};

/// Contents of a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    /// Name of the file.
    pub name: String,
    /// Title of a log.
    pub title: Option<String>,
    /// Events of a log; 0 for a table.
    pub events: u64,
    /// Connections of a log.
    pub connections: Vec<Connection>,
    /// Responses of a table.
    #[serde(skip)]
    pub rows: Vec<ResponseTime>,
    /// Rows of a table without a good response.
    pub failed: u64,
    /// Conversions, contradictions and omissions, shown before any result.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Other caveats.
    pub cautions: Vec<String>,
}

impl Source {
    /// Returns whether the file is a log.
    pub fn is_log(&self) -> bool {
        self.events > 0
    }

    /// Merges several sources into one.
    pub fn merged(name: String, parts: Vec<Self>) -> Self {
        let mut all = Self { name, ..Self::default() };
        for part in parts {
            all.title = all.title.or(part.title);
            all.events += part.events;
            all.connections.extend(part.connections);
            all.rows.extend(part.rows);
            all.failed += part.failed;
            all.warnings.extend(part.warnings);
            all.cautions.extend(part.cautions);
        }
        all.warnings = grouped(all.warnings);
        all.cautions = grouped(all.cautions);
        all
    }

    /// Returns the end point of the response times: the earliest one that applies to any of them;
    /// `None` without responses.
    pub fn until(&self) -> Option<ResponseEnd> {
        let logged = self.connections.iter().filter_map(|c| c.until);
        logged.chain((!self.rows.is_empty()).then_some(ResponseEnd::Received)).min()
    }

    /// Returns a warning if the response times are misleading.
    pub(super) fn misleads(&self) -> Option<String> {
        let name = &self.name;
        match self.until()? {
            ResponseEnd::HandedOver => Some(format!(
                "{name}: its response times end when the server's QUIC stack accepted the last \
                 byte, not when the client received it, so they exclude the wait in the send \
                 buffer. Measure at the client (fathom load --csv), or with a current fathom \
                 serve, which logs when the last byte was acknowledged."
            )),
            ResponseEnd::Sent => Some(format!(
                "{name} is a server's log: its response times end when the last byte was sent, so \
                 they exclude the delay on the path to the client and its queues."
            )),
            ResponseEnd::Acknowledged | ResponseEnd::Received => None,
        }
    }

    /// Returns all responses.
    pub fn responses(&self) -> impl Iterator<Item = &ResponseTime> {
        self.rows.iter().chain(self.connections.iter().flat_map(|c| &c.responses))
    }
}

/// Callback for every event of a log as it is read.
pub type Tap<'a> = &'a mut dyn FnMut(&LoggedEvent<'_>, &ParsedEvent);

/// Reads all logs and tables of a folder as one source, because `fathom serve` writes one file per
/// connection. A warning lists the files left out.
///
/// # Errors
/// Returns an error if no file in the folder can be read.
pub fn gather_folder(
    folder: &Path,
    kept: &mut Kept,
    bytes: &mut dyn FnMut(u64),
) -> Result<Source, AnalyzeError> {
    let name = folder.display().to_string();
    let (files, mut left_out) = files_of(folder)?;
    let mut parts = Vec::new();
    for file in &files {
        match gather(file, kept, bytes) {
            Ok(source) => parts.push(source),
            Err(e) => left_out.failed(file, &e),
        }
    }
    let words = left_out.words();
    if parts.is_empty() {
        return Err(AnalyzeError::File(name, FileError::NoData(words.unwrap_or_default())));
    }
    let mut all = Source::merged(name, parts);
    all.warnings.extend(words.map(|words| format!("{}: left out: {words}", all.name)));
    Ok(all)
}

/// Reads a file or pipe, plain or compressed: a log, or a table of `fathom load`. `-` is standard
/// input. `bytes` is called with the number of additional bytes read.
///
/// # Errors
/// Returns an error if the input is neither a log nor a table, or cannot be read.
pub fn gather(
    path: &Path,
    kept: &mut Kept,
    bytes: &mut dyn FnMut(u64),
) -> Result<Source, AnalyzeError> {
    gather_with(&open(path)?, path, kept, bytes, &mut |_, _| {})
}

/// Opens a file or pipe.
///
/// # Errors
/// Returns an error if the path cannot be opened.
pub fn open(path: &Path) -> Result<Input, AnalyzeError> {
    Input::open(path).map_err(|e| AnalyzeError::File(path.display().to_string(), e.into()))
}

/// Reads like [`gather`] from the input opened as `path`; `tap` is called with every event of a
/// log.
///
/// # Errors
/// Returns the same errors as [`gather`].
pub fn gather_with(
    input: &Input,
    path: &Path,
    kept: &mut Kept,
    bytes: &mut dyn FnMut(u64),
    tap: Tap<'_>,
) -> Result<Source, AnalyzeError> {
    let name =
        if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() };
    let failed = |why: FileError| AnalyzeError::File(name.clone(), why);
    let begins = input.begins().trim_ascii_start();
    // Input that begins like text but not like JSON may be a table.
    if begins.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'"') {
        if let Some(what) = foreign(begins) {
            return Err(failed(ReadError::Foreign(what.to_owned()).into()));
        }
        let mut text = input.reader(bytes).map_err(|e| failed(e.into()))?;
        let table = table(&mut text, kept).map_err(|e| failed(e.into()))?;
        let broken_off = text.broken_off().map(|why| format!("{name} ends in the middle: {why}"));
        let (rows, failed) = (table.responses, table.failed);
        return Ok(Source {
            name,
            rows,
            failed,
            warnings: broken_off.into_iter().collect(),
            ..Source::default()
        });
    }
    log(input, name, kept, bytes, tap)
}

fn log(
    input: &Input,
    name: String,
    kept: &mut Kept,
    bytes: &mut dyn FnMut(u64),
    tap: Tap<'_>,
) -> Result<Source, AnalyzeError> {
    let mut builders: Vec<Builder> = Vec::new();
    let mut incomplete = None;
    let summary = read_input(input, bytes, &mut |event| {
        if event.connection == builders.len() {
            builders.push(Builder::new(event));
        }
        if event.category == "fathom" && event.name == "log_incomplete" {
            incomplete =
                event.data.get("events_dropped").and_then(serde_json::Value::as_u64).or(Some(0));
        }
        let parsed = ParsedEvent::parse(event);
        tap(event, &parsed);
        builders[event.connection].take(event, parsed, kept);
    })
    .map_err(|e| match e {
        ReadError::Empty(_) => AnalyzeError::Empty(name.clone(), e),
        e => AnalyzeError::File(name.clone(), e.into()),
    })?;
    let connections: Vec<Connection> = builders.into_iter().map(|b| b.finish(kept)).collect();
    let mut warnings: Vec<String> =
        summary.warnings.iter().map(|warning| format!("{name}: {warning}")).collect();
    let others: u64 = connections.iter().map(|c| c.other_paths).sum();
    if others > 0 {
        let several = connections.iter().filter(|c| c.other_paths > 0).count();
        warnings.push(format!(
            "{name}: {several} of {} connections used several paths. Round trips, losses and \
             packets are those of the first path of each connection; {others} events of other \
             paths were left out.",
            connections.len()
        ));
    }
    let mut cautions = Vec::new();
    if let Some(Malformed { records, first, why }) = summary.malformed {
        cautions.push(format!(
            "{name}: {records} records cannot be read and were left out; the first of them is \
             record {first}: {why}"
        ));
    }
    if let Some(at) = summary.cut_off {
        cautions.push(format!(
            "{name} ends in the middle ({at}); everything before that point was read"
        ));
    }
    if let Some(dropped) = incomplete {
        cautions
            .push(format!("{name} lacks {dropped} events, which the writer of the log dropped"));
    }
    if connections.iter().any(|c| c.series.cut_at.is_some()) {
        cautions.push(format!(
            "{name} has connections with more round-trip samples than fathom keeps; the rest was \
             left out"
        ));
    }
    let (title, events) = (summary.title, summary.events);
    Ok(Source { name, title, events, connections, warnings, cautions, ..Source::default() })
}
