//! Tests of scripted losses. The RFCs determine which segments leave at which time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fathom_cc::testing::{Event, Log, Null, Recording};
use fathom_cc::{Capabilities, OneWayDelay, Start, catalogue};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::{InitialWindow, RtoOptions, SackBlocks, TcpReceiver, TcpReceiverOptions};

mod handshake;
mod linux;
mod marks;
mod newreno;
mod rack;
mod sack;
mod timeouts;

/// Data bytes of a segment.
const MSS: u16 = 1_000;
/// One-way delay in milliseconds. Segments take no time to send, so segments sent together arrive
/// together.
const ONE_WAY: u64 = 50;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns options with segments of 1000 bytes, an initial window of ten segments as in Reno, and a
/// timeout of at least 200 ms.
fn options(recovery: LossRecovery) -> TcpOptions {
    let rto = RtoOptions { floor: ms(200), ..RtoOptions::default() };
    TcpOptions {
        mss: MSS,
        initial_window: InitialWindow::Segments(10),
        recovery,
        rto,
        ..TcpOptions::default()
    }
}

/// Returns Reno for segments of 1000 bytes; its initial window is ten segments.
fn reno() -> Box<dyn Controller> {
    let provided = Capabilities::NONE;
    catalogue::parse("reno")
        .unwrap()
        .start(&Start { now: Time::ZERO, datagram: MSS, provided })
        .unwrap()
}

/// Returns a controller with a fixed window in segments.
fn fixed(segments: u64) -> Box<dyn Controller> {
    Box::new(Null { window: segments * u64::from(MSS) })
}

/// Returns an ACK of everything before byte `ack`, with these SACK blocks.
fn ack_of(ack: u64, blocks: &[(u64, u64)]) -> TcpAck {
    let sack = SackBlocks::from_slice(blocks);
    TcpAck {
        ack,
        syn: false,
        ece: false,
        sack,
        echo: None,
        one_way: None,
        with_data: false,
        marks: None,
    }
}

/// Both ends of a connection, and a path that follows a script.
struct Path {
    s: TcpSender,
    r: TcpReceiver,
    log: Log,
    now: u64,
    data: VecDeque<(u64, TcpSegment, bool)>,
    acks: VecDeque<(u64, TcpAck)>,
    /// Segments to drop, as the segment number and the copy, counted from 1. A SYN has number -1.
    drops: Vec<(i64, u32)>,
    /// Segments to mark.
    marks: Vec<i64>,
    copies: BTreeMap<i64, u32>,
    /// Sent segments, as the millisecond and the segment number.
    sent: Vec<(u64, i64)>,
    segments: Vec<TcpSegment>,
    /// Sent ACKs, as the millisecond and the ACK number in segments.
    acked: Vec<(u64, u64)>,
}

impl Path {
    fn new(
        controller: Box<dyn Controller>,
        options: TcpOptions,
        every: u32,
        drops: &[(i64, u32)],
    ) -> Self {
        let log = Log::new(100_000);
        let r = TcpReceiver::new(TcpReceiverOptions {
            every,
            sack: options.has_sack(),
            dsack: options.recovery == LossRecovery::Rack,
            timestamps: options.timestamps,
            accurate_ecn: options.accurate_ecn,
            ..TcpReceiverOptions::default()
        });
        Self {
            s: TcpSender::new(Box::new(Recording::new(controller, log.clone())), options),
            r,
            log,
            now: 0,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            drops: drops.to_vec(),
            marks: Vec::new(),
            copies: BTreeMap::new(),
            sent: Vec::new(),
            segments: Vec::new(),
            acked: Vec::new(),
        }
    }

    /// Creates a path under Reno with every segment acknowledged and `segments` segments to send.
    fn reno(recovery: LossRecovery, segments: u64, drops: &[(i64, u32)]) -> Self {
        let mut path = Self::new(reno(), options(recovery), 1, drops);
        path.s.offer(segments * u64::from(MSS));
        path
    }

    fn send(&mut self) {
        while let Some(segment) = self.s.poll_send(at(self.now)) {
            let number = if segment.syn {
                -1
            } else {
                (segment.seq / u64::from(self.s.options.smss())) as i64
            };
            self.segments.push(segment);
            if segment.len == 0 && !segment.syn {
                self.data.push_back((self.now + ONE_WAY, segment, false));
                continue;
            }
            self.sent.push((self.now, number));
            let copy = self.copies.entry(number).or_default();
            *copy += 1;
            if !self.drops.contains(&(number, *copy)) {
                let marked = segment.ecn_capable && self.marks.contains(&number);
                self.data.push_back((self.now + ONE_WAY, segment, marked));
            }
        }
    }

