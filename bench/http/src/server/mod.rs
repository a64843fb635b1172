//! The HTTP/3 server: accepting connections, serving requests, graceful shutdown.
//!
//! | file | contents |
//! |---|---|
//! | `activity.rs` | time of a connection's last request |
//! | `admission.rs` | which clients are accepted, validated with a Retry, or refused |
//! | `connection.rs` | the requests of one connection |
//! | `request_body.rs` | a request's body, read on demand |
//! | `priorities.rs` | priorities that a client gives to its responses |
//! | `response.rs` | a response on any stack, from its request to its last acknowledgement |
//! | `memory_budget.rs` | memory for unacknowledged data, and which slow readers to drop |
//! | `tcp.rs` | HTTP/1.1 and HTTP/2 in addition to HTTP/3, with `Alt-Svc` |
//! | `tcp_handshakes.rs` | limit of TLS handshakes over TCP |
//! | `scrape.rs` | the metrics, over HTTP/1.1 |

mod activity;
mod admission;
mod connection;
mod memory_budget;
mod priorities;
mod request_body;
mod response;
mod scrape;
mod tcp;
mod tcp_handshakes;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fathom_plugin::Extension;
use fathom_qlog::LogFolder;
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
use fathom_stacks::steering::Place;
use fathom_stacks::{
    Controller, ControllerError, ControllerSpec, Endpoint, EndpointSettings, Incoming, Stack, Tls,
    TransportSettings, UseOfStack,
};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::access_log::AccessLog;
use crate::controller_shares::ControllerShares;
use crate::event_loops::EventLoops;
use crate::http3::NO_ERROR;
#[cfg(feature = "quiche")]
use crate::identity::ALPN;
use crate::identity::{Identity, IdentityError};
use crate::limits::Limits;
use crate::metrics::{ControllerLabels, Metrics};
use crate::served_identity::ServedIdentity;
use crate::site::Site;
use crate::stop::stopped;
use crate::timestamps::Timestamps;
use crate::udp::{self, SocketBuffers};
use admission::{AdmissionControl, AdmissionDecision};
use memory_budget::MemoryBudget;
pub use scrape::Scrape;
use tcp::TcpServer;

/// Flow control window of a connection: number of bytes that may arrive for all its requests before
/// they are read.
const WINDOW: u32 = 256 << 10;

/// Returns the flow control window of a stream. If requests have no bodies, it is enough for a
/// request without a body. Otherwise, it is half of a connection's window, so that an unread body
/// leaves room for other requests.
fn stream_window(limits: &Limits, bodies: bool) -> u32 {
    if bodies {
        return WINDOW / 2;
    }
    u32::try_from(limits.request_bytes()).unwrap_or(WINDOW).clamp(16 << 10, WINDOW)
}

/// Configuration of a server.
#[derive(Debug)]
pub struct Settings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Stack that serves QUIC connections.
    pub stack: Stack,
    /// Number of threads for QUIC, each with an event loop. A connection stays on one thread.
    pub threads: NonZeroU8,
    /// Controllers with their weights.
    pub shares: ControllerShares,
    /// Certificate and key.
    pub identity: Identity,
    /// Served content.
    pub site: Site,
    /// Limits.
    pub limits: Limits,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Timestamp extension to negotiate. Native controllers ignore it.
    pub timestamps: Timestamps,
    /// Settings for HTTP/1.1 and HTTP/2 over TCP on the same port, if enabled.
    pub tcp: Option<TcpSettings>,
    /// Sockets that are already bound, used instead of [`Self::listen`].
    pub sockets: Option<BoundSockets>,
    /// Folder for the qlogs of all connections; `None` if connections are not logged.
    pub logs: Option<Arc<LogFolder>>,
    /// Log with a line for each request; `None` if requests are not logged.
    pub access_log: Option<Arc<AccessLog>>,
}

/// Sockets that are already bound, as passed by a service manager.
#[derive(Debug)]
pub struct BoundSockets {
    /// Socket for QUIC.
    pub udp: std::net::UdpSocket,
    /// Listening socket for TCP. If `None`, a listener is bound to the address of `udp`.
    pub tcp: Option<std::net::TcpListener>,
}

/// Settings of the TCP listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSettings {
    /// Port of HTTP/3 for `Alt-Svc`, if it differs from the port that the server listens on.
    pub alt_svc_port: Option<u16>,
    /// Maximum number of simultaneous TCP connections; `None` takes the limit for QUIC.
    pub connections: Option<usize>,
}

