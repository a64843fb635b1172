//! Marks on every tenth read of 1-RTT packets, as a router on the path would set them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of marks.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    reads: Arc<AtomicU64>,
    /// Number of datagrams marked.
    pub datagrams: Arc<AtomicU64>,
}

impl Marks {
    /// Returns whether to mark this read of `len` bytes in datagrams of `stride` bytes.
    pub(crate) fn next(&self, first_byte: u8, len: usize, stride: usize) -> bool {
        // Packets with long headers belong to the handshake.
        let one_rtt = first_byte & 0x80 == 0;
        let marks = one_rtt && self.reads.fetch_add(1, Ordering::Relaxed) % 10 == 9;
        if marks {
            self.datagrams.fetch_add(len.div_ceil(stride.max(1)) as u64, Ordering::Relaxed);
        }
        marks
    }
}

/// Marks the datagrams of a read, whose metadata has the same form on both stacks.
macro_rules! mark {
    ($self:ident, $udp:path, $read:expr, $bufs:ident, $meta:ident) => {{
        use $udp as udp;
        let read = $read;
        if let (Some(marks), Poll::Ready(Ok(count))) = (&$self.marks, &read) {
            for (buf, meta) in $bufs.iter().zip($meta.iter_mut()).take(*count) {
                if marks.next(buf[0], meta.len, meta.stride)
                    && meta.ecn == Some(udp::EcnCodepoint::Ect0)
                {
                    meta.ecn = Some(udp::EcnCodepoint::Ce);
                }
            }
        }
        read
    }};
}
pub(crate) use mark;
