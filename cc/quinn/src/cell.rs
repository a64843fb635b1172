//! What the packet keys, the session and the controller of one connection share.
//!
//! The keys write and read frames, the session negotiates them, the controller takes the delays. quinn calls keys and controller
//! under the connection's own lock, one after the other: a packet is opened, then its ACK frame is processed. So what a packet said
//! is here when the controller asks, and the next packet replaces it.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fathom_cc::{Controller, EcnDelta, OneWayDelay, Recipe, Snapshot, Time};
use fathom_frames::parameter::{Negotiated, Offer, ParameterError, Placement, ack_delay_exponent};
use fathom_frames::{
    Ack, Arrival, Content, Counters, Echo, EcnCounts, Estimator, Frames, Sample, Seen, SendTimes, SyncTimestamp, remove,
};
use quinn_proto::{TransportError, TransportErrorCode};

use crate::clock::{Clock, SystemClock};
use crate::{Extension, Plug};

/// Frames of ours taken out of one packet; a packet with more goes to the stack as it is, which closes the connection.
const MAX_FRAMES: usize = 4;

/// Hears what a connection's controller does.
pub trait Observer: Send + Sync {
    /// After each batch of acknowledgements and each setback.
    fn observe(&self, now: Time, snapshot: &Snapshot, one_way: Option<OneWayDelay>);
}

/// What a [`Probe`] shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The peer's packets tell us the one-way delay of ours.
    pub negotiated: bool,
    /// Stamps written.
    pub stamps_sent: u64,
    /// Stamps read.
    pub stamps_received: u64,
    /// What became of the delay samples.
    pub samples: Counters,
    /// The newest forward one-way delay.
    pub one_way: Option<OneWayDelay>,
    /// The controller's state after its last event.
    pub controller: Option<Snapshot>,
}

/// A view into a live connection.
#[derive(Clone, Debug)]
pub struct Probe(Arc<Cell>);

impl Probe {
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self(cell)
    }

    /// How the connection stands now.
    pub fn report(&self) -> Report {
        let state = self.0.state();
        Report { samples: state.estimator.counters(), ..state.report }
    }
}

/// Shared state of one connection.
pub(crate) struct Cell {
    clock: Arc<dyn Clock>,
    epoch: Instant,
    extension: Extension,
    recipe: Option<Arc<dyn Recipe>>,
    observer: Option<Arc<dyn Observer>>,
    /// Bytes that the next 1-RTT packet holds free for a frame. Changes only when a packet was sealed or opened, so quinn sees one
    /// value while it builds a packet.
    reserved: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    negotiated: Negotiated,
    exponent: u8,
    sent: SendTimes,
    seen: Seen,
    estimator: Estimator,
    /// The newest stamped packet of the peer, for echoes.
    heard: Option<Echo>,
    ecn: EcnCounts,
    /// What the last opened packet said, and the largest packet its ACK frame names.
    pending: Option<Pending>,
    report: Report,
}

#[derive(Clone, Copy)]
struct Pending {
    largest: u64,
    one_way: Option<OneWayDelay>,
    ecn: Option<EcnDelta>,
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell")
    }
}

