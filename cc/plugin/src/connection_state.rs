//! What the packet keys, the session and the controllers of one connection share.
//!
//! The keys write and read frames, the session negotiates them, the controllers take the delays. A stack calls keys and controllers
//! under the connection's own lock, one after the other: a packet is opened, then its ACK frames are processed. So what a packet
//! said is here when a controller asks, and the next packet replaces it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fathom_cc::{
    AckEvent, Capabilities, CongestionEvent, Controller, ControllerConfig, ControllerMetrics, OneWayDelay, Rate, Sent,
    Time,
};
use fathom_frames::parameter::{Negotiated, Offer, ParameterError, Placement, ack_delay_exponent, max_ack_delay};
use fathom_frames::{Counters, EcnCounts, EnableTimestamp, StampBudget, SyncTimestamp, Timestamp, Timestamps, remove};

use crate::clock::Clock;
use crate::core::{Core, Extension, PluginError, Setup};
use crate::fault::{Code, Fault};
use crate::path::{AckSignals, Paths, PeerTimestamp};
use crate::payload::{
    IncomingFrames, NegotiatedExtensions, NotAgreed, OutgoingFrames, check_none, is_ack_eliciting, is_one_stream_frame,
};
use crate::shaping::{Departure, Packet, Shaping, ShapingRequest};

/// ack_delay_exponent of who does not say it (RFC 9000 §18.2).
const DEFAULT_EXPONENT: u8 = 3;

/// Hears what a connection's controller does.
pub trait Observer: Send + Sync {
    /// After each batch of acknowledgements and each congestion event.
    fn observe(&self, now: Time, snapshot: &ControllerMetrics, one_way: Option<OneWayDelay>);
    /// Bytes were handed to the network: a packet's, or those of several that left at once.
    fn sent(&self, _sent: &Sent) {}
    /// The batch that the controller has just heard, and the pace it has asked for. [`Observer::observe`] follows.
    fn acked(&self, _acks: &AckEvent<'_>, _pace: Option<Rate>) {}
    /// The congestion event that the controller has just heard. [`Observer::observe`] follows.
    fn react_to_congestion(&self, _setback: &CongestionEvent) {}
}

/// Which frame of the two carries one-way delays on a connection, in one direction at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InUse {
    /// None.
    #[default]
    None,
    /// SYNC_TIMESTAMP, our own.
    Sync,
    /// TIMESTAMP, of draft-huitema-quic-ts.
    Timestamp,
}

impl InUse {
    /// As metrics and logs have it: `none`, `sync` or `timestamp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sync => "sync",
            Self::Timestamp => "timestamp",
        }
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a [`ConnectionMonitor`] shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The peer's packets tell us the one-way delay of ours.
    pub negotiated: bool,
    /// Which frame is in use.
    pub in_use: InUse,
    /// Stamps written.
    pub stamps_sent: u64,
    /// Stamps read.
    pub stamps_received: u64,
    /// What became of the delay samples.
    pub samples: Counters,
    /// The newest forward one-way delay.
    pub one_way: Option<OneWayDelay>,
    /// The controller's state after its last event; with several paths, the one that acted last.
    pub controller: Option<ControllerMetrics>,
    /// What the peer's transport parameter says; `None`: there is none, it has not come yet, or we offer none and so do not look.
    pub peers: Option<Offer>,
    /// The same of that of TIMESTAMP.
    pub peers_timestamp: Option<EnableTimestamp>,
    /// ECN counts of the newest ACK frame with any; `None` also where ACK frames are not read.
    pub ecn: Option<EcnCounts>,
    /// ACK frames of 1-RTT packets that were read.
    pub acks: u64,
    /// The longest time for which one of them says that it was held back.
    pub longest_ack_delay: Duration,
    /// What TLS settled; `None` before, and on stacks that bring a TLS of their own.
    pub handshake: Option<Handshake>,
    /// Packets that the crypto provider could not seal: junk left in their place, and the connection is being closed. Always 0 on
    /// stacks that seal packets themselves.
    pub unsealed: u64,
}

