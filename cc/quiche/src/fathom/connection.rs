//! Link between quiche and the plug-in, and the methods for applications.

use std::sync::Arc;
use std::time::Instant;

use fathom_plugin::{
    Clock, ConnectionConfig, ConnectionMonitor, ConnectionState, ControllerDriver, ErrorCode,
    Extension, NotNegotiated,
};

use super::ecn::Marking;
use super::{registry, simulation, PathController, PROVIDED};
use crate::path::Path;
use crate::recovery::RecoveryOps;
use crate::{Config, CongestionControlAlgorithm, Connection, Error, Result};

/// Clock of quiche itself.
struct SimulationClock;

impl Clock for SimulationClock {
    fn now(&self) -> Instant {
        simulation::now()
    }
}

impl Config {
    /// Sets the exchange of one-way delays and the observer of connections that are created from
    /// now on.
    ///
    /// Without this call, connections with a controller of ours offer SYNC_TIMESTAMP in `lean` mode
    /// and TIMESTAMP, and other connections offer nothing. The controller is the one set by
    /// [`Config::set_cc_algorithm_name`] or [`Config::set_cc_algorithm`], and the argument's
    /// `controller_config` is ignored.
    ///
    /// ```
    /// use quiche::fathom::{ConnectionConfig, Extension, Offer};
    /// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    /// // Stamps every packet under stock's CUBIC: the peer's controller gets delays.
    /// let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
    /// config.set_fathom(ConnectionConfig { extension, ..ConnectionConfig::default() });
    /// # Ok::<(), quiche::Error>(())
    /// ```
    pub fn set_fathom(&mut self, setup: ConnectionConfig) {
        self.fathom = Some(setup);
    }
}

/// Delivery state of the data that a stream sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDelivery {
    /// Some data are not acknowledged yet, or the end was not written.
    Open,
    /// The peer has acknowledged all data and the end.
    Acknowledged,
    /// The peer stopped the stream, or this side shut it down.
    Reset,
    /// Both halves of the stream are closed and no state is left, or the stream never existed.
    Forgotten,
}

impl<F: crate::BufFactory> Connection<F> {
    /// Returns the delivery state of the data that the stream sends. quiche does not forget a
    /// stream that the peer has stopped until the stream is used again. An application that calls
    /// this after every [`Connection::recv`], before anything else, thus never misses
    /// [`StreamDelivery::Reset`].
    pub fn stream_delivery(&self, stream: u64) -> StreamDelivery {
        match self.streams.get(stream).map(|stream| &stream.send) {
            None => StreamDelivery::Forgotten,
            Some(send) if send.is_stopped() || send.is_shutdown() => StreamDelivery::Reset,
            Some(send) if send.is_complete() => StreamDelivery::Acknowledged,
            Some(_) => StreamDelivery::Open,
        }
    }

    /// Returns the number of bytes in flight on the active path. Also returns whether flow control
    /// permits data that wait for the window, for pacing, or for the next call of
    /// [`Connection::send`]. Returns `None` without an active path.
    pub fn send_state(&self) -> Option<(u64, bool)> {
        let path = self.paths.get_active().ok()?;
        let waits = self.streams.has_flushable() || !self.dgram_send_queue.is_empty();
        Some((path.recovery.bytes_in_flight() as u64, waits))
    }

    /// Returns a view of the one-way delays and the controller's state; `None` if neither the
    /// extension nor a controller of ours is in use.
    pub fn fathom(&self) -> Option<ConnectionMonitor> {
        self.fathom.state.as_ref().map(ConnectionState::monitor)
    }

    /// Sets the ECN field (0 to 3, as in the IP header) of the datagram that is passed to the next
    /// [`Connection::recv`]. The value remains valid until it is set again.
    pub fn set_received_ecn(&mut self, codepoint: u8) {
        self.fathom.received_ecn = codepoint & 3;
    }

    /// Returns the ECN field for the datagram that [`Connection::send`] returned last: 2 (ECT(0)), 1
    /// (ECT(1), for controllers that need it), or 0.
    pub fn ecn_to_send(&self) -> u8 {
        let drops_marked = || {
            self.paths
                .get_active()
                .is_ok_and(|p| p.recovery.fathom().is_some_and(PathController::drops_marked))
        };
        if self.fathom.has_controller() && !drops_marked() {
            self.fathom.marking.codepoint()
        } else {
            0
        }
    }
}

/// State of the plug-in in a connection.
#[derive(Default)]
pub(crate) struct ConnectionPlugin {
    state: Option<Arc<ConnectionState>>,
    setup: Option<ConnectionConfig>,
    pub(crate) marking: Marking,
    pub(crate) received_ecn: u8,
    /// The ack_delay_exponent sent to the peer.
    exponent: u8,
}

