//! Shaping of one connection's packets: the number of bytes that the shaping socket trims off them,
//! and the times at which they leave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_frames::{Arrival, Dedup, varint};

use crate::by_path::ByPath;
use crate::payload::OutgoingFrames;
use crate::shaping_socket::{TRAILER, TrailerRegistry, TrailerWriter};

/// Minimum payload of a trimmed packet, so that header protection finds its sample
/// (RFC 9001 §5.4.2).
const MIN_PAYLOAD: usize = 4;
/// Minimum number of bytes reserved if datagrams go through the shaping socket.
const MIN_TAIL: usize = TRAILER + MIN_PAYLOAD;
/// Size in bytes of the datagrams in which stacks build loss probes (RFC 9002 §6.2.4), whatever
/// the path's MTU is. A tail must leave room in these datagrams.
const LOSS_PROBE: usize = 1_200;
/// Longest header of a 1-RTT packet (RFC 9000 §17.3.1), plus the tag.
const AROUND: usize = 1 + 20 + 4 + 16;
/// Total size in bytes of the frames that stacks write next to ACK frames without checking that
/// they fit: PATH_CHALLENGE, PATH_RESPONSE, PING, HANDSHAKE_DONE, IMMEDIATE_ACK, ACK_FREQUENCY.
const BESIDE_ACKS: usize = 64;
/// Longest ACK frame of one range with ECN counts: type, path, largest, delay, count, range, ECN
/// counts.
const SHORT_ACK: usize = 2 + 4 + 8 + 8 + 2 + 8 + 24;
/// Minimum length of an ACK frame without further ranges: type, largest, delay, count, first range.
const ACK_FIELDS: usize = 5;
/// Maximum number of packets whose send delay is remembered until they are acknowledged.
const MAX_SEND_DELAYS: usize = 4_096;
/// Maximum lateness of the timer that releases a delayed packet. Packets go through the delay line
/// until it is certain to be empty.
const TIMER_LAG: Duration = Duration::from_millis(10);

/// Way in which a sealed packet leaves: the number of bytes that the shaping socket trims off its
/// datagram, and the time at which the datagram is released (`None` for at once).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) trim: usize,
    pub(crate) release: Option<Time>,
}

/// A packet that is about to be sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) path: u32,
    pub(crate) outgoing: OutgoingFrames,
    /// Number of payload bytes, including the timestamp frame but not the tail.
    pub(crate) len: usize,
    /// Number of bytes in the tail.
    pub(crate) tail: usize,
    /// Size of the untrimmed datagram in bytes.
    pub(crate) datagram: usize,
}

/// Shaping that the controller of one path requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapingRequest {
    /// Path number; `None` if it is not known yet.
    pub(crate) path: Option<u32>,
    /// Largest datagram of the path, in bytes.
    pub(crate) mtu: u16,
    /// Number of bytes by which packets shrink.
    pub(crate) shrink: usize,
    /// Time by which packets are delayed.
    pub(crate) send_delay: Duration,
}

/// State of one path's packets.
#[derive(Default)]
struct Path {
    /// Release time of the last delayed packet. The next packet must not overtake this one.
    last_release: Time,
    /// Times at which ack-eliciting packets were sealed, and the delay of each.
    send_delays: VecDeque<(Time, Duration)>,
    acks: AckRoom,
}

/// Upper bound for the largest ACK frame that the stack may write for a path. Ranges are counted
/// from the ACK frame that was sealed last.
#[derive(Default)]
struct AckRoom {
    /// Filter for duplicates and very late packets, which stacks drop after opening and do not
    /// acknowledge again.
    dedup: Dedup,
    /// Number of bytes that all ranges except the first take, in the ACK frame sealed last and
    /// since then.
    bytes: usize,
    /// Largest packet number received.
    largest: Option<u64>,
    /// Number of consecutive packet numbers received up to the largest.
    run: u64,
}

impl AckRoom {
    fn bound(&self) -> usize {
        SHORT_ACK + self.bytes
    }

