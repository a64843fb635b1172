//! Clocks. No other module of the load generator reads a clock.

use std::time::{Duration, Instant, SystemTime};

/// Returns the current time. A load measures real time.
#[allow(clippy::disallowed_methods)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Returns the time of day, for logs that state when they were written.
#[allow(clippy::disallowed_methods)]
pub(super) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Returns the CPU time that this process has used on all cores, in user and system mode.
pub(super) fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
