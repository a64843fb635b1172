//! Tests of the plug-ins over real sockets on loopback, between all stacks, and between endpoints
//! with a plug-in and stock endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{EVERY, On, SideConfig, WITH_NOQ, run, until};
use fathom_cc::testing::{Event, Fixed, Log, RecordingConfig};
use fathom_cc::{Capabilities, ControllerConfig, Pacing, Rate, SendParams};
use fathom_plugin::{EnableTimestamp, Extension, InUse, Offer, ReceiveTimestamps, Report};
use fathom_plugin_testing as common;

const LEAN: Extension = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
const PAPER: Extension = Extension { offer: Some(Offer::Paper), ..Extension::OFF };
const OFF: Extension = Extension::OFF;
/// Extension of a peer from another project.
const TIMESTAMP: Extension = Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF };
/// SYNC_TIMESTAMP and TIMESTAMP.
const ANY: Extension = Extension { offer: Some(Offer::Lean), ..TIMESTAMP };
/// Receive timestamps in ACK frames: alone, and with the other two frames.
const RECEIVE: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 32, exponent: 3 }),
    ..Extension::OFF
};
const EVERYTHING: Extension = Extension { receive_timestamps: RECEIVE.receive_timestamps, ..ANY };
/// Transport error codes (RFC 9000 §20.1).
const FRAME_ENCODING_ERROR: u64 = 0x07;
const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
const PROTOCOL_VIOLATION: u64 = 0x0a;

fn receives_delays(report: &Report) -> bool {
    report.negotiated
        && report.stamps_sent > 5
        && report.stamps_received > 5
        && report.samples.samples > 5
        && report.one_way.is_some()
        && report.controller.is_some_and(|c| c.window > 0)
}

