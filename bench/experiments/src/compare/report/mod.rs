//! Reports of a comparison: a table for the terminal, one self-contained HTML file with plots, and
//! data for programs. All are pure functions of their input, so the same
//! [`Comparison`](super::Comparison) gives the same bytes.

mod data;
mod html;
mod over_time;
mod pen;
mod table;

pub use data::{Document, distributions, runs, write_responses};
pub use html::html;
pub use table::{path_in_words, table};

#[cfg(test)]
mod tests;
