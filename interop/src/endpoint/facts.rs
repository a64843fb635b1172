//! Facts about each connection, written to `facts.json`. A value that the stack does not report is
//! `null`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathom_plugin::{Offer, Report};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::Setup;

/// Name of the file in LOGS.
pub const FILE: &str = "facts.json";

/// Maximum number of recorded connections. No test has as many.
const MAX_CONNECTIONS: usize = 10_000;

/// The contents of `facts.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Name of the stack.
    pub stack: String,
    /// `client` or `server`.
    pub role: String,
    /// Value of TESTCASE.
    pub testcase: String,
    /// Connections in the order in which they started.
    pub connections: Vec<Connection>,
}

/// Facts about one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The peer's address.
    pub peer: String,
    /// Whether the handshake completed.
    pub complete: bool,
    /// The application protocol.
    pub protocol: Option<String>,
    /// Whether TLS resumed a session.
    pub resumed: Option<bool>,
    /// Whether the server accepted 0-RTT.
    pub early_data_accepted: Option<bool>,
    /// Requests sent or received in 0-RTT.
    pub early_requests: Option<u64>,
    /// Requests with a complete response.
    pub requests: u64,
    /// Whether a Retry packet was sent or received.
    pub retry: Option<bool>,
    /// Name of the cipher suite.
    pub cipher: Option<String>,
    /// Key updates in our packets.
    pub key_updates_sent: Option<u64>,
    /// Key updates in the peer's packets.
    pub key_updates_received: Option<u64>,
    /// ECN marks of the connection's packets.
    pub ecn: Ecn,
    /// State of our extension for one-way delays.
    pub extension: Extension,
    /// Our congestion controller.
    pub controller: String,
    /// Close of the connection; `null` while it is open.
    pub close: Option<Close>,
    /// Bytes of UDP payload sent.
    pub bytes_sent: Option<u64>,
    /// Bytes of UDP payload received.
    pub bytes_received: Option<u64>,
}

/// ECN counts of a connection, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecn {
    /// Packets sent with ECT.
    pub sent: Option<u64>,
    /// ECT(0) count reported by the peer.
    pub reported_ect0: Option<u64>,
    /// ECT(1) count reported by the peer.
    pub reported_ect1: Option<u64>,
    /// CE count reported by the peer.
    pub reported_ce: Option<u64>,
}

/// State of our extension on a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Whether our transport parameter was sent.
    pub offered: bool,
    /// The peer's sync_timestamp: `lean` or `paper`.
    pub peer_sync_timestamp: Option<String>,
    /// The peer's enable_timestamp.
    pub peer_enable_timestamp: Option<u64>,
    /// Timestamp frames sent.
    pub stamps_sent: Option<u64>,
    /// Timestamp frames received.
    pub stamps_received: Option<u64>,
}

/// Description of how a connection was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// Side that closed the connection: `us`, `peer` or `nobody`.
    pub by: String,
    /// Kind of the close: `transport`, `application`, `timeout` or another word.
    pub kind: String,
    /// Error code.
    pub code: Option<u64>,
    /// Reason phrase.
    pub reason: String,
    /// Whether the code is one of [`PROTOCOL_ERRORS`], which a faulty extension would cause.
    #[serde(rename = "fault")]
    pub protocol_error: bool,
}

/// Error codes that a faulty extension would cause: FRAME_ENCODING_ERROR,
/// TRANSPORT_PARAMETER_ERROR, PROTOCOL_VIOLATION (RFC 9000 §20.1).
pub const PROTOCOL_ERRORS: [u64; 3] = [0x07, 0x08, 0x0a];

impl Close {
    /// Returns a close by one endpoint with a transport or application error code.
    pub(crate) fn with_code(by: &str, transport: bool, code: u64, reason: &[u8]) -> Self {
        Self {
            by: by.into(),
            kind: if transport { "transport" } else { "application" }.into(),
            code: Some(code),
            reason: String::from_utf8_lossy(&reason[..reason.len().min(200)]).into_owned(),
            protocol_error: transport && PROTOCOL_ERRORS.contains(&code),
        }
    }

