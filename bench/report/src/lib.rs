//! Tables and figures as data, and what draws them: lines for a terminal, SVG, one self-contained HTML page. All are pure functions, so
//! the same results give the same bytes.
//!
//! | file | what is in it |
//! |---|---|
//! | `data.rs` | a [`Figure`] and its curves, a [`Table`] with a paper's numbers beside ours |
//! | `grid.rs` | a table as cells of text, for a terminal and for HTML |
//! | `curves.rs` | a figure as cells of text, and what its axes show |
//! | `figure.rs` | a figure as SVG |
//! | `scale.rs`, `clip.rs` | axes and their round values; lines cut to what is shown |
//! | `page.rs` | what all HTML pages share |

mod clip;
mod curves;
mod data;
mod figure;
mod grid;
mod page;
mod scale;

pub use data::{Axis, Entry, Figure, Row, Series, Table};
pub use figure::svg;
pub use grid::{Column, Grid, NOTHING, wrapped};
pub use page::{page, plain};
pub use scale::estimate;