    fn acknowledge(&mut self) {
        let ack = self.r.ack(at(self.now));
        self.acked.push((self.now, ack.ack / u64::from(self.s.options.smss())));
        self.acks.push_back((self.now + ONE_WAY, ack));
    }

    /// Returns the time of the next event in milliseconds.
    fn next(&self) -> Option<u64> {
        let timers = [self.r.timeout(), self.s.timeout()];
        let timers = timers.into_iter().flatten().map(|t| t.as_nanos().div_ceil(1_000_000));
        timers.chain(self.data.front().map(|d| d.0)).chain(self.acks.front().map(|a| a.0)).min()
    }

    /// Runs up to this millisecond or until nothing is left to do. Returns true in the second case.
    fn run(&mut self, until: u64) -> bool {
        loop {
            self.send();
            let next = self.next();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = until;
                return next.is_none();
            };
            self.now = next.max(self.now);
            if let Some((_, segment, marked)) = self.data.pop_front_if(|d| d.0 <= self.now) {
                if self.r.on_segment(at(self.now), &segment, marked) {
                    self.acknowledge();
                }
            } else if let Some((_, ack)) = self.acks.pop_front_if(|a| a.0 <= self.now) {
                self.s.on_ack(at(self.now), &ack);
            } else if self.r.timeout().is_some_and(|t| t <= at(self.now)) {
                self.acknowledge();
            } else {
                self.s.on_timeout(at(self.now));
            }
        }
    }

    /// Returns the numbers of the segments sent in this millisecond.
    fn at(&self, ms: u64) -> Vec<i64> {
        self.sent.iter().filter(|(t, _)| *t == ms).map(|(_, n)| *n).collect()
    }

    /// Returns all send times of a segment.
    fn times_of(&self, number: i64) -> Vec<u64> {
        self.sent.iter().filter(|(_, n)| *n == number).map(|(t, _)| *t).collect()
    }

    /// Returns the congestion events reported to the controller: millisecond and cause.
    fn events(&self) -> Vec<(u64, &'static str)> {
        let event = |event| match event {
            Event::CongestionEvent(e) if e.is_persistent() => {
                Some((e.now.as_nanos() / 1_000_000, "persistent"))
            }
            Event::CongestionEvent(e) if e.is_loss() => {
                Some((e.now.as_nanos() / 1_000_000, "loss"))
            }
            Event::CongestionEvent(e) => Some((e.now.as_nanos() / 1_000_000, "mark")),
            _ => None,
        };
        self.log.records().into_iter().filter_map(|r| event(r.event)).collect()
    }
}

/// RFC 5681 §3.1 and RFC 6928 §2. A smaller initial window grows by slow start up to the
/// controller's window.
#[test]
fn tcp_initial_window_is_configurable() {
    for (mss, expected) in [(500, 2_000), (1_460, 4_380), (4_000, 8_000)] {
        assert_eq!(InitialWindow::Rfc5681.bytes(mss), expected);
    }
    for (first, flights) in
        [(1, [1, 2, 4, 8, 16]), (2, [2, 4, 8, 16, 32]), (10, [10, 20, 40, 80, 160])]
    {
        let initial_window = InitialWindow::Segments(first);
        let mut p = Path::new(
            reno(),
            TcpOptions { initial_window, ..options(LossRecovery::NewReno) },
            1,
            &[],
        );
        p.s.offer(1_000_000);
        p.run(560);
        assert_eq!(
            [100, 200, 300, 400, 500].map(|t| p.at(t).len()),
            flights,
            "every ACK counts for a segment"
        );
    }
}

/// RFC 5681 §3.1, equations 2 and 3: in slow start an ACK counts for one segment, however many it
/// covers; RFC 9002 §7.3 counts bytes.
#[test]
fn delayed_acks_slow_window_growth_when_acks_are_counted() {
    for (counting, flights) in
        [(GrowthCounting::Acks, [10, 15, 21]), (GrowthCounting::Bytes, [10, 20, 40])]
    {
        let mut p =
            Path::new(reno(), TcpOptions { counting, ..options(LossRecovery::NewReno) }, 2, &[]);
        p.s.offer(1_000_000);
        p.run(360);
        assert_eq!([100, 200, 300].map(|t| p.at(t).len()), flights);
    }
}

