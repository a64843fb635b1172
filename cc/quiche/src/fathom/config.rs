//! A connection's link to the plug-in, and what applications call.

use std::sync::Arc;
use std::time::Instant;

use fathom_plugin::{Clock, Code, ConnectionMonitor, ConnectionState, ControllerDriver, Extension, NotAgreed, Setup};

use super::ecn::Marking;
use super::{registry, world, Steering, OFFERS};
use crate::path::Path;
use crate::recovery::RecoveryOps;
use crate::{Config, CongestionControlAlgorithm, Connection, Error, Result};

/// quiche's own clock.
struct WorldClock;

impl Clock for WorldClock {
    fn now(&self) -> Instant {
        world::now()
    }
}

impl Config {
    /// How connections made from here on exchange one-way delays, and who observes them. Without it, connections with a controller of
    /// ours offer SYNC_TIMESTAMP in `lean` mode and TIMESTAMP, and others offer nothing. The controller is that of
    /// [`Config::set_cc_algorithm_name`] or [`Config::set_cc_algorithm`]; `setup.configuration` is not looked at.
    ///
    /// ```
    /// use quiche::fathom::{Extension, Offer, Setup};
    /// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    /// // Every packet stamped, under stock's CUBIC: the peer's controller hears delays, ours does not need them.
    /// let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
    /// config.set_fathom(Setup { extension, ..Setup::default() });
    /// # Ok::<(), quiche::Error>(())
    /// ```
    pub fn set_fathom(&mut self, setup: Setup) {
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
    /// What became of what the stream sends. Until it is asked for something after its peer has stopped it, a stream is not forgotten: where
    /// this is called after every [`Connection::recv`] and before anything else, [`StreamDelivery::Reset`] is not missed.
    pub fn stream_delivery(&self, stream: u64) -> StreamDelivery {
        match self.streams.get(stream).map(|stream| &stream.send) {
            None => StreamDelivery::Forgotten,
            Some(send) if send.is_stopped() || send.is_shutdown() => StreamDelivery::Reset,
            Some(send) if send.is_complete() => StreamDelivery::Acknowledged,
            Some(_) => StreamDelivery::Open,
        }
    }

    /// One-way delays and the controller's state; `None` where neither the extension nor a controller of ours is in use.
    pub fn fathom(&self) -> Option<ConnectionMonitor> {
        self.fathom.cell.as_ref().map(ConnectionState::probe)
    }

    /// The ECN field (0 to 3, as in the IP header) of the datagram that [`Connection::recv`] is given next. It stays until set again.
    pub fn set_received_ecn(&mut self, codepoint: u8) {
        self.fathom.received_ecn = codepoint & 3;
    }

    /// The ECN field for the datagram that [`Connection::send`] returned last: 2, ECT(0), or 0.
    pub fn ecn_to_send(&self) -> u8 {
        let drops_marked =
            || self.paths.get_active().is_ok_and(|p| p.recovery.fathom().is_some_and(Steering::drops_marked));
        if self.fathom.is_steered() && !drops_marked() {
            self.fathom.marking.codepoint()
        } else {
            0
        }
    }
}

/// What a connection holds of the plug-in.
#[derive(Default)]
pub(crate) struct Link {
    cell: Option<Arc<ConnectionState>>,
    setup: Option<Setup>,
    pub(crate) marking: Marking,
    pub(crate) received_ecn: u8,
    /// The ack_delay_exponent that the peer was told.
    exponent: u8,
}

impl Link {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let controller_config = registry::controller_config(config.cc_algorithm);
        let setup = match &config.fathom {
            Some(setup) => setup.clone(),
            None if controller_config.is_some() => Setup { clock: Arc::new(WorldClock), ..Setup::default() },
            None => return Ok(Self::default()),
        };
        let setup = Setup { controller_config, ..setup };
        Ok(Self { cell: Some(cell(setup.clone())?), setup: Some(setup), ..Self::default() })
    }

