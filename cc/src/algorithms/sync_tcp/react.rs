//! Congestion reaction: Sync-TCP Algorithm 2 and Sync-TCP §3.4. It is a table that maps each
//! verdict to an action.

use crate::sync_tcp::detect::{Region, Trend, Verdict};
use crate::units::Ratio;

/// Number of segments added over one RTT under negligible and increasing congestion
/// (Sync-TCP §3.4).
pub const NEGLIGIBLE_SEGMENTS: Ratio = Ratio::ONE;
/// Fraction of the window that remains after the cut under low and increasing congestion
/// (Sync-TCP §3.4).
pub const LOW_KEPT: Ratio = Ratio::percent(90);
/// Fraction of the window that remains after the cut under moderate and increasing congestion
/// (Sync-TCP §3.4).
pub const MODERATE_KEPT: Ratio = Ratio::percent(75);
/// Fraction of the window that remains after the cut under heavy and increasing congestion
/// (Sync-TCP §3.4).
pub const HEAVY_KEPT: Ratio = Ratio::percent(50);
/// Share of the window added over one RTT under negligible and decreasing congestion
/// (Sync-TCP §3.4).
pub const NEGLIGIBLE_SHARE: Ratio = Ratio::percent(50);
/// Share of the window added over one RTT under low and decreasing congestion (Sync-TCP §3.4).
pub const LOW_SHARE: Ratio = Ratio::percent(25);
/// Share of the window added over one RTT under moderate and decreasing congestion
/// (Sync-TCP §3.4).
pub const MODERATE_SHARE: Ratio = Ratio::percent(10);

/// Change of the window that a verdict asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Growth like Reno's, because there is no verdict or the verdict is level.
    AsReno,
    /// An increase by this number of segments over one RTT, spread over its ACKs.
    Segments(Ratio),
    /// An increase by this share of the window over one RTT, spread over its ACKs.
    Share(Ratio),
    /// An immediate decrease to this fraction of the window.
    Cut(Ratio),
    /// No change of the window.
    Hold,
}

/// Returns the action of Algorithm 2 for a verdict. Algorithm 2 has no row for equal medians, which
/// leave the window to Reno.
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
