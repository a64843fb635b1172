//! Tests that controllers receive each event once, in order and with the right values.

use crate::common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{config, events, named, record, recorded, Action, Pair, MS};
use fathom_cc::testing::{Event, Log};
use fathom_cc::{
    Capabilities, Cause, Controller, ControllerConfig, Missing, PathChange, Start, Time,
};

const ONE_WAY: Duration = Duration::from_millis(20);

/// Returns an idle connection whose client's controller is recorded, and the number of its events
/// so far.
fn idle(name: &str) -> (Pair, Log, usize) {
    let (algorithm, log) = recorded(name);
    let pair =
        Pair::connected(&mut config(algorithm), &mut config(named("fathom:reno")), [ONE_WAY; 2]);
    let seen = log.records().len();
    (pair, log, seen)
}

/// Applies `filter` to the client's 1-RTT packets from now on, numbered from 0. Packets without an
/// action pass as usual.
fn treat(pair: &mut Pair, filter: impl Fn(usize) -> Option<Action> + 'static) {
    let first = pair.wire.iter().filter(|d| d.from_client).count();
    pair.filter = Box::new(move |d| {
        let own = d.number.checked_sub(first).filter(|_| d.from_client).and_then(&filter);
        own.unwrap_or(Action::Pass(d.ecn))
    });
}

fn losses(events: &[Event]) -> Vec<(Time, Time, u64, bool)> {
    let loss = |e: &Event| match e {
        Event::CongestionEvent(s) => match s.cause {
            Cause::Loss { bytes, persistent } => Some((s.now, s.sent, bytes, persistent)),
            Cause::Mark => None,
        },
        _ => None,
    };
    events.iter().filter_map(loss).collect()
}

fn undos(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::Undo(_))).count()
}

#[test]
fn reported_bytes_in_flight_equal_sent_minus_acked_and_lost() {
    let (mut pair, log, seen) = idle("reno");
    treat(&mut pair, |n| [40, 41, 90].contains(&n).then_some(Action::Drop));
    pair.client.to_write.push((0, 400_000));
    assert!(pair.run(10_000, |pair| pair.server.read == 400_000));
    pair.run(300, |_| false);
    let (mut flight, mut batches) = (0_i64, 0);
    let mut acked_at = None;
    for event in &events(&log)[seen..] {
        match event {
            Event::Sent(sent) => flight += sent.bytes as i64,
            Event::AckEvent { now, packets, in_flight, .. } => {
                batches += 1;
                flight -= packets.iter().map(|p| p.bytes as i64).sum::<i64>();
                assert_eq!(*in_flight as i64, flight, "at {now:?}");
                assert!(packets.is_sorted_by_key(|p| p.sent) && !packets.is_empty());
                acked_at = Some(*now);
            }
            Event::CongestionEvent(congestion_event) => {
                assert_eq!(
                    acked_at,
                    Some(congestion_event.now),
                    "an ACK frame shows these losses, and comes first"
                );
                let Cause::Loss { bytes, .. } = congestion_event.cause else {
                    panic!("no marks here")
                };
                flight -= bytes as i64;
            }
            _ => {}
        }
    }
    assert_eq!(flight, 0, "everything sent was acknowledged or lost");
    let frames = pair.wire.iter().filter(|d| !d.from_client).count();
    assert!(batches > 100 && batches <= frames, "{batches} batches of {frames} packets");
}

#[test]
fn loss_event_reports_lost_bytes_and_send_time() {
    let (mut pair, log, seen) = idle("reno");
    let before = pair.wire.iter().filter(|d| d.from_client).count();
    treat(&mut pair, |n| [3, 4].contains(&n).then_some(Action::Drop));
    pair.client.to_write.push((0, 60_000));
    assert!(pair.run(5_000, |pair| pair.server.read == 60_000));
    let gone: Vec<_> = pair
        .wire
        .iter()
        .filter(|d| d.from_client && [before + 3, before + 4].contains(&d.number))
        .collect();
    let bytes: u64 = gone.iter().map(|d| d.bytes.len() as u64).sum();
    let events = events(&log);
    let lost = losses(&events[seen..]);
    assert_eq!(lost.iter().map(|l| l.2).sum::<u64>(), bytes);
    assert_eq!(
        lost.iter().map(|l| l.1).max(),
        Some(Time::from_nanos(gone[1].at.as_nanos() as u64))
    );
    assert!(lost.iter().all(|l| !l.3), "not persistent");
    assert_eq!(undos(&events), 0);
}