impl ConnectionPlugin {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let controller_config = registry::controller_config(config.cc_algorithm);
        let setup = match &config.fathom {
            Some(setup) => setup.clone(),
            None if controller_config.is_some() => {
                ConnectionConfig { clock: Arc::new(SimulationClock), ..ConnectionConfig::default() }
            }
            None => return Ok(Self::default()),
        };
        let mut marking = Marking::default();
        marking.set_l4s(controller_config.as_ref().is_some_and(|c| c.required().l4s));
        let setup = ConnectionConfig { controller_config, ..setup };
        let state = Some(state(setup.clone())?);
        Ok(Self { state, setup: Some(setup), marking, ..Self::default() })
    }

    /// Handles a change of the algorithm by the application during the handshake. Our transport
    /// parameters can no longer change. If they did not offer one-way delays, a controller of ours
    /// that is chosen now gets none.
    pub(crate) fn change_algorithm(&mut self, algorithm: CongestionControlAlgorithm) -> Result<()> {
        let controller_config = registry::controller_config(algorithm);
        let setup = match (&self.setup, controller_config) {
            (None, None) => return Ok(()),
            (None, controller_config) => ConnectionConfig {
                controller_config,
                clock: Arc::new(SimulationClock),
                extension: Extension::OFF,
                ..ConnectionConfig::default()
            },
            (Some(setup), controller_config) => {
                let same = match (&setup.controller_config, &controller_config) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                if same {
                    return Ok(());
                }
                ConnectionConfig { controller_config, ..setup.clone() }
            }
        };
        let l4s = setup.controller_config.as_ref().is_some_and(|c| c.required().l4s);
        self.marking.set_l4s(l4s);
        let state = state(setup.clone())?;
        state.set_ack_delay_exponent(self.exponent);
        self.state = Some(state);
        self.setup = Some(setup);
        Ok(())
    }

    fn has_controller(&self) -> bool {
        self.setup.as_ref().is_some_and(|setup| setup.controller_config.is_some())
    }

    /// Gives a new path its controller, if it is one of ours.
    pub(crate) fn start_controller(&self, path: &mut Path, now: Instant) {
        let Some(state) = self.state.as_ref().filter(|_| self.has_controller()) else { return };
        // During MTU discovery, the size in `recovery` is the one that is still being probed.
        let datagram = path
            .pmtud
            .as_ref()
            .map_or(path.recovery.max_datagram_size(), |pmtud| pmtud.get_current_mtu());
        let datagram = u16::try_from(datagram).unwrap_or(u16::MAX);
        path.recovery.set_fathom(Box::new(PathController::new(ControllerDriver::start(
            Arc::clone(state),
            Some(0),
            now,
            datagram,
        ))));
    }

    /// Returns the extension's encoded transport parameters, which are empty if no extension is
    /// offered. `exponent` is the ack_delay_exponent that is sent with them.
    pub(crate) fn transport_parameters(&mut self, exponent: u64) -> Vec<u8> {
        self.exponent = match exponent {
            // Stock does not send 0, so the peer assumes the default.
            0 => 3,
            // A peer closes the connection if the exponent is too large.
            _ => u8::try_from(exponent).unwrap_or(u8::MAX),
        };
        let mut transport_parameters = Vec::new();
        if let Some(state) = &self.state {
            state.set_ack_delay_exponent(self.exponent);
            state.append_parameters(&mut transport_parameters);
        }
        transport_parameters
    }

    /// Reads the peer's transport parameters.
    ///
    /// A peer without the extension is accepted, even if the controller needs the extension. Here,
    /// the controller is only one setting of a server that must answer every browser. Without
    /// delays, `sync` never reduces its window early and behaves like Reno. The log and the monitor
    /// report the missing delays.
    pub(crate) fn negotiate(&self, raw: &[u8]) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        match state.negotiate(raw) {
            Err(error) if error.code == ErrorCode::ConnectionRefused => {
                log::info!(
                    "{}; without the extension, the controller gets no delays",
                    error.reason
                );
                Ok(())
            }
            Err(error) => {
                log::warn!("{}", error.reason);
                Err(Error::InvalidTransportParam)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns the number of bytes to reserve for the timestamp frame in the 1-RTT packet being
    /// built.
    pub(crate) fn frame_room(&self, acknowledges: bool) -> usize {
        self.state.as_ref().map_or(0, |state| state.frame_room(acknowledges))
    }

    /// Completes a 1-RTT packet. The timestamp frame is written into the last `room` bytes of
    /// `payload`, or the payload's ACK frame is extended into them.
    pub(crate) fn finish_packet(
        &self,
        packet: u64,
        ack_eliciting: bool,
        payload: &mut [u8],
        room: usize,
    ) {
        if let Some(state) = &self.state {
            state.finish_packet(packet, ack_eliciting, payload, room);
        }
    }

    /// Removes the timestamp frames from an opened payload, of a 1-RTT packet (`short`) or of an
    /// earlier packet. Returns the number of leading bytes to drop.
    pub(crate) fn on_packet_received(
        &self,
        packet: u64,
        short: bool,
        payload: &mut [u8],
    ) -> Result<usize> {
        let Some(state) = &self.state else { return Ok(0) };
        let lead = if short {
            state.on_packet_received(packet, payload)
        } else {
            state.on_early_packet_received(payload).map(|()| 0)
        };
        // On the wire, this error is PROTOCOL_VIOLATION.
        lead.map_err(|NotNegotiated| {
            log::warn!("a packet contains a timestamp that was not negotiated");
            Error::InvalidPacket
        })
    }
}

fn state(setup: ConnectionConfig) -> Result<Arc<ConnectionState>> {
    ConnectionState::for_stack(setup, PROVIDED).map_err(|e| {
        log::error!("congestion control: {e}");
        Error::CongestionControl
    })
}
