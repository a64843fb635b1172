//! Sockets that mark every tenth read of 1-RTT packets, as a router on the path would.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::recording_socket::{RecordingSocket, Sizes};

/// Counters of marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    reads: Arc<AtomicU64>,
    /// Number of datagrams marked.
    pub(crate) datagrams: Arc<AtomicU64>,
}

impl Marks {
    /// Returns whether to mark this read of `len` bytes in datagrams of `stride` bytes.
    pub(super) fn next(&self, first_byte: u8, len: usize, stride: usize) -> bool {
        // Long headers belong to the handshake.
        let one_rtt = first_byte & 0x80 == 0;
        let marks = one_rtt && self.reads.fetch_add(1, Ordering::Relaxed) % 10 == 9;
        if marks {
            self.datagrams.fetch_add(len.div_ceil(stride.max(1)) as u64, Ordering::Relaxed);
        }
        marks
    }
}

fn bound(to: SocketAddr) -> UdpSocket {
    UdpSocket::bind(to).expect("a socket")
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

pub(crate) fn on_quinn(
    config: quinn::ServerConfig,
    to: SocketAddr,
    marks: Marks,
) -> quinn::Endpoint {
    use quinn::Runtime as _;
    let runtime = Arc::new(quinn::TokioRuntime);
    let socket = RecordingSocket::new(
        runtime.wrap_udp_socket(bound(to)).expect("wrapped"),
        Sizes::default(),
        Some(marks),
    );
    quinn::Endpoint::new_with_abstract_socket(
        quinn::EndpointConfig::default(),
        Some(config),
        Arc::new(socket),
        runtime,
    )
    .expect("an endpoint")
}

pub(crate) fn on_noq(config: noq::ServerConfig, to: SocketAddr, marks: Marks) -> noq::Endpoint {
    use noq::Runtime as _;
    let runtime = Arc::new(noq::TokioRuntime);
    let socket = RecordingSocket::new(
        runtime.wrap_udp_socket(bound(to)).expect("wrapped"),
        Sizes::default(),
        Some(marks),
    );
    noq::Endpoint::new_with_abstract_socket(
        noq::EndpointConfig::default(),
        Some(config),
        Box::new(socket),
        runtime,
    )
    .expect("an endpoint")
}
