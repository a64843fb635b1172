//! The runner: clients and servers set against each other as processes, over the laboratory's relay, and judged by what passed it.
//!
//! | file | what is in it |
//! |---|---|
//! | `trial.rs` | the tests: files, link, time |
//! | `party.rs` | who takes part: our endpoints, and peers in folders |
//! | `process.rs` | child processes, ended whatever happens |
//! | `stage.rs` | a fresh folder with files and certificates |
//! | `cell.rs` | one client, one server, one test |
//! | `wire/` | what passed the relay, decrypted |
//! | `judge.rs` | whether it was what the test asks |
//! | `known.rs` | failures that are known and explained |
//! | `matrix.rs` | all cells as a table, and as JSON |
//! | `measure.rs` | goodput, alone and beside another flow |
//! | `delays.rs` | what stamps say of one-way delays, beside what the link did |

pub mod cell;
pub mod delays;
pub mod judge;
pub mod known;
pub mod matrix;
pub mod measure;
pub mod party;
mod process;
mod stage;
pub mod trial;
pub mod wire;

pub use cell::{Cell, Ground, Tried};
pub use judge::Verdict;
pub use known::Known;
pub use matrix::Matrix;
pub use party::{Party, Side};
pub use trial::Trial;