    fn on_packet_received(&mut self, packet: u64) {
        if matches!(self.dedup.insert(packet), Arrival::Duplicate | Arrival::TooOld) {
            return;
        }
        let int = |value: u64| varint::len(value).unwrap_or(8);
        match self.largest {
            None => (self.largest, self.run) = (Some(packet), 1),
            Some(largest) if packet > largest => {
                if packet == largest + 1 {
                    self.run += 1;
                } else {
                    // A new range consists of a gap and the range before it.
                    self.bytes += int(packet - largest) + int(self.run);
                    self.run = 1;
                }
                self.largest = Some(packet);
            }
            // At worst, the packet splits a gap in two.
            Some(largest) => self.bytes += int(largest - packet) + 1,
        }
    }
}

/// Shaping state of one connection.
pub(crate) struct Shaping {
    trailer: Arc<TrailerWriter>,
    /// Whether the application sends DATAGRAM frames. The trailer's room is then always reserved,
    /// and packets do not shrink.
    datagrams: bool,
    /// Whether the peer has acknowledged a 1-RTT packet. Packet sizes must not change before that.
    confirmed: bool,
    /// Whether trimming is off until the next request, because a packet was too small for the
    /// frames that the stack had to write.
    suspended: bool,
    requests: Vec<(u64, ShapingRequest)>,
    /// Time since which send delays are remembered. Packets sealed earlier were not delayed.
    delays_since: Option<Time>,
    paths: ByPath<Path>,
    tail: usize,
    /// Time since which packets are trimmed by the current number of bytes, and this number.
    trim: (Time, usize),
}

impl Shaping {
    pub(crate) fn new(registry: &Arc<TrailerRegistry>, datagrams: bool) -> Self {
        Self {
            trailer: Arc::new(TrailerWriter::new(registry)),
            datagrams,
            confirmed: false,
            suspended: false,
            requests: Vec::new(),
            delays_since: None,
            paths: ByPath::default(),
            tail: Self::reserved_always(datagrams),
            trim: (Time::ZERO, 0),
        }
    }

    /// Returns the writer of this connection's trailers.
    pub(crate) const fn trailer(&self) -> &Arc<TrailerWriter> {
        &self.trailer
    }

    /// Returns the number of bytes reserved in every packet, trimmed or not.
    const fn reserved_always(datagrams: bool) -> usize {
        if datagrams { MIN_TAIL } else { 0 }
    }

    /// Returns the number of bytes reserved for the shaping socket at the end of the next packet.
    pub(crate) const fn tail(&self) -> usize {
        self.tail
    }

    /// Returns the time since which packets are trimmed, and the number of bytes by which they are
    /// trimmed.
    pub(crate) const fn trim(&self) -> (Time, usize) {
        self.trim
    }

    /// Sets a controller's request, which replaces its previous one.
    pub(crate) fn request(&mut self, controller_id: u64, request: ShapingRequest, now: Time) {
        let request =
            if self.datagrams { ShapingRequest { shrink: 0, ..request } } else { request };
        match self.requests.iter_mut().find(|(id, _)| *id == controller_id) {
            Some((_, old)) => *old = request,
            None => self.requests.push((controller_id, request)),
        }
        if !request.send_delay.is_zero() {
            self.delays_since.get_or_insert(now);
        }
        self.suspended = false;
    }

    /// Removes a controller. This takes effect with the next [`Shaping::update_tail`].
    pub(crate) fn remove_controller(&mut self, controller_id: u64) {
        self.requests.retain(|(id, _)| *id != controller_id);
    }

    /// Records a 1-RTT packet of the peer. `acknowledges` tells whether the packet has an ACK
    /// frame.
    pub(crate) fn on_packet_received(&mut self, path: u32, packet: u64, acknowledges: bool) {
        self.confirmed |= acknowledges;
        self.paths.at(path).acks.on_packet_received(packet);
    }

    /// Sets the tail of the next packets. Their timestamp frame takes up to `frame` bytes. Call
    /// this function only between packets.
    pub(crate) fn update_tail(&mut self, now: Time, frame: usize) {
        let shrink = self.requests.iter().map(|(_, w)| w.shrink).max().unwrap_or(0);
        let active = self.active(now, shrink);
        let trim = if active { shrink.max(MIN_TAIL).min(self.room(frame)) } else { 0 };
        // If there is too little room for a trailer, nothing is trimmed.
        let trim = if trim < MIN_TAIL { 0 } else { trim };
        self.tail = trim.max(Self::reserved_always(self.datagrams));
        if trim != self.trim.1 {
            self.trim = (now, trim);
        }
    }

