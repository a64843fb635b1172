//! The window of every controller: additive increase, multiplicative decrease, in bytes.
//!
//! [`Aimd`] enforces the rules of RFC 9002 §7 that no controller may break: the minimum window, one
//! reaction per recovery period, persistent congestion, and no growth while the application is the
//! limit. It offers growth and cuts as small steps. A controller asks [`Aimd::on_ack`] how many
//! bytes may count as growth, and then calls one `grow_*` function or cuts the window.
//!
//! Departures from RFC 9002:
//! - Slow start stops exactly at the threshold. Bytes acknowledged beyond it count for avoidance
//!   (RFC 9002 §B.5 overshoots).
//! - Avoidance divides by the window at the beginning of a round (one window of acknowledged
//!   bytes), so a round adds exactly the requested datagrams. RFC 9002 §B.5 divides by the current
//!   window and adds a little less. Fractions of a byte are carried through a round.
//! - A cut never leaves the threshold below the minimum window. RFC 9002 §B.6 allows such a
//!   threshold, but this makes no difference to growth.
//! - A spurious reduction can be undone, unless the window has since outgrown the saved one, as in
//!   RFC 9438 §4.9.2. RFC 9002 does not define an undo. Marks are never spurious.
//! - A ceiling of 1 TiB for the window keeps all arithmetic far from overflow.

use crate::controller::{ControllerMetrics, Phase};
use crate::event::{AckEvent, Cause, CongestionEvent, Start};
use crate::hystart::{self, CSS_GROWTH_DIVISOR, Growth, HyStart};
use crate::options::option_values;
use crate::rapid_start::{self, Convergence, RapidStart};
use crate::search::{self, Search};
use crate::startup::Startup;
use crate::undo::Undo;
use crate::units::{Ratio, Time};

/// Largest window in bytes (1 TiB: 100 Gbps for 88 s).
pub const MAX_WINDOW: u64 = 1 << 40;

/// Initial window in datagrams, unless this exceeds [`INITIAL_BYTES`] (RFC 9002 §7.2).
pub const INITIAL_DATAGRAMS: u64 = 10;
/// Upper bound of the initial window in bytes. If two datagrams are larger, they are the bound
/// instead (RFC 9002 §7.2).
pub const INITIAL_BYTES: u64 = 14_720;
/// Minimum window in datagrams (RFC 9002 §7.2).
pub const MINIMUM_DATAGRAMS: u64 = 2;

/// Returns the initial window in bytes for datagrams of `datagram` bytes:
/// `min(10 * size, max(14720, 2 * size))` (RFC 9002 §7.2).
pub const fn initial_window(datagram: u64) -> u64 {
    let minimum = minimum_window(datagram);
    let bound = if minimum > INITIAL_BYTES { minimum } else { INITIAL_BYTES };
    let wanted = INITIAL_DATAGRAMS * datagram;
    if wanted < bound { wanted } else { bound }
}

/// Returns the minimum window in bytes: two datagrams (RFC 9002 §7.2).
pub const fn minimum_window(datagram: u64) -> u64 {
    MINIMUM_DATAGRAMS * datagram
}

/// Returns how many of `acked` bytes slow start may add to the window before it reaches `threshold`
/// (RFC 9002 §7.3.1).
pub const fn slow_start_step(window: u64, threshold: Option<u64>, acked: u64) -> u64 {
    match threshold {
        None => acked,
        Some(threshold) => {
            let room = threshold.saturating_sub(window);
            if acked < room { acked } else { room }
        }
    }
}

/// Returns the window after a cut to `factor`, in bytes, at least `minimum`.
pub fn cut_window(window: u64, factor: Ratio, minimum: u64) -> u64 {
    factor.of(window).max(minimum)
}

option_values! {
    /// Effect of an early cut on the slow-start threshold.
    pub enum Threshold {
        /// The threshold becomes the reduced window, as after a loss.
        Cut = "cut",
        /// The threshold stays.
        Keep = "keep",
    }
}

