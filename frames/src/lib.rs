//! QUIC extension frames that carry one-way delays, their negotiation, and the estimation of the
//! delay from them.
//!
//! This crate does no I/O, reads no clock and knows no QUIC stack. An adapter calls its parts in
//! this order:
//!
//! 1. Handshake: [`Offer::append`] to our transport parameters, [`Offer::find`] in the peer's, and
//!    [`Negotiated::between`] the two. For peers that do not support our own frame, do the same
//!    with [`EnableTimestamp`] and [`Timestamps`], and with [`ReceiveTimestamps`] and
//!    [`NegotiatedReceiveTimestamps`].
//! 2. Sending a packet: [`SyncTimestamp::encode`] or [`Timestamp::encode`] before its other frames,
//!    or [`add_receipts`] on its ACK frame; then [`SendTimes::record`].
//! 3. Receiving a packet: [`Frames`] over the decrypted payload, [`remove`] for our frame or
//!    [`restore_ack`], [`Dedup::insert`] to detect duplicates, and [`StampBudget`] to decide
//!    whether the answer carries a timestamp.
//! 4. Receiving an acknowledgement: a [`Sample`] for the [`Estimator`]. The resulting
//!    [`fathom_units::OneWayDelay`] goes to the controller.
//!
//! Every function that reads bytes from the network is total: any input gives a value or an error,
//! in time linear in the input's length, without allocation.

pub mod codepoints;
pub mod dedup;
pub mod enable_timestamp;
pub mod estimator;
pub mod parameter;
pub mod receive_timestamps;
pub mod send_times;
pub mod sync_timestamp;
pub mod timestamp;
pub mod varint;
pub mod walker;

mod ack;
mod baseline;
mod budget;
mod cursor;

pub use ack::{Ack, AckRanges, EcnCounts, ack_delay};
pub use budget::StampBudget;
pub use dedup::{Arrival, Dedup};
pub use enable_timestamp::{EnableTimestamp, Timestamps};
pub use estimator::{Counters, Estimator, Sample};
pub use parameter::{Negotiated, Offer, ParameterError};
pub use receive_timestamps::{
    AckReceiveTimestamps, NegotiatedReceiveTimestamps, Receipt, ReceiveTimestamps, add_receipts,
    encode_receipts, restore_ack,
};
pub use send_times::{SendTimes, Taken};
pub use sync_timestamp::{Echo, SyncTimestamp};
pub use timestamp::Timestamp;
pub use walker::{Content, Frame, Frames, Malformed, remove};
