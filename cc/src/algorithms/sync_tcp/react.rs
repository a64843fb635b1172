//! Congestion reaction: Sync-TCP Algorithm 2 and Sync-TCP §3.4. A pure table: verdict in, action out.

use crate::sync_tcp::detect::{Region, Trend, Verdict};
use crate::units::Ratio;

/// What a verdict asks of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Grow as Reno does: no verdict yet, or one that says nothing.
    AsReno,
    /// Increase by so many segments over one RTT, spread over its ACKs.
    Segments(Ratio),
    /// Increase by this share of the window over one RTT, spread over its ACKs.
    Share(Ratio),
    /// Decrease to this factor at once.
    Cut(Ratio),
    /// Leave the window alone.
    Hold,
}

/// Algorithm 2, row by row; equal medians have no row there and leave the window to Reno.
pub const fn react(verdict: Verdict) -> Action {
    match (verdict.trend, verdict.region) {
        (Trend::Increasing, Region::Negligible) => Action::Segments(Ratio::ONE),
        (Trend::Increasing, Region::Low) => Action::Cut(Ratio::percent(90)),
        (Trend::Increasing, Region::Moderate) => Action::Cut(Ratio::percent(75)),
        (Trend::Increasing, Region::Heavy) => Action::Cut(Ratio::percent(50)),
        (Trend::Decreasing, Region::Negligible) => Action::Share(Ratio::percent(50)),
        (Trend::Decreasing, Region::Low) => Action::Share(Ratio::percent(25)),
        (Trend::Decreasing, Region::Moderate) => Action::Share(Ratio::percent(10)),
        (Trend::Decreasing, Region::Heavy) => Action::Hold,
        (Trend::Level, _) => Action::AsReno,
    }
}
