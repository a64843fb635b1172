//! State that the packet keys, the session and the controllers of one connection share. Its parts
//! are behind one lock, and this module only calls them in the right order:
//!
//! - [`Negotiation`]: which timestamp frames are written and read.
//! - [`StampWriter`]: which of our packets carry a timestamp frame.
//! - [`PathSignals`]: delays and ECN counts of each path, read from the peer's ACK frames.
//! - [`Shaping`]: how a shaping socket trims and delays packets, if there is one.
//!
//! A stack calls keys and controllers one after another, under the connection's own lock. It first
//! opens a packet and then processes the packet's ACK frames. The signals of a packet are therefore
//! available when a controller takes them, and are replaced by those of the next packet. An ACK
//! frame takes the lock twice: in [`ConnectionState::open`], and in [`ConnectionState::lock`] while
//! the controller processes its batch.

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
use crate::key_counts::KeyCounts;
use crate::negotiation::Negotiation;
use crate::path_signals::PathSignals;
use crate::report::{Handshake, Observer, Report};
use crate::shaping::Shaping;
use crate::shaping_socket::TrailerWriter;
use crate::stamp_writer::StampWriter;

pub(crate) use controllers::LockedState;

/// Identity of an endpoint whose connections share a configuration.
#[derive(Clone, Default)]
pub(crate) struct EndpointId(Arc<()>);

impl EndpointId {
    /// Returns whether both values identify the same endpoint.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Shared state of one connection. Plug-ins for stacks with sessions only pass it on.
pub struct ConnectionState {
    clock: ConnectionClock,
    provided: Capabilities,
    controller_config: Option<Arc<dyn ControllerConfig>>,
    /// Identity of the endpoint; `None` unless the connection shares its configuration with others.
    endpoint: Option<EndpointId>,
    observer: Option<Arc<dyn Observer>>,
    /// Whether ACK frames are read for the report.
    monitors_acks: bool,
    room: PacketRoom,
    /// Writer of trailers if the endpoint sends through a shaping socket. [`Parts::shaping`] is set
    /// in the same case.
    trailer: Option<Arc<TrailerWriter>>,
    /// Number of controllers started so far.
    controllers: AtomicU64,
    key_counts: KeyCounts,
    parts: Mutex<Parts>,
}

/// Bytes reserved in the next 1-RTT packet, which stacks read without the lock. The values change
/// only between packets: after a packet was sealed or opened, and after a controller processed an
/// event.
#[derive(Default)]
struct PacketRoom {
    /// Bytes reserved for the timestamp frame.
    frame: AtomicUsize,
    /// Bytes reserved for the shaping socket to trim.
    tail: AtomicUsize,
    /// Whether every packet carries a timestamp frame, not only packets with an ACK frame.
    stamps_every_packet: AtomicBool,
}

/// State that the lock protects.
struct Parts {
    negotiation: Negotiation,
    stamps: StampWriter,
    signals: PathSignals,
    shaping: Option<Shaping>,
    /// Whether payloads are read: for stamps, or for delays and ECN counts in ACK frames.
    reads: bool,
    handshake: Option<Handshake>,
    /// State of the controller that processed the last event.
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

    /// Marks this connection as one that shares the configuration of `endpoint`.
    pub(crate) fn of_endpoint(mut self, endpoint: &EndpointId) -> Self {
        self.endpoint = Some(endpoint.clone());
        self
    }

    pub(crate) const fn endpoint(&self) -> Option<&EndpointId> {
        self.endpoint.as_ref()
    }

