//! Determines whether the client was the bottleneck.

use std::fmt;
use std::time::Duration;

use super::latency::LatencyHistogram;

/// Minimum CPU utilisation at which the client counts as saturated.
const BUSY: f64 = 0.85;
/// Utilisation of the machine's cores by all programs at which CPU time counts as scarce.
const MACHINE_BUSY: f64 = 0.9;
/// Lateness that is always tolerated, because waking from sleep takes this long on a busy system.
const LATE: Duration = Duration::from_millis(1);
/// Fraction of the median response time beyond which lateness counts as saturation.
const LATE_PART: f64 = 0.1;

/// CPU usage and lateness of the client during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientSaturation {
    /// CPU time of the process while it measured.
    pub cpu: Duration,
    /// Duration of the measurement.
    pub wall: Duration,
    /// Number of cores that the process may use.
    pub cores: usize,
    /// 99th percentile of the lateness of requests, in an open loop.
    pub late_p99: Option<Duration>,
    /// Largest lateness of a request, in an open loop.
    pub late_max: Option<Duration>,
    /// Median response time.
    pub response_p50: Option<Duration>,
    /// Busy fraction of the machine's cores by all programs, from 0 to 1; `None` if the system does
    /// not report it.
    pub machine: Option<f64>,
    /// Datagrams that the kernel dropped because the client had not read earlier ones; `None` if
    /// the system does not report this number.
    pub unread: Option<u64>,
}

impl ClientSaturation {
    pub(super) fn new(
        cpu: Duration,
        wall: Duration,
        lag: Option<&LatencyHistogram>,
        response: &LatencyHistogram,
        (machine, unread): (Option<f64>, Option<u64>),
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (late_p99, late_max) = lag.map_or((None, None), |lag| (lag.quantile(0.99), lag.max()));
        Self {
            cpu,
            wall,
            cores,
            late_p99,
            late_max,
            response_p50: response.quantile(0.5),
            machine,
            unread,
        }
    }

    /// Returns the fraction of the cores that the process used.
    pub fn utilisation(&self) -> f64 {
        let there = self.wall.as_secs_f64() * self.cores as f64;
        if there > 0.0 { self.cpu.as_secs_f64() / there } else { 0.0 }
    }

    /// Returns whether the results probably reflect the client's limits, not those of the server or
    /// the network.
    pub fn is_limit(&self) -> bool {
        let bearable = self.response_p50.map_or(LATE, |p50| p50.mul_f64(LATE_PART).max(LATE));
        self.utilisation() >= BUSY || self.late_p99.is_some_and(|late| late > bearable)
    }

    /// Returns whether all programs together used nearly all cores. Even if the client was not the
    /// bottleneck, the server or a relay on this machine may then have been.
    pub fn machine_is_busy(&self) -> bool {
        self.machine.is_some_and(|busy| busy >= MACHINE_BUSY)
    }
}

impl fmt::Display for ClientSaturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores =
            if self.cores == 1 { "1 core".to_owned() } else { format!("{} cores", self.cores) };
        write!(f, "{:.0} % of {cores}", self.utilisation() * 100.0)?;
        if let (Some(p99), Some(max)) = (self.late_p99, self.late_max) {
            let ms = |d: Duration| d.as_secs_f64() * 1e3;
            write!(f, "; requests started at most {:.1} ms late (p99 {:.1} ms)", ms(max), ms(p99))?;
        }
        f.write_str(match self.is_limit() {
            true if self.utilisation() < BUSY => {
                ": requests started late, so the client was probably the limit (is the machine \
                 busy with other work?)"
            }
            true => ": the client was probably the limit",
            false if self.machine_is_busy() => {
                ": the client was not the limit, but the cores were busy, so the server or the network may \
                 have been the limit"
            }
            false => ": the client was not the limit",
        })?;
        if let Some(busy) = self.machine.filter(|_| self.machine_is_busy()) {
            write!(
                f,
                "; all programs together used {:.0} % of the machine's CPU time",
                busy * 100.0
            )?;
        }
        match self.unread {
            Some(unread) if unread > 0 => {
                write!(
                    f,
                    "; the kernel dropped {unread} datagrams because the client did not read them \
                     in time"
                )
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ClientSaturation = ClientSaturation {
        cpu: Duration::from_millis(6_800),
        wall: Duration::from_secs(10),
        cores: 2,
        late_p99: Some(Duration::from_micros(200)),
        late_max: Some(Duration::from_micros(400)),
        response_p50: Some(Duration::from_millis(20)),
        machine: Some(0.5),
        unread: Some(0),
    };

    #[test]
    fn idle_punctual_client_is_not_reported_as_saturated() {
        assert_eq!(
            IDLE.to_string(),
            "34 % of 2 cores; requests started at most 0.4 ms late (p99 0.2 ms): the client was \
             not the limit"
        );
        let closed = ClientSaturation { late_p99: None, late_max: None, ..IDLE };
        assert_eq!(closed.to_string(), "34 % of 2 cores: the client was not the limit");
    }

    #[test]
    fn saturation_report_names_busy_machine_and_lost_datagrams() {
        let starved =
            ClientSaturation { cpu: Duration::from_millis(2_200), machine: Some(0.97), ..IDLE };
        assert!(!starved.is_limit());
        assert!(
            starved.to_string().ends_with(
                ": the client was not the limit, but the cores were busy, so the server or the network may \
                 have been the limit; all programs together used 97 % of the machine's CPU time"
            ),
            "{starved}"
        );
        let lost = ClientSaturation { unread: Some(12), ..IDLE };
        assert!(lost.to_string().ends_with(
            ": the client was not the limit; the kernel dropped 12 datagrams because the client did \
             not read them in time"
        ));
        let unknown = ClientSaturation { unread: None, machine: None, ..IDLE };
        assert!(unknown.to_string().ends_with(": the client was not the limit"));
    }

    #[test]
    fn busy_or_late_client_is_reported_as_saturated() {
        let busy = ClientSaturation { cpu: Duration::from_millis(19_400), ..IDLE };
        assert!(busy.to_string().starts_with("97 % of 2 cores") && busy.is_limit());
        assert!(busy.to_string().ends_with("the client was probably the limit"));
        let late = |ms| ClientSaturation { late_p99: Some(Duration::from_millis(ms)), ..IDLE };
        assert!(late(3).is_limit() && !late(2).is_limit());
        assert!(
            late(3)
                .to_string()
                .contains(": requests started late, so the client was probably the limit")
        );
        let fast = |p50| ClientSaturation {
            response_p50: p50,
            late_p99: Some(Duration::from_micros(900)),
            ..IDLE
        };
        assert!(!fast(None).is_limit() && !fast(Some(Duration::from_micros(300))).is_limit());
    }
}
