//! Tests that packets have the controller's size over real sockets, between all stacks, and between
//! endpoints with a plug-in and stock endpoints.

use std::sync::Arc;
use std::time::Duration;

use common::recording_socket::Sizes;
use common::{EVERY, On, SideConfig, run};
use fathom_cc::testing::Fixed;
use fathom_cc::{Capabilities, ControllerConfig, Pacing, SendParams};
use fathom_plugin::{Extension, Offer};
use fathom_plugin_testing as common;

const LEAN: Extension = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
const SHRINKING: &str = "packet-size:packets=64,patience=1";

/// Returns a controller with a window of 60 kB that sets packets to this size.
fn sized(size: u16) -> Fixed {
    let required = Capabilities { datagram: true, ..Capabilities::NONE };
    let params = SendParams { datagram: Some(size), ..SendParams::window(60_000) };
    Fixed { required, ..Fixed::new(params) }
}

/// Returns a controller with a window of 60 kB that delays packets by this time.
fn delayed(by: Duration) -> Fixed {
    let required = Capabilities { pacing: true, ..Capabilities::NONE };
    let params = SendParams { pacing: Pacing::Delay(by), ..SendParams::window(60_000) };
    Fixed { required, ..Fixed::new(params) }
}

fn through(controller_config: Arc<dyn ControllerConfig>) -> (SideConfig, Sizes) {
    let sizes = Sizes::default();
    let shaping_socket = Some(sizes.clone());
    (
        SideConfig {
            controller_config: Some(controller_config),
            extension: LEAN,
            shaping_socket,
            discovery: false,
            bytes: 300_000,
            ..SideConfig::stock()
        },
        sizes,
    )
}

fn shrinking() -> (SideConfig, Sizes) {
    through(fathom_cc::catalogue::parse(SHRINKING).expect("a controller"))
}

fn fixed(size: u16) -> (SideConfig, Sizes) {
    through(Arc::new(sized(size)))
}

/// Returns the successive sizes of full packets: each size seen at least four times in a row.
fn steps(sizes: &[usize]) -> Vec<usize> {
    let mut steps: Vec<usize> =
        sizes.chunk_by(|a, b| a == b).filter(|run| run.len() >= 4).map(|run| run[0]).collect();
    steps.dedup();
    steps.retain(|size| *size >= 200);
    steps
}

/// Checks that packets shrink below 1200 bytes and grow again, through sizes that the controller
/// set.
fn shrank_and_grew(sizes: &Sizes) {
    let steps = steps(&sizes.one_rtt());
    // Receive buffers sometimes overflow. An ACK frame with many gaps then takes room that the
    // smallest packets do not have.
    let requested =
        |size: &usize| [250, 500, 750, 1_000, 1_200].contains(size) || (250..400).contains(size);
    assert!(steps.iter().all(requested), "{steps:?}");
    let least = steps.iter().position(|size| Some(size) == steps.iter().min()).expect("some");
    assert!(
        steps[least] <= 500 && steps[least + 1..].iter().any(|size| *size > steps[least]),
        "{steps:?}"
    );
}

#[tokio::test]
async fn packets_shrink_and_grow_back_on_every_pair_of_stacks() {
    for on in EVERY {
        let ((client, up), (server, down)) = (shrinking(), shrinking());
        let (client, server) = run(on, client, server).await;
        shrank_and_grew(&up);
        shrank_and_grew(&down);
        assert!(client.report().one_way.is_some() && server.report().one_way.is_some(), "{on:?}");
    }
}

#[tokio::test]
async fn stock_peers_receive_ordinary_packets() {
    for on in EVERY {
        let stock = || SideConfig { bytes: 300_000, ..SideConfig::stock() };
        let (client, up) = shrinking();
        run(on, client, stock()).await;
        let (server, down) = shrinking();
        run(on, stock(), server).await;
        shrank_and_grew(&up);
        shrank_and_grew(&down);
    }
}

#[tokio::test]
async fn key_updates_work_while_packets_are_trimmed() {
    for on in EVERY {
        let ((client, up), (server, _)) = (fixed(400), fixed(600));
        let side =
            |side: SideConfig| SideConfig { rounds: 4, key_updates: true, bytes: 60_000, ..side };
        run(on, side(client), side(server)).await;
        let sizes = up.one_rtt();
        // Before the first acknowledgement, at most one window of packets leaves untrimmed.
        assert!(sizes.iter().filter(|size| **size > 400).count() <= 60, "{on:?} {sizes:?}");
        assert!(sizes.iter().filter(|size| **size == 400).count() > 400, "{on:?} {sizes:?}");
    }
}

