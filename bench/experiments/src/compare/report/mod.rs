//! Reports of a comparison: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a
//! [`Comparison`](super::Comparison), so the same run gives the same bytes.

mod html;
mod over_time;
mod table;

pub use html::html;
pub use table::table;

#[cfg(test)]
mod tests;
