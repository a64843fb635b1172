//! Two stacks, one set of sides: each with a plug-in or stock, client or server, and talk to any other.

// Each test binary uses its part.
#![allow(dead_code)]

pub(crate) mod failing;
pub(crate) mod marking;
pub(crate) mod shaping_sockets;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::ControllerConfig;
use fathom_plugin::{ConnectionMonitor, Extension, Observer, Report};
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) const ALPN: &[u8] = b"fathom-test";

/// TLS for both sides, good for `localhost`.
#[derive(Clone)]
pub(crate) struct Identity {
    pub server: Arc<rustls::ServerConfig>,
    pub client: Arc<rustls::ClientConfig>,
}

pub(crate) fn identity() -> Identity {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    identity_with(Arc::clone(&provider), provider)
}

/// With a crypto provider for each side.
pub(crate) fn identity_with(server: Arc<CryptoProvider>, client: Arc<CryptoProvider>) -> Identity {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let certificate: CertificateDer<'static> = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let mut server = rustls::ServerConfig::builder_with_provider(server)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a server");
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let mut client = rustls::ClientConfig::builder_with_provider(client)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_vec()];
    Identity { server: Arc::new(server), client: Arc::new(client) }
}

/// Longer than anything here takes on a machine that is busy otherwise: only what hangs comes to its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a side has seen enough.
pub(crate) type Sees = fn(&Report) -> bool;

/// What a side is to see. How many stamps come with a body depends on how packets and acknowledgements fall together: rounds go on until
/// both sides have seen enough.
#[derive(Clone)]
pub(crate) struct Enough {
    of: Sees,
    sides: Arc<Mutex<Vec<(ConnectionMonitor, Sees)>>>,
}

impl Enough {
    /// This is the connection's monitor.
    pub(crate) fn by(&self, monitor: Option<&ConnectionMonitor>) {
        let side = monitor.map(|monitor| (monitor.clone(), self.of));
        self.sides.lock().extend(side);
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.sides.lock().iter().all(|(monitor, of)| of(&monitor.report()))
    }
}

/// These two, with rounds until the client and the server have seen enough.
pub(crate) fn until(
    client: SideConfig,
    server: SideConfig,
    [of_client, of_server]: [Sees; 2],
) -> (SideConfig, SideConfig) {
    let enough = Enough { of: of_client, sides: Arc::default() };
    let same = Enough { of: of_server, ..enough.clone() };
    (SideConfig { enough: Some(enough), ..client }, SideConfig { enough: Some(same), ..server })
}

/// One side of a connection.
#[derive(Clone)]
pub(crate) struct SideConfig {
    /// `None`: the stack without a plug-in.
    pub controller_config: Option<Arc<dyn ControllerConfig>>,
    pub extension: Extension,
    /// Sent in place of our transport parameters.
    pub parameter: Option<&'static [u8]>,
    /// Sent in place of our frame.
    pub stamp: Option<&'static [u8]>,
    pub observer: Option<Arc<dyn Observer>>,
    /// Bytes the client sends and gets back, in so many rounds.
    pub bytes: usize,
    pub rounds: usize,
    /// More rounds, where it is not seen by then.
    pub(crate) enough: Option<Enough>,
    /// A key update before each round but the first.
    pub key_updates: bool,
    /// Datagrams as large as they may be, sent by both sides beside the stream.
    pub datagrams: usize,
    /// The server's socket marks what it receives.
    pub(crate) marks: Option<marking::Marks>,
    /// Sends through a shaping socket, and records here what leaves it.
    pub(crate) shaping_socket: Option<shaping_sockets::Sizes>,
    /// The client's endpoint does not use its shaping socket.
    pub unwired: bool,
    /// MTU discovery is on.
    pub discovery: bool,
    /// Largest datagram at the start.
    pub mtu: u16,
    /// noq only: paths that may be open at a time.
    pub paths: u32,
}

impl SideConfig {
    pub(crate) fn stock() -> Self {
        Self {
            controller_config: None,
            extension: Extension::default(),
            parameter: None,
            stamp: None,
            observer: None,
            bytes: 500_000,
            rounds: 1,
            enough: None,
            key_updates: false,
            datagrams: 0,
            marks: None,
            shaping_socket: None,
            unwired: false,
            discovery: true,
            mtu: 1_200,
            paths: 0,
        }
    }

    pub(crate) fn with_plugin(spec: &str, extension: Extension) -> Self {
        Self {
            controller_config: Some(fathom_cc::catalogue::parse(spec).expect("a controller")),
            extension,
            ..Self::stock()
        }
    }
}

/// What one side saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// What the monitor reported after each round.
    pub reports: Vec<Report>,
    /// Transport error code that ended the connection before its time, and whether this side raised it.
    pub error: Option<(u64, bool)>,
    /// Datagrams of the other side that arrived.
    pub datagrams: usize,
}

