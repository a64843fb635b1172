//! CoDel, Controlled Delay (RFC 8289 §5).
//!
//! CoDel observes the time for which each packet waits, its sojourn. When the sojourn has stayed at
//! or above `target` for an `interval`, CoDel enters the dropping state. In this state, it drops
//! (or marks) one packet, then further packets ever closer together, `interval / sqrt(count)`
//! apart, until the sojourn is below `target` again. If a dropping state begins within 16 intervals
//! of the last one, it continues from the last one's count.
//!
//! The RFC decides when a packet leaves the queue. A [`Link`](crate::link::Link) knows when a
//! packet arrives at which time the packet would leave. This implementation therefore decides on
//! arrival, with the packet's own sojourn, and uses the time at which the packet would leave as the
//! clock. Drops do not change the time at which the link becomes free. Therefore, this clock never
//! runs backwards, and CoDel decides on packets in the order in which they would leave.
//!
//! Departures:
//! - A packet that will be dropped never occupies the queue. In the RFC, such a packet occupies the
//!   queue until it would leave, so `limit` is reached sooner.
//! - The RFC drops no packet while at most one full packet is left behind the leaving one. A link
//!   that needs longer than `target` for one packet thus does not starve. The packets that will
//!   arrive behind a packet are not known yet on arrival, so the packets ahead of it are counted
//!   here: at most one full packet ahead counts as no queue. In a steady queue, both rules are the
//!   same.
//! - The next drop is scheduled when a packet is dropped, not at the next packet, and the next
//!   packet is treated like any other. In the RFC, the packet after the first drop of a dropping
//!   state always passes. Here, this packet may end the dropping state.
//! - Marks are scheduled like drops, as in Linux. RFC 8289 does not define ECN.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text};

use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::options::{self, OptionError, on_off};
use super::tc::{Qdisc, ecn_word};
use crate::nanos::nanos;

/// Number of intervals within which a new dropping state continues from the count of the last one
/// (RFC 8289 §5.5).
pub(super) const RECENT: u32 = 16;

/// Returns `t + interval / sqrt(count)` (RFC 8289 §5.6).
pub(super) fn control_law(t: Time, interval: Duration, count: u32) -> Time {
    t + Duration::from_nanos((nanos(interval) as f64 / f64::from(count).sqrt()) as u64)
}

/// CoDel as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSpec {
    /// Target of the sojourn, below which it should stay.
    pub target: Duration,
    /// Time for which the sojourn may stay above the target: about the longest round trip.
    pub interval: Duration,
    /// Largest number of packets in the queue.
    pub limit: usize,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelSpec {
    /// Returns the defaults: 5 ms and 100 ms (RFC 8289 §4), 1000 packets as in Linux, and ECN.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: 1_000,
            ecn: true,
        }
    }
}

impl fmt::Display for CodelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, interval) = (duration_text(self.target), duration_text(self.interval));
        write!(
            f,
            "codel:target={target},interval={interval},limit={}p,ecn={}",
            self.limit,
            on_off(self.ecn)
        )
    }
}

impl CodelSpec {
    fn check(self) -> Result<Self, &'static str> {
        options::check_codel(self.target, self.interval, self.limit).map(|()| self)
    }
}

/// A CoDel queue. Its times are those at which packets leave the queue.
#[derive(Debug)]
pub struct Codel {
    spec: CodelSpec,
    /// Size in bytes of the largest packet seen, which is used as the full packet.
    full: u32,
    /// Time at which the sojourn will have been above the target for an interval; `None` while it
    /// is below.
    due: Option<Time>,
    /// Whether the queue is in the dropping state.
    dropping: bool,
    /// Time of the next drop in the dropping state.
    next: Time,
    /// Count of the control law. `began_with` is its value at the start of this dropping state.
    count: u32,
    began_with: u32,
}

impl Codel {
    /// Returns an empty queue.
    pub fn new(spec: CodelSpec) -> Self {
        Self {
            spec,
            full: 0,
            due: None,
            dropping: false,
            next: Time::ZERO,
            count: 0,
            began_with: 0,
        }
    }

