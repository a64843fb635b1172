//! Estimation of one-way delay from the frames on the wire.
//!
//! Both modes of SYNC_TIMESTAMP, and the other frames, give the same kind of [`Sample`]: the
//! forward transit time of one of our packets, measured with two clocks, in wrapping microseconds.
//! From samples, [`Estimator`] computes the [`OneWayDelay`] for a controller. It is the difference
//! between the transit time and that of an empty path, with clock drift removed.
//!
//! The following rules apply to each sample, in this order:
//! 1. **Reordering.** A sample from an older packet than the newest one used is dropped.
//! 2. **Wrap.** Transit times are unwrapped relative to the last accepted one.
//! 3. **Bound.** Forward queueing cannot exceed the queueing in the whole round trip (RTT -
//!    smallest RTT, both on our own clock), and it cannot be negative. A sample that claims
//!    otherwise, beyond a tolerance, is dropped. The peer's report thus counts only as far as the
//!    RTT allows.
//! 4. **Steps.** If several consecutive samples are out of bounds and agree with each other, a
//!    clock was set. The baseline then moves so that the output stays constant, as far as the RTT
//!    allows. Thus, a misreport that looks like a step gains nothing.
//! 5. **Drift.** Accepted samples update the baseline (`baseline.rs`).
//!
//! An honest sample may be far below the baseline if the smallest RTT has just fallen (the path was
//! never empty before), or if the level was guessed under load. Such a sample lowers the baseline
//! at once, by at most this difference.

use std::time::Duration;

use fathom_units::{OneWayDelay, Time};

use crate::baseline::Baseline;
use crate::sync_timestamp::{Echo, stamp};

/// Number of consecutive out-of-bounds samples, in agreement with each other, that count as a clock
/// step. The number is small, because a controller gets no delays in the meantime, but larger than
/// the number of samples that a stalled process can produce.
const STEP_AFTER: u32 = 4;

/// Delay that hosts add between timestamping and sending: bursts, scheduling, the 8 us steps of ACK
/// delays.
const NOISE: Duration = Duration::from_millis(1);

/// A report about the forward path, from one packet of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Packet number that orders the samples. It is the number of the peer's packet with the
    /// report. In [`Sample::received`], it is the number of our own packet.
    pub packet: u64,
    /// Arrival minus departure of our packet, in microseconds modulo 2^32, measured with two
    /// clocks.
    pub transit: u32,
    /// Round-trip time of our packet on our own clock, including the peer's delay.
    pub rtt: Duration,
    /// Part of `rtt` for which the peer reports that it delayed the answer; zero if it reports
    /// nothing.
    pub ack_delay: Duration,
    /// Smallest RTT of this path so far, as the stack knows it.
    pub min_rtt: Duration,
}

impl Sample {
    /// Creates a sample in `lean` mode. The peer's packet carried the timestamp `stamped` and an
    /// ACK frame whose largest packet is newly acknowledged and was sent at `sent`. Our packet
    /// arrived `ack_delay` before the timestamp.
    pub fn lean(
        now: Time,
        packet: u64,
        stamped: u32,
        ack_delay: Duration,
        sent: Time,
        min_rtt: Duration,
    ) -> Self {
        let transit = stamped.wrapping_sub(ack_delay.as_micros() as u32).wrapping_sub(stamp(sent));
        Self { packet, transit, rtt: now.since(sent), ack_delay, min_rtt }
    }

    /// Creates a sample from ACK_RECEIVE_TIMESTAMPS. According to the peer, our packet `packet`,
    /// which was sent at `sent`, arrived `micros` microseconds after the peer's epoch. The
    /// acknowledgement left `ack_delay` later.
    pub fn received(
        now: Time,
        packet: u64,
        micros: u64,
        ack_delay: Duration,
        sent: Time,
        min_rtt: Duration,
    ) -> Self {
        let transit = (micros as u32).wrapping_sub(stamp(sent));
        Self { packet, transit, rtt: now.since(sent), ack_delay, min_rtt }
    }

