//! The quic-interop-runner's endpoint on every stack, and a runner that sets endpoints against each other on this host.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`endpoint`] | client and server, as `fathom-endpoint` |
//! | [`runner`] | processes, the relay between them, judgement, as `fathom-interop` |

mod usage;

pub mod endpoint;
pub mod runner;

pub use usage::usage;
