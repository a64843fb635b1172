//! Fathom's additions to quiche.
//!
//! # Choosing a controller by name
//!
//! [`Config::set_cc_algorithm_name`](crate::Config::set_cc_algorithm_name) accepts the names of
//! Fathom's controllers with their options, such as `sync:signal=either`. Stock's own `reno`,
//! `cubic`, `bbr`, `bbr2` and `bbr2_gcongestion` still select stock's algorithms. If stock has a
//! controller of the same name, ours is `fathom:reno` or `fathom:cubic`. All settings that choose
//! an algorithm by name accept these names, for example tokio-quiche's `cc_algorithm`. As in stock,
//! a wrong name gives [`Error::CongestionControl`](crate::Error), and the log has the reason.
//! [`algorithm`] has the reason in its error.
//!
//! # One-way delay and other settings of a connection
//!
//! A connection with a controller of ours offers SYNC_TIMESTAMP in `lean` mode, and TIMESTAMP
//! (draft-huitema-quic-ts) for peers that support only that frame. A connection with a controller
//! of stock's sends exactly what stock sends. [`Config::set_fathom`] can change this. It can set
//! another mode, only one of the frames or none, frames under stock's controllers, another clock,
//! or an [`Observer`]. [`Connection::fathom`] shows the delays and the controller's state.
//!
//! # ECN
//!
//! Stock neither marks packets nor counts marks, and leaves the IP header to the application. An
//! application that can read the ECN field passes it to [`Connection::set_received_ecn`] before
//! each `recv`. ACK frames then carry counts. An application that can write the field calls
//! [`Connection::ecn_to_send`] after each `send`. The result is 2 (ECT(0)) for connections with a
//! controller of ours, or 1 (ECT(1)) if the controller needs it, until the path proves to clear or
//! corrupt marks (RFC 9000 §13.4.2). An application that does neither gets stock's behaviour.
//!
//! # Pacing and packet size
//!
//! If a controller sets its own pace ([`fathom_cc::Pacing::Rate`], or [`fathom_cc::Pacing::Delay`]
//! converted to the rate of a sender that delays each packet), `send` returns `Done` until the next
//! packet's time. `timeout_instant` includes this time. Bare ACKs, probes and closes leave at once.
//! If a controller sets the packet size, packets with stream data do not exceed it.
//! `Connection::send` still returns one packet per call, so nothing changes for the application.
//! ACK frames, control frames and DATAGRAM frames are never trimmed.
//!
//! # Delivery of a stream
//!
//! [`Connection::stream_delivery`] tells whether the peer has acknowledged all data that a stream
//! sends, or no longer waits for them.
//!
//! # Differences from the plug-ins for quinn and noq
//!
//! A peer without the extension is accepted even if the controller needs one-way delay (`sync` by
//! default), because the controller is one setting of a server that must answer every browser. The
//! controller then gets no delays: `sync` behaves like Reno, and `sync:signal=either` uses the RTT.
//!
//! The timestamp frame is at the end of a packet's payload, not at its start. In `lean` mode, a
//! packet carries this frame only next to an ACK frame. The negotiation, the budget, the estimator
//! and the handling of hostile input use the same code, `fathom_plugin::ConnectionState`.
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

/// Capabilities of quiche, which provides all of them. For ECN, the application must help.
pub const PROVIDED: fathom_cc::Capabilities = fathom_cc::Capabilities::ALL;
