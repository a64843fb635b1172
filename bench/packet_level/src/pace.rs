//! Pacing, if the controller asks for it.

use std::time::Duration;

use fathom_cc::{Pacing, SendParams};

/// Returns the time from a packet of `bytes` bytes to the next packet, or `None` without pacing. A
/// pacing delay takes effect only after the first RTT sample.
pub(crate) fn gap(
    params: &SendParams,
    round_trip: Option<Duration>,
    bytes: u16,
) -> Option<Duration> {
    match (params.pacing, round_trip) {
        (Pacing::Rate(rate), _) => Some(rate.time_for(u64::from(bytes))),
        (Pacing::Delay(hold), Some(round_trip)) if !hold.is_zero() => {
            let round = round_trip + hold;
            Some(round.mul_f64(f64::from(bytes) / params.window.max(1) as f64))
        }
        (Pacing::Window | Pacing::Delay(_), _) => None,
    }
}