    fn control_law(&self, t: Time) -> Time {
        control_law(t, self.spec.interval, self.count)
    }

    /// Returns whether the sojourn will have been above the target for an interval when this packet
    /// leaves at `leaves`.
    fn persists(&mut self, a: &Arrival, leaves: Time) -> bool {
        if a.wait() < self.spec.target || a.queued_bytes <= u64::from(self.full) {
            self.due = None;
            return false;
        }
        let due = *self.due.get_or_insert(leaves + self.spec.interval);
        leaves >= due
    }

    /// Returns whether the packet that leaves at `leaves` is dropped or marked.
    fn picks(&mut self, a: &Arrival, leaves: Time) -> bool {
        if !self.persists(a, leaves) {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            let picked = leaves >= self.next;
            if picked {
                self.count = self.count.saturating_add(1);
                self.next = self.control_law(self.next);
            }
            return picked;
        }
        self.dropping = true;
        let grown = self.count.saturating_sub(self.began_with);
        let recent = leaves < self.next + RECENT * self.spec.interval;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.began_with = self.count;
        self.next = self.control_law(leaves);
        true
    }
}

impl Queue for Codel {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.full = self.full.max(a.bytes);
        if a.queued_packets >= self.spec.limit {
            return Admission::Drop;
        }
        match self.picks(a, a.starts()) {
            false => Admission::Forward,
            true if self.spec.ecn && a.ecn_capable => Admission::Mark,
            true => Admission::Drop,
        }
    }
}

