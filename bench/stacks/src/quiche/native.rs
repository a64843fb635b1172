//! quiche connections whose buffers share bodies; quiche's own controllers.

use super::stack::{self, BufFactory, CongestionControlAlgorithm};

/// A quiche connection that takes bodies without a copy.
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

/// Returns quiche's own controller of this name.
pub(super) fn native(name: &str) -> CongestionControlAlgorithm {
    match name {
        "cubic" => CongestionControlAlgorithm::CUBIC,
        "bbr2" => CongestionControlAlgorithm::Bbr2Gcongestion,
        _ => CongestionControlAlgorithm::Reno,
    }
}

/// Returns whether quiche must pace for this algorithm. Only BBR needs pacing. quiche's other
/// controllers limit sending only by their windows, and our controllers pace by themselves.
pub(super) fn needs_pacing(algorithm: CongestionControlAlgorithm) -> bool {
    algorithm == CongestionControlAlgorithm::Bbr2Gcongestion
}
