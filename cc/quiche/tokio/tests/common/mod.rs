//! Ends of connections: derived and stock quiche, beside the ends of quinn and noq from
//! `cc/plugin/testing`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathom_plugin::{ConnectionConfig, ConnectionMonitor, Extension};
use fathom_quiche_stock::quiche as stock;
use quiche as derived;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::task::JoinHandle;

mod relay;

use fathom_plugin_testing::{self as plugged, Enough};
pub(crate) use fathom_plugin_testing::{
    ALPN, Identity, Outcome, PATIENCE, SideConfig, body, until,
};
pub(crate) use relay::Relay;

/// One certificate for all stacks: `tls` for rustls, and files for BoringSSL.
#[derive(Clone)]
pub(crate) struct Certified {
    pub(crate) tls: Identity,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

pub(crate) fn certified() -> Certified {
    let signed =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("cert.pem"), signed.cert.pem()).expect("written");
    std::fs::write(folder.path().join("key.pem"), signed.signing_key.serialize_pem())
        .expect("written");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .expect("a server");
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(signed.cert.der().clone()).expect("a root");
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_vec()];
    Certified {
        tls: Identity { server: Arc::new(server), client: Arc::new(client) },
        folder: Arc::new(folder),
    }
}

/// Gives a connection of the derived quiche its controller and extension.
fn configure(config: &mut derived::Config, side: &SideConfig) {
    let Some(controller_config) = &side.controller_config else { return };
    config.set_cc_algorithm(
        derived::fathom::algorithm_of(Arc::clone(controller_config)).expect("an algorithm"),
    );
    let SideConfig { extension, observer, .. } = side.clone();
    config.set_fathom(ConnectionConfig {
        extension,
        observer,
        parameter: side.parameter.map(Into::into),
        ..ConnectionConfig::default()
    });
}

fn unplugged(_: &mut stock::Config, side: &SideConfig) {
    assert!(side.controller_config.is_none(), "stock quiche takes no controller of ours");
}

