//! The pace that a controller asks for.

use std::time::Duration;

use fathom_cc::{Pacing, SendParams};

/// Time from a packet of so many bytes to the next, where a pace is asked for. A delay counts once a round trip was measured.
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