/// Reason why a server cannot be set up. Each message is one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A controller, or the stack's TLS, cannot be used.
    #[error(transparent)]
    Stack(fathom_stacks::SetupError),
    /// 0-RTT is enabled on a stack without replay protection.
    #[error(
        "{0} does not support 0-RTT: BoringSSL has no replay protection; leave out --zero-rtt, or write --stack quinn or noq"
    )]
    EarlyData(Stack),
    /// The address cannot be used.
    #[error("cannot listen on {0}: {1}; {hint}", hint = listen_hint(.1))]
    Listen(SocketAddr, io::Error),
    /// The system provides no thread.
    #[error(
        "cannot start the server's threads: {0}; lower --threads, or raise the limits of the process"
    )]
    Threads(io::Error),
    /// The port cannot be used for TCP.
    #[error(
        "cannot listen on {0} for TCP: {1}; choose a port that is free for both, or leave TCP out with --no-tcp"
    )]
    Tcp(SocketAddr, io::Error),
}

/// Returns the hint for an address that cannot be used.
fn listen_hint(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root, CAP_NET_BIND_SERVICE, or the socket of a service manager (deploy/fathom.socket)"
        }
        _ => "choose another address or a free port",
    }
}

impl SetupError {
    /// Returns an error for a controller that cannot be used.
    fn controller(spec: &ControllerSpec, reason: ControllerError) -> Self {
        Self::Stack(fathom_stacks::SetupError::Controller { spec: spec.to_string(), reason })
    }
}

/// State that all connections of a server share.
pub(crate) struct ServerContext {
    pub(crate) site: Site,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// Labels of the controllers, in the order of the shares.
    pub(crate) labels: Vec<ControllerLabels>,
    pub(crate) shares: ControllerShares,
    /// Folder for qlogs; `None` if connections are not logged.
    pub(crate) logs: Option<Arc<LogFolder>>,
    /// Log of requests; `None` if requests are not logged.
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Memory for responses.
    budget: Arc<MemoryBudget>,
}

/// A bound server that is not serving yet.
pub struct Server {
    address: SocketAddr,
    buffers: SocketBuffers,
    loops: EventLoops,
    listener: Listener,
    tcp: Option<TcpServer>,
    identity: ServedIdentity,
    /// State of the server, which is shared once the server runs.
    context: ServerContext,
}

/// Function that serves on the bound endpoints of any stack until it is told to stop.
type Listener = Box<
    dyn FnOnce(
            Arc<ServerContext>,
            watch::Receiver<bool>,
            Duration,
        ) -> Pin<Box<dyn Future<Output = ()> + Send>>
        + Send,
>;

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the socket. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address is taken, if a controller is unknown or needs a capability
    /// that the stack lacks, or if certificate and key do not match.
    pub fn bind(settings: Settings) -> Result<Self, SetupError> {
        let Settings {
            listen,
            stack,
            threads,
            shares,
            identity,
            site,
            limits,
            metrics,
            timestamps,
            tcp,
            sockets,
            logs,
            access_log,
        } = settings;
        let (extension, bodies) = (timestamps.extension(), site.reads_bodies());
        let listen_error = |e: io::Error| SetupError::Listen(listen, e);
        let (socket, buffers, tcp_socket) = match sockets {
            Some(bound) => adopt_sockets(bound, listen, tcp.is_some())?,
            None => bind_sockets(listen, tcp.is_some())?,
        };
        let address = socket.local_addr().map_err(listen_error)?;
        let identity = ServedIdentity::new(&identity)?;
        let loops = EventLoops::start(threads).map_err(SetupError::Threads)?;
        let listener = stack.with(Listen {
            stack,
            loops: &loops,
            socket,
            identity: &identity,
            shares: &shares,
            limits: &limits,
            bodies,
            extension,
        });
        let listener = listener.map_err(|e| match e {
            SetupError::Stack(fathom_stacks::SetupError::Endpoint(e)) => listen_error(e),
            e => e,
        })?;
        let tcp = tcp.zip(tcp_socket).map(|(settings, socket)| {
            TcpServer::new(socket, &settings, &identity, address, &limits, bodies, &metrics)
        });
        let tcp = tcp.transpose()?;
        if let Some(logs) = &logs {
            metrics.set_log_folder(Arc::clone(logs));
        }
        let labels = labels(stack, &shares);
        let budget = MemoryBudget::new(&limits, metrics.response_memory());
        let context =
            ServerContext { site, limits, metrics, labels, shares, logs, access_log, budget };
        Ok(Self { address, buffers, loops, listener, tcp, identity, context })
    }

    /// Returns a handle to the identity of the server's handshakes, which can be replaced while it
    /// runs.
    pub fn identity(&self) -> ServedIdentity {
        self.identity.clone()
    }

    /// Returns the address on which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the socket buffer sizes that the system granted. The server requested
    /// [`udp::BUFFER_SIZE`].
    pub const fn buffers(&self) -> SocketBuffers {
        self.buffers
    }

    /// Serves until `stop` becomes true. Then accepts no new connections or requests, waits at most
    /// `grace` for open requests, and closes the remaining connections.
    pub async fn serve(self, stop: watch::Receiver<bool>, grace: Duration) {
        self.buffers.warn_if_small();
        let (context, tcp_stop) = (Arc::new(self.context), stop.clone());
        let tcp = async {
            if let Some(tcp) = self.tcp {
                tcp.serve(Arc::clone(&context), tcp_stop, grace).await;
            }
        };
        let quic = (self.listener)(Arc::clone(&context), stop, grace);
        tokio::join!(quic, tcp);
        // The loops must run until here, because upstream connections may belong to any of them.
        drop(self.loops);
    }
}

