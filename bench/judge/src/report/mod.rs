//! A scorecard for people: on a terminal, as a page, and as JUnit XML for continuous integration.

mod html;
mod junit;
mod text;

pub use html::html;
pub use junit::junit;
pub use text::text;

/// What every report says of the thresholds.
pub(crate) const OURS: &str = "RFC 9743 gives no thresholds and calls its criteria no checklist. The thresholds are Fathom's, each with its reason in bench/judge/thresholds.toml.";