impl Outcome {
    /// The last report of a side with a plug-in.
    pub(crate) fn report(&self) -> Report {
        *self.reports.last().expect("a side with a plug-in")
    }
}

/// A body whose every byte depends on its place.
pub(crate) fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Both stacks have the same shape; only their types differ.
macro_rules! sides {
    ($module:ident, $stack:ident, $plugin:ident, $multipath:expr) => {
        pub(crate) mod $module {
            use super::*;
            use $plugin::{Plugin, ShapingSocket};
            use $stack::{Connection, ConnectionError, Endpoint, TransportConfig};

            /// A plug-in with the extension, through the shaping socket of a registry.
            pub(crate) fn shaping_plugin(
                registry: &Arc<$plugin::TrailerRegistry>,
                controller_config: Arc<dyn ControllerConfig>,
            ) -> Plugin {
                Plugin::new_with_shaping(registry, controller_config).expect("a plug-in")
            }

            fn plugin(side: &SideConfig, shaping_socket: Option<&ShapingSocket>) -> Option<Plugin> {
                let controller_config = Arc::clone(side.controller_config.as_ref()?);
                let plugin = match shaping_socket {
                    Some(shaping_socket) => Plugin::new_with_shaping(shaping_socket.registry(), controller_config),
                    None => Plugin::new(controller_config),
                };
                let plugin = plugin.expect("a plug-in");
                let plugin = plugin.with_extension(side.extension).expect("an extension");
                let plugin = match side.parameter {
                    Some(bytes) => plugin.with_raw_parameter(bytes),
                    None => plugin,
                };
                Some(match side.stamp {
                    Some(bytes) => plugin.with_raw_stamp(bytes),
                    None => plugin,
                })
            }

            fn transport(side: &SideConfig) -> TransportConfig {
                let mut transport = TransportConfig::default();
                // Failed handshakes end sooner.
                transport.initial_rtt(Duration::from_millis(20)).initial_mtu(side.mtu);
                transport.max_idle_timeout(Some(PATIENCE.try_into().expect("a timeout")));
                if !side.discovery {
                    transport.mtu_discovery_config(None);
                }
                let set: fn(&mut TransportConfig, u32) = $multipath;
                set(&mut transport, side.paths);
                transport
            }

            fn error(e: &ConnectionError) -> Option<(u64, bool)> {
                match e {
                    ConnectionError::TransportError(e) => Some((e.code.into(), true)),
                    ConnectionError::ConnectionClosed(e) => Some((e.error_code.into(), false)),
                    ConnectionError::ApplicationClosed(_) => None,
                    other => panic!("{other}"),
                }
            }

            /// Ends with an error, once the peer was told.
            async fn failed(endpoint: &Endpoint, e: &ConnectionError) -> Outcome {
                endpoint.wait_idle().await;
                Outcome { error: error(e), ..Outcome::default() }
            }

            /// Sends all datagrams and receives most of the other side's: a socket's buffer may overflow.
            async fn exchange(side: &SideConfig, connection: &Connection) -> usize {
                let send = async {
                    for i in 0..side.datagrams {
                        let room = connection.max_datagram_size().expect("datagrams");
                        let datagram = vec![i as u8; room];
                        connection.send_datagram_wait(datagram.into()).await.expect("sent");
                    }
                };
                let receive = async {
                    let mut got = 0;
                    while got <= side.datagrams * 2 / 3
                        && side.datagrams > 0
                        && connection.read_datagram().await.is_ok()
                    {
                        got += 1;
                    }
                    got
                };
                tokio::join!(send, receive).1
            }

            /// Binds, accepts one connection and echoes its streams.
            pub(crate) fn serve(
                side: SideConfig,
                identity: &Identity,
            ) -> (SocketAddr, tokio::task::JoinHandle<Outcome>) {
                let tls = Arc::clone(&identity.server);
                let any = "0.0.0.0:0".parse().expect("an address");
                let shaping_socket =
                    side.shaping_socket.as_ref().map(|sizes| shaping_sockets::$module::bind(any, sizes));
                let server = plugin(&side, shaping_socket.as_ref())
                    .map(|plugin| plugin.server(Arc::clone(&tls)).expect("a server"));
                let config = match &server {
                    Some(server) => server.config(),
                    None => {
                        let crypto = $stack::crypto::rustls::QuicServerConfig::try_from(tls).expect("a server");
                        let mut config = $stack::ServerConfig::with_crypto(Arc::new(crypto));
                        config.transport_config(Arc::new(transport(&side)));
                        config
                    }
                };
                let endpoint = match (side.marks.clone(), shaping_socket) {
                    (Some(marks), _) => marking::$module(config, any, marks),
                    (None, Some(shaping_socket)) => {
                        shaping_sockets::$module::endpoint(Some(config), shaping_socket.socket())
                    }
                    (None, None) => Endpoint::server(config, any).expect("an endpoint"),
                };
                let port = endpoint.local_addr().expect("bound").port();
                let task = tokio::spawn(async move {
                    let incoming = endpoint.accept().await.expect("a client");
                    let (connecting, monitor): (_, Option<ConnectionMonitor>) = match &server {
                        Some(server) => match server.accept_observed(incoming, transport(&side), side.observer.clone())
                        {
                            Ok((connecting, monitor)) => (connecting, Some(monitor)),
                            // The first packet already held the client's transport parameters.
                            Err(e) => return failed(&endpoint, &e).await,
                        },
                        None => (incoming.accept().expect("accepted"), None),
                    };
                    let connection = match connecting.await {
                        Ok(connection) => connection,
                        Err(e) => return failed(&endpoint, &e).await,
                    };
                    let mut outcome = Outcome::default();
                    if let Some(enough) = &side.enough {
                        enough.by(monitor.as_ref());
                    }
                    let echo = async {
                        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                            let got = recv.read_to_end(side.bytes).await.expect("read");
                            send.write_all(&got).await.expect("written");
                            send.finish().expect("open");
                        }
                    };
                    let datagrams = async {
                        let got = exchange(&side, &connection).await;
                        if side.datagrams > 0 {
                            // The client does not end before.
                            connection.open_uni().await.expect("a stream").write_all(b"!").await.expect("written");
                        }
                        got
                    };
                    outcome.datagrams = tokio::join!(datagrams, echo).0;
                    connection.closed().await;
                    outcome.reports.extend(monitor.map(|p| p.report()));
                    outcome
                });
                (SocketAddr::from(([127, 0, 0, 1], port)), task)
            }

            /// Binds, accepts one connection and echoes a stream if it can; how the connection ended.
            pub(crate) fn serve_to_the_end(
                side: &SideConfig,
                identity: &Identity,
            ) -> (SocketAddr, tokio::task::JoinHandle<Option<(u64, bool)>>) {
                let server =
                    plugin(side, None).expect("a plug-in").server(Arc::clone(&identity.server)).expect("a server");
                let any = "127.0.0.1:0".parse().expect("an address");
                let endpoint = Endpoint::server(server.config(), any).expect("an endpoint");
                let (to, transport) = (endpoint.local_addr().expect("bound"), transport(side));
                let task = tokio::spawn(async move {
                    let incoming = endpoint.accept().await.expect("a client");
                    let connecting = match server.accept(incoming, transport) {
                        Ok((connecting, _)) => connecting,
                        Err(e) => return error(&e),
                    };
                    let connection = match connecting.await {
                        Ok(connection) => connection,
                        Err(e) => return error(&e),
                    };
                    if let Ok((mut send, mut recv)) = connection.accept_bi().await {
                        let got = recv.read_to_end(1 << 20).await.unwrap_or_default();
                        let _ = send.write_all(&got).await;
                        let _ = send.finish();
                    }
                    let ended = error(&connection.closed().await);
                    endpoint.wait_idle().await;
                    ended
                });
                (to, task)
            }

            /// Connects and sends a body, if the server lets it; waits for the end.
            pub(crate) async fn fetch_to_the_end(side: SideConfig, identity: Identity, to: SocketAddr) {
                let Ok((endpoint, connection, _)) = connect(&side, &identity, to).await else { return };
                if let Ok((mut send, mut recv)) = connection.open_bi().await {
                    let _ = send.write_all(&body(side.bytes)).await;
                    let _ = send.finish();
                    let _ = recv.read_to_end(1 << 20).await;
                }
                connection.close(0u32.into(), b"");
                endpoint.wait_idle().await;
            }

            /// Connects; the connection and its monitor.
            pub(crate) async fn connect(
                side: &SideConfig,
                identity: &Identity,
                to: SocketAddr,
            ) -> Result<(Endpoint, Connection, Option<ConnectionMonitor>), (u64, bool)> {
                let any = "0.0.0.0:0".parse().expect("an address");
                let shaping_socket =
                    side.shaping_socket.as_ref().map(|sizes| shaping_sockets::$module::bind(any, sizes));
                let tls = Arc::clone(&identity.client);
                let plugin = plugin(side, shaping_socket.as_ref());
                let endpoint = match shaping_socket {
                    Some(shaping_socket) if !side.unwired => {
                        shaping_sockets::$module::endpoint(None, shaping_socket.socket())
                    }
                    _ => Endpoint::client(any).expect("a client"),
                };
                let (config, monitor) = match plugin.map(|plugin| plugin.client(Arc::clone(&tls)).expect("a client")) {
                    Some(client) => {
                        let (config, monitor) = client.config(transport(side), side.observer.clone());
                        (config, Some(monitor))
                    }
                    None => {
                        let crypto = $stack::crypto::rustls::QuicClientConfig::try_from(tls).expect("a client");
                        let mut config = $stack::ClientConfig::new(Arc::new(crypto));
                        config.transport_config(Arc::new(transport(side)));
                        (config, None)
                    }
                };
                let connecting = endpoint.connect_with(config, to, "localhost").expect("a connection begun");
                match connecting.await {
                    Ok(connection) => Ok((endpoint, connection, monitor)),
                    Err(e) => {
                        endpoint.wait_idle().await;
                        Err(error(&e).expect("a transport error"))
                    }
                }
            }

            /// Connects, sends bodies and compares what comes back.
            pub(crate) async fn fetch(side: SideConfig, identity: Identity, to: SocketAddr) -> Outcome {
                let mut outcome = Outcome::default();
                let (endpoint, connection, monitor) = match connect(&side, &identity, to).await {
                    Ok(connected) => connected,
                    Err(error) => return Outcome { error: Some(error), ..outcome },
                };
                let data = connection.handshake_data().expect("a handshake");
                let data = data.downcast::<$stack::crypto::rustls::HandshakeData>().expect("the stack's own type");
                assert_eq!(data.protocol.as_deref(), Some(ALPN));
                if let Some(enough) = &side.enough {
                    enough.by(monitor.as_ref());
                }
                let sent = body(side.bytes);
                let rounds = async {
                    let mut round = 0;
                    while round < side.rounds || side.enough.as_ref().is_some_and(|enough| !enough.is_seen()) {
                        if side.key_updates && round > 0 {
                            connection.force_key_update();
                        }
                        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
                        let write = async {
                            send.write_all(&sent).await.expect("written");
                            send.finish().expect("open");
                        };
                        let (got, ()) = tokio::join!(recv.read_to_end(side.bytes), write);
                        assert!(got.expect("read") == sent, "the body came back changed");
                        outcome.reports.extend(monitor.as_ref().map(ConnectionMonitor::report));
                        round += 1;
                    }
                };
                let datagrams = tokio::join!(exchange(&side, &connection), rounds).0;
                if side.datagrams > 0 {
                    connection.accept_uni().await.expect("the server's word");
                }
                outcome.datagrams = datagrams;
                connection.close(0u32.into(), b"");
                endpoint.wait_idle().await;
                outcome.reports.extend(monitor.map(|p| p.report()));
                outcome
            }
        }
    };
}

