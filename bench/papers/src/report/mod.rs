//! Reports of papers: for a terminal, as one HTML file, as a page of the documentation. All are
//! pure functions of a [`Record`], so the same results give the same bytes.
//!
//! | file | contents |
//! |---|---|
//! | `text.rs`, `html.rs`, `page.rs` | the three forms |
//!
//! [`Record`]: crate::Record

mod html;
mod page;
mod text;

pub use html::html;
pub use page::{beside_ns2, figure_file, figures, markdown, verdict_counts};
pub use text::text;

#[cfg(test)]
mod tests;
