//! The socket, and datagrams that wait for their time.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fathom_bench::udp::Udp;
use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::seam::{Letter, Quic};

/// The longest sleep: how soon a request to stop is seen.
const LOOK_UP: Duration = Duration::from_millis(20);
/// Datagrams leave so much before their time.
pub(super) const EARLY: Duration = Duration::from_millis(1);
/// Longest series of datagrams that the kernel hands over as one.
const SERIES: usize = 64 << 10;
/// Series read before anything is sent.
const BATCH: usize = 32;

/// A datagram that came.
pub(super) struct Came<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
}

/// A socket.
pub(super) struct Mail {
    socket: Udp,
    address: SocketAddr,
    buffer: [Vec<u8>; 1],
}

impl Mail {
    pub(super) fn open(at: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(at)?;
        let address = io.local_addr()?;
        Ok(Self { socket: Udp::new(io)?, address, buffer: [vec![0; SERIES]] })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sleeps until something comes, or until `due`.
    pub(super) fn wait(&self, now: Instant, due: Option<Instant>) {
        let sleep = due.map_or(LOOK_UP, |due| due.saturating_duration_since(now).min(LOOK_UP));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(sleep.subsec_nanos()) };
        // Interrupted: the same as if something had come.
        let _ = poll(&mut [PollFd::new(self.socket.io(), PollFlags::IN)], Some(&timeout));
    }

    /// Hands over what came.
    pub(super) fn take(&mut self, mut each: impl FnMut(Came<'_>)) {
        for _ in 0..BATCH {
            let mut metas = [RecvMeta::default()];
            if self.socket.receive(&mut self.buffer, &mut metas) == 0 {
                return;
            }
            let ([meta], [buffer]) = (metas, &mut self.buffer);
            let to = SocketAddr::new(meta.dst_ip.unwrap_or(self.address.ip()), self.address.port());
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            for bytes in buffer[..meta.len.min(SERIES)].chunks_mut(meta.stride.max(1)) {
                each(Came { bytes, from: meta.addr, to, ecn });
            }
        }
    }

    /// Sends one. What the kernel does not take is lost, as it could be further on.
    pub(super) fn send(&self, letter: &Letter) {
        let _ = self.socket.send(letter.to, EcnCodepoint::from_bits(letter.ecn), &letter.bytes);
    }
}

/// Datagrams of one connection on their way to the socket.
#[derive(Default)]
pub(super) struct Outbox(Option<Letter>);

impl Outbox {
    /// Sends what there is to send, up to so much `early`; until when the next waits.
    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn flush(&mut self, quic: &mut impl Quic, mail: &Mail, early: Duration) -> Option<Instant> {
        loop {
            let letter = self.0.take().or_else(|| quic.give())?;
            // By a clock read any earlier, what quiche dates now might wait; 0-RTT for so long that 1-RTT takes its place.
            if letter.at.saturating_duration_since(Instant::now()) > early {
                let at = letter.at;
                self.0 = Some(letter);
                return Some(at);
            }
            mail.send(&letter);
        }
    }
}