impl Cell {
    pub(crate) fn new(plug: &Plug, observer: Option<Arc<dyn Observer>>) -> Self {
        Self {
            epoch: plug.clock.now(),
            clock: Arc::clone(&plug.clock),
            extension: plug.extension,
            recipe: Some(Arc::clone(&plug.recipe)),
            observer,
            reserved: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// A cell that offers nothing, for connections that were not wired.
    pub(crate) fn inert() -> Self {
        let clock = SystemClock;
        Self {
            epoch: clock.now(),
            clock: Arc::new(clock),
            extension: Extension { offer: None, datagrams: false },
            recipe: None,
            observer: None,
            reserved: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// quinn's instant as the controllers' time.
    pub(crate) fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.epoch).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// What this host's own counter shows now: the time on the wire.
    fn host_time(&self) -> Time {
        Time::from_nanos(self.clock.stamp(self.now().as_nanos()))
    }

    // ---- negotiation ----

    /// Adds our transport parameter to the encoded ones.
    pub(crate) fn append_parameter(&self, parameters: &mut Vec<u8>) {
        if let Some(offer) = self.extension.offer {
            offer.append(parameters);
        }
    }

    /// Reads the peer's raw transport parameters. quinn asks more than once; the answer stays the same.
    pub(crate) fn negotiate(&self, peers: &[u8]) -> Result<(), TransportError> {
        let wrong = |e: ParameterError| TransportError {
            code: TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            frame: None,
            reason: e.to_string(),
        };
        let negotiated = match self.extension.offer {
            Some(ours) => Negotiated::between(Some(ours), Offer::find(peers).map_err(wrong)?),
            None => Negotiated::default(),
        };
        let hears = negotiated.reads || negotiated.reads_echoes;
        if let Some(recipe) = self.recipe.as_ref().filter(|_| !hears) {
            if recipe.needs().one_way {
                return Err(TransportError {
                    code: TransportErrorCode::CONNECTION_REFUSED,
                    frame: None,
                    reason: format!(
                        "controller '{}' needs one-way delay, but the peer does not offer SYNC_TIMESTAMP; {}",
                        recipe.name(),
                        recipe.mend()
                    ),
                });
            }
            if recipe.wants().one_way {
                tracing::info!("peer does not offer SYNC_TIMESTAMP: '{}' runs on RTT", recipe.name());
            }
        }
        let mut state = self.state();
        state.negotiated = negotiated;
        state.exponent = ack_delay_exponent(peers).map_err(wrong)?;
        state.report.negotiated = hears;
        if negotiated.place == Placement::EveryPacket || self.extension.datagrams {
            self.reserved.store(negotiated.frame_len(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Bytes by which 0-RTT packets are padded, so that the room in a packet does not shrink when 1-RTT begins.
    pub(crate) fn zero_rtt_padding(&self) -> usize {
        let Some(offer) = self.extension.offer.filter(|_| self.extension.datagrams) else { return 0 };
        // The peer's word is not known yet: the most that may be negotiated.
        Negotiated::between(Some(offer), Some(Offer::Paper)).frame_len()
    }

    // ---- packets out ----

    /// Bytes that the next 1-RTT packet must hold free.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Writes the frame into a payload that has [`Cell::reserved`] free bytes at its end.
    pub(crate) fn seal(&self, packet: u64, payload: &mut [u8]) {
        let now = self.host_time();
        let room = self.reserved();
        let mut state = self.state();
        if state.negotiated.reads {
            state.sent.record(packet, now);
        }
        let Some(body) = payload.len().checked_sub(room).filter(|_| room > 0) else { return };
        payload.copy_within(..body, room);
        let frame = SyncTimestamp {
            sent: fathom_frames::sync_timestamp::stamp(now),
            echo: state.heard.filter(|_| state.negotiated.echoes),
        };
        let written = frame.encode(&mut payload[..room]);
        payload[written..room].fill(0);
        state.report.stamps_sent += 1;
        if state.negotiated.place == Placement::BesideAcks && !self.extension.datagrams {
            // Whether or not an ACK frame lay beside it: the next packet to be acknowledged asks for room again. So an endpoint that
            // sends much and acknowledges little stamps little.
            self.reserved.store(0, Ordering::Relaxed);
        }
    }

    // ---- packets in ----

    /// Takes our frames out of an opened payload and notes what they and its ACK frame say. Returns how many leading bytes the caller
    /// must drop.
    pub(crate) fn open(&self, packet: u64, payload: &mut [u8]) -> usize {
        let now = self.host_time();
        let mut state = self.state();
        state.pending = None;
        if state.negotiated == Negotiated::default() {
            // Nothing was negotiated: a frame of ours in here is the peer's fault, and the stack closes on it.
            return 0;
        }
        let Some(found) = Found::in_payload(payload, &state.negotiated) else { return 0 };
        if !matches!(state.seen.arrive(packet), Arrival::Duplicate | Arrival::TooOld) {
            state.note(now, packet, &found);
            if found.ack_eliciting && state.negotiated.place == Placement::BesideAcks {
                self.reserved.store(state.negotiated.frame_len(), Ordering::Relaxed);
            }
        }
        // From the last frame to the first: at most the first one lies at the start.
        found.ranges().rev().fold(0, |lead, range| lead + remove(payload, range))
    }

    /// Signals of the ACK frame that quinn is processing, once; `largest` is the largest packet it acknowledged in its space.
    pub(crate) fn take_signals(&self, largest: Option<u64>) -> (Option<OneWayDelay>, Option<EcnDelta>) {
        match self.state().pending.take() {
            Some(p) if largest == Some(p.largest) => (p.one_way, p.ecn),
            _ => (None, None),
        }
    }

    // ---- telemetry and path ----

    /// Another path: what was measured on the old one means nothing here.
    pub(crate) fn new_path(&self) {
        self.state().estimator = Estimator::default();
    }

    /// Notes the controller's state after an event.
    pub(crate) fn observe(&self, now: Time, controller: &dyn Controller) {
        let snapshot = controller.snapshot();
        let one_way = {
            let mut state = self.state();
            state.report.controller = Some(snapshot);
            state.report.one_way
        };
        if let Some(observer) = &self.observer {
            observer.observe(now, &snapshot, one_way);
        }
    }
}

impl State {
    fn note(&mut self, now: Time, packet: u64, found: &Found<'_>) {
        let delay = found.ack.map_or(Duration::ZERO, |ack| ack.delay(self.exponent));
        let mut one_way = None;
        if let Some(stamp) = found.stamp {
            self.report.stamps_received += 1;
            self.heard = Some(Echo::of(stamp.sent, now));
        }
        // Every ACK frame goes through the log, stamped or not: a packet acknowledged without a stamp must not count later.
        let sent = found.ack.and_then(|ack| self.sent.take(ack.largest));
        let sample = match (found.stamp, sent) {
            (Some(SyncTimestamp { echo: Some(echo), .. }), Some(sent)) => {
                Sample::echoed(now, packet, echo, delay, sent, Duration::MAX)
            }
            (Some(stamp), Some(sent)) if !self.negotiated.reads_echoes => {
                Some(Sample::lean(now, packet, stamp.sent, delay, sent, Duration::MAX))
            }
            _ => None,
        };
        if let Some(sample) = sample {
            one_way = self.estimator.sample(now, &sample);
            self.report.one_way = one_way.or(self.report.one_way);
        }
        if let Some(ack) = found.ack {
            self.pending = Some(Pending { largest: ack.largest, one_way, ecn: self.ecn_since(ack) });
        }
    }

    /// What an ACK frame's ECN counts add to the last ones; counts never shrink (RFC 9000 §13.4.2.1).
    fn ecn_since(&mut self, ack: Ack<'_>) -> Option<EcnDelta> {
        let counts = ack.ecn?;
        let grown = |new: u64, old: u64| new.saturating_sub(old);
        let delta = EcnDelta {
            ect0: grown(counts.ect0, self.ecn.ect0),
            ect1: grown(counts.ect1, self.ecn.ect1),
            ce: grown(counts.ce, self.ecn.ce),
        };
        self.ecn = EcnCounts {
            ect0: counts.ect0.max(self.ecn.ect0),
            ect1: counts.ect1.max(self.ecn.ect1),
            ce: counts.ce.max(self.ecn.ce),
        };
        Some(delta)
    }
}

/// The frames of a payload that matter here.
struct Found<'a> {
    stamp: Option<SyncTimestamp>,
    ack: Option<Ack<'a>>,
    ack_eliciting: bool,
    /// Where our frames lie: the first `count` entries.
    at: [(usize, usize); MAX_FRAMES],
    count: usize,
}

impl<'a> Found<'a> {
    /// `None` when the payload must go to the stack as it is: it cannot be read, or holds a frame of ours that it must not hold.
    fn in_payload(payload: &'a [u8], negotiated: &Negotiated) -> Option<Self> {
        let mut found = Self { stamp: None, ack: None, ack_eliciting: false, at: [(0, 0); MAX_FRAMES], count: 0 };
        for frame in Frames::new(payload) {
            let frame = frame.ok()?;
            found.ack_eliciting |= frame.is_ack_eliciting();
            match frame.content {
                Content::Ack(ack) => found.ack = Some(ack),
                Content::SyncTimestamp(stamp) => {
                    if !negotiated.accepts(&stamp) {
                        return None;
                    }
                    *found.at.get_mut(found.count)? = (frame.range.start, frame.range.end);
                    found.count += 1;
                    found.stamp = Some(stamp);
                }
                Content::Other => {}
            }
        }
        Some(found)
    }

    fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        self.at.into_iter().take(self.count).map(|(start, end)| start..end)
    }
}
