//! Tests of the derived quiche over real sockets on loopback: under tokio-quiche, against stock
//! quiche, quinn and noq.

mod common;
#[path = "../examples/h3.rs"]
#[allow(dead_code)]
mod h3_both;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{
    On, PATIENCE, Relay, SideConfig, bounded, certified, extension, on_stock, run, run_server,
    until,
};
use fathom_cc::testing::Fixed;
use fathom_cc::{Capabilities, ControllerConfig, Pacing, Rate, SendParams};
use fathom_plugin::{EnableTimestamp, Extension, InUse, Offer, ReceiveTimestamps, Report};
use h3_both::contents;
use tokio::net::UdpSocket;
use tokio_quiche::settings::QuicSettings;

/// Transport error codes (RFC 9000 §20.1).
const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
const FRAME_ENCODING_ERROR: u64 = 0x07;

fn named(name: &str) -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.cc_algorithm = name.into();
    settings.max_idle_timeout = Some(PATIENCE);
    settings
}

fn gets_delays(report: &Report) -> bool {
    report.negotiated
        && report.stamps_sent > 5
        && report.stamps_received > 5
        && report.samples.samples > 5
        && report.one_way.is_some()
        && report.controller.is_some_and(|c| c.window > 0)
}

/// Delay that a relay adds to the server's datagrams, and which 1-RTT datagrams pass.
type Path = (Duration, fn(usize) -> bool);

/// Runs a tokio-quiche server and its client, optionally with a relay between them. Returns the
/// reports of both monitors at the end.
async fn tokio_quiche(
    server: &str,
    client: &str,
    bytes: usize,
    relay: Option<Path>,
) -> (Report, Report, Option<Relay>) {
    let identity = certified();
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let mut to = socket.local_addr().expect("bound");
    let folder = identity.folder.path().to_owned();
    let serving = tokio::spawn(h3_both::serve(socket, named(server), folder, bytes));
    let mut relayed = None;
    if let Some((delay, passes)) = relay {
        relayed = Some(Relay::to(to, delay, passes).await);
        to = relayed.as_ref().map_or(to, |r| r.address);
    }
    let (body, client) = bounded(h3_both::get(to, named(client))).await.expect("a response");
    assert!(body == contents(bytes), "the response came changed");
    let server = bounded(serving).await.expect("no panic").expect("served");
    (client.expect("a probe"), server.expect("a probe"), relayed)
}

#[tokio::test]
async fn tokio_quiche_accepts_sync_by_name() {
    for name in ["sync", "sync:signal=either"] {
        let began = now();
        let (client, server, _) = tokio_quiche(name, name, 3_000_000, None).await;
        let lasted = now().duration_since(began);
        // The client sends little more than a request, so the server acknowledges few packets.
        assert!(
            server.negotiated && server.stamps_sent > 0 && server.stamps_received > 5,
            "{name}: {server:?}"
        );
        assert!(
            client.negotiated && client.stamps_sent > 5 && client.stamps_received > 0,
            "{name}: {client:?}"
        );
        assert!(
            server.samples.samples > 5 && client.samples.samples > 0,
            "{name}: {server:?} {client:?}"
        );
        // Each clock starts with its connection, so the two delays are off by the same amount in
        // opposite directions. Their sum is the time of a packet there and one back.
        let nanos = [client, server].map(|r| r.one_way.map_or(0, |d| d.as_nanos()));
        let both_ways = nanos[0] + nanos[1];
        let longest = 2 * i64::try_from(lasted.as_nanos()).expect("seconds");
        assert!((-5_000_000..longest).contains(&both_ways), "{name}: {nanos:?} in {lasted:?}");
        let queueing = server.controller.and_then(|c| c.queueing).expect("sync has one");
        assert!(queueing < lasted, "{name}: {queueing:?} in {lasted:?}");
    }
}

#[tokio::test]
async fn stock_client_gets_its_response_and_no_extension_frame() {
    let identity = certified();
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let to = socket.local_addr().expect("bound");
    let folder = identity.folder.path().to_owned();
    let serving =
        tokio::spawn(h3_both::serve(socket, named("sync:signal=either"), folder, 2_000_000));
    let (body, client) = bounded(on_stock::get(SideConfig::stock(), &identity, to)).await;
    assert!(body == contents(2_000_000));
    assert_eq!(client.error, None);
    let report = bounded(serving).await.expect("no panic").expect("served").expect("a probe");
    assert!(
        !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
        "{report:?}"
    );
    assert!(report.controller.is_some_and(|c| c.window > 0), "on the RTT: {report:?}");
}

