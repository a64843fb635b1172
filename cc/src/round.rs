//! Detection of round trips from acknowledgements.

use crate::event::AckEvent;
use crate::units::Time;

/// Detects the end of each round trip.
///
/// The first ACK frame begins a round. A frame that acknowledges a packet sent since then ends the
/// round and begins the next. A packet sent at the very instant at which a round began counts as
/// sent in this round, because it answers the ACK that began the round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    began: Option<Time>,
}

impl RoundTrip {
    /// Processes an ACK frame and returns whether it ends a round.
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> bool {
        let ended = self.began.is_some_and(|began| acks.newest_sent() >= Some(began));
        if ended || self.began.is_none() {
            self.began = Some(acks.now);
        }
        ended
    }

    /// Begins a round now and abandons the current one.
    pub const fn begin(&mut self, now: Time) {
        self.began = Some(now);
    }

    /// Abandons the current round, so that the next frame begins a new one.
    pub fn restart(&mut self) {
        self.began = None;
    }
}

#[cfg(test)]
mod tests {
    use super::RoundTrip;
    use crate::event::{AckEvent, Acked, Rtt};
    use crate::units::Time;
    use std::time::Duration;

    fn frame(round: &mut RoundTrip, now: u64, sent: u64) -> bool {
        let rtt = Duration::from_millis(now - sent);
        round.on_ack(&AckEvent {
            now: Time::from_millis(now),
            packets: &[Acked { sent: Time::from_millis(sent), bytes: 1_200 }],
            in_flight: 0,
            rtt: Rtt::first(rtt),
            one_way: None,
            ecn: None,
            app_limited: false,
        })
    }

    #[test]
    fn round_ends_with_the_ack_of_data_sent_after_its_start() {
        let mut round = RoundTrip::default();
        assert!(!frame(&mut round, 50, 0), "begins the first round");
        assert!(!frame(&mut round, 60, 10));
        assert!(!frame(&mut round, 99, 49));
        assert!(frame(&mut round, 100, 50), "sent in answer to the first frame");
        assert!(!frame(&mut round, 110, 60));
        assert!(frame(&mut round, 151, 101));
        round.restart();
        assert!(!frame(&mut round, 210, 160), "begins anew");
        assert!(frame(&mut round, 260, 210));
        round.begin(Time::from_millis(300));
        assert!(!frame(&mut round, 320, 299));
        assert!(frame(&mut round, 340, 300), "sent at the very instant");
    }
}
