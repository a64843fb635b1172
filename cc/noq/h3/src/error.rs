//! Conversion of the stack's errors to those of [`h3::quic`].
//!
//! Errors that have a meaning in HTTP/3 keep their code. All other errors are passed on as a whole:
//! `Undefined` and `Unknown` contain the stack's own error, which `downcast_ref` returns.

use std::sync::Arc;

use h3::error::Code;
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

use super::stack::{ConnectionError, ReadError, VarInt, WriteError};

/// Converts the reason why a connection ended.
pub(crate) fn connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        // The close codes of the transport belong to another number space (RFC 9000 §20.1) and
        // must not be taken for HTTP/3 codes.
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// Converts the end of the connection to an error of one of its streams.
pub(crate) fn connection_on_stream(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection(error) }
}

/// Converts the reason why a stream cannot be read.
pub(crate) fn read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => terminated(code),
        ReadError::ConnectionLost(error) => connection_on_stream(error),
        // The stream was closed on this side, or belongs to rejected 0-RTT.
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// Converts the reason why a stream cannot be written.
pub(crate) fn write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => terminated(code),
        WriteError::ConnectionLost(error) => connection_on_stream(error),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            StreamErrorIncoming::Unknown(Box::new(error))
        }
    }
}

fn terminated(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() }
}

/// Converts a code to QUIC's type.
///
/// Codes have at most 62 bits (RFC 9114 §8, RFC 9000 §16). A larger code is an error of the
/// caller and is sent as `H3_INTERNAL_ERROR`.
pub(crate) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code)
        .unwrap_or_else(|_| VarInt::from_u32(Code::H3_INTERNAL_ERROR.value() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_undefined(error: ConnectionError) {
        match connection(error.clone()) {
            ConnectionErrorIncoming::Undefined(inner) => {
                assert_eq!(inner.downcast_ref::<ConnectionError>(), Some(&error));
            }
            other => panic!("{error:?} became {other:?}"),
        }
    }

    #[test]
    fn noq_errors_unknown_to_h3_are_passed_on_as_undefined() {
        is_undefined(ConnectionError::VersionMismatch);
        is_undefined(ConnectionError::Reset);
        is_undefined(ConnectionError::LocallyClosed);
        is_undefined(ConnectionError::CidsExhausted);
    }

    #[test]
    fn connection_timeouts_are_reported_on_streams() {
        use StreamErrorIncoming::ConnectionErrorIncoming as OnStream;
        let lost = ConnectionError::TimedOut;
        assert!(matches!(connection(lost.clone()), ConnectionErrorIncoming::Timeout));
        for error in
            [read(ReadError::ConnectionLost(lost.clone())), write(WriteError::ConnectionLost(lost))]
        {
            assert!(
                matches!(error, OnStream { connection_error: ConnectionErrorIncoming::Timeout }),
                "{error:?}"
            );
        }
    }

    #[test]
    fn stream_error_codes_are_kept() {
        let largest = VarInt::from_u64((1 << 62) - 1).expect("62 bits");
        for error in [read(ReadError::Reset(largest)), write(WriteError::Stopped(largest))] {
            let StreamErrorIncoming::StreamTerminated { error_code } = error else {
                panic!("{error:?}")
            };
            assert_eq!(error_code, 4_611_686_018_427_387_903);
        }
    }

    #[test]
    fn error_code_too_large_for_quic_becomes_internal_error() {
        assert_eq!(code(0x10c).into_inner(), 0x10c);
        assert_eq!(code((1 << 62) - 1).into_inner(), (1 << 62) - 1);
        // H3_INTERNAL_ERROR (RFC 9114 §8.1).
        assert_eq!(code(1 << 62).into_inner(), 0x102);
        assert_eq!(code(u64::MAX).into_inner(), 0x102);
    }
}