    /// Creates the state of a connection on a stack that calls the plug-in from its own code. Such
    /// a stack needs no keys or sessions of ours.
    ///
    /// Such a stack must call:
    /// - during the handshake: [`ConnectionState::set_ack_delay_exponent`],
    ///   [`ConnectionState::append_parameters`] and [`ConnectionState::negotiate`];
    /// - for each 1-RTT packet that it builds: [`ConnectionState::frame_room`] and
    ///   [`ConnectionState::finish_packet`];
    /// - for each packet that it has opened: [`ConnectionState::on_packet_received`], or before
    ///   1-RTT [`ConnectionState::on_early_packet_received`].
    ///
    /// The stack starts one [`ControllerDriver`](crate::ControllerDriver) per network path. All
    /// 1-RTT packets of the stack share one packet number space, which is path 0.
    ///
    /// # Errors
    /// Returns an error if the stack lacks capabilities that the configuration's controllers
    /// require, or if the controllers require one-way delay and the extension is off.
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

    /// Returns the counters of the packet keys.
    pub(crate) const fn key_counts(&self) -> &KeyCounts {
        &self.key_counts
    }

    pub(crate) const fn clock(&self) -> &ConnectionClock {
        &self.clock
    }

    /// Returns the observer called after every event, if there is one.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Returns a report of the connection's current state.
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
            clock_error: self.clock.error(),
            controller_name: self.controller_config.as_ref().map(|config| config.name()),
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

    /// Appends the extension's transport parameters to the stack's encoded ones.
    pub(crate) fn complete_parameters(&self, parameters: &mut Vec<u8>) {
        let negotiation = &mut self.parts.lock().negotiation;
        negotiation.read_own_parameters(parameters);
        negotiation.append_parameters(parameters);
    }

    /// Sets the ack_delay_exponent that this endpoint sends to its peer, or 3 if it sends none.
    /// TIMESTAMP frames are scaled by this exponent.
    pub fn set_ack_delay_exponent(&self, exponent: u8) {
        self.parts.lock().negotiation.set_own_exponent(exponent);
    }

    /// Appends the extension's transport parameters.
    pub fn append_parameters(&self, parameters: &mut Vec<u8>) {
        self.parts.lock().negotiation.append_parameters(parameters);
    }

    /// Reads the peer's raw transport parameters. A repeated call gives the same result.
    ///
    /// # Errors
    /// Returns an error if a parameter read here is malformed, or if the controller needs
    /// one-way delay and the peer offers no frame for it. In the latter case, the negotiation is
    /// complete, and a stack may continue.
    pub fn negotiate(&self, peers: &[u8]) -> Result<(), CloseError> {
        let now = self.clock.wire_now();
        let parts = &mut *self.parts.lock();
        parts.negotiation.on_peer_parameters(peers)?;
        // Every controller receives round-trip times, and ACK frames contain the time for which the
        // peer delayed them.
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

    /// Returns the number of bytes by which 0-RTT packets are padded, so that the room in a packet
    /// does not shrink when 1-RTT begins.
    pub(crate) fn zero_rtt_padding(&self) -> usize {
        let parts = self.parts.lock();
        if !parts.negotiation.keeps_room() {
            return 0;
        }
        parts.negotiation.longest_frame() + parts.tail()
    }

    /// Records that the TLS handshake is complete.
    pub(crate) fn on_handshake_complete(&self, suite: u16, resumed: bool) {
        self.parts.lock().handshake =
            Some(Handshake { suite, resumed, updates_sent: 0, updates_received: 0 });
    }
}

impl PacketRoom {
    /// Publishes the numbers of bytes that the parts reserve in the next packets.
    fn publish(&self, parts: &Parts) {
        self.frame.store(parts.stamps.room(), Ordering::Relaxed);
        self.tail.store(parts.tail(), Ordering::Relaxed);
    }
}

impl Parts {
    /// Returns the number of bytes in the next packet that the shaping socket trims.
    fn tail(&self) -> usize {
        self.shaping.as_ref().map_or(0, Shaping::tail)
    }

    fn trim(&self) -> (Time, usize) {
        self.shaping.as_ref().map_or((Time::ZERO, 0), Shaping::trim)
    }

    /// Sets the tail of the next packets.
    fn update_tail(&mut self, now: Time) {
        if let Some(shaping) = &mut self.shaping {
            shaping.update_tail(now, self.stamps.frame_len(&self.negotiation));
        }
    }
}
