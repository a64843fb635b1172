//! QUIC extension frames that carry one-way delay, their negotiation, and the delay estimated from them.
//!
//! Nothing here does I/O, reads a clock or knows a QUIC stack. An adapter calls the parts in this order:
//!
//! 1. handshake: [`Offer::append`] to our transport parameters, [`Offer::find`] in the peer's, [`Negotiated::between`] the two; the
//!    same with [`EnableTimestamp`] and [`Timestamps`], and with [`ReceiveTimestamps`] and [`NegotiatedReceiveTimestamps`], for peers that
//!    do not speak our own frame;
//! 2. sending a packet: [`SyncTimestamp::encode`] or [`Timestamp::encode`] in front of its frames, or [`add_receipts`] to its ACK frame;
//!    [`SendTimes::record`];
//! 3. receiving one: [`Frames`] over the decrypted payload, [`remove`] our frame or [`restore_ack`], [`Dedup::insert`] against
//!    duplicates, [`StampBudget`] for whether the answer carries a stamp;
//! 4. on an acknowledgement: a [`Sample`] into the [`Estimator`], whose [`fathom_units::OneWayDelay`] goes to the controller.
//!
//! Everything that reads bytes from the network is total: any input gives a value or an error, in time linear in its length, and
//! allocates nothing.

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
