//! Events that a relay sees to itself: what lines do not pass, and rebindings.

use std::time::Duration;

use crate::path::PathEvent;

/// Faults in force.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    faults: Vec<PathEvent>,
    rebound: u32,
}

impl Faults {
    /// These faults, none of which has happened yet.
    pub const fn new(faults: Vec<PathEvent>) -> Self {
        Self { faults, rebound: 0 }
    }

    /// A datagram of this size passes now.
    pub fn let_pass(&self, now: Duration, payload: usize) -> bool {
        self.faults.iter().all(|event| event.lets_pass(now, payload))
    }

    /// A rebinding is due that has not been reported.
    pub fn rebind(&mut self, now: Duration) -> bool {
        let due =
            self.faults.iter().filter(|fault| matches!(fault, PathEvent::Rebind { at } if *at <= now)).count() as u32;
        let new = due > self.rebound;
        self.rebound = due;
        new
    }

    /// Clients are rebound when their handshake is over.
    pub fn rebinds_after_handshake(&self) -> bool {
        self.faults.contains(&PathEvent::RebindAfterHandshake)
    }

    /// When the next rebinding is due after `now`.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let times = self.faults.iter().filter_map(|fault| match fault {
            PathEvent::Rebind { at } if *at > now => Some(*at),
            _ => None,
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_rebinding_is_reported_once() {
        let mut faults = Faults::new(vec!["rebind@1s".parse().unwrap(), "rebind@3s".parse().unwrap()]);
        assert_eq!((faults.rebind(s(0.5)), faults.next(s(0.5))), (false, Some(s(1.0))));
        assert_eq!((faults.rebind(s(1.0)), faults.rebind(s(1.5)), faults.next(s(1.5))), (true, false, Some(s(3.0))));
        assert_eq!((faults.rebind(s(9.0)), faults.rebind(s(9.0)), faults.next(s(9.0))), (true, false, None));
    }
}
