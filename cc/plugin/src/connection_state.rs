//! What the packet keys, the session and the controllers of one connection share: the parts of its state behind one lock, and no more
//! logic than their order.
//!
//! - [`Negotiation`]: which frames are written and read.
//! - [`StampWriter`]: which of our packets carry a frame.
//! - [`PathSignals`]: what the peer's ACK frames say of each path.
//! - [`Shaping`]: how a shaping socket trims packets and keeps them back, if there is one.
//!
//! A stack calls keys and controllers under the connection's own lock, one after the other: a packet is opened, then its ACK frames are
//! processed. So a packet's signals are here when a controller takes them, and the next packet replaces them. An ACK takes the lock
//! twice: in [`ConnectionState::open`], and in [`ConnectionState::lock`] while its batch goes to the controller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fathom_cc::{Capabilities, ControllerConfig, ControllerMetrics, OneWayDelay, Time};
use parking_lot::{Mutex, MutexGuard};

use crate::clock::ConnectionClock;
use crate::close_error::CloseError;
use crate::core::{ConnectionConfig, Extension, PluginError};
use crate::monitor::{ConnectionMonitor, Handshake, Observer, Report};
use crate::negotiation::Negotiation;
use crate::path_signals::{AckSignals, PathSignals};
use crate::payload::{
    IncomingFrames, NotNegotiated, OutgoingFrames, check_none, is_ack_eliciting, is_one_stream_frame,
};
use crate::shaping::{Departure, Packet, Shaping, ShapingRequest};
use crate::shaping_socket::TrailerWriter;
use crate::stamp_writer::StampWriter;

/// Shared state of one connection. Plug-ins for stacks with sessions only hand it on.
pub struct ConnectionState {
    clock: ConnectionClock,
    provided: Capabilities,
    controller_config: Option<Arc<dyn ControllerConfig>>,
    observer: Option<Arc<dyn Observer>>,
    /// ACK frames are read for the report's sake.
    monitors_acks: bool,
    room: PacketRoom,
    /// The endpoint sends through a shaping socket: [`Parts::shaping`] is there.
    trailer: Option<Arc<TrailerWriter>>,
    /// Controllers started so far.
    controllers: AtomicU64,
    /// Key updates before the newest 1-RTT key that has sealed a packet, and that has opened one.
    sealed_updates: AtomicU64,
    opened_updates: AtomicU64,
    /// Packets that could not be sealed. One is enough to end the connection.
    unsealed: AtomicU64,
    parts: Mutex<Parts>,
}

/// Bytes that the next 1-RTT packet holds free, for stacks to read without the lock. They change between packets only: when one was
/// sealed or opened, and when a controller has processed an event.
#[derive(Default)]
struct PacketRoom {
    /// For our frame.
    frame: AtomicUsize,
    /// For the shaping socket to trim.
    tail: AtomicUsize,
    /// Every packet carries our frame, not only those with an ACK frame.
    stamps_every_packet: AtomicBool,
}

/// What the lock protects.
struct Parts {
    negotiation: Negotiation,
    stamps: StampWriter,
    signals: PathSignals,
    shaping: Option<Shaping>,
    /// Payloads are read: for stamps, or for what their ACK frames say of delays and ECN.
    reads: bool,
    handshake: Option<Handshake>,
    /// State of the controller that acted last.
    controller: Option<ControllerMetrics>,
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionState")
    }
}

impl ConnectionState {
    pub(crate) fn new(
        setup: ConnectionConfig,
        provided: Capabilities,
        monitors_acks: bool,
        shaping: Option<Shaping>,
    ) -> Self {
        let ConnectionConfig { controller_config, clock, extension, observer, parameter, stamp } = setup;
        let parts = Parts {
            negotiation: Negotiation::new(extension, parameter),
            stamps: StampWriter::new(stamp),
            signals: PathSignals::default(),
            shaping,
            reads: false,
            handshake: None,
            controller: None,
        };
        let room = PacketRoom::default();
        room.publish(&parts);
        Self {
            clock: ConnectionClock::start(clock),
            provided,
            controller_config,
            observer,
            monitors_acks,
            room,
            trailer: parts.shaping.as_ref().map(|shaping| Arc::clone(shaping.trailer())),
            controllers: AtomicU64::new(0),
            sealed_updates: AtomicU64::new(0),
            opened_updates: AtomicU64::new(0),
            unsealed: AtomicU64::new(0),
            parts: Mutex::new(parts),
        }
    }

