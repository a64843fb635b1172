//! Checks of a peer's HTTP/3 bytes (RFC 9114, RFC 9204), in front of the `h3` crate.
//!
//! `h3` 0.0.8 panics on a truncated DATA frame, takes an empty DATA frame for the end of a body,
//! merges repeated pseudo-header fields, and collects frames of any length. [`GuardedConnection`]
//! wraps a connection of any stack and gives `h3` only well-formed input: whole HEADERS frames,
//! non-empty DATA frames, and frames of the control stream. Any other input is skipped, or ends the
//! stream or the connection with the error that the RFCs specify.
//!
//! | file | contents |
//! |---|---|
//! | `error.rs` | [`PeerError`]: errors of the peer, and their scope |
//! | `closer.rs` | [`Closer`]: closes a connection because of an error of the peer |
//! | `varint.rs` | variable-length integers, and frame headers |
//! | `unidirectional.rs` | the control stream and QPACK's two streams |
//! | `control_frames.rs` | the frames of the control stream |
//! | `fields.rs` | the rules of RFC 9114 §4.2 and §4.3 for header and trailer fields |
//! | `qpack.rs`, `huffman.rs`, `static_table.rs` | decoding of field sections (RFC 9204) |
//! | `message.rs` | the frames of a request or response, in order |
//! | `guard.rs` | connections and streams whose incoming bytes are checked |

mod closer;
mod control_frames;
mod error;
mod fields;
mod guard;
mod huffman;
mod message;
mod qpack;
mod static_table;
mod unidirectional;
mod varint;

use bytes::Bytes;
use h3::error::ConnectionError;
use h3::quic::Connection;

pub(crate) use closer::Closer;
pub(crate) use error::PeerError;
pub(crate) use guard::{GuardedConnection, GuardedOpener};
pub(crate) use message::{Peer, SectionLimits};

use crate::limits::RESPONSE_BYTES;

/// H3_NO_ERROR (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = 0x100;

/// Driver of a client's HTTP/3 connection: settings, GOAWAY.
pub(crate) type Http3Driver<C> = h3::client::Connection<GuardedConnection<C>, Bytes>;

/// Sender of a client's requests.
pub(crate) type RequestSender<O> = h3::client::SendRequest<GuardedOpener<O>, Bytes>;

/// Starts HTTP/3 on a client's connection. `closer` closes the connection if the server violates
/// the protocol.
///
/// # Errors
/// Returns an error if the connection was lost or the server violated the protocol.
pub(crate) async fn client<C: Connection<Bytes>>(
    transport: C,
    closer: Closer,
) -> Result<(Http3Driver<C>, RequestSender<C::OpenStreams>), ConnectionError> {
    let mut builder = h3::client::builder();
    builder.max_field_section_size(RESPONSE_BYTES).send_grease(false);
    let limits = SectionLimits { stream: RESPONSE_BYTES, section: RESPONSE_BYTES };
    builder.build(GuardedConnection::new(transport, Peer::Server, limits, closer)).await
}
