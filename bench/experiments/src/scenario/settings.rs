//! Settings of connections that scenarios and comparisons share.

use fathom_cc::Invalid;
use fathom_plugin::{EnableTimestamp, Extension, Offer, ReceiveTimestamps};
use serde::{Deserialize, Serialize};

/// Use of connections by requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = Invalid, parse_err_fn = not_connections)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Each request opens a new connection (HTTP/1.0 in the paper).
    #[default]
    Fresh,
    /// A request takes an idle connection if there is one.
    Persistent,
}

/// Transport of one-way delays.
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
#[strum(serialize_all = "kebab-case", parse_err_ty = Invalid, parse_err_fn = not_timestamps)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// SYNC_TIMESTAMP frames next to ACK frames. The sender derives the delay.
    #[default]
    Lean,
    /// SYNC_TIMESTAMP frames on every packet. The receiver measures the delay and echoes it
    /// (Sync-TCP §3.2).
    Paper,
    /// TIMESTAMP frames of draft-huitema-quic-ts next to ACK frames, without SYNC_TIMESTAMP.
    Timestamp,
    /// ACK_RECEIVE_TIMESTAMPS frames of draft-ietf-quic-receive-ts. They contain the arrival time
    /// of the newest packet.
    Receive,
    /// One-way delays are not carried: no extension is offered.
    Off,
}

/// Use of a shaping socket by the endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = Invalid, parse_err_fn = not_shaping)]
#[serde(rename_all = "kebab-case")]
pub enum Shaping {
    /// Endpoints use a shaping socket if the controller needs it.
    #[default]
    Auto,
    /// Endpoints never use a shaping socket.
    Off,
}

/// Use of a session ticket by the client that holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = not_resume)]
pub enum Resume {
    /// No resumption. Every handshake is a full one, and servers send no tickets.
    #[default]
    None,
    /// Session resumption (RFC 8446 §2.2) with requests after the handshake's round trip. The
    /// handshake has no certificate.
    #[strum(serialize = "1rtt")]
    OneRtt,
    /// Session resumption with requests in the first packets (RFC 9001 §4.6).
    #[strum(serialize = "0rtt")]
    ZeroRtt,
}

/// Resumption of TLS sessions by connections of pages and web traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resumption {
    /// Use of a ticket by a client.
    pub resume: Resume,
    /// Fraction of the connections whose client holds a ticket.
    pub tickets: f64,
}

/// Transport of the frames of live media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = not_transport)]
pub enum MediaTransport {
    /// Each frame is a response on a stream of its own. Lost data are retransmitted.
    #[default]
    Stream,
    /// Frames travel in DATAGRAM frames (RFC 9221). Lost data are not retransmitted.
    Datagram,
}

/// Encoder of live media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::Display)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = not_encoder)]
pub enum MediaEncoder {
    /// The encoder always produces the stream's rate.
    #[default]
    Fixed,
    /// The encoder produces the rate at which the sender can send, up to the stream's rate.
    Adaptive,
}

impl Default for Resumption {
    /// Returns no resumption. If a workload turns it on, 40% of the connections hold a ticket,
    /// because Cloudflare observed this fraction of resumed connections across its sites
    /// (Introducing Zero Round Trip Time Resumption, 2017).
    fn default() -> Self {
        Self { resume: Resume::None, tickets: 0.4 }
    }
}

impl Timestamps {
    /// Returns the extensions that the transport parameters offer. The parameter of TIMESTAMP is
    /// sent only if requested, because it makes every handshake longer.
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

fn not_connections(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid value for the use of connections")
        .hint("write fresh or persistent")
}

fn not_timestamps(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid encoding of one-way delays")
        .hint("write lean, paper, timestamp, receive or off")
}

fn not_shaping(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid value for shaping").hint("write auto or off")
}

fn not_encoder(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid encoder of frames").hint("write fixed or adaptive")
}

fn not_transport(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid transport of frames").hint("write stream or datagram")
}

fn not_resume(s: &str) -> Invalid {
    Invalid::value(s, "is not a valid value for the resumption of sessions")
        .hint("write none, 1rtt or 0rtt")
}