#[test]
fn quiche_uses_the_controllers_window_at_every_step() {
    for name in ["reno", "cubic", "sync", "vegas", "packet-size"] {
        let (mut pair, log, _) = idle(name);
        pair.rate = Some(2_000_000);
        treat(&mut pair, |n| (n % 97 == 13).then_some(Action::Drop));
        pair.client.to_write.push((0, 600_000));
        let done = pair.run(60_000, |pair| {
            let window = log.records().last().map(|r| r.params.window as usize);
            assert_eq!(
                pair.client.conn.path_stats().next().map(|p| p.cwnd),
                window,
                "{name} at {:?}",
                pair.elapsed()
            );
            pair.server.read == 600_000
        });
        assert!(done, "{name}");
    }
}

#[test]
fn probe_timeouts_are_counted_and_reset() {
    let (mut pair, log, seen) = idle("reno");
    let blackout = pair.elapsed() + Duration::from_secs(2);
    pair.filter =
        Box::new(
            move |d| if d.from_client && d.at < blackout { Action::Drop } else { Action::Pass(0) },
        );
    pair.client.to_write.push((0, 30_000));
    assert!(pair.run(10_000, |pair| pair.server.read == 30_000));
    pair.run(1_000, |_| false);
    treat(&mut pair, |n| (n == 0).then_some(Action::Drop));
    pair.client.to_write.push((4, 500));
    assert!(pair.run(2_000, |pair| pair.server.read == 30_500));
    let probes: Vec<_> = events(&log)[seen..]
        .iter()
        .filter_map(|e| {
            if let Event::ProbeTimeout(now, count) = e {
                Some((*now, *count))
            } else {
                None
            }
        })
        .collect();
    let counts: Vec<_> = probes.iter().map(|p| p.1).collect();
    // About 70 ms, doubled each time: 0.07, 0.2, 0.5, 1.0, 2.1 s after the start. The last count
    // belongs to the second outage.
    assert!(
        counts.len() >= 5 && counts[..counts.len() - 1].iter().copied().eq(1..counts.len() as u32),
        "{counts:?}"
    );
    assert_eq!(counts.last(), Some(&1), "{counts:?}");
    let gap = |i: usize| probes[i + 1].0.since(probes[i].0).as_secs_f64();
    assert!((gap(2) / gap(1) - 2.0).abs() < 0.1, "backs off: {probes:?}");
}

/// Drops all packets of the client for `blackout`, from its first packet on. `blackout` receives
/// the probe timeout. Returns whether a loss was reported as persistent, and the number of losses.
fn blackout(blackout: impl Fn(Duration) -> Duration) -> (bool, usize) {
    let (mut pair, log, seen) = idle("reno");
    let path = pair.client.conn.path_stats().next().expect("a path");
    // RFC 9002 §6.2.1, with the 25 ms for which the peer may delay an ACK.
    let timeout = path.rtt + (4 * path.rttvar).max(MS) + 25 * MS;
    let end = pair.elapsed() + blackout(timeout);
    pair.filter =
        Box::new(move |d| if d.from_client && d.at < end { Action::Drop } else { Action::Pass(0) });
    pair.client.to_write.push((0, 30_000));
    assert!(pair.run(20_000, |pair| pair.server.read == 30_000));
    let lost = losses(&events(&log)[seen..]);
    (lost.iter().any(|l| l.3), lost.len())
}

#[test]
fn only_a_long_blackout_is_persistent_congestion() {
    // Packets leave at 0, 1, 3 and 7 timeouts, and arrive at the next of these. Three timeouts must
    // lie between two lost packets.
    assert!(blackout(|t| t * 8).0, "lost at 0 and at 7");
    let (persistent, lost) = blackout(|t| t * 2);
    assert!(lost > 0 && !persistent, "lost at 0 and at 1");
    // RFC 9002 §7.6.1: more than three.
    let (persistent, lost) = blackout(|t| t * 5 / 2);
    assert!(lost > 0 && !persistent, "still lost at 0 and at 1 only");
}

#[test]
fn spurious_loss_is_undone() {
    let (mut pair, log, seen) = idle("reno");
    treat(&mut pair, |n| [2, 3].contains(&n).then_some(Action::Late(8 * MS)));
    pair.client.to_write.push((0, 12_000));
    pair.run(500, |_| false);
    assert_eq!(pair.server.read, 12_000);
    let events = events(&log);
    assert!(!losses(&events[seen..]).is_empty(), "reordering by eight packets looks like loss");
    assert_eq!(undos(&events), 1);
}