impl Discipline for CodelSpec {
    const KIND: Kind = Kind {
        name: "codel",
        short: None,
        example: "target=5ms,interval=100ms,limit=1000p,ecn=on",
        module: Some("sch_codel"),
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

    fn build(&self, _rate: Rate, _seed: u64) -> AnyQueue {
        AnyQueue::fifo(Codel::new(*self))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }

    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        let ecn = ecn_word(self.ecn);
        let (target, interval) = (self.target.as_micros(), self.interval.as_micros());
        Some(Qdisc::Within(format!(
            "codel limit {} target {target}us interval {interval}us {ecn}",
            self.limit
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, SECOND, Sources, arrival, at, moments};
    use fathom_units::Rate;

    use super::*;

    /// Returns a packet that arrives at millisecond `ms`, waits `wait_ms`, and finds ten full
    /// packets.
    fn packet(ms: u64, wait_ms: u64) -> Arrival {
        Arrival {
            free_at: Time::from_millis(ms + wait_ms),
            queued_bytes: 14_200,
            ..arrival(Time::from_millis(ms), 10)
        }
    }

    /// Admits a packet every millisecond from `from` to `to`, each waiting `wait_ms`, and returns
    /// the milliseconds at which the marked packets leave.
    fn marked(codel: &mut Codel, from: u64, to: u64, wait_ms: u64) -> Vec<u64> {
        (from..to)
            .filter(|ms| codel.admit(&packet(*ms, wait_ms)) == Admission::Mark)
            .map(|ms| ms + wait_ms)
            .collect()
    }

    #[test]
    fn codel_marks_follow_the_control_law() {
        // Every packet waits 10 ms. The first packet leaves at 10 ms, so the first mark is due at
        // 110 ms. The next marks follow 100/sqrt(1), 100/sqrt(2), 100/sqrt(3) and 100/sqrt(4) ms
        // later, at 210, 280.71, 338.45 and 388.45 ms, and after 100/sqrt(5) ms at 433.17 ms. The
        // first packet to leave at or after each of these times is marked.
        let mut codel = Codel::new(CodelSpec::default());
        assert_eq!(marked(&mut codel, 0, 430, 10), [110, 210, 281, 339, 389, 434]);
    }

    #[test]
    fn codel_continues_the_drop_count_of_a_recent_dropping_state() {
        let mut codel = Codel::new(CodelSpec::default());
        assert_eq!(marked(&mut codel, 0, 340, 10), [110, 210, 281, 339]);
        assert_eq!(codel.count, 4);
        assert!(marked(&mut codel, 340, 400, 4).is_empty(), "4 ms is below the target");
        // The sojourn is above the target again from 410 ms on, so the first mark is due at 510 ms.
        // The previous dropping state made four marks and began with one, so the count continues
        // with three: 100/sqrt(3) = 57.74 ms, then 100/sqrt(4) = 50 ms.
        assert_eq!(marked(&mut codel, 400, 620, 10), [510, 568, 618]);
        // After a rest of more than 16 intervals the count begins with one again.
        assert!(marked(&mut codel, 620, 2_400, 0).is_empty());
        assert_eq!(marked(&mut codel, 2_400, 2_650, 10), [2_510, 2_610]);
    }

    #[test]
    fn codel_does_not_mark_short_waits_or_single_packets() {
        let mut codel = Codel::new(CodelSpec::default());
        assert!(marked(&mut codel, 0, 1_000, 4).is_empty());
        // On a slow link, one full packet ahead of this packet takes longer than the target.
        for ms in 1_000..2_000 {
            assert_eq!(
                codel.admit(&Arrival { queued_bytes: 1_420, ..packet(ms, 12) }),
                Admission::Forward
            );
        }
        assert!(!marked(&mut codel, 2_000, 2_200, 12).is_empty());
    }

    #[test]
    fn codel_drops_packets_without_ecn_or_beyond_the_limit() {
        for (ecn, ecn_capable, verdict) in [
            (true, true, Admission::Mark),
            (true, false, Admission::Drop),
            (false, true, Admission::Drop),
        ] {
            let mut codel = Codel::new(CodelSpec { ecn, ..CodelSpec::default() });
            codel.admit(&Arrival { ecn_capable, ..packet(0, 10) });
            assert_eq!(codel.admit(&Arrival { ecn_capable, ..packet(100, 10) }), verdict);
        }
        let mut codel = Codel::new(CodelSpec { limit: 10, ..CodelSpec::default() });
        assert_eq!(codel.admit(&packet(0, 0)), Admission::Drop);
    }

    #[test]
    fn codel_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = CodelSpec::read(":target=1.5ms,ecn=off").unwrap();
        assert_eq!(
            spec,
            CodelSpec { target: Duration::from_micros(1_500), ecn: false, ..CodelSpec::default() }
        );
        assert_eq!(spec.to_string(), "codel:target=1.5ms,interval=100ms,limit=1000p,ecn=off");
        assert_eq!(CodelSpec::read(spec.to_string().strip_prefix("codel").unwrap()).unwrap(), spec);
        for wrong in [
            ":target=0ms",
            ":target=200ms",
            ":interval=200s",
            ":target=5",
            ":limit=1p",
            ":mark=p",
            ":ecn",
            "x",
        ] {
            let error = CodelSpec::read(wrong).unwrap_err().to_string();
            assert!(
                error.contains("target=5ms,interval=100ms") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn codel_keeps_the_queue_short_and_the_link_busy() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        for ecn in [true, false] {
            let load = Load { rate, packet: 1_420, flows: 5, round_trips: [40, 120], ecn };
            let mut sources = Sources::new(load, Codel::new(CodelSpec::default()));
            sources.run(at(0), at(100), SECOND, |_, _| {});
            let before = sources.link.stats(at(100));
            let mut waits = Vec::new();
            sources.run(at(100), at(300), SECOND / 100, |link, now| {
                waits.push(link.queueing_delay(now).as_secs_f64() * 1e3);
            });
            let used = sources.utilisation(&before, at(100), at(300));
            // RFC 8289 §4 sets the target at a twentieth of the round trip to use nearly all of the
            // link. A full queue of 1000 packets would wait 1136 ms. The standing queue, measured
            // as the least wait of each interval, is about the target.
            let (mean, _) = moments(&waits);
            let least: Vec<_> =
                waits.chunks(10).map(|w| w.iter().copied().fold(f64::MAX, f64::min)).collect();
            assert!(
                mean < 20.0 && moments(&least).0 < 10.0,
                "mean {mean} ms, least {} ms",
                moments(&least).0
            );
            assert!(used > 0.95, "{used}");
        }
    }
}