#[tokio::test]
async fn mtu_discovery_does_not_disturb_trimming() {
    for on in EVERY {
        let (client, up) = fixed(600);
        let (server, _) = fixed(600);
        let side = |side: SideConfig| SideConfig { discovery: true, ..side };
        run(on, side(client), side(server)).await;
        let sizes = up.one_rtt();
        assert!(sizes.iter().filter(|size| **size == 600).count() > 200, "{on:?} {sizes:?}");
        assert!(
            sizes.iter().any(|size| *size > 1_200),
            "an MTU probe kept its size: {on:?} {sizes:?}"
        );
    }
}

/// Loss probes are built in datagrams of 1200 bytes, whatever the path's MTU and the controller's
/// size.
#[tokio::test]
async fn connections_survive_an_outage_while_packets_are_small() {
    for on in EVERY {
        let ((client, up), (server, down)) = (fixed(250), fixed(250));
        let side = |side: SideConfig| SideConfig { mtu: 1_452, bytes: 2_000_000, ..side };
        let outage = async {
            while up.count() < 400 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            up.black_out(true);
            down.black_out(true);
            tokio::time::sleep(Duration::from_millis(400)).await;
            up.black_out(false);
            down.black_out(false);
        };
        tokio::join!(run(on, side(client), side(server)), outage);
        let least = *steps(&up.one_rtt()).iter().min().expect("packets");
        // 1452 less 1200, plus 41 + 8 + 64 bytes of room, plus an ACK frame of at least 56 bytes.
        assert!((421..440).contains(&least), "{on:?} {least}");
    }
}

#[tokio::test]
async fn endpoint_without_a_shaping_socket_runs_unshaped() {
    for on in EVERY {
        let (client, through) = fixed(400);
        let unwired = SideConfig { unwired: true, ..client };
        run(on, unwired, SideConfig { bytes: 300_000, ..SideConfig::stock() }).await;
        assert_eq!(through.count(), 0, "{on:?}");
    }
}

#[tokio::test]
async fn application_datagrams_arrive_despite_send_delays() {
    for on in EVERY {
        let side = || {
            let (side, _) = through(Arc::new(delayed(Duration::from_millis(2))));
            SideConfig { datagrams: 300, extension: Extension { datagrams: true, ..LEAN }, ..side }
        };
        let (client, server) = run(on, side(), side()).await;
        for outcome in [client, server] {
            assert!(outcome.datagrams > 200, "{on:?} {} arrived", outcome.datagrams);
        }
    }
}

#[tokio::test]
async fn packets_on_both_paths_are_trimmed() {
    let identity = common::identity();
    let ((client, up), (server, _)) = (fixed(500), fixed(500));
    let side = |side: SideConfig| SideConfig { paths: 4, rounds: 2, ..side };
    let (to, serving) = common::on_noq::serve(side(server), &identity);
    let talk = async {
        let (endpoint, connection, _monitor) =
            common::on_noq::connect(&side(client), &identity, to).await.expect("a connection");
        let first = connection.path(noq::PathId::ZERO).expect("path 0");
        let sent = common::body(300_000);
        let mut before = 0;
        for round in 0..2 {
            let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
            let write = async {
                send.write_all(&sent).await.expect("written");
                send.finish().expect("open");
            };
            let (got, ()) = tokio::join!(recv.read_to_end(sent.len()), write);
            assert!(got.expect("read") == sent);
            if round == 0 {
                before = up.one_rtt().len();
                let other = std::net::SocketAddr::from(([127, 0, 0, 2], to.port()));
                connection
                    .open_path(other, noq::PathStatus::Available)
                    .await
                    .expect("a second path");
                first.set_status(noq::PathStatus::Backup).expect("a status");
            }
        }
        let second = up.one_rtt().split_off(before);
        assert!(second.iter().filter(|size| **size == 500).count() > 400, "{second:?}");
        // Path challenges and their responses keep their size.
        assert!(
            (1..100).contains(&second.iter().filter(|size| **size > 500).count()),
            "{second:?}"
        );
        connection.close(0u32.into(), b"");
        endpoint.wait_idle().await;
    };
    let both = async { (talk.await, serving.await) };
    tokio::time::timeout(common::PATIENCE, both).await.expect("done in time").1.expect("served");
}

