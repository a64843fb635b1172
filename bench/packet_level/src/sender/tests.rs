use std::time::Duration;

use fathom_cc::testing::{Event, Fixed, Log, Null, Recording};
use fathom_cc::{OneWayDelay, Pacing, Rate};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::{AckOptions, Ranges, Receiver};

/// A full packet carries 1000 stream bytes.
const FULL: u16 = 1_000 + HEADER;

const OPTIONS: SenderOptions = SenderOptions {
    packet: FULL,
    max_window: None,
    max_ack_delay: Duration::from_millis(25),
    handshake: false,
    ecn: false,
};

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// Returns a sender with a fixed window in packets, and a log of all reports to its controller
/// except packets sent.
fn sender(window: u64, options: SenderOptions) -> (Sender, Log) {
    let log = Log::new(1_000);
    let null = Null { window: window * u64::from(FULL) };
    (Sender::new(Box::new(Recording::new(Box::new(null), log.clone())), options), log)
}

fn recorded(log: &Log) -> Vec<String> {
    let line = |event| match event {
        Event::Sent(_) | Event::Undo(_) | Event::Path(..) => None,
        Event::AckEvent { packets, in_flight, .. } => {
            Some(format!("acks {} leave {in_flight}", packets.len()))
        }
        Event::CongestionEvent(CongestionEvent {
            cause: Cause::Loss { bytes, persistent },
            ..
        }) => Some(format!("lost {bytes}{}", if persistent { " persistent" } else { "" })),
        Event::CongestionEvent(CongestionEvent { cause: Cause::Mark, sent, .. }) => {
            Some(format!("mark of {sent:?}"))
        }
        Event::ProbeTimeout(_, count) => Some(format!("timeout {count}")),
    };
    log.records().into_iter().filter_map(|r| line(r.event)).collect()
}

/// Sends all that may be sent now and returns the packet numbers.
fn send(s: &mut Sender, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| s.poll_send(now)).map(|p| p.number).collect()
}

fn ack(ranges: &[(u32, u32)]) -> Ack {
    let received = ranges.iter().map(|(first, last)| last - first + 1).sum();
    let one_way = OneWayDelay::from_nanos(0);
    Ack { ranges: Ranges::from_slice(ranges), delay: Duration::ZERO, one_way, received, ce: 0 }
}

#[test]
fn sending_stops_at_the_window_and_last_packet_is_short() {
    let (mut s, _) = sender(4, OPTIONS);
    s.offer(5_500);
    assert_eq!(send(&mut s, at(0)), [0, 1, 2, 3]);
    s.on_ack(at(100), &ack(&[(0, 1)]));
    let last: Vec<Packet> = std::iter::from_fn(|| s.poll_send(at(100))).collect();
    assert_eq!(
        last.iter().map(|p| (p.number, p.size)).collect::<Vec<_>>(),
        [(4, FULL), (5, 500 + HEADER)]
    );
    s.on_ack(at(200), &ack(&[(0, 5)]));
    assert!(s.is_done());
    assert_eq!((s.counts().delivered, s.in_flight(), s.timeout()), (5_500, 0, None));

    let (mut s, _) = sender(4, SenderOptions { max_window: Some(2), ..OPTIONS });
    s.offer(9_000);
    assert_eq!(send(&mut s, at(0)), [0, 1]);
}

#[test]
fn packet_is_declared_lost_after_three_newer_packets_are_acked() {
    let (mut s, log) = sender(6, OPTIONS);
    s.offer(6_000);
    for n in 0..6 {
        assert_eq!(s.poll_send(at(n)).map(|p| u64::from(p.number)), Some(n));
    }
    s.on_ack(at(100), &ack(&[(1, 2)]));
    assert_eq!(
        recorded(&log),
        [format!("acks 2 leave {}", 4 * FULL)],
        "two packets later it is not lost yet"
    );
    s.on_ack(at(101), &ack(&[(1, 3)]));
    // The acknowledgement is reported before the losses; its bytes in flight still include the lost
    // packets.
    assert_eq!(recorded(&log)[1..], [format!("acks 1 leave {}", 3 * FULL), format!("lost {FULL}")]);
    assert_eq!(s.counts().lost, 1);
    assert_eq!(send(&mut s, at(101)), [6]);
    // An acknowledgement of the lost packet comes too late to count.
    s.on_ack(at(150), &ack(&[(0, 5)]));
    assert!(!s.is_done());
    s.on_ack(at(201), &ack(&[(0, 6)]));
    assert!(s.is_done());
    assert_eq!(s.counts().delivered, 6_000);
}

