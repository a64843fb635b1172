//! The same transport on quinn.
//!
//! The crate `h3-quinn` provides the same, except for two functions that a server needs to measure
//! its responses and to bound its memory. `h3-quinn` also keeps the stream that they would need
//! private. [`SendStream::acknowledged`] completes when the peer has all of a stream.
//! [`SendStream::poll_write_chunks`] passes `Bytes` on without a copy, so that their owner learns
//! when quinn releases them.

#[path = "bidi.rs"]
mod bidi;
#[path = "connection.rs"]
mod connection;
#[path = "error.rs"]
mod error;
#[path = "recv.rs"]
mod recv;
#[path = "send.rs"]
mod send;
mod stack;
#[path = "waiting.rs"]
mod waiting;

pub use bidi::BidiStream;
pub use connection::{Connection, OpenStreams};
pub use recv::RecvStream;
pub use send::{NotReady, SendStream};

impl Connection {
    /// Returns the underlying quinn connection.
    pub fn quinn(&self) -> &quinn::Connection {
        self.stack()
    }
}

/// Converts the stack's stream number to h3's.
fn stream_id(id: stack::StreamId) -> h3::quic::StreamId {
    // Both have 62 bits (RFC 9000 §2.1), so h3 accepts every number of the stack.
    h3::quic::StreamId::try_from(u64::from(id)).expect("a stream number of 62 bits")
}