/// A controller's window in bytes.
#[derive(Clone, Debug)]
pub struct Aimd {
    state: State,
    datagram: u64,
    /// Time before which sent packets belong to another path (RFC 9000 §9.4).
    path_start: Time,
    /// Whether nothing has been acknowledged or lost yet, so the window is still the initial one.
    fresh: bool,
    undo: Undo<State>,
    hystart: Option<HyStart>,
    search: Option<Search>,
    rapid: Option<RapidStart>,
    /// Decision of HyStart++ about the current ACK frame.
    growth: Growth,
    reductions: u64,
    early_reductions: u64,
}

/// The parts of the state that a reduction changes.
#[derive(Clone, Debug)]
struct State {
    window: u64,
    threshold: Option<u64>,
    /// Time from which sent packets change the window: the instant after the last recovery period
    /// began.
    counts_from: Time,
    /// Whether no packet sent after the recovery period began has been acknowledged yet.
    recovering: bool,
    /// Reduction during the first recovery after Rapid Start.
    convergence: Option<Convergence>,
    round: Round,
}

impl State {
    /// Reduces the window by a share of `bytes` during the first recovery after Rapid Start.
    fn converge(&mut self, share: impl FnOnce(&Convergence) -> Ratio, bytes: u64, minimum: u64) {
        if let Some(convergence) = self.convergence {
            let less = self.window.saturating_sub(share(&convergence).of(bytes));
            // The window may already be below the smallest one, because the minimum of a path
            // without Rapid Start is lower.
            self.cut_to(less.max(convergence.least.min(self.window)).max(minimum));
        }
    }

    fn cut(&mut self, factor: Ratio, minimum: u64) {
        self.cut_to(cut_window(self.window, factor, minimum));
    }

    fn cut_to(&mut self, window: u64) {
        self.window = window;
        self.threshold = Some(window);
        self.round = Round::default();
    }

    fn cut_early(&mut self, factor: Ratio, minimum: u64, threshold: Threshold) {
        let before = self.threshold;
        self.cut(factor, minimum);
        if threshold == Threshold::Keep {
            self.threshold = before;
        }
    }
}

/// One window of acknowledged bytes, over which additive growth is spread.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Window in bytes when the round began.
    base: u64,
    /// Bytes still to be acknowledged in this round.
    left: u64,
    carry: Carry,
}

/// Fraction of a byte that growth has earned but not yet added to the window.
#[derive(Clone, Debug, Default)]
struct Carry {
    num: u128,
    den: u128,
}

impl Carry {
    /// Adds `num / den` bytes and returns the whole bytes. If the denominator changes, the old
    /// fraction is dropped, because it is less than one byte.
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
    /// Returns the initial window of a new path.
    pub fn new(start: &Start) -> Self {
        let datagram = u64::from(start.datagram.max(1));
        Self {
            state: State {
                window: initial_window(datagram),
                threshold: None,
                counts_from: start.now,
                recovering: false,
                convergence: None,
                round: Round::default(),
            },
            datagram,
            path_start: start.now,
            fresh: true,
            undo: Undo::default(),
            hystart: None,
            search: None,
            rapid: None,
            growth: Growth::Full,
            reductions: 0,
            early_reductions: 0,
        }
    }

    /// Returns the window with these parts of the first slow start.
    #[must_use]
    pub fn with_startup(self, startup: Startup) -> Self {
        let hystart = match startup.hystart {
            hystart::Use::On => Some(HyStart::new(self.path_start)),
            hystart::Use::Off => None,
        };
        let search = match startup.search {
            search::Use::On => Some(Search::default()),
            search::Use::Off => None,
        };
        let rapid = match startup.rapid_start {
            rapid_start::Use::On => Some(RapidStart::default()),
            rapid_start::Use::Off => None,
        };
        Self { hystart, search, rapid, ..self }
    }

    /// Returns the window in bytes.
    pub const fn window(&self) -> u64 {
        self.state.window
    }