#[tokio::test]
async fn stock_server_serves_a_client_with_a_fathom_controller() {
    let identity = certified();
    let (to, serving) =
        on_stock::serve_http(SideConfig::stock(), &identity, contents(2_000_000)).await;
    let (body, report) =
        bounded(h3_both::get(to, named("sync:signal=either"))).await.expect("a response");
    assert!(body == contents(2_000_000));
    let report = report.expect("a probe");
    assert!(
        !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
        "{report:?}"
    );
    assert_eq!(bounded(serving).await.expect("no panic").error, None);
}

/// On quinn and noq, `sync` refuses such a peer. Here the controller is one setting of a server
/// that must answer everybody.
#[tokio::test]
async fn sync_serves_a_stock_client_like_reno() {
    let plugged = || SideConfig::with_plugin("sync", extension(Some(Offer::Lean)));
    let (client, server) = run((On::Stock, On::Quiche), SideConfig::stock(), plugged()).await;
    assert_eq!((client.error, server.error), (None, None));
    let (other, stock) = run((On::Quiche, On::Stock), plugged(), SideConfig::stock()).await;
    assert_eq!((other.error, stock.error), (None, None));
    for report in [server.report(), other.report()] {
        assert!(!report.negotiated && report.one_way.is_none(), "{report:?}");
        assert!(
            report.controller.is_some_and(|c| c.window > 0 && c.early_reductions == 0),
            "{report:?}"
        );
    }
}

#[tokio::test]
async fn all_pairs_of_three_stacks_exchange_one_way_delays() {
    let stacks = [On::Quinn, On::Noq, On::Quiche];
    for client in stacks {
        for server in stacks {
            for (up, down) in [
                (Offer::Lean, Offer::Lean),
                (Offer::Paper, Offer::Paper),
                (Offer::Lean, Offer::Paper),
            ] {
                let ask =
                    |offer| SideConfig::with_plugin("sync:signal=either", extension(Some(offer)));
                let (asks, answers) = until(ask(up), ask(down), [gets_delays; 2]);
                let (one, other) = run((client, server), asks, answers).await;
                for outcome in [one, other] {
                    assert!(
                        gets_delays(&outcome.report()),
                        "{client:?} {server:?} {up:?} {down:?}: {outcome:?}"
                    );
                    assert_eq!(outcome.error, None);
                }
            }
        }
    }
}

#[tokio::test]
async fn peers_without_a_plugin_get_no_extension_frame() {
    let plugged = || SideConfig::with_plugin("sync:signal=either", extension(Some(Offer::Paper)));
    for other in [On::Quinn, On::Noq, On::Stock, On::Quiche] {
        let (client, _) = run((On::Quiche, other), plugged(), SideConfig::stock()).await;
        let (_, server) = run((other, On::Quiche), SideConfig::stock(), plugged()).await;
        for report in [client.report(), server.report()] {
            assert!(
                !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
                "{other:?} {report:?}"
            );
            assert!(report.controller.is_some(), "our controller ran: {other:?} {report:?}");
        }
    }
}

/// Returns the successive sizes of full packets: sizes seen at least four times in a row.
fn steps(relay: &Relay) -> Vec<usize> {
    let sizes: Vec<usize> = relay.one_rtt().iter().map(|d| d.bytes).collect();
    let mut steps: Vec<usize> =
        sizes.chunk_by(|a, b| a == b).filter(|run| run.len() >= 4).map(|run| run[0]).collect();
    steps.dedup();
    steps.retain(|size| *size >= 200);
    steps
}

