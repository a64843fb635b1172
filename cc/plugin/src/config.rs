//! Configuration of a plug-in or of one connection, and the errors in it.

use std::fmt;
use std::sync::Arc;

use fathom_cc::catalogue::SpecError;
use fathom_cc::{ControllerConfig, Missing};

use crate::clock::{Clock, SystemClock};
use crate::extension::Extension;
use crate::report::Observer;

/// Reason why a plug-in cannot be built.
#[derive(Debug)]
pub enum PluginError {
    /// The controller's name or options are invalid.
    Spec(SpecError),
    /// The controller needs capabilities that the stack does not provide.
    Missing {
        /// The missing capabilities.
        missing: Missing,
        /// Whether a shaping socket would provide the missing capabilities.
        shaping_socket_suffices: bool,
    },
    /// The controller changes the packet size, but the application's DATAGRAM frames need a fixed
    /// size.
    DatagramsInUse(&'static str),
    /// The controller needs one-way delays, but the extension is off.
    ExtensionOff(&'static str),
    /// The controller needs one-way delays, but there is no TLS session of ours to negotiate them.
    NeedsSession(&'static str),
    /// The TLS configuration has no TLS 1.3 suite that protects Initial packets.
    NoInitialSuite,
    /// The suite given for Initial packets is not TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    #[cfg(feature = "rustls")]
    InitialSuite(rustls::CipherSuite),
    /// The TLS configuration cannot carry QUIC, for this reason from rustls. For example, it lacks
    /// TLS 1.3 or a suite for QUIC.
    #[cfg(feature = "rustls")]
    Tls(rustls::Error),
    /// The server's `max_early_data_size` is neither 0 nor `u32::MAX`, the only values that QUIC
    /// allows (RFC 9001 §4.6.1).
    EarlyDataSize(u32),
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(e) => e.fmt(f),
            Self::Missing { missing, shaping_socket_suffices: false } => missing.fmt(f),
            Self::Missing { missing, shaping_socket_suffices: true } => {
                write!(
                    f,
                    "{missing}; a ShapingSocket provides this capability, too \
                     (Plugin::named_with_shaping)"
                )
            }
            Self::DatagramsInUse(name) => {
                write!(
                    f,
                    "controller '{name}' changes the packet size, but the application sends \
                     DATAGRAM frames; choose another controller"
                )
            }
            Self::ExtensionOff(name) => {
                write!(
                    f,
                    "controller '{name}' needs one-way delay, but the timestamp extension is off; \
                     set a mode for the extension"
                )
            }
            Self::NeedsSession(name) => {
                write!(
                    f,
                    "controller '{name}' needs one-way delay, which the plug-in negotiates in the \
                     TLS session; use Plugin::server or Plugin::client"
                )
            }
            Self::NoInitialSuite => f.write_str(
                "the TLS configuration lacks TLS13_AES_128_GCM_SHA256, which QUIC needs; add this \
                 cipher suite",
            ),
            #[cfg(feature = "rustls")]
            Self::InitialSuite(suite) => {
                write!(
                    f,
                    "Initial packets need the cipher suite TLS13_AES_128_GCM_SHA256 (RFC 9001 \
                     §5.2), not {suite:?}"
                )
            }
            #[cfg(feature = "rustls")]
            Self::Tls(e) => write!(f, "the TLS configuration cannot carry QUIC: {e}"),
            Self::EarlyDataSize(n) => {
                write!(f, "max_early_data_size is {n}; QUIC allows only 0 or u32::MAX")
            }
        }
    }
}

impl std::error::Error for PluginError {}

impl From<SpecError> for PluginError {
    fn from(e: SpecError) -> Self {
        Self::Spec(e)
    }
}

/// Configuration of one connection on a stack that calls the plug-in from its own code
/// ([`crate::ConnectionState::for_stack`]).
#[derive(Clone)]
pub struct ConnectionConfig {
    /// Source of the connection's controllers. `None` for the stack's own controllers.
    pub controller_config: Option<Arc<dyn ControllerConfig>>,
    /// Clock for the timestamp frames.
    pub clock: Arc<dyn Clock>,
    /// Exchange of one-way delays by the connection.
    pub extension: Extension,
    /// Observer that is called after every acknowledgement and congestion event.
    pub observer: Option<Arc<dyn Observer>>,
    /// Bytes sent instead of the extension's transport parameters (id, length, value). Tests use
    /// this to send bytes that no honest endpoint sends.
    #[doc(hidden)]
    pub parameter: Option<Arc<[u8]>>,
    /// Bytes sent instead of the timestamp frame. Tests use them to send bytes that no honest
    /// endpoint sends.
    #[doc(hidden)]
    pub stamp: Option<Arc<[u8]>>,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            controller_config: None,
            clock: Arc::new(SystemClock),
            extension: Extension::default(),
            observer: None,
            parameter: None,
            stamp: None,
        }
    }
}