    /// Returns the minimum window in bytes.
    pub const fn minimum(&self) -> u64 {
        minimum_window(self.datagram)
    }

    /// Returns the datagram size in bytes.
    pub const fn datagram(&self) -> u64 {
        self.datagram
    }

    /// Returns the slow-start threshold in bytes; `None` if there is none yet.
    pub const fn threshold(&self) -> Option<u64> {
        self.state.threshold
    }

    /// Returns whether the window is below the threshold. This is also true if there is no
    /// threshold yet (RFC 9002 §7.3.1).
    pub fn in_slow_start(&self) -> bool {
        self.state.threshold.is_none_or(|threshold| self.state.window < threshold)
    }

    /// Returns whether a recovery period is in progress (RFC 9002 §7.3.2).
    pub const fn in_recovery(&self) -> bool {
        self.state.recovering
    }

    /// Returns the phase, in the terms of RFC 9002 §7.3.
    pub fn phase(&self) -> Phase {
        if self.in_recovery() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::SlowStart
        } else {
            Phase::Avoidance
        }
    }

    /// Returns the telemetry of the window, to which the controller adds its own values.
    pub fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            window: self.window(),
            threshold: self.threshold(),
            phase: self.phase(),
            queueing: None,
            hold: None,
            datagram: None,
            media_rate: None,
            reductions: self.reductions,
            early_reductions: self.early_reductions,
        }
    }

    /// Processes an ACK frame and returns the number of bytes that may count as growth. These are
    /// the bytes of packets sent after the last reaction (RFC 9002 §7.3.2). The number is zero
    /// while the application is the limit (RFC 9002 §7.8).
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> u64 {
        self.fresh = false;
        let mut bytes = 0_u64;
        for packet in acks.packets.iter().filter(|p| p.sent >= self.state.counts_from) {
            bytes = bytes.saturating_add(packet.bytes);
            self.state.recovering = false;
        }
        if self.state.convergence.is_some() {
            let minimum = self.minimum();
            self.state.converge(|c| c.acked, acks.bytes().saturating_sub(bytes), minimum);
            self.state.convergence = self.state.convergence.filter(|_| self.state.recovering);
        }
        self.watch_slow_start(acks);
        if acks.app_limited { 0 } else { bytes }
    }

    /// Runs Rapid Start, SEARCH and HyStart++ on the first slow start (RFC 9406 §4.2).
    fn watch_slow_start(&mut self, acks: &AckEvent<'_>) {
        if self.state.threshold.is_some() {
            return;
        }
        if let Some(rapid) = &mut self.rapid {
            rapid.on_ack(acks);
        }
        if self.search.as_mut().is_some_and(|search| search.on_ack(acks)) {
            return self.end_slow_start();
        }
        let Some(hystart) = &mut self.hystart else { return };
        self.growth = hystart.on_ack(acks);
        if self.growth == Growth::Over {
            self.end_slow_start();
        }
    }

    /// Ends slow start by setting the threshold to the current window.
    pub fn end_slow_start(&mut self) {
        self.state.threshold = Some(self.state.window);
    }

    /// Grows like NewReno: by slow start (RFC 9002 §7.3.1), then in avoidance by one datagram per
    /// round trip (RFC 9002 §7.3.3).
    pub fn grow_as_reno(&mut self, acked: u64) {
        let left = self.grow_slow_start(acked);
        self.grow_additive(Ratio::ONE, left);
    }

    /// Grows in slow start: `window += acked` up to the threshold. Returns the acknowledged bytes
    /// that were not used (RFC 9002 §7.3.1).
    pub fn grow_slow_start(&mut self, acked: u64) -> u64 {
        if self.growth == Growth::Conservative && self.state.threshold.is_none() {
            self.raise(acked / CSS_GROWTH_DIVISOR);
            return 0;
        }
        if let Some(rapid) = self.rapid.as_ref().filter(|_| self.state.threshold.is_none()) {
            self.raise(acked.saturating_mul(rapid.growth()));
            return 0;
        }
        let step = slow_start_step(self.state.window, self.state.threshold, acked);
        if step > 0 {
            self.raise(step);
            self.state.round = Round::default();
        }
        acked - step
    }

    /// Grows additively: `window += packets * datagram * acked / base`, where `base` is the window
    /// when this round began. Each window of acknowledged bytes thus adds exactly `packets`
    /// datagrams (RFC 9002 §7.3.3 if `packets` is 1).
    pub fn grow_additive(&mut self, packets: Ratio, acked: u64) {
        // A frame counts for at most one window. It thus covers at most the end of one round and a
        // part of the next one.
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

    /// Grows proportionally: `window += share * acked`. A round trip thus adds `share` of the
    /// window, spread over its ACKs.
    pub fn grow_proportional(&mut self, share: Ratio, acked: u64) {
        let round = &mut self.state.round;
        (round.base, round.left) = (0, 0);
        let step =
            round.carry.take(u128::from(share.num()) * u128::from(acked), u128::from(share.den()));
        self.raise(step);
    }

    /// Grows by a controller's own rule: `window += bytes`. The controller keeps its own fractions.
    pub fn grow_by(&mut self, bytes: u64) {
        self.raise(bytes);
    }

    /// Cuts the window early, at once, to `factor` of its size, but not below the minimum.
    ///
    /// The cut ends slow start. The cut remains in effect if an earlier congestion event is undone.
    pub fn cut(&mut self, factor: Ratio) {
        self.cut_early(factor, Threshold::Cut);
    }

    /// Cuts the window early like [`Aimd::cut`]. With [`Threshold::Keep`], the slow-start threshold
    /// stays, so a window below the threshold then grows by slow start.
    pub fn cut_early(&mut self, factor: Ratio, threshold: Threshold) {
        let minimum = self.minimum();
        self.state.cut_early(factor, minimum, threshold);
        self.undo.amend(|saved| saved.cut_early(factor, minimum, threshold));
        self.early_reductions += 1;
    }

    /// Returns whether `congestion_event` concerns this path (RFC 9000 §9.4).
    pub fn concerns(&self, congestion_event: &CongestionEvent) -> bool {
        congestion_event.sent >= self.path_start
    }

    /// Returns whether `congestion_event` begins a recovery period (RFC 9002 §7.3.2) if it is
    /// passed to [`Aimd::on_congestion_event`] next. Controllers that must reduce state of their
    /// own call this first.
    pub fn begins_recovery(&self, congestion_event: &CongestionEvent) -> bool {
        self.concerns(congestion_event) && congestion_event.sent >= self.state.counts_from
    }

    /// Cuts the window early, at once, by `bytes`. In all other respects, this is like
    /// [`Aimd::cut`].
    pub fn cut_by(&mut self, bytes: u64) {
        self.lower_by(bytes);
        self.early_reductions += 1;
    }

    /// Lowers the window by `bytes`, as one of the small steps of a controller that adjusts its
    /// window with every ACK. This is like [`Aimd::cut_by`], except that the step does not count as
    /// a reduction.
    pub fn lower_by(&mut self, bytes: u64) {
        let minimum = self.minimum();
        let less =
            |state: &mut State| state.cut_to(state.window.saturating_sub(bytes).max(minimum));
        less(&mut self.state);
        self.undo.amend(less);
    }

    /// Reduces the window to the minimum for a while. Its size becomes the slow-start threshold, so
    /// that slow start restores the window. Counts as an early reduction.
    pub fn slow_down(&mut self) {
        let minimum = self.minimum();
        let slow_down = |state: &mut State| {
            let window = state.window;
            state.cut_to(minimum);
            state.threshold = Some(window);
        };
        slow_down(&mut self.state);
        self.undo.amend(slow_down);
        self.early_reductions += 1;
    }

    /// Sets the slow-start threshold to `window` bytes, so that slow start restores a window of this
    /// size.
    pub fn restore_to(&mut self, window: u64) {
        self.state.threshold = Some(window.max(self.minimum()));
    }

    /// Reacts to a loss or a mark and returns whether the window was reduced.
    ///
    /// The reaction is `threshold = window = factor * window`, once per recovery period
    /// (RFC 9002 §7.3.2). Persistent congestion reduces the window to the minimum (RFC 9002 §7.6.2)
    /// and ends the recovery period (RFC 9002 §B.8).
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
            let rapid = self.rapid.is_some() && self.state.threshold.is_none();
            let convergence = rapid.then(|| {
                Convergence::new(factor, self.state.window, initial_window(self.datagram))
            });
            self.state.cut(convergence.map_or(factor, |c| c.silence), minimum);
            self.state.convergence = convergence;
            self.state.counts_from =
                Time::from_nanos(congestion_event.now.as_nanos().saturating_add(1));
            self.state.recovering = true;
        }
        if let Cause::Loss { bytes, .. } = congestion_event.cause {
            self.state.converge(|c| c.silence, bytes, minimum);
        }
        let persistent = matches!(congestion_event.cause, Cause::Loss { persistent: true, .. });
        if persistent {
            self.state.convergence = None;
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

    /// Undoes the reaction to the last loss, which was spurious, by restoring the earlier window
    /// and threshold. Returns whether anything was restored.
    ///
    /// A window that has grown beyond the saved one keeps all its values (RFC 9438 §4.9.2). The
    /// sender has recovered by itself, and the saved threshold could only send it into slow start
    /// again. A window that equals the saved one has grown back exactly, or the reduction did not
    /// change it. In both cases, the other saved values are restored.
    pub fn on_spurious_congestion_event(&mut self) -> bool {
        let Some(saved) = self.undo.take().filter(|saved| self.state.window <= saved.window) else {
            return false;
        };
        let window = saved.window.max(self.minimum());
        self.state = State {
            window,
            recovering: false,
            convergence: None,
            round: Round::default(),
            ..saved
        };
        true
    }

    /// Sets a new datagram size in bytes. A window that is still the initial one is computed again.
    /// Any other window keeps its number of bytes, but is at least the new minimum
    /// (RFC 9002 §7.2).
    pub fn on_datagram(&mut self, datagram: u16) {
        self.datagram = u64::from(datagram.max(1));
        self.state.round = Round::default();
        self.state.window = if self.fresh {
            initial_window(self.datagram)
        } else {
            self.state.window.max(self.minimum())
        };
    }

    /// Starts over on another network path. Returns to the initial window and ignores packets sent
    /// earlier (RFC 9000 §9.4).
    pub fn on_moved(&mut self, now: Time) {
        self.state = State {
            window: initial_window(self.datagram),
            threshold: None,
            counts_from: now,
            recovering: false,
            convergence: None,
            round: Round::default(),
        };
        self.path_start = now;
        self.fresh = true;
        self.undo.forget();
        self.hystart = self.hystart.map(|_| HyStart::new(now));
        self.search = self.search.map(|_| Search::default());
        self.rapid = self.rapid.as_ref().map(|_| RapidStart::default());
        self.growth = Growth::Full;
    }

    /// Lowers the slow-start threshold to at most `most` bytes. Sets the threshold if there is
    /// none. `None` changes nothing.
    pub fn lower_threshold(&mut self, most: Option<u64>) {
        self.state.threshold = [self.state.threshold, most].into_iter().flatten().min();
    }

    /// Limits the window to `most` bytes, but not below the minimum.
    pub fn confine(&mut self, most: u64) {
        self.state.window = self.state.window.min(most.max(self.minimum()));
    }

    /// Raises the window by `bytes` at once, up to [`MAX_WINDOW`].
    pub fn raise(&mut self, bytes: u64) {
        self.state.window = self.state.window.saturating_add(bytes).min(MAX_WINDOW);
    }
}

#[cfg(test)]
mod tests;
