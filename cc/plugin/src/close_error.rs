//! The error with which a connection must close.

/// Reason why a connection must close. A plug-in converts it to its stack's error.
#[derive(Clone, Debug)]
pub struct CloseError {
    /// Transport error code.
    pub code: ErrorCode,
    /// Description of the error, in one line.
    pub reason: String,
    /// TLS error; `None` unless TLS failed.
    #[cfg(feature = "rustls")]
    pub tls: Option<rustls::Error>,
}

/// Transport error codes that this crate uses (RFC 9000 §20.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The error CRYPTO_ERROR with this TLS alert.
    Alert(u8),
    /// The error PROTOCOL_VIOLATION.
    ProtocolViolation,
    /// The error TRANSPORT_PARAMETER_ERROR.
    TransportParameter,
    /// The error CONNECTION_REFUSED.
    ConnectionRefused,
}

impl CloseError {
    pub(crate) fn new(code: ErrorCode, reason: String) -> Self {
        Self {
            code,
            reason,
            #[cfg(feature = "rustls")]
            tls: None,
        }
    }
}