/// A client moves while packets are trimmed. It moves first to a socket of the same registry and
/// then to a socket without shaping. On a busy machine, a quinn client that moves away from a noq
/// server sometimes loses the server: only the server's path challenges arrive until the client
/// gives up. A timeout with a noq server is therefore retried; any other error fails the test.
macro_rules! moving {
    ($test:ident, $module:ident, $stack:ident) => {
        #[tokio::test]
        async fn $test() {
            use common::$module::{bind, shaping_endpoint, socket, with_registry};
            let mut done = None;
            for on in [On::Quinn, On::Noq].into_iter().flat_map(|on| [on; 8]) {
                if done == Some(on) {
                    continue;
                }
                let identity = common::identity();
                let (server, down) = fixed(500);
                let server = SideConfig { rounds: 3, ..server };
                let (to, serving) = match on {
                    On::Quinn => common::on_quinn::serve(server, &identity),
                    On::Noq => common::on_noq::serve(server, &identity),
                };
                let any = "0.0.0.0:0".parse().expect("an address");
                let sizes = [Sizes::default(), Sizes::default(), Sizes::default()];
                let talk = async {
                    let shaping_socket = bind(any, &sizes[0]);
                    let registry = Arc::clone(shaping_socket.registry());
                    let controller_config = Arc::new(sized(500));
                    let plugin = common::$module::shaping_plugin(&registry, controller_config)
                        .client(Arc::clone(&identity.client))
                        .expect("a client");
                    let endpoint = shaping_endpoint(None, shaping_socket.socket());
                    let mut transport = $stack::TransportConfig::default();
                    transport.mtu_discovery_config(None);
                    transport.max_idle_timeout(Some(
                        Duration::from_secs(10).try_into().expect("a timeout"),
                    ));
                    let (connecting, _monitor) =
                        plugin.connect(&endpoint, transport, to, "localhost").expect("begun");
                    let connection = connecting.await.expect("a handshake");
                    let sent = common::body(300_000);
                    for round in 0..3 {
                        match round {
                            0 => {}
                            1 => endpoint
                                .rebind_abstract(with_registry(&registry, any, &sizes[1]).socket())
                                .expect("moved"),
                            _ => endpoint.rebind_abstract(socket(any, &sizes[2])).expect("moved"),
                        }
                        let before = down.one_rtt().len();
                        let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
                        let write = async {
                            // If data cannot be written, the check of the echo below fails.
                            let _ = send.write_all(&sent).await;
                            let _ = send.finish();
                        };
                        let (got, ()) = tokio::join!(recv.read_to_end(sent.len()), write);
                        let silent =
                            $stack::ReadError::ConnectionLost($stack::ConnectionError::TimedOut);
                        match got {
                            Ok(got) => assert!(got == sent, "{on:?}"),
                            Err($stack::ReadToEndError::Read(e))
                                if e == silent && on == On::Noq =>
                            {
                                return false;
                            }
                            Err(e) => panic!("{on:?}, round {round}: {e}"),
                        }
                        let from_server = down.one_rtt().split_off(before);
                        if round > 0 {
                            // RFC 9000 §8.2.1: path challenges fill 1200 bytes.
                            assert!(
                                from_server.contains(&1_200),
                                "{on:?} {round}: {from_server:?}"
                            );
                        }
                        let small = from_server.iter().filter(|size| **size <= 500).count();
                        assert!(
                            small * 10 > from_server.len() * 8,
                            "{on:?} {round}: {from_server:?}"
                        );
                    }
                    connection.close(0u32.into(), b"");
                    endpoint.wait_idle().await;
                    true
                };
                let abort = serving.abort_handle();
                let both = async {
                    let whole = talk.await;
                    if !whole {
                        abort.abort();
                    }
                    (whole, serving.await)
                };
                let whole =
                    tokio::time::timeout(common::PATIENCE, both).await.expect("done in time");
                let (whole, served) = whole;
                if !whole {
                    continue;
                }
                served.expect("served");
                done = Some(on);
                let full = |sizes: &Sizes, size| {
                    sizes.one_rtt().iter().filter(|len| **len == size).count()
                };
                assert!(full(&sizes[1], 500) > 400, "{on:?} {:?}", sizes[1].one_rtt());
                assert!(full(&sizes[1], 1_200) >= 1, "{on:?}: the answer to a challenge");
                assert!(full(&sizes[2], 1_200) > 200, "{on:?} {:?}", sizes[2].one_rtt());
            }
            assert_eq!(done, Some(On::Noq), "lost each time");
        }
    };
}

moving!(quinn_client_moves_while_packets_are_trimmed, on_quinn, quinn);
moving!(noq_client_moves_while_packets_are_trimmed, on_noq, noq);
