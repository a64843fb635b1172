//! What an endpoint is made from.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fathom_plugin::{Clock, Extension};
use rustls::quic::Suite;

use crate::controller::Controller;
use crate::native::NativeClock;
use crate::stack::Stack;

/// The TLS of an endpoint, which says what it is.
#[derive(Clone, Debug)]
pub enum Tls {
    /// It opens connections.
    Client(Arc<rustls::ClientConfig>),
    /// It accepts them.
    Server(Arc<rustls::ServerConfig>),
}

/// The TLS of an endpoint on quiche: BoringSSL's.
#[cfg(feature = "quiche")]
pub struct BoringTls {
    /// It accepts connections; else it opens them.
    pub server: bool,
    /// Certificates, whom it trusts, groups.
    pub context: boring::ssl::SslContextBuilder,
    /// The application protocol (ALPN).
    pub protocol: Vec<u8>,
    /// 0-RTT is offered or accepted. BoringSSL has no protection against replay.
    pub early_data: bool,
    /// Where a client keeps session tickets; without, it resumes no session.
    pub sessions: Option<Arc<Sessions>>,
}

/// The session ticket that a client on quiche got last, for its next connection.
#[cfg(feature = "quiche")]
#[derive(Debug, Default)]
pub struct Sessions(parking_lot::Mutex<Option<Vec<u8>>>);

#[cfg(feature = "quiche")]
impl Sessions {
    /// Whether there is a ticket.
    pub fn any(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Keeps a ticket for the next connection, in place of the one before.
    pub fn keep(&self, ticket: &[u8]) {
        *self.0.lock() = Some(ticket.to_vec());
    }

    /// Takes the ticket out, where there is one.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().take()
    }
}

/// What an endpoint is made from.
pub struct EndpointSettings<T = Tls> {
    /// Its TLS.
    pub tls: T,
    /// The cipher suite of Initial packets, where TLS itself is not to say.
    pub initial: Option<Suite>,
    /// Its controllers. A server chooses one for each connection; a client uses the first.
    pub controllers: Vec<Controller>,
    /// What connections under our controllers negotiate.
    pub extension: Extension,
    /// The clock behind our timestamps, where it is not the system's.
    pub clock: Option<Arc<dyn Clock>>,
    /// The window of the stack's own controllers is reported, at the times of this clock.
    pub watch_natives: Option<NativeClock>,
    /// Reports tell of every ACK frame.
    pub monitor_acks: bool,
    /// Packets leave through a shaping socket.
    pub shaping: bool,
    /// Seeds everything random: packet numbers skipped, spin and grease bits, connection IDs, reset tokens.
    pub seed: Option<[u8; 32]>,
    /// Settings of its connections.
    pub transport: TransportSettings,
}

impl<T> EndpointSettings<T> {
    /// With the defaults of the plug-in and the stack, without a shaping socket.
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

/// A receive window that never binds, in bytes: a quarter of what QUIC can say (RFC 9000 §16), so that no
/// sum of an offset and a window exceeds that.
pub const UNLIMITED: u64 = 1 << 60;

/// Settings of connections; `None` is the stack's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransportSettings {
    /// Idle timeout.
    pub idle: Option<Duration>,
    /// Bidirectional streams that a peer may have open.
    pub bidi_streams: Option<u32>,
    /// Unidirectional streams that a peer may have open.
    pub uni_streams: Option<u32>,
    /// Bytes on their way on one stream, from a peer; at most [`UNLIMITED`].
    pub stream_window: Option<u64>,
    /// Bytes on their way on all streams, from a peer; at most [`UNLIMITED`].
    pub window: Option<u64>,
    /// Bytes that a connection keeps until they are acknowledged.
    pub send_window: Option<u64>,
    /// UDP payload of a full packet, which the path carries: nothing is discovered unless `mtu_discovery` says so.
    pub datagram: Option<u16>,
    /// With a `datagram`: packets have 1200 bytes first, and as many as `datagram` once the path has carried that (RFC 8899).
    pub mtu_discovery: bool,
    /// DATAGRAM frames (RFC 9221) are taken and sent, and so many bytes of them kept until they can leave: the oldest give way. `None`: there
    /// are none.
    pub datagrams: Option<usize>,
}

/// Why an endpoint cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A stack that runs in the laboratory only.
    #[error("{0} is not run here; write {others}", others = Stack::names(Stack::is_everywhere))]
    Stack(Stack),
    /// A controller: its spec, and what is wrong.
    #[error("controller '{0}': {1}")]
    Controller(String, String),
    /// The stack refused the TLS configuration.
    #[error("TLS: {0}")]
    Tls(String),
    /// The socket.
    #[error("endpoint: {0}")]
    Endpoint(#[from] io::Error),
}
