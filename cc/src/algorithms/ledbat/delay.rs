//! The queueing delay as LEDBAT estimates it: the smallest of the newest delays, minus the smallest
//! delay of the last ten minutes.

use std::time::Duration;

use crate::sliding::Sliding;
use crate::units::{OneWayDelay, Time};

/// Number of intervals whose smallest delays are kept (RFC 6817 §2.4.2: `BASE_HISTORY` should be
/// 10).
pub const BASE_HISTORY: usize = 10;
/// Length of an interval of the history (RFC 6817 §2.4.2: one minute).
pub const INTERVAL: Duration = Duration::from_secs(60);
/// Number of newest delays whose minimum is the current delay. RFC 6817 §2.4.2 leaves the filter
/// open; LEDBAT++ and LEDBAT of ns-3 take the smallest of four.
pub const CURRENT_FILTER: usize = 4;

/// The delays of a path.
#[derive(Clone, Debug, Default)]
pub struct QueueingDelay {
    base: Sliding<OneWayDelay, BASE_HISTORY>,
    /// Newest delays, in no order.
    current: [Option<OneWayDelay>; CURRENT_FILTER],
    /// Position of the next delay in `current`.
    next: usize,
}

impl QueueingDelay {
    /// Records a delay and returns the queueing delay.
    pub fn on_sample(&mut self, now: Time, delay: OneWayDelay) -> Duration {
        self.base.record(now, INTERVAL, delay);
        self.current[self.next] = Some(delay);
        self.next = (self.next + 1) % CURRENT_FILTER;
        let current = self.current.iter().flatten().min().copied().unwrap_or(delay);
        current.above(self.base.min().unwrap_or(delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> OneWayDelay {
        OneWayDelay::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn current_delay_is_the_smallest_of_four() {
        let mut delays = QueueingDelay::default();
        let queued = [-90, -60, -50, -40, -30, -70].map(|delay| {
            u64::try_from(delays.on_sample(Time::ZERO, ms(delay)).as_millis()).expect("short")
        });
        // The fifth delay replaces the first one.
        assert_eq!(queued, [0, 0, 0, 0, 30, 20]);
    }

    #[test]
    fn base_delay_is_forgotten_after_ten_minutes() {
        let mut delays = QueueingDelay::default();
        delays.on_sample(Time::ZERO, ms(10));
        let at = |minute: u64| Time::from_millis(minute * 60_000);
        let queued: Vec<u128> =
            (1..=11).map(|minute| delays.on_sample(at(minute), ms(30)).as_millis()).collect();
        // The first delay leaves the filter at the fourth minute, and the history at the tenth.
        assert_eq!(queued, [0, 0, 0, 20, 20, 20, 20, 20, 20, 0, 0]);
    }
}
