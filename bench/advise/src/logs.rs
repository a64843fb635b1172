//! Conversion of logs and tables to observations.

use std::path::{Path, PathBuf};

use fathom_analyze::{
    AnalyzeError, FileError, Kept, LeftOut, Source, files_of, gather_with, grouped, open,
};
use fathom_qlog::Input;

use crate::observe::{Observation, Observer};
use crate::table;

/// Maximum number of connections kept from all files together.
const CONNECTIONS: usize = 1 << 20;

/// Observations from logs.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Connections with any information in a log.
    pub connections: Vec<Observation>,
    /// Sizes in bytes of responses in tables of `fathom load`, which contain nothing about
    /// connections.
    pub responses: Vec<u64>,
    /// Files read.
    pub files: usize,
    /// Titles of the logs.
    pub titles: Vec<String>,
    /// Conversions, contradictions and omissions, shown before any advice.
    pub warnings: Vec<String>,
    /// Other caveats.
    pub cautions: Vec<String>,
}

const NAME: &str = "name a path, such as --path lte";

/// Maximum number of log titles kept.
const TITLES: usize = 8;

impl Observed {
    /// Reads logs and tables. A folder stands for all logs and tables in it. `bytes` is called with
    /// the number of additional bytes read.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, if it is neither a log nor a table, or if no file
    /// contains a connection or response.
    pub fn read(paths: &[PathBuf], bytes: &mut dyn FnMut(u64)) -> Result<Self, AnalyzeError> {
        let mut all = Self::default();
        let mut kept = Kept::default();
        let mut named = LeftOut::default();
        for path in paths {
            let is_folder = path.is_dir();
            let (inside, mut left_out) =
                if is_folder { files_of(path)? } else { (vec![path.clone()], LeftOut::default()) };
            for file in &inside {
                match all.add(file, &mut kept, bytes) {
                    Ok(()) => {}
                    Err(e) if is_folder => left_out.failed(file, &e),
                    // The log of a connection that was never established has no events.
                    Err(e @ AnalyzeError::Empty(..)) if paths.len() > 1 => named.failed(file, &e),
                    Err(e) => return Err(e),
                }
                all.files += 1;
            }
            all.warnings.extend(
                left_out.words().map(|words| format!("{}: left out: {words}", path.display())),
            );
        }
        all.warnings.extend(named.words().map(|words| format!("left out: {words}")));
        all.warnings = grouped(std::mem::take(&mut all.warnings));
        all.cautions = grouped(std::mem::take(&mut all.cautions));
        if all.connections.is_empty() && all.responses.is_empty() {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let left_out =
                all.warnings.last().map_or_else(String::new, |line| format!(" ({line})"));
            return Err(AnalyzeError::File(names.join("', '"), FileError::NoConnections(left_out)));
        }
        if kept.full || all.connections.len() >= CONNECTIONS {
            all.cautions.push(
                "These files contain more data than fathom keeps in memory; the last part was left \
                 out.".into(),
            );
        }
        Ok(all)
    }

    /// Returns the stack and the controller if all logs are from one `fathom serve` process. The
    /// title of its logs is, for example, `fathom serve: quinn with cubic`.
    pub fn served_by(&self) -> Option<(&str, &str)> {
        let [title] = &self.titles[..] else { return None };
        title.strip_prefix("fathom serve: ")?.split_once(" with ")
    }

    /// Describes the missing data if nothing reveals a path, in words that follow the name of the
    /// logs.
    pub fn lacks(&self) -> String {
        let all = self.connections.len();
        let without =
            |has: fn(&Observation) -> bool| self.connections.iter().filter(|c| !has(c)).count();
        let rtts = without(|c| c.rtt_ms.is_some());
        let bytes = without(|c| c.bytes > 0);
        let rates = without(|c| c.seen_bps.is_some() || c.rate_bps.is_some());
        let part =
            |n: usize| if n == all { "none".to_owned() } else { format!("{} of {all}", all - n) };
        let hint = match () {
            () if all == 0 => {
                return format!(
                    "has responses but no connections: tables of 'fathom load' do not describe \
                     paths; {NAME}"
                );
            }
            () if rtts == all => "log recovery metrics (metrics_updated with latest_rtt)",
            () if bytes == all => {
                "log packets (packet_sent, and packet_received with ACK frames) or bytes in flight"
            }
            () => "log connections that send for at least 50 ms and at least three round trips",
        };
        format!(
            "describes no path: of its {all} connections, {} have round-trip times, {} have \
             delivered bytes, and {} lasted long enough for a rate; {hint}, or {NAME}",
            part(rtts),
            part(bytes),
            part(rates)
        )
    }

    fn add(
        &mut self,
        path: &Path,
        kept: &mut Kept,
        bytes: &mut dyn FnMut(u64),
    ) -> Result<(), AnalyzeError> {
        let name = || path.display().to_string();
        let input = open(path)?;
        if let Some(found) = table_of_connections(&input) {
            let (connections, full) = found.map_err(|why| AnalyzeError::File(name(), why))?;
            if full {
                self.cautions.push(format!(
                    "{}: the table has more rows than fathom keeps; the last rows were left out",
                    name()
                ));
            }
            self.keep(connections);
            return Ok(());
        }
        let mut observers: Vec<Observer> = Vec::new();
        let source = gather_with(&input, path, kept, bytes, &mut |event, parsed| {
            if event.connection >= observers.len() {
                observers.resize_with(event.connection + 1, Observer::default);
            }
            observers[event.connection].take(event, parsed);
        })?;
        let Source { title, connections, rows, warnings, cautions, .. } = source;
        self.warnings.extend(warnings);
        self.cautions.extend(cautions);
        if let Some(title) =
            title.filter(|title| self.titles.len() < TITLES && !self.titles.contains(title))
        {
            self.titles.push(title);
        }
        self.responses.extend(rows.iter().map(|row| row.bytes).filter(|bytes| *bytes > 0));
        let observed = connections.iter().zip(observers);
        self.keep(
            observed.map(|(connection, observer)| observer.finish().with_responses(connection)),
        );
        Ok(())
    }

    fn keep(&mut self, connections: impl IntoIterator<Item = Observation>) {
        let room = CONNECTIONS.saturating_sub(self.connections.len());
        let says = |c: &Observation| c.rtt_ms.is_some() || c.bytes > 0 || !c.responses.is_empty();
        self.connections.extend(connections.into_iter().filter(says).take(room));
    }
}

/// Returns the connections of a table, and whether the table has more connections than are kept;
/// `None` if the file is not a table of connections.
fn table_of_connections(input: &Input) -> Option<Result<(Vec<Observation>, bool), FileError>> {
    let head = input.begins().split_inclusive(|b| *b == b'\n').next()?;
    if head.starts_with(b"{") || head.starts_with(b"[") || head.starts_with(b"\x1e") {
        return None;
    }
    table::is_of_connections(head).then(|| {
        let mut ignored = |_| {};
        let mut text = input.reader(&mut ignored)?;
        let found = table::read(&mut text);
        match text.broken_off() {
            Some(why) => Err(FileError::Truncated(why)),
            None => Ok(found?),
        }
    })
}
