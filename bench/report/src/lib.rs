//! Tables and figures as data, and functions to draw them: as lines for a terminal, as SVG, and as
//! one self-contained HTML page. All functions are pure, so the same results give the same bytes.
//!
//! | file | contents |
//! |---|---|
//! | `data.rs` | a [`Figure`] and its curves; a [`Table`] of our numbers and a paper's numbers |
//! | `dataset.rs` | typed columns for programs: CSV and Parquet |
//! | `rows.rs` | typed columns, written in pieces |
//! | `grid.rs` | a table as cells of text, for a terminal and for HTML |
//! | `curves.rs` | a figure as cells of text, and the ranges of its axes |
//! | `plot.rs`, `pen.rs` | a figure as SVG: for pages in light and dark mode, and as a file |
//! | `whiskers.rs` | one dot with its interval per row |
//! | `saved.rs` | figures on pages: one plot or several panels, with links to save them |
//! | `scale.rs`, `clip.rs` | axes and their round values; clipping of lines |
//! | `unit.rs` | units that suit the size of a number |
//! | `page.rs` | common parts of all HTML pages |

mod clip;
mod curves;
mod data;
mod dataset;
mod grid;
mod page;
mod pen;
mod plot;
mod rows;
mod saved;
mod scale;
mod unit;
mod whiskers;

pub use data::{Axis, DECADE, Entry, Figure, Row, Series, Table};
pub use dataset::{Dataset, Kind, Record, Value};
pub use grid::{Column, Grid, NOTHING, capitalised, wrapped};
pub use page::{page, plain};
pub use pen::Pen;
pub use plot::{plot, plot_with, standalone};
pub use rows::{CsvRows, RowWriter};
pub use saved::{MOST_CURVES, csv, figure, figure_with, shown};
pub use scale::{estimate, estimate_within, number};
pub use unit::{Unit, human};
pub use whiskers::{Whisker, Whiskers};
