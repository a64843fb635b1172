//! Delay-based congestion controllers for QUIC, written once against a stack-independent interface.
//!
//! This crate does no I/O, reads no clock and knows no QUIC stack. An adapter (see the sibling
//! crates) turns a stack's calls into [`event`]s and passes the [`SendParams`] back to the stack.
//! Each paper has one file or folder in `algorithms/`, which should be read together with the
//! paper: a [`rule::WindowRule`] that controls one [`aimd::Aimd`] window.

pub mod aimd;
pub mod algorithm;
mod algorithms;
mod capabilities;
pub mod catalogue;
pub mod config;
pub mod controller;
pub mod event;
pub mod hystart;
mod mark_share;
pub mod options;
pub mod rapid_start;
pub mod round;
pub mod rule;
pub mod search;
pub mod signal;
pub mod sliding;
pub mod startup;
#[cfg(feature = "testing")]
pub mod testing;
pub mod undo;

pub use algorithms::*;
pub use capabilities::Capabilities;
pub use config::{ControllerConfig, Missing};
pub use controller::{Controller, ControllerMetrics, Pacing, Phase, SendParams};
pub use event::{AckEvent, Acked, Cause, CongestionEvent, EcnDelta, PathChange, Rtt, Sent, Start};
pub use fathom_units::{self as units, Invalid, OneWayDelay, Rate, Ratio, Time, math};

/// Runs the README's code blocks as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