/// At first, the window holds fewer than 64 datagrams, so the smallest size comes first. Then the
/// size grows to that of the path, 1350 bytes.
#[tokio::test]
async fn datagrams_have_the_size_the_controller_requests() {
    let spec = "packet-size:packets=64,patience=1";
    let (_, server, relay) =
        tokio_quiche(spec, "fathom:reno", 2_000_000, Some((Duration::from_millis(2), |_| true)))
            .await;
    let steps = steps(&relay.expect("a relay"));
    let sizes = [250, 500, 750, 1_000];
    assert_eq!(steps.first(), Some(&250), "{steps:?}");
    let firsts = sizes.map(|size| steps.iter().position(|s| *s == size));
    assert!(firsts.is_sorted() && firsts.iter().all(Option::is_some), "{steps:?}");
    // While the size grows, it is always one of these. Later, losses under load shrink packets
    // again. On a busy machine, the application's writes may also end in short packets of the same
    // size, several times in a row.
    let mut up = steps.iter().take_while(|size| **size < 1_200);
    assert!(up.all(|size| sizes.contains(size)), "{steps:?}");
    assert!(steps.iter().all(|size| *size <= 1_350), "{steps:?}");
    let size = server.controller.and_then(|c| c.datagram).expect("a size");
    assert!(sizes.contains(&size.into()) || size >= 1_200, "{size}");
}

/// Returns the median gap between two datagrams of the server after the first losses have made
/// windows small, and the number of reductions.
async fn usual_gap(spec: &str) -> (Duration, u64) {
    // Every 14th datagram is lost at first, and later no datagram is lost.
    let path: Path = (Duration::from_millis(20), |n| n > 150 || n % 14 != 0);
    let (_, server, relay) = tokio_quiche(spec, "fathom:reno", 1_000_000, Some(path)).await;
    let seen = relay.expect("a relay").one_rtt();
    let mut gaps: Vec<Duration> =
        seen[70..150].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    gaps.sort();
    (gaps[gaps.len() / 2], server.controller.map_or(0, |c| c.reductions))
}

/// The window is eight packets per round trip of at least 20 ms. SDC sends them one by one, at
/// least 2.5 ms apart; a sender with only a window sends them in bursts. On a busy machine both
/// senders send late, so the test repeats until the machine is less busy. Without pacing, the test
/// would never pass, because both senders would behave alike.
#[tokio::test]
async fn sdc_on_quiche_sends_at_its_pacing_rate() {
    let began = now();
    loop {
        let (sdc, reno) = (usual_gap("sdc").await, usual_gap("fathom:reno").await);
        let apart = sdc.0 > Duration::from_micros(1_500) && reno.0 < Duration::from_micros(500);
        if apart && sdc.1 > 3 && reno.1 > 3 {
            return;
        }
        assert!(
            now().duration_since(began) < PATIENCE,
            "gap and losses: {sdc:?} for SDC, {reno:?} for Reno"
        );
    }
}

/// Returns a controller with this window and this pacing, which it requires of the stack.
fn pacing(window: u64, pacing: Pacing) -> Fixed {
    let required = Capabilities { pacing: true, ..Capabilities::NONE };
    let params = SendParams { pacing, ..SendParams::window(window) };
    Fixed { name: "paced", required, ..Fixed::new(params) }
}

