//! What a shaping socket is to do with one connection's packets: by how much to trim them, when to let them go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_frames::{Arrival, Dedup, varint};

use crate::by_path::ByPath;
use crate::payload::OutgoingFrames;
use crate::shaping_socket::{TRAILER, TrailerRegistry, TrailerWriter};

/// Payload a trimmed packet keeps at least, so that header protection finds its sample (RFC 9001 §5.4.2).
const MIN_PAYLOAD: usize = 4;
/// Bytes reserved at least when datagrams go through the shaping socket.
const MIN_TAIL: usize = TRAILER + MIN_PAYLOAD;
/// Datagrams in which stacks build loss probes (RFC 9002 §6.2.4), whatever the path carries: a tail must leave room in these.
const LOSS_PROBE: usize = 1_200;
/// Longest header of a 1-RTT packet (RFC 9000 §17.3.1) and the tag.
const AROUND: usize = 1 + 20 + 4 + 16;
/// What stacks write beside ACK frames without looking whether it fits: PATH_CHALLENGE, PATH_RESPONSE, PING, HANDSHAKE_DONE,
/// IMMEDIATE_ACK, ACK_FREQUENCY.
const BESIDE_ACKS: usize = 64;
/// An ACK frame of one range with ECN counts, every field in the 8 bytes it may grow to: type, path, largest, delay, count, range, counts.
const SHORT_ACK: usize = 2 + 4 + 8 + 8 + 2 + 8 + 24;
/// What an ACK frame takes at least beside its ranges but the first: type, largest, delay, count, range.
const ACK_FIELDS: usize = 5;
/// Held packets whose send delay is remembered until they are acknowledged.
const MAX_SEND_DELAYS: usize = 4_096;
/// Packets go through the delay line until it is empty for sure: how late a timer may let the last one go.
const TIMER_LAG: Duration = Duration::from_millis(10);

/// How a sealed packet leaves: what the shaping socket trims off its datagram, and when it lets it go (`None`: at once).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) trim: usize,
    pub(crate) release: Option<Time>,
}

/// A packet about to be sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) path: u32,
    pub(crate) outgoing: OutgoingFrames,
    /// Payload bytes, our frame included, the tail not.
    pub(crate) len: usize,
    /// Bytes of its tail.
    pub(crate) tail: usize,
    /// Bytes of its datagram if it is not trimmed.
    pub(crate) datagram: usize,
}

/// What the controller of one path requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapingRequest {
    /// `None`: not known yet.
    pub(crate) path: Option<u32>,
    /// Largest datagram of the path, in bytes.
    pub(crate) mtu: u16,
    /// Bytes by which packets shrink.
    pub(crate) shrink: usize,
    /// How long they are kept back.
    pub(crate) send_delay: Duration,
}

/// One path's packets.
#[derive(Default)]
struct Path {
    /// When the last one kept back leaves: the next may not overtake it.
    last_release: Time,
    /// When ack-eliciting packets were sealed, and how long each was kept back.
    send_delays: VecDeque<(Time, Duration)>,
    acks: AckRoom,
}

/// The largest ACK frame that the stack may write for a path. Each range is counted from the ACK frame sealed last on.
#[derive(Default)]
struct AckRoom {
    /// Stacks drop what comes twice or very late after it was opened: it is not acknowledged again.
    dedup: Dedup,
    /// Ranges but the first, in the ACK frame sealed last and since.
    bytes: usize,
    /// Largest packet number received.
    largest: Option<u64>,
    /// Packets received in order up to that one.
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
                    // A gap, and the range before it.
                    self.bytes += int(packet - largest) + int(self.run);
                    self.run = 1;
                }
                self.largest = Some(packet);
            }
            // At worst it splits a gap in two.
            Some(largest) => self.bytes += int(largest - packet) + 1,
        }
    }
}

