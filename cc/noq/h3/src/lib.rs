#![doc = include_str!("../README.md")]

pub use noq;

mod bidi;
mod connection;
#[cfg(feature = "datagram")]
pub mod datagram;
mod error;
#[cfg(feature = "quinn")]
#[allow(clippy::duplicate_mod, reason = "one source, compiled for each stack")]
pub mod quinn;
mod recv;
mod send;
mod stack;
mod waiting;

pub use bidi::BidiStream;
pub use connection::{Connection, OpenStreams};
pub use recv::RecvStream;
pub use send::{NotReady, SendStream};

impl Connection {
    /// Returns the underlying noq connection.
    pub fn noq(&self) -> &noq::Connection {
        self.stack()
    }
}

/// Converts the stack's stream number to the type of `h3`.
fn stream_id(id: stack::StreamId) -> h3::quic::StreamId {
    // Both types have 62 bits (RFC 9000 §2.1), so `h3` accepts every number of the stack.
    h3::quic::StreamId::try_from(u64::from(id)).expect("a stream number of 62 bits")
}
