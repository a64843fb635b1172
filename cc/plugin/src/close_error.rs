//! The error with which a connection must close.

/// Why a connection must close, which a plug-in turns into its stack's error.
#[derive(Clone, Debug)]
pub struct CloseError {
    /// The transport error code.
    pub code: ErrorCode,
    /// What happened, in one line.
    pub reason: String,
    /// TLS's own error, if it was TLS.
    #[cfg(feature = "rustls")]
    pub tls: Option<rustls::Error>,
}

/// Transport error codes in use here (RFC 9000 §20.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// CRYPTO_ERROR with this TLS alert.
    Alert(u8),
    /// PROTOCOL_VIOLATION.
    ProtocolViolation,
    /// TRANSPORT_PARAMETER_ERROR.
    TransportParameter,
    /// CONNECTION_REFUSED.
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
