//! A quic-interop-runner endpoint for every stack, and a runner that tests endpoints against each
//! other on this host.
//!
//! | folder | contents |
//! |---|---|
//! | [`endpoint`] | the client and the server of `fathom-endpoint` |
//! | [`runner`] | `fathom-interop`: processes, relay, trace analysis, checks |

mod usage;

pub mod endpoint;
pub mod runner;

pub use usage::usage;