    /// Creates a sample in `paper` mode. The peer's packet echoed one of our timestamps with its
    /// transit time, next to an ACK frame. The largest packet of this frame is newly acknowledged
    /// and was sent at `sent`.
    ///
    /// Returns `None` unless the echo is for this very packet. Only then does our own clock give
    /// the round trip that bounds the report.
    pub fn echoed(
        now: Time,
        packet: u64,
        echo: Echo,
        ack_delay: Duration,
        sent: Time,
        min_rtt: Duration,
    ) -> Option<Self> {
        let sample =
            Self { packet, transit: echo.transit, rtt: now.since(sent), ack_delay, min_rtt };
        (echo.sent == stamp(sent)).then_some(sample)
    }
}

/// Counts of used and dropped samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Samples that gave a one-way delay.
    pub samples: u64,
    /// Samples that were dropped because their packet is older than one already used.
    pub dropped_reordered: u64,
    /// Samples that were dropped because the RTT does not allow the reported delay.
    pub dropped_bound: u64,
    /// Number of clock steps followed.
    pub steps: u64,
    /// Rate by which the peer's clock runs faster than ours, in ns/s; negative if it runs slower.
    pub skew_ppb: i64,
}

/// Converts [`Sample`]s of one path into [`OneWayDelay`]s. It takes about 300 bytes of memory,
/// whatever arrives. Create a new estimator when the path changes.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    newest: Option<u64>,
    /// Smallest RTT seen, in us, including the peer's delay. The bound uses this value.
    floor: Option<f64>,
    /// Smallest RTT seen, in us, without the peer's delay. It shows when the path is quiet.
    quiet_floor: Option<f64>,
    track: Option<Track>,
    suspect: Option<Suspect>,
    counters: Counters,
}

/// The state of the tracked delay.
#[derive(Clone, Copy, Debug)]
struct Track {
    base: Baseline,
    /// Last accepted transit time, which is the origin of the baseline's levels.
    origin: u32,
    /// Amount by which the level may still turn out to be too high, in us.
    slack: f64,
    /// Last output, in us.
    output: f64,
}

/// Last sample of a run of samples that are out of bounds.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    transit: u32,
    at: Time,
    room: f64,
    run: u32,
}

/// A sample, compared with the RTTs known so far. All values are in us.
#[derive(Clone, Copy, Debug)]
struct Claim {
    now: Time,
    transit: u32,
    /// Upper bound of the forward queueing.
    room: f64,
    /// Queueing in both directions, without the part of the peer's own delay that the peer reports.
    queue: f64,
    /// Deviation in either direction that noise may cause.
    tolerance: f64,
}

impl Estimator {
    /// Returns the counts of used and dropped samples so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the forward one-way delay of `sample`, which arrived at `now`; `None` if a rule
    /// dropped the sample.
    ///
    /// The value is in nanoseconds above the baseline. It may be slightly below zero because of
    /// noise.
    pub fn sample(&mut self, now: Time, sample: &Sample) -> Option<OneWayDelay> {
        if self.newest.is_some_and(|newest| sample.packet <= newest) {
            self.counters.dropped_reordered += 1;
            return None;
        }
        self.newest = Some(sample.packet);
        // The reported ACK delay is longer than the whole round trip. No clock step explains that.
        if sample.ack_delay > sample.rtt.saturating_add(NOISE) {
            self.counters.dropped_bound += 1;
            return None;
        }
        let claim = self.claim(now, sample);
        let track = self.track.get_or_insert_with(|| Track::start(&claim));
        let accepted = track.accept(&claim);
        if accepted {
            self.suspect = None;
        } else if !self.stepped(&claim) {
            self.counters.dropped_bound += 1;
            return None;
        }
        self.counters.samples += 1;
        let track = self.track.as_ref()?;
        self.counters.skew_ppb = (track.base.skew() * 1e3) as i64;
        Some(OneWayDelay::from_nanos((track.output * 1e3) as i64))
    }

    /// Updates the smallest RTTs and compares the sample with them.
    fn claim(&mut self, now: Time, sample: &Sample) -> Claim {
        let (rtt, quiet) =
            (micros(sample.rtt), micros(sample.rtt.saturating_sub(sample.ack_delay)));
        let known = rtt.min(micros(sample.min_rtt));
        let fell = lower(&mut self.floor, known);
        let quiet_fell = lower(&mut self.quiet_floor, quiet);
        if let Some(track) = &mut self.track {
            track.slack += fell.max(quiet_fell);
        }
        let floor = self.floor.unwrap_or(known);
        let room = rtt - floor;
        // The peer's report about its own delay may make the path look quieter, but never fuller,
        // than our clock allows.
        let queue = (quiet - self.quiet_floor.unwrap_or(quiet)).min(room);
        Claim { now, transit: sample.transit, room, queue, tolerance: tolerance(floor) }
    }

