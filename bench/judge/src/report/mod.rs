//! Reports of a scorecard: for a terminal, as an HTML page, and as JUnit XML for continuous
//! integration.

mod html;
mod junit;
mod text;

pub use html::html;
pub use junit::junit;
pub use text::text;

/// Statement about the thresholds in every report.
pub(crate) const OURS: &str = "RFC 9743 gives no thresholds, and says that its criteria are not a \
    checklist. The thresholds come from Fathom; bench/judge/thresholds.toml gives the reason for \
    each.";