#[tokio::test]
async fn stacks_exchange_one_way_delays_in_both_modes() {
    for on in WITH_NOQ {
        for (client, server) in [(LEAN, LEAN), (PAPER, PAPER), (LEAN, PAPER), (PAPER, LEAN)] {
            let side = |extension| SideConfig::with_plugin("sync:signal=either", extension);
            let (client, server) = until(side(client), side(server), [receives_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(receives_delays(&report), "{on:?} {report:?}");
            }
        }
    }
}

#[tokio::test]
async fn paper_mode_stamps_every_packet_and_lean_mode_few() {
    for on in WITH_NOQ {
        // 500 kB are at least 350 packets of 1452 bytes.
        let side = |extension| SideConfig::with_plugin("reno", extension);
        let (paper, lean) = run(on, side(PAPER), side(LEAN)).await;
        assert!(paper.report().stamps_sent > 340, "{on:?} {paper:?}");
        assert!(lean.report().stamps_sent < 340, "{on:?} {lean:?}");
    }
}

#[tokio::test]
async fn stock_peers_never_receive_an_extension_frame() {
    for on in EVERY {
        let with_plugin = || SideConfig::with_plugin("sync:signal=either", LEAN);
        let (client, server) = run(on, with_plugin(), SideConfig::stock()).await;
        assert!(server.reports.is_empty());
        let (_, other) = run(on, SideConfig::stock(), with_plugin()).await;
        for report in [client.report(), other.report()] {
            assert!(
                !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
                "{on:?} {report:?}"
            );
            assert!(report.controller.is_some(), "our controller ran: {on:?} {report:?}");
        }
    }
}

#[tokio::test]
async fn disabled_extension_is_not_negotiated() {
    for on in WITH_NOQ {
        for (client, server) in [(LEAN, OFF), (OFF, LEAN)] {
            let (client, server) = run(
                on,
                SideConfig::with_plugin("reno", client),
                SideConfig::with_plugin("reno", server),
            )
            .await;
            for report in [client.report(), server.report()] {
                assert!(!report.negotiated && report.stamps_sent == 0, "{on:?} {report:?}");
            }
        }
    }
}

#[tokio::test]
async fn malformed_sync_parameter_is_a_transport_parameter_error() {
    // The parameters have the value 4 (echoes without stamps), have a second byte after the value,
    // or occur twice.
    const BAD: [&[u8]; 3] = [
        &[0xbd, 0xcf, 0x82, 0xec, 0x01, 0x04],
        &[0xbd, 0xcf, 0x82, 0xec, 0x02, 0x03, 0x00],
        &[0xbd, 0xcf, 0x82, 0xec, 0x01, 0x03, 0xbd, 0xcf, 0x82, 0xec, 0x01, 0x03],
    ];
    for on in EVERY {
        for bytes in BAD {
            let honest = || SideConfig::with_plugin("reno", LEAN);
            let liar = || SideConfig { parameter: Some(bytes), ..honest() };
            let (client, server) = run(on, liar(), honest()).await;
            assert_eq!(server.error, Some((TRANSPORT_PARAMETER_ERROR, true)), "{on:?} {bytes:x?}");
            assert_eq!(client.error, Some((TRANSPORT_PARAMETER_ERROR, false)), "{on:?} {bytes:x?}");
            let (client, server) = run(on, honest(), liar()).await;
            assert_eq!(client.error, Some((TRANSPORT_PARAMETER_ERROR, true)), "{on:?} {bytes:x?}");
            assert_eq!(server.error, Some((TRANSPORT_PARAMETER_ERROR, false)), "{on:?} {bytes:x?}");
        }
    }
}

#[tokio::test]
async fn timestamp_frames_are_used_if_one_side_supports_no_other() {
    for on in EVERY {
        for (client, server) in [(ANY, TIMESTAMP), (TIMESTAMP, ANY), (TIMESTAMP, TIMESTAMP)] {
            let side = |extension| SideConfig::with_plugin("sync", extension);
            let (client, server) = until(side(client), side(server), [receives_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(
                    receives_delays(&report) && report.in_use == InUse::Timestamp,
                    "{on:?} {report:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn receive_timestamps_are_used_if_one_side_supports_no_other() {
    for on in EVERY {
        for (client, server) in [(RECEIVE, RECEIVE), (EVERYTHING, RECEIVE), (RECEIVE, EVERYTHING)] {
            let side = |extension| SideConfig::with_plugin("sync", extension);
            let (client, server) = until(side(client), side(server), [receives_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(
                    receives_delays(&report) && report.in_use == InUse::Receive,
                    "{on:?} {report:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn impossible_receive_timestamps_are_dropped_without_effect() {
    // The frames have the same time repeatedly, the largest time, or a time close to the epoch.
    const ABSURD: [&[u8]; 3] = [
        &[1, 0, 1, 0x80, 0x00, 0xf4, 0x24],
        &[1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[1, 0, 1, 0x3f],
    ];
    for on in [(On::Quinn, On::Noq), (On::Noq, On::Quinn)] {
        for stamp in ABSURD {
            let liar =
                SideConfig { stamp: Some(stamp), ..SideConfig::with_plugin("reno", RECEIVE) };
            let began = now();
            let (_, server) = run(on, liar, SideConfig::with_plugin("sync", RECEIVE)).await;
            let report = server.report();
            assert_eq!((server.error, report.in_use), (None, InUse::Receive), "{on:?}");
            assert!(report.stamps_received > 5, "{on:?} {report:?}");
            let lasted = i64::try_from(now().duration_since(began).as_nanos()).expect("seconds");
            let worst = report.one_way.map_or(0, |delay| delay.as_nanos());
            assert!(worst <= lasted, "{on:?} {report:?}, in {lasted} ns");
        }
    }
}

#[tokio::test]
async fn unreadable_receive_timestamps_close_the_connection() {
    // The frames have packets below packet 0, or more timestamps than there are bytes.
    for raw in [&[1, 0x80, 0xff, 0xff, 0xff, 1, 9][..], &[1, 0, 0x80, 0xff, 0xff, 0xff, 9]] {
        for on in EVERY {
            let liar = SideConfig { stamp: Some(raw), ..SideConfig::with_plugin("reno", RECEIVE) };
            closes(on, liar, SideConfig::with_plugin("reno", RECEIVE), FRAME_ENCODING_ERROR).await;
        }
    }
    // The server's parameters ask for frames that the server does not want or does not know.
    const WANTED: &[u8] = &[0x80, 0x04, 0xac, 0x07, 1, 9];
    for on in EVERY {
        for (server, code) in [(LEAN, PROTOCOL_VIOLATION), (OFF, FRAME_ENCODING_ERROR)] {
            let server =
                SideConfig { parameter: Some(WANTED), ..SideConfig::with_plugin("reno", server) };
            closes(on, SideConfig::with_plugin("reno", RECEIVE), server, code).await;
        }
    }
}

#[tokio::test]
async fn receive_timestamps_exponent_above_20_closes_the_connection() {
    const BAD: &[u8] = &[0x80, 0x04, 0xac, 0x07, 1, 9, 0x80, 0x04, 0xac, 0x26, 1, 21];
    const NOISE: &[u8] = &[0x80, 0x04, 0xac, 0x07, 3, 1, 2, 3, 0x80, 0x04, 0xac, 0x26, 1, 21];
    for on in EVERY {
        let honest = || SideConfig::with_plugin("reno", EVERYTHING);
        let (client, server) =
            run(on, SideConfig { parameter: Some(BAD), ..honest() }, honest()).await;
        assert_eq!(server.error, Some((TRANSPORT_PARAMETER_ERROR, true)), "{on:?}");
        assert_eq!(client.error, Some((TRANSPORT_PARAMETER_ERROR, false)), "{on:?}");
        // Noise that a peer may send to grease.
        let greases = SideConfig { parameter: Some(NOISE), ..SideConfig::with_plugin("reno", OFF) };
        let (client, server) = run(on, greases, honest()).await;
        assert_eq!(
            (client.error, server.error, server.report().in_use),
            (None, None, InUse::None),
            "{on:?}"
        );
    }
}

#[tokio::test]
async fn sync_timestamp_is_preferred_to_other_frames() {
    for on in EVERY {
        for (client, server) in [(ANY, ANY), (ANY, LEAN), (PAPER, ANY), (EVERYTHING, EVERYTHING)] {
            let side = |extension| SideConfig::with_plugin("sync", extension);
            let (client, server) = until(side(client), side(server), [receives_delays; 2]);
            let (client, server) = run(on, client, server).await;
            for report in [client.report(), server.report()] {
                assert!(
                    receives_delays(&report) && report.in_use == InUse::Sync,
                    "{on:?} {report:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn timestamps_of_a_send_only_peer_are_read_and_not_answered() {
    // `sends` is what lsquic offers, and picoquic's answer to a peer that only reads.
    let sends = Extension { timestamp: Some(EnableTimestamp::Sends), ..OFF };
    let reads = Extension { timestamp: Some(EnableTimestamp::Reads), ..OFF };
    for on in EVERY {
        for other in [ANY, reads] {
            let enough: [common::Sees; 2] =
                [|client| client.stamps_sent > 5, |server| server.samples.samples > 5];
            let (client, server) = until(
                SideConfig::with_plugin("reno", sends),
                SideConfig::with_plugin("sync", other),
                enough,
            );
            let (client, server) = run(on, client, server).await;
            let (client, server) = (client.report(), server.report());
            assert!(
                server.negotiated && server.samples.samples > 5 && server.stamps_sent == 0,
                "{on:?} {server:?}"
            );
            assert!(
                !client.negotiated && client.stamps_sent > 5 && client.stamps_received == 0,
                "{on:?} {client:?}"
            );
            assert_eq!((client.in_use, server.in_use), (InUse::Timestamp, InUse::Timestamp));
        }
    }
}

#[tokio::test]
async fn malformed_enable_timestamp_is_a_transport_parameter_error() {
    const BAD: [&[u8]; 5] = [
        &[0x80, 0x00, 0x71, 0x58, 0x01, 0x00],
        &[0x80, 0x00, 0x71, 0x58, 0x01, 0x04],
        &[0x80, 0x00, 0x71, 0x58, 0x00],
        &[0x80, 0x00, 0x71, 0x58, 0x02, 0x03, 0x00],
        &[0x80, 0x00, 0x71, 0x58, 0x01, 0x03, 0x80, 0x00, 0x71, 0x58, 0x01, 0x03],
    ];
    for on in EVERY {
        for bytes in BAD {
            let honest = || SideConfig::with_plugin("reno", ANY);
            let liar = || SideConfig { parameter: Some(bytes), ..honest() };
            let (client, server) = run(on, liar(), honest()).await;
            assert_eq!(server.error, Some((TRANSPORT_PARAMETER_ERROR, true)), "{on:?} {bytes:x?}");
            assert_eq!(client.error, Some((TRANSPORT_PARAMETER_ERROR, false)), "{on:?} {bytes:x?}");
        }
    }
    // An endpoint that does not support the parameter does not read it.
    let liar = SideConfig { parameter: Some(BAD[0]), ..SideConfig::with_plugin("reno", TIMESTAMP) };
    let (_, server) = run((On::Quinn, On::Noq), liar, SideConfig::with_plugin("reno", LEAN)).await;
    assert_eq!(server.error, None);
}

#[tokio::test]
async fn forbidden_extension_frames_close_the_connection() {
    const MALFORMED: &[u8] = &[0x80, 0x00, 0x02, 0xf5, 0x05, 0x00];
    const SAYS_BOTH: &[u8] = &[0x80, 0x00, 0x71, 0x58, 0x01, 0x03];
    const STAMP: &[u8] = &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24];
    let sends = Extension { timestamp: Some(EnableTimestamp::Sends), ..OFF };
    for on in EVERY {
        // The parameter that the client receives says that the server reads TIMESTAMP frames, but
        // the server does not want or does not know them.
        for (server, code) in
            [(sends, PROTOCOL_VIOLATION), (LEAN, PROTOCOL_VIOLATION), (OFF, FRAME_ENCODING_ERROR)]
        {
            let server = SideConfig {
                parameter: Some(SAYS_BOTH),
                ..SideConfig::with_plugin("reno", server)
            };
            closes(on, SideConfig::with_plugin("reno", ANY), server, code).await;
        }
        // The client sends a frame other than the negotiated frame, or an unreadable frame.
        let stamps = |stamp, extension| SideConfig {
            stamp: Some(stamp),
            ..SideConfig::with_plugin("reno", extension)
        };
        closes(on, stamps(STAMP, LEAN), SideConfig::with_plugin("reno", LEAN), PROTOCOL_VIOLATION)
            .await;
        closes(
            on,
            stamps(MALFORMED, TIMESTAMP),
            SideConfig::with_plugin("reno", ANY),
            FRAME_ENCODING_ERROR,
        )
        .await;
    }
}

/// Checks that the server ends the connection with this code.
async fn closes(on: (On, On), client: SideConfig, server: SideConfig, code: u64) {
    assert_eq!(common::ended(on, client, server).await, Some((code, true)), "{on:?}");
}

#[tokio::test]
async fn impossible_timestamps_are_dropped_without_effect() {
    // The frames have the largest value that fits into the room, the smallest value, or the same
    // value repeatedly.
    const ABSURD: [&[u8]; 3] = [
        &[0x42, 0xf5, 0xbf, 0xff, 0xff, 0xff],
        &[0x42, 0xf5, 0x00],
        &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24],
    ];
    for on in [(On::Quinn, On::Quinn), (On::Noq, On::Noq)] {
        for stamp in ABSURD {
            let liar =
                SideConfig { stamp: Some(stamp), ..SideConfig::with_plugin("reno", TIMESTAMP) };
            let began = now();
            let (_, server) = run(on, liar, SideConfig::with_plugin("sync", ANY)).await;
            let report = server.report();
            assert_eq!((server.error, report.in_use), (None, InUse::Timestamp), "{on:?}");
            assert_eq!(report.stamps_received > 5, stamp.len() > 3, "{on:?} {report:?}");
            // No packet travelled longer than the connection existed, so no longer delay may be
            // accepted.
            let lasted = i64::try_from(now().duration_since(began).as_nanos()).expect("seconds");
            let worst = report.one_way.map_or(0, |delay| delay.as_nanos());
            assert!(worst <= lasted, "{on:?} {report:?}, in {lasted} ns");
        }
    }
}

#[tokio::test]
async fn timestamp_frames_continue_after_key_updates() {
    for on in EVERY {
        for extension in [LEAN, PAPER, TIMESTAMP, RECEIVE] {
            let side = || SideConfig {
                rounds: 4,
                key_updates: true,
                ..SideConfig::with_plugin("reno", extension)
            };
            let (client, server) = until(side(), side(), [receives_delays; 2]);
            let (client, server) = run(on, client, server).await;
            assert!(receives_delays(&server.report()), "{on:?} {server:?}");
            for pair in client.reports[..4].windows(2) {
                assert!(pair[1].stamps_sent > pair[0].stamps_sent, "{on:?} {pair:?}");
                assert!(pair[1].stamps_received > pair[0].stamps_received, "{on:?} {pair:?}");
            }
            // In `paper` mode, an echo counts only if it belongs to the acknowledged packet.
            let samples = |i: usize| client.reports[i].samples.samples;
            assert!(samples(3) > samples(0), "{on:?} {} then {}", samples(0), samples(3));
        }
    }
}

#[tokio::test]
async fn full_size_datagrams_do_not_stall() {
    for on in EVERY {
        for offer in [Offer::Lean, Offer::Paper] {
            let extension = Extension { offer: Some(offer), datagrams: true, ..Extension::OFF };
            let side =
                || SideConfig { datagrams: 300, ..SideConfig::with_plugin("reno", extension) };
            let (client, server) = run(on, side(), side()).await;
            for outcome in [client, server] {
                // Some datagrams may be lost because a socket buffer overflows. If the connection
                // stalled, almost no datagram would arrive.
                assert!(outcome.datagrams > 200, "{on:?} {} arrived", outcome.datagrams);
                assert!(
                    outcome.report().stamps_sent > 200,
                    "every packet is stamped: {on:?} {outcome:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn receive_timestamps_are_not_offered_with_multipath() {
    for (paths, in_use) in [([4, 4], InUse::None), ([4, 0], InUse::None), ([0, 0], InUse::Receive)]
    {
        let side = |paths| SideConfig { paths, ..SideConfig::with_plugin("reno", RECEIVE) };
        let (client, server) = run((On::Noq, On::Noq), side(paths[0]), side(paths[1])).await;
        assert_eq!((client.error, server.error), (None, None), "{paths:?}");
        assert_eq!((client.report().in_use, server.report().in_use), (in_use, in_use), "{paths:?}");
    }
}

#[tokio::test]
async fn acknowledgements_of_several_paths_are_read() {
    for extension in [LEAN, PAPER, TIMESTAMP] {
        let side =
            || SideConfig { paths: 4, rounds: 2, ..SideConfig::with_plugin("reno", extension) };
        let (client, server) = until(side(), side(), [receives_delays; 2]);
        let (client, server) = run((On::Noq, On::Noq), client, server).await;
        for report in [client.report(), server.report()] {
            assert!(receives_delays(&report), "{report:?}");
        }
    }
}

#[tokio::test]
async fn second_path_has_its_own_controller() {
    let identity = common::identity();
    let side = || SideConfig { paths: 4, rounds: 2, ..SideConfig::with_plugin("reno", LEAN) };
    let (to, serving) = common::on_noq::serve(side(), &identity);
    let log = Log::new(100_000);
    let controller_config =
        RecordingConfig::new(side().controller_config.expect("a controller"), log.clone());
    let client = SideConfig { controller_config: Some(Arc::new(controller_config)), ..side() };
    let delays = || {
        let received = |e: &Event| matches!(e, Event::AckEvent { one_way: Some(_), .. });
        log.records().iter().filter(|r| received(&r.event)).count()
    };
    let client = async {
        let (endpoint, connection, monitor) =
            common::on_noq::connect(&client, &identity, to).await.expect("a connection");
        let monitor = monitor.expect("a plug-in");
        assert!(connection.is_multipath_enabled());
        let first = connection.path(noq::PathId::ZERO).expect("path 0");
        let sent = common::body(500_000);
        let mut on_first = 0;
        for round in 0..2 {
            let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
            let write = async {
                send.write_all(&sent).await.expect("written");
                send.finish().expect("open");
            };
            let (got, ()) = tokio::join!(recv.read_to_end(sent.len()), write);
            assert!(got.expect("read") == sent);
            let before = monitor.report();
            assert!(receives_delays(&before), "round {round}: {before:?}");
            if round == 0 {
                on_first = delays();
                // The second path leads to the same host at another address.
                let other = std::net::SocketAddr::from(([127, 0, 0, 2], to.port()));
                let second = connection
                    .open_path(other, noq::PathStatus::Available)
                    .await
                    .expect("a second path");
                assert_ne!(second.id(), noq::PathId::ZERO);
                first.set_status(noq::PathStatus::Backup).expect("a status");
            }
        }
        let paths = connection.path_stats(noq::PathId::from(1u32)).expect("the second path");
        assert!(
            paths.udp_tx.bytes > 400_000,
            "the second round went over the second path: {paths:?}"
        );
        assert!(
            on_first > 5 && delays() > on_first + 5,
            "{on_first} delays on the first path, {} on both",
            delays()
        );
        connection.close(0u32.into(), b"");
        endpoint.wait_idle().await;
        monitor.report()
    };
    let (report, server) =
        tokio::time::timeout(common::PATIENCE, async { (client.await, serving.await) })
            .await
            .expect("done in time");
    assert!(receives_delays(&report), "{report:?}");
    assert!(receives_delays(&server.expect("the server ended well").report()));
}

/// Returns a controller with this window and this pacing, which it requires of the stack.
fn pacing(window: u64, pacing: Pacing) -> Fixed {
    let required = Capabilities { pacing: true, ..Capabilities::NONE };
    let params = SendParams { pacing, ..SendParams::window(window) };
    Fixed { name: "paced", required, ..Fixed::new(params) }
}

/// Returns the time that noq takes to echo 300 kB when the client is paced like this.
async fn paced(window: u64, pace: Pacing) -> Duration {
    let controller_config: Arc<dyn ControllerConfig> = Arc::new(pacing(window, pace));
    let side = SideConfig { bytes: 300_000, ..SideConfig::stock() };
    let client = SideConfig { controller_config: Some(controller_config), ..side.clone() };
    let began = now();
    run((On::Noq, On::Noq), client, side).await;
    now().duration_since(began)
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn noq_respects_a_pacing_rate_and_a_send_delay() {
    // 300 kB at 600 kB/s take 0.5 s, minus the 10 ms of a burst.
    let rate = paced(1_000_000, Pacing::Rate(Rate::from_bytes_per_sec(600_000))).await;
    assert!(rate >= Duration::from_millis(450), "{rate:?}");
    // At 60 kB every 100 ms plus a short round trip on loopback, 300 kB take as long as in the
    // first transfer.
    let hold = paced(60_000, Pacing::Delay(Duration::from_millis(100))).await;
    assert!(hold >= Duration::from_millis(350), "{hold:?}");
    // Pacing is the reason for the duration: without pacing, the transfer is faster unless the
    // machine is always busy.
    let began = now();
    while paced(1_000_000, Pacing::Delay(Duration::ZERO)).await >= Duration::from_millis(300) {
        assert!(now().duration_since(began) < common::PATIENCE, "as slow without a pace");
    }
}

#[test]
fn error_names_the_capability_that_a_stack_lacks() {
    let controller_config = || Arc::new(pacing(60_000, Pacing::Window));
    assert!(fathom_plugin::noq::Plugin::new(controller_config()).is_ok());
    let error = fathom_plugin::quinn::Plugin::new(controller_config())
        .expect_err("quinn does not pace")
        .to_string();
    assert!(error.contains("'paced' needs pacing"), "{error}");
}