#[test]
fn window_reduction_with_one_real_loss_is_not_undone() {
    let (mut pair, log, seen) = idle("reno");
    treat(&mut pair, |n| match n {
        2 => Some(Action::Late(8 * MS)),
        3 => Some(Action::Drop),
        _ => None,
    });
    pair.client.to_write.push((0, 12_000));
    pair.run(500, |_| false);
    assert_eq!(pair.server.read, 12_000);
    let events = events(&log);
    assert!(!losses(&events[seen..]).is_empty());
    assert_eq!(undos(&events), 0);
}

#[test]
fn late_packet_of_an_earlier_loss_undoes_nothing() {
    let (algorithm, log) = recorded("reno");
    let mut pair =
        Pair::connected(&mut config(algorithm), &mut config(named("fathom:reno")), [50 * MS; 2]);
    let seen = log.records().len();
    // The path gets shorter. The smoothed RTT, for which quiche remembers lost packets, follows
    // slowly.
    pair.delays = [10 * MS; 2];
    let start = pair.elapsed();
    let mut dropped = false;
    pair.filter = Box::new(move |d| {
        let since = d.at.saturating_sub(start);
        if d.from_client && since.is_zero() && d.number % 7 == 3 && d.is_short() {
            Action::Late(25 * MS)
        } else if d.from_client && since >= 21 * MS && !dropped {
            dropped = true;
            Action::Drop
        } else {
            Action::Pass(0)
        }
    });
    pair.client.to_write.push((0, 11_000));
    pair.run(21, |_| false);
    pair.client.to_write.push((4, 40_000));
    pair.run(1_000, |_| false);
    let events = events(&log);
    let lost = losses(&events[seen..]);
    assert!(lost.len() >= 2 && lost[1].1 > lost[0].0, "two episodes: {lost:?}");
    assert_eq!(pair.server.read, 51_000);
    assert_eq!(undos(&events), 0, "the second loss was real");
}

/// Configuration that records the datagram size with which its controllers start.
#[derive(Debug)]
struct Starts(Arc<dyn ControllerConfig>, Arc<Mutex<Vec<u16>>>);

impl ControllerConfig for Starts {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn spec(&self) -> String {
        self.0.spec()
    }
    fn required(&self) -> Capabilities {
        self.0.required()
    }
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.1.lock().expect("nobody panicked").push(start.datagram);
        self.0.start(start)
    }
}

/// Runs path MTU discovery up to 1400 bytes on a path whose MTU is `path`. Returns the datagram
/// sizes with which controllers start, and the datagram sizes that are reported later.
fn discovered(path: usize) -> (Vec<u16>, Vec<u16>) {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let reno = fathom_cc::catalogue::parse("reno").expect("a controller");
    let (algorithm, log) = record(Arc::new(Starts(reno, Arc::clone(&starts))));
    let mut client = config(algorithm);
    client.discover_pmtu(true);
    client.set_max_send_udp_payload_size(1_400);
    let mut server = config(named("fathom:reno"));
    server.set_max_recv_udp_payload_size(1_500);
    let mut pair = Pair::new(&mut client, &mut server, [ONE_WAY; 2]);
    pair.filter =
        Box::new(move |d| if d.bytes.len() > path { Action::Drop } else { Action::Pass(0) });
    assert!(pair.run(2_000, |pair| pair.client.conn.is_established()));
    for stream in 0..60 {
        pair.client.to_write.push((4 * stream, 10_000));
        pair.run(300, |_| false);
    }
    assert_eq!(pair.server.read, 600_000);
    let reported = events(&log)
        .into_iter()
        .filter_map(|e| {
            if let Event::Path(_, PathChange::Datagram(size)) = e {
                Some(size)
            } else {
                None
            }
        })
        .collect();
    let started = starts.lock().expect("nobody panicked").clone();
    assert_eq!(losses(&events(&log)), [], "a probe that is too large does not count as a loss");
    (started, reported)
}

#[test]
fn datagram_size_is_reported_when_mtu_discovery_confirms_it() {
    assert_eq!(discovered(1_500), (vec![1_200], vec![1_400]));
    let (started, reported) = discovered(1_300);
    assert_eq!(started, [1_200]);
    assert!(reported.is_sorted_by(|a, b| a < b), "each once, growing: {reported:?}");
    assert_eq!(reported.last(), Some(&1_300), "{reported:?}");
}
