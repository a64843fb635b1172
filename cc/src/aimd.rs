//! The window that every controller holds and steers: additive increase, multiplicative decrease, in bytes.
//!
//! It keeps the rules of RFC 9002 §7 that no controller may break (minimum window, one reaction per recovery period, persistent
//! congestion, no growth while the application is the limit) and offers growth and cuts as small steps. A controller asks
//! [`Aimd::on_ack`] how many bytes may count as growth and then picks one `grow_*` function, or cuts.
//!
//! Departures from RFC 9002:
//! - Slow start stops exactly at the threshold; what an ACK acknowledges beyond it counts as avoidance (RFC 9002 §B.5 overshoots).
//! - Avoidance divides by the window at the beginning of a round (one window of acknowledged bytes), so a round adds exactly the
//!   datagrams requested; RFC 9002 §B.5 divides by the window of the moment and loses a little. Remainders of a byte are carried
//!   through a round.
//! - A cut never leaves the threshold below the minimum window (RFC 9002 §B.6 allows it; it makes no difference to growth).
//! - A spurious reduction can be undone (the RFC leaves it out), unless the window has outgrown it since, as RFC 9438 §4.9.2 has it;
//!   marks are never spurious.
//! - A window ceiling of 1 TiB keeps all arithmetic far from overflow.

use crate::controller::{ControllerMetrics, Phase};
use crate::event::{AckEvent, Cause, CongestionEvent, Start};
use crate::hystart::{self, CSS_GROWTH_DIVISOR, Growth, HyStart};
use crate::undo::Undo;
use crate::units::{Ratio, Time};

/// No window grows beyond this many bytes (1 TiB: 100 Gbps for 88 s).
pub const MAX_WINDOW: u64 = 1 << 40;

/// Initial window in datagrams, as long as that is not more than [`INITIAL_BYTES`] (RFC 9002 §7.2).
pub const INITIAL_DATAGRAMS: u64 = 10;
/// Initial window in bytes beyond which two datagrams are the bound (RFC 9002 §7.2).
pub const INITIAL_BYTES: u64 = 14_720;
/// Minimum window in datagrams (RFC 9002 §7.2).
pub const MINIMUM_DATAGRAMS: u64 = 2;

/// Initial window in bytes for datagrams of `datagram` bytes: min(10 * size, max(14720, 2 * size)) (RFC 9002 §7.2).
pub const fn initial_window(datagram: u64) -> u64 {
    let minimum = minimum_window(datagram);
    let bound = if minimum > INITIAL_BYTES { minimum } else { INITIAL_BYTES };
    let wanted = INITIAL_DATAGRAMS * datagram;
    if wanted < bound { wanted } else { bound }
}

/// Minimum window in bytes: two datagrams (RFC 9002 §7.2).
pub const fn minimum_window(datagram: u64) -> u64 {
    MINIMUM_DATAGRAMS * datagram
}

/// Bytes that slow start may still add below `threshold`, of `acked` acknowledged ones (RFC 9002 §7.3.1).
pub const fn slow_start_step(window: u64, threshold: Option<u64>, acked: u64) -> u64 {
    match threshold {
        None => acked,
        Some(threshold) => {
            let room = threshold.saturating_sub(window);
            if acked < room { acked } else { room }
        }
    }
}

/// The window after a cut to `factor`, in bytes, not below the minimum.
pub fn cut_window(window: u64, factor: Ratio, minimum: u64) -> u64 {
    factor.of(window).max(minimum)
}

/// A controller's window in bytes.
#[derive(Clone, Debug)]
pub struct Aimd {
    state: State,
    datagram: u64,
    /// Packets sent before this belong to another path (RFC 9000 §9.4).
    path_start: Time,
    /// Nothing was acknowledged or lost yet: the window is still the initial one.
    fresh: bool,
    undo: Undo<State>,
    hystart: Option<HyStart>,
    /// What HyStart++ says of the ACK frame at hand.
    growth: Growth,
    reductions: u64,
    early_reductions: u64,
}