    fn active(&self, now: Time, shrink: usize) -> bool {
        self.confirmed
            && !self.suspended
            && (shrink > 0 || self.delaying(now))
            && self.trailer.is_wired()
    }

    fn delaying(&self, now: Time) -> bool {
        self.requests.iter().any(|(_, w)| !w.send_delay.is_zero())
            || self.paths.iter().any(|p| p.busy(now))
    }

    /// Returns the largest tail that leaves room for the frames that stacks write without checking
    /// for room.
    fn room(&self, frame: usize) -> usize {
        let acks: usize = self.paths.iter().map(|p| p.acks.bound()).sum();
        LOSS_PROBE.saturating_sub(AROUND + frame + BESIDE_ACKS + acks)
    }

    /// Decides how this packet leaves.
    pub(crate) fn depart(&mut self, packet: &Packet, now: Time) -> Departure {
        let (id, outgoing) = (packet.path, &packet.outgoing);
        // After a migration, the newest controller serves the path.
        let request = self.requests.iter().rev().map(|(_, w)| *w).find(|w| w.path == Some(id));
        let mtu = request
            .or_else(|| self.requests.iter().map(|(_, w)| *w).min_by_key(|w| w.mtu))
            .map_or(0, |w| w.mtu);
        let trim = self.trim.1 > 0 && packet.tail >= MIN_TAIL && self.trailer.is_wired();
        // The size of a path probe is significant, so the reserved bytes stay, as PADDING.
        let trim = trim && !outgoing.probes_path && packet.datagram <= usize::from(mtu);
        self.suspended |= trim && outgoing.empty;
        let delays_since = self.delays_since.is_some();
        for &(acked, bytes) in outgoing.acks() {
            self.paths.at(acked).acks.bytes = bytes.saturating_sub(ACK_FIELDS);
        }
        let path = self.paths.at(id);
        let send_delay = request.map_or(Duration::ZERO, |w| {
            if trim && outgoing.ack_eliciting { w.send_delay } else { Duration::ZERO }
        });
        // CONNECTION_CLOSE leaves at once, because the delayed packets no longer matter.
        let waits = trim && !outgoing.closes && (!send_delay.is_zero() || path.busy(now));
        let release = waits.then(|| (now + send_delay).max(path.last_release));
        path.last_release = path.last_release.max(release.unwrap_or(Time::ZERO));
        if delays_since && outgoing.ack_eliciting {
            path.record_send_delay(now, release.map_or(Duration::ZERO, |at| at.since(now)));
        }
        let trim = if trim { packet.tail - MIN_PAYLOAD.saturating_sub(packet.len) } else { 0 };
        Departure { trim, release }
    }

    /// Returns how long the shaping socket delayed the first ack-eliciting packet of a path sealed
    /// at `sent` or later. Forgets the packets sealed earlier.
    pub(crate) fn send_delay_of(&mut self, path: u32, sent: Time) -> Duration {
        if self.delays_since.is_none_or(|since| sent < since) {
            return Duration::ZERO;
        }
        let Some(path) = self.paths.known(path) else { return Duration::ZERO };
        while path.send_delays.front().is_some_and(|(sealed, _)| *sealed < sent) {
            path.send_delays.pop_front();
        }
        path.send_delays.front().map_or(Duration::ZERO, |(_, send_delay)| *send_delay)
    }
}

impl Path {
    /// Returns whether the delay line may still hold packets of this path.
    fn busy(&self, now: Time) -> bool {
        self.last_release > Time::ZERO && self.last_release + TIMER_LAG > now
    }

    fn record_send_delay(&mut self, sealed: Time, send_delay: Duration) {
        if self.send_delays.len() == MAX_SEND_DELAYS {
            self.send_delays.pop_front();
        }
        self.send_delays.push_back((sealed, send_delay));
    }
}
