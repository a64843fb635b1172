//! The delay signal of a controller: one-way delays or round-trip times.

use crate::capabilities::Capabilities;
use crate::event::AckEvent;
use crate::options::option_values;
use crate::units::OneWayDelay;

option_values! {
    /// Delay signal that a controller uses.
    pub enum Signal {
        /// Forward one-way delays.
        OneWay = "one-way",
        /// Round-trip times, always.
        Rtt = "rtt",
        /// Round-trip times until the first one-way delay arrives, then one-way delays.
        Either = "either",
    }
}

impl Signal {
    /// Returns the capabilities that a controller with this signal needs.
    pub fn required(self) -> Capabilities {
        Capabilities { one_way: self == Self::OneWay, ..Capabilities::NONE }
    }

    /// Returns the capabilities that a controller with this signal uses if they are available.
    pub fn optional(self) -> Capabilities {
        Capabilities { one_way: self != Self::Rtt, ..Capabilities::NONE }
    }
}

/// Implements what a configuration with a field `signal` says of its capabilities, inside of its
/// `impl RuleConfig`. The first argument is the controller's name, the second one the other
/// capabilities that the controller uses if they are available.
macro_rules! capabilities_by_signal {
    ($name:literal) => {
        capabilities_by_signal!($name, $crate::capabilities::Capabilities::NONE);
    };
    ($name:literal, $others:expr) => {
        fn required(&self) -> $crate::capabilities::Capabilities {
            self.signal.required()
        }

        fn optional(&self) -> $crate::capabilities::Capabilities {
            $crate::capabilities::Capabilities {
                one_way: self.signal.optional().one_way,
                ..$others
            }
        }

        fn hint(&self) -> &'static str {
            concat!(
                "negotiate a timestamp extension with the peer, or run on round-trip times with ",
                $name,
                ":signal=rtt"
            )
        }
    };
}
pub(crate) use capabilities_by_signal;

/// The delays of one path.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    signal: Signal,
    /// Whether a one-way delay has arrived. With [`Signal::Either`], RTTs are then ignored.
    one_way_seen: bool,
}

/// A delay of one ACK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySample {
    /// The one-way delay, or the RTT. Only differences between delays have a meaning.
    pub delay: OneWayDelay,
    /// Whether earlier samples were RTTs and this one is a one-way delay, so that they cannot be
    /// compared.
    pub restarts: bool,
}

impl Delays {
    /// Returns the delays of a new path.
    pub const fn new(signal: Signal) -> Self {
        Self { signal, one_way_seen: false }
    }

    /// Returns whether samples are one-way delays by now.
    pub fn are_one_way(&self) -> bool {
        self.one_way_seen && self.signal != Signal::Rtt
    }

    /// Returns the delay of this ACK frame, if it has one.
    pub fn sample(&mut self, acks: &AckEvent<'_>) -> Option<DelaySample> {
        let rtt = || {
            OneWayDelay::from_nanos(i64::try_from(acks.rtt.latest.as_nanos()).unwrap_or(i64::MAX))
        };
        let first = acks.one_way.is_some() && !self.one_way_seen;
        self.one_way_seen |= first;
        let delay = match self.signal {
            Signal::OneWay => acks.one_way?,
            Signal::Rtt => rtt(),
            Signal::Either if self.one_way_seen => acks.one_way?,
            Signal::Either => rtt(),
        };
        Some(DelaySample { delay, restarts: first && self.signal == Signal::Either })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::{Acked, Rtt};
    use crate::units::Time;

    /// Returns the delays in milliseconds, and whether each restarts, of frames with an RTT of
    /// 50 ms and these one-way delays in milliseconds.
    fn samples(signal: Signal, one_way: &[Option<i64>]) -> Vec<Option<(i64, bool)>> {
        let mut delays = Delays::new(signal);
        let packets = [Acked { sent: Time::ZERO, bytes: 1_200 }];
        let frame = |ms: &Option<i64>| AckEvent {
            now: Time::from_millis(50),
            packets: &packets,
            in_flight: 0,
            rtt: Rtt::first(Duration::from_millis(50)),
            one_way: ms.map(|ms| OneWayDelay::from_nanos(ms * 1_000_000)),
            ecn: None,
            app_limited: false,
        };
        let sample = |ms| {
            let sample = delays.sample(&frame(ms))?;
            Some((sample.delay.as_nanos() / 1_000_000, sample.restarts))
        };
        one_way.iter().map(sample).collect()
    }

    #[test]
    fn either_uses_rtts_until_the_first_one_way_delay() {
        let frames = [None, Some(-7), None, Some(-5)];
        assert_eq!(
            samples(Signal::Either, &frames),
            [Some((50, false)), Some((-7, true)), None, Some((-5, false))]
        );
        assert_eq!(
            samples(Signal::OneWay, &frames),
            [None, Some((-7, false)), None, Some((-5, false))]
        );
        assert_eq!(samples(Signal::Rtt, &frames), [Some((50, false)); 4]);
    }
}
