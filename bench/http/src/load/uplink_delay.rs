//! Queueing delay towards the server, from the server's timestamps.

use std::time::Duration;

use fathom_cc::{ControllerMetrics, OneWayDelay, Time};
use fathom_plugin::Observer;
use parking_lot::Mutex;

/// Mean queueing delay of the packets that one connection sent: their one-way delays minus the
/// smallest of these delays. It takes constant memory, however long the connection lives.
#[derive(Debug, Default)]
pub(super) struct UplinkDelay(Mutex<Option<Delays>>);

#[derive(Debug)]
struct Delays {
    /// First one-way delay. All other delays are stored relative to it, because the difference
    /// between the clocks is arbitrary.
    first: i64,
    least: i64,
    sum: i128,
    count: u64,
}

impl UplinkDelay {
    /// Returns the mean queueing delay, or `None` if no delay was recorded.
    pub(super) fn mean(&self) -> Option<Duration> {
        let delays = self.0.lock();
        let delays = delays.as_ref()?;
        let mean = delays.sum / i128::from(delays.count) - i128::from(delays.least);
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or_default()))
    }

    fn add(&self, delay: OneWayDelay) {
        let mut delays = self.0.lock();
        let nanos = delay.as_nanos();
        let delays = delays.get_or_insert(Delays { first: nanos, least: 0, sum: 0, count: 0 });
        let since_first = nanos.saturating_sub(delays.first);
        delays.least = delays.least.min(since_first);
        delays.sum += i128::from(since_first);
        delays.count += 1;
    }
}

impl Observer for UplinkDelay {
    fn on_metrics(&self, _: Time, _: &ControllerMetrics, one_way: Option<OneWayDelay>) {
        if let Some(delay) = one_way {
            self.add(delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplink_queueing_is_mean_delay_above_the_minimum() {
        let uplink = UplinkDelay::default();
        assert_eq!(uplink.mean(), None);
        for delay in [-7_000, -9_000, -2_000] {
            uplink.add(OneWayDelay::from_nanos(delay));
        }
        assert_eq!(uplink.mean(), Some(Duration::from_nanos(3_000)));
    }
}
