//! One-way delay from what is on the wire.
//!
//! Both modes of SYNC_TIMESTAMP, and the other frames, end in one [`Sample`]: the forward transit time of one of our packets, on two clocks, in wrapping
//! microseconds. [`Estimator`] makes the [`OneWayDelay`] of it that a controller steers by: the height above the transit time of
//! an empty path, clock drift taken out.
//!
//! Order of the rules, per sample:
//! 1. **Reordering.** A sample on an older packet than the newest one used is dropped.
//! 2. **Wrap.** Transit times are unwrapped against the last one accepted.
//! 3. **Bound.** Forward queueing can neither exceed what the round trip holds (RTT - smallest RTT, both on our own clock) nor be
//!    negative. What claims otherwise, beyond a tolerance, is dropped: a peer's word counts for no more than the RTT allows.
//! 4. **Steps.** When several samples in a row are out of bounds and agree with each other, a clock was set. The baseline moves so
//!    that the output stays where it was, as far as the RTT allows. So a lie that looks like a step gains nothing.
//! 5. **Drift.** Accepted samples teach the baseline (`baseline.rs`).
//!
//! An honest sample may lie far below the baseline when the smallest RTT has just fallen (the path was never empty before), or
//! when the level was guessed under load: by at most that much it moves the baseline down at once.

use std::time::Duration;

use fathom_units::{OneWayDelay, Time};

use crate::baseline::Baseline;
use crate::sync_timestamp::{Echo, stamp};

/// Out-of-bounds samples in a row, agreeing with each other, that make a clock step. Few, because a controller goes without delays
/// meanwhile; more than a stalled process produces.
const STEP_AFTER: u32 = 4;

/// What hosts add between stamping and sending: bursts, scheduling, the 8 us steps of ACK delays.
const NOISE: Duration = Duration::from_millis(1);

/// What one packet of the peer says about the forward path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the peer's packet that says so.
    pub packet: u64,
    /// Arrival minus departure of our packet, in microseconds modulo 2^32, on two clocks.
    pub transit: u32,
    /// Round trip of our packet on our own clock, the peer's delay included.
    pub rtt: Duration,
    /// The part of `rtt` for which the peer says it held the answer back; zero when it does not say.
    pub ack_delay: Duration,
    /// Smallest RTT of this path so far, as the stack knows it.
    pub min_rtt: Duration,
}

impl Sample {
    /// `lean` mode: the peer's packet carried `stamped` and an ACK frame whose largest packet is newly acknowledged and left at
    /// `sent`. That packet arrived `ack_delay` before the stamp.
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

    /// ACK_RECEIVE_TIMESTAMPS: the peer says that our packet `packet`, which left at `sent`, arrived at `micros` since the peer's epoch, and that
    /// the acknowledgement left `ack_delay` later.
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

    /// `paper` mode: the peer's packet echoed one of our stamps with its transit time, beside an ACK frame whose largest packet
    /// is newly acknowledged and left at `sent`. `None` unless the echo is of that very packet: only then does our own clock know
    /// the round trip that bounds the claim.
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

/// What became of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Samples that gave a one-way delay.
    pub samples: u64,
    /// Dropped: on an older packet than one used before.
    pub dropped_reordered: u64,
    /// Dropped: claiming what the RTT does not allow.
    pub dropped_bound: u64,
    /// Clock steps followed.
    pub steps: u64,
    /// The peer's clock runs this much faster than ours, in ns/s; negative when slower.
    pub skew_ppb: i64,
}

/// Turns [`Sample`]s of one path into [`OneWayDelay`]s. About 300 bytes, whatever arrives. Make a new one when the path changes.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    newest: Option<u64>,
    /// Smallest RTT seen, in us: with the peer's delay, as the bound needs it.
    floor: Option<f64>,
    /// Smallest RTT seen, in us, after the peer's delay was taken off it: shows when the path is quiet.
    quiet_floor: Option<f64>,
    track: Option<Track>,
    suspect: Option<Suspect>,
    counters: Counters,
}