/// Returns the labels of the controllers in their order, followed by the labels of TCP.
fn labels(stack: Stack, shares: &ControllerShares) -> Vec<ControllerLabels> {
    let label = |stack, controller: &str| ControllerLabels { stack, controller: controller.into() };
    let controllers =
        shares.controllers().map(|controller| label(stack.name(), &controller.to_string()));
    controllers.chain([label("tcp", "kernel")]).collect()
}

/// The sockets of a server: for QUIC with its buffers, and for TCP if enabled.
type Sockets = (std::net::UdpSocket, SocketBuffers, Option<std::net::TcpListener>);

/// Adopts sockets that are already bound. If `tcp` is true and no listener is among them, binds one
/// to the address of the UDP socket.
fn adopt_sockets(
    bound: BoundSockets,
    listen: SocketAddr,
    tcp: bool,
) -> Result<Sockets, SetupError> {
    let address = bound.udp.local_addr().map_err(|e| SetupError::Listen(listen, e))?;
    let (udp, buffers) = udp::adopt(bound.udp);
    let bind = || tcp::bind(address).map_err(|e| SetupError::Tcp(address, e));
    let listener = tcp.then(|| bound.tcp.map_or_else(bind, Ok)).transpose()?;
    Ok((udp, buffers, listener))
}

/// Binds a socket for QUIC. If `tcp` is true, also binds one for TCP on the same port.
fn bind_sockets(listen: SocketAddr, tcp: bool) -> Result<Sockets, SetupError> {
    let listen_error = |e| SetupError::Listen(listen, e);
    // If the system chose the port for UDP, the same port may be taken for TCP.
    let mut tries = if listen.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let (socket, buffers) = udp::bind(listen).map_err(listen_error)?;
        if !tcp {
            return Ok((socket, buffers, None));
        }
        let address = socket.local_addr().map_err(listen_error)?;
        match tcp::bind(address) {
            Ok(listener) => return Ok((socket, buffers, Some(listener))),
            Err(e) if tries == 0 => return Err(SetupError::Tcp(address, e)),
            Err(_) => {}
        }
    }
}

/// Binds the endpoints of a server to their sockets.
struct Listen<'a> {
    stack: Stack,
    loops: &'a EventLoops,
    socket: std::net::UdpSocket,
    identity: &'a ServedIdentity,
    shares: &'a ControllerShares,
    limits: &'a Limits,
    /// Whether requests may have bodies.
    bodies: bool,
    extension: Extension,
}

impl UseOfStack for Listen<'_> {
    type Output = Result<Listener, SetupError>;

    fn on_rustls<E: Endpoint<Tls = Tls>>(self) -> Self::Output {
        let tls = self.identity.http3(self.limits.early_data)?;
        self.open::<E>(Tls::Server(tls))
    }

    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) -> Self::Output {
        if self.limits.early_data {
            return Err(SetupError::EarlyData(self.stack));
        }
        let (context, protocol) = (self.identity.boring()?, ALPN.to_vec());
        self.open::<E>(BoringTls {
            server: true,
            context,
            protocol,
            early_data: false,
            sessions: None,
        })
    }

    fn on_tcp(self) -> Self::Output {
        Err(SetupError::Stack(fathom_stacks::SetupError::Stack(self.stack)))
    }
}

impl Listen<'_> {
    fn open<E: Endpoint>(self, tls: E::Tls) -> Result<Listener, SetupError> {
        let Self { stack, loops, socket, shares, limits, bodies, extension, .. } = self;
        let mut settings = endpoint_settings(stack, shares, tls, limits, bodies, extension)?;
        // A shaping socket has one endpoint. A service manager's socket usually has one, too,
        // because it belongs to another user.
        let others = if settings.shaping {
            Vec::new()
        } else {
            udp::bind_beside(&socket, loops.count()).unwrap_or_else(|e| {
                tracing::debug!("one socket for all threads: {e}");
                Vec::new()
            })
        };
        let mut places = Place::all(loops.count());
        settings.place = places.next().filter(|_| !others.is_empty());
        let first = {
            let _inside = loops.handle(0).enter();
            E::on_tokio(socket, settings).map_err(SetupError::Stack)?
        };
        let siblings = others.into_iter().zip(places).zip(loops.handles().skip(1));
        let siblings = siblings.map(|((socket, place), event_loop)| {
            let _inside = event_loop.enter();
            first.sibling(socket, place).map_err(SetupError::Stack)
        });
        let siblings = siblings.collect::<Result<Vec<_>, _>>()?;
        let loops = loops.handles().cloned().collect();
        let endpoints = std::iter::once(first).chain(siblings).collect();
        Ok(Box::new(|context, stop, grace| {
            Box::pin(serve_all(endpoints, loops, context, stop, grace))
        }))
    }
}

