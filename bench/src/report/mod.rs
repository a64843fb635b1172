//! Reports: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a [`Comparison`], so the
//! same run gives the same bytes.
//!
//! [`Comparison`]: crate::experiment::Comparison

mod html;
mod plot;
mod table;

pub use html::html;
pub use table::table;

#[cfg(test)]
mod tests;