/// Everything a reduction changes.
#[derive(Clone, Debug)]
struct State {
    window: u64,
    threshold: Option<u64>,
    /// Only packets sent from here on make the window grow or shrink: the instant after a recovery period began.
    counts_from: Time,
    /// No packet sent after the recovery period began is acknowledged yet.
    recovering: bool,
    round: Round,
}

impl State {
    fn cut(&mut self, factor: Ratio, minimum: u64) {
        self.cut_to(cut_window(self.window, factor, minimum));
    }

    fn cut_to(&mut self, window: u64) {
        self.window = window;
        self.threshold = Some(window);
        self.round = Round::default();
    }
}

/// One window of acknowledged bytes, over which additive growth is spread.
#[derive(Clone, Debug, Default)]
struct Round {
    /// The window when the round began, in bytes.
    base: u64,
    /// Bytes still to be acknowledged in this round.
    left: u64,
    carry: Carry,
}

/// The fraction of a byte that growth has earned and not yet given out.
#[derive(Clone, Debug, Default)]
struct Carry {
    num: u128,
    den: u128,
}

impl Carry {
    /// Whole bytes in `num / den` plus what was left before. A fraction of another rule is dropped: it is less than one byte.
    fn take(&mut self, num: u128, den: u128) -> u64 {
        if self.den != den {
            *self = Self { num: 0, den };
        }
        let total = self.num + num;
        self.num = total % den;
        u64::try_from(total / den).unwrap_or(u64::MAX)
    }
}

impl Aimd {
    /// The initial window of a new path.
    pub fn new(start: &Start) -> Self {
        let datagram = u64::from(start.datagram.max(1));
        Self {
            state: State {
                window: initial_window(datagram),
                threshold: None,
                counts_from: start.now,
                recovering: false,
                round: Round::default(),
            },
            datagram,
            path_start: start.now,
            fresh: true,
            undo: Undo::default(),
            hystart: None,
            growth: Growth::Full,
            reductions: 0,
            early_reductions: 0,
        }
    }

    /// With HyStart++ on its first slow start, or without.
    #[must_use]
    pub fn with_hystart(self, hystart: hystart::Use) -> Self {
        let hystart = match hystart {
            hystart::Use::On => Some(HyStart::new(self.path_start)),
            hystart::Use::Off => None,
        };
        Self { hystart, ..self }
    }

    /// Window in bytes.
    pub const fn window(&self) -> u64 {
        self.state.window
    }

    /// Smallest window in bytes.
    pub const fn minimum(&self) -> u64 {
        minimum_window(self.datagram)
    }

    /// Datagram size in bytes.
    pub const fn datagram(&self) -> u64 {
        self.datagram
    }

    /// Slow-start threshold in bytes, once there is one.
    pub const fn threshold(&self) -> Option<u64> {
        self.state.threshold
    }

    /// The window lies below the threshold, or there is no threshold yet (RFC 9002 §7.3.1).
    pub fn in_slow_start(&self) -> bool {
        self.state.threshold.is_none_or(|threshold| self.state.window < threshold)
    }

    /// A recovery period runs (RFC 9002 §7.3.2).
    pub const fn in_recovery(&self) -> bool {
        self.state.recovering
    }

