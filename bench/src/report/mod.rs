//! Reports: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a [`Comparison`], so the
//! same run gives the same bytes.
//!
//! [`paper`] has the reports of papers.
//!
//! [`Comparison`]: crate::experiment::Comparison

mod html;
pub mod paper;
mod plot;
mod table;

pub use html::html;
pub use table::table;

#[cfg(test)]
mod tests;