    /// The application chose another algorithm during the handshake. Our transport parameter cannot follow any more, so a controller of
    /// ours that comes late goes without one-way delays where none were offered.
    pub(crate) fn change(&mut self, algorithm: CongestionControlAlgorithm) -> Result<()> {
        let controller_config = registry::controller_config(algorithm);
        let setup = match (&self.setup, controller_config) {
            (None, None) => return Ok(()),
            (None, controller_config) => {
                Setup { controller_config, clock: Arc::new(WorldClock), extension: Extension::OFF, ..Setup::default() }
            }
            (Some(setup), controller_config) => {
                let same = match (&setup.controller_config, &controller_config) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                if same {
                    return Ok(());
                }
                Setup { controller_config, ..setup.clone() }
            }
        };
        let cell = cell(setup.clone())?;
        cell.scale_by(self.exponent);
        self.cell = Some(cell);
        self.setup = Some(setup);
        Ok(())
    }

    fn is_steered(&self) -> bool {
        self.setup.as_ref().is_some_and(|setup| setup.controller_config.is_some())
    }

    /// Gives a new path its controller, if it is one of ours.
    pub(crate) fn steer(&self, path: &mut Path, now: Instant) {
        let Some(cell) = self.cell.as_ref().filter(|_| self.is_steered()) else { return };
        // Under discovery the size in recovery is one still to be tried.
        let datagram = path.pmtud.as_ref().map_or(path.recovery.max_datagram_size(), |pmtud| pmtud.get_current_mtu());
        let datagram = u16::try_from(datagram).unwrap_or(u16::MAX);
        path.recovery.set_fathom(Box::new(Steering::new(ControllerDriver::start(
            Arc::clone(cell),
            Some(0),
            now,
            datagram,
        ))));
    }

    /// Our transport parameters, encoded; nothing where no extension is offered. `exponent` is the ack_delay_exponent that goes with them.
    pub(crate) fn parameters(&mut self, exponent: u64) -> Vec<u8> {
        self.exponent = match exponent {
            // Stock leaves it out, and the peer takes it for the default.
            0 => 3,
            // A peer closes on one that is too large.
            _ => u8::try_from(exponent).unwrap_or(u8::MAX),
        };
        let mut parameters = Vec::new();
        if let Some(cell) = &self.cell {
            cell.scale_by(self.exponent);
            cell.append_parameters(&mut parameters);
        }
        parameters
    }

    /// Reads the peer's transport parameters.
    ///
    /// A peer without the extension is not refused, whatever the controller needs: here the controller is a word in the settings of a
    /// server that must answer every browser. Without delays `sync` never cuts early, and is Reno; the log and the probe say so.
    pub(crate) fn negotiate(&self, raw: &[u8]) -> Result<()> {
        let Some(cell) = &self.cell else { return Ok(()) };
        match cell.negotiate(raw) {
            Err(fault) if fault.code == Code::ConnectionRefused => {
                log::info!("{}; until then it hears of no delay", fault.reason);
                Ok(())
            }
            Err(fault) => {
                log::warn!("{}", fault.reason);
                Err(Error::InvalidTransportParam)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Bytes to hold free for our frame in the 1-RTT packet being built.
    pub(crate) fn room(&self, acknowledges: bool) -> usize {
        self.cell.as_ref().map_or(0, |cell| cell.room(acknowledges))
    }

    /// The 1-RTT packet is complete but for our frame, which goes to `room`.
    pub(crate) fn leave(&self, packet: u64, ack_eliciting: bool, room: &mut [u8]) {
        if let Some(cell) = &self.cell {
            cell.leave(packet, ack_eliciting, room);
        }
    }

    /// Takes our frames out of an opened payload, of 1-RTT (`short`) or before; how many leading bytes to drop.
    pub(crate) fn arrive(&self, packet: u64, short: bool, payload: &mut [u8]) -> Result<usize> {
        let Some(cell) = &self.cell else { return Ok(0) };
        let lead = if short { cell.arrive(packet, payload) } else { cell.arrive_early(payload).map(|()| 0) };
        // On the wire this is PROTOCOL_VIOLATION.
        lead.map_err(|NotAgreed| {
            log::warn!("a packet holds a timestamp where none was agreed");
            Error::InvalidPacket
        })
    }
}

fn cell(setup: Setup) -> Result<Arc<ConnectionState>> {
    ConnectionState::for_stack(setup, OFFERS).map_err(|e| {
        log::error!("congestion control: {e}");
        Error::CongestionControl
    })
}
