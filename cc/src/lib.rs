//! Delay-based congestion controllers for QUIC, written once against a neutral interface.
//!
//! Nothing here does I/O, reads a clock or knows a QUIC stack: an adapter (see the sibling crates) turns a stack's calls into
//! [`event`]s and hands the [`Advice`] back. One algorithm is one file, meant to be read beside its paper; all of them hold one
//! [`aimd::Aimd`] window and steer it.

pub mod aimd;
pub mod catalogue;
pub mod controller;
pub mod cubic;
pub mod dca;
pub mod dual;
pub mod event;
pub mod gentle;
pub mod highspeed;
pub mod hystart;
pub mod math;
pub mod options;
pub mod packet_size;
pub mod recipe;
pub mod reno;
pub mod round;
pub mod sdc;
pub mod sync;
pub mod testing;
pub mod undo;
pub mod units;
pub mod vegas;

pub use controller::{Advice, Controller, Pace, Phase, Snapshot};
pub use event::{Acked, Acks, Cause, EcnDelta, PathChange, Rtt, Sent, Setback, Start};
pub use recipe::{Missing, Recipe, Signals};
pub use units::{OneWayDelay, Rate, Ratio, Time};
