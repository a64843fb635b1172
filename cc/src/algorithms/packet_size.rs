//! Adaptive packet size (Wilson: "An Adaptive Packet Size Approach to TCP Congestion Control", MSc
//! thesis, University of British Columbia, 2008), a wrapper around any other controller.
//!
//! If the window holds only a few packets, loss recovery fails and flows starve (Packet size §1.4).
//! With smaller packets, the same window holds more of them. The wrapped controller sets the
//! window; the wrapper sets the datagram size.
//!
//! # Departures
//! The thesis compares fixed sizes and does not define a rule. The rule here is
//! Fathom's own:
//! - The window should hold at least `packets` datagrams. If it does not, the datagram shrinks to
//!   the largest of the sizes 1000, 750, 500 and 250 bytes with which it does, but not below
//!   `floor`. If none is small enough, the datagram shrinks to the smallest size.
//! - The datagram grows to the next larger size when the window has held `packets` datagrams of
//!   that size for `patience` consecutive round trips.
//! - The window is in bytes, and the wrapped controller gets the new size as a new largest
//!   datagram. Its minimum window is then two such datagrams, and it grows by one of them per round
//!   trip. Small packets therefore also slow down growth, which is the penalty of
//!   Packet size §1.2. `increase=full` keeps the growth at one full-size datagram.
//! - Every packet has about 60 bytes of headers and tag, whatever its size (IP 20 or 40, UDP 8,
//!   QUIC 10 to 30). They take 5 % of 1200 bytes, and 24 % of 250 bytes.

use std::sync::Arc;

use crate::aimd::minimum_window;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, Cause, CongestionEvent, PathChange, Sent, Start};
use crate::options::{Options as _, Values, option_values, options};
use crate::round::RoundTrip;
use crate::undo::Undo;
use crate::units::Time;

/// Sizes below the path's own, in bytes of UDP payload. The choice is Fathom's own, near the 1500,
/// 1000, 500 and 250 of Packet size §4.3.1.
pub const SIZES: [u16; 4] = [1_000, 750, 500, 250];
/// Smallest of [`SIZES`].
const SMALLEST: u64 = SIZES[SIZES.len() - 1] as u64;

option_values! {
    /// Datagram size that the wrapped controller counts in.
    pub enum Increase {
        /// The size in use.
        Scaled = "scaled",
        /// The largest size that the path carries.
        Full = "full",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "packet-size",
    summary: "Adaptive packet size: smaller packets while the window holds few; wraps another \
        controller: packet-size/sync",
    source: "Packet size §1.4",
    aliases: &[],
    options: Sizing::OPTIONS,
    required: Capabilities { datagram: true, ..Capabilities::NONE },
    wraps: Some("reno"),
    build: |parsed| {
        Arc::new(PacketSizeConfig { sizing: Sizing::read(parsed), inner: parsed.inner() })
    },
    // Below eight datagrams in the window, the datagram shrinks, down to the smallest size. Growth
    // per round trip shrinks with it.
    contract: Contract {
        one_per_round: false,
        least: |_| minimum_window(SMALLEST),
        least_on: |_| minimum_window(SMALLEST),
        ..Contract::AS_RENO
    },
    page: PAGE,
};

options! {
    /// When the datagram size changes.
    pub struct Sizing {
        /// datagrams that the window should hold
        packets: u32 = "8" in Values::Integer { min: 2, max: 64 },
        /// smallest datagram, bytes of UDP payload
        floor: u32 = "250" in Values::Integer { min: 250, max: 1_200 },
        /// round trips for which the window must hold enough datagrams of the next larger size
        /// before the size increases
        patience: u32 = "4" in Values::Integer { min: 1, max: 1_000 },
        /// size of the datagrams in which the wrapped controller counts: the current size, or the
        /// full size
        increase: Increase,
    }
}

/// The configuration `packet-size`.
#[derive(Clone, Debug)]
pub struct PacketSizeConfig {
    sizing: Sizing,
    inner: Arc<dyn ControllerConfig>,
}

impl ControllerConfig for PacketSizeConfig {
    fn name(&self) -> &'static str {
        ALGORITHM.name
    }

    fn spec(&self) -> String {
        let own = self.sizing.spec_of(ALGORITHM.name);
        match self.inner.spec() {
            inner if Some(inner.as_str()) == ALGORITHM.wraps => own,
            inner => format!("{own}/{inner}"),
        }
    }

    fn required(&self) -> Capabilities {
        Capabilities { datagram: true, ..self.inner.required() }
    }

    fn optional(&self) -> Capabilities {
        Capabilities { datagram: true, ..self.inner.optional() }
    }

    fn hint(&self) -> &'static str {
        "run this controller on a stack that honours datagram sizes ('fathom stacks' lists the \
         stacks)"
    }

    /// Checks the capabilities. If the wrapped controller lacks one, the error is the wrapped
    /// controller's own.
    fn check(&self, provided: Capabilities) -> Result<(), Missing> {
        let signals = Capabilities { datagram: true, ..Capabilities::NONE }.lacking_in(provided);
        if signals.is_none() {
            self.inner.check(provided)
        } else {
            Err(Missing { controller: self.name(), signals, hint: self.hint() })
        }
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.check(start.provided)?;
        Ok(Box::new(PacketSize {
            inner: self.inner.start(start)?,
            packets: u64::from(self.sizing.packets),
            floor: self.sizing.floor as u16,
            patience: self.sizing.patience,
            increase: self.sizing.increase,
            path: start.datagram.max(1),
            size: start.datagram.max(1),
            inner_size: start.datagram.max(1),
            round: RoundTrip::default(),
            roomy: true,
            rounds: 0,
            fresh: true,
            undo: Undo::default(),
        }))
    }
}

