//! quiche's connections with buffers that share bodies, and its own controllers.

use super::stack::{self, BufFactory, CongestionControlAlgorithm};

/// quiche's connections, which take bodies without copying them.
pub(super) type Quic = stack::Connection<Buffers>;

#[derive(Clone, Debug, Default)]
pub(super) struct Buffers;

impl BufFactory for Buffers {
    type Buf = bytes::Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> bytes::Bytes {
        bytes::Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

/// quiche's own controller of this name.
pub(super) fn native(name: &str) -> CongestionControlAlgorithm {
    match name {
        "cubic" => CongestionControlAlgorithm::CUBIC,
        "bbr2" => CongestionControlAlgorithm::Bbr2Gcongestion,
        _ => CongestionControlAlgorithm::Reno,
    }
}

/// Whether quiche must pace for it. Only BBR needs that: the others' windows are all there is to them, and ours pace themselves.
pub(super) fn needs_pacing(algorithm: CongestionControlAlgorithm) -> bool {
    algorithm == CongestionControlAlgorithm::Bbr2Gcongestion
}
