//! Clock for the timestamp frames. Congestion control gets the time from the stack. The frame layer
//! is in the packet keys, which stacks call without a time, so it reads its own clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_cc::Time;

/// Source of time: the clock of the system or of a laboratory.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Returns the value of this host's timestamp counter in nanoseconds, `since_start` nanoseconds
    /// after the connection began.
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

/// The clock of an endpoint's runtime.
#[cfg(feature = "rustls")]
pub(crate) struct RuntimeClock<S: crate::Stack>(pub(crate) Arc<S::Runtime>);

#[cfg(feature = "rustls")]
impl<S: crate::Stack> Clock for RuntimeClock<S> {
    fn now(&self) -> Instant {
        S::now(&self.0)
    }
}

/// Difference between the clock and the stack's time at which a warning is logged. It is longer
/// than a thread waits for a processor between two readings.
const DIVERGED: Duration = Duration::from_secs(1);
/// Value of [`ConnectionClock::sealed`] between packets.
const NONE: u64 = u64::MAX;

/// Time of one connection, counted from its start.
pub(crate) struct ConnectionClock {
    clock: Arc<dyn Clock>,
    start: Instant,
    /// Time on the clock when the last packet was sealed, in nanoseconds.
    sealed: AtomicU64,
    /// Largest difference between the clock and the stack's time, in nanoseconds.
    error: AtomicU64,
    warned: AtomicBool,
}

impl ConnectionClock {
    /// Starts the connection's time now.
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        Self {
            start: clock.now(),
            clock,
            sealed: AtomicU64::new(NONE),
            error: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        }
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

    /// Returns the current time, at which a packet is sealed.
    #[inline]
    pub(crate) fn now_sealing(&self) -> Time {
        let now = self.now();
        self.sealed.store(now.as_nanos(), Ordering::Relaxed);
        now
    }

    /// Compares the clock with the stack's time at which the packet sealed last was sent.
    ///
    /// A stack calls this method for each packet in flight. It may seal a packet that is not in
    /// flight, such as one with ACK frames only, and send a packet of the handshake later. The time
    /// of sealing then belongs to an earlier packet. Therefore a difference counts only as far as
    /// the clock now confirms it.
    #[inline]
    pub(crate) fn compare(&self, sent: Time) {
        let sealed = self.sealed.swap(NONE, Ordering::Relaxed);
        if sealed == NONE {
            return; // This is a packet of the handshake, which has no timestamp frame.
        }
        if sealed.abs_diff(sent.as_nanos()) > self.error.load(Ordering::Relaxed) {
            self.confirm(sealed, sent);
        }
    }

    #[cold]
    fn confirm(&self, sealed: u64, sent: Time) {
        let sent = sent.as_nanos();
        let error = sealed.abs_diff(sent).min(self.now().as_nanos().abs_diff(sent));
        if error > self.error.fetch_max(error, Ordering::Relaxed)
            && error > DIVERGED.as_nanos() as u64
        {
            self.warn();
        }
    }

    #[cold]
    fn warn(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the plug-in's clock and the stack's clock differ by {:?}, so one-way delays are \
                 wrong; pass the endpoint's runtime to Plugin::with_runtime",
                self.error()
            );
        }
    }

    /// Returns the largest difference between the clock and the stack's time so far.
    pub(crate) fn error(&self) -> Duration {
        Duration::from_nanos(self.error.load(Ordering::Relaxed))
    }

    /// Returns this host's timestamp counter at `at`, which is the time on the wire.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    struct SetClock(Instant, AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Instant {
            self.0 + Duration::from_millis(self.1.load(Ordering::Relaxed))
        }
    }

    fn at_start() -> (Arc<SetClock>, ConnectionClock) {
        let set = Arc::new(SetClock(SystemClock.now(), AtomicU64::new(0)));
        let clock = ConnectionClock::start(Arc::clone(&set) as Arc<dyn Clock>);
        (set, clock)
    }

    #[test]
    fn a_handshake_packet_sent_after_an_ack_alone_is_no_difference() {
        let (set, clock) = at_start();
        for ms in [10, 1500, 4000] {
            // A packet with ACK frames only is sealed. The stack does not report it as sent.
            clock.now_sealing();
            set.1.store(ms, Ordering::Relaxed);
            // A packet of the handshake is sent again without a timestamp frame.
            clock.compare(clock.now());
        }
        assert_eq!(clock.error(), Duration::ZERO);
    }

    #[test]
    fn a_stack_with_another_clock_is_a_difference() {
        for (clock_ms, stack_ms) in [(0, 2000), (2000, 0), (5000, 3000)] {
            let (set, clock) = at_start();
            set.1.store(clock_ms, Ordering::Relaxed);
            clock.now_sealing();
            clock.compare(Time::from_nanos(stack_ms * 1_000_000));
            assert_eq!(clock.error(), Duration::from_secs(2), "{clock_ms} and {stack_ms} ms");
            assert!(clock.warned.load(Ordering::Relaxed));
        }
    }
}
