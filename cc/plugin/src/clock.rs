//! Clock for the timestamp frames. Congestion control gets the time from the stack. The frame layer
//! is in the packet keys, which stacks call without a time, so it reads its own clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::Time;

/// Source of time: the system's clock or a laboratory's.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Returns this host's timestamp counter `since_start` nanoseconds after the connection began,
    /// in nanoseconds.
    ///
    /// Laboratories override this method to give hosts clocks with an offset or drift.
    fn stamp(&self, since_start: u64) -> u64 {
        since_start
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    // This is the only place in this crate that reads the real clock.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// Time of one connection, counted from its start.
pub(crate) struct ConnectionClock {
    clock: Arc<dyn Clock>,
    start: Instant,
}

impl ConnectionClock {
    /// Starts the connection's time now.
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        Self { start: clock.now(), clock }
    }

    /// Converts the stack's instant to the controllers' time.
    #[inline]
    pub(crate) fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.start).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Converts the controllers' time to the stack's instant.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        self.start + Duration::from_nanos(at.as_nanos())
    }

    /// Returns the current time as the controllers' time.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// Returns this host's timestamp counter at `at`: the time on the wire.
    #[inline]
    pub(crate) fn wire_time(&self, at: Time) -> Time {
        Time::from_nanos(self.clock.stamp(at.as_nanos()))
    }

    /// Returns this host's timestamp counter now.
    #[inline]
    pub(crate) fn wire_now(&self) -> Time {
        self.wire_time(self.now())
    }
}
