//! What an outlet is to do with one connection's packets: by how much to cut them, when to let them go.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_frames::{Arrival, Seen, varint};

use crate::by_path::ByPath;
use crate::payload::OutgoingFrames;
use crate::shaping_socket::{TRAILER, TrailerRegistry, TrailerWriter};

/// Payload a cut packet keeps at least, so that header protection finds its sample (RFC 9001 §5.4.2).
const MIN_PAYLOAD: usize = 4;
/// Bytes reserved at least when datagrams go through the outlet.
const MIN_TAIL: usize = TRAILER + MIN_PAYLOAD;
/// Datagrams in which stacks build loss probes, whatever the path carries: a tail must leave room in these.
const PROBE: usize = 1_200;
/// Longest header of a 1-RTT packet (RFC 9000 §17.3.1) and the tag.
const AROUND: usize = 1 + 20 + 4 + 16;
/// What stacks write beside ACK frames without looking whether it fits: PATH_CHALLENGE, PATH_RESPONSE, PING, HANDSHAKE_DONE,
/// IMMEDIATE_ACK, ACK_FREQUENCY.
const BESIDE_ACKS: usize = 64;
/// An ACK frame of one range with ECN counts, every field in the 8 bytes it may grow to: type, path, largest, delay, count, range, counts.
const SHORT_ACK: usize = 2 + 4 + 8 + 8 + 2 + 8 + 24;
/// What an ACK frame takes at least beside its ranges but the first: type, largest, delay, count, range.
const ACK_FIELDS: usize = 5;
/// Held packets whose hold is remembered until they are acknowledged.
const MAX_HOLDS: usize = 4_096;
/// Packets go through the delay line until it is empty for sure: how late a timer may let the last one go.
const TIMER_LAG: Duration = Duration::from_millis(10);

/// How a sealed packet leaves: what the outlet cuts off its datagram, and when it lets it go (`None`: at once).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) cut: usize,
    pub(crate) release: Option<Time>,
}

/// A packet about to be sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) path: u32,
    pub(crate) leaving: OutgoingFrames,
    /// Payload bytes, our frame included, the tail not.
    pub(crate) len: usize,
    /// Bytes of its tail.
    pub(crate) tail: usize,
    /// Bytes of its datagram if it is not cut.
    pub(crate) datagram: usize,
}

/// What the controller of one path asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapingRequest {
    /// `None`: not known yet.
    pub(crate) path: Option<u32>,
    /// Largest datagram of the path, in bytes.
    pub(crate) mtu: u16,
    /// Bytes by which packets shrink.
    pub(crate) shrink: usize,
    /// How long they are kept back.
    pub(crate) hold: Duration,
}

/// One path's packets.
#[derive(Default)]
struct Path {
    /// When the last one kept back leaves: the next may not overtake it.
    last_release: Time,
    /// When packets that asked for an acknowledgement were sealed, and how long each was kept back.
    holds: VecDeque<(Time, Duration)>,
    acks: AckRoom,
}

/// The largest ACK frame that the stack may write for a path. Each range is counted from the ACK frame sealed last on.
#[derive(Default)]
struct AckRoom {
    /// Stacks drop what comes twice or very late after it was opened: no acknowledgement tells of it again.
    seen: Seen,
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

