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

mod controllers;
mod packets;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use fathom_cc::{Capabilities, ControllerConfig, ControllerMetrics, Time};
use parking_lot::Mutex;

use crate::clock::ConnectionClock;
use crate::close_error::CloseError;
use crate::config::{ConnectionConfig, PluginError};
use crate::endpoint::SharedEndpoint;
use crate::key_counts::KeyCounts;
use crate::negotiation::Negotiation;
use crate::path_signals::PathSignals;
use crate::report::{Handshake, Observer, Report};
use crate::shaping::Shaping;
use crate::shaping_socket::TrailerWriter;
use crate::stamp_writer::StampWriter;

pub(crate) use controllers::LockedState;

/// Shared state of one connection. Plug-ins for stacks with sessions only hand it on.
pub struct ConnectionState {
    clock: ConnectionClock,
    provided: Capabilities,
    controller_config: Option<Arc<dyn ControllerConfig>>,
    /// The endpoint whose configuration it shares with others, if it does.
    endpoint: Option<Arc<SharedEndpoint>>,
    observer: Option<Arc<dyn Observer>>,
    /// ACK frames are read for the report's sake.
    monitors_acks: bool,
    room: PacketRoom,
    /// The endpoint sends through a shaping socket: [`Parts::shaping`] is there.
    trailer: Option<Arc<TrailerWriter>>,
    /// Controllers started so far.
    controllers: AtomicU64,
    key_counts: KeyCounts,
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
        let ConnectionConfig { controller_config, clock, extension, observer, parameter, stamp } =
            setup;
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
            endpoint: None,
            observer,
            monitors_acks,
            room,
            trailer: parts.shaping.as_ref().map(|shaping| Arc::clone(shaping.trailer())),
            controllers: AtomicU64::new(0),
            key_counts: KeyCounts::default(),
            parts: Mutex::new(parts),
        }
    }

    /// As one that shares the configuration of `endpoint`.
    pub(crate) fn of_endpoint(mut self, endpoint: &Arc<SharedEndpoint>) -> Self {
        self.endpoint = Some(Arc::clone(endpoint));
        self
    }

    pub(crate) const fn endpoint(&self) -> Option<&Arc<SharedEndpoint>> {
        self.endpoint.as_ref()
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
    pub fn for_stack(
        setup: ConnectionConfig,
        provided: Capabilities,
    ) -> Result<Arc<Self>, PluginError> {
        if let Some(controller_config) = &setup.controller_config {
            controller_config.check(provided).map_err(|missing| PluginError::Missing {
                missing,
                shaping_socket_suffices: false,
            })?;
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

    /// What the packet keys count.
    pub(crate) const fn key_counts(&self) -> &KeyCounts {
        &self.key_counts
    }

    pub(crate) const fn clock(&self) -> &ConnectionClock {
        &self.clock
    }

    /// Who is called after every event, if anyone is.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// How the connection stands now.
    pub(crate) fn report(&self) -> Report {
        let parts = self.parts.lock();
        let (peers, peer_enable_timestamp, peer_receive_timestamps) =
            parts.negotiation.peer_offers();
        let acks = parts.signals.summary();
        Report {
            negotiated: parts.negotiation.negotiated().receives_delays(),
            in_use: parts.negotiation.negotiated().in_use(),
            stamps_sent: parts.stamps.written(),
            stamps_received: acks.stamps_received,
            samples: parts.signals.counters(),
            one_way: acks.one_way,
            controller: parts.controller,
            peers,
            peer_enable_timestamp,
            peer_receive_timestamps,
            ecn: acks.ecn,
            acks: acks.acks,
            longest_ack_delay: acks.longest_ack_delay,
            handshake: parts.handshake.map(|handshake| self.key_counts.complete(handshake)),
            unsealed: self.key_counts.unsealed(),
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
        self.room
            .stamps_every_packet
            .store(parts.negotiation.stamps_every_packet(), Ordering::Relaxed);
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
        self.parts.lock().handshake =
            Some(Handshake { suite, resumed, updates_sent: 0, updates_received: 0 });
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
