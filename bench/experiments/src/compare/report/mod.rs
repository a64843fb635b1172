//! Reports of a comparison: a table for the terminal, one self-contained HTML file with plots. Both are pure functions of a
//! [`Comparison`](super::Comparison), so the same run gives the same bytes.

mod data;
mod html;
mod over_time;
mod table;

pub use data::{Document, distributions, runs, write_responses};
pub use html::html;
pub use table::{path_in_words, table};

#[cfg(test)]
mod tests;
