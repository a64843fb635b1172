//! Tests of connections that share a configuration, on the stack that the parent module selects.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use fathom_plugin::{Clock, InUse, PluginError, Report, TrailerRegistry};

use super::plugin::{Plugin, monitor};
use super::stack::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use super::stack::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use fathom_plugin_testing::{Identity, PATIENCE, identity};

const CONNECTIONS: usize = 8;
/// Bytes of the first connection. The others echo twice as much, three times as much and so on, so
/// that they can be told apart.
const BYTES: usize = 100_000;
/// Maximum number of ACK frames before the first 1-RTT packet, which the plug-in does not count.
const HANDSHAKE_ACKS: u64 = 10;

/// Returns the monitor's report, after checking that it belongs to this connection.
fn report(connection: &Connection) -> Report {
    let report = monitor(connection).expect("a controller of ours").report();
    let acks = connection.stats().frame_rx.acks;
    // Without a session, nothing is read.
    if report.acks > 0 {
        assert!(
            report.acks <= acks && acks <= report.acks + HANDSHAKE_ACKS,
            "{acks} ACK frames: {report:?}"
        );
    }
    report
}

/// Accepts connections as any program of the stack does, and echoes every stream. Returns the
/// report of each connection when its client has left.
async fn serve(endpoint: Endpoint) -> Vec<Report> {
    let mut connections = tokio::task::JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        connections.spawn(async move {
            let connection = incoming.await.expect("a handshake");
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let got = recv.read_to_end(CONNECTIONS * BYTES).await.expect("read");
                send.write_all(&got).await.expect("written");
                send.finish().expect("open");
            }
            report(&connection)
        });
        if connections.len() == CONNECTIONS {
            break;
        }
    }
    connections.join_all().await
}

async fn echo(connection: &Connection, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    let write = async {
        send.write_all(&sent).await.expect("written");
        send.finish().expect("open");
    };
    let (got, ()) = tokio::join!(recv.read_to_end(bytes), write);
    assert!(got.expect("read") == sent, "the body came back changed");
}

/// Runs all connections at once. Each echoes, moves to another address if `moves` is true, and
/// echoes again.
async fn exchange(
    server: ServerConfig,
    client: ClientConfig,
    moves: bool,
) -> (Vec<Report>, Vec<Report>) {
    let endpoint =
        Endpoint::server(server, "127.0.0.1:0".parse().expect("an address")).expect("an endpoint");
    let to: SocketAddr = endpoint.local_addr().expect("bound");
    let serving = tokio::spawn(serve(endpoint));
    let mut clients = tokio::task::JoinSet::new();
    for i in 1..=CONNECTIONS {
        let client = client.clone();
        clients.spawn(async move {
            let endpoint =
                Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a client");
            let connection = endpoint
                .connect_with(client, to, "localhost")
                .expect("begun")
                .await
                .expect("a handshake");
            echo(&connection, i * BYTES).await;
            if moves {
                endpoint.rebind(UdpSocket::bind("127.0.0.2:0").expect("a socket")).expect("moved");
                echo(&connection, i * BYTES).await;
            }
            let report = report(&connection);
            connection.close(0u32.into(), b"");
            endpoint.wait_idle().await;
            report
        });
    }
    let run = async { (clients.join_all().await, serving.await.expect("the server ended well")) };
    tokio::time::timeout(PATIENCE, run).await.expect("done in time")
}

/// Runs [`exchange`] with a move. On a busy machine, a noq server sometimes loses a client that moves:
/// only the server's path challenges arrive until the client gives up. With noq a timeout is therefore
/// retried, as in `shaping_socket.rs`; any other error fails the test.
async fn exchange_and_move(
    server: ServerConfig,
    client: ClientConfig,
) -> (Vec<Report>, Vec<Report>) {
    let tries = if module_path!().contains("on_noq") { 8 } else { 1 };
    for _ in 0..tries {
        match tokio::spawn(exchange(server.clone(), client.clone(), true)).await {
            Ok(reports) => return reports,
            Err(e) => {
                let why = e.into_panic();
                let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
                // The client gives up, or the time limit of this test expires first.
                assert!(why.contains("TimedOut") || why.contains("Elapsed"), "{why}");
            }
        }
    }
    panic!("a connection timed out in each of {tries} tries");
}