/// What TLS settled for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Number of the cipher suite (RFC 8446 §B.4).
    pub suite: u16,
    /// It goes on from a session before.
    pub resumed: bool,
    /// Key updates (RFC 9001 §6) that our packets show.
    pub updates_sent: u64,
    /// Key updates that the peer's packets show.
    pub updates_received: u64,
}

/// A view into a live connection.
#[derive(Clone, Debug)]
pub struct ConnectionMonitor(Arc<ConnectionState>);

impl ConnectionMonitor {
    pub(crate) fn new(cell: Arc<ConnectionState>) -> Self {
        Self(cell)
    }

    /// How the connection stands now.
    pub fn report(&self) -> Report {
        let [updates_sent, updates_received] =
            [&self.0.sealed_updates, &self.0.opened_updates].map(|n| n.load(Ordering::Relaxed));
        let state = self.0.state();
        let handshake = state.report.handshake.map(|settled| Handshake { updates_sent, updates_received, ..settled });
        let unsealed = self.0.unsealed.load(Ordering::Relaxed);
        Report { samples: state.paths.counters(), handshake, unsealed, ..state.report }
    }
}

/// Shared state of one connection. A plug-in only hands it on.
pub struct ConnectionState {
    clock: Arc<dyn Clock>,
    epoch: Instant,
    provided: Capabilities,
    extension: Extension,
    parameter: Option<Arc<[u8]>>,
    stamp: Option<Arc<[u8]>>,
    /// ACK frames are read for the report's sake.
    watches: bool,
    controller_config: Option<Arc<dyn ControllerConfig>>,
    observer: Option<Arc<dyn Observer>>,
    /// Bytes that the next 1-RTT packet holds free for a frame. Changes only when a packet was sealed or opened, so a stack sees one
    /// value while it builds a packet.
    reserved: AtomicUsize,
    /// Bytes that the next 1-RTT packet holds free for the outlet to cut; changes as `reserved` does, and when a controller speaks.
    tail: AtomicUsize,
    /// The endpoint sends through an outlet: [`State::shaping`] is there. Known without the lock, which plain endpoints need not take
    /// for it.
    shapes: bool,
    /// Every packet carries our frame, not only those with an ACK frame.
    always: AtomicBool,
    /// Controllers started so far.
    flows: AtomicU64,
    /// Key updates before the newest 1-RTT key that has sealed a packet, and that has opened one.
    sealed_updates: AtomicU64,
    opened_updates: AtomicU64,
    /// Packets that could not be sealed. One is enough to end the connection.
    unsealed: AtomicU64,
    state: Mutex<State>,
}

struct State {
    agreed: NegotiatedExtensions,
    /// Payloads are read: for stamps, or for what their ACK frames say of delays and ECN.
    reads: bool,
    /// The peer's ack_delay_exponent, and ours.
    exponent: u8,
    own_exponent: u8,
    /// The longest that the peer said it holds back an acknowledgement.
    max_ack_delay: Duration,
    /// Bytes of the next TIMESTAMP frame.
    timestamp_len: usize,
    paths: Paths,
    /// The 1-RTT packet sealed last: path and number.
    sealed: Option<(u32, u64)>,
    /// Stamps beside acknowledgements, in lean mode.
    budget: Option<StampBudget>,
    /// Bytes received that the budget does not know of yet.
    unbudgeted: u64,
    /// Where datagrams are cut and held, if the endpoint sends through an outlet.
    shaping: Option<Shaping>,
    report: Report,
}

impl Default for State {
    fn default() -> Self {
        Self {
            agreed: NegotiatedExtensions::default(),
            reads: false,
            exponent: DEFAULT_EXPONENT,
            own_exponent: DEFAULT_EXPONENT,
            max_ack_delay: Duration::ZERO,
            timestamp_len: Timestamp::LEN,
            paths: Paths::default(),
            sealed: None,
            budget: None,
            unbudgeted: 0,
            shaping: None,
            report: Report::default(),
        }
    }
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionState")
    }
}

