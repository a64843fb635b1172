//! Rebindings: times at which a relay's clients get new ports. Only these events do not belong to a
//! line.

use std::time::Duration;

use crate::path::PathEvent;

/// Rebindings that have not taken place yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Rebindings {
    /// Times of the rebindings of all clients, in order.
    at: Vec<Duration>,
    /// Number of rebindings in `at` that have taken place.
    done: usize,
    /// Whether each client is also rebound separately, when its handshake is over.
    after_handshake: bool,
}

impl Rebindings {
    /// Returns the rebindings among these events.
    pub(super) fn of(events: &[PathEvent]) -> Self {
        let mut at: Vec<Duration> = (events.iter())
            .filter_map(|event| if let PathEvent::Rebind { at } = event { Some(*at) } else { None })
            .collect();
        at.sort_unstable();
        Self { at, done: 0, after_handshake: events.contains(&PathEvent::RebindAfterHandshake) }
    }

    /// Returns whether a rebinding is due that has not been reported yet.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let before = self.done;
        self.done = self.at.partition_point(|at| *at <= now);
        self.done > before
    }

    /// Returns whether clients are rebound when their handshake is over.
    pub(super) const fn after_handshake(&self) -> bool {
        self.after_handshake
    }

    /// Returns the time of the next rebinding.
    pub(super) fn next(&self) -> Option<Duration> {
        self.at.get(self.done).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn each_rebinding_event_is_reported_once() {
        let events =
            ["rebind@3s", "blackout:1s@2s", "rebind@1s"].map(|event| event.parse().unwrap());
        let mut rebindings = Rebindings::of(&events);
        assert!(!rebindings.after_handshake());
        assert_eq!((rebindings.is_due(s(0.5)), rebindings.next()), (false, Some(s(1.0))));
        assert_eq!(
            (rebindings.is_due(s(1.0)), rebindings.is_due(s(1.5)), rebindings.next()),
            (true, false, Some(s(3.0)))
        );
        assert_eq!(
            (rebindings.is_due(s(9.0)), rebindings.is_due(s(9.0)), rebindings.next()),
            (true, false, None)
        );
    }
}