#[test]
fn packet_is_lost_after_nine_eighths_of_an_rtt() {
    let (mut s, log) = sender(2, OPTIONS);
    s.offer(2_000);
    assert_eq!(send(&mut s, at(0)), [0, 1]);
    s.on_ack(at(100), &ack(&[(1, 1)]));
    assert_eq!(s.timeout(), Some(Time::from_micros(112_500)));
    s.on_timeout(Time::from_micros(112_499));
    assert_eq!(s.counts().lost, 0);
    s.on_timeout(Time::from_micros(112_500));
    assert_eq!(recorded(&log)[1..], [format!("lost {FULL}")]);
    assert_eq!(send(&mut s, at(113)), [2]);
}

#[test]
fn probe_timeouts_double_and_resend_the_oldest_data() {
    let (mut s, log) = sender(2, OPTIONS);
    s.offer(2_000);
    assert_eq!(send(&mut s, at(0)), [0, 1]);
    // Without an RTT sample: 333 + 4 * 166.5 + 25 ms.
    assert_eq!(s.timeout(), Some(at(1_024)));
    s.on_timeout(at(1_024));
    assert_eq!(send(&mut s, at(1_024)), [2, 3], "probes go beyond the window");
    assert_eq!(s.timeout(), Some(at(1_024 + 2_048)));
    s.on_timeout(at(3_072));
    assert_eq!(send(&mut s, at(3_072)), [4, 5]);
    assert_eq!(s.timeout(), Some(at(3_072 + 4_096)));
    assert_eq!(recorded(&log), ["timeout 1", "timeout 2"]);
    // All packets arrived, and every byte is counted once.
    s.on_ack(at(3_172), &ack(&[(0, 5)]));
    assert_eq!((s.counts().delivered, s.is_done(), s.in_flight()), (2_000, true, 0));
    assert_eq!(s.counts().probe_timeouts, 2);
    // The timeout count is back at zero: the first sample is 100 ms, so the timeout is 100 + 4 *
    // 50 + 25 ms.
    s.offer(1_000);
    send(&mut s, at(4_000));
    assert_eq!(s.timeout(), Some(at(4_325)));
}

#[test]
fn probe_carries_new_data_before_old_data() {
    let (mut s, _) = sender(2, OPTIONS);
    s.offer(2_000);
    send(&mut s, at(0));
    s.offer(1_000);
    s.on_timeout(at(1_024));
    assert_eq!(send(&mut s, at(1_024)), [2, 3]);
    // Packet 2 carries bytes 2000 to 2999, and packet 3 carries the first thousand bytes. Together
    // with packet 1, all data arrived.
    s.on_ack(at(1_100), &ack(&[(1, 3)]));
    assert!(s.is_done());
}

/// Simulates one RTT sample of 100 ms, then silence with three probe timeouts, then an
/// acknowledgement of `ranges`.
fn after_silence(ranges: &[(u32, u32)]) -> Vec<String> {
    let (mut s, log) = sender(1, OPTIONS);
    s.offer(100_000);
    send(&mut s, at(0));
    s.on_ack(at(100), &ack(&[(0, 0)]));
    assert_eq!(send(&mut s, at(100)), [1]);
    for (timeout, probes) in [(425, [2, 3]), (1_075, [4, 5]), (2_375, [6, 7])] {
        assert_eq!(s.timeout(), Some(at(timeout)));
        s.on_timeout(at(timeout));
        assert_eq!(send(&mut s, at(timeout)), probes);
    }
    s.on_ack(at(2_475), &ack(ranges));
    recorded(&log).into_iter().filter(|line| line.starts_with("lost")).collect()
}

