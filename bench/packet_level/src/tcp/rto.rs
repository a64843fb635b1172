//! Round-trip times and the retransmission timeout of TCP (RFC 6298).

use std::time::Duration;

use fathom_cc::Rtt;

/// Clock granularity G; finer ones than 100 ms do (RFC 6298 §4). That of Linux's timers and of RFC 9002 §6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);
/// K: how many variations are added (RFC 6298 §2).
const VARIATIONS: u32 = 4;
/// The timeout with which data begin when a SYN was lost (RFC 6298 §5, rule 5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoOptions {
    /// Before there is a sample; 1 s by default (RFC 6298 §2, rule 2.1).
    pub initial: Duration,
    /// At least; 1 s by default (RFC 6298 §2, rule 2.4). Linux and ns-2 have 200 ms.
    pub floor: Duration,
    /// At most, however often it ran out; 64 s by default, where the RFC asks for 60 s or more (RFC 6298 §2, rule 2.5).
    pub ceiling: Duration,
}

impl Default for RtoOptions {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { initial: second, floor: second, ceiling: second * 64 }
    }
}

/// The estimator of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoEstimator {
    options: RtoOptions,
    rtt: Option<Rtt>,
    variation: Duration,
    rto: Duration,
}

impl RtoEstimator {
    /// Without a sample yet.
    pub const fn new(options: RtoOptions) -> Self {
        Self { options, rtt: None, variation: Duration::ZERO, rto: options.initial }
    }

    /// A sample. It ends backing off.
    pub fn sample(&mut self, latest: Duration) {
        let rtt = match self.rtt {
            None => {
                self.variation = latest / 2;
                Rtt::first(latest)
            }
            Some(rtt) => {
                self.variation = (self.variation * 3 + rtt.smoothed.abs_diff(latest)) / 4;
                let smoothed = (rtt.smoothed * 7 + latest) / 8;
                Rtt { latest, smoothed, min: rtt.min.min(latest), ack_delay: Duration::ZERO }
            }
        };
        self.rtt = Some(rtt);
        let rto = rtt.smoothed + (self.variation * VARIATIONS).max(GRANULARITY);
        self.rto = rto.max(self.options.floor).min(self.options.ceiling);
    }

    /// The timeout ran out: twice as long from now on, up to the ceiling (RFC 6298 §5, rule 5.5).
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.options.ceiling);
    }

    /// Data begin after a SYN was lost (RFC 6298 §5, rule 5.7).
    pub fn begin_after_lost_syn(&mut self) {
        if self.rtt.is_none() {
            self.rto = AFTER_LOST_SYN.max(self.options.floor).min(self.options.ceiling);
        }
    }

    /// The retransmission timeout.
    pub const fn rto(&self) -> Duration {
        self.rto
    }

    /// As controllers hear of it. Before the first sample it is the initial timeout, as the QUIC-like sender has its initial RTT.
    pub const fn rtt(&self) -> Rtt {
        match self.rtt {
            Some(rtt) => rtt,
            None => Rtt::first(self.options.initial),
        }
    }

    /// There was a sample.
    pub const fn is_sampled(&self) -> bool {
        self.rtt.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn with_floor(floor: u64) -> RtoEstimator {
        RtoEstimator::new(RtoOptions { floor: ms(floor), ..RtoOptions::default() })
    }

    /// RFC 6298 §2, rules 2.1 to 2.3.
    #[test]
    fn timeout_is_srtt_and_four_variations() {
        let mut rto = with_floor(0);
        assert_eq!(rto.rto(), ms(1_000));
        rto.sample(ms(80));
        assert_eq!(rto.rto(), ms(80 + 4 * 40));
        rto.sample(ms(96));
        // Variation (3 * 40 + 16) / 4 = 34 with the old average, then the average (7 * 80 + 96) / 8 = 82.
        assert_eq!((rto.rtt().smoothed, rto.rto()), (ms(82), ms(82 + 4 * 34)));
        assert_eq!((rto.rtt().latest, rto.rtt().min), (ms(96), ms(80)));
    }

    /// RFC 6298 §2, rules 2.4 and 2.5.
    #[test]
    fn timeout_keeps_floor_and_ceiling() {
        for (floor, expected) in [(1_000, 1_000), (200, 200), (0, 30)] {
            let mut rto = with_floor(floor);
            rto.sample(ms(10));
            assert_eq!(rto.rto(), ms(expected));
        }
        let mut rto = RtoEstimator::new(RtoOptions::default());
        rto.sample(ms(100_000));
        assert_eq!(rto.rto(), ms(64_000));
    }

    /// RFC 6298 §5, rules 5.5 and 5.7; the next sample ends it (the note at its end).
    #[test]
    fn timeout_doubles_until_a_sample() {
        let mut rto = RtoEstimator::new(RtoOptions::default());
        let course: Vec<u64> = (0..8)
            .map(|_| {
                rto.back_off();
                rto.rto().as_secs()
            })
            .collect();
        assert_eq!(course, [2, 4, 8, 16, 32, 64, 64, 64]);
        rto.begin_after_lost_syn();
        assert_eq!(rto.rto(), ms(3_000));
        rto.sample(ms(100));
        assert_eq!(rto.rto(), ms(1_000));
    }
}