    /// The state of a connection that was not wired: it offers nothing and has no controller.
    pub(crate) fn inert() -> Self {
        let setup = ConnectionConfig { extension: Extension::OFF, ..ConnectionConfig::default() };
        Self::new(setup, Capabilities::NONE, false, None)
    }

    /// A connection of a stack that carries the plug-in in its own code, and so needs no keys or sessions of ours. Such a stack calls
    /// [`ConnectionState::set_ack_delay_exponent`], [`ConnectionState::append_parameters`] and [`ConnectionState::negotiate`] during the
    /// handshake, [`ConnectionState::frame_room`] and [`ConnectionState::finish_packet`] for each 1-RTT packet it builds,
    /// [`ConnectionState::on_packet_received`] for each it has opened ([`ConnectionState::on_early_packet_received`] for those before
    /// 1-RTT), and starts a [`ControllerDriver`](crate::ControllerDriver) per network path. All its 1-RTT packets share one packet number
    /// space, which is path 0.
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
        Ok(Arc::new(Self::new(setup, provided, false, None)))
    }

    pub(crate) const fn controller_config(&self) -> Option<&Arc<dyn ControllerConfig>> {
        self.controller_config.as_ref()
    }

    pub(crate) const fn provided(&self) -> Capabilities {
        self.provided
    }

    pub(crate) const fn clock(&self) -> &ConnectionClock {
        &self.clock
    }

    /// Who is called after every event, if anyone is.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// A view for the application.
    pub fn monitor(self: &Arc<Self>) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(self))
    }

    /// How the connection stands now.
    pub(crate) fn report(&self) -> Report {
        let [updates_sent, updates_received, unsealed] =
            [&self.sealed_updates, &self.opened_updates, &self.unsealed].map(|n| n.load(Ordering::Relaxed));
        let parts = self.parts.lock();
        let (peers, peer_enable_timestamp) = parts.negotiation.peer_offers();
        let acks = parts.signals.summary();
        Report {
            negotiated: parts.negotiation.receives_delays(),
            in_use: parts.negotiation.in_use(),
            stamps_sent: parts.stamps.written(),
            stamps_received: acks.stamps_received,
            samples: parts.signals.counters(),
            one_way: acks.one_way,
            controller: parts.controller,
            peers,
            peer_enable_timestamp,
            ecn: acks.ecn,
            acks: acks.acks,
            longest_ack_delay: acks.longest_ack_delay,
            handshake: parts.handshake.map(|handshake| Handshake { updates_sent, updates_received, ..handshake }),
            unsealed,
        }
    }

    // ---- negotiation ----

    /// Adds our transport parameters to the stack's encoded ones.
    pub(crate) fn complete_parameters(&self, parameters: &mut Vec<u8>) {
        let negotiation = &mut self.parts.lock().negotiation;
        negotiation.read_own_parameters(parameters);
        negotiation.append_parameters(parameters);
    }

    /// The ack_delay_exponent that this endpoint sends its peer: 3 where it sends none. TIMESTAMP frames are scaled by it.
    pub fn set_ack_delay_exponent(&self, exponent: u8) {
        self.parts.lock().negotiation.set_own_exponent(exponent);
    }

    /// Appends our transport parameters.
    pub fn append_parameters(&self, parameters: &mut Vec<u8>) {
        self.parts.lock().negotiation.append_parameters(parameters);
    }

    /// Reads the peer's raw transport parameters. A stack may do so more than once, with the same result.
    ///
    /// # Errors
    /// Our parameter is malformed, or missing where the controller needs it. In the latter case the negotiation is complete all the same,
    /// and a stack may choose to go on.
    pub fn negotiate(&self, peers: &[u8]) -> Result<(), CloseError> {
        let now = self.clock.wire_now();
        let parts = &mut *self.parts.lock();
        parts.negotiation.on_peer_parameters(peers)?;
        // Every controller is given round-trip times, and ACK frames say how much of them the peer waited.
        parts.reads = self.controller_config.is_some()
            || self.monitors_acks
            || parts.negotiation.is_used()
            || parts.shaping.is_some();
        parts.stamps.start(&parts.negotiation, now);
        self.room.stamps_every_packet.store(parts.negotiation.stamps_every_packet(), Ordering::Relaxed);
        self.room.publish(parts);
        self.controller_config.as_deref().map_or(Ok(()), |config| parts.negotiation.check(config))
    }

    /// Bytes by which 0-RTT packets are padded, so that the room in a packet does not shrink when 1-RTT begins.
    pub(crate) fn zero_rtt_padding(&self) -> usize {
        let parts = self.parts.lock();
        if !parts.negotiation.keeps_room() {
            return 0;
        }
        parts.negotiation.longest_frame() + parts.tail()
    }

    /// TLS is over.
    pub(crate) fn on_handshake_complete(&self, suite: u16, resumed: bool) {
        self.parts.lock().handshake = Some(Handshake { suite, resumed, updates_sent: 0, updates_received: 0 });
    }

    // ---- packets out ----

    /// Bytes that the next 1-RTT packet must hold free.
    pub(crate) fn reserved(&self) -> usize {
        self.room.frame.load(Ordering::Relaxed) + self.room.tail.load(Ordering::Relaxed)
    }

    /// Writes the frame into a payload that has [`ConnectionState::reserved`] free bytes at its end, and says how the packet leaves; `datagram` is
    /// the size it would have untrimmed.
    pub(crate) fn seal(&self, path: u32, packet: u64, payload: &mut [u8], datagram: usize) -> Departure {
        let now = self.clock.now();
        let parts = &mut *self.parts.lock();
        let (room, tail) = (parts.stamps.room(), parts.tail());
        let body = payload.len().checked_sub(room + tail);
        let departure = match (&mut parts.shaping, body) {
            (Some(shaping), Some(body)) => {
                let outgoing = OutgoingFrames::read(&payload[..body]);
                shaping.depart(&Packet { path, outgoing, len: room + body, tail, datagram }, now)
            }
            _ => Departure::default(),
        };
        let departs = self.clock.wire_time(departure.release.unwrap_or(now));
        let ack_eliciting = || body.is_none_or(|body| is_ack_eliciting(&payload[..body]));
        parts.signals.on_packet_sent(&parts.negotiation, path, packet, departs, ack_eliciting);
        if let Some(body) = body {
            let kept = payload.len() - departure.trim;
            let frame = make_room(&mut payload[..kept], body, room);
            if !frame.is_empty() {
                let echo = || parts.signals.echo(path);
                parts.stamps.write(&parts.negotiation, departs, echo, frame);
            }
        }
        parts.update_tail(now);
        self.room.publish(parts);
        departure
    }

    /// Fills what the shaping socket trims off a datagram.
    pub(crate) fn write_trailer(&self, tail: &mut [u8], release: Option<Time>) {
        if let Some(trailer) = &self.trailer {
            trailer.write(tail, release.map(|at| self.clock.instant(at)));
        }
    }

    /// A packet was sealed with a key after so many updates.
    pub(crate) fn on_sealed(&self, updates: u64) {
        self.sealed_updates.fetch_max(updates, Ordering::Relaxed);
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

    /// Bytes to hold free for our frame in the 1-RTT packet being built; `acknowledges`: an ACK frame is in it.
    pub fn frame_room(&self, acknowledges: bool) -> usize {
        if acknowledges || self.room.stamps_every_packet.load(Ordering::Relaxed) {
            self.room.frame.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// The 1-RTT packet of this number is complete but for our frame, which goes to `room` ([`ConnectionState::frame_room`] bytes, perhaps none);
    /// `ack_eliciting`: it asks for an acknowledgement.
    pub fn finish_packet(&self, packet: u64, ack_eliciting: bool, room: &mut [u8]) {
        let now = self.clock.wire_now();
        let parts = &mut *self.parts.lock();
        parts.signals.on_packet_sent(&parts.negotiation, 0, packet, now, || ack_eliciting);
        if !room.is_empty() {
            // Before there is anything to echo the frame is shorter than its room; the stack's buffer is not clean.
            room.fill(0);
            let echo = || parts.signals.echo(0);
            parts.stamps.write(&parts.negotiation, now, echo, room);
            self.room.publish(parts);
        }
    }

    /// The path of `packet` if it was the last to be sealed with a 1-RTT key.
    pub(crate) fn path_of(&self, packet: u64) -> Option<u32> {
        self.parts.lock().signals.path_of(packet)
    }

    // ---- packets in ----

    /// Takes our frames out of an opened payload and records what they and its ACK frames say. Returns how many leading bytes the
    /// caller must drop.
    pub(crate) fn open(&self, path: u32, packet: u64, payload: &mut [u8]) -> Result<usize, NotNegotiated> {
        let parts = &mut *self.parts.lock();
        if !parts.reads {
            // Where both extensions are off, a frame of theirs is one that nobody knows, and the stack says so.
            return if parts.negotiation.is_off() { Ok(0) } else { check_none(payload).map(|()| 0) };
        }
        let (acknowledges, lead) = self.read(parts, path, packet, payload)?;
        if let Some(shaping) = &mut parts.shaping {
            shaping.on_packet_received(path, packet, acknowledges);
            parts.update_tail(self.clock.now());
        }
        self.room.publish(parts);
        Ok(lead)
    }

    /// The part of [`ConnectionState::open`] that reads the payload: whether an ACK frame is in it, and how many leading bytes to drop.
    fn read(
        &self,
        parts: &mut Parts,
        path: u32,
        packet: u64,
        payload: &mut [u8],
    ) -> Result<(bool, usize), NotNegotiated> {
        let bytes = payload.len();
        let wire_now = || self.clock.wire_now();
        if is_one_stream_frame(payload) {
            // Nothing in it is ours or an ACK frame, so it matters to nobody here whether it is a duplicate.
            parts.stamps.on_ack_eliciting(&parts.negotiation, bytes, None, wire_now);
            return Ok((false, 0));
        }
        let mut found = IncomingFrames::default();
        if let Err(not_negotiated) = found.read(payload, parts.negotiation.negotiated()) {
            return if parts.negotiation.is_off() { Ok((false, 0)) } else { Err(not_negotiated) };
        }
        let now = wire_now();
        let is_new = parts.signals.on_packet_received(&parts.negotiation, path, packet, now, &found);
        if is_new && found.ack_eliciting {
            parts.stamps.on_ack_eliciting(&parts.negotiation, bytes, Some(now), wire_now);
        }
        Ok((found.acks().next().is_some(), found.remove_from(payload)))
    }

    /// A packet was opened with a key after so many updates.
    pub(crate) fn on_opened(&self, updates: u64) {
        self.opened_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// Takes our frames out of an opened 1-RTT payload and records what they and its ACK frames say. Returns how many leading bytes the
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
        if self.parts.lock().negotiation.is_off() { Ok(()) } else { check_none(payload) }
    }

    // ---- controllers ----

    /// The number of the next controller.
    pub(crate) fn next_controller_id(&self) -> u64 {
        self.controllers.fetch_add(1, Ordering::Relaxed)
    }

    /// Datagrams go through a shaping socket, which honours sizes and send delays.
    pub(crate) fn has_shaping_socket(&self) -> bool {
        self.trailer.as_ref().is_some_and(|trailer| trailer.is_wired())
    }

    /// The stack itself makes packets as small as a controller asks: what it counts are real bytes, and a window may be smaller than
    /// two of the largest packets.
    pub(crate) const fn sizes_packets(&self) -> bool {
        self.provided.datagram && self.trailer.is_none()
    }

    /// By how many bytes packets are trimmed now, and since when.
    pub(crate) fn trim(&self) -> (Time, usize) {
        if self.trailer.is_some() { self.parts.lock().trim() } else { (Time::ZERO, 0) }
    }

    /// Controller `controller_id` is gone.
    pub(crate) fn remove_controller(&self, controller_id: u64) {
        if self.trailer.is_some()
            && let Some(shaping) = &mut self.parts.lock().shaping
        {
            shaping.remove_controller(controller_id);
        }
    }

    /// Locks the state for one event of a controller.
    pub(crate) fn lock(&self) -> LockedState<'_> {
        LockedState { state: self, parts: self.parts.lock() }
    }
}

/// The locked state, during one event of a controller. A stack has no packet half built meanwhile.
pub(crate) struct LockedState<'a> {
    state: &'a ConnectionState,
    parts: MutexGuard<'a, Parts>,
}

