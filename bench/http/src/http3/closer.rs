//! Handle that closes a connection because of an error of the peer.

use std::fmt;
use std::sync::{Arc, OnceLock};

use h3::error::Code;

use super::PeerError;

/// Handle that closes a connection with an HTTP/3 error code.
#[derive(Clone)]
pub(crate) struct Closer {
    close: Arc<dyn Fn(Code) + Send + Sync>,
    /// First error for which this handle closed the connection.
    why: Arc<OnceLock<PeerError>>,
}

impl Closer {
    /// Returns the closer of this connection.
    pub(crate) fn new<C: fathom_stacks::Connection>(connection: &C) -> Self {
        let connection = connection.clone();
        // Error codes of HTTP/3 and QPACK have ten bits (RFC 9114 §8.1, RFC 9204 §6).
        let close = move |code: Code| {
            connection.close(u32::try_from(code.value()).unwrap_or_default());
        };
        Self { close: Arc::new(close), why: Arc::default() }
    }

    /// Closes the connection because of an error of the peer.
    pub(super) fn close(&self, error: &PeerError) {
        let _ = self.why.set(error.clone());
        (self.close)(error.code());
    }

    /// Returns the error for which this handle closed the connection.
    pub(crate) fn why(&self) -> Option<&PeerError> {
        self.why.get()
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Closer").finish()
    }
}
