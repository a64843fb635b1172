//! The one place where a load reads clocks.

use std::time::{Duration, Instant, SystemTime};

/// Now. A load measures real time.
#[allow(clippy::disallowed_methods)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The time of day, for logs that say when they were written.
#[allow(clippy::disallowed_methods)]
pub(super) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// CPU time that this process has used, on all cores, its own and the system's for it.
pub(super) fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}
