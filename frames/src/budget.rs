//! How many stamps a receiver may spend on what it receives.

use fathom_units::Time;

/// Nanobytes in a byte: the budget counts fractions of a stamp exactly.
const SCALE: u64 = 1_000_000_000;
/// Bytes received that earn one byte of stamps: half a thousandth of the data.
const BYTES_PER_BYTE: u64 = 2_000;
/// Bytes of stamps earned per second in any case: ten a second, so that slow connections stamp every acknowledgement.
const BYTES_PER_SECOND: u64 = 80;
/// Most stamps saved up, and what a connection starts with: of a response of 1024 packets (1.4 MB) every acknowledgement is stamped, and
/// of 10 MB they make four parts in ten thousand.
const BURST: u64 = 512;

/// A token bucket for stamps of `lean` mode: a bulk transfer gives at most about a thousandth of its bytes to them, short and slow
/// transfers stamp every acknowledgement. The figures are ours.
#[derive(Clone, Copy, Debug)]
pub struct StampBudget {
    nanobytes: u64,
    /// Size of a stamp in bytes.
    stamp: u64,
    last: Option<Time>,
}

impl StampBudget {
    /// A full bucket; `stamp` is the size of a stamp in bytes.
    pub const fn new(stamp: u64) -> Self {
        Self { nanobytes: BURST * stamp * SCALE, stamp, last: None }
    }

    /// `bytes` arrived at `now`; whether the answer may carry a stamp. Clocks that step back earn nothing.
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

    /// There is a stamp's worth without asking the clock.
    pub const fn has_stamp(&self) -> bool {
        self.nanobytes >= self.stamp * SCALE
    }

    /// Bytes received that earn a stamp by themselves.
    pub const fn stamp_price(&self) -> u64 {
        self.stamp * BYTES_PER_BYTE
    }

    /// A stamp was written.
    pub fn spend(&mut self) {
        self.spend_bytes(self.stamp);
    }

    /// So many bytes were written instead of a stamp.
    pub fn spend_bytes(&mut self, bytes: u64) {
        self.nanobytes = self.nanobytes.saturating_sub(bytes.saturating_mul(SCALE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Packets of `bytes` every `gap_us`; stamps spent on every second one, as acknowledgements are.
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
    fn bulk_stays_below_a_thousandth() {
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
    fn a_clock_step_back_earns_no_budget() {
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