    fn arrived(&mut self, packet: u64) {
        if matches!(self.seen.arrive(packet), Arrival::Duplicate | Arrival::TooOld) {
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

/// What the outlet is to do with a connection's packets.
pub(crate) struct Shaping {
    pub(crate) lane: TrailerWriter,
    /// The room for the trailer is reserved all the time, and packets do not shrink: the application sends DATAGRAM frames.
    datagrams: bool,
    /// The peer has acknowledged a 1-RTT packet: sizes may change from here on.
    confirmed: bool,
    /// A packet was too small for what the stack had to say: none is cut until the controller speaks again.
    let_go: bool,
    wishes: Vec<(u64, ShapingRequest)>,
    /// Since when holds are remembered; packets sealed before were not held.
    remembers: Option<Time>,
    paths: ByPath<Path>,
    tail: usize,
    /// Since when packets are cut by so much.
    cut: (Time, usize),
}

impl Shaping {
    pub(crate) fn new(gate: &Arc<TrailerRegistry>, datagrams: bool) -> Self {
        Self {
            lane: TrailerWriter::new(gate),
            datagrams,
            confirmed: false,
            let_go: false,
            wishes: Vec::new(),
            remembers: None,
            paths: ByPath::default(),
            tail: Self::always(datagrams),
            cut: (Time::ZERO, 0),
        }
    }

    /// Bytes reserved in every packet, cut or not.
    pub(crate) const fn always(datagrams: bool) -> usize {
        if datagrams { MIN_TAIL } else { 0 }
    }

    /// Bytes reserved for the outlet at the end of the next packet.
    pub(crate) const fn tail(&self) -> usize {
        self.tail
    }

    /// By how many bytes packets are cut, and since when.
    pub(crate) const fn cut(&self) -> (Time, usize) {
        self.cut
    }

    /// The peer has acknowledged a 1-RTT packet.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// A controller's wish; the last one counts.
    pub(crate) fn wish(&mut self, flow: u64, wish: ShapingRequest, now: Time) {
        let wish = if self.datagrams { ShapingRequest { shrink: 0, ..wish } } else { wish };
        match self.wishes.iter_mut().find(|(id, _)| *id == flow) {
            Some((_, old)) => *old = wish,
            None => self.wishes.push((flow, wish)),
        }
        if !wish.hold.is_zero() {
            self.remembers.get_or_insert(now);
        }
        self.let_go = false;
    }

    /// A controller is gone. Takes effect with the next [`Shaping::settle`].
    pub(crate) fn forget(&mut self, flow: u64) {
        self.wishes.retain(|(id, _)| *id != flow);
    }

    /// A packet of the peer arrived.
    pub(crate) fn arrived(&mut self, path: u32, packet: u64) {
        self.paths.at(path).acks.arrived(packet);
    }

    /// Sets the tail of the packets to come, whose own frame takes up to `frame` bytes. To be called between packets only.
    pub(crate) fn settle(&mut self, now: Time, frame: usize) {
        let shrink = self.wishes.iter().map(|(_, w)| w.shrink).max().unwrap_or(0);
        let active = self.active(now, shrink);
        let cut = if active { shrink.max(MIN_TAIL).min(self.room(frame)) } else { 0 };
        // Too little room for a trailer: nothing is cut.
        let cut = if cut < MIN_TAIL { 0 } else { cut };
        self.tail = cut.max(Self::always(self.datagrams));
        if cut != self.cut.1 {
            self.cut = (now, cut);
        }
    }

    fn active(&self, now: Time, shrink: usize) -> bool {
        self.confirmed && !self.let_go && (shrink > 0 || self.holding(now)) && self.lane.works()
    }

    fn holding(&self, now: Time) -> bool {
        self.wishes.iter().any(|(_, w)| !w.hold.is_zero()) || self.paths.iter().any(|p| p.busy(now))
    }

    /// Largest tail that leaves the stack room for what it writes unasked.
    fn room(&self, frame: usize) -> usize {
        let acks: usize = self.paths.iter().map(|p| p.acks.bound()).sum();
        PROBE.saturating_sub(AROUND + frame + BESIDE_ACKS + acks)
    }

    /// How this packet leaves.
    pub(crate) fn exit(&mut self, packet: &Packet, now: Time) -> Departure {
        let (id, leaving) = (packet.path, &packet.leaving);
        // After a migration the newest controller is the path's.
        let wish = self.wishes.iter().rev().map(|(_, w)| *w).find(|w| w.path == Some(id));
        let mtu = wish.or_else(|| self.wishes.iter().map(|(_, w)| *w).min_by_key(|w| w.mtu)).map_or(0, |w| w.mtu);
        let cuts = self.cut.1 > 0 && packet.tail >= MIN_TAIL && self.lane.works();
        // In a path probe the size is the message: the reserved bytes stay, as PADDING.
        let cuts = cuts && !leaving.probes_path && packet.datagram <= usize::from(mtu);
        self.let_go |= cuts && leaving.empty;
        let remembers = self.remembers.is_some();
        for &(acked, bytes) in leaving.acks() {
            self.paths.at(acked).acks.bytes = bytes.saturating_sub(ACK_FIELDS);
        }
        let path = self.paths.at(id);
        let hold = wish.map_or(Duration::ZERO, |w| if cuts && leaving.ack_eliciting { w.hold } else { Duration::ZERO });
        // A closing connection tells its peer at once; nobody waits for what is held then.
        let waits = cuts && !leaving.closes && (!hold.is_zero() || path.busy(now));
        let release = waits.then(|| (now + hold).max(path.last_release));
        path.last_release = path.last_release.max(release.unwrap_or(Time::ZERO));
        if remembers && leaving.ack_eliciting {
            path.remember(now, release.map_or(Duration::ZERO, |at| at.since(now)));
        }
        let cut = if cuts { packet.tail - MIN_PAYLOAD.saturating_sub(packet.len) } else { 0 };
        Departure { cut, release }
    }

    /// How long the outlet kept back the first packet of a path sealed at `sent` or later that asked for an acknowledgement; what
    /// was sealed before is forgotten.
    pub(crate) fn hold_of(&mut self, path: u32, sent: Time) -> Duration {
        if self.remembers.is_none_or(|since| sent < since) {
            return Duration::ZERO;
        }
        let Some(path) = self.paths.known(path) else { return Duration::ZERO };
        while path.holds.front().is_some_and(|(sealed, _)| *sealed < sent) {
            path.holds.pop_front();
        }
        path.holds.front().map_or(Duration::ZERO, |(_, hold)| *hold)
    }
}

impl Path {
    /// The delay line may still hold something of it.
    fn busy(&self, now: Time) -> bool {
        self.last_release > Time::ZERO && self.last_release + TIMER_LAG > now
    }

    fn remember(&mut self, sealed: Time, hold: Duration) {
        if self.holds.len() == MAX_HOLDS {
            self.holds.pop_front();
        }
        self.holds.push_back((sealed, hold));
    }
}
