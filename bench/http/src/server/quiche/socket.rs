//! The socket; packets that leave together.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::quic::Quic;
use crate::udp::{self, SocketBuffers};

/// The largest packet received, and room for the largest sent.
pub(super) const LARGEST: usize = 1500;
/// SocketBuffers filled at once, each with datagrams of one client.
const BATCH: usize = 8;
/// Longest series of datagrams that the kernel hands over as one.
const MAX_GRO_BYTES: usize = 64 << 10;
/// Packets that leave at once, at most.
const MAX_GSO_SEGMENTS: usize = 16;
/// Packets leave so much before their time: tokio's timers are no finer.
const TIMER_GRANULARITY: Duration = Duration::from_millis(1);

/// Where a packet came from and went to, and its ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketPath {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
}

/// A socket for all connections, with ECN and segmentation where the system has them.
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
    buffers: SocketBuffers,
}

impl Socket {
    pub(super) fn bind(listen: SocketAddr) -> io::Result<Self> {
        let (io, buffers) = udp::bind(listen)?;
        io.set_nonblocking(true)?;
        let state = UdpSocketState::new((&io).into())?;
        let address = io.local_addr()?;
        Ok(Self { io: UdpSocket::from_std(io)?, state, address, buffers })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) const fn buffers(&self) -> SocketBuffers {
        self.buffers
    }

    /// Waits for packets.
    pub(super) async fn receive(&self, received: &mut RecvBatch) {
        received.count = 0;
        let RecvBatch { buffers, metas, count, .. } = received;
        let got = self.io.async_io(Interest::READABLE, || {
            let mut buffers = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..])));
            self.state.recv((&self.io).into(), &mut slices, metas)
        });
        // An error is the kernel's message about an earlier datagram.
        *count = got.await.unwrap_or(0);
    }

    /// Sends packets of `segment` bytes each but for the last. What the kernel does not take is lost, as it could be further on.
    async fn send(&self, path: PacketPath, segment: usize, contents: &[u8]) {
        let transmit = self.transmit(path, segment, contents);
        let _ = self.io.async_io(Interest::WRITABLE, || self.state.send((&self.io).into(), &transmit)).await;
    }

    /// Sends one packet, or loses it where the kernel has no room.
    pub(super) fn try_send(&self, path: PacketPath, packet: &[u8]) {
        let transmit = self.transmit(path, packet.len(), packet);
        let _ = self.io.try_io(Interest::WRITABLE, || self.state.send((&self.io).into(), &transmit));
    }

    fn transmit<'a>(&self, path: PacketPath, segment: usize, contents: &'a [u8]) -> Transmit<'a> {
        // With several addresses, answers come from the one that was asked.
        let src_ip = self.address.ip().is_unspecified().then_some(path.from.ip()).filter(|ip| !ip.is_unspecified());
        let segment_size = (contents.len() > segment).then_some(segment);
        Transmit { destination: path.to, ecn: EcnCodepoint::from_bits(path.ecn), contents, segment_size, src_ip }
    }
}

/// Packets that came.
pub(super) struct RecvBatch {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BATCH],
    count: usize,
    here: SocketAddr,
}

impl RecvBatch {
    pub(super) fn new(socket: &Socket) -> Self {
        let metas = [RecvMeta::default(); BATCH];
        Self { buffers: vec![vec![0; MAX_GRO_BYTES]; BATCH], metas, count: 0, here: socket.address }
    }

    /// Hands over each.
    pub(super) fn each(&mut self, mut take: impl FnMut(&mut [u8], PacketPath)) {
        for (buffer, meta) in self.buffers.iter_mut().zip(&self.metas).take(self.count) {
            let ip: IpAddr = meta.dst_ip.unwrap_or(self.here.ip());
            let to = (ip, self.here.port()).into();
            let path = PacketPath { from: meta.addr, to, ecn: meta.ecn.map_or(0, |ecn| ecn as u8) };
            let series = &mut buffer[..meta.len.min(MAX_GRO_BYTES)];
            for packet in series.chunks_mut(meta.stride.max(1)) {
                take(packet, path);
            }
        }
    }
}

/// Packets of one connection on their way to the socket: those of one size and way leave in one call.
pub(super) struct SendBatch {
    /// Only there while something is in it: most connections are idle most of the time.
    buffer: Vec<u8>,
    filled: usize,
    count: usize,
    /// Size of the first: of all but the last.
    segment: usize,
    path: Option<PacketPath>,
    most: usize,
    /// What is there is one packet, and waits for this time.
    held: Option<Instant>,
}

impl SendBatch {
    pub(super) fn new(socket: &Socket) -> Self {
        let most = socket.state.max_gso_segments().clamp(1, MAX_GSO_SEGMENTS);
        Self { buffer: Vec::new(), filled: 0, count: 0, segment: 0, path: None, most, held: None }
    }

    /// Sends what quiche has to send at `now`. Until when the next packet waits.
    pub(super) async fn send(&mut self, quic: &mut Quic, socket: &Socket, now: Instant) -> Option<Instant> {
        if let Some(at) = self.held {
            if at > now + TIMER_GRANULARITY {
                return self.held;
            }
            self.held = None;
            self.flush(socket).await;
        }
        // One more packet may turn out not to go with those before it.
        self.buffer.resize((self.most + 1) * LARGEST, 0);
        loop {
            match quic.send(&mut self.buffer[self.filled..self.filled + LARGEST]) {
                Ok((len, info)) => {
                    let path = PacketPath { from: info.from, to: info.to, ecn: quic.ecn_to_send() };
                    // Without a pace it is the time of sending: a long burst pauses, too, and what came meanwhile is read.
                    let waits = info.at > now + TIMER_GRANULARITY;
                    self.add(len, path, waits, socket).await;
                    if waits {
                        self.held = Some(info.at);
                        return self.held;
                    }
                }
                Err(quiche::Error::Done) => break,
                Err(e) => {
                    // It cannot go on.
                    tracing::debug!("sending: {e}");
                    if quic.close(false, INTERNAL_ERROR, b"").is_err() {
                        break;
                    }
                }
            }
        }
        self.flush(socket).await;
        self.buffer = Vec::new();
        None
    }

    /// Takes the packet that was written behind those before it.
    async fn add(&mut self, len: usize, path: PacketPath, waits: bool, socket: &Socket) {
        let goes_with = self.path == Some(path) && len <= self.segment && !waits;
        if self.count > 0 && !goes_with {
            let new = self.filled..self.filled + len;
            self.flush(socket).await;
            self.buffer.copy_within(new, 0);
        }
        if self.count == 0 {
            (self.segment, self.path) = (len, Some(path));
        }
        self.filled += len;
        self.count += 1;
        if !waits && (len < self.segment || self.count == self.most) {
            self.flush(socket).await;
        }
    }

    async fn flush(&mut self, socket: &Socket) {
        if let Some(path) = self.path.take() {
            socket.send(path, self.segment, &self.buffer[..self.filled]).await;
        }
        (self.filled, self.count) = (0, 0);
    }
}

/// The code of a connection that cannot go on (RFC 9000 §20.1).
const INTERNAL_ERROR: u64 = 1;

/// A packet on its way to its connection.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) path: PacketPath,
}