impl ConnectionState {
    pub(crate) fn new(core: &Core, provided: Capabilities, observer: Option<Arc<dyn Observer>>) -> Self {
        let shaping = core.gate.as_ref().map(|gate| Shaping::new(gate, core.extension.datagrams));
        let setup = Setup {
            controller_config: Some(Arc::clone(&core.controller_config)),
            clock: Arc::clone(&core.clock),
            extension: core.extension,
            observer,
            parameter: core.parameter.clone(),
            stamp: core.stamp.clone(),
        };
        Self { watches: core.watches, ..Self::made(setup, provided, shaping) }
    }

    /// A cell that offers nothing, for connections that were not wired.
    pub(crate) fn inert() -> Self {
        Self::made(Setup { extension: Extension::OFF, ..Setup::default() }, Capabilities::NONE, None)
    }

    fn made(setup: Setup, provided: Capabilities, shaping: Option<Shaping>) -> Self {
        let Setup { controller_config, clock, extension, observer, parameter, stamp } = setup;
        Self {
            epoch: clock.now(),
            clock,
            provided,
            extension,
            parameter,
            stamp,
            watches: false,
            controller_config,
            observer,
            reserved: AtomicUsize::new(0),
            tail: AtomicUsize::new(shaping.as_ref().map_or(0, Shaping::tail)),
            shapes: shaping.is_some(),
            always: AtomicBool::new(false),
            flows: AtomicU64::new(0),
            sealed_updates: AtomicU64::new(0),
            opened_updates: AtomicU64::new(0),
            unsealed: AtomicU64::new(0),
            state: Mutex::new(State { shaping, ..State::default() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn controller_config(&self) -> Option<&Arc<dyn ControllerConfig>> {
        self.controller_config.as_ref()
    }

    pub(crate) const fn provided(&self) -> Capabilities {
        self.provided
    }

    /// The number of the next controller.
    pub(crate) fn next_flow(&self) -> u64 {
        self.flows.fetch_add(1, Ordering::Relaxed)
    }

    /// The stack's instant as the controllers' time.
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

    /// Adds our transport parameters to the stack's encoded ones.
    pub(crate) fn complete_parameters(&self, parameters: &mut Vec<u8>) {
        // The stack's own are well-formed.
        self.scale_by(ack_delay_exponent(parameters).unwrap_or(DEFAULT_EXPONENT));
        self.append_parameters(parameters);
    }

    /// The ack_delay_exponent that this endpoint tells its peer: 3 where it tells none. TIMESTAMP frames are scaled by it.
    pub fn scale_by(&self, exponent: u8) {
        self.state().own_exponent = exponent;
    }

    /// Appends our transport parameters.
    pub fn append_parameters(&self, parameters: &mut Vec<u8>) {
        if let Some(raw) = &self.parameter {
            parameters.extend_from_slice(raw);
            return;
        }
        if let Some(offer) = self.extension.offer {
            offer.append(parameters);
        }
        if let Some(timestamp) = self.extension.timestamp {
            timestamp.append(parameters);
        }
    }

    /// Reads the peer's raw transport parameters. A stack asks more than once; the answer stays the same.
    ///
    /// # Errors
    /// Our parameter is malformed, or missing where the controller needs it.
    pub fn negotiate(&self, peers: &[u8]) -> Result<(), Fault> {
        let wrong = |e: ParameterError| Fault::new(Code::TransportParameter, e.to_string());
        let (sync, enabled) = self.peers_offers(peers).map_err(wrong)?;
        let agreed = self.agreed(sync, enabled);
        let hears = agreed.hears();
        let exponent = ack_delay_exponent(peers).map_err(wrong)?;
        let mut state = self.state();
        state.agreed = agreed;
        // Every controller hears round-trip times, and ACK frames say how much of them the peer waited.
        state.reads = self.controller_config.is_some()
            || self.watches
            || agreed != NegotiatedExtensions::default()
            || state.shaping.is_some();
        state.exponent = exponent;
        state.max_ack_delay = max_ack_delay(peers);
        // Stamps of connections with DATAGRAM frames take the same room from the first to the last.
        let timestamp = Timestamp::at(self.host_time(), state.own_exponent);
        state.timestamp_len = if self.extension.datagrams { Timestamp::LEN_LONG } else { timestamp.encoded_len() };
        state.report.negotiated = hears;
        state.report.in_use = agreed.in_use();
        (state.report.peers, state.report.peers_timestamp) = (sync, enabled);
        let (always, len) = (agreed.sync.place == Placement::EveryPacket, state.frame_len());
        state.budget = (len > 0 && !always && !self.extension.datagrams).then(|| StampBudget::new(len as u64));
        drop(state);
        self.always.store(always, Ordering::Relaxed);
        if always || self.extension.datagrams {
            self.reserved.store(len, Ordering::Relaxed);
        }
        let Some(controller_config) = self.controller_config.as_ref().filter(|_| !hears) else { return Ok(()) };
        if controller_config.required().one_way {
            // Everything else is settled: a stack may choose to go on.
            return Err(Fault::new(
                Code::ConnectionRefused,
                format!(
                    "controller '{}' needs one-way delay, but the peer does not offer {}; {}",
                    controller_config.name(),
                    self.wanted(),
                    controller_config.mend()
                ),
            ));
        }
        if controller_config.optional().one_way {
            tracing::info!("peer does not offer {}: '{}' runs on RTT", self.wanted(), controller_config.name());
        }
        Ok(())
    }

    /// What the peer's parameters say. One of an extension that is off here is one that nobody knows.
    fn peers_offers(&self, peers: &[u8]) -> Result<(Option<Offer>, Option<EnableTimestamp>), ParameterError> {
        let sync = if self.extension.offer.is_some() { Offer::find(peers)? } else { None };
        let timestamp = if self.extension.timestamp.is_some() { EnableTimestamp::find(peers)? } else { None };
        Ok((sync, timestamp))
    }

    /// What both sides' parameters allow.
    fn agreed(&self, sync: Option<Offer>, timestamp: Option<EnableTimestamp>) -> NegotiatedExtensions {
        let sync = Negotiated::between(self.extension.offer, sync);
        let timestamps = Timestamps::between(self.extension.timestamp, timestamp, &sync);
        NegotiatedExtensions { sync, timestamps }
    }

    /// What a peer would have to offer.
    const fn wanted(&self) -> &'static str {
        match (self.extension.offer, self.extension.timestamp) {
            (_, None) => "SYNC_TIMESTAMP",
            (None, Some(_)) => "TIMESTAMP",
            (Some(_), Some(_)) => "SYNC_TIMESTAMP or TIMESTAMP",
        }
    }

    /// Bytes by which 0-RTT packets are padded, so that the room in a packet does not shrink when 1-RTT begins.
    pub(crate) fn zero_rtt_padding(&self) -> usize {
        if !self.extension.datagrams {
            return 0;
        }
        // The peer's word is not known yet: the most that may be negotiated.
        let frame = self.extension.offer.map(|offer| Negotiated::between(Some(offer), Some(Offer::Paper)).frame_len());
        let timestamp = self.extension.timestamp.map(|_| Timestamp::LEN_LONG);
        frame.max(timestamp).unwrap_or(0) + self.tail.load(Ordering::Relaxed)
    }

    /// TLS is over.
    pub(crate) fn settled(&self, suite: u16, resumed: bool) {
        self.state().report.handshake = Some(Handshake { suite, resumed, updates_sent: 0, updates_received: 0 });
    }

    /// A packet was sealed with a key after so many updates.
    pub(crate) fn sealed_after(&self, updates: u64) {
        self.sealed_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet was opened with a key after so many updates.
    pub(crate) fn opened_after(&self, updates: u64) {
        self.opened_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet could not be sealed, and junk leaves in its place: the connection is to end.
    pub(crate) fn not_sealed(&self, what: &str) {
        if self.unsealed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("{what} failed: junk is sent in its place, and the connection is closed");
        }
    }

    /// A packet could not be sealed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.unsealed.load(Ordering::Relaxed) > 0
    }

    // ---- packets out ----

    /// Bytes that the next 1-RTT packet must hold free.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed) + self.tail.load(Ordering::Relaxed)
    }

    /// Writes the frame into a payload that has [`ConnectionState::reserved`] free bytes at its end, and says how the packet leaves; `datagram` is
    /// the size it would have uncut.
    pub(crate) fn seal(&self, path: u32, packet: u64, payload: &mut [u8], datagram: usize) -> Departure {
        let room = self.reserved.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed);
        let now = self.now();
        let mut state = self.state();
        let state = &mut *state;
        state.sealed = Some((path, packet));
        let exit = match (&mut state.shaping, payload.len().checked_sub(room + tail)) {
            (Some(shaping), Some(body)) => {
                let leaving = OutgoingFrames::read(&payload[..body]);
                let packet = Packet { path, leaving, len: room + body, tail, datagram };
                shaping.exit(&packet, now)
            }
            _ => Departure::default(),
        };
        let leaves = Time::from_nanos(self.clock.stamp(exit.release.unwrap_or(now).as_nanos()));
        let body = payload.len().checked_sub(room + tail);
        state.record(path, packet, leaves, || body.is_none_or(|body| is_ack_eliciting(&payload[..body])));
        if let Some(body) = body {
            let kept = payload.len() - exit.cut;
            self.write_frame(state, path, leaves, &mut payload[..kept], body, room);
        }
        self.settle(state, now);
        exit
    }

    /// Fills what the outlet cuts off a datagram.
    pub(crate) fn write_trailer(&self, tail: &mut [u8], release: Option<Time>) {
        if let Some(shaping) = &self.state().shaping {
            shaping.lane.write(tail, release.map(|at| self.epoch + Duration::from_nanos(at.as_nanos())));
        }
    }

    /// How long the outlet kept back the first packet of `path` sealed at `sent` or later that asked for an acknowledgement; what was
    /// sealed before is forgotten.
    pub(crate) fn hold_of(&self, path: u32, sent: Time) -> Duration {
        if !self.shapes {
            return Duration::ZERO;
        }
        self.state().shaping.as_mut().map_or(Duration::ZERO, |shaping| shaping.hold_of(path, sent))
    }

    /// Datagrams go through an outlet, which honours sizes and holds.
    pub(crate) fn has_outlet(&self) -> bool {
        self.shapes && self.state().shaping.as_ref().is_some_and(|shaping| shaping.lane.works())
    }

    /// The stack itself makes packets as small as a controller asks: what it counts are real bytes, and a window may be smaller than
    /// two of the largest packets.
    pub(crate) const fn sizes_packets(&self) -> bool {
        self.provided.datagram && !self.shapes
    }

    /// What controller `flow` asks of the outlet from here on. To be called between packets only, as [`ConnectionState::open`] is.
    pub(crate) fn wish(&self, flow: u64, wish: ShapingRequest) {
        let now = self.now();
        let mut state = self.state();
        if let Some(shaping) = &mut state.shaping {
            shaping.wish(flow, wish, now);
            self.settle(&mut state, now);
        }
    }

    /// Controller `flow` is gone.
    pub(crate) fn forget(&self, flow: u64) {
        if let Some(shaping) = &mut self.state().shaping {
            shaping.forget(flow);
        }
    }

    /// By how many bytes packets are cut now, and since when.
    pub(crate) fn cut(&self) -> (Time, usize) {
        if !self.shapes {
            return (Time::ZERO, 0);
        }
        self.state().shaping.as_ref().map_or((Time::ZERO, 0), Shaping::cut)
    }

    /// Sets the tail of the packets to come.
    fn settle(&self, state: &mut State, now: Time) {
        let frame = state.frame_len();
        if let Some(shaping) = &mut state.shaping {
            shaping.settle(now, frame);
            self.tail.store(shaping.tail(), Ordering::Relaxed);
        }
    }

    /// Moves the first `body` bytes of a payload to its end. What is free in front takes our frame, if it has `room`, and PADDING: it
    /// never goes behind, since the last STREAM frame may have no length.
    fn write_frame(&self, state: &mut State, path: u32, now: Time, payload: &mut [u8], body: usize, room: usize) {
        let Some(lead) = payload.len().checked_sub(body).filter(|lead| *lead > 0) else { return };
        payload.copy_within(..body, lead);
        payload[..lead].fill(0);
        if room == 0 {
            return;
        }
        self.stamp(state, path, now, &mut payload[..room]);
    }

    /// Writes our frame, stamped `now`, to `room`, whose length is the frame's.
    fn stamp(&self, state: &mut State, path: u32, now: Time, room: &mut [u8]) {
        let written = if let Some(raw) = &self.stamp {
            let len = raw.len().min(room.len());
            room[..len].copy_from_slice(&raw[..len]);
            len
        } else if state.agreed.timestamps.sends {
            let frame = Timestamp::at(now, state.own_exponent);
            if !self.extension.datagrams {
                // Once in hours it grows, and the room made before is too small: that one packet goes without.
                state.timestamp_len = frame.encoded_len();
            }
            frame.encode(room)
        } else {
            let heard = state.paths.at(path).heard;
            let frame = SyncTimestamp {
                sent: fathom_frames::sync_timestamp::stamp(now),
                echo: heard.filter(|_| state.agreed.sync.echoes),
            };
            frame.encode(room)
        };
        state.report.stamps_sent += u64::from(written > 0);
        if let Some(budget) = &mut state.budget {
            budget.spend();
            // Whether or not an ACK frame lay beside it: the next packet to be acknowledged asks for room again. So an endpoint that
            // sends much and acknowledges little stamps little.
            self.reserved.store(0, Ordering::Relaxed);
        }
    }

    // ---- for stacks that call the plug-in from their own code ----

    /// A connection of a stack that carries the plug-in in its own code, and so needs no keys or sessions of ours. Such a stack calls
    /// [`ConnectionState::scale_by`], [`ConnectionState::append_parameters`] and [`ConnectionState::negotiate`] during the handshake, [`ConnectionState::room`] and [`ConnectionState::leave`]
    /// for each 1-RTT packet it builds, [`ConnectionState::arrive`] for each it has opened ([`ConnectionState::arrive_early`] for those before 1-RTT), and
    /// starts a [`ControllerDriver`](crate::Flow) per network path. All its 1-RTT packets share one packet number space, which is path 0.
    ///
    /// # Errors
    /// The stack lacks what the configuration's controllers need, or the extension is off and they need one-way delay.
    pub fn for_stack(setup: Setup, provided: Capabilities) -> Result<Arc<Self>, PluginError> {
        if let Some(controller_config) = &setup.controller_config {
            controller_config
                .check(provided)
                .map_err(|missing| PluginError::Missing { missing, outlet_would_do: false })?;
            if setup.extension.is_off() && controller_config.required().one_way {
                return Err(PluginError::ExtensionOff(controller_config.name()));
            }
        }
        Ok(Arc::new(Self::made(setup, provided, None)))
    }

    /// A view for the application.
    pub fn probe(self: &Arc<Self>) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(self))
    }

    /// Bytes to hold free for our frame in the 1-RTT packet being built; `acknowledges`: an ACK frame is in it.
    pub fn room(&self, acknowledges: bool) -> usize {
        if acknowledges || self.is_stamped_always() { self.reserved.load(Ordering::Relaxed) } else { 0 }
    }

    /// Every packet carries our frame, not only those with an ACK frame.
    fn is_stamped_always(&self) -> bool {
        self.always.load(Ordering::Relaxed)
    }

    /// The 1-RTT packet of this number is complete but for our frame, which goes to `room` ([`ConnectionState::room`] bytes, perhaps none);
    /// `ack_eliciting`: it asks for an acknowledgement.
    pub fn leave(&self, packet: u64, ack_eliciting: bool, room: &mut [u8]) {
        let now = self.host_time();
        let mut state = self.state();
        state.record(0, packet, now, || ack_eliciting);
        if !room.is_empty() {
            // Before there is anything to echo the frame is shorter than its room; the stack's buffer is not clean.
            room.fill(0);
            self.stamp(&mut state, 0, now, room);
        }
    }

    /// Takes our frames out of an opened 1-RTT payload and notes what they and its ACK frames say. Returns how many leading bytes the
    /// caller must drop.
    ///
    /// # Errors
    /// [`NotAgreed`]: the caller closes the connection with PROTOCOL_VIOLATION.
    pub fn arrive(&self, packet: u64, payload: &mut [u8]) -> Result<usize, NotAgreed> {
        self.open(0, packet, payload)
    }

    /// Looks for our frames in an opened Initial, Handshake or 0-RTT payload, where none may be.
    ///
    /// # Errors
    /// [`NotAgreed`]: the caller closes the connection with PROTOCOL_VIOLATION.
    pub fn arrive_early(&self, payload: &[u8]) -> Result<(), NotAgreed> {
        if self.extension.is_off() { Ok(()) } else { check_none(payload) }
    }

    /// The path of `packet` if it was the last to be sealed with a 1-RTT key.
    pub(crate) fn path_of(&self, packet: u64) -> Option<u32> {
        self.state().sealed.filter(|(_, sealed)| *sealed == packet).map(|(path, _)| path)
    }

    // ---- packets in ----

    /// Takes our frames out of an opened payload and notes what they and its ACK frames say. Returns how many leading bytes the
    /// caller must drop.
    pub(crate) fn open(&self, path: u32, packet: u64, payload: &mut [u8]) -> Result<usize, NotAgreed> {
        let mut state = self.state();
        if !state.reads {
            drop(state);
            // Where both extensions are off, a frame of theirs is one that nobody knows, and the stack says so.
            return self.arrive_early(payload).map(|()| 0);
        }
        let lead = self.read(&mut state, path, packet, payload)?;
        if let Some(shaping) = &mut state.shaping {
            shaping.arrived(path, packet);
            self.settle(&mut state, self.now());
        }
        Ok(lead)
    }

    /// The part of [`ConnectionState::open`] that reads the payload.
    fn read(&self, state: &mut State, path: u32, packet: u64, payload: &mut [u8]) -> Result<usize, NotAgreed> {
        if is_one_stream_frame(payload) {
            // Nothing in it is ours or an ACK frame, so it matters to nobody here whether it is a duplicate.
            self.may_stamp(state, None, payload.len());
            return Ok(0);
        }
        let now = self.host_time();
        state.paths.settle();
        let mut found = IncomingFrames::default();
        if let Err(not_agreed) = found.read(payload, &state.agreed) {
            return if self.extension.is_off() { Ok(0) } else { Err(not_agreed) };
        }
        if let Some(shaping) = state.shaping.as_mut().filter(|_| found.acks().next().is_some()) {
            shaping.confirm();
        }
        // Without a stamp a duplicate says nothing new: send times are taken once, counts only grow.
        let known = state.paths.at(path);
        if !found.is_stamped() || known.arrived(packet, found.stamp, now) {
            state.note(now, path, &found);
            if found.ack_eliciting {
                self.may_stamp(state, Some(now), payload.len());
            }
        }
        // From the last frame to the first: at most the first one lies at the start.
        Ok(found.ranges().rev().fold(0, |lead, range| lead + remove(payload, range)))
    }

    /// A packet of so many bytes asks for an acknowledgement: room for a stamp beside it, if the budget allows.
    fn may_stamp(&self, state: &mut State, now: Option<Time>, bytes: usize) {
        state.unbudgeted += bytes as u64;
        if self.reserved.load(Ordering::Relaxed) > 0 {
            // There is room already. The clock need not be read.
            return;
        }
        let Some(budget) = &mut state.budget else { return };
        // In a bulk transfer the clock is read once per stamp, not once per packet.
        let ask = now.is_some() || state.unbudgeted >= budget.stamp_price();
        let affordable = budget.has_stamp()
            || ask && {
                let now = now.unwrap_or_else(|| self.host_time());
                budget.received(now, std::mem::take(&mut state.unbudgeted))
            };
        if affordable {
            self.reserved.store(state.frame_len(), Ordering::Relaxed);
        }
    }

    /// Signals of the ACK frame that the stack is processing for controller `flow` of `path`, once; `largest` is the largest packet
    /// acknowledged so far on that path. The delay it says is at most the one that the peer announced.
    pub(crate) fn take_signals(&self, path: u32, flow: u64, largest: Option<u64>) -> AckSignals {
        let mut state = self.state();
        let longest = state.max_ack_delay;
        let signals = state.paths.known(path).map(|p| p.take(flow, largest)).unwrap_or_default();
        AckSignals { ack_delay: signals.ack_delay.min(longest), ..signals }
    }

    // ---- telemetry ----

    /// Who hears of every event, if anyone does.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Notes a controller's state after an event.
    pub(crate) fn observe(&self, now: Time, controller: &dyn Controller) {
        let snapshot = controller.metrics();
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
    /// Bytes of the frame that we write beside an ACK frame; 0 when we write none.
    fn frame_len(&self) -> usize {
        if self.agreed.timestamps.sends { self.timestamp_len } else { self.agreed.sync.frame_len() }
    }

    /// Notes when a packet leaves, if its acknowledgement will tell a delay.
    fn record(&mut self, path: u32, packet: u64, leaves: Time, ack_eliciting: impl FnOnce() -> bool) {
        if self.agreed.sync.reads || self.agreed.timestamps.reads && ack_eliciting() {
            self.paths.at(path).sent.record(packet, leaves);
        } else if self.agreed.timestamps.reads {
            self.paths.at(path).sent.record_silent(packet, leaves);
        }
    }

    fn note(&mut self, now: Time, path: u32, found: &IncomingFrames) {
        self.report.stamps_received += u64::from(found.is_stamped());
        for ack in found.acks() {
            self.report.ecn = ack.ecn.or(self.report.ecn);
            self.report.acks += 1;
            self.report.longest_ack_delay = self.report.longest_ack_delay.max(ack.delay(self.exponent));
            let told = self.told(found, ack.path == path);
            // A path that was never used acknowledges nothing.
            let Some(acked) = self.paths.known(ack.path) else { continue };
            let one_way = acked.acknowledged(now, ack, self.exponent, told);
            self.report.one_way = one_way.or(self.report.one_way);
        }
    }

    /// What a packet says for an ACK frame in it: a stamp is the peer's clock, whatever path it came on; an echo is of a packet of that
    /// path.
    fn told(&self, found: &IncomingFrames, same_path: bool) -> PeerTimestamp {
        match (found.stamp, found.timestamp) {
            (Some(SyncTimestamp { echo: Some(echo), .. }), _) if same_path => PeerTimestamp::Echo(echo),
            (Some(SyncTimestamp { sent, echo: None }), _) if !self.agreed.sync.reads_echoes => {
                PeerTimestamp::Stamp(sent)
            }
            (_, Some(stamp)) => PeerTimestamp::Timestamp(stamp.micros(self.exponent), self.max_ack_delay),
            _ => PeerTimestamp::Nothing,
        }
    }
}
