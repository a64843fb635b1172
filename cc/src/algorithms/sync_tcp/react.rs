//! Congestion reaction: Sync-TCP Algorithm 2 and Sync-TCP §3.4. A pure table: verdict in, action out.

use crate::sync_tcp::detect::{Region, Trend, Verdict};
use crate::units::Ratio;

/// Negligible congestion that increases: segments added over one RTT (Sync-TCP §3.4).
pub const NEGLIGIBLE_SEGMENTS: Ratio = Ratio::ONE;
/// Low congestion that increases: what a cut leaves of the window (Sync-TCP §3.4).
pub const LOW_KEPT: Ratio = Ratio::percent(90);
/// Moderate congestion that increases: what a cut leaves of the window (Sync-TCP §3.4).
pub const MODERATE_KEPT: Ratio = Ratio::percent(75);
/// Heavy congestion that increases: what a cut leaves of the window (Sync-TCP §3.4).
pub const HEAVY_KEPT: Ratio = Ratio::percent(50);
/// Negligible congestion that decreases: share of the window added over one RTT (Sync-TCP §3.4).
pub const NEGLIGIBLE_SHARE: Ratio = Ratio::percent(50);
/// Low congestion that decreases: share of the window added over one RTT (Sync-TCP §3.4).
pub const LOW_SHARE: Ratio = Ratio::percent(25);
/// Moderate congestion that decreases: share of the window added over one RTT (Sync-TCP §3.4).
pub const MODERATE_SHARE: Ratio = Ratio::percent(10);

/// What a verdict wants of the window.
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
        (Trend::Increasing, Region::Negligible) => Action::Segments(NEGLIGIBLE_SEGMENTS),
        (Trend::Increasing, Region::Low) => Action::Cut(LOW_KEPT),
        (Trend::Increasing, Region::Moderate) => Action::Cut(MODERATE_KEPT),
        (Trend::Increasing, Region::Heavy) => Action::Cut(HEAVY_KEPT),
        (Trend::Decreasing, Region::Negligible) => Action::Share(NEGLIGIBLE_SHARE),
        (Trend::Decreasing, Region::Low) => Action::Share(LOW_SHARE),
        (Trend::Decreasing, Region::Moderate) => Action::Share(MODERATE_SHARE),
        (Trend::Decreasing, Region::Heavy) => Action::Hold,
        (Trend::Level, _) => Action::AsReno,
    }
}
