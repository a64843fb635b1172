//! What Fathom adds to quiche.
//!
//! # A controller by name
//!
//! [`Config::set_cc_algorithm_name`](crate::Config::set_cc_algorithm_name) takes the names of Fathom's controllers with their options,
//! such as `sync:signal=either`, beside stock's own `reno`, `cubic`, `bbr`, `bbr2` and `bbr2_gcongestion`, which stay stock's. A
//! controller of ours whose name stock has too is `fathom:reno` or `fathom:cubic`. Whatever chooses an algorithm by its name reaches
//! them: tokio-quiche's `cc_algorithm` setting does. A name that is wrong gives [`Error::CongestionControl`](crate::Error), as in stock,
//! and says why in the log; [`algorithm`] says it in its error.
//!
//! # One-way delay, and what else a connection takes
//!
//! A connection with a controller of ours offers SYNC_TIMESTAMP in `lean` mode, and TIMESTAMP (draft-huitema-quic-ts) for peers that
//! have only that; one with a controller of stock's sends what stock sends, byte for byte. [`Config::set_fathom`] changes this:
//! another mode, one of the two or none, frames under stock's controllers, another clock, an
//! [`Observer`]. [`Connection::fathom`] shows the delays and the controller's state.
//!
//! # ECN
//!
//! Stock neither marks packets nor counts marks, and leaves the IP header to the application. Where the application reads the ECN
//! field, it says so with [`Connection::set_received_ecn`] before each `recv`; then ACK frames carry counts. Where it can write the
//! field, it asks [`Connection::ecn_to_send`] after each `send`: 2 (ECT(0)) for connections with a controller of ours, until the path
//! turns out to wipe or to mangle marks (RFC 9000 §13.4.2). An application that does neither gets stock's behaviour.
//!
//! # Pace and packet size
//!
//! Controllers with a pace of their own ([`fathom_cc::Pacing::Rate`], and [`fathom_cc::Pacing::Delay`] as the rate of a sender that keeps each
//! packet back) have `send` return `Done` until the next packet's time, which `timeout_instant` includes; bare ACKs, probes and
//! closes go at once. Controllers that steer the packet size bound the packets that carry stream data; `Connection::send` keeps
//! returning one packet a call, so nothing changes for the application. ACK frames, control frames and DATAGRAM frames are never trimmed.
//!
//! # What became of a stream
//!
//! [`Connection::stream_delivery`] says whether the peer has acknowledged all that a stream sends, or nobody waits for it any more.
//!
//! # Differences from the plug-ins for quinn and noq
//!
//! A peer without the extension is not refused when the controller needs one-way delay (`sync` as it is by default): the controller is a
//! word in the settings of a server that must answer every browser. It then hears of no delay, and `sync` is Reno;
//! `sync:signal=either` runs on RTT instead.
//!
//! The frame lies at the end of a packet's payload, not at its start, and in `lean` mode only beside an ACK frame. Everything else of it
//! (negotiation, budget, estimator, treatment of hostile input) is the same code, `fathom_plugin::ConnectionState`.
//!
//! [`Config::set_fathom`]: crate::Config::set_fathom
//! [`Connection::fathom`]: crate::Connection::fathom
//! [`Connection::set_received_ecn`]: crate::Connection::set_received_ecn
//! [`Connection::ecn_to_send`]: crate::Connection::ecn_to_send
//! [`Connection::stream_delivery`]: crate::Connection::stream_delivery

mod connection;
mod ecn;
pub(crate) mod path_controller;
mod registry;
pub mod simulation;
#[cfg(test)]
mod wire_tests;

pub use fathom_plugin::{
    Clock, ConnectionConfig, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer,
    PluginError, ReceiveTimestamps, Report,
};

pub(crate) use connection::ConnectionPlugin;
pub use connection::StreamDelivery;
pub(crate) use ecn::Received;
pub(crate) use path_controller::PathController;
pub(crate) use registry::named;
pub use registry::{algorithm, algorithm_of};

/// What quiche delivers to controllers and honours of their advice: everything. ECN where the application helps.
pub const PROVIDED: fathom_cc::Capabilities =
    fathom_cc::Capabilities { one_way: true, ecn: true, pacing: true, datagram: true };
