//! Tests of the results for synthetic evidence.

use super::*;
use crate::endpoint::facts::{Close, Connection};
use crate::runner::trace::ConnectionClose;
use crate::runner::trace::testing::connection_trace;

fn evidence(connections: Vec<ConnectionTrace>) -> Evidence {
    Evidence {
        client: Some(ExitReason::Code(0)),
        server: ExitReason::Code(0),
        server_is_ours: true,
        downloads: Vec::new(),
        trace: Trace { connections, ect: [5, 5], ..Trace::default() },
        stats: RelayStats::default(),
        client_facts: None,
        server_facts: None,
        capture: Capture::default(),
    }
}

/// Returns the result for one connection that `change` has modified.
fn on_one(test_case: TestCase, change: impl FnOnce(&mut Evidence)) -> TestResult {
    let mut evidence = evidence(vec![connection_trace()]);
    change(&mut evidence);
    check(test_case, &evidence)
}

/// Returns the reasons for a failure.
fn failures(result: TestResult) -> String {
    match result {
        TestResult::Failed(why) => why.join("; "),
        other => panic!("{other:?}"),
    }
}

#[test]
fn exit_codes_downloads_and_connection_count_are_checked() {
    assert_eq!(on_one(TestCase::Handshake, |_| {}), TestResult::Passed);
    assert!(
        failures(on_one(TestCase::Handshake, |e| e.client = Some(ExitReason::Code(1))))
            .contains("the client: exit code 1")
    );
    assert!(
        failures(on_one(TestCase::Handshake, |e| e.client = Some(ExitReason::Timeout)))
            .contains("timed out")
    );
    assert!(
        failures(on_one(TestCase::Handshake, |e| e.server = ExitReason::Signal(11)))
            .contains("the server: signal 11")
    );
    let peers = |e: &mut Evidence| (e.server, e.server_is_ours) = (ExitReason::Signal(15), false);
    assert_eq!(on_one(TestCase::Handshake, peers), TestResult::Passed);
    let premature =
        |e: &mut Evidence| (e.server, e.server_is_ours) = (ExitReason::Premature, false);
    assert!(
        failures(on_one(TestCase::Handshake, premature))
            .contains("the server: exited before it was stopped")
    );
    let files = |e: &mut Evidence| e.downloads = vec!["a did not arrive".into(); 9];
    assert!(failures(on_one(TestCase::Handshake, files)).ends_with("and 6 more files"));
    assert!(
        failures(on_one(TestCase::MultiConnect, |_| {}))
            .contains("1 connections started, expected 10")
    );
    assert!(
        failures(on_one(TestCase::Handshake, |e| e.trace.connections.clear()))
            .contains("0 connections")
    );
    assert_eq!(
        on_one(TestCase::Retry, |e| e.client = Some(ExitReason::Code(127))),
        TestResult::Unsupported("the client".into())
    );
    let refused = |e: &mut Evidence| (e.client, e.server) = (None, ExitReason::Code(127));
    assert_eq!(on_one(TestCase::Retry, refused), TestResult::Unsupported("the server".into()));
}

#[test]
fn connection_close_caused_by_our_extension_fails_the_test() {
    let close = ConnectionClose {
        transport: true,
        code: 7,
        frame: Some(0x11fa_6b58),
        reason: String::new(),
    };
    let seen = |e: &mut Evidence| e.trace.connections[0].server.close = Some(close.clone());
    assert!(
        failures(on_one(TestCase::Handshake, seen))
            .contains("EXTENSION? the server closed with transport error 0x7")
    );
    let close =
        Close { by: "peer".into(), code: Some(8), protocol_error: true, ..Close::default() };
    let reported = |e: &mut Evidence| {
        let connection = Connection { close: Some(close.clone()), ..Connection::default() };
        e.client_facts = Some(Facts { connections: vec![connection], ..Facts::default() });
    };
    assert!(
        failures(on_one(TestCase::Handshake, reported))
            .contains("the client reports: closed by peer, 0x8")
    );
    let other = ConnectionClose { transport: true, code: 1, frame: None, reason: String::new() };
    assert_eq!(
        on_one(TestCase::Handshake, |e| e.trace.connections[0].server.close = Some(other)),
        TestResult::Passed
    );
}

