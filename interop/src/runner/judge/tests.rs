//! Verdicts on evidence that is made up.

use super::*;
use crate::endpoint::facts::{Close, Connection};
use crate::runner::wire::Closing;
use crate::runner::wire::testing::conversation;

fn evidence(conversations: Vec<Conversation>) -> Evidence {
    Evidence {
        client: Some(Exit::Code(0)),
        server: Exit::Code(0),
        server_is_ours: true,
        downloads: Vec::new(),
        wire: Wire { connections: conversations, ect: [5, 5], ..Wire::default() },
        stats: RelayStats::default(),
        client_facts: None,
        server_facts: None,
        capture: Capture::default(),
    }
}

/// The verdict on one connection that `change` has changed.
fn on_one(trial: Trial, change: impl FnOnce(&mut Evidence)) -> Verdict {
    let mut evidence = evidence(vec![conversation()]);
    change(&mut evidence);
    judge(trial, &evidence)
}

/// What is wrong, or else nothing.
fn wrong(verdict: Verdict) -> String {
    match verdict {
        Verdict::Failed(why) => why.join("; "),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_exit_codes_and_connections_count() {
    assert_eq!(on_one(Trial::Handshake, |_| {}), Verdict::Passed);
    assert!(wrong(on_one(Trial::Handshake, |e| e.client = Some(Exit::Code(1)))).contains("the client: exit code 1"));
    assert!(wrong(on_one(Trial::Handshake, |e| e.client = Some(Exit::Timeout))).contains("no end in time"));
    assert!(wrong(on_one(Trial::Handshake, |e| e.server = Exit::Signal(11))).contains("the server: signal 11"));
    let peers = |e: &mut Evidence| (e.server, e.server_is_ours) = (Exit::Signal(15), false);
    assert_eq!(on_one(Trial::Handshake, peers), Verdict::Passed);
    let soon = |e: &mut Evidence| (e.server, e.server_is_ours) = (Exit::TooSoon, false);
    assert!(wrong(on_one(Trial::Handshake, soon)).contains("the server: it ended by itself"));
    let files = |e: &mut Evidence| e.downloads = vec!["a did not arrive".into(); 9];
    assert!(wrong(on_one(Trial::Handshake, files)).ends_with("and 6 more files"));
    assert!(wrong(on_one(Trial::MultiConnect, |_| {})).contains("1 connections began, not 10"));
    assert!(wrong(on_one(Trial::Handshake, |e| e.wire.connections.clear())).contains("0 connections"));
    assert_eq!(on_one(Trial::Retry, |e| e.client = Some(Exit::Code(127))), Verdict::Unsupported("the client".into()));
    let refused = |e: &mut Evidence| (e.client, e.server) = (None, Exit::Code(127));
    assert_eq!(on_one(Trial::Retry, refused), Verdict::Unsupported("the server".into()));
}

#[test]
fn a_close_that_our_extension_may_have_caused_fails_loudly() {
    let close = Closing { transport: true, code: 7, frame: Some(0x11fa_6b58), reason: String::new() };
    let seen = |e: &mut Evidence| e.wire.connections[0].server.close = Some(close.clone());
    assert!(wrong(on_one(Trial::Handshake, seen)).contains("EXTENSION? the server closed with transport error 0x7"));
    let close = Close { by: "peer".into(), code: Some(8), fault: true, ..Close::default() };
    let told = |e: &mut Evidence| {
        let connection = Connection { close: Some(close.clone()), ..Connection::default() };
        e.client_facts = Some(Facts { connections: vec![connection], ..Facts::default() });
    };
    assert!(wrong(on_one(Trial::Handshake, told)).contains("the client says: by peer, 0x8"));
    let other = Closing { transport: true, code: 1, frame: None, reason: String::new() };
    assert_eq!(on_one(Trial::Handshake, |e| e.wire.connections[0].server.close = Some(other)), Verdict::Passed);
}

/// A test, what makes it pass, and what it says without.
type Demand = (Trial, fn(&mut Evidence), &'static str);

#[test]
fn each_test_passes_with_what_it_asks_and_fails_without() {
    let one: [Demand; 10] = [
        (Trial::ChaCha20, |e| e.wire.connections[0].server_hello.as_mut().unwrap().suite = 0x1303, "not ChaCha20"),
        (
            Trial::Retry,
            |e| (e.wire.connections[0].retries, e.wire.connections[0].token_after_retry) = (1, true),
            "no Retry packet came; the client brought no token",
        ),
        (Trial::Http3, |e| e.wire.connections[0].extensions.as_mut().unwrap().protocol = Some("h3".into()), "not h3"),
        (
            Trial::KeyUpdate,
            |e| (e.wire.connections[0].client.key_updates, e.wire.connections[0].server.key_updates) = (1, 1),
            "the client did not update keys; the server did not follow",
        ),
        (
            Trial::Ecn,
            |e| (e.wire.connections[0].client.acks_with_ecn, e.wire.connections[0].server.acks_with_ecn) = (1, 1),
            "the client reported no counts; the server reported no counts",
        ),
        (Trial::Blackhole, |e| e.stats.cut_off = 1, "nothing was sent in the dark"),
        (Trial::TransferLoss, |e| e.stats.down.lost = 1, "nothing was lost"),
        (Trial::TransferCorruption, |e| e.stats.up.corrupted = 1, "nothing was damaged"),
        (
            Trial::RebindPort,
            |e| (e.wire.connections[0].server.challenges, e.wire.connections[0].client.responses) = (1, 1),
            "the server did not validate",
        ),
        (Trial::LongRtt, |_| {}, ""),
    ];
    for (trial, change, otherwise) in one {
        assert_eq!(on_one(trial, change), Verdict::Passed, "{}", trial.name());
        if !otherwise.is_empty() {
            let why = wrong(on_one(trial, |_| {}));
            assert!(why.contains(otherwise), "{}: {why}", trial.name());
        }
    }
    assert!(wrong(on_one(Trial::Ecn, |e| e.wire.ect = [0, 0])).contains("marked no packet; the server marked no"));
}

#[test]
fn resumption_and_0_rtt_are_asked_of_the_second_connection() {
    let two = |change: fn(&mut Conversation)| {
        let mut second = conversation();
        second.server_hello.as_mut().unwrap().resumed = true;
        change(&mut second);
        evidence(vec![conversation(), second])
    };
    assert_eq!(judge(Trial::Resumption, &two(|_| {})), Verdict::Passed);
    let nothing = two(|second| second.server_hello.as_mut().unwrap().resumed = false);
    assert!(wrong(judge(Trial::Resumption, &nothing)).contains("went on from nothing"));
    let early = |second: &mut Conversation| {
        second.client.packets[1] = 2;
        (second.client.early_bytes, second.client.stream_bytes) = (900, 100);
        second.extensions.as_mut().unwrap().early_data = true;
    };
    assert_eq!(judge(Trial::ZeroRtt, &two(early)), Verdict::Passed);
    assert!(wrong(judge(Trial::ZeroRtt, &two(|_| {}))).contains("no 0-RTT packet was sent; 0-RTT was not taken"));
    let mut late = two(early);
    late.wire.connections[1].client.stream_bytes = 901;
    assert!(wrong(judge(Trial::ZeroRtt, &late)).contains("most requests"));
}

#[test]
fn what_needs_secrets_is_unverified_without_them() {
    let blind = |e: &mut Evidence| {
        let c = &mut e.wire.connections[0];
        c.extensions = None;
        (c.client.unopened, c.server.unopened) = (100, 100);
    };
    for trial in [Trial::Http3, Trial::KeyUpdate, Trial::Ecn, Trial::RebindPort, Trial::RebindHandshake] {
        assert!(matches!(on_one(trial, blind), Verdict::Unverified(_)), "{}", trial.name());
    }
    assert_eq!(on_one(Trial::Handshake, blind), Verdict::Passed);
}
