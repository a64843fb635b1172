//! The runner: starts a client and a server as processes with the laboratory's relay between them,
//! and checks the packets that passed the relay.
//!
//! | file | contents |
//! |---|---|
//! | `test_case.rs` | the test cases: files, link, timeout |
//! | `implementation.rs` | implementations: our endpoints, and peers |
//! | `process.rs` | child processes, terminated on drop |
//! | `test_dir.rs` | the directory of a test: files, certificates, logs |
//! | `test_run.rs` | runs one test case with one client and one server |
//! | `error.rs` | reasons why a test or a measurement has no result |
//! | `trace/` | the captured packets, decrypted |
//! | `check.rs` | checks a trace against the test case |
//! | `known_failures.rs` | the list of known failures |
//! | `matrix.rs` | all results as tables and as JSON |
//! | `measurement.rs` | goodput, alone and with cross traffic |
//! | `delays.rs` | one-way delays from timestamps, compared with the link's |

pub mod check;
pub mod delays;
mod error;
pub mod implementation;
pub mod known_failures;
pub mod matrix;
pub mod measurement;
mod process;
pub mod test_case;
mod test_dir;
pub mod test_run;
pub mod trace;

pub use check::TestResult;
pub use error::RunError;
pub use implementation::{Implementation, Role};
pub use known_failures::KnownFailures;
pub use matrix::Matrix;
pub use process::ExitReason;
pub use test_case::TestCase;
pub use test_run::{RunConfig, TestRecord, TestRun};
