//! Delay-based congestion controllers for QUIC, written once against a neutral interface.
//!
//! Nothing here does I/O, reads a clock or knows a QUIC stack: an adapter (see the sibling crates) turns a stack's calls into
//! [`event`]s and hands the [`SendParams`] back. One paper is one file or folder in `algorithms/`, meant to be read beside it: a
//! [`rule::WindowRule`] that steers one [`aimd::Aimd`] window.

pub mod aimd;
pub mod algorithm;
mod algorithms;
mod capabilities;
pub mod catalogue;
pub mod config;
pub mod controller;
pub mod event;
pub mod hystart;
pub mod options;
pub mod round;
pub mod rule;
#[cfg(feature = "testing")]
pub mod testing;
pub mod undo;

pub use algorithms::*;
pub use capabilities::Capabilities;
pub use config::{ControllerConfig, Missing};
pub use controller::{Controller, ControllerMetrics, Pacing, Phase, SendParams};
pub use event::{AckEvent, Acked, Cause, CongestionEvent, EcnDelta, PathChange, Rtt, Sent, Start};
pub use fathom_units::{self as units, OneWayDelay, Rate, Ratio, Time, math};

/// The code of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
