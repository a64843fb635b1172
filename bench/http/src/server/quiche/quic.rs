//! quiche's connections as the server has them.

use std::time::Duration;

/// A grace beyond what clocks count.
pub(super) const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// quiche's connections with Fathom's buffers: bodies are not copied.
pub(super) type Quic = quiche::Connection<Buffers>;

#[derive(Clone, Debug, Default)]
pub(super) struct Buffers;

impl quiche::BufFactory for Buffers {
    type Buf = bytes::Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> bytes::Bytes {
        bytes::Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}
