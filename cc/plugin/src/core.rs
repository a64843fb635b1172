//! What every connection of a plug-in starts from, on any stack.

use std::fmt;
use std::sync::Arc;

use fathom_cc::catalogue::SpecError;
use fathom_cc::{Capabilities, ControllerConfig, Missing};
use fathom_frames::{EnableTimestamp, Offer};

use crate::clock::{Clock, SystemClock};
use crate::connection_state::ConnectionState;
use crate::monitor::Observer;
use crate::shaping::Shaping;
use crate::shaping_socket::TrailerRegistry;

/// How connections exchange one-way delays. Where a peer offers both frames, SYNC_TIMESTAMP is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// What the transport parameter of SYNC_TIMESTAMP says; `None`: it is not offered at all.
    pub offer: Option<Offer>,
    /// What that of TIMESTAMP (draft-huitema-quic-ts) says, which other stacks have; `None`: it is not offered at all.
    pub timestamp: Option<EnableTimestamp>,
    /// The application sends DATAGRAM frames (RFC 9221): the room for the frame is then reserved in every packet, so that the largest
    /// datagram that fits does not change from packet to packet.
    pub datagrams: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { offer: Some(Offer::Lean), timestamp: Some(EnableTimestamp::Both), datagrams: false }
    }
}

impl Extension {
    /// Nothing is offered and nothing is read.
    pub const OFF: Self = Self { offer: None, timestamp: None, datagrams: false };

    /// No frame is offered.
    pub const fn is_off(&self) -> bool {
        self.offer.is_none() && self.timestamp.is_none()
    }
}

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
                    "{missing}; an endpoint that sends through a ShapingSocket offers it too (Plugin::named_through)"
                )
            }
            Self::DatagramsInUse(name) => {
                write!(
                    f,
                    "controller '{name}' changes the packet size, but the application sends DATAGRAM frames; choose another"
                )
            }
            Self::ExtensionOff(name) => {
                write!(f, "controller '{name}' needs one-way delay, but the extension is off; give it a mode")
            }
            Self::NoInitialSuite => {
                f.write_str("the TLS configuration lacks TLS13_AES_128_GCM_SHA256, which QUIC needs; add it")
            }
            #[cfg(feature = "rustls")]
            Self::InitialSuite(suite) => {
                write!(
                    f,
                    "Initial packets take TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2), not {suite:?}; give that suite"
                )
            }
            #[cfg(feature = "rustls")]
            Self::Tls(e) => write!(f, "the TLS configuration cannot carry QUIC: {e}"),
            Self::EarlyDataSize(n) => write!(f, "max_early_data_size is {n}; QUIC allows only 0 or u32::MAX"),
        }
    }
}

impl std::error::Error for PluginError {}

impl From<SpecError> for PluginError {
    fn from(e: SpecError) -> Self {
        Self::Spec(e)
    }
}

/// What every connection of a plug-in starts from.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) controller_config: Arc<dyn ControllerConfig>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) extension: Extension,
    /// Bytes sent in place of our transport parameters.
    pub(crate) parameter: Option<Arc<[u8]>>,
    /// Bytes sent in place of our frame.
    pub(crate) stamp: Option<Arc<[u8]>>,
    /// Where the endpoint's datagrams are trimmed and held.
    pub(crate) registry: Option<Arc<TrailerRegistry>>,
    /// ACK frames are read, even where no controller needs them.
    pub(crate) monitors_acks: bool,
}

impl Core {
    /// What `bare` becomes with a shaping socket, if there is one.
    pub(crate) fn provided(&self, bare: Capabilities) -> Capabilities {
        if self.registry.is_some() { with_shaping_socket(bare) } else { bare }
    }

    /// The state of a new connection, on a stack that provides `bare` by itself.
    pub(crate) fn connection(&self, bare: Capabilities, observer: Option<Arc<dyn Observer>>) -> ConnectionState {
        let setup = ConnectionConfig {
            controller_config: Some(Arc::clone(&self.controller_config)),
            clock: Arc::clone(&self.clock),
            extension: self.extension,
            observer,
            parameter: self.parameter.clone(),
            stamp: self.stamp.clone(),
        };
        let shaping = self.registry.as_ref().map(|registry| Shaping::new(registry, self.extension.datagrams));
        ConnectionState::new(setup, self.provided(bare), self.monitors_acks, shaping)
    }
}

/// What a stack offers that sends through a shaping socket; `bare` is what it offers by itself.
pub const fn with_shaping_socket(bare: Capabilities) -> Capabilities {
    Capabilities { pacing: true, datagram: true, ..bare }
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