/// Returns the datagram size in bytes for a window: the largest available size of which the window
/// holds `packets` datagrams. The available sizes are the path's own and `SIZES`. If no size fits,
/// returns the smallest one that is not below `floor`.
pub fn fitting_size(window: u64, packets: u64, path: u16, floor: u16) -> u16 {
    let sizes = sizes(path, floor);
    sizes.clone().find(|size| window >= packets * u64::from(*size)).or(sizes.last()).unwrap_or(path)
}

/// Returns the available sizes, largest first.
fn sizes(path: u16, floor: u16) -> impl Iterator<Item = u16> + Clone {
    std::iter::once(path)
        .chain(SIZES.into_iter().filter(move |size| *size < path && *size >= floor))
}

/// The controller that adapts the packet size.
#[derive(Debug)]
pub struct PacketSize {
    inner: Box<dyn Controller>,
    packets: u64,
    floor: u16,
    patience: u32,
    increase: Increase,
    /// Largest datagram that the path carries, in bytes.
    path: u16,
    /// Current datagram size in bytes.
    size: u16,
    /// Datagram size that the wrapped controller knows.
    inner_size: u16,
    round: RoundTrip,
    /// Whether the window has held enough datagrams of the next larger size since the beginning of
    /// this round.
    roomy: bool,
    /// Number of consecutive roomy rounds.
    rounds: u32,
    /// Whether nothing has been acknowledged or lost yet, so the wrapped controller may still
    /// compute its initial window again.
    fresh: bool,
    /// Size before a loss that may prove spurious.
    undo: Undo<u16>,
}

impl PacketSize {
    /// Returns the next larger size, if there is one.
    fn larger(&self) -> Option<u16> {
        sizes(self.path, self.floor).take_while(|size| *size > self.size).last()
    }

    /// Returns whether the window holds enough datagrams of this size.
    fn holds(&self, size: u16) -> bool {
        self.inner.send_params().window >= self.packets * u64::from(size)
    }

    /// Returns the size that fits the current window.
    fn fitting(&self) -> u16 {
        fitting_size(self.inner.send_params().window, self.packets, self.path, self.floor)
    }

    fn adapt(&mut self, now: Time) {
        let fits = self.fitting();
        if fits < self.size {
            return self.change(now, fits);
        }
        let Some(larger) = self.larger() else { return };
        self.roomy &= self.holds(larger);
        if self.roomy && self.rounds >= self.patience {
            self.change(now, larger);
        }
    }

    fn end_round(&mut self) {
        self.rounds = if self.roomy { self.rounds.saturating_add(1) } else { 0 };
        self.roomy = true;
    }

    fn change(&mut self, now: Time, size: u16) {
        self.size = size;
        self.resize_inner(now);
        // Only whole round trips count towards the next change.
        self.rounds = 0;
        self.round.begin(now);
        self.roomy = self.larger().is_none_or(|larger| self.holds(larger));
    }

    /// Reports a changed datagram size to the wrapped controller. An unchanged size is not
    /// reported, because the controller may restart a growth period with every such event.
    fn resize_inner(&mut self, now: Time) {
        let counts = match self.increase {
            Increase::Scaled => self.size,
            Increase::Full => self.path,
        };
        if counts != self.inner_size {
            self.inner_size = counts;
            self.inner.on_path(now, PathChange::Datagram(counts));
        }
    }
}