    /// Returns a close without a code.
    pub(crate) fn without_code(by: &str, kind: &str, reason: &str) -> Self {
        Self { by: by.into(), kind: kind.into(), reason: reason.into(), ..Self::default() }
    }
}

impl Connection {
    /// Adds the plug-in's report.
    pub(crate) fn add_monitor_report(&mut self, report: &Report) {
        if let Some(handshake) = report.handshake {
            self.resumed = Some(handshake.resumed);
            self.cipher = Some(suite_name(handshake.suite));
            self.key_updates_sent = Some(handshake.updates_sent);
            self.key_updates_received = Some(handshake.updates_received);
        }
        self.extension = Extension {
            offered: true,
            peer_sync_timestamp: report
                .peers
                .map(|offer| if offer == Offer::Paper { "paper" } else { "lean" }.into()),
            peer_enable_timestamp: report.peer_enable_timestamp.map(|enabled| enabled.value()),
            stamps_sent: Some(report.stamps_sent),
            stamps_received: Some(report.stamps_received),
        };
        if let Some(ecn) = report.ecn {
            self.ecn.reported_ect0 = Some(ecn.ect0);
            self.ecn.reported_ect1 = Some(ecn.ect1);
            self.ecn.reported_ce = Some(ecn.ce);
        }
    }
}

/// Returns the name of a TLS 1.3 cipher suite (RFC 8446 §B.4).
pub fn suite_name(number: u16) -> String {
    match number {
        0x1301 => "TLS_AES_128_GCM_SHA256".into(),
        0x1302 => "TLS_AES_256_GCM_SHA384".into(),
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256".into(),
        other => format!("{other:#06x}"),
    }
}

/// Reason why the facts cannot be written. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub(super) enum FactsError {
    /// The directory in LOGS cannot be created.
    #[error("LOGS is '{}': {why}; set a writable directory", path.display())]
    Directory { path: PathBuf, why: std::io::Error },
    /// The file cannot be written.
    #[error("cannot write '{}': {why}", path.display())]
    File { path: PathBuf, why: std::io::Error },
}

/// Collects facts about connections and writes them to the file.
pub(crate) struct FactsLog {
    file: PathBuf,
    facts: Mutex<Facts>,
}

impl FactsLog {
    pub(super) fn create(setup: &Setup) -> Result<Arc<Self>, FactsError> {
        std::fs::create_dir_all(&setup.logs)
            .map_err(|why| FactsError::Directory { path: setup.logs.clone(), why })?;
        let facts = Facts {
            stack: setup.stack.name(),
            role: setup.role.to_string(),
            testcase: setup.test_name.to_string(),
            connections: Vec::new(),
        };
        let facts_log = Self { file: setup.logs.join(FILE), facts: Mutex::new(facts) };
        facts_log.write()?;
        Ok(Arc::new(facts_log))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock()
    }

    /// Adds a connection and returns its index. Above the limit, the connection is not recorded.
    pub(crate) fn add(&self, connection: Connection) -> usize {
        let mut facts = self.facts();
        if facts.connections.len() < MAX_CONNECTIONS {
            facts.connections.push(connection);
            facts.connections.len() - 1
        } else {
            MAX_CONNECTIONS
        }
    }

    /// Updates a connection's facts.
    pub(crate) fn update(&self, number: usize, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.facts().connections.get_mut(number) {
            change(connection);
        }
    }

    /// Replaces the file atomically.
    pub(super) fn write(&self) -> Result<(), FactsError> {
        let text = serde_json::to_vec_pretty(&*self.facts()).unwrap_or_default();
        write(&self.file, &text).map_err(|why| FactsError::File { path: self.file.clone(), why })
    }
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}
