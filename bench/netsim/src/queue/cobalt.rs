//! COBALT, a combination of CoDel and BLUE (Palmei, Gupta, Imputato, Morton, Tahiliani, Avallone,
//! Täht: "Design and evaluation of COBALT queue discipline", LANMAN 2019; the queue discipline
//! within Linux's CAKE).
//!
//! The CoDel part handles its count differently from `codel.rs`. While the sojourn is above
//! `target`, packets are dropped or marked `interval / sqrt(count)` apart, and each drop or mark
//! adds one to the count. The first drop or mark is due this long after the sojourn rose above
//! `target`, which is one interval if the count was 0 or 1. CoDel forgets its count when the
//! sojourn falls below `target`. COBALT instead subtracts one from the count after each such
//! period. If drops resume soon, they thus continue at nearly the previous rate.
//!
//! The BLUE part handles traffic that does not respond to drops or marks. Its probability rises by
//! 1/256 when the queue is full and falls by 1/4096 when the queue is empty, with at most one
//! change per `target`. Packets picked by BLUE are dropped, never marked.
//!
//! COBALT decides on arrival and uses the time at which the packet would leave as its clock.
//! `codel.rs` explains the reason and the consequences.
//!
//! Departures:
//! - A sojourn does not count as a queue if it is no longer than four full packets take on the
//!   link, as in CAKE with one flow. The full packet is the largest one seen.
//! - The queue counts as empty once for each packet that finds the link idle. CAKE counts each time
//!   it finds no packet to send.
//! - Only the queue discipline is implemented, without CAKE's flows, shaper and tins, so tc has no
//!   equivalent.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::codel::control_law;
use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::options::{self, OptionError, on_off};

/// Rise of BLUE's probability when the queue is full, and its fall when the queue is empty (CAKE).
const RISE: f64 = 1.0 / 256.0;
const FALL: f64 = 1.0 / 4_096.0;
/// Number of full packets whose time on the link does not count as a queue (CAKE).
const SPARED: u64 = 4;

/// COBALT as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltSpec {
    /// Target of the sojourn, below which it should stay.
    pub target: Duration,
    /// Time for which the sojourn may stay above the target: about the longest round trip.
    pub interval: Duration,
    /// Largest number of packets in the queue.
    pub limit: usize,
    /// Whether ECN-capable packets are marked instead of dropped, except those that BLUE drops.
    pub ecn: bool,
}

impl Default for CobaltSpec {
    /// Returns the defaults: CAKE's 5 ms and 100 ms, 1000 packets, and ECN.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: 1_000,
            ecn: true,
        }
    }
}

impl fmt::Display for CobaltSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, interval) = (duration_text(self.target), duration_text(self.interval));
        write!(
            f,
            "cobalt:target={target},interval={interval},limit={}p,ecn={}",
            self.limit,
            on_off(self.ecn)
        )
    }
}

impl CobaltSpec {
    fn check(self) -> Result<Self, &'static str> {
        options::check_codel(self.target, self.interval, self.limit).map(|()| self)
    }
}

/// A COBALT queue. Its times are those at which packets leave the queue.
#[derive(Debug)]
pub struct Cobalt {
    spec: CobaltSpec,
    rate: Rate,
    /// Size in bytes of the largest packet seen, which is used as the full packet.
    full: u32,
    /// Whether the sojourn is above the target.
    above: bool,
    /// Count that determines the distance between drops; 0 at rest.
    count: u32,
    /// Time of the next drop, or of the next decrement of the count.
    next: Time,
    /// BLUE's probability, which last changed at `changed`.
    blue: f64,
    changed: Option<Time>,
    rng: Pcg64Mcg,
}

impl Cobalt {
    /// Returns an empty queue for a link of this rate.
    pub fn new(spec: CobaltSpec, rate: Rate, seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Self {
            spec,
            rate,
            full: 0,
            above: false,
            count: 0,
            next: Time::ZERO,
            blue: 0.0,
            changed: None,
            rng,
        }
    }

    /// Returns `t + interval / sqrt(count)`, as in RFC 8289 §5.6.
    fn control_law(&self, t: Time) -> Time {
        control_law(t, self.spec.interval, self.count.max(1))
    }

    /// Changes BLUE's probability, at most once per `target`.
    fn change_blue(&mut self, now: Time, by: f64) {
        if self.changed.is_none_or(|changed| now.since(changed) > self.spec.target) {
            self.blue = (self.blue + by).clamp(0.0, 1.0);
            self.changed = Some(now);
        }
    }

    /// Returns whether the CoDel part drops or marks the packet that leaves at `leaves`.
    fn picks(&mut self, wait: Duration, leaves: Time) -> bool {
        let spared = self.rate.time_for(SPARED * u64::from(self.full)).max(self.spec.target);
        let above = wait > spared;
        if above && !self.above {
            self.next = self.control_law(leaves);
        }
        self.above = above;
        if above {
            self.count = self.count.max(1);
            let due = leaves >= self.next;
            if due {
                self.count = self.count.saturating_add(1);
                self.next = self.control_law(self.next);
            }
            return due;
        }
        while self.count > 0 && leaves >= self.next {
            self.count -= 1;
            self.next = self.control_law(self.next);
        }
        false
    }
}

