//! The same transport as for noq, on quinn.
//!
//! The crate `h3-quinn` provides this transport without two functions that a server needs to
//! measure its responses and to limit its memory. They cannot be added from outside, because
//! `h3-quinn` keeps its stream private. [`SendStream::acknowledged`] completes when the peer has
//! received the whole stream. [`SendStream::poll_write_chunks`] passes `Bytes` on without a copy,
//! so that the owner of the `Bytes` learns when quinn releases them.

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

/// Converts the stack's stream number to the type of `h3`.
fn stream_id(id: stack::StreamId) -> h3::quic::StreamId {
    // Both types have 62 bits (RFC 9000 §2.1), so `h3` accepts every number of the stack.
    h3::quic::StreamId::try_from(u64::from(id)).expect("a stream number of 62 bits")
}
