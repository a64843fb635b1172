//! Batches of outgoing packets. Packets of the same size and path go to the socket in one call.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use fathom_netsim::runtime::WaitWritable;

use super::native::Quic;
use super::router::{LARGEST, PacketPath, Router};
use super::{ecn_to_send, stack};

/// Maximum number of packets in one batch.
const MAX_GSO_SEGMENTS: usize = 16;
/// Number of batches that a connection sends before other tasks get their turn.
const ROUNDS: usize = 8;
/// Time by which packets may leave early, because tokio's timers are not more precise.
const TIMER_GRANULARITY: Duration = Duration::from_millis(1);
/// Error code of a connection that cannot continue (RFC 9000 §20.1).
const INTERNAL_ERROR: u64 = 1;

/// Packets of one connection that are being handed to the socket.
pub(super) struct SendBatch {
    /// Buffer of the batch. It is empty unless the batch holds packets.
    buffer: Vec<u8>,
    filled: usize,
    count: usize,
    /// Size in bytes of the first packet, and of all other packets except the last one.
    segment: usize,
    path: Option<PacketPath>,
    /// Whether no further packet can join the batch.
    full: bool,
    /// Size and path of a packet that was written after the batch but cannot join it.
    behind: Option<(usize, PacketPath)>,
    /// Departure time of the last written packet; `None` if it need not wait.
    held: Option<Instant>,
    most: usize,
    granularity: Duration,
    writable: Box<dyn WaitWritable>,
}

impl SendBatch {
    pub(super) fn new(router: &Router) -> Self {
        Self {
            buffer: Vec::new(),
            filled: 0,
            count: 0,
            segment: 0,
            path: None,
            full: false,
            behind: None,
            held: None,
            most: router.socket.max_transmit_segments().clamp(1, MAX_GSO_SEGMENTS),
            granularity: if router.clock.simulated { Duration::ZERO } else { TIMER_GRANULARITY },
            writable: Arc::clone(&router.socket).wait_writable(),
        }
    }

    /// Returns whether a packet waits for its departure time.
    pub(super) const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Sends the packets that quiche has at `now`. Returns `Ready` with the time until which the
    /// next packet waits, or `Pending` while the socket has no room.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        quic: &mut Quic,
        router: &Router,
        now: Instant,
    ) -> Poll<Option<Instant>> {
        let mut rounds = 0;
        loop {
            if self.full || self.behind.is_some() {
                ready!(self.poll_flush(cx, router));
                rounds += 1;
            }
            if let Some(at) = self.held {
                if at > now + self.granularity {
                    return Poll::Ready(Some(at));
                }
                self.held = None;
                ready!(self.poll_flush(cx, router));
            }
            if rounds >= ROUNDS {
                return Poll::Ready(Some(now));
            }
            if self.buffer.is_empty() {
                // Leave room for one more packet, although this packet may not be able to join the
                // batch.
                self.buffer = router.buffer((self.most + 1) * LARGEST);
            }
            match quic.send(&mut self.buffer[self.filled..self.filled + LARGEST]) {
                Ok((len, info)) => {
                    let path = PacketPath { from: info.from, to: info.to, ecn: ecn_to_send(quic) };
                    // Without pacing, `info.at` is the time of sending. A long burst therefore also
                    // pauses, so that packets that arrived in the meantime are read.
                    let waits = info.at > now + self.granularity;
                    self.held = waits.then_some(info.at);
                    self.add(len, path, waits);
                }
                Err(stack::Error::Done) => break,
                // The connection cannot continue.
                Err(_) => {
                    if quic.close(false, INTERNAL_ERROR, b"").is_err() {
                        break;
                    }
                }
            }
        }
        ready!(self.poll_flush(cx, router));
        router.recycle(std::mem::take(&mut self.buffer));
        Poll::Ready(None)
    }

    /// Adds the packet that was written after the batch.
    fn add(&mut self, len: usize, path: PacketPath, waits: bool) {
        let goes_with = self.path == Some(path) && len <= self.segment && !waits;
        if self.count > 0 && !goes_with {
            self.behind = Some((len, path));
            return;
        }
        if self.count == 0 {
            (self.segment, self.path) = (len, Some(path));
        }
        self.filled += len;
        self.count += 1;
        self.full = !waits && (len < self.segment || self.count == self.most);
    }

    /// Hands the batch to the socket. If the kernel refuses it for a reason other than lack of
    /// room, its packets are lost, as packets can be lost later on the path.
    fn poll_flush(&mut self, cx: &mut Context<'_>, router: &Router) -> Poll<()> {
        if let Some(path) = self.path {
            let transmit = router.transmit(path, self.segment, &self.buffer[..self.filled]);
            while let Err(e) = router.socket.try_send(&transmit)
                && e.kind() == io::ErrorKind::WouldBlock
            {
                if ready!(self.writable.poll_writable(cx)).is_err() {
                    break;
                }
            }
        }
        let begin = self.filled;
        (self.filled, self.count, self.path, self.full) = (0, 0, None, false);
        if let Some((len, path)) = self.behind.take() {
            self.buffer.copy_within(begin..begin + len, 0);
            (self.filled, self.count, self.segment, self.path) = (len, 1, len, Some(path));
        }
        Poll::Ready(())
    }
}
