//! Delays of datagrams in a relay, and the lateness that the machine adds.

use std::fmt;
use std::time::Duration;

use fathom_units::Time;
use hdrhistogram::Histogram;

use crate::kernel::{CpuTime, ReceiveDrops};

/// Lateness above which a datagram counts as late when it left or was read. On an idle machine,
/// waking from sleep takes less time (docs/paths.md: 98% of wakeups).
pub const LATE: Duration = Duration::from_millis(1);
/// Longest time that is distinguished, in microseconds: 10 minutes.
const LONGEST: u64 = 600_000_000;
/// Time between two reads of the kernel's counts. Reading takes longer the more sockets the system
/// has.
const READ_COUNTS: Duration = Duration::from_secs(10);
/// Fraction of late datagrams above which the relay counts as the limit. `BUSY_PART` is the
/// corresponding fraction of a core's time that the relay used or waited for.
const LATE_PART: f64 = 0.01;
const BUSY_PART: f64 = 0.85;

/// Times of the forwarded datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTiming {
    /// Datagrams that left.
    pub sent: u64,
    /// Median of the time between reading and leaving: queue, propagation delay, the path's other
    /// effects, and lateness.
    pub delay_p50: Duration,
    /// 95th percentile of the time between reading and leaving.
    pub delay_p95: Duration,
    /// Maximum of the time between reading and leaving.
    pub delay_max: Duration,
    /// Datagrams that left more than [`LATE`] after their time.
    pub late: u64,
    /// 99th percentile of the lateness.
    pub late_p99: Duration,
    /// Largest lateness.
    pub late_max: Duration,
}

/// Recorder of a [`LineTiming`].
#[derive(Debug)]
pub(super) struct LineTimer {
    delay: Histogram<u64>,
    lateness: Histogram<u64>,
    late: u64,
}

impl LineTimer {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are sound");
        Self { delay: histogram(), lateness: histogram(), late: 0 }
    }

    /// Records that a datagram leaves at `now` that came in at `arrived` and should have left at
    /// `due`.
    pub(super) fn record(&mut self, arrived: Time, due: Time, now: Time) {
        let lateness = now.since(due);
        self.delay.saturating_record(now.since(arrived).as_micros() as u64);
        self.lateness.saturating_record(lateness.as_micros() as u64);
        self.late += u64::from(lateness > LATE);
    }

    pub(super) fn timing(&self) -> LineTiming {
        if self.delay.is_empty() {
            return LineTiming::default();
        }
        let micros = Duration::from_micros;
        LineTiming {
            sent: self.delay.len(),
            delay_p50: micros(self.delay.value_at_quantile(0.5)),
            delay_p95: micros(self.delay.value_at_quantile(0.95)),
            delay_max: micros(self.delay.max()),
            late: self.late,
            late_p99: micros(self.lateness.value_at_quantile(0.99)),
            late_max: micros(self.lateness.max()),
        }
    }
}

/// Resources of the machine that a relay used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayLoad {
    /// Time for which the relay ran.
    pub wall: Duration,
    /// CPU time of the relay's thread.
    pub cpu: CpuTime,
    /// Datagrams that the relay's sockets dropped because they were not read in time; `None` if the
    /// system does not report them.
    pub unread: Option<u64>,
    /// Datagrams that were read.
    pub read: u64,
    /// Datagrams read from sockets that had not been empty for more than [`LATE`]. Such datagrams
    /// may have waited this long.
    pub read_late: u64,
}

impl RelayLoad {
    /// Returns the fraction of time, from 0 to 1, in which the thread ran or waited for a core.
    pub fn busy(&self) -> f64 {
        let busy = self.cpu.ran + self.cpu.waited.unwrap_or_default();
        if self.wall.is_zero() {
            0.0
        } else {
            (busy.as_secs_f64() / self.wall.as_secs_f64()).min(1.0)
        }
    }
}

/// Recorder of a [`RelayLoad`], used by the relay's thread.
#[derive(Debug, Default)]
pub(super) struct LoadMeter {
    began: Option<(Duration, CpuTime)>,
    read_at: Duration,
    drops: ReceiveDrops,
    pub(super) load: RelayLoad,
}

impl LoadMeter {
    /// Reads the thread's times at `now`. Also reads the kernel's counts if they are due, or if
    /// this is the `last` call.
    pub(super) fn update(&mut self, now: Duration, last: bool) {
        let cpu = CpuTime::of_thread();
        let (began, before) = *self.began.get_or_insert((now, cpu));
        (self.load.wall, self.load.cpu) = (now.saturating_sub(began), cpu.since(before));
        if last || now >= self.read_at + READ_COUNTS {
            self.load.unread = self.drops.update();
            self.read_at = now;
        }
    }
}

