//! Reasons why a QUIC handshake does not complete.

use std::fmt;
use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_stacks::{Close, CloseKind, Closer};

/// Reason why a QUIC handshake did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The stack did not start the connection, for this reason.
    #[error("{0}")]
    NotStarted(String),
    /// The connection was closed during the handshake.
    #[error(transparent)]
    Closed(#[from] Close),
    /// The handshake took longer than this limit.
    #[error("the handshake did not complete within {}", duration_text(*.0))]
    TimedOut(Duration),
}

impl HandshakeError {
    /// Returns the error of a connection that the stack did not start.
    pub(crate) fn not_started(why: impl fmt::Display) -> Self {
        Self::NotStarted(why.to_string())
    }

    /// Returns whether this end rejected the peer's certificate. In this case, the end closes the
    /// connection with one of the alerts that rustls sends for invalid certificates
    /// (RFC 8446 §6.2, RFC 9001 §4.8).
    pub fn is_untrusted_certificate(&self) -> bool {
        // The code of CRYPTO_ERROR is 0x0100 plus the alert: bad_certificate (42) to
        // certificate_unknown (46), unknown_ca (48), access_denied (49), decrypt_error (51),
        // bad_certificate_status_response (113).
        const ALERTS: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 51, 113];
        match self {
            Self::Closed(Close {
                by: Closer::Us,
                kind: CloseKind::Transport,
                code: Some(code),
                ..
            }) => code.checked_sub(0x100).is_some_and(|alert| ALERTS.contains(&alert)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificate_alerts_sent_by_us_mean_untrusted_cert() {
        let close = |by, code| {
            HandshakeError::Closed(Close {
                by,
                kind: CloseKind::Transport,
                code: Some(code),
                reason: Default::default(),
                text: "certificate".into(),
            })
        };
        for (by, code, untrusted) in [
            (Closer::Us, 0x100 + 48, true),
            (Closer::Us, 0x100 + 42, true),
            (Closer::Us, 0x100 + 40, false),
            (Closer::Us, 48, false),
            (Closer::Peer, 0x100 + 48, false),
        ] {
            let error = close(by, code);
            assert_eq!(error.is_untrusted_certificate(), untrusted, "{error:?}");
        }
        assert!(!HandshakeError::TimedOut(Duration::from_secs(1)).is_untrusted_certificate());
    }
}