impl Controller for PacketSize {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.fresh = false;
        self.inner.on_ack(acks);
        if self.round.on_ack(acks) {
            self.end_round();
        }
        self.adapt(acks.now);
    }

    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent) {
        self.fresh = false;
        let before = self.inner.send_params().window;
        self.inner.on_congestion_event(congestion_event);
        match congestion_event.cause {
            Cause::Mark => self.undo.forget(),
            Cause::Loss { .. } if self.inner.send_params().window < before => {
                self.undo.save(&self.size)
            }
            Cause::Loss { .. } => {}
        }
        self.adapt(congestion_event.now);
    }

    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.inner.on_spurious_congestion_event(now);
        if let Some(size) =
            self.undo.take().map(|size| size.min(self.fitting())).filter(|size| *size > self.size)
        {
            self.change(now, size);
        }
    }

    fn on_probe_timeout(&mut self, now: Time, count: u32) {
        self.inner.on_probe_timeout(now, count);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        match change {
            PathChange::Datagram(bytes) => {
                self.path = bytes.max(1);
                self.undo.forget();
                // Change to the fitting size directly. If the wrapped controller first got the
                // path's full size, its minimum window for the full size would remain when
                // datagrams become smaller.
                let size = if self.fresh { self.path } else { self.fitting() };
                self.change(now, size);
                self.adapt(now);
            }
            PathChange::Moved => {
                self.size = self.path;
                (self.rounds, self.roomy) = (0, true);
                self.round.restart();
                self.fresh = true;
                self.undo.forget();
                self.resize_inner(now);
                self.inner.on_path(now, change);
            }
        }
    }

    fn send_params(&self) -> SendParams {
        let params = self.inner.send_params();
        SendParams { datagram: Some(self.size), ..params }
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics { datagram: Some(self.size), ..self.inner.metrics() }
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.boxed(), undo: self.undo.clone(), ..*self })
    }
}

const PAGE: Page = Page {
    about: "`packet-size` (after Wilson's thesis) wraps any other controller and adapts the datagram size.
`packet-size/sync` wraps `sync`, and `packet-size` alone wraps `reno`. The wrapped controller sets
the window, and `packet-size` keeps at least eight datagrams in it, so that loss detection has
enough packets. The sizes are the largest size that the path carries (here 1200 bytes), 1000, 750,
500 and 250 bytes.

`packet-size` uses the largest of these sizes that fits eight times into the window. The size
decreases immediately, but increases by one step only when eight datagrams of the next larger size
have fitted into the window for four round trips.",
    departures: "The thesis compares fixed packet sizes. The rule that adapts the size is
Fathom's. The wrapped controller counts in datagrams of the current size, so its window grows more
slowly if packets are small. With `increase=full`, the wrapped controller counts in datagrams of
full size. `packet-size` needs a stack that sends datagrams of the requested size. A shaping socket
([quinn](quinn.md), [noq](noq.md)) can shrink datagrams by at most about 1030 bytes, for example
from 1392 to about 365 bytes.",
    figure: "Adaptive packet size and the scripted queue",
    to_see: "The first mark reduces the window to five packets of 1200 bytes. `packet-size` then
sends eight packets of 750 bytes instead. Five marks in a row reduce the window to 3 kB and the
datagram size to 250 bytes, so that eleven datagrams fit into the window. Afterwards the size
increases one step at a time. While packets are small, the window grows by only one small packet per
round trip.",
    weakness: "Small packets have more overhead. The headers of every packet take about 60 bytes, which
are 5 % of a packet of 1200 bytes, and 24 % of a packet of 250 bytes. If a link is limited in
packets per second and not in bytes per second, smaller packets reduce its throughput.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_datagram_size_that_fits_the_window_is_chosen() {
        for (window, size) in [
            (9_600, 1_200),
            (9_599, 1_000),
            (7_999, 750),
            (6_000, 750),
            (5_999, 500),
            (3_999, 250),
            (100, 250),
        ] {
            assert_eq!(fitting_size(window, 8, 1_200, 250), size, "{window}");
        }
        assert_eq!(fitting_size(100, 8, 1_200, 600), 750, "not below the floor");
        assert_eq!(fitting_size(100, 8, 400, 250), 250);
        assert_eq!(fitting_size(100, 8, 200, 250), 200, "a path below every size");
    }
}
