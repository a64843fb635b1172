//! Tests that ECN marks are counted and reported, and that quiche stops sending ECT on a path that
//! does not carry marks.

use crate::common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{config, events, named, recorded, Action, Pair, MS};
use fathom_cc::testing::{Event, Log};
use fathom_cc::{Cause, Time};

const CE: u8 = 3;

fn pair() -> (Pair, Log) {
    let (algorithm, log) = recorded("reno");
    (Pair::connected(&mut config(algorithm), &mut config(named("fathom:reno")), [20 * MS; 2]), log)
}

fn marks(log: &Log) -> Vec<(Time, Time)> {
    let mark = |e| match e {
        Event::CongestionEvent(s) if s.cause == Cause::Mark => Some((s.now, s.sent)),
        _ => None,
    };
    events(log).into_iter().filter_map(mark).collect()
}

fn upload(pair: &mut Pair, stream: u64, bytes: usize) {
    let before = pair.server.read;
    pair.client.to_write.push((stream, bytes));
    assert!(pair.run(30_000, |pair| pair.server.read == before + bytes), "{}", pair.server.read);
    pair.run(200, |_| false);
}

#[test]
fn every_ecn_mark_is_reported_once_by_ack_frames() {
    let (mut pair, log) = pair();
    assert!(pair.wire.iter().all(|d| d.ecn == 2), "ECT(0) from the first packet on");
    let marked = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&marked);
    pair.filter = Box::new(move |d| {
        if d.from_client && d.number % 23 == 5 {
            seen.borrow_mut().push(d.at);
            return Action::Pass(CE);
        }
        Action::Pass(d.ecn)
    });
    upload(&mut pair, 0, 300_000);
    let marked = marked.borrow();
    let reported: u64 = events(&log)
        .iter()
        .filter_map(|e| {
            if let Event::AckEvent { ecn, .. } = e {
                ecn.map(|delta| delta.ce)
            } else {
                None
            }
        })
        .sum();
    assert_eq!(reported, marked.len() as u64, "counts");
    // Here the server acknowledges every packet individually. Each mark is thus alone in its frame,
    // and the marked packet is the newest.
    let seen = marks(&log);
    let expected: Vec<_> = marked.iter().map(|at| Time::from_nanos(at.as_nanos() as u64)).collect();
    assert_eq!(seen.iter().map(|m| m.1).collect::<Vec<_>>(), expected);
    assert!(seen.iter().all(|(now, sent)| now.since(*sent) >= 40 * MS));
    assert!(pair.wire.iter().all(|d| d.ecn == 2), "marking goes on");
}

#[test]
fn several_ecn_marks_in_one_ack_are_one_congestion_event() {
    let (mut pair, log) = pair();
    let from = pair.elapsed();
    // Acknowledgements are lost for a while, so that one frame reports all marks.
    pair.filter = Box::new(move |d| match d.from_client {
        true => Action::Pass(CE),
        false if d.at < from + 30 * MS => Action::Drop,
        false => Action::Pass(0),
    });
    let seen = log.records().len();
    pair.client.to_write.push((0, 6_000));
    pair.run(25, |_| false);
    pair.client.to_write.push((4, 1_000));
    pair.run(300, |_| false);
    let events = &events(&log)[seen..];
    let acks = events.iter().position(|e| matches!(e, Event::AckEvent { .. })).expect("a batch");
    let Event::AckEvent { packets, ecn, now, .. } = &events[acks] else { unreachable!() };
    assert!(packets.len() >= 6 && ecn.is_some_and(|e| e.ce >= 6), "{packets:?} {ecn:?}");
    let Event::CongestionEvent(next) = &events[acks + 1] else { panic!("{:?}", events[acks + 1]) };
    assert_eq!((next.cause, next.now), (Cause::Mark, *now));
    assert_eq!(Some(next.sent), packets.iter().map(|p| p.sent).max());
}

#[test]
fn quiche_stops_sending_ect_if_the_path_clears_marks() {
    let (algorithm, log) = recorded("reno");
    let mut pair =
        Pair::new(&mut config(algorithm), &mut config(named("fathom:reno")), [20 * MS; 2]);
    pair.filter = Box::new(|_| Action::Pass(0));
    assert!(pair.run(2_000, |pair| pair.client.conn.is_established()));
    pair.run(200, |_| false);
    upload(&mut pair, 0, 50_000);
    let last = pair.elapsed();
    upload(&mut pair, 4, 50_000);
    assert!(
        pair.shorts(last).all(|d| d.ecn == 0),
        "nothing is marked after the first acknowledgements"
    );
    assert!(pair.wire.first().is_some_and(|d| d.ecn == 2));
    assert_eq!(marks(&log), []);
}

#[test]
fn quiche_stops_sending_ect_if_the_path_rewrites_all_to_ect1() {
    let (mut pair, log) = pair();
    pair.filter = Box::new(|d| Action::Pass(if d.from_client { 1 } else { d.ecn }));
    upload(&mut pair, 0, 20_000);
    let last = pair.elapsed();
    upload(&mut pair, 4, 20_000);
    assert!(pair.shorts(last).all(|d| d.ecn == 0));
    assert_eq!(marks(&log), []);
}

#[test]
fn path_that_drops_ect_packets_is_used_without_ecn() {
    let mut pair = Pair::new(
        &mut config(named("fathom:reno")),
        &mut config(named("fathom:reno")),
        [20 * MS; 2],
    );
    pair.filter = Box::new(|d| if d.ecn == 0 { Action::Pass(0) } else { Action::Drop });
    // The client has three probe timeouts from 1 s on (RFC 9002 §6.2.2), and then the server has
    // three.
    assert!(pair.run(30_000, |pair| pair.client.conn.is_established()), "never got through");
    upload(&mut pair, 0, 50_000);
    assert!(pair.elapsed() < Duration::from_secs(40), "{:?}", pair.elapsed());
}

#[test]
fn stock_algorithms_send_no_ect_but_count_marks() {
    let (algorithm, log) = recorded("reno");
    let stock = quiche::CongestionControlAlgorithm::CUBIC;
    let mut pair = Pair::connected(&mut config(algorithm), &mut config(stock), [20 * MS; 2]);
    pair.filter =
        Box::new(|d| Action::Pass(if d.from_client && d.number % 50 == 20 { CE } else { d.ecn }));
    upload(&mut pair, 0, 200_000);
    assert!(pair.wire.iter().all(|d| d.ecn == if d.from_client { 2 } else { 0 }));
    assert!(!marks(&log).is_empty(), "a stock server counts marks if configured to");
}
