//! What is known of each connection. What a stack does not tell is `null`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fathom_plugin::{Offer, Report};
use serde::{Deserialize, Serialize};

use super::Setup;

/// The name of the file.
pub const FILE: &str = "facts.json";

/// Connections noted at most; an endpoint of a test has fewer.
const MOST: usize = 10_000;

/// What an endpoint tells at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Stack.
    pub stack: String,
    /// `client` or `server`.
    pub role: String,
    /// Test case.
    pub testcase: String,
    /// Its connections, in the order in which they began.
    pub connections: Vec<Connection>,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The peer's address.
    pub peer: String,
    /// The handshake was completed.
    pub complete: bool,
    /// The application protocol.
    pub protocol: Option<String>,
    /// TLS went on from an earlier session.
    pub resumed: Option<bool>,
    /// The server took 0-RTT.
    pub early_data_accepted: Option<bool>,
    /// Requests that were sent, or came, in 0-RTT.
    pub early_requests: Option<u64>,
    /// Requests whose answers are whole.
    pub requests: u64,
    /// A Retry packet was sent, or came.
    pub retry: Option<bool>,
    /// The cipher suite's name.
    pub cipher: Option<String>,
    /// Key updates that our packets show.
    pub key_updates_sent: Option<u64>,
    /// Key updates that the peer's packets show.
    pub key_updates_received: Option<u64>,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// One-way delays.
    pub extension: Extension,
    /// The sender's controller.
    pub controller: String,
    /// How it ended; `null` while it lasts.
    pub close: Option<Close>,
    /// Bytes of UDP payload sent.
    pub bytes_sent: Option<u64>,
    /// Bytes of UDP payload received.
    pub bytes_received: Option<u64>,
}

/// ECN of a connection, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecn {
    /// We marked so many ECT.
    pub sent: Option<u64>,
    /// The peer reports so many ECT(0).
    pub reported_ect0: Option<u64>,
    /// The peer reports so many ECT(1).
    pub reported_ect1: Option<u64>,
    /// The peer reports so many that experienced congestion.
    pub reported_ce: Option<u64>,
}

/// Our extension on a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Our transport parameter was sent.
    pub offered: bool,
    /// The peer's sync_timestamp: `lean` or `paper`.
    pub peer_sync_timestamp: Option<String>,
    /// The peer's enable_timestamp.
    pub peer_enable_timestamp: Option<u64>,
    /// Frames sent.
    pub stamps_sent: Option<u64>,
    /// Frames received.
    pub stamps_received: Option<u64>,
}

/// How a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// `us`, `peer` or `nobody`.
    pub by: String,
    /// `transport`, `application`, `timeout` or another word.
    pub kind: String,
    /// Error code.
    pub code: Option<u64>,
    /// Reason phrase.
    pub reason: String,
    /// Frame encoding, protocol violation or transport parameter: what an extension that goes wrong ends in.
    pub fault: bool,
}

/// FRAME_ENCODING_ERROR, TRANSPORT_PARAMETER_ERROR, PROTOCOL_VIOLATION (RFC 9000 §20.1).
pub const FAULTS: [u64; 3] = [0x07, 0x08, 0x0a];

impl Close {
    /// Ended by one side, with a code of QUIC's or of the application's.
    pub(crate) fn coded(by: &str, transport: bool, code: u64, reason: &[u8]) -> Self {
        Self {
            by: by.into(),
            kind: if transport { "transport" } else { "application" }.into(),
            code: Some(code),
            reason: String::from_utf8_lossy(&reason[..reason.len().min(200)]).into_owned(),
            fault: transport && FAULTS.contains(&code),
        }
    }

    /// Ended without a code.
    pub(crate) fn plain(by: &str, kind: &str, reason: &str) -> Self {
        Self { by: by.into(), kind: kind.into(), reason: reason.into(), ..Self::default() }
    }
}

impl Connection {
    /// Takes in what the plug-in tells.
    pub(crate) fn take_report(&mut self, report: &Report) {
        if let Some(settled) = report.handshake {
            self.resumed = Some(settled.resumed);
            self.cipher = Some(suite(settled.suite));
            self.key_updates_sent = Some(settled.updates_sent);
            self.key_updates_received = Some(settled.updates_received);
        }
        self.extension = Extension {
            offered: true,
            peer_sync_timestamp: report.peers.map(|offer| if offer == Offer::Paper { "paper" } else { "lean" }.into()),
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

/// The name of a suite of TLS 1.3 (RFC 8446 §B.4).
pub fn suite(number: u16) -> String {
    match number {
        0x1301 => "TLS_AES_128_GCM_SHA256".into(),
        0x1302 => "TLS_AES_256_GCM_SHA384".into(),
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256".into(),
        other => format!("{other:#06x}"),
    }
}

/// Facts that connections add to, and the file they go to.
pub(crate) struct Books {
    file: PathBuf,
    facts: Mutex<Facts>,
}

impl Books {
    pub(crate) fn open(setup: &Setup) -> Result<Arc<Self>, String> {
        let cannot = |e| format!("LOGS is '{}': {e}; set a folder that can be written to", setup.logs.display());
        std::fs::create_dir_all(&setup.logs).map_err(cannot)?;
        let facts = Facts {
            stack: setup.stack.name().into(),
            role: setup.role.name().into(),
            testcase: setup.case.name().into(),
            connections: Vec::new(),
        };
        let books = Self { file: setup.logs.join(FILE), facts: Mutex::new(facts) };
        books.write()?;
        Ok(Arc::new(books))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a connection's entry; its number.
    pub(crate) fn begin(&self, connection: Connection) -> usize {
        let mut facts = self.facts();
        if facts.connections.len() < MOST {
            facts.connections.push(connection);
            facts.connections.len() - 1
        } else {
            MOST
        }
    }

    /// Changes an entry.
    pub(crate) fn note(&self, number: usize, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.facts().connections.get_mut(number) {
            change(connection);
        }
    }

    /// Writes all to the file. A reader never sees half of it.
    pub(crate) fn write(&self) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(&*self.facts()).unwrap_or_default();
        write(&self.file, &text).map_err(|e| format!("cannot write '{}': {e}", self.file.display()))
    }
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}
