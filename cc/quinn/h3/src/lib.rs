//! QUIC transport for the [h3](https://docs.rs/h3) crate, on quinn: the sources of `h3-noq` (`cc/noq/h3`) on quinn's types.
//!
//! The crate `h3-quinn` does the same but for two things that a server needs to measure its responses and to bound its memory, and keeps
//! the stream they would need to itself: [`SendStream::acknowledged`] says when the peer has all of a stream, and
//! [`SendStream::poll_write_chunks`] hands `Bytes` over without a copy, so that their owner learns when quinn lets go of them.

pub use quinn;

mod bidi;
mod connection;
mod error;
mod recv;
mod send;
mod stack;
mod waiting;

pub use bidi::BidiStream;
pub use connection::{Connection, OpenStreams};
pub use recv::RecvStream;
pub use send::{NotReady, SendStream};

impl Connection {
    /// The connection of quinn underneath.
    pub fn quinn(&self) -> &quinn::Connection {
        self.stack()
    }
}

/// The stack's stream number as h3's.
fn stream_id(id: stack::StreamId) -> h3::quic::StreamId {
    // Both have 62 bits (RFC 9000 §2.1): h3 refuses none that the stack has.
    h3::quic::StreamId::try_from(u64::from(id)).expect("a stream number of 62 bits")
}
