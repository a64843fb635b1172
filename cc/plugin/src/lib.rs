//! What the plug-ins into quinn and noq share. No stack is known here: a plug-in's own crate translates calls and errors, no more.
//!
//! The parts, in the order in which a connection meets them:
//! - [`Plugin`]: a controller chosen by name; [`ClientPlugin`] and [`ServerPlugin`] wire connections. [`Stack`] says how on one stack.
//! - [`Tls`]: rustls's QUIC session, plus our transport parameters.
//! - [`PacketProtection`]: packet keys that write the frame while a packet is sealed and take it out while it is opened.
//! - [`ConnectionState`]: what session, keys and controllers of one connection share; [`ConnectionMonitor`] shows it.
//! - [`ControllerDriver`]: one path's controller, which is given one batch of acknowledgements per ACK frame.
//! - [`TrailerRegistry`] and [`DelayQueue`]: what keys and socket share where datagrams are trimmed or held back.
//!
//! # Order at the controller
//!
//! Both stacks process an ACK frame in this order, and [`ControllerDriver`] keeps it: the acknowledged packets, as one batch with the frame's
//! ECN counts and one-way delay; losses that the frame shows; then a mark, if its counts of congestion experienced grew and the
//! stack's own validation (RFC 9000 §13.4.2) believes them. So a [`fathom_cc::CongestionEvent`] for a mark always follows the
//! [`fathom_cc::EcnDelta`] that counts it. An ACK frame may acknowledge only bare ACKs, which no controller learns of: its counts
//! are added to the next batch, and its mark waits for that one.
//!
//! # Several paths
//!
//! On a stack with multipath every path has its own packet numbers, log of send times, delay estimator, ECN counts and controller.
//! Stacks without it call everything path 0. An acknowledgement may travel on another path than its packets: in `lean` mode it gives
//! their forward delay all the same, since a stamp is the peer's clock wherever it travels (a TIMESTAMP too); an echo (`paper` mode) counts only on
//! its own path.

#![cfg_attr(
    not(feature = "rustls"),
    expect(dead_code, reason = "without sessions of ours nothing is sealed, trimmed or held back")
)]

#[cfg(all(feature = "rustls", not(any(feature = "ring", feature = "aws-lc-rs"))))]
compile_error!(
    "fathom-plugin: choose whose AES signs Retry packets: feature `ring` or `aws-lc-rs`"
);

mod by_path;
mod clock;
mod close_error;
mod config;
mod connection_state;
mod core;
mod driver;
mod endpoint;
mod extension;
#[cfg(all(test, feature = "rustls"))]
mod failing_tests;
mod key_counts;
mod monitor;
mod negotiation;
#[cfg(feature = "rustls")]
mod packet_key;
mod path_signals;
mod payload;
#[cfg(feature = "rustls")]
mod plugin;
mod receipt_log;
mod report;
#[cfg(all(test, feature = "rustls"))]
mod sealing_tests;
#[cfg(feature = "rustls")]
mod session;
mod shaping;
mod shaping_socket;
mod stamp_writer;
mod trim;

pub use clock::{Clock, SystemClock};
pub use close_error::{CloseError, ErrorCode};
pub use config::{ConnectionConfig, PluginError};
pub use connection_state::ConnectionState;
pub use core::with_shaping_socket;
pub use driver::{AckBatch, ControllerDriver};
pub use endpoint::{ControllerSource, SharedEndpoint};
pub use extension::{Extension, InUse};
pub use fathom_frames::{EcnCounts, EnableTimestamp, Offer, ReceiveTimestamps};
pub use monitor::ConnectionMonitor;
#[cfg(feature = "rustls")]
pub use packet_key::{HeaderProtection, NotAuthentic, PacketProtection};
pub use payload::NotNegotiated;
#[cfg(feature = "rustls")]
pub use plugin::{
    ClientCryptoConfig, ClientPlugin, Plugin, ServerCryptoConfig, ServerPlugin, Stack,
};
pub use report::{Handshake, Observer, Report};
#[cfg(feature = "rustls")]
pub use session::{HandshakeData, KeyPair, KeySet, Tls, UnknownVersion, retry_tag};
pub use shaping_socket::{DelayQueue, DelayedDatagram, DelayedSends, TrailerRegistry, Trimmed};
