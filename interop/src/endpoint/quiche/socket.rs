//! The UDP socket and the paced send queue.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fathom_netsim::udp::Udp;
use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::api::{Datagram, QuicheConnection};

/// The longest sleep, after which the stop flag is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Datagrams are sent up to this long before their time.
pub(super) const EARLY_SEND: Duration = Duration::from_millis(1);
/// Largest buffer of datagrams that the kernel coalesces (GRO).
const GRO_BUFFER: usize = 64 << 10;
/// Coalesced buffers to read before sending.
const BATCH: usize = 32;

/// A received datagram.
pub(super) struct Received<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
}

/// A UDP socket.
pub(super) struct DatagramSocket {
    socket: Udp,
    address: SocketAddr,
    buffer: [Vec<u8>; 1],
}

impl DatagramSocket {
    pub(super) fn open(at: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(at)?;
        let address = io.local_addr()?;
        Ok(Self { socket: Udp::new(io)?, address, buffer: [vec![0; GRO_BUFFER]] })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sleeps until a datagram arrives or until `due`.
    pub(super) fn wait(&self, now: Instant, due: Option<Instant>) {
        let sleep = due.map_or(POLL_INTERVAL, |due| due.saturating_duration_since(now).min(POLL_INTERVAL));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) };
        // EINTR is handled like an arrival.
        let _ = poll(&mut [PollFd::new(self.socket.io(), PollFlags::IN)], Some(&timeout));
    }

    /// Calls `each` for the received datagrams.
    pub(super) fn receive(&mut self, mut each: impl FnMut(Received<'_>)) {
        for _ in 0..BATCH {
            let mut metas = [RecvMeta::default()];
            if self.socket.receive(&mut self.buffer, &mut metas) == 0 {
                return;
            }
            let ([meta], [buffer]) = (metas, &mut self.buffer);
            let to = SocketAddr::new(meta.dst_ip.unwrap_or(self.address.ip()), self.address.port());
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            for bytes in buffer[..meta.len.min(GRO_BUFFER)].chunks_mut(meta.stride.max(1)) {
                each(Received { bytes, from: meta.addr, to, ecn });
            }
        }
    }

    /// Sends a datagram. If the kernel does not accept it, it counts as lost.
    pub(super) fn send(&self, datagram: &Datagram) {
        let _ = self.socket.send(datagram.to, EcnCodepoint::from_bits(datagram.ecn), &datagram.bytes);
    }
}

/// The next datagram of one connection, held until its sending time.
#[derive(Default)]
pub(super) struct SendQueue(Option<Datagram>);

impl SendQueue {
    /// Sends all datagrams that are due, up to `early` before their time; returns the next one's time.
    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn flush(
        &mut self,
        quic: &mut impl QuicheConnection,
        socket: &DatagramSocket,
        early: Duration,
    ) -> Option<Instant> {
        loop {
            let datagram = self.0.take().or_else(|| quic.poll_transmit())?;
            // The clock is read here: with an earlier reading, a datagram that quiche dates now might wait, 0-RTT until 1-RTT replaces it.
            if datagram.at.saturating_duration_since(Instant::now()) > early {
                let at = datagram.at;
                self.0 = Some(datagram);
                return Some(at);
            }
            socket.send(&datagram);
        }
    }
}
