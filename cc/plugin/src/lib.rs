//! The plug-ins for quinn and noq, and the code that all plug-ins share. The plug-ins are the
//! modules `quinn` and `noq`, behind features of these names.
//!
//! Only these two modules depend on a QUIC stack, and they only translate calls and errors. The
//! sources in `per_stack/` are compiled once in each of these modules. The stacks have different
//! traits with the same methods, so no generic code can implement both. These sources name the
//! stack's items through the module `stack` next to them. Code that differs in more than names is
//! in the stack's own files: the controller's trait (`adapter`), the path of a packet key
//! (`packet_key`) and how a socket sends (`socket`).
//!
//! The shared parts, in the order in which a connection uses them:
//! - [`Plugin`]: a controller chosen by name; [`ClientPlugin`] and [`ServerPlugin`] wire
//!   connections. [`Stack`] describes how to do this on one stack.
//! - [`Tls`]: rustls's QUIC session, plus the extension's transport parameters.
//! - [`PacketProtection`]: packet keys that write the timestamp frame while sealing a packet and
//!   remove the peer's frame while opening one.
//! - [`ConnectionState`]: state shared by the session, keys and controllers of one connection;
//!   [`ConnectionMonitor`] shows it.
//! - [`ControllerDriver`]: drives one path's controller, with one batch of acknowledgements per ACK
//!   frame.
//! - [`TrailerRegistry`] and [`DelayQueue`]: state that keys and sockets share if datagrams are
//!   trimmed or delayed.
//!
//! # Order of events at the controller
//!
//! Both stacks process an ACK frame in this order, and [`ControllerDriver`] keeps it:
//! 1. The acknowledged packets, as one batch with the frame's ECN counts and one-way delay.
//! 2. Losses that the frame reveals.
//! 3. A mark, if the frame's ECN-CE count grew and the stack's own validation (RFC 9000 §13.4.2)
//!    accepts the counts.
//!
//! A [`fathom_cc::CongestionEvent`] for a mark therefore always follows the [`fathom_cc::EcnDelta`]
//! that counts the mark. An ACK frame may acknowledge only bare ACKs, which are not reported to
//! controllers. The counts of such a frame are added to the next batch, and its mark waits for that
//! batch.
//!
//! # Several paths
//!
//! On a stack with multipath, every path has its own packet numbers, log of send times, delay
//! estimator, ECN counts and controller. Stacks without multipath number their only path 0. An
//! acknowledgement may arrive on a different path than the packets that it acknowledges. In `lean`
//! mode and with TIMESTAMP frames, such an acknowledgement still gives the packets' forward delay,
//! because a stamp is the peer's clock on any path. An echo (`paper` mode) is used only on its own
//! path.

#![cfg_attr(
    not(feature = "rustls"),
    expect(dead_code, reason = "without sessions of ours nothing is sealed, trimmed or held back")
)]

#[cfg(all(feature = "rustls", not(any(feature = "ring", feature = "aws-lc-rs"))))]
compile_error!(
    "fathom-plugin: choose the library that signs Retry packets with AES: feature `ring` or \
     `aws-lc-rs`"
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
#[cfg(feature = "noq")]
#[allow(clippy::duplicate_mod, reason = "`per_stack` is compiled for each stack")]
pub mod noq;
#[cfg(feature = "rustls")]
mod packet_key;
mod path_signals;
mod payload;
#[cfg(feature = "rustls")]
mod plugin;
#[cfg(feature = "quinn")]
#[allow(clippy::duplicate_mod, reason = "`per_stack` is compiled for each stack")]
pub mod quinn;
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