/// What the shaping socket is to do with a connection's packets.
pub(crate) struct Shaping {
    trailer: Arc<TrailerWriter>,
    /// The room for the trailer is reserved all the time, and packets do not shrink: the application sends DATAGRAM frames.
    datagrams: bool,
    /// The peer has acknowledged a 1-RTT packet: sizes may change from here on.
    confirmed: bool,
    /// A packet was too small for the frames that the stack had to write: none is trimmed until the next request.
    suspended: bool,
    requests: Vec<(u64, ShapingRequest)>,
    /// Since when send delays are remembered; packets sealed before were not held.
    delays_since: Option<Time>,
    paths: ByPath<Path>,
    tail: usize,
    /// Since when packets are trimmed by so much.
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

    /// Writes this connection's trailers.
    pub(crate) const fn trailer(&self) -> &Arc<TrailerWriter> {
        &self.trailer
    }

    /// Bytes reserved in every packet, trimmed or not.
    const fn reserved_always(datagrams: bool) -> usize {
        if datagrams { MIN_TAIL } else { 0 }
    }

    /// Bytes reserved for the shaping socket at the end of the next packet.
    pub(crate) const fn tail(&self) -> usize {
        self.tail
    }

    /// By how many bytes packets are trimmed, and since when.
    pub(crate) const fn trim(&self) -> (Time, usize) {
        self.trim
    }

    /// A controller's request; the last one counts.
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

    /// A controller is gone. Takes effect with the next [`Shaping::update_tail`].
    pub(crate) fn remove_controller(&mut self, controller_id: u64) {
        self.requests.retain(|(id, _)| *id != controller_id);
    }

    /// A 1-RTT packet of the peer arrived; `acknowledges`: with an ACK frame.
    pub(crate) fn on_packet_received(&mut self, path: u32, packet: u64, acknowledges: bool) {
        self.confirmed |= acknowledges;
        self.paths.at(path).acks.on_packet_received(packet);
    }

    /// Sets the tail of the packets to come, whose own frame takes up to `frame` bytes. To be called between packets only.
    pub(crate) fn update_tail(&mut self, now: Time, frame: usize) {
        let shrink = self.requests.iter().map(|(_, w)| w.shrink).max().unwrap_or(0);
        let active = self.active(now, shrink);
        let trim = if active { shrink.max(MIN_TAIL).min(self.room(frame)) } else { 0 };
        // Too little room for a trailer: nothing is trimmed.
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

    /// Largest tail that leaves room for what the stack writes without a look at the room.
    fn room(&self, frame: usize) -> usize {
        let acks: usize = self.paths.iter().map(|p| p.acks.bound()).sum();
        LOSS_PROBE.saturating_sub(AROUND + frame + BESIDE_ACKS + acks)
    }

    /// How this packet leaves.
    pub(crate) fn depart(&mut self, packet: &Packet, now: Time) -> Departure {
        let (id, outgoing) = (packet.path, &packet.outgoing);
        // After a migration the newest controller is the path's.
        let request = self.requests.iter().rev().map(|(_, w)| *w).find(|w| w.path == Some(id));
        let mtu = request
            .or_else(|| self.requests.iter().map(|(_, w)| *w).min_by_key(|w| w.mtu))
            .map_or(0, |w| w.mtu);
        let trim = self.trim.1 > 0 && packet.tail >= MIN_TAIL && self.trailer.is_wired();
        // In a path probe the size is the message: the reserved bytes stay, as PADDING.
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
        // CONNECTION_CLOSE goes at once; nobody waits for what is held then.
        let waits = trim && !outgoing.closes && (!send_delay.is_zero() || path.busy(now));
        let release = waits.then(|| (now + send_delay).max(path.last_release));
        path.last_release = path.last_release.max(release.unwrap_or(Time::ZERO));
        if delays_since && outgoing.ack_eliciting {
            path.record_send_delay(now, release.map_or(Duration::ZERO, |at| at.since(now)));
        }
        let trim = if trim { packet.tail - MIN_PAYLOAD.saturating_sub(packet.len) } else { 0 };
        Departure { trim, release }
    }

    /// How long the shaping socket kept back the first ack-eliciting packet of a path sealed at `sent` or later; what
    /// was sealed before is forgotten.
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
    /// The delay line may still hold something of it.
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
