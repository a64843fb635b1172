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
use crate::close_error::{CloseError, ErrorCode};
use crate::core::{ConnectionConfig, Core, Extension, PluginError};
use crate::path::{AckSignals, Paths, PeerTimestamp};
use crate::payload::{
    IncomingFrames, NegotiatedExtensions, NotNegotiated, OutgoingFrames, check_none, is_ack_eliciting,
    is_one_stream_frame,
};
use crate::shaping::{Departure, Packet, Shaping, ShapingRequest};

/// ack_delay_exponent of who does not say it (RFC 9000 §18.2).
const DEFAULT_EXPONENT: u8 = 3;

/// Hears what a connection's controller does.
pub trait Observer: Send + Sync {
    /// After each batch of acknowledgements and each congestion event.
    fn on_metrics(&self, now: Time, metrics: &ControllerMetrics, one_way: Option<OneWayDelay>);
    /// Bytes were handed to the network: a packet's, or those of several that left at once.
    fn on_sent(&self, _sent: &Sent) {}
    /// The batch that the controller has just heard, and the pace it has asked for. [`Observer::on_metrics`] follows.
    fn on_ack(&self, _acks: &AckEvent<'_>, _pace: Option<Rate>) {}
    /// The congestion event that the controller has just heard. [`Observer::on_metrics`] follows.
    fn on_congestion_event(&self, _event: &CongestionEvent) {}
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
    pub peer_enable_timestamp: Option<EnableTimestamp>,
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
    pub(crate) fn new(state: Arc<ConnectionState>) -> Self {
        Self(state)
    }

    /// How the connection stands now.
    pub fn report(&self) -> Report {
        let [updates_sent, updates_received] =
            [&self.0.sealed_updates, &self.0.opened_updates].map(|n| n.load(Ordering::Relaxed));
        let state = self.0.state();
        let handshake = state.report.handshake.map(|on_handshake_complete| Handshake {
            updates_sent,
            updates_received,
            ..on_handshake_complete
        });
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
    monitors_acks: bool,
    controller_config: Option<Arc<dyn ControllerConfig>>,
    observer: Option<Arc<dyn Observer>>,
    /// Bytes that the next 1-RTT packet holds free for a frame. Changes only when a packet was sealed or opened, so a stack sees one
    /// value while it builds a packet.
    reserved: AtomicUsize,
    /// Bytes that the next 1-RTT packet holds free for the shaping socket to trim; changes as `reserved` does, and when a controller speaks.
    tail: AtomicUsize,
    /// The endpoint sends through a shaping socket: [`State::shaping`] is there. Known without the lock, which plain endpoints need not take
    /// for it.
    has_shaping: bool,
    /// Every packet carries our frame, not only those with an ACK frame.
    stamps_every_packet: AtomicBool,
    /// Controllers started so far.
    controllers: AtomicU64,
    /// Key updates before the newest 1-RTT key that has sealed a packet, and that has opened one.
    sealed_updates: AtomicU64,
    opened_updates: AtomicU64,
    /// Packets that could not be sealed. One is enough to end the connection.
    unsealed: AtomicU64,
    state: Mutex<State>,
}

struct State {
    negotiated: NegotiatedExtensions,
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
    /// Where datagrams are trimmed and held, if the endpoint sends through a shaping socket.
    shaping: Option<Shaping>,
    report: Report,
}

impl Default for State {
    fn default() -> Self {
        Self {
            negotiated: NegotiatedExtensions::default(),
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
        let shaping = core.registry.as_ref().map(|registry| Shaping::new(registry, core.extension.datagrams));
        let setup = ConnectionConfig {
            controller_config: Some(Arc::clone(&core.controller_config)),
            clock: Arc::clone(&core.clock),
            extension: core.extension,
            observer,
            parameter: core.parameter.clone(),
            stamp: core.stamp.clone(),
        };
        Self { monitors_acks: core.monitors_acks, ..Self::build(setup, provided, shaping) }
    }

    /// A state that offers nothing, for connections that were not wired.
    pub(crate) fn inert() -> Self {
        Self::build(
            ConnectionConfig { extension: Extension::OFF, ..ConnectionConfig::default() },
            Capabilities::NONE,
            None,
        )
    }

    fn build(setup: ConnectionConfig, provided: Capabilities, shaping: Option<Shaping>) -> Self {
        let ConnectionConfig { controller_config, clock, extension, observer, parameter, stamp } = setup;
        Self {
            epoch: clock.now(),
            clock,
            provided,
            extension,
            parameter,
            stamp,
            monitors_acks: false,
            controller_config,
            observer,
            reserved: AtomicUsize::new(0),
            tail: AtomicUsize::new(shaping.as_ref().map_or(0, Shaping::tail)),
            has_shaping: shaping.is_some(),
            stamps_every_packet: AtomicBool::new(false),
            controllers: AtomicU64::new(0),
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
    pub(crate) fn next_controller_id(&self) -> u64 {
        self.controllers.fetch_add(1, Ordering::Relaxed)
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
        self.set_ack_delay_exponent(ack_delay_exponent(parameters).unwrap_or(DEFAULT_EXPONENT));
        self.append_parameters(parameters);
    }

    /// The ack_delay_exponent that this endpoint tells its peer: 3 where it tells none. TIMESTAMP frames are scaled by it.
    pub fn set_ack_delay_exponent(&self, exponent: u8) {
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
    pub fn negotiate(&self, peers: &[u8]) -> Result<(), CloseError> {
        let wrong = |e: ParameterError| CloseError::new(ErrorCode::TransportParameter, e.to_string());
        let (sync, enabled) = self.peer_offers(peers).map_err(wrong)?;
        let negotiated = self.negotiated(sync, enabled);
        let receives_delays = negotiated.receives_delays();
        let exponent = ack_delay_exponent(peers).map_err(wrong)?;
        let mut state = self.state();
        state.negotiated = negotiated;
        // Every controller hears round-trip times, and ACK frames say how much of them the peer waited.
        state.reads = self.controller_config.is_some()
            || self.monitors_acks
            || negotiated != NegotiatedExtensions::default()
            || state.shaping.is_some();
        state.exponent = exponent;
        state.max_ack_delay = max_ack_delay(peers);
        // Stamps of connections with DATAGRAM frames take the same room from the first to the last.
        let timestamp = Timestamp::at(self.host_time(), state.own_exponent);
        state.timestamp_len = if self.extension.datagrams { Timestamp::LEN_LONG } else { timestamp.encoded_len() };
        state.report.negotiated = receives_delays;
        state.report.in_use = negotiated.in_use();
        (state.report.peers, state.report.peer_enable_timestamp) = (sync, enabled);
        let (stamps_every_packet, len) = (negotiated.sync.place == Placement::EveryPacket, state.frame_len());
        state.budget =
            (len > 0 && !stamps_every_packet && !self.extension.datagrams).then(|| StampBudget::new(len as u64));
        drop(state);
        self.stamps_every_packet.store(stamps_every_packet, Ordering::Relaxed);
        if stamps_every_packet || self.extension.datagrams {
            self.reserved.store(len, Ordering::Relaxed);
        }
        let Some(controller_config) = self.controller_config.as_ref().filter(|_| !receives_delays) else {
            return Ok(());
        };
        if controller_config.required().one_way {
            // Everything else is settled: a stack may choose to go on.
            return Err(CloseError::new(
                ErrorCode::ConnectionRefused,
                format!(
                    "controller '{}' needs one-way delay, but the peer does not offer {}; {}",
                    controller_config.name(),
                    self.wanted_frames(),
                    controller_config.hint()
                ),
            ));
        }
        if controller_config.optional().one_way {
            tracing::info!("peer does not offer {}: '{}' runs on RTT", self.wanted_frames(), controller_config.name());
        }
        Ok(())
    }

    /// What the peer's parameters say. One of an extension that is off here is one that nobody knows.
    fn peer_offers(&self, peers: &[u8]) -> Result<(Option<Offer>, Option<EnableTimestamp>), ParameterError> {
        let sync = if self.extension.offer.is_some() { Offer::find(peers)? } else { None };
        let timestamp = if self.extension.timestamp.is_some() { EnableTimestamp::find(peers)? } else { None };
        Ok((sync, timestamp))
    }

    /// What both sides' parameters allow.
    fn negotiated(&self, sync: Option<Offer>, timestamp: Option<EnableTimestamp>) -> NegotiatedExtensions {
        let sync = Negotiated::between(self.extension.offer, sync);
        let timestamps = Timestamps::between(self.extension.timestamp, timestamp, &sync);
        NegotiatedExtensions { sync, timestamps }
    }

    /// What a peer would have to offer.
    const fn wanted_frames(&self) -> &'static str {
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
    pub(crate) fn on_handshake_complete(&self, suite: u16, resumed: bool) {
        self.state().report.handshake = Some(Handshake { suite, resumed, updates_sent: 0, updates_received: 0 });
    }

    /// A packet was sealed with a key after so many updates.
    pub(crate) fn on_sealed(&self, updates: u64) {
        self.sealed_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet was opened with a key after so many updates.
    pub(crate) fn on_opened(&self, updates: u64) {
        self.opened_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet could not be sealed, and junk leaves in its place: the connection is to end.
    pub(crate) fn on_seal_failure(&self, what: &str) {
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
    /// the size it would have untrimmed.
    pub(crate) fn seal(&self, path: u32, packet: u64, payload: &mut [u8], datagram: usize) -> Departure {
        let room = self.reserved.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed);
        let now = self.now();
        let mut state = self.state();
        let state = &mut *state;
        state.sealed = Some((path, packet));
        let departure = match (&mut state.shaping, payload.len().checked_sub(room + tail)) {
            (Some(shaping), Some(body)) => {
                let outgoing = OutgoingFrames::read(&payload[..body]);
                let packet = Packet { path, outgoing, len: room + body, tail, datagram };
                shaping.depart(&packet, now)
            }
            _ => Departure::default(),
        };
        let departs = Time::from_nanos(self.clock.stamp(departure.release.unwrap_or(now).as_nanos()));
        let body = payload.len().checked_sub(room + tail);
        state.record(path, packet, departs, || body.is_none_or(|body| is_ack_eliciting(&payload[..body])));
        if let Some(body) = body {
            let kept = payload.len() - departure.trim;
            self.write_frame(state, path, departs, &mut payload[..kept], body, room);
        }
        self.update_tail(state, now);
        departure
    }

    /// Fills what the shaping socket trims off a datagram.
    pub(crate) fn write_trailer(&self, tail: &mut [u8], release: Option<Time>) {
        if let Some(shaping) = &self.state().shaping {
            shaping.writer.write(tail, release.map(|at| self.epoch + Duration::from_nanos(at.as_nanos())));
        }
    }

    /// How long the shaping socket kept back the first packet of `path` sealed at `sent` or later that asked for an acknowledgement; what was
    /// sealed before is forgotten.
    pub(crate) fn send_delay_of(&self, path: u32, sent: Time) -> Duration {
        if !self.has_shaping {
            return Duration::ZERO;
        }
        self.state().shaping.as_mut().map_or(Duration::ZERO, |shaping| shaping.send_delay_of(path, sent))
    }

    /// Datagrams go through a shaping socket, which honours sizes and send delays.
    pub(crate) fn has_shaping_socket(&self) -> bool {
        self.has_shaping && self.state().shaping.as_ref().is_some_and(|shaping| shaping.writer.is_wired())
    }

    /// The stack itself makes packets as small as a controller asks: what it counts are real bytes, and a window may be smaller than
    /// two of the largest packets.
    pub(crate) const fn sizes_packets(&self) -> bool {
        self.provided.datagram && !self.has_shaping
    }

    /// What controller `controller_id` asks of the shaping socket from here on. To be called between packets only, as [`ConnectionState::open`] is.
    pub(crate) fn request_shaping(&self, controller_id: u64, request: ShapingRequest) {
        let now = self.now();
        let mut state = self.state();
        if let Some(shaping) = &mut state.shaping {
            shaping.request(controller_id, request, now);
            self.update_tail(&mut state, now);
        }
    }

    /// Controller `controller_id` is gone.
    pub(crate) fn remove_controller(&self, controller_id: u64) {
        if let Some(shaping) = &mut self.state().shaping {
            shaping.remove_controller(controller_id);
        }
    }

    /// By how many bytes packets are trimmed now, and since when.
    pub(crate) fn trim(&self) -> (Time, usize) {
        if !self.has_shaping {
            return (Time::ZERO, 0);
        }
        self.state().shaping.as_ref().map_or((Time::ZERO, 0), Shaping::trim)
    }

    /// Sets the tail of the packets to come.
    fn update_tail(&self, state: &mut State, now: Time) {
        let frame = state.frame_len();
        if let Some(shaping) = &mut state.shaping {
            shaping.update_tail(now, frame);
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
        } else if state.negotiated.timestamps.sends {
            let frame = Timestamp::at(now, state.own_exponent);
            if !self.extension.datagrams {
                // Once in hours it grows, and the room made before is too small: that one packet goes without.
                state.timestamp_len = frame.encoded_len();
            }
            frame.encode(room)
        } else {
            let echo = state.paths.at(path).echo;
            let frame = SyncTimestamp {
                sent: fathom_frames::sync_timestamp::stamp(now),
                echo: echo.filter(|_| state.negotiated.sync.echoes),
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
    /// [`ConnectionState::set_ack_delay_exponent`], [`ConnectionState::append_parameters`] and [`ConnectionState::negotiate`] during the handshake, [`ConnectionState::frame_room`] and [`ConnectionState::finish_packet`]
    /// for each 1-RTT packet it builds, [`ConnectionState::on_packet_received`] for each it has opened ([`ConnectionState::on_early_packet_received`] for those before 1-RTT), and
    /// starts a [`ControllerDriver`](crate::ControllerDriver) per network path. All its 1-RTT packets share one packet number space, which is path 0.
    ///
    /// # Errors
    /// The stack lacks what the configuration's controllers need, or the extension is off and they need one-way delay.
    pub fn for_stack(setup: ConnectionConfig, provided: Capabilities) -> Result<Arc<Self>, PluginError> {
        if let Some(controller_config) = &setup.controller_config {
            controller_config
                .check(provided)
                .map_err(|missing| PluginError::Missing { missing, shaping_socket_suffices: false })?;
            if setup.extension.is_off() && controller_config.required().one_way {
                return Err(PluginError::ExtensionOff(controller_config.name()));
            }
        }
        Ok(Arc::new(Self::build(setup, provided, None)))
    }

    /// A view for the application.
    pub fn monitor(self: &Arc<Self>) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(self))
    }

    /// Bytes to hold free for our frame in the 1-RTT packet being built; `acknowledges`: an ACK frame is in it.
    pub fn frame_room(&self, acknowledges: bool) -> usize {
        if acknowledges || self.is_stamped_always() { self.reserved.load(Ordering::Relaxed) } else { 0 }
    }

    /// Every packet carries our frame, not only those with an ACK frame.
    fn is_stamped_always(&self) -> bool {
        self.stamps_every_packet.load(Ordering::Relaxed)
    }

    /// The 1-RTT packet of this number is complete but for our frame, which goes to `room` ([`ConnectionState::frame_room`] bytes, perhaps none);
    /// `ack_eliciting`: it asks for an acknowledgement.
    pub fn finish_packet(&self, packet: u64, ack_eliciting: bool, room: &mut [u8]) {
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
    /// [`NotNegotiated`]: the caller closes the connection with PROTOCOL_VIOLATION.
    pub fn on_packet_received(&self, packet: u64, payload: &mut [u8]) -> Result<usize, NotNegotiated> {
        self.open(0, packet, payload)
    }

    /// Looks for our frames in an opened Initial, Handshake or 0-RTT payload, where none may be.
    ///
    /// # Errors
    /// [`NotNegotiated`]: the caller closes the connection with PROTOCOL_VIOLATION.
    pub fn on_early_packet_received(&self, payload: &[u8]) -> Result<(), NotNegotiated> {
        if self.extension.is_off() { Ok(()) } else { check_none(payload) }
    }

    /// The path of `packet` if it was the last to be sealed with a 1-RTT key.
    pub(crate) fn path_of(&self, packet: u64) -> Option<u32> {
        self.state().sealed.filter(|(_, sealed)| *sealed == packet).map(|(path, _)| path)
    }

    // ---- packets in ----

    /// Takes our frames out of an opened payload and notes what they and its ACK frames say. Returns how many leading bytes the
    /// caller must drop.
    pub(crate) fn open(&self, path: u32, packet: u64, payload: &mut [u8]) -> Result<usize, NotNegotiated> {
        let mut state = self.state();
        if !state.reads {
            drop(state);
            // Where both extensions are off, a frame of theirs is one that nobody knows, and the stack says so.
            return self.on_early_packet_received(payload).map(|()| 0);
        }
        let lead = self.read(&mut state, path, packet, payload)?;
        if let Some(shaping) = &mut state.shaping {
            shaping.on_packet_received(path, packet);
            self.update_tail(&mut state, self.now());
        }
        Ok(lead)
    }

    /// The part of [`ConnectionState::open`] that reads the payload.
    fn read(&self, state: &mut State, path: u32, packet: u64, payload: &mut [u8]) -> Result<usize, NotNegotiated> {
        if is_one_stream_frame(payload) {
            // Nothing in it is ours or an ACK frame, so it matters to nobody here whether it is a duplicate.
            self.may_stamp(state, None, payload.len());
            return Ok(0);
        }
        let now = self.host_time();
        state.paths.carry_over_ecn();
        let mut found = IncomingFrames::default();
        if let Err(not_agreed) = found.read(payload, &state.negotiated) {
            return if self.extension.is_off() { Ok(0) } else { Err(not_agreed) };
        }
        if let Some(shaping) = state.shaping.as_mut().filter(|_| found.acks().next().is_some()) {
            shaping.on_first_ack();
        }
        // Without a stamp a duplicate says nothing new: send times are taken once, counts only grow.
        let known = state.paths.at(path);
        if !found.is_stamped() || known.on_packet_received(packet, found.stamp, now) {
            state.on_frames(now, path, &found);
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

    /// Signals of the ACK frame that the stack is processing for controller `controller_id` of `path`, once; `largest` is the largest packet
    /// acknowledged so far on that path. The delay it says is at most the one that the peer announced.
    pub(crate) fn take_signals(&self, path: u32, controller_id: u64, largest: Option<u64>) -> AckSignals {
        let mut state = self.state();
        let longest = state.max_ack_delay;
        let signals = state.paths.known(path).map(|p| p.take_signals(controller_id, largest)).unwrap_or_default();
        AckSignals { ack_delay: signals.ack_delay.min(longest), ..signals }
    }

    // ---- telemetry ----

    /// Who hears of every event, if anyone does.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Notes a controller's state after an event.
    pub(crate) fn record_metrics(&self, now: Time, controller: &dyn Controller) {
        let snapshot = controller.metrics();
        let one_way = {
            let mut state = self.state();
            state.report.controller = Some(snapshot);
            state.report.one_way
        };
        if let Some(observer) = &self.observer {
            observer.on_metrics(now, &snapshot, one_way);
        }
    }
}

impl State {
    /// Bytes of the frame that we write beside an ACK frame; 0 when we write none.
    fn frame_len(&self) -> usize {
        if self.negotiated.timestamps.sends { self.timestamp_len } else { self.negotiated.sync.frame_len() }
    }

    /// Notes when a packet leaves, if its acknowledgement will tell a delay.
    fn record(&mut self, path: u32, packet: u64, departs: Time, ack_eliciting: impl FnOnce() -> bool) {
        if self.negotiated.sync.reads || self.negotiated.timestamps.reads && ack_eliciting() {
            self.paths.at(path).sent.record(packet, departs);
        } else if self.negotiated.timestamps.reads {
            self.paths.at(path).sent.record_non_eliciting(packet, departs);
        }
    }

    fn on_frames(&mut self, now: Time, path: u32, found: &IncomingFrames) {
        self.report.stamps_received += u64::from(found.is_stamped());
        for ack in found.acks() {
            self.report.ecn = ack.ecn.or(self.report.ecn);
            self.report.acks += 1;
            self.report.longest_ack_delay = self.report.longest_ack_delay.max(ack.delay(self.exponent));
            let peer_timestamp = self.peer_timestamp(found, ack.path == path);
            // A path that was never used acknowledges nothing.
            let Some(acked) = self.paths.known(ack.path) else { continue };
            let one_way = acked.on_ack(now, ack, self.exponent, peer_timestamp);
            self.report.one_way = one_way.or(self.report.one_way);
        }
    }

    /// What a packet says for an ACK frame in it: a stamp is the peer's clock, whatever path it came on; an echo is of a packet of that
    /// path.
    fn peer_timestamp(&self, found: &IncomingFrames, same_path: bool) -> PeerTimestamp {
        match (found.stamp, found.timestamp) {
            (Some(SyncTimestamp { echo: Some(echo), .. }), _) if same_path => PeerTimestamp::Echo(echo),
            (Some(SyncTimestamp { sent, echo: None }), _) if !self.negotiated.sync.reads_echoes => {
                PeerTimestamp::Stamp(sent)
            }
            (_, Some(stamp)) => PeerTimestamp::Timestamp(stamp.micros(self.exponent), self.max_ack_delay),
            _ => PeerTimestamp::Nothing,
        }
    }
}