/// Where the delays are.
#[derive(Clone, Copy, Debug)]
struct Track {
    base: Baseline,
    /// The last transit accepted: origin of the baseline's levels.
    origin: u32,
    /// How far the level may still turn out too high, in us.
    slack: f64,
    /// The last output, in us.
    output: f64,
}

/// The last of a run of samples out of bounds.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    transit: u32,
    at: Time,
    room: f64,
    run: u32,
}

/// A sample set against the RTTs known so far. All in us.
#[derive(Clone, Copy, Debug)]
struct Claim {
    now: Time,
    transit: u32,
    /// The most that forward queueing can be.
    room: f64,
    /// Queueing in both directions, the peer's own delay taken out as far as it says it.
    queue: f64,
    /// What noise may add or take.
    tolerance: f64,
}

impl Estimator {
    /// What became of the samples so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The forward one-way delay behind `sample`, which arrived at `now`; `None` when a rule dropped it.
    ///
    /// The value is nanoseconds above the baseline, small noise below zero included.
    pub fn sample(&mut self, now: Time, sample: &Sample) -> Option<OneWayDelay> {
        if self.newest.is_some_and(|newest| sample.packet <= newest) {
            self.counters.dropped_reordered += 1;
            return None;
        }
        self.newest = Some(sample.packet);
        // Held back longer than the whole round trip: no clock step explains that.
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

    /// Brings the smallest RTTs up to date and measures the sample against them.
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
        // What the peer says about its own delay may make the path look quieter, never fuller than our clock allows.
        let queue = (quiet - self.quiet_floor.unwrap_or(quiet)).min(room);
        Claim { now, transit: sample.transit, room, queue, tolerance: tolerance(floor) }
    }

    /// Notes a claim out of bounds; true when it completes a clock step and the baseline has moved.
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
    /// The first sample counts as the empty path; if it was not, later ones lie below it.
    fn start(claim: &Claim) -> Self {
        let base = Baseline::new(claim.now, 0.0, claim.room);
        Self { base, origin: claim.transit, slack: claim.room, output: 0.0 }
    }

    /// Takes the claim in, unless the RTT forbids it.
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
        // An empty round trip leaves no doubt about the level.
        self.slack = if claim.room <= claim.tolerance { 0.0 } else { self.slack.max(0.0) };
        self.update(claim, transit);
        true
    }

    /// Moves the baseline under a stepped clock so that the output stays, as far as the RTT allows.
    fn step(&mut self, claim: &Claim) {
        let transit = signed(claim.transit.wrapping_sub(self.origin));
        let output = self.output.clamp(0.0, claim.room);
        self.base.relevel(claim.now, transit - output, claim.room);
        self.slack = claim.room - output;
        self.update(claim, transit);
    }

    /// Makes the claim the new origin, `unwrapped` us from the old one.
    fn update(&mut self, claim: &Claim, unwrapped: f64) {
        self.base.shift(unwrapped);
        self.origin = claim.transit;
        self.output = -self.base.level_at(claim.now);
    }
}

/// What no claim is punished for, in us: [`NOISE`], or a sixteenth of the empty path's RTT where that is more, since longer paths
/// cross more media that jitter. It is taken from the smallest RTT, so that a full queue does not widen it, and it is the most that
/// a liar gains: a controller that reacts to queues of a few milliseconds or of a good part of the RTT does not notice.
fn tolerance(floor: f64) -> f64 {
    (floor / 16.0).max(micros(NOISE))
}

/// Lowers `floor` to `value`; by how much it fell.
fn lower(floor: &mut Option<f64>, value: f64) -> f64 {
    let before = floor.unwrap_or(value);
    *floor = Some(before.min(value));
    (before - value).max(0.0)
}

fn micros(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

/// A wrapped difference as the nearest signed one.
fn signed(difference: u32) -> f64 {
    f64::from(difference as i32)
}