impl LockedState<'_> {
    /// How long the shaping socket kept back the first packet of `path` sealed at `sent` or later that asked for an acknowledgement; what was
    /// sealed before is forgotten.
    pub(crate) fn send_delay_of(&mut self, path: u32, sent: Time) -> Duration {
        self.parts.shaping.as_mut().map_or(Duration::ZERO, |shaping| shaping.send_delay_of(path, sent))
    }

    /// What the ACK frame said that the stack is processing for controller `controller_id` of `path`, once; `largest` is the largest packet
    /// acknowledged so far on that path.
    pub(crate) fn take_signals(&mut self, path: u32, controller_id: u64, largest: Option<u64>) -> AckSignals {
        let parts = &mut *self.parts;
        parts.signals.take(&parts.negotiation, path, controller_id, largest)
    }

    /// Datagrams go through a shaping socket, which honours sizes and send delays.
    pub(crate) fn has_shaping_socket(&self) -> bool {
        self.state.has_shaping_socket()
    }

    /// What controller `controller_id` asks of the shaping socket from here on.
    pub(crate) fn request_shaping(&mut self, controller_id: u64, request: ShapingRequest) {
        let parts = &mut *self.parts;
        if let Some(shaping) = &mut parts.shaping {
            let now = self.state.clock.now();
            shaping.request(controller_id, request, now);
            parts.update_tail(now);
            self.state.room.publish(parts);
        }
    }

    /// By how many bytes packets are trimmed now, and since when.
    pub(crate) fn trim(&self) -> (Time, usize) {
        self.parts.trim()
    }

    /// Records a controller's state after an event; the newest forward one-way delay.
    pub(crate) fn record_metrics(&mut self, metrics: ControllerMetrics) -> Option<OneWayDelay> {
        self.parts.controller = Some(metrics);
        self.parts.signals.summary().one_way
    }
}

