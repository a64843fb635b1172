//! Lengths of time as whole nanoseconds, for sums and divisions on hot paths.

use std::time::Duration;

use fathom_units::Time;

/// Converts a duration to nanoseconds.
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Returns the number of nanoseconds from `from` to `to`; zero if `to` is earlier.
pub(crate) const fn nanos_between(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

/// Returns the number of whole periods from `from` to `to`; zero if `to` is earlier.
pub(crate) fn whole_periods(from: Time, to: Time, period: Duration) -> Duration {
    let period = nanos(period);
    Duration::from_nanos(nanos_between(from, to) / period * period)
}
