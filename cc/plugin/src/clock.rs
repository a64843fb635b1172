//! The clock behind the frames. Congestion control itself gets its time from the stack; the frame layer sits in the packet keys,
//! which stacks call without a time, so it brings its own.

use std::time::Instant;

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
