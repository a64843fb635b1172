//! Settings of an endpoint and of its connections.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fathom_plugin::{Clock, Extension};
use rustls::quic::Suite;

use crate::controller::{Controller, ControllerError};
use crate::native::NativeClock;
use crate::stack::Stack;
use crate::steering::Place;

/// TLS configuration of an endpoint. The variant makes the endpoint a client or a server.
#[derive(Clone, Debug)]
pub enum Tls {
    /// The endpoint opens connections.
    Client(Arc<rustls::ClientConfig>),
    /// The endpoint accepts connections.
    Server(Arc<rustls::ServerConfig>),
}

/// TLS configuration of an endpoint on quiche, for BoringSSL.
#[cfg(feature = "quiche")]
pub struct BoringTls {
    /// Whether the endpoint accepts connections. If false, it opens them.
    pub server: bool,
    /// Certificates, trusted issuers and key exchange groups.
    pub context: boring::ssl::SslContextBuilder,
    /// Application protocol (ALPN).
    pub protocol: Vec<u8>,
    /// Whether 0-RTT is offered or accepted. BoringSSL has no protection against replay.
    pub early_data: bool,
    /// Store for a client's session tickets. Without one, the client resumes no session.
    pub sessions: Option<Arc<Sessions>>,
}

/// The latest session ticket of a client on quiche, for its next connection.
#[cfg(feature = "quiche")]
#[derive(Debug, Default)]
pub struct Sessions(parking_lot::Mutex<Option<Vec<u8>>>);

#[cfg(feature = "quiche")]
impl Sessions {
    /// Returns whether there is a ticket.
    pub fn any(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Stores a ticket for the next connection, replacing the previous ticket.
    pub fn keep(&self, ticket: &[u8]) {
        *self.0.lock() = Some(ticket.to_vec());
    }

    /// Removes the ticket and returns it; `None` if there is none.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().take()
    }
}

/// Settings of an endpoint.
pub struct EndpointSettings<T = Tls> {
    /// TLS configuration.
    pub tls: T,
    /// Cipher suite of Initial packets. `None` takes the suite of the TLS configuration.
    pub initial: Option<Suite>,
    /// Controllers. A server chooses one of them for each connection. A client uses the first one.
    pub controllers: Vec<Controller>,
    /// Extension that connections under our controllers negotiate.
    pub extension: Extension,
    /// Clock of our timestamps; `None` for the system's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Clock for reports of the window of the stack's own controllers; `None` disables these
    /// reports.
    pub watch_natives: Option<NativeClock>,
    /// Whether every ACK frame is read for the reports.
    pub monitor_acks: bool,
    /// Whether packets leave through a shaping socket.
    pub shaping: bool,
    /// Seed of all random values: skipped packet numbers, spin and grease bits, connection IDs,
    /// reset tokens.
    pub seed: Option<[u8; 32]>,
    /// Place of the endpoint, if it is one of several endpoints at one address.
    pub place: Option<Place>,
    /// Settings of the connections.
    pub transport: TransportSettings,
}

impl<T> EndpointSettings<T> {
    /// Returns settings with the defaults of the plug-in and the stack, without a shaping socket.
    pub fn new(tls: T, controllers: Vec<Controller>) -> Self {
        Self {
            tls,
            initial: None,
            controllers,
            extension: Extension::default(),
            clock: None,
            watch_natives: None,
            monitor_acks: false,
            shaping: false,
            seed: None,
            place: None,
            transport: TransportSettings::default(),
        }
    }
}

impl<T> fmt::Debug for EndpointSettings<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSettings")
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

/// Receive window that never limits a sender, in bytes. It is a quarter of QUIC's integer range
/// (RFC 9000 §16), so that no sum of an offset and a window exceeds that range.
pub const UNLIMITED: u64 = 1 << 60;

/// Settings of connections. `None` means the stack's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransportSettings {
    /// Idle timeout.
    pub idle: Option<Duration>,
    /// Bidirectional streams that a peer may have open.
    pub bidi_streams: Option<u32>,
    /// Unidirectional streams that a peer may have open.
    pub uni_streams: Option<u32>,
    /// Receive window of one stream, in bytes; at most [`UNLIMITED`].
    pub stream_window: Option<u64>,
    /// Receive window of a connection, over all streams, in bytes; at most [`UNLIMITED`].
    pub window: Option<u64>,
    /// Maximum number of bytes that a connection buffers until they are acknowledged.
    pub send_window: Option<u64>,
    /// UDP payload size of a full packet, in bytes. Without `mtu_discovery`, the path is assumed to
    /// carry packets of this size.
    pub datagram: Option<u16>,
    /// Whether to discover the path MTU up to `datagram` (RFC 8899). Packets have 1200 bytes at
    /// first, and `datagram` bytes once the path has carried a packet of this size.
    pub mtu_discovery: bool,
    /// Maximum number of bytes of DATAGRAM frames (RFC 9221) that a connection queues until it can
    /// send them. The oldest frames are dropped first. `None` disables DATAGRAM frames in both
    /// directions.
    pub datagrams: Option<usize>,
}

/// Reason why an endpoint cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The stack runs only in the laboratory.
    #[error("{0} runs only in the laboratory; write {others}", others = Stack::names(Stack::is_everywhere))]
    Stack(Stack),
    /// The settings have no controller.
    #[error("no controller is named; name one")]
    NoController,
    /// The stack cannot run a controller.
    #[error("controller '{spec}': {reason}")]
    Controller {
        /// The controller.
        spec: String,
        /// Reason why the stack cannot run the controller.
        reason: ControllerError,
    },
    /// The stack refused the TLS configuration.
    #[error("TLS: {}", one_line(&**.0))]
    Tls(Box<dyn Error + Send + Sync>),
    /// The server of a stack sent no session tickets.
    #[error("TLS: {0}'s server sent no session tickets")]
    NoTickets(Stack),
    /// A shaping socket has no second endpoint.
    #[error("endpoint: packets leave through a shaping socket, which has one endpoint")]
    Shaping,
    /// The socket cannot be used.
    #[error("endpoint: {0}")]
    Endpoint(#[from] io::Error),
}

impl SetupError {
    /// Returns the error for a TLS configuration that the stack refused.
    pub fn tls(reason: impl Error + Send + Sync + 'static) -> Self {
        Self::Tls(Box::new(reason))
    }
}

/// Returns the text of an error on one line, because BoringSSL writes one line per error.
fn one_line(error: &dyn Error) -> String {
    error.to_string().trim().replace('\n', "; ")
}