    /// Records a claim that is out of bounds. Returns true if it completes a clock step and the
    /// baseline has moved.
    fn stepped(&mut self, claim: &Claim) -> bool {
        let Some(track) = &mut self.track else { return false };
        let agrees = self.suspect.filter(|s| {
            let moved = signed(claim.transit.wrapping_sub(s.transit));
            let moved = moved - track.base.skew() * claim.now.since(s.at).as_secs_f64();
            (-s.room - claim.tolerance..=claim.room + claim.tolerance).contains(&moved)
        });
        let run = agrees.map_or(1, |s| s.run + 1);
        if run < STEP_AFTER {
            self.suspect =
                Some(Suspect { transit: claim.transit, at: claim.now, room: claim.room, run });
            return false;
        }
        self.suspect = None;
        self.counters.steps += 1;
        track.step(claim);
        true
    }
}

impl Track {
    /// Starts with the assumption that the path was empty at the first sample. If it was not, later
    /// samples will be below the first one.
    fn start(claim: &Claim) -> Self {
        let base = Baseline::new(claim.now, 0.0, claim.room);
        Self { base, origin: claim.transit, slack: claim.room, output: 0.0 }
    }

    /// Accepts the claim, unless the RTT forbids it.
    fn accept(&mut self, claim: &Claim) -> bool {
        let transit = signed(claim.transit.wrapping_sub(self.origin));
        let height = transit - self.base.level_at(claim.now);
        let tolerance = claim.tolerance + self.base.unseen_drift(claim.now);
        if !(-tolerance - self.slack..=claim.room + tolerance).contains(&height) {
            return false;
        }
        if height < -tolerance {
            self.base.relevel(claim.now, transit, claim.room);
            self.slack += height;
        } else {
            self.base.observe(claim.now, transit, claim.queue);
            self.base.confine(transit - claim.room - tolerance, transit + tolerance);
        }
        // A round trip without queueing leaves no uncertainty about the level.
        self.slack = if claim.room <= claim.tolerance { 0.0 } else { self.slack.max(0.0) };
        self.update(claim, transit);
        true
    }

    /// Moves the baseline after a clock step so that the output stays constant, as far as the RTT
    /// allows.
    fn step(&mut self, claim: &Claim) {
        let transit = signed(claim.transit.wrapping_sub(self.origin));
        let output = self.output.clamp(0.0, claim.room);
        self.base.relevel(claim.now, transit - output, claim.room);
        self.slack = claim.room - output;
        self.update(claim, transit);
    }

    /// Makes the claim the new origin, which is `unwrapped` us from the old one.
    fn update(&mut self, claim: &Claim, unwrapped: f64) {
        self.base.shift(unwrapped);
        self.origin = claim.transit;
        self.output = -self.base.level_at(claim.now);
    }
}

/// Returns the tolerance of the bound, in us: [`NOISE`], or a sixteenth of the empty path's RTT if
/// that is more, because longer paths cross more media that jitter.
///
/// The tolerance depends on the smallest RTT, so a full queue does not widen it. The tolerance is
/// also the largest gain of a misreporting peer. It is too small to matter for a controller that
/// reacts to queues of a few milliseconds, or of a large part of the RTT.
fn tolerance(floor: f64) -> f64 {
    (floor / 16.0).max(micros(NOISE))
}

/// Lowers `floor` to `value` if `value` is smaller. Returns the amount by which `floor` was
/// lowered.
fn lower(floor: &mut Option<f64>, value: f64) -> f64 {
    let before = floor.unwrap_or(value);
    *floor = Some(before.min(value));
    (before - value).max(0.0)
}

fn micros(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

/// Converts a wrapped difference to the nearest signed one.
fn signed(difference: u32) -> f64 {
    f64::from(difference as i32)
}