impl PacketRoom {
    /// Shows what the parts reserve in the packets to come.
    fn publish(&self, parts: &Parts) {
        self.frame.store(parts.stamps.room(), Ordering::Relaxed);
        self.tail.store(parts.tail(), Ordering::Relaxed);
    }
}

impl Parts {
    /// Bytes of the next packet for the shaping socket to trim.
    fn tail(&self) -> usize {
        self.shaping.as_ref().map_or(0, Shaping::tail)
    }

    fn trim(&self) -> (Time, usize) {
        self.shaping.as_ref().map_or((Time::ZERO, 0), Shaping::trim)
    }

    /// Sets the tail of the packets to come.
    fn update_tail(&mut self, now: Time) {
        if let Some(shaping) = &mut self.shaping {
            shaping.update_tail(now, self.stamps.frame_len(&self.negotiation));
        }
    }
}

/// Moves the first `body` bytes of a payload to its end. What is free in front takes our frame, if it has `room`, and PADDING: it never
/// goes behind, since the last STREAM frame may have no length. The bytes for the frame.
fn make_room(payload: &mut [u8], body: usize, room: usize) -> &mut [u8] {
    match payload.len().checked_sub(body) {
        None | Some(0) => &mut [],
        Some(lead) => {
            payload.copy_within(..body, lead);
            payload[..lead].fill(0);
            &mut payload[..room]
        }
    }
}
