//! A connection's link to the plug, and what applications call.

use std::sync::Arc;
use std::time::Instant;

use fathom_plug::{Cell, Clock, Code, Extension, Flow, Probe, Setup};

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
    /// ours offer the extension in `lean` mode, and others do not offer it. The controller is that of
    /// [`Config::set_cc_algorithm_name`] or [`Config::set_cc_algorithm`]; `setup.recipe` is not looked at.
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

impl<F: crate::BufFactory> Connection<F> {
    /// One-way delays and the controller's state; `None` where neither the extension nor a controller of ours is in use.
    pub fn fathom(&self) -> Option<Probe> {
        self.fathom.cell.as_ref().map(Cell::probe)
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

/// What a connection holds of the plug.
#[derive(Default)]
pub(crate) struct Link {
    cell: Option<Arc<Cell>>,
    setup: Option<Setup>,
    pub(crate) marking: Marking,
    pub(crate) received_ecn: u8,
}

impl Link {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let recipe = registry::recipe(config.cc_algorithm);
        let setup = match &config.fathom {
            Some(setup) => setup.clone(),
            None if recipe.is_some() => Setup { clock: Arc::new(WorldClock), ..Setup::default() },
            None => return Ok(Self::default()),
        };
        let setup = Setup { recipe, ..setup };
        Ok(Self { cell: Some(cell(setup.clone())?), setup: Some(setup), ..Self::default() })
    }

    /// The application chose another algorithm during the handshake. Our transport parameter cannot follow any more, so a controller of
    /// ours that comes late goes without one-way delays where none were offered.
    pub(crate) fn change(&mut self, algorithm: CongestionControlAlgorithm) -> Result<()> {
        let recipe = registry::recipe(algorithm);
        let setup = match (&self.setup, recipe) {
            (None, None) => return Ok(()),
            (None, recipe) => {
                let extension = Extension { offer: None, ..Extension::default() };
                Setup { recipe, clock: Arc::new(WorldClock), extension, ..Setup::default() }
            }
            (Some(setup), recipe) => {
                let same = match (&setup.recipe, &recipe) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                if same {
                    return Ok(());
                }
                Setup { recipe, ..setup.clone() }
            }
        };
        self.cell = Some(cell(setup.clone())?);
        self.setup = Some(setup);
        Ok(())
    }

    fn is_steered(&self) -> bool {
        self.setup.as_ref().is_some_and(|setup| setup.recipe.is_some())
    }

    /// Gives a new path its controller, if it is one of ours.
    pub(crate) fn steer(&self, path: &mut Path, now: Instant) {
        let Some(cell) = self.cell.as_ref().filter(|_| self.is_steered()) else { return };
        // Under discovery the size in recovery is one still to be tried.
        let datagram = path.pmtud.as_ref().map_or(path.recovery.max_datagram_size(), |pmtud| pmtud.get_current_mtu());
        let datagram = u16::try_from(datagram).unwrap_or(u16::MAX);
        path.recovery.set_fathom(Box::new(Steering::new(Flow::start(Arc::clone(cell), Some(0), now, datagram))));
    }

    /// Our transport parameter, encoded; nothing where the extension is not offered.
    pub(crate) fn parameter(&self) -> Vec<u8> {
        let mut parameter = Vec::new();
        if let Some(cell) = &self.cell {
            cell.append_parameter(&mut parameter);
        }
        parameter
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
    pub(crate) fn leave(&self, packet: u64, room: &mut [u8]) {
        if let Some(cell) = &self.cell {
            cell.leave(packet, room);
        }
    }

    /// Takes our frames out of an opened 1-RTT payload; how many leading bytes to drop.
    pub(crate) fn arrive(&self, packet: u64, payload: &mut [u8]) -> usize {
        self.cell.as_ref().map_or(0, |cell| cell.arrive(packet, payload))
    }
}

fn cell(setup: Setup) -> Result<Arc<Cell>> {
    Cell::for_stack(setup, OFFERS).map_err(|e| {
        log::error!("congestion control: {e}");
        Error::CongestionControl
    })
}