sides!(on_quinn, quinn, fathom_quinn, |_, _| ());
sides!(on_noq, noq, fathom_noq, |transport, paths| {
    transport.max_concurrent_multipath_paths(paths);
});

/// Which stack a side runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Quinn,
    Noq,
}

/// Every pair of stacks with noq on one side at least: client, server.
pub(crate) const WITH_NOQ: [(On, On); 3] = [(On::Noq, On::Noq), (On::Quinn, On::Noq), (On::Noq, On::Quinn)];
/// Every pair of stacks.
pub(crate) const EVERY: [(On, On); 4] =
    [(On::Noq, On::Noq), (On::Quinn, On::Noq), (On::Noq, On::Quinn), (On::Quinn, On::Quinn)];

/// One connection: what client and server saw.
pub(crate) async fn run(on: (On, On), client: SideConfig, server: SideConfig) -> (Outcome, Outcome) {
    let identity = identity();
    let (to, serving) = match on.1 {
        On::Quinn => on_quinn::serve(server, &identity),
        On::Noq => on_noq::serve(server, &identity),
    };
    let both = async {
        let client = match on.0 {
            On::Quinn => on_quinn::fetch(client, identity, to).await,
            On::Noq => on_noq::fetch(client, identity, to).await,
        };
        (client, serving.await.expect("the server ended well"))
    };
    tokio::time::timeout(PATIENCE, both).await.expect("done in time")
}

/// One connection that ends before its time: the transport error code that the server saw, and whether it raised it.
pub(crate) async fn ended(on: (On, On), client: SideConfig, server: SideConfig) -> Option<(u64, bool)> {
    let identity = identity();
    let (to, serving) = match on.1 {
        On::Quinn => on_quinn::serve_to_the_end(&server, &identity),
        On::Noq => on_noq::serve_to_the_end(&server, &identity),
    };
    let both = async {
        match on.0 {
            On::Quinn => on_quinn::fetch_to_the_end(client, identity, to).await,
            On::Noq => on_noq::fetch_to_the_end(client, identity, to).await,
        }
        serving.await.expect("the server ended well")
    };
    tokio::time::timeout(PATIENCE, both).await.expect("done in time")
}
