//! Analysis of existing measurements: qlog files of any stack, and the tables that `fathom load`
//! writes.
//!
//! | file | contents |
//! |---|---|
//! | `source.rs` | any file as connections and responses |
//! | `error.rs` | reasons why a file gives no result |
//! | `inputs.rs` | files of a folder, and files left out |
//! | `connection.rs` | the tcpRTT series of a connection from the events of its log |
//! | `responses.rs` | response times from stream bytes; tables of `fathom load` |
//! | `table.rs` | tables in CSV, row by row |
//! | `loss.rs` | whether delay predicted loss, and the cost of acting on it |
//! | `response.rs` | response times by size |
//! | `compare.rs` | several files side by side |
//! | `by_controller.rs` | the logs of one server, by controller |
//! | `kept.rs` | limits on the data kept from files |
//! | `chance.rs` | intervals and tests |
//! | `page.rs` | a result as text, tables and figures, before it is printed |
//! | `report.rs` | a result as text for a terminal and as HTML |

mod by_controller;
mod chance;
mod compare;
mod connection;
mod error;
mod inputs;
mod kept;
mod loss;
mod page;
pub mod report;
mod response;
mod responses;
mod source;
mod table;

pub use by_controller::{
    ControllerComparison, ControllerGroup, ControllerMeasure, ControllerTable, OfController,
    by_controller,
};
pub use compare::{Compared, Comparison, compare};
pub use error::{AnalyzeError, FileError};
pub use inputs::{LeftOut, files_of, grouped};
pub use kept::Kept;
pub use loss::{LossAnswer, Verdict, loss_delay};
pub use page::{Drawing, Drawn, Page, Sheet};
pub use response::{ResponseAnswer, response};
pub use source::{Source, Tap, gather, gather_folder, gather_with, open};
pub use table::{Row, TableError, TableReader};

pub use self::connection::{Connection, FirstPath};
pub use self::responses::{Class, ResponseTime};

#[cfg(test)]
mod tests;