    /// Phase in the terms of RFC 9002 §7.3.
    pub fn phase(&self) -> Phase {
        if self.in_recovery() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::SlowStart
        } else {
            Phase::Avoidance
        }
    }

    /// Telemetry of the window; the controller adds what else it knows.
    pub fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            window: self.window(),
            threshold: self.threshold(),
            phase: self.phase(),
            queueing: None,
            hold: None,
            datagram: None,
            reductions: self.reductions,
            early_reductions: self.early_reductions,
        }
    }

    /// Takes note of an ACK frame and gives the bytes that may count as growth: those of packets sent after the last reaction
    /// (RFC 9002 §7.3.2), and none while the application is the limit (RFC 9002 §7.8).
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> u64 {
        self.fresh = false;
        let mut bytes = 0_u64;
        for packet in acks.packets.iter().filter(|p| p.sent >= self.state.counts_from) {
            bytes = bytes.saturating_add(packet.bytes);
            self.state.recovering = false;
        }
        self.watch_slow_start(acks);
        if acks.app_limited { 0 } else { bytes }
    }

    /// HyStart++ on the first slow start (RFC 9406 §4.2).
    fn watch_slow_start(&mut self, acks: &AckEvent<'_>) {
        let Some(hystart) = self.hystart.as_mut().filter(|_| self.state.threshold.is_none()) else {
            return;
        };
        self.growth = hystart.on_ack(acks);
        if self.growth == Growth::Over {
            self.end_slow_start();
        }
    }

    /// Slow start ends here: the threshold is the window as it stands.
    pub fn end_slow_start(&mut self) {
        self.state.threshold = Some(self.state.window);
    }

    /// Slow start, then avoidance by one datagram per round trip: RFC 9002 §7.3.1 and RFC 9002 §7.3.3.
    pub fn grow_as_reno(&mut self, acked: u64) {
        let left = self.grow_slow_start(acked);
        self.grow_additive(Ratio::ONE, left);
    }

    /// Slow start: `window += acked` up to the threshold; gives the acknowledged bytes not used (RFC 9002 §7.3.1).
    pub fn grow_slow_start(&mut self, acked: u64) -> u64 {
        if self.growth == Growth::Conservative && self.state.threshold.is_none() {
            self.raise(acked / CSS_GROWTH_DIVISOR);
            return 0;
        }
        let step = slow_start_step(self.state.window, self.state.threshold, acked);
        if step > 0 {
            self.raise(step);
            self.state.round = Round::default();
        }
        acked - step
    }

    /// Additive increase: `window += packets * datagram * acked / base`, base being the window when this round began, so each
    /// window of acknowledged bytes adds exactly `packets` datagrams (RFC 9002 §7.3.3 with `packets` 1).
    pub fn grow_additive(&mut self, packets: Ratio, acked: u64) {
        // One frame never counts for more than a window: at most the end of one round and a part of the next.
        let mut left = acked.min(self.state.window);
        while left > 0 {
            if self.state.round.left == 0 {
                let window = self.state.window;
                self.state.round = Round { base: window, left: window, carry: Carry::default() };
            }
            let round = &mut self.state.round;
            let part = left.min(round.left);
            round.left -= part;
            left -= part;
            let num = u128::from(packets.num()) * u128::from(self.datagram) * u128::from(part);
            let step = round.carry.take(num, u128::from(packets.den()) * u128::from(round.base));
            self.raise(step);
        }
    }

    /// Proportional increase: `window += share * acked`, which is `share` of the window per round trip, spread over its ACKs.
    pub fn grow_proportional(&mut self, share: Ratio, acked: u64) {
        let round = &mut self.state.round;
        (round.base, round.left) = (0, 0);
        let step =
            round.carry.take(u128::from(share.num()) * u128::from(acked), u128::from(share.den()));
        self.raise(step);
    }

    /// Growth by a rule of the controller's own, which keeps its own fractions: `window += bytes`.
    pub fn grow_by(&mut self, bytes: u64) {
        self.raise(bytes);
    }

    /// An early cut to `factor` of the window, at once. It ends slow start, and it stands when a congestion event before it is undone.
    pub fn cut(&mut self, factor: Ratio) {
        let minimum = self.minimum();
        self.state.cut(factor, minimum);
        self.undo.amend(|saved| saved.cut(factor, minimum));
        self.early_reductions += 1;
    }

    /// Whether `congestion event` is news of this path (RFC 9000 §9.4).
    pub fn concerns(&self, congestion_event: &CongestionEvent) -> bool {
        congestion_event.sent >= self.path_start
    }

    /// Whether `congestion event`, given to [`Aimd::on_congestion_event`] next, begins a recovery period (RFC 9002 §7.3.2). Controllers with state of their
    /// own to reduce ask first.
    pub fn begins_recovery(&self, congestion_event: &CongestionEvent) -> bool {
        self.concerns(congestion_event) && congestion_event.sent >= self.state.counts_from
    }

    /// An early cut by `bytes`, at once, otherwise as [`Aimd::cut`].
    pub fn cut_by(&mut self, bytes: u64) {
        let minimum = self.minimum();
        let less =
            |state: &mut State| state.cut_to(state.window.saturating_sub(bytes).max(minimum));
        less(&mut self.state);
        self.undo.amend(less);
        self.early_reductions += 1;
    }

    /// Loss or mark: `threshold = window = factor * window`, once per recovery period (RFC 9002 §7.3.2); persistent congestion
    /// collapses to the minimum (RFC 9002 §7.6.2) and ends the period (RFC 9002 §B.8). True if the window was reduced.
    pub fn on_congestion_event(
        &mut self,
        congestion_event: &CongestionEvent,
        factor: Ratio,
    ) -> bool {
        if !self.concerns(congestion_event) {
            return false;
        }
        self.fresh = false;
        let reacts = self.begins_recovery(congestion_event);
        match congestion_event.cause {
            Cause::Mark => self.undo.forget(),
            Cause::Loss { .. } if reacts => self.undo.save(&self.state),
            Cause::Loss { .. } => {}
        }
        let minimum = self.minimum();
        if reacts {
            self.state.cut(factor, minimum);
            self.state.counts_from =
                Time::from_nanos(congestion_event.now.as_nanos().saturating_add(1));
            self.state.recovering = true;
        }
        let persistent = matches!(congestion_event.cause, Cause::Loss { persistent: true, .. });
        if persistent {
            self.state.window = minimum;
            self.state.round = Round::default();
            self.state.counts_from = self.path_start;
            self.state.recovering = false;
        }
        if reacts || persistent {
            self.reductions += 1;
        }
        reacts || persistent
    }

    /// The last loss was spurious: back to the window and threshold before it. True if something was restored.
    ///
    /// A window that has grown beyond the saved one keeps all its values (RFC 9438 §4.9.2): the sender has found its own way back, and
    /// the threshold of that time could only send it into slow start again. At the saved window itself nothing was lost yet, or the
    /// reduction took nothing away; all of the state is restored.
    pub fn on_spurious_congestion_event(&mut self) -> bool {
        let Some(saved) = self.undo.take().filter(|saved| self.state.window <= saved.window) else {
            return false;
        };
        let window = saved.window.max(self.minimum());
        self.state = State { window, recovering: false, round: Round::default(), ..saved };
        true
    }

    /// A new datagram size in bytes: an untouched initial window is computed anew, any other keeps its bytes (RFC 9002 §7.2).
    pub fn on_datagram(&mut self, datagram: u16) {
        self.datagram = u64::from(datagram.max(1));
        self.state.round = Round::default();
        self.state.window = if self.fresh {
            initial_window(self.datagram)
        } else {
            self.state.window.max(self.minimum())
        };
    }

    /// Another network path: the initial window again, and packets sent before count for nothing (RFC 9000 §9.4).
    pub fn on_moved(&mut self, now: Time) {
        self.state = State {
            window: initial_window(self.datagram),
            threshold: None,
            counts_from: now,
            recovering: false,
            round: Round::default(),
        };
        self.path_start = now;
        self.fresh = true;
        self.undo.forget();
        self.hystart = self.hystart.map(|_| HyStart::new(now));
        self.growth = Growth::Full;
    }

    /// Slow start ends at `most` bytes already, if there is such a threshold.
    pub fn lower_threshold(&mut self, most: Option<u64>) {
        self.state.threshold = [self.state.threshold, most].into_iter().flatten().min();
    }

    /// Takes back growth beyond `most` bytes.
    pub fn confine(&mut self, most: u64) {
        self.state.window = self.state.window.min(most.max(self.minimum()));
    }

    /// Raises the window by `bytes` at once.
    pub fn raise(&mut self, bytes: u64) {
        self.state.window = self.state.window.saturating_add(bytes).min(MAX_WINDOW);
    }
}

#[cfg(test)]
mod tests;
