//! Reports: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a [`Comparison`], so the
//! same run gives the same bytes.
//!
//! [`paper`] has the reports of papers, [`analysis`] those of `fathom analyze`.
//!
//! [`Comparison`]: crate::experiment::Comparison

pub mod analysis;
mod html;
pub mod paper;
mod plot;
mod table;

pub use html::html;
pub use table::table;

#[cfg(test)]
mod tests;