/// RFC 9293 §3.8.6: no more than the receiver's window is sent; the window also counts data that
/// arrived behind a gap.
#[test]
fn tcp_sender_respects_the_receiver_window() {
    let most = TcpOptions { max_window: Some(4), ..options(LossRecovery::Sack) };
    let mut p = Path::new(reno(), most, 1, &[(4, 1)]);
    p.s.offer(12_000);
    p.run(250);
    assert_eq!((p.at(100), p.at(200)), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
    p.run(350);
    assert_eq!(p.at(300), [4], "5, 6 and 7 arrived, but 8 is more than four away");
}

/// RFC 5681 §4.1.
#[test]
fn idle_tcp_connection_restarts_with_the_initial_window() {
    for (restart_idle, flight) in [(true, 2), (false, 20)] {
        let initial_window = InitialWindow::Segments(2);
        let o = TcpOptions { initial_window, restart_idle, ..options(LossRecovery::NewReno) };
        let mut p = Path::new(fixed(20), o, 1, &[]);
        p.s.offer(60_000);
        assert!(p.run(5_000));
        p.s.offer(60_000);
        p.run(5_010);
        assert_eq!(p.at(5_000).len(), flight);
    }
}

/// A new connection begins with a SYN and keeps the counts of the old one.
#[test]
fn restarted_tcp_connection_keeps_its_counters() {
    let mut p = Path::reno(LossRecovery::NewReno, 10, &[]);
    assert!(p.run(1_000));
    p.s.restart(reno());
    assert!(p.s.is_done() && p.s.timeout().is_none());
    p.s.offer(1_000);
    assert!(p.s.poll_send(at(1_000)).is_some_and(|s| s.syn));
    assert_eq!((p.s.counts().sent, p.s.counts().delivered), (10, 10_000));
}

/// Sync-TCP §3.2: the timestamps option provides one-way delays and takes 12 bytes of each segment.
#[test]
fn tcp_timestamps_yield_one_way_delays() {
    let o = TcpOptions { timestamps: true, ..options(LossRecovery::NewReno) };
    let mut p = Path::new(fixed(4), o, 1, &[]);
    p.s.offer(988 * 4);
    assert!(p.run(1_000));
    assert!(p.segments.iter().all(|s| s.len == 0 || (s.len, s.size) == (988, 1_040)));
    let one_way = |event| match event {
        Event::AckEvent { one_way, .. } => Some(one_way.map(OneWayDelay::as_nanos)),
        _ => None,
    };
    let delays: Vec<_> = p.log.records().into_iter().filter_map(|r| one_way(r.event)).collect();
    assert_eq!(delays, [Some(50_000_000); 4]);
}

/// With random losses in both directions, every byte arrives once. Until all bytes have arrived,
/// the sender always waits for a timer or for a packet.
#[test]
fn every_tcp_byte_arrives_despite_losses() {
    let kinds = [LossRecovery::NewReno, LossRecovery::Sack, LossRecovery::Rack];
    for (seed, recovery) in (0..20).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let loss = f64::from(seed as u32 % 5) * 0.1;
        let timestamps = seed % 2 == 0;
        let mut p = Path::new(reno(), TcpOptions { timestamps, ..options(recovery) }, 2, &[]);
        let offered = 100_123;
        p.s.offer(offered);
        while !p.s.is_done() {
            let now = p.now;
            p.run(now);
            let lost = |rng: &mut Pcg64Mcg| rng.random::<f64>() < loss;
            // The script's queues hold the packets sent; drop from them at the time of sending.
            p.data.retain(|d| d.0 < now + ONE_WAY || !lost(&mut rng));
            p.acks.retain(|a| a.0 < now + ONE_WAY || !lost(&mut rng));
            let Some(next) = p.next() else { break };
            p.now = next;
            assert!(p.now < 7_200_000, "seed {seed}, {recovery:?}: {:?}", p.s);
        }
        assert_eq!(
            (p.r.received(), p.s.counts().delivered),
            (offered, offered),
            "seed {seed}, {recovery:?}"
        );
        assert_eq!(
            p.s.counts().retransmitted > 0,
            loss > 0.0,
            "seed {seed}, {recovery:?}: {:?}",
            p.s.counts()
        );
        assert_eq!(p.s.in_flight(), 0);
    }
}
