//! Settings of connections that every way to write an experiment has.

use fathom_plugin::{EnableTimestamp, Extension, Offer, ReceiveTimestamps};
use serde::{Deserialize, Serialize};

/// How requests use connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = not_connections)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One connection per request (HTTP/1.0 in the paper).
    #[default]
    Fresh,
    /// A request takes an idle connection if there is one.
    Persistent,
}

/// How one-way delays travel.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::Display,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = not_timestamps)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// SYNC_TIMESTAMP beside ACK frames; the sender derives the delay.
    #[default]
    Lean,
    /// SYNC_TIMESTAMP on every packet; the receiver measures and echoes the delay (Sync-TCP §3.2).
    Paper,
    /// TIMESTAMP of draft-huitema-quic-ts beside ACK frames, and no SYNC_TIMESTAMP.
    Timestamp,
    /// ACK_RECEIVE_TIMESTAMPS of draft-ietf-quic-receive-ts: ACK frames say when the newest packet arrived.
    Receive,
    /// Not at all: the extension is not offered.
    Off,
}

/// Whether endpoints send through a shaping socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = not_shaping)]
#[serde(rename_all = "kebab-case")]
pub enum Shaping {
    /// Where the controller needs it.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What a client does with a session ticket that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = not_resume)]
pub enum Resume {
    /// Nothing: every handshake is a full one, and servers send no tickets.
    #[default]
    None,
    /// It resumes the session (RFC 8446 §2.2): no certificate, and requests after the handshake's round trip.
    #[strum(serialize = "1rtt")]
    OneRtt,
    /// It resumes it, and sends its requests with the first packets (RFC 9001 §4.6).
    #[strum(serialize = "0rtt")]
    ZeroRtt,
}

/// How connections of pages and web traffic resume TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resumption {
    /// What a client does with a ticket.
    pub resume: Resume,
    /// Part of the connections whose client holds one.
    pub tickets: f64,
}

/// How the frames of live media travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = not_transport)]
pub enum MediaTransport {
    /// Each on a stream of its own, as a response: what is lost is sent again.
    #[default]
    Stream,
    /// In DATAGRAM frames (RFC 9221): what is lost is lost.
    Datagram,
}

impl Default for Resumption {
    /// None; with tickets they are what Cloudflare counted over its sites: 40 % of connections resume a session (Introducing Zero Round Trip
    /// Time Resumption, 2017).
    fn default() -> Self {
        Self { resume: Resume::None, tickets: 0.4 }
    }
}

impl Timestamps {
    /// What the transport parameters say. TIMESTAMP's is there when it is requested: it would make every handshake longer.
    pub(crate) const fn extension(self) -> Extension {
        match self {
            Self::Lean => Extension { offer: Some(Offer::Lean), ..Extension::OFF },
            Self::Paper => Extension { offer: Some(Offer::Paper), ..Extension::OFF },
            Self::Timestamp => {
                Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF }
            }
            Self::Receive => Extension {
                receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 1, exponent: 3 }),
                ..Extension::OFF
            },
            Self::Off => Extension::OFF,
        }
    }
}

fn not_connections(s: &str) -> String {
    format!("'{s}' is not a way to use connections; write fresh or persistent")
}

fn not_timestamps(s: &str) -> String {
    format!(
        "'{s}' is not a way to carry one-way delays; write lean, paper, timestamp, receive or off"
    )
}

fn not_shaping(s: &str) -> String {
    format!("'{s}' does not say when packets are shaped; write auto or off")
}

fn not_transport(s: &str) -> String {
    format!("'{}' does not say how frames travel; write stream or datagram", s.escape_debug())
}

fn not_resume(s: &str) -> String {
    format!(
        "'{}' does not say how sessions are resumed; write none, 1rtt or 0rtt",
        s.escape_debug()
    )
}