/// A test case, a change that makes it pass, and the message without it.
type Requirement = (TestCase, fn(&mut Evidence), &'static str);

#[test]
fn each_interop_test_passes_only_if_its_requirement_is_met() {
    let one: [Requirement; 10] = [
        (
            TestCase::ChaCha20,
            |e| e.trace.connections[0].server_hello.as_mut().unwrap().suite = 0x1303,
            "not ChaCha20",
        ),
        (
            TestCase::Retry,
            |e| {
                (e.trace.connections[0].retries, e.trace.connections[0].token_after_retry) =
                    (1, true)
            },
            "no Retry packet was seen; the client sent no token",
        ),
        (
            TestCase::Http3,
            |e| e.trace.connections[0].extensions.as_mut().unwrap().protocol = Some("h3".into()),
            "not h3",
        ),
        (
            TestCase::KeyUpdate,
            |e| {
                (
                    e.trace.connections[0].client.key_updates,
                    e.trace.connections[0].server.key_updates,
                ) = (1, 1)
            },
            "the client did not update keys; the server did not follow",
        ),
        (
            TestCase::Ecn,
            |e| {
                (
                    e.trace.connections[0].client.acks_with_ecn,
                    e.trace.connections[0].server.acks_with_ecn,
                ) = (1, 1)
            },
            "the client reported no ECN counts; the server reported no ECN counts",
        ),
        (TestCase::Blackhole, |e| e.stats.cut_off = 1, "nothing was sent during a blackout"),
        (TestCase::TransferLoss, |e| e.stats.down.impairments.lost = 1, "no datagram was lost"),
        (
            TestCase::TransferCorruption,
            |e| e.stats.up.impairments.corrupted = 1,
            "no datagram was corrupted",
        ),
        (
            TestCase::RebindPort,
            |e| {
                (
                    e.trace.connections[0].server.challenges,
                    e.trace.connections[0].client.responses,
                ) = (1, 1)
            },
            "the server did not validate",
        ),
        (TestCase::LongRtt, |_| {}, ""),
    ];
    for (test_case, change, otherwise) in one {
        assert_eq!(on_one(test_case, change), TestResult::Passed, "{}", test_case);
        if !otherwise.is_empty() {
            let why = failures(on_one(test_case, |_| {}));
            assert!(why.contains(otherwise), "{}: {why}", test_case);
        }
    }
    assert!(
        failures(on_one(TestCase::Ecn, |e| e.trace.ect = [0, 0]))
            .contains("sent no ECN-marked packet; the server sent no")
    );
}

#[test]
fn resumption_and_0rtt_are_required_of_second_connection() {
    let two = |change: fn(&mut ConnectionTrace)| {
        let mut second = connection_trace();
        second.server_hello.as_mut().unwrap().resumed = true;
        change(&mut second);
        evidence(vec![connection_trace(), second])
    };
    assert_eq!(check(TestCase::Resumption, &two(|_| {})), TestResult::Passed);
    let nothing = two(|second| second.server_hello.as_mut().unwrap().resumed = false);
    assert!(failures(check(TestCase::Resumption, &nothing)).contains("did not resume a session"));
    let early = |second: &mut ConnectionTrace| {
        second.client.packets[1] = 2;
        (second.client.early_bytes, second.client.stream_bytes) = (900, 100);
        second.extensions.as_mut().unwrap().early_data = true;
    };
    assert_eq!(check(TestCase::ZeroRtt, &two(early)), TestResult::Passed);
    assert!(
        failures(check(TestCase::ZeroRtt, &two(|_| {})))
            .contains("no 0-RTT packet was sent; 0-RTT was not accepted")
    );
    let mut late = two(early);
    late.trace.connections[1].client.stream_bytes = 901;
    assert!(failures(check(TestCase::ZeroRtt, &late)).contains("most requests"));
}

#[test]
fn interop_requirements_are_unverified_without_tls_secrets() {
    let blind = |e: &mut Evidence| {
        let c = &mut e.trace.connections[0];
        c.extensions = None;
        (c.client.unopened, c.server.unopened) = (100, 100);
    };
    for test_case in [
        TestCase::Http3,
        TestCase::KeyUpdate,
        TestCase::Ecn,
        TestCase::RebindPort,
        TestCase::RebindHandshake,
    ] {
        assert!(matches!(on_one(test_case, blind), TestResult::Unverified(_)), "{}", test_case);
    }
    assert_eq!(on_one(TestCase::Handshake, blind), TestResult::Passed);
}
