//! How a plug-in or one connection is set up, and why it cannot be.

use std::fmt;
use std::sync::Arc;

use fathom_cc::catalogue::SpecError;
use fathom_cc::{ControllerConfig, Missing};

use crate::clock::{Clock, SystemClock};
use crate::extension::Extension;
use crate::report::Observer;

/// Why a plug-in cannot be made.
#[derive(Debug)]
pub enum PluginError {
    /// The controller's name or options.
    Spec(SpecError),
    /// The controller needs capabilities that the stack does not provide.
    Missing {
        /// What is missing.
        missing: Missing,
        /// A shaping socket would offer it.
        shaping_socket_suffices: bool,
    },
    /// The controller changes the packet size, and the application's DATAGRAM frames need one that stays.
    DatagramsInUse(&'static str),
    /// The controller needs one-way delays and the extension is off.
    ExtensionOff(&'static str),
    /// The controller needs one-way delays, and there is no TLS session of ours to bring them.
    NeedsSession(&'static str),
    /// The TLS configuration has no TLS 1.3 suite that protects Initial packets.
    NoInitialSuite,
    /// The suite given for Initial packets is not TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    #[cfg(feature = "rustls")]
    InitialSuite(rustls::CipherSuite),
    /// The TLS configuration cannot carry QUIC: rustls's own words, such as that it lacks TLS 1.3 or a suite for QUIC.
    #[cfg(feature = "rustls")]
    Tls(rustls::Error),
    /// QUIC allows only 0 or `u32::MAX` here (RFC 9001 §4.6.1).
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
                    "{missing}; an endpoint that sends through a ShapingSocket offers it too (Plugin::named_with_shaping)"
                )
            }
            Self::DatagramsInUse(name) => {
                write!(
                    f,
                    "controller '{name}' changes the packet size, but the application sends DATAGRAM frames; choose another"
                )
            }
            Self::ExtensionOff(name) => {
                write!(
                    f,
                    "controller '{name}' needs one-way delay, but the extension is off; give it a mode"
                )
            }
            Self::NeedsSession(name) => {
                write!(
                    f,
                    "controller '{name}' needs one-way delay, which comes with the TLS session; use Plugin::server or Plugin::client"
                )
            }
            Self::NoInitialSuite => f.write_str(
                "the TLS configuration lacks TLS13_AES_128_GCM_SHA256, which QUIC needs; add it",
            ),
            #[cfg(feature = "rustls")]
            Self::InitialSuite(suite) => {
                write!(
                    f,
                    "Initial packets take TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2), not {suite:?}; give that suite"
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

/// How one connection is set up, on a stack that carries the plug-in in its own code ([`crate::ConnectionState::for_stack`]).
#[derive(Clone)]
pub struct ConnectionConfig {
    /// Where its controllers come from; `None`: the stack's own controllers.
    pub controller_config: Option<Arc<dyn ControllerConfig>>,
    /// The clock behind the frames.
    pub clock: Arc<dyn Clock>,
    /// How it exchanges one-way delays.
    pub extension: Extension,
    /// Called after every acknowledgement and congestion event.
    pub observer: Option<Arc<dyn Observer>>,
    /// Bytes sent in place of our transport parameters (id, length, value): tests send what no honest endpoint does.
    #[doc(hidden)]
    pub parameter: Option<Arc<[u8]>>,
    /// Bytes sent in place of our frame, for the same purpose.
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