#[test]
fn persistent_congestion_needs_losses_over_three_probe_timeouts() {
    // Packets 1 to 5 were sent from 100 to 1075 ms. Three timeouts after the second sample are 3 *
    // (100 + 4 * 37.5 + 25) = 825 ms.
    assert_eq!(after_silence(&[(7, 7), (0, 0)]), [format!("lost {} persistent", 5 * FULL)]);
    // With an acknowledged packet in the middle, the longest sequence of losses is that of packets
    // 1 and 2, which were sent 325 ms apart. Packets 4 and 5 were sent together.
    assert_eq!(after_silence(&[(7, 7), (3, 3), (0, 0)]), [format!("lost {}", 4 * FULL)]);
}

#[test]
fn losses_before_first_rtt_are_not_persistent_congestion() {
    let (mut s, log) = sender(1, OPTIONS);
    s.offer(100_000);
    send(&mut s, at(0));
    for timeout in [1_024, 3_072, 7_168] {
        s.on_timeout(at(timeout));
        send(&mut s, at(timeout));
    }
    s.on_ack(at(7_200), &ack(&[(6, 6)]));
    assert_eq!(recorded(&log).last(), Some(&format!("lost {}", 5 * FULL)));
}

#[test]
fn newly_reported_ecn_marks_are_a_congestion_event() {
    let (mut s, log) = sender(4, SenderOptions { ecn: true, ..OPTIONS });
    s.offer(4_000);
    for n in 0..4 {
        s.poll_send(at(n));
    }
    s.on_ack(at(100), &Ack { ce: 1, ..ack(&[(0, 1)]) });
    s.on_ack(at(110), &Ack { ce: 1, ..ack(&[(0, 3)]) });
    let marks: Vec<String> =
        recorded(&log).into_iter().filter(|line| line.starts_with("mark")).collect();
    assert_eq!(marks, [format!("mark of {:?}", at(1))]);
    let ecn = log.records().into_iter().filter_map(|r| match r.event {
        Event::AckEvent { ecn, .. } => ecn,
        _ => None,
    });
    let expected = [EcnDelta { ect0: 1, ect1: 0, ce: 1 }, EcnDelta { ect0: 2, ect1: 0, ce: 0 }];
    assert_eq!(ecn.collect::<Vec<_>>(), expected);
}

#[test]
fn ack_event_reports_whether_the_application_limits_sending() {
    for (offered, limited) in [(4_000, true), (5_000, false)] {
        let (mut s, log) = sender(5, OPTIONS);
        s.offer(offered);
        send(&mut s, at(0));
        s.on_ack(at(100), &ack(&[(0, 0)]));
        let app_limited = log.records().into_iter().find_map(|r| match r.event {
            Event::AckEvent { app_limited, .. } => Some(app_limited),
            _ => None,
        });
        assert_eq!(app_limited, Some(limited), "{offered} bytes in a window of 5000");
    }
}

/// Returns a controller with a fixed window and pacing.
fn paced(window: u64, pacing: Pacing) -> Box<Fixed> {
    Box::new(Fixed::new(SendParams { pacing, ..SendParams::window(window) }))
}

#[test]
fn sender_keeps_the_requested_pacing_rate() {
    // The rate is 1035 bytes every 10 ms.
    let rate = Pacing::Rate(Rate::from_bits_per_sec(828_000));
    let mut s = Sender::new(paced(10_000, rate), OPTIONS);
    s.offer(10_000);
    assert_eq!(send(&mut s, at(0)), [0]);
    assert_eq!(s.timeout(), Some(at(10)));
    s.on_timeout(at(10));
    assert_eq!((send(&mut s, at(10)), s.counts().probe_timeouts), (vec![1], 0));

    // A window of 4 packets over an RTT of 100 ms and a pacing delay of 20 ms: packets are 30 ms
    // apart.
    let hold = Pacing::Delay(Duration::from_millis(20));
    let mut s = Sender::new(paced(4 * u64::from(FULL), hold), OPTIONS);
    s.offer(10_000);
    assert_eq!(send(&mut s, at(0)), [0, 1, 2, 3], "without an RTT there is nothing to stretch");
    s.on_ack(at(100), &ack(&[(0, 3)]));
    assert_eq!(send(&mut s, at(100)), [4]);
    assert_eq!(s.timeout(), Some(at(130)));
}