/// Returns the endpoint settings of a stack.
fn endpoint_settings<T>(
    stack: Stack,
    shares: &ControllerShares,
    tls: T,
    limits: &Limits,
    bodies: bool,
    extension: Extension,
) -> Result<EndpointSettings<T>, SetupError> {
    let read = |spec: &ControllerSpec| {
        Controller::read(&spec.to_string(), stack)
            .map_err(|reason| SetupError::controller(spec, reason))
    };
    let controllers = shares.controllers().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(EndpointSettings {
        extension,
        shaping: controllers.iter().any(|controller| controller.needs_shaping(stack)),
        transport: TransportSettings {
            idle: Some(limits.idle_timeout),
            bidi_streams: Some(limits.streams),
            // HTTP/3 uses three unidirectional streams: the control stream and QPACK's two streams
            // (RFC 9114 §6.2).
            uni_streams: Some(8),
            stream_window: Some(stream_window(limits, bodies).into()),
            window: Some(WINDOW.into()),
            send_window: Some(limits.send_buffer),
            datagram: None,
            mtu_discovery: false,
            datagrams: None,
        },
        ..EndpointSettings::new(tls, controllers)
    })
}

/// Serves on all endpoints: on each endpoint's own event loop, or on all loops if there is only one
/// endpoint.
async fn serve_all<E: Endpoint>(
    endpoints: Vec<E>,
    loops: Vec<Handle>,
    context: Arc<ServerContext>,
    stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let admission = AdmissionControl::new(context.limits, Arc::clone(&context.metrics));
    let only = endpoints.len() == 1;
    let mut serving = JoinSet::new();
    for (endpoint, own) in endpoints.into_iter().zip(&loops) {
        let loops = if only { loops.clone() } else { vec![own.clone()] };
        let (context, admission) = (Arc::clone(&context), Arc::clone(&admission));
        serving.spawn_on(serve(endpoint, loops, context, admission, stop.clone(), grace), own);
    }
    while let Some(served) = serving.join_next().await {
        if let Err(e) = served
            && let Ok(panic) = e.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Serves the connections of one endpoint on these event loops in turn.
async fn serve<E: Endpoint>(
    endpoint: E,
    loops: Vec<Handle>,
    context: Arc<ServerContext>,
    admission: Arc<AdmissionControl>,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) {
    let endpoint = Arc::new(endpoint);
    let mut connections = JoinSet::new();
    let mut event_loops = loops.iter().cycle();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                let guard = match admission.decide(incoming.remote_address(), incoming.remote_address_validated(), Instant::now()) {
                    AdmissionDecision::Accept(guard) => guard,
                    AdmissionDecision::Retry => {
                        incoming.retry();
                        continue;
                    }
                    AdmissionDecision::Refuse => {
                        incoming.refuse();
                        continue;
                    }
                };
                let share = context.shares.pick(rand::random::<f64>());
                let (endpoint, context, stop) = (Arc::clone(&endpoint), Arc::clone(&context), stop.clone());
                let served = async move { connection::run(&*endpoint, incoming, share, &context, stop, guard).await };
                connections.spawn_on(served, event_loops.next().unwrap_or(&loops[0]));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stopped(&mut stop) => break,
        }
    }
    // Refuse new clients while existing connections drain.
    let all = async {
        while !connections.is_empty() {
            tokio::select! {
                Some(incoming) = endpoint.accept() => incoming.refuse(),
                _ = connections.join_next() => {}
            }
        }
    };
    let _ = tokio::time::timeout(grace, all).await;
    connections.abort_all();
    endpoint.close(NO_ERROR);
    // Peers are told that the server closes. It does not wait long for their answers.
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_uses_a_shaping_socket_for_sdc() {
        let identity = Identity::self_signed(&[]).unwrap();
        for (shares, shaping) in [("sdc", true), ("reno,sdc", true), ("reno", false)] {
            for stack in Stack::ALL.iter().filter(|stack| stack.on_rustls()) {
                let tls = identity.server().unwrap();
                let settings = endpoint_settings(
                    *stack,
                    &shares.parse().unwrap(),
                    tls,
                    &Limits::default(),
                    false,
                    Extension::default(),
                );
                assert_eq!(settings.unwrap().shaping, shaping, "{shares} on {stack}");
            }
        }
    }
}
