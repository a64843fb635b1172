//! Reasons why a test or a measurement has no result.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fathom_netsim::relay::RelayError;

use super::process::ExitReason;

/// Reason why a test or a measurement has no result. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A signal stopped the run.
    #[error("interrupted")]
    Interrupted,
    /// The log directory of an earlier run cannot be removed.
    #[error("cannot remove the old log directory: {0}")]
    OldLogs(io::Error),
    /// The directory of the test cannot be written.
    #[error("cannot write the test files: {0}")]
    TestFiles(io::Error),
    /// The packet log cannot be written.
    #[error("cannot write the packet log: {0}")]
    PacketLog(io::Error),
    /// The system has no free port.
    #[error("cannot find a free port: {0}")]
    NoFreePort(io::Error),
    /// A process cannot be started.
    #[error("{process}: {why}")]
    Start {
        /// Name of the process.
        process: String,
        /// Error of the system.
        why: io::Error,
    },
    /// The server exited before it listened.
    #[error("the server exited before it listened: {0}")]
    ServerExited(ExitReason),
    /// The server did not listen in time.
    #[error("the server did not listen at {address} within {} s", limit.as_secs())]
    NotListening {
        /// Address on which the server should listen.
        address: SocketAddr,
        /// Time limit.
        limit: Duration,
    },
    /// The relay cannot be set up.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The system does not report the relay's address.
    #[error(transparent)]
    RelayAddress(io::Error),
    /// A process did not end as it should.
    #[error("{process}: {exit}")]
    Exit {
        /// Name of the process.
        process: &'static str,
        /// Way in which the process ended.
        exit: ExitReason,
    },
    /// The cross traffic did not last until the end of the measurement.
    #[error("the cross traffic ended too early")]
    CrossTrafficEnded,
    /// A file did not arrive or differs.
    #[error("{0}")]
    Download(String),
    /// The relay saw no packets of the server.
    #[error("no packets were captured")]
    NoPackets,
    /// The relay saw no connection.
    #[error("no connection was seen")]
    NoConnection,
    /// No packet has a timestamp.
    #[error("neither endpoint sends timestamps")]
    NoTimestamps,
}