/// Both quiches have the same interface; only their types differ.
macro_rules! ends {
    ($module:ident, $quiche:ident, $configure:path, $probe:expr) => {
        // The tests of the derived quiche do not use its HTTP/3 functions.
        #[allow(dead_code)]
        pub(crate) mod $module {
            use tokio::net::UdpSocket;
            use $quiche::h3::{self, Header, NameValue};
            use $quiche::{Config, Connection, ConnectionId, RecvInfo};

            use super::*;

            fn config(side: &SideConfig, alpn: &[u8]) -> Config {
                let mut config = Config::new($quiche::PROTOCOL_VERSION).expect("a version");
                config.set_application_protos(&[alpn]).expect("an ALPN");
                config.set_max_idle_timeout(PATIENCE.as_millis() as u64);
                // A short initial RTT lets failed handshakes end sooner.
                config.set_initial_rtt(Duration::from_millis(20));
                config.set_initial_max_data(10_000_000);
                config.set_initial_max_stream_data_bidi_local(1_000_000);
                config.set_initial_max_stream_data_bidi_remote(1_000_000);
                config.set_initial_max_stream_data_uni(1_000_000);
                config.set_initial_max_streams_bidi(100);
                config.set_initial_max_streams_uni(100);
                config.set_max_send_udp_payload_size(1_350);
                config.set_initial_congestion_window_packets(10);
                $configure(&mut config, side);
                config
            }

            fn serving(side: &SideConfig, alpn: &[u8], identity: &Path) -> Config {
                let mut config = config(side, alpn);
                let path = |name: &str| identity.join(name).to_string_lossy().into_owned();
                config.load_cert_chain_from_pem_file(&path("cert.pem")).expect("a certificate");
                config.load_priv_key_from_pem_file(&path("key.pem")).expect("a key");
                config
            }

            async fn bind() -> (UdpSocket, SocketAddr) {
                let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
                let address = socket.local_addr().expect("bound");
                (socket, address)
            }

            /// Waits for a client.
            async fn accept(socket: &UdpSocket, config: &mut Config) -> Connection {
                let (_, from) = socket.peek_from(&mut [0; 1_500]).await.expect("a client");
                let local = socket.local_addr().expect("bound");
                let id = ConnectionId::from_ref(&[2; 16]);
                $quiche::accept(&id, None, local, from, config).expect("accepted")
            }

            async fn connect(
                to: SocketAddr,
                config: &mut Config,
                identity: &Path,
            ) -> (Connection, UdpSocket) {
                config
                    .load_verify_locations_from_file(&identity.join("cert.pem").to_string_lossy())
                    .expect("a root");
                config.verify_peer(true);
                let (socket, local) = bind().await;
                let id = ConnectionId::from_ref(&[1; 16]);
                (
                    $quiche::connect(Some("localhost"), &id, local, to, config)
                        .expect("a connection begun"),
                    socket,
                )
            }

            /// Drives the connection to its end; `work` is the application.
            async fn drive(
                connection: &mut Connection,
                socket: &UdpSocket,
                mut work: impl FnMut(&mut Connection),
            ) {
                let local = socket.local_addr().expect("bound");
                let mut buf = vec![0; 65_535];
                while !connection.is_closed() {
                    let closing =
                        connection.local_error().is_some() || connection.peer_error().is_some();
                    if connection.is_established() && !closing {
                        work(connection);
                    }
                    loop {
                        match connection.send(&mut buf) {
                            Ok((bytes, info)) => {
                                socket.send_to(&buf[..bytes], info.to).await.expect("sent");
                            }
                            Err($quiche::Error::Done) => break,
                            // If a close cannot be sent, the application gives up.
                            Err(_) if connection.local_error().is_some() => return,
                            Err(e) => panic!("{e}"),
                        }
                    }
                    let patience = connection.timeout().unwrap_or(Duration::from_secs(1));
                    match tokio::time::timeout(patience, socket.recv_from(&mut buf)).await {
                        Ok(Ok((bytes, from))) => {
                            // An error closes the connection, which then reports it.
                            let _ =
                                connection.recv(&mut buf[..bytes], RecvInfo { from, to: local });
                            while let Ok((bytes, from)) = socket.try_recv_from(&mut buf) {
                                let _ = connection
                                    .recv(&mut buf[..bytes], RecvInfo { from, to: local });
                            }
                        }
                        Ok(Err(e)) => panic!("{e}"),
                        Err(_) => connection.on_timeout(),
                    }
                }
            }

            fn outcome(connection: &Connection, probe: Option<ConnectionMonitor>) -> Outcome {
                let code = |e: &$quiche::ConnectionError, local: bool| {
                    (!e.is_app).then_some((e.error_code, local))
                };
                let error = connection.local_error().and_then(|e| code(e, true));
                let error = error.or(connection.peer_error().and_then(|e| code(e, false)));
                Outcome {
                    reports: probe.map(|p| p.report()).into_iter().collect(),
                    error,
                    datagrams: 0,
                }
            }

            /// Sends the rest of `body` on the stream, with its end.
            fn write(connection: &mut Connection, stream: u64, body: &[u8], sent: &mut usize) {
                while *sent < body.len() {
                    match connection.stream_send(stream, &body[*sent..], true) {
                        Ok(bytes) => *sent += bytes,
                        Err($quiche::Error::Done) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
            }

            /// Reads all available data. Returns whether the stream has ended.
            fn read(connection: &mut Connection, stream: u64, to: &mut Vec<u8>) -> bool {
                let mut buf = [0; 65_535];
                while let Ok((bytes, last)) = connection.stream_recv(stream, &mut buf) {
                    to.extend_from_slice(&buf[..bytes]);
                    if last {
                        return true;
                    }
                }
                false
            }

            /// Accepts one connection and echoes its streams, one after the other.
            pub(crate) async fn serve(
                side: SideConfig,
                identity: &Certified,
            ) -> (SocketAddr, JoinHandle<Outcome>) {
                let (socket, address) = bind().await;
                let mut config = serving(&side, ALPN, identity.folder.path());
                let task = tokio::spawn(async move {
                    let mut connection = accept(&socket, &mut config).await;
                    let probe = $probe(&connection);
                    if let Some(enough) = &side.enough {
                        enough.by(probe.as_ref());
                    }
                    let (mut stream, mut got, mut ended, mut sent) = (0, Vec::new(), false, 0);
                    drive(&mut connection, &socket, |connection| {
                        ended = ended || read(connection, stream, &mut got);
                        if ended {
                            write(connection, stream, &got, &mut sent);
                        }
                        if ended && sent == got.len() {
                            (stream, ended, sent) = (stream + 4, false, 0);
                            got.clear();
                        }
                    })
                    .await;
                    outcome(&connection, probe)
                });
                (address, task)
            }

            /// Connects, sends a body and compares the echo.
            pub(crate) async fn fetch(
                side: SideConfig,
                identity: &Certified,
                to: SocketAddr,
            ) -> Outcome {
                let mut config = config(&side, ALPN);
                let (mut connection, socket) =
                    connect(to, &mut config, identity.folder.path()).await;
                let probe = $probe(&connection);
                if let Some(enough) = &side.enough {
                    enough.by(probe.as_ref());
                }
                let whole = body(side.bytes);
                let (mut stream, mut sent, mut got, mut same) = (0, 0, Vec::new(), false);
                drive(&mut connection, &socket, |connection| {
                    write(connection, stream, &whole, &mut sent);
                    if same || !read(connection, stream, &mut got) {
                        return;
                    }
                    assert!(got == whole, "the body came back changed");
                    if side.enough.as_ref().is_none_or(Enough::is_seen) {
                        same = true;
                        connection.close(true, 0, b"").expect("open");
                    } else {
                        (stream, sent) = (stream + 4, 0);
                        got.clear();
                        write(connection, stream, &whole, &mut sent);
                    }
                })
                .await;
                let outcome = outcome(&connection, probe);
                let (timed_out, stats) = (connection.is_timed_out(), connection.stats());
                assert!(
                    same || outcome.error.is_some(),
                    "no body, no error; timed out: {timed_out}; {stats:?}"
                );
                outcome
            }

            /// Answers one HTTP/3 request with a body.
            pub(crate) async fn serve_http(
                side: SideConfig,
                identity: &Certified,
                body: Vec<u8>,
            ) -> (SocketAddr, JoinHandle<Outcome>) {
                let (socket, address) = bind().await;
                let mut config = serving(&side, b"h3", identity.folder.path());
                let task = tokio::spawn(async move {
                    let mut connection = accept(&socket, &mut config).await;
                    let probe = $probe(&connection);
                    let settings = h3::Config::new().expect("settings");
                    let (mut http, mut stream, mut sent) = (None::<h3::Connection>, None, 0);
                    drive(&mut connection, &socket, |connection| {
                        let http = http.get_or_insert_with(|| {
                            h3::Connection::with_transport(connection, &settings).expect("HTTP/3")
                        });
                        while let Ok((id, event)) = http.poll(connection) {
                            if let h3::Event::Headers { .. } = event {
                                let headers = [Header::new(b":status", b"200")];
                                http.send_response(connection, id, &headers, false)
                                    .expect("a response");
                                stream = Some(id);
                            }
                        }
                        while let Some(id) = stream.filter(|_| sent < body.len()) {
                            match http.send_body(connection, id, &body[sent..], true) {
                                Ok(bytes) => sent += bytes,
                                Err(h3::Error::Done) => break,
                                Err(e) => panic!("{e}"),
                            }
                        }
                    })
                    .await;
                    outcome(&connection, probe)
                });
                (address, task)
            }

            /// Sends one HTTP/3 request. Returns the body of its response, empty if none came, and
            /// the outcome.
            pub(crate) async fn get(
                side: SideConfig,
                identity: &Certified,
                to: SocketAddr,
            ) -> (Vec<u8>, Outcome) {
                let mut config = config(&side, b"h3");
                let (mut connection, socket) =
                    connect(to, &mut config, identity.folder.path()).await;
                let probe = $probe(&connection);
                let settings = h3::Config::new().expect("settings");
                let (mut http, mut body, mut buf) =
                    (None::<h3::Connection>, Vec::new(), vec![0; 65_535]);
                drive(&mut connection, &socket, |connection| {
                    let http = http.get_or_insert_with(|| {
                        let mut http =
                            h3::Connection::with_transport(connection, &settings).expect("HTTP/3");
                        let fields = [
                            (":method", "GET"),
                            (":scheme", "https"),
                            (":authority", "localhost"),
                            (":path", "/"),
                        ];
                        let headers: Vec<_> = fields
                            .iter()
                            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
                            .collect();
                        http.send_request(connection, &headers, true).expect("a request");
                        http
                    });
                    loop {
                        match http.poll(connection) {
                            Ok((_, h3::Event::Headers { list, .. })) => {
                                assert!(
                                    list.iter()
                                        .any(|h| h.name() == b":status" && h.value() == b"200"),
                                    "{list:?}"
                                );
                            }
                            Ok((id, h3::Event::Data)) => {
                                while let Ok(bytes) = http.recv_body(connection, id, &mut buf) {
                                    body.extend_from_slice(&buf[..bytes]);
                                }
                            }
                            Ok((_, h3::Event::Finished)) => {
                                connection.close(true, 0x100, b"").expect("open")
                            }
                            Ok(_) => {}
                            Err(_) => break,
                        }
                    }
                })
                .await;
                (body, outcome(&connection, probe))
            }
        }
    };
}

ends!(on_quiche, derived, super::configure, Connection::fathom);
ends!(on_stock, stock, super::unplugged, |_: &Connection| None);

/// Stack on which a side runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Quinn,
    Noq,
    Quiche,
    Stock,
}

/// Runs one connection. Returns the results of client and server.
pub(crate) async fn run(
    on: (On, On),
    client: SideConfig,
    server: SideConfig,
) -> (Outcome, Outcome) {
    let identity = certified();
    let (to, serving) = match on.1 {
        On::Quinn => plugged::on_quinn::serve(server, &identity.tls),
        On::Noq => plugged::on_noq::serve(server, &identity.tls),
        On::Quiche => on_quiche::serve(server, &identity).await,
        On::Stock => on_stock::serve(server, &identity).await,
    };
    let both = async {
        let client = match on.0 {
            On::Quinn => plugged::on_quinn::fetch(client, identity.tls.clone(), to).await,
            On::Noq => plugged::on_noq::fetch(client, identity.tls.clone(), to).await,
            On::Quiche => on_quiche::fetch(client, &identity, to).await,
            On::Stock => on_stock::fetch(client, &identity, to).await,
        };
        (client, serving.await.expect("the server ended well"))
    };
    bounded(both).await
}

/// Runs one connection as [`run`] does, with a quiche server. Returns the server's result, then
/// aborts the client.
pub(crate) async fn run_server(client: On, asks: SideConfig, server: SideConfig) -> Outcome {
    let identity = certified();
    let (to, serving) = on_quiche::serve(server, &identity).await;
    let tls = identity.tls.clone();
    let fetching = match client {
        On::Quinn => tokio::spawn(plugged::on_quinn::fetch(asks, tls, to)),
        On::Noq => tokio::spawn(plugged::on_noq::fetch(asks, tls, to)),
        On::Quiche => {
            let identity = identity.clone();
            tokio::spawn(async move { on_quiche::fetch(asks, &identity, to).await })
        }
        On::Stock => panic!("stock quiche has no parameter of ours"),
    };
    let outcome = bounded(serving).await.expect("the server ended well");
    fetching.abort();
    outcome
}

/// Runs `work` with a time limit.
pub(crate) async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("done in time")
}

/// Returns the extension in this mode.
pub(crate) fn extension(offer: Option<fathom_plugin::Offer>) -> Extension {
    Extension { offer, ..Extension::OFF }
}