/// Reason why a relay, rather than the path that it emulates, determined rates and delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RelayLimit {
    /// Datagrams left late.
    Late {
        /// Fraction of late datagrams, from 0 to 1.
        part: f64,
        /// 99th percentile of the lateness.
        p99: Duration,
    },
    /// Datagrams waited before they were read.
    ReadLate {
        /// Fraction of datagrams that may have waited, from 0 to 1.
        part: f64,
    },
    /// The kernel dropped datagrams before they were read.
    Unread(u64),
    /// The relay itself dropped datagrams.
    Overrun(u64),
    /// The relay's thread used, or waited for, nearly a whole core.
    Busy {
        /// CPU time of the thread as a fraction of the elapsed time.
        ran: f64,
        /// Time in which the thread waited for a core, as a fraction of the elapsed time.
        waited: f64,
    },
}

impl fmt::Display for RelayLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        match self {
            Self::Late { part, p99 } => write!(
                f,
                "{:.1} % of the datagrams left more than {:.0} ms late (p99 {:.1} ms)",
                part * 100.0,
                ms(LATE),
                ms(*p99)
            ),
            Self::ReadLate { part } => {
                write!(
                    f,
                    "{:.1} % of the datagrams may have waited more than {:.0} ms before the relay \
                     read them",
                    part * 100.0,
                    ms(LATE)
                )
            }
            Self::Unread(count) => {
                write!(f, "the kernel dropped {count} datagrams before the relay read them")
            }
            Self::Overrun(count) => write!(f, "the relay itself dropped {count} datagrams"),
            Self::Busy { ran, waited } => write!(
                f,
                "the thread of the relay ran for {:.0} % of the time and waited for a core for \
                 {:.0} %",
                ran * 100.0,
                waited * 100.0
            ),
        }
    }
}

/// Returns the reasons why a relay did not emulate its path accurately, derived from its counts.
/// The result is empty if there are no such reasons.
pub(super) fn limits(lines: [LineTiming; 2], load: &RelayLoad, overrun: u64) -> Vec<RelayLimit> {
    let part = |count: u64, all: u64| if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let sent = lines.iter().map(|line| line.sent).sum();
    let late = part(lines.iter().map(|line| line.late).sum(), sent);
    let p99 = lines.iter().map(|line| line.late_p99).max().unwrap_or_default();
    let read_late = part(load.read_late, load.read);
    let unread = load.unread.unwrap_or(0);
    let wall = load.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    let (ran, waited) = (
        load.cpu.ran.as_secs_f64() / wall,
        load.cpu.waited.unwrap_or_default().as_secs_f64() / wall,
    );
    [
        (late > LATE_PART).then_some(RelayLimit::Late { part: late, p99 }),
        (read_late > LATE_PART).then_some(RelayLimit::ReadLate { part: read_late }),
        (unread > 0).then_some(RelayLimit::Unread(unread)),
        (overrun > 0).then_some(RelayLimit::Overrun(overrun)),
        (load.busy() >= BUSY_PART).then_some(RelayLimit::Busy { ran, waited }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_delays_and_lateness_match_hand_calculation() {
        let (mut timer, due) = (LineTimer::new(), Time::from_millis(20));
        assert_eq!(timer.timing(), LineTiming::default());
        // 95 datagrams of 20 ms are on time, 3 are 0.5 ms late, and 2 are 5 ms late.
        for _ in 0..95 {
            timer.record(Time::ZERO, due, due);
        }
        for late in [500, 500, 500, 5_000, 5_000] {
            timer.record(Time::ZERO, due, due + Duration::from_micros(late));
        }
        let timing = timer.timing();
        let near = |d: Duration, ms: f64| (d.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.002;
        assert!(
            near(timing.delay_p50, 20.0)
                && near(timing.delay_p95, 20.0)
                && near(timing.delay_max, 25.0),
            "{timing:?}"
        );
        assert!(near(timing.late_p99, 5.0) && near(timing.late_max, 5.0), "{timing:?}");
        assert_eq!((timing.sent, timing.late), (100, 2));
    }

    #[test]
    fn overloaded_relay_reports_the_reason() {
        let on_time = LineTiming { sent: 1_000, late: 5, ..LineTiming::default() };
        let cpu = |ran, waited| CpuTime {
            ran: Duration::from_millis(ran),
            waited: Some(Duration::from_millis(waited)),
        };
        let idle = RelayLoad {
            wall: Duration::from_secs(10),
            cpu: cpu(1_000, 500),
            read: 2_000,
            ..RelayLoad::default()
        };
        assert_eq!(limits([on_time; 2], &idle, 0), []);
        let late = LineTiming { late: 100, late_p99: Duration::from_millis(57), ..on_time };
        let starved =
            RelayLoad { cpu: cpu(4_000, 5_000), unread: Some(12), read_late: 200, ..idle };
        let said: Vec<String> =
            limits([on_time, late], &starved, 3).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "5.2 % of the datagrams left more than 1 ms late (p99 57.0 ms)",
                "10.0 % of the datagrams may have waited more than 1 ms before the relay read them",
                "the kernel dropped 12 datagrams before the relay read them",
                "the relay itself dropped 3 datagrams",
                "the thread of the relay ran for 40 % of the time and waited for a core for 50 %",
            ]
        );
        assert_eq!(
            limits([LineTiming::default(); 2], &RelayLoad::default(), 0),
            [],
            "nothing has happened"
        );
    }
}