#[test]
fn sender_holds_data_until_the_handshake_completes() {
    let (mut s, log) = sender(4, SenderOptions { handshake: true, ..OPTIONS });
    assert_eq!(s.poll_send(at(0)), None, "nothing to send, no connection");
    s.offer(2_000);
    assert_eq!(s.poll_send(at(0)).map(|p| (p.number, p.size)), Some((0, FULL)));
    assert_eq!((s.poll_send(at(0)), s.timeout()), (None, Some(at(1_024))));
    s.on_timeout(at(1_024));
    assert_eq!(s.poll_send(at(1_024)).map(|p| (p.number, p.size)), Some((1, FULL)));
    assert_eq!(s.poll_send(at(1_024)), None);
    s.on_ack(at(1_054), &ack(&[(1, 1)]));
    assert_eq!(send(&mut s, at(1_054)), [2, 3]);
    s.on_ack(at(1_084), &ack(&[(1, 3)]));
    assert!(s.is_done() && s.counts().delivered == 2_000);
    assert!(recorded(&log).contains(&format!("lost {FULL}")), "the first handshake packet");
}

#[test]
fn new_connection_keeps_only_the_counters_of_the_old_one() {
    let (mut s, _) = sender(2, OPTIONS);
    s.offer(2_000);
    send(&mut s, at(0));
    s.on_ack(at(100), &ack(&[(0, 1)]));
    s.restart(Box::new(Null { window: u64::from(FULL) }));
    assert!(s.is_done() && s.timeout().is_none());
    s.offer(2_000);
    assert_eq!(send(&mut s, at(1_000)), [0]);
    assert_eq!(s.timeout(), Some(at(2_024)), "the RTT of the old connection lives on");
    assert_eq!((s.counts().sent, s.counts().delivered), (3, 2_000));
}

/// Removes the first item if its time has come.
fn due<T>(queue: &mut VecDeque<(Time, T)>, now: Time) -> Option<(Time, T)> {
    if queue.front().is_some_and(|(at, _)| *at <= now) { queue.pop_front() } else { None }
}

/// Path of 20 ms each way that keeps order and loses packets and acknowledgements at random.
#[test]
fn every_byte_arrives_once_despite_losses() {
    for seed in 0..20 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let loss = f64::from(seed as u32 % 5) * 0.1;
        let (mut s, _) = sender(12, OPTIONS);
        let mut r = Receiver::new(AckOptions::default());
        let (mut data, mut acks) =
            (VecDeque::<(Time, Packet)>::new(), VecDeque::<(Time, Ack)>::new());
        let offered = 300_123;
        s.offer(offered);
        let mut now = at(0);
        while !s.is_done() {
            while let Some(p) = s.poll_send(now) {
                if rng.random::<f64>() >= loss {
                    data.push_back((now + Duration::from_millis(20), p));
                }
            }
            let carried: u64 =
                s.flight.iter().filter(|p| !p.acked).map(|p| u64::from(p.carries)).sum();
            let in_flight: u64 =
                s.flight.iter().filter(|p| !p.acked).map(|p| u64::from(p.size)).sum();
            assert_eq!((s.carried, s.in_flight), (carried, in_flight), "seed {seed}");
            assert_eq!(s.pending + s.carried + s.counts.delivered, offered, "seed {seed}");
            let next =
                [data.front().map(|d| d.0), acks.front().map(|a| a.0), r.timeout(), s.timeout()];
            now = next
                .into_iter()
                .flatten()
                .min()
                .expect("a sender that is not done waits for something")
                .max(now);
            assert!(now < at(3_600_000), "seed {seed}: no progress");
            let mut acknowledge = r.timeout().is_some_and(|t| t <= now);
            if let Some((_, p)) = due(&mut data, now) {
                acknowledge |= r.on_data(now, p.number, p.sent, false);
            }
            if acknowledge {
                let ack = r.ack(now);
                if rng.random::<f64>() >= loss {
                    acks.push_back((now + Duration::from_millis(20), ack));
                }
            }
            if let Some((_, a)) = due(&mut acks, now) {
                s.on_ack(now, &a);
            }
            if s.timeout().is_some_and(|t| t <= now) {
                s.on_timeout(now);
            }
        }
        assert_eq!(s.counts().delivered, offered, "seed {seed}");
        assert_eq!(s.counts().lost > 0, loss > 0.0, "seed {seed}: {:?}", s.counts());
    }
}
