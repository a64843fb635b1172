//! Reports of a scorecard: for a terminal, as an HTML page, and as JUnit XML for continuous
//! integration.

mod html;
mod junit;
mod text;

pub use html::html;
pub use junit::junit;
pub use text::{answer, text};
