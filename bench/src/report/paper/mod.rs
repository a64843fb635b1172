//! Reports of papers: for a terminal, as one HTML file, as a page of the documentation. All are pure functions of a [`Record`], so the
//! same results give the same bytes.
//!
//! | file | what is in it |
//! |---|---|
//! | `text.rs`, `html.rs`, `page.rs` | the three forms |
//! | `grid.rs` | tables as cells |
//! | `curves.rs` | figures as cells, and what their axes show |
//! | `figure.rs` | figures as SVG |
//! | `scale.rs`, `clip.rs` | axes and their round values; lines cut to what is shown |
//!
//! [`Record`]: crate::reproduce::Record

mod clip;
mod curves;
mod figure;
mod grid;
mod html;
mod page;
mod scale;
mod text;

pub use figure::svg;
pub use html::html;
pub use page::{figure_file, figures, markdown};
pub use text::text;

#[cfg(test)]
mod tests;
