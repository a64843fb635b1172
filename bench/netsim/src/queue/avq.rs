//! Adaptive Virtual Queue (Kunniyur, Srikant: "Analysis and design of an adaptive virtual queue
//! (AVQ) algorithm for active queue management", SIGCOMM 2001; SDC §3.6).
//!
//! Every packet also enters a virtual queue, which is only a count of bytes. It drains at a virtual
//! capacity `Cv`, which is at most the link's capacity `C`. If the packet would overflow the
//! virtual queue, the real packet is marked or dropped. `Cv` follows `dCv/dt = a (g C - arrival
//! rate)`, so marks become more frequent until the arrival rate is `g C`. These steps apply to a
//! packet of `b` bytes that arrives `dt` after the previous one:
//!
//! ```text
//! VQ <- max(VQ - Cv dt, 0)
//! VQ + b > B: mark or drop; else VQ <- VQ + b
//! Cv <- max(min(Cv + a g C dt, C) - a b, 0)
//! ```
//!
//! A dropped packet does not arrive at the link and leaves `Cv` unchanged. The `dt` of the next
//! change of `Cv` then includes the time before the drop. The virtual queue drains continuously, so
//! it has its own clock.
//!
//! Departures:
//! - The virtual queue is counted in bytes. In the papers, all packets have the same size.
//! - `Cv` starts at `g C`, its equilibrium under a load of `g C`. The papers give no initial value.
//! - With `ecn=on`, packets that are not ECN-capable are dropped instead of marked, and they count
//!   as dropped packets.

use std::fmt;

use fathom_units::{Invalid, Rate, Time};

use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::options::{self, OptionError, on_off};
use crate::nanos::nanos_between;

/// AVQ as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AvqSpec {
    /// Rate of adaptation of the virtual capacity, per second (SDC §3.6: alpha).
    pub alpha: f64,
    /// Target utilisation (SDC §3.6: gamma).
    pub gamma: f64,
    /// Largest number of bytes in the virtual queue.
    pub buffer: u64,
    /// Largest number of packets in the real queue.
    pub limit: usize,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for AvqSpec {
    /// Returns the defaults: 0.12 and 0.98 (SDC §3.6), a real queue of 100 packets (SDC table 1),
    /// a virtual queue of the same size with packets of 1420 bytes, and ECN.
    fn default() -> Self {
        Self { alpha: 0.12, gamma: 0.98, buffer: 142_000, limit: 100, ecn: true }
    }
}

impl fmt::Display for AvqSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alpha, gamma, buffer, limit, ecn } = self;
        write!(f, "avq:a={alpha},g={gamma},buffer={buffer}B,limit={limit}p,ecn={}", on_off(*ecn))
    }
}

impl AvqSpec {
    fn check(self) -> Result<Self, &'static str> {
        // The condition is written so that NaN fails.
        let damping = self.alpha > 0.0 && self.alpha <= 100.0;
        let share = self.gamma > 0.0 && self.gamma <= 1.0;
        if !damping {
            return Err("needs a value of a above 0 and at most 100");
        }
        if !share {
            return Err("needs a value of g above 0 and at most 1");
        }
        if !(3_000..=1_000_000_000_000).contains(&self.buffer) {
            return Err("needs a buffer from 3kB to 1000000MB");
        }
        if !(2..=1_000_000).contains(&self.limit) {
            return Err("needs a limit from 2p to 1000000p");
        }
        Ok(self)
    }
}

/// An AVQ queue.
#[derive(Debug)]
pub struct Avq {
    spec: AvqSpec,
    /// Rate of the link, and drain rate of the virtual queue (`virtual_capacity`), in bytes per
    /// second.
    capacity: f64,
    virtual_capacity: f64,
    /// Number of bytes in the virtual queue. The queue was last drained at `drained`.
    virtual_queue: f64,
    drained: Time,
    /// Time at which the virtual capacity last changed.
    adapted: Time,
}

impl Avq {
    /// Returns an empty queue for a link of this rate.
    pub fn new(spec: AvqSpec, rate: Rate) -> Self {
        let capacity = rate.bits_per_sec() as f64 / 8.0;
        Self {
            spec,
            capacity,
            virtual_capacity: spec.gamma * capacity,
            virtual_queue: 0.0,
            drained: Time::ZERO,
            adapted: Time::ZERO,
        }
    }

