//! Reasons why an endpoint cannot be set up, or why its test fails.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use fathom_http::identity::IdentityError;
use fathom_http::site::RootError;
use fathom_http::trust::TrustError;
use fathom_qlog::FolderError;
use fathom_stacks::SetupError;

use super::facts::{Close, FactsError};

/// Reason why an endpoint cannot be set up. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// The directory in DOWNLOADS cannot be created.
    #[error("DOWNLOADS is '{}': {why}; set a writable directory", path.display())]
    Downloads { path: PathBuf, why: io::Error },
    /// The server's certificate or key cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The client's root certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// BoringSSL rejects the configuration.
    #[cfg(feature = "quiche")]
    #[error("{}", one_line(.0))]
    BoringSsl(#[from] boring::error::ErrorStack),
    /// BoringSSL rejects this file of root certificates.
    #[cfg(feature = "quiche")]
    #[error("'{}': {}", path.display(), one_line(why))]
    BoringRoots { path: PathBuf, why: boring::error::ErrorStack },
    /// The directory of the files cannot be served.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The directory for qlog files cannot be used.
    #[error(transparent)]
    Qlog(#[from] FolderError),
    /// The controller is invalid. The fields are its name and the reason.
    #[error("controller '{0}': {1}")]
    Controller(String, String),
    /// The TLS configuration has no cipher suite for Initial packets.
    #[error("the TLS configuration has no cipher suite for Initial packets")]
    NoInitialSuite,
    /// The address cannot be used.
    #[error("cannot listen at {0}: {1}; choose another port")]
    Listen(SocketAddr, io::Error),
    /// The stack rejects its settings.
    #[error(transparent)]
    Stack(SetupError),
}

/// Returns BoringSSL's errors on one line. BoringSSL writes each error on a separate line.
#[cfg(feature = "quiche")]
fn one_line(why: &boring::error::ErrorStack) -> String {
    why.to_string().trim().replace('\n', "; ")
}

/// Reason why a client's test failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TestError {
    /// The stack did not start the connection, for this reason.
    #[error("{0}")]
    NotStarted(String),
    /// The connection was closed during its handshake.
    #[error("no handshake: {} {} {:?} {}", .0.by, .0.kind, .0.code, .0.reason)]
    NoHandshake(Close),
    /// 0-RTT is not possible on the second connection.
    #[error("no session ticket permits 0-RTT")]
    NoEarlyData,
    /// The first connection got no session ticket.
    #[error("the server sent no session ticket")]
    NoTicket,
    /// A request failed. The fields are its path and the reason.
    #[error("{0}: {1}")]
    Request(String, RequestError),
    /// All files arrived, but a requirement of the test is not met.
    #[error("all files arrived, but {0}")]
    Requirement(&'static str),
    /// The facts cannot be written.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// A task of the client panicked.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    /// No permit for a request is available.
    #[error(transparent)]
    Permit(#[from] tokio::sync::AcquireError),
}

/// Reason why a request of a client failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// The stream or the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The HTTP/3 stream or its connection failed.
    #[error(transparent)]
    Stream(#[from] fathom_http3::Error),
    /// The status is not 200.
    #[error("{0}")]
    Status(http::StatusCode),
}
