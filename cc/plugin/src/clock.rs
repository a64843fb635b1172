//! The clock behind the frames. Congestion control itself gets its time from the stack; the frame layer sits in the packet keys,
//! which stacks call without a time, so it brings its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::Time;

/// A clock: the system's, or a laboratory's.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Instant;

    /// What this host's timestamp counter shows `since_start` nanoseconds after the connection began, in nanoseconds.
    ///
    /// Laboratories override it to give hosts clocks of their own: an offset, a drift.
    fn stamp(&self, since_start: u64) -> u64 {
        since_start
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    // The one place in this crate that reads the real clock.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A connection's time: from its beginning on.
pub(crate) struct ConnectionClock {
    clock: Arc<dyn Clock>,
    start: Instant,
}

impl ConnectionClock {
    /// The connection begins now.
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        Self { start: clock.now(), clock }
    }

    /// The stack's instant as the controllers' time.
    #[inline]
    pub(crate) fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.start).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The controllers' time as the stack's instant.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        self.start + Duration::from_nanos(at.as_nanos())
    }

    /// Now, as the controllers' time.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// What this host's own counter shows at `at`: the time on the wire.
    #[inline]
    pub(crate) fn wire_time(&self, at: Time) -> Time {
        Time::from_nanos(self.clock.stamp(at.as_nanos()))
    }

    /// What this host's own counter shows now.
    #[inline]
    pub(crate) fn wire_now(&self) -> Time {
        self.wire_time(self.now())
    }
}