fn configs(spec: &str, Identity { server, client }: Identity) -> (ServerConfig, ClientConfig) {
    let plugin = Plugin::named(spec).expect("a plug-in");
    (
        plugin.server(server).expect("a server").config(),
        plugin.client(client).expect("a client").shared_config(TransportConfig::default()),
    )
}

fn assert_each_has_its_own_delays(reports: Vec<Report>) {
    assert_eq!(reports.len(), CONNECTIONS);
    for report in reports {
        assert!(report.negotiated && report.in_use == InUse::Sync, "{report:?}");
        assert!(report.samples.samples > 0 && report.one_way.is_some(), "{report:?}");
        assert!(report.controller.is_some_and(|c| c.window > 0), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_of_one_config_have_separate_delays() {
    let (server, client) = configs("sync", identity());
    let (clients, servers) = exchange(server, client, false).await;
    assert_each_has_its_own_delays(clients);
    assert_each_has_its_own_delays(servers);
}

/// After a move to another address, the stack builds a new controller without saying to which
/// connection it belongs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn migrated_connection_keeps_its_own_delays() {
    let (server, client) = configs("sync", identity());
    let (clients, servers) = exchange_and_move(server, client).await;
    assert_each_has_its_own_delays(clients);
    assert_each_has_its_own_delays(servers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn users_transport_config_accepts_the_controller_factory() {
    let Identity { server, client } = identity();
    let plugin = Plugin::named("sync").expect("a plug-in");
    let client = plugin.client(client).expect("a client").shared_config(TransportConfig::default());
    let server = plugin.server(server).expect("a server");
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(0u32.into())
        .congestion_controller_factory(server.controller_factory());
    let mut config = server.config();
    config.transport_config(Arc::new(transport));
    let (clients, servers) = exchange(config, client, false).await;
    assert_each_has_its_own_delays(clients);
    assert_each_has_its_own_delays(servers);
}

/// Without a session of ours: the stack's own TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn controllers_without_a_plugin_session_use_rtts() {
    let Identity { server, client } = identity();
    let transport = || {
        let mut transport = TransportConfig::default();
        let vegas = Plugin::named("vegas").expect("a plug-in");
        transport.congestion_controller_factory(
            vegas.controller_factory().expect("round trips suffice"),
        );
        Arc::new(transport)
    };
    let mut server =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).expect("a server")));
    server.transport_config(transport());
    let mut client =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).expect("a client")));
    client.transport_config(transport());
    let (clients, servers) = exchange_and_move(server, client).await;
    for report in clients.into_iter().chain(servers) {
        assert!(!report.negotiated && report.stamps_sent == 0, "{report:?}");
        assert!(report.controller.is_some_and(|c| c.window > 0), "{report:?}");
    }
}

#[test]
fn controller_that_needs_one_way_delay_needs_a_session() {
    let sync = Plugin::named("sync").expect("a plug-in");
    let error = sync.controller_factory().map(drop).expect_err("no one-way delay");
    assert!(matches!(error, PluginError::NeedsSession("sync")), "{error}");
    assert!(error.to_string().contains("Plugin::server"), "{error}");
    Plugin::named("sync:signal=either")
        .expect("a plug-in")
        .controller_factory()
        .expect("round trips will do");
}

/// A shaping socket reads the trailers that our keys write.
#[test]
fn controller_that_needs_a_shaping_socket_needs_a_session() {
    let registry = Arc::new(TrailerRegistry::new(fathom_plugin::SystemClock.now()));
    let size = Plugin::named_with_shaping(&registry, "packet-size").expect("a plug-in");
    let error = size.controller_factory().map(drop).expect_err("nothing sets the packet size");
    assert!(matches!(error, PluginError::Missing { .. }), "{error}");
}
