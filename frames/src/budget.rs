//! The number of timestamps that a receiver may send for the bytes that it receives.

use fathom_units::Time;

/// Nanobytes per byte. The budget counts fractions of a timestamp exactly.
const SCALE: u64 = 1_000_000_000;
/// Number of received bytes that earn one byte of timestamps. Timestamps may thus take 0.05 % of
/// the data.
const BYTES_PER_BYTE: u64 = 2_000;
/// Number of bytes of timestamps that are earned per second in any case. They are enough for ten
/// timestamps of eight bytes, so that slow connections can timestamp every acknowledgement.
const BYTES_PER_SECOND: u64 = 80;
/// Largest number of timestamps that can be saved up, and the number with which a connection
/// starts. It is enough to timestamp every acknowledgement of a response of 1024 packets (1.4 MB).
/// For 10 MB, this number of timestamps is 0.04 % of the bytes.
const BURST: u64 = 512;

/// A token bucket for the timestamps of `lean` mode. A bulk transfer spends at most about 0.1 % of
/// its bytes on timestamps, while short and slow transfers timestamp every acknowledgement. The
/// numbers are Fathom's own.
#[derive(Clone, Copy, Debug)]
pub struct StampBudget {
    nanobytes: u64,
    /// Size of a timestamp in bytes.
    stamp: u64,
    last: Option<Time>,
}

impl StampBudget {
    /// Returns a full bucket. `stamp` is the size of a timestamp in bytes.
    pub const fn new(stamp: u64) -> Self {
        Self { nanobytes: BURST * stamp * SCALE, stamp, last: None }
    }

    /// Records the arrival of `bytes` at `now` and returns whether the answer may carry a
    /// timestamp. A clock that steps back earns nothing.
    pub fn received(&mut self, now: Time, bytes: u64) -> bool {
        let nanos = self
            .last
            .map_or(0, |last| u64::try_from(now.since(last).as_nanos()).unwrap_or(u64::MAX));
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        let by_bytes = bytes.saturating_mul(SCALE / BYTES_PER_BYTE);
        let by_time = nanos.saturating_mul(BYTES_PER_SECOND);
        let full = BURST * self.stamp * SCALE;
        self.nanobytes = self.nanobytes.saturating_add(by_bytes).saturating_add(by_time).min(full);
        self.has_stamp()
    }

    /// Returns whether the budget covers a timestamp, without reading the clock.
    pub const fn has_stamp(&self) -> bool {
        self.nanobytes >= self.stamp * SCALE
    }

    /// Returns the number of received bytes that earn one timestamp by themselves.
    pub const fn stamp_price(&self) -> u64 {
        self.stamp * BYTES_PER_BYTE
    }

    /// Records that a timestamp was written.
    pub fn spend(&mut self) {
        self.spend_bytes(self.stamp);
    }

    /// Records that `bytes` bytes were written instead of one timestamp.
    pub fn spend_bytes(&mut self, bytes: u64) {
        self.nanobytes = self.nanobytes.saturating_sub(bytes.saturating_mul(SCALE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Receives packets of `bytes` bytes every `gap_us`, and sends a timestamp with every second
    /// one, like acknowledgements. Returns the number of timestamps.
    fn stamps(packets: u64, bytes: u64, gap_us: u64) -> u64 {
        let mut budget = StampBudget::new(8);
        let mut spent = 0;
        for n in 0..packets {
            if budget.received(Time::from_micros(n * gap_us), bytes) && n % 2 == 1 {
                budget.spend();
                spent += 1;
            }
        }
        spent
    }

    #[test]
    fn timestamps_of_bulk_transfers_take_under_a_thousandth() {
        // 10 and 100 MB at 100 Mbps and at 10 Mbps, in packets of 1392 bytes.
        for (packets, gap_us) in [(7_200, 111), (72_000, 111), (7_200, 1_114), (72_000, 1_114)] {
            let share = 8.0 * stamps(packets, 1_392, gap_us) as f64 / (1_392.0 * packets as f64);
            assert!((0.0005..0.001).contains(&share), "{share}");
        }
    }

    #[test]
    fn short_and_slow_transfers_stamp_every_acknowledgement() {
        assert_eq!(stamps(1_024, 1_392, 111), 512, "one response of 1.4 MB");
        assert_eq!(
            stamps(2_000, 1_392, 111_000),
            1_000,
            "100 kbps: four and a half acknowledgements a second"
        );
    }

    #[test]
    fn clock_step_back_adds_no_timestamp_budget() {
        let mut budget = StampBudget::new(8);
        assert!(budget.received(Time::from_millis(10_000), 0));
        for _ in 0..BURST {
            budget.spend();
        }
        assert!(!budget.received(Time::ZERO, 0));
        assert!(!budget.received(Time::from_millis(10_000), 0));
        assert!(budget.received(Time::ZERO + Duration::MAX, u64::MAX));
    }
}