impl Queue for Cobalt {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.full = self.full.max(a.bytes);
        if a.queued_packets >= self.spec.limit {
            self.change_blue(a.now, RISE);
            return Admission::Drop;
        }
        if a.queued_packets == 0 {
            self.change_blue(a.now, -FALL);
        }
        let picked = self.picks(a.wait(), a.starts());
        let blue = self.blue > 0.0 && self.rng.random::<f64>() < self.blue;
        match picked {
            _ if blue => Admission::Drop,
            false => Admission::Forward,
            true if self.spec.ecn && a.ecn_capable => Admission::Mark,
            true => Admission::Drop,
        }
    }
}

impl Discipline for CobaltSpec {
    const KIND: Kind = Kind {
        name: "cobalt",
        short: None,
        example: "target=5ms,interval=100ms,limit=1000p,ecn=on",
        module: None,
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "target" => spec.target = options::duration(value)?,
                "interval" => spec.interval = options::duration(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::fifo(Cobalt::new(*self, rate, seed))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, SECOND, Sources, arrival, at, moments};
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(100_000_000);

    /// Returns a packet that arrives at millisecond `ms`, waits `wait_ms`, and finds ten full
    /// packets.
    fn packet(ms: u64, wait_ms: u64) -> Arrival {
        Arrival {
            free_at: Time::from_millis(ms + wait_ms),
            queued_bytes: 14_200,
            ..arrival(Time::from_millis(ms), 10)
        }
    }

    fn marked(queue: &mut Cobalt, from: u64, to: u64, wait_ms: u64) -> Vec<u64> {
        (from..to)
            .filter(|ms| queue.admit(&packet(*ms, wait_ms)) == Admission::Mark)
            .map(|ms| ms + wait_ms)
            .collect()
    }

    #[test]
    fn cobalt_count_rises_with_drops_and_falls_while_idle() {
        let mut queue = Cobalt::new(CobaltSpec::default(), RATE, 1);
        // The sojourn is above the target from 10 ms on: the first mark is due an interval later,
        // then 100 / sqrt(2, 3, 4) ms apart.
        assert_eq!(marked(&mut queue, 0, 330, 10), [110, 181, 239, 289, 334]);
        assert_eq!(queue.count, 6);
        // While the queue is idle, the count falls by one after each distance: first the distance
        // in progress, then 100 / sqrt(5, 4, 3) ms.
        assert!(marked(&mut queue, 336, 520, 4).is_empty());
        assert_eq!(queue.count, 3);
        assert!(marked(&mut queue, 520, 2_000, 4).is_empty());
        assert_eq!(queue.count, 0);
    }

    #[test]
    fn cobalt_drops_packets_of_unresponsive_flows() {
        let mut queue = Cobalt::new(CobaltSpec { limit: 10, ..CobaltSpec::default() }, RATE, 1);
        // The queue is full for a second. The probability rises by 1/256 slightly less often than
        // every 5 ms, about 166 times in total.
        (0..1_000).for_each(|ms| assert_eq!(queue.admit(&packet(ms, 10)), Admission::Drop));
        assert!((queue.blue - 167.0 / 256.0).abs() < 1.5 / 256.0, "{}", queue.blue);
        // Packets are dropped, not marked, although they are ECN-capable.
        let dropped = (1_000..2_000).filter(|ms| {
            let verdict = queue.admit(&Arrival { queued_packets: 5, ..packet(*ms, 1) });
            assert_ne!(verdict, Admission::Mark);
            verdict == Admission::Drop
        });
        assert!((600..710).contains(&dropped.count()));
        // After a long time with an empty queue the probability is zero.
        for ms in 2_000..40_000 {
            queue.admit(&arrival(Time::from_millis(ms), 0));
        }
        assert_eq!(queue.blue, 0.0);
    }

    #[test]
    fn cobalt_keeps_the_queue_short_and_the_link_busy() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        for ecn in [true, false] {
            let load = Load { rate, packet: 1_420, flows: 5, round_trips: [40, 120], ecn };
            let mut sources = Sources::new(load, Cobalt::new(CobaltSpec::default(), rate, 1));
            sources.run(at(0), at(100), SECOND, |_, _| {});
            let before = sources.link.stats(at(100));
            let mut waits = Vec::new();
            sources.run(at(100), at(300), SECOND / 100, |link, now| {
                waits.push(link.queueing_delay(now).as_secs_f64() * 1e3);
            });
            let used = sources.utilisation(&before, at(100), at(300));
            // The bounds are those of CoDel's test.
            let (mean, _) = moments(&waits);
            assert!(mean < 20.0 && used > 0.95, "{mean} ms, {used}");
        }
    }

    #[test]
    fn cobalt_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = CobaltSpec::read(":target=1.5ms,ecn=off").unwrap();
        assert_eq!(
            spec,
            CobaltSpec {
                target: Duration::from_micros(1_500),
                ecn: false,
                ..CobaltSpec::default()
            }
        );
        for wrong in
            [":target=0ms", ":target=200ms", ":interval=200s", ":limit=1p", ":mark=p", ":ecn", "x"]
        {
            let error = CobaltSpec::read(wrong).unwrap_err().to_string();
            assert!(
                error.contains("target=5ms,interval=100ms") && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
