//! A connection's link to the plug-in, and what applications call.

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

/// quiche's own clock.
struct SimulationClock;

impl Clock for SimulationClock {
    fn now(&self) -> Instant {
        simulation::now()
    }
}

impl Config {
    /// How connections made from here on exchange one-way delays, and who observes them. Without it, connections with a controller of
    /// ours offer SYNC_TIMESTAMP in `lean` mode and TIMESTAMP, and others offer nothing. The controller is that of
    /// [`Config::set_cc_algorithm_name`] or [`Config::set_cc_algorithm`]; `controller_config` of the argument is ignored.
    ///
    /// ```
    /// use quiche::fathom::{ConnectionConfig, Extension, Offer};
    /// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    /// // Every packet stamped, under stock's CUBIC: the peer's controller hears delays, ours does not need them.
    /// let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
    /// config.set_fathom(ConnectionConfig { extension, ..ConnectionConfig::default() });
    /// # Ok::<(), quiche::Error>(())
    /// ```
    pub fn set_fathom(&mut self, setup: ConnectionConfig) {
        self.fathom = Some(setup);
    }
}

/// What became of what a stream sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDelivery {
    /// Some of it is not acknowledged, or its end was not written.
    Open,
    /// The peer has acknowledged all of it, and its end.
    Acknowledged,
    /// The peer stopped it, or it was shut down from here.
    Reset,
    /// Both halves of it are over, and no state is left; or there never was such a stream.
    Forgotten,
}

impl<F: crate::BufFactory> Connection<F> {
    /// What became of what the stream sends. Until it is used after its peer has stopped it, a stream is not forgotten: where
    /// this is called after every [`Connection::recv`] and before anything else, [`StreamDelivery::Reset`] is not missed.
    pub fn stream_delivery(&self, stream: u64) -> StreamDelivery {
        match self.streams.get(stream).map(|stream| &stream.send) {
            None => StreamDelivery::Forgotten,
            Some(send) if send.is_stopped() || send.is_shutdown() => StreamDelivery::Reset,
            Some(send) if send.is_complete() => StreamDelivery::Acknowledged,
            Some(_) => StreamDelivery::Open,
        }
    }

    /// Returns the bytes in flight on the path in use, and whether something waits that flow control lets out: the window, the pace, or the
    /// next call of [`Connection::send`] is what holds it back. `None` without such a path.
    pub fn send_state(&self) -> Option<(u64, bool)> {
        let path = self.paths.get_active().ok()?;
        let waits = self.streams.has_flushable() || !self.dgram_send_queue.is_empty();
        Some((path.recovery.bytes_in_flight() as u64, waits))
    }

    /// One-way delays and the controller's state; `None` where neither the extension nor a controller of ours is in use.
    pub fn fathom(&self) -> Option<ConnectionMonitor> {
        self.fathom.state.as_ref().map(ConnectionState::monitor)
    }

    /// The ECN field (0 to 3, as in the IP header) of the datagram that [`Connection::recv`] is given next. It stays until set again.
    pub fn set_received_ecn(&mut self, codepoint: u8) {
        self.fathom.received_ecn = codepoint & 3;
    }

    /// The ECN field for the datagram that [`Connection::send`] returned last: 2, ECT(0), or 0.
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

/// What a connection holds of the plug-in.
#[derive(Default)]
pub(crate) struct ConnectionPlugin {
    state: Option<Arc<ConnectionState>>,
    setup: Option<ConnectionConfig>,
    pub(crate) marking: Marking,
    pub(crate) received_ecn: u8,
    /// The ack_delay_exponent that was sent to the peer.
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
        let setup = ConnectionConfig { controller_config, ..setup };
        Ok(Self { state: Some(state(setup.clone())?), setup: Some(setup), ..Self::default() })
    }

    /// The application chose another algorithm during the handshake. Our transport parameter cannot follow any more, so a controller of
    /// ours that comes late goes without one-way delays where none were offered.
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
        // Under discovery the size in recovery is one still to be tried.
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

    /// Our transport parameters, encoded; nothing where no extension is offered. `exponent` is the ack_delay_exponent that goes with them.
    pub(crate) fn transport_parameters(&mut self, exponent: u64) -> Vec<u8> {
        self.exponent = match exponent {
            // Stock leaves it out, and the peer takes it for the default.
            0 => 3,
            // A peer closes on one that is too large.
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
    /// A peer without the extension is not refused, whatever the controller needs: here the controller is a word in the settings of a
    /// server that must answer every browser. Without delays `sync` never cuts early, and is Reno; the log and the monitor say so.
    pub(crate) fn negotiate(&self, raw: &[u8]) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        match state.negotiate(raw) {
            Err(error) if error.code == ErrorCode::ConnectionRefused => {
                log::info!("{}; until then it hears of no delay", error.reason);
                Ok(())
            }
            Err(error) => {
                log::warn!("{}", error.reason);
                Err(Error::InvalidTransportParam)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Bytes to hold free for our frame in the 1-RTT packet being built.
    pub(crate) fn frame_room(&self, acknowledges: bool) -> usize {
        self.state.as_ref().map_or(0, |state| state.frame_room(acknowledges))
    }

    /// The 1-RTT packet is complete but for our frame, which goes to the last `room` bytes of `payload`, or to its ACK frame.
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

    /// Takes our frames out of an opened payload, of 1-RTT (`short`) or before; how many leading bytes to drop.
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
        // On the wire this is PROTOCOL_VIOLATION.
        lead.map_err(|NotNegotiated| {
            log::warn!("a packet holds a timestamp where none was negotiated");
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