    fn drain(&mut self, now: Time) {
        let dt = seconds(self.drained, now);
        self.virtual_queue = (self.virtual_queue - self.virtual_capacity * dt).max(0.0);
        self.drained = now;
    }

    fn adapt(&mut self, now: Time, bytes: f64) {
        let AvqSpec { alpha, gamma, .. } = self.spec;
        let grown =
            self.virtual_capacity + alpha * gamma * self.capacity * seconds(self.adapted, now);
        self.virtual_capacity = (grown.min(self.capacity) - alpha * bytes).max(0.0);
        self.adapted = now;
    }
}

fn seconds(from: Time, to: Time) -> f64 {
    nanos_between(from, to) as f64 * 1e-9
}

impl Queue for Avq {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.drain(a.now);
        let bytes = f64::from(a.bytes);
        let overflows = self.virtual_queue + bytes > self.spec.buffer as f64;
        let marks = self.spec.ecn && a.ecn_capable;
        if a.queued_packets >= self.spec.limit || overflows && !marks {
            return Admission::Drop;
        }
        if !overflows {
            self.virtual_queue += bytes;
        }
        self.adapt(a.now, bytes);
        if overflows { Admission::Mark } else { Admission::Forward }
    }
}

impl Discipline for AvqSpec {
    const KIND: Kind = Kind {
        name: "avq",
        short: None,
        example: "a=0.12,g=0.98,buffer=142kB,limit=100p,ecn=on",
        module: None,
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "a" => spec.alpha = options::number(value)?,
                "g" => spec.gamma = options::number(value)?,
                "buffer" => spec.buffer = options::bytes(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, rate: Rate, _seed: u64) -> AnyQueue {
        AnyQueue::fifo(Avq::new(*self, rate))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, SECOND, Sources, arrival, at};
    use super::*;

    /// One million bytes per second.
    const RATE: Rate = Rate::from_bits_per_sec(8_000_000);

    fn avq(spec: AvqSpec) -> Avq {
        Avq::new(spec, RATE)
    }

    /// Returns a packet of 1000 bytes that arrives at this millisecond.
    fn packet(ms: u64, ecn_capable: bool) -> Arrival {
        Arrival { bytes: 1_000, ecn_capable, ..arrival(Time::from_millis(ms), 0) }
    }

    #[test]
    fn avq_virtual_capacity_follows_the_equations_of_the_paper() {
        let mut q = avq(AvqSpec { buffer: 3_000, ..AvqSpec::default() });
        assert_eq!(q.virtual_capacity, 980_000.0);
        // At 1 ms: Cv = 980000 + 0.12 * 980000 * 0.001 - 0.12 * 1000 = 979997.6.
        assert_eq!(q.admit(&packet(1, true)), Admission::Forward);
        assert!(
            (q.virtual_queue - 1_000.0).abs() < 1e-6
                && (q.virtual_capacity - 979_997.6).abs() < 1e-6,
            "{q:?}"
        );
        // Two more packets at once fill the virtual queue, and each reduces Cv by 120. The fourth
        // packet is marked and also reduces Cv by 120.
        assert_eq!(q.admit(&packet(1, true)), Admission::Forward);
        assert_eq!(q.admit(&packet(1, true)), Admission::Forward);
        assert_eq!(q.admit(&packet(1, true)), Admission::Mark);
        assert!(
            (q.virtual_queue - 3_000.0).abs() < 1e-6
                && (q.virtual_capacity - 979_637.6).abs() < 1e-6,
            "{q:?}"
        );
        // At 2 ms: 979.6376 bytes have drained, so 1000 more do not fit. Cv + 117.6 - 120.
        assert_eq!(q.admit(&packet(2, true)), Admission::Mark);
        assert!(
            (q.virtual_queue - 2_020.362_4).abs() < 1e-6
                && (q.virtual_capacity - 979_635.2).abs() < 1e-6,
            "{q:?}"
        );
        // After a long silence Cv is the link's capacity, less 120 for the packet itself.
        assert_eq!(q.admit(&packet(1_000_000, true)), Admission::Forward);
        assert!(
            (q.virtual_queue - 1_000.0).abs() < 1e-6
                && (q.virtual_capacity - 999_880.0).abs() < 1e-6,
            "{q:?}"
        );
    }

    #[test]
    fn packet_dropped_by_avq_does_not_change_virtual_capacity() {
        for ecn in [true, false] {
            // Packets that are not ECN-capable are dropped in either mode; ECN-capable ones only
            // with `ecn` off.
            let mut q = avq(AvqSpec { buffer: 3_000, ecn, ..AvqSpec::default() });
            for _ in 0..3 {
                assert_eq!(q.admit(&packet(0, !ecn)), Admission::Forward);
            }
            let before = q.virtual_capacity;
            assert_eq!(q.admit(&packet(1, !ecn)), Admission::Drop);
            assert_eq!(q.virtual_capacity, before);
            // For the next packet, at 2 ms, the drain over the whole 2 ms counts: Cv + 0.12 * 0.98
            // * 10^6 * 0.002 - 120.
            assert_eq!(q.admit(&packet(2, !ecn)), Admission::Forward);
            assert!((q.virtual_capacity - (before + 235.2 - 120.0)).abs() < 1e-6, "{q:?}");
        }
        let mut q = avq(AvqSpec::default());
        assert_eq!(
            q.admit(&Arrival { queued_packets: 100, ..packet(0, true) }),
            Admission::Drop,
            "the real queue is full"
        );
        assert_eq!((q.virtual_capacity, q.virtual_queue), (980_000.0, 0.0));
    }

    #[test]
    fn avq_with_zero_virtual_capacity_marks_all_and_recovers() {
        // 0.12 * 1000 bytes per packet: 8167 packets at once reduce Cv from 980000 to zero.
        let mut q = avq(AvqSpec::default());
        for _ in 0..8_200 {
            q.admit(&packet(0, true));
        }
        assert_eq!(q.virtual_capacity, 0.0);
        assert_eq!(q.admit(&packet(0, true)), Admission::Mark);
        assert_eq!(
            q.admit(&packet(60_000, true)),
            Admission::Mark,
            "nothing was drained, but Cv has grown"
        );
        assert_eq!(q.admit(&packet(61_000, true)), Admission::Forward);
    }

    #[test]
    fn avq_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = AvqSpec::read(":a=0.5,buffer=57600B,ecn=off").unwrap();
        assert_eq!(spec, AvqSpec { alpha: 0.5, buffer: 57_600, ecn: false, ..AvqSpec::default() });
        assert_eq!(spec.to_string(), "avq:a=0.5,g=0.98,buffer=57600B,limit=100p,ecn=off");
        assert_eq!(AvqSpec::read(spec.to_string().strip_prefix("avq").unwrap()).unwrap(), spec);
        for wrong in [
            ":a=0",
            ":a=NaN",
            ":g=1.1",
            ":g=0",
            ":buffer=1kB",
            ":buffer=9p",
            ":limit=1p",
            ":w=1",
            "x",
        ] {
            let error = AvqSpec::read(wrong).unwrap_err().to_string();
            assert!(error.contains("a=0.12,g=0.98") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn avq_utilisation_reaches_the_configured_gamma() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        // A full queue would give 1.000: the bound must be closer to 0.98 than that.
        for (flows, ecn, gamma) in [
            (2, true, 0.98),
            (5, false, 0.98),
            (10, true, 0.98),
            (20, false, 0.98),
            (10, true, 0.9),
        ] {
            let load = Load { rate, packet: 1_420, flows, round_trips: [40, 120], ecn };
            let mut sources =
                Sources::new(load, Avq::new(AvqSpec { gamma, ecn, ..AvqSpec::default() }, rate));
            sources.run(at(0), at(100), SECOND, |_, _| {});
            let before = sources.link.stats(at(100));
            sources.run(at(100), at(300), SECOND, |_, _| {});
            let used = sources.utilisation(&before, at(100), at(300));
            assert!((used - gamma).abs() < 0.005, "{flows} flows, ecn {ecn}: {used} for {gamma}");
        }
    }
}