/// Returns the time that two quiche endpoints take to send 300 kB in both directions with this
/// pacing of the client.
async fn paced(window: u64, pace: Pacing) -> Duration {
    let controller_config: Arc<dyn ControllerConfig> = Arc::new(pacing(window, pace));
    let ask = SideConfig { bytes: 300_000, ..SideConfig::stock() };
    let client = SideConfig { controller_config: Some(controller_config), ..ask.clone() };
    let began = now();
    run((On::Quiche, On::Quiche), client, ask).await;
    now().duration_since(began)
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn quiche_respects_a_pacing_rate_and_a_send_delay() {
    // 300 kB at 600 kB/s take 0.5 s, minus the time for a burst. The client then waits for three
    // probe timeouts before it ends.
    let rate = paced(1_000_000, Pacing::Rate(Rate::from_bytes_per_sec(600_000))).await;
    assert!(rate >= Duration::from_millis(450), "{rate:?}");
    // At 60 kB every 100 ms plus a short round trip on loopback, 300 kB take as long as in the
    // first transfer.
    let hold = paced(60_000, Pacing::Delay(Duration::from_millis(100))).await;
    assert!(hold >= Duration::from_millis(350), "{hold:?}");
    // Pacing is the reason for the duration: without pacing, the transfer is faster unless the
    // machine is always busy.
    let began = now();
    while paced(1_000_000, Pacing::Delay(Duration::ZERO)).await >= Duration::from_millis(350) {
        assert!(now().duration_since(began) < PATIENCE, "as slow without a pace");
    }
}

#[tokio::test]
async fn stacks_exchange_timestamp_frames() {
    let timestamp = Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF };
    for on in [
        (On::Quiche, On::Quiche),
        (On::Quinn, On::Quiche),
        (On::Quiche, On::Quinn),
        (On::Noq, On::Quiche),
    ] {
        for (client, server) in
            [(timestamp, Extension::default()), (Extension::default(), timestamp)]
        {
            let ask = |extension| SideConfig::with_plugin("sync", extension);
            let (client, server) = until(ask(client), ask(server), [gets_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(
                    gets_delays(&report) && report.in_use == InUse::Timestamp,
                    "{on:?} {report:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn stacks_exchange_receive_timestamps() {
    let receive = |max_per_ack, exponent| Extension {
        receive_timestamps: Some(ReceiveTimestamps { max_per_ack, exponent }),
        ..Extension::OFF
    };
    for on in [
        (On::Quiche, On::Quiche),
        (On::Quinn, On::Quiche),
        (On::Quiche, On::Quinn),
        (On::Noq, On::Quiche),
        (On::Quiche, On::Noq),
    ] {
        for (client, server) in [(receive(1, 3), receive(1, 3)), (receive(32, 0), receive(5, 6))] {
            let ask = |extension| SideConfig::with_plugin("sync", extension);
            let (client, server) = until(ask(client), ask(server), [gets_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(
                    gets_delays(&report) && report.in_use == InUse::Receive,
                    "{on:?} {report:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn malformed_parameter_is_a_transport_parameter_error() {
    // The parameters have the value 4 (echoes without stamps), have a second byte after the value,
    // or occur twice.
    const BAD: [&[u8]; 3] = [
        &[0xbd, 0xcf, 0x82, 0xec, 0x01, 0x04],
        &[0xbd, 0xcf, 0x82, 0xec, 0x02, 0x03, 0x00],
        &[0xbd, 0xcf, 0x82, 0xec, 0x01, 0x03, 0xbd, 0xcf, 0x82, 0xec, 0x01, 0x03],
    ];
    let honest = || SideConfig::with_plugin("reno", extension(Some(Offer::Lean)));
    for bytes in BAD {
        let liar = || SideConfig { parameter: Some(bytes), ..honest() };
        for other in [On::Quinn, On::Noq, On::Quiche] {
            let (client, server) = run((On::Quiche, other), honest(), liar()).await;
            assert_eq!(
                client.error,
                Some((TRANSPORT_PARAMETER_ERROR, true)),
                "{other:?} {bytes:x?}"
            );
            assert_eq!(
                server.error,
                Some((TRANSPORT_PARAMETER_ERROR, false)),
                "{other:?} {bytes:x?}"
            );
        }
        // A quiche server ends the connection, but its client does not learn of it, because stock
        // has no packet for such an early close.
        for other in [On::Quinn, On::Noq, On::Quiche] {
            let server = run_server(other, liar(), honest()).await;
            assert_eq!(
                server.error,
                Some((TRANSPORT_PARAMETER_ERROR, true)),
                "{other:?} {bytes:x?}"
            );
        }
    }
}

#[tokio::test]
async fn frame_that_was_not_negotiated_closes_with_a_frame_error() {
    // One side announces that it reads timestamp frames, but does not support them.
    const LEAN: &[u8] = &[0xbd, 0xcf, 0x82, 0xec, 0x01, 0x03];
    let sends = || SideConfig::with_plugin("reno", extension(Some(Offer::Paper)));
    let deaf =
        || SideConfig { parameter: Some(LEAN), ..SideConfig::with_plugin("reno", extension(None)) };
    let (client, server) = run((On::Quiche, On::Quiche), sends(), deaf()).await;
    assert_eq!(server.error, Some((FRAME_ENCODING_ERROR, true)));
    assert_eq!(client.error, Some((FRAME_ENCODING_ERROR, false)));
    let (client, server) = run((On::Quiche, On::Quiche), deaf(), sends()).await;
    assert_eq!(client.error, Some((FRAME_ENCODING_ERROR, true)));
    assert_eq!(server.error, Some((FRAME_ENCODING_ERROR, false)));
}
