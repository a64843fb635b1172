//! Comparison with Linux, by packetdrill scenarios that are rewritten for this sender. The scripts
//! are from google/packetdrill, and each comment gives the path of its script below gtests/net.
//! Scripts named `selftests` are in tools/testing/selftests/net/packetdrill of torvalds/linux.
//! Segments have 1000 bytes and are numbered from 0.
//!
//! The tests assert the behaviour of this sender, under CUBIC as in the scripts. If Linux behaves
//! differently, the comment describes the difference. docs/validation.md lists all of them.

use super::*;

/// A connection over one round trip whose other end is a script.
pub(super) struct Script {
    pub(super) s: TcpSender,
    now: u64,
}

impl Script {
    /// Creates a connection with Linux's options: an initial window of ten segments, growth by
    /// acknowledged bytes, and a timeout of at least 200 ms.
    pub(super) fn new(recovery: LossRecovery, round_trip: u64) -> Self {
        Self::with(TcpOptions { counting: GrowthCounting::Bytes, ..options(recovery) }, round_trip)
    }

    pub(super) fn with(options: TcpOptions, round_trip: u64) -> Self {
        let start = Start { now: Time::ZERO, datagram: MSS, provided: Capabilities::NONE };
        let mut s =
            TcpSender::new(catalogue::parse("cubic").unwrap().start(&start).unwrap(), options);
        s.listen();
        s.accept(Some(ms(round_trip)));
        Self { s, now: 0 }
    }

    pub(super) fn after(&mut self, ms: u64) -> &mut Self {
        self.now += ms;
        self
    }

    /// Returns the segments that leave now.
    pub(super) fn leaves(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.s.poll_send(at(self.now)))
            .map(|s| s.seq / u64::from(MSS))
            .collect()
    }

    pub(super) fn write(&mut self, segments: u64) -> Vec<u64> {
        self.s.offer(segments * u64::from(MSS));
        self.leaves()
    }

    /// Delivers an ACK of everything before segment `next`, with blocks given as the first segment
    /// and the segment after the last. Returns the segments that leave in response.
    pub(super) fn ack(&mut self, next: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        let bytes = |n: u64| n * u64::from(MSS);
        let blocks: Vec<_> = blocks.iter().map(|(a, b)| (bytes(*a), bytes(*b))).collect();
        self.on_ack(&ack_of(bytes(next), &blocks))
    }

    pub(super) fn on_ack(&mut self, ack: &TcpAck) -> Vec<u64> {
        self.s.on_ack(at(self.now), ack);
        self.leaves()
    }

    /// Returns the segments that the timer releases within `ms`, each with the time since the start
    /// of the silence.
    pub(super) fn silence(&mut self, ms: u64) -> Vec<(u64, u64)> {
        let (begin, mut left) = (self.now, Vec::new());
        while let Some(due) = self.s.timeout().filter(|due| *due <= at(begin + ms)) {
            self.now = due.as_nanos().div_ceil(1_000_000);
            self.s.on_timeout(at(self.now));
            let now = self.now - begin;
            left.extend(self.leaves().into_iter().map(|n| (now, n)));
        }
        self.now = begin + ms;
        left
    }

    /// Returns cwnd in segments.
    pub(super) fn window(&self) -> u64 {
        self.s.window() / u64::from(MSS)
    }

    pub(super) fn rack_has_seen_reordering(&self) -> bool {
        self.s.rack.has_seen_reordering()
    }
}

pub(super) fn numbers(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

/// tcp/slow_start/slow-start-ack-per-1pkt, -ack-per-2pkt, -ack-per-4pkt: Linux sends ten segments.
/// Each ACK of 1, 2 or 4 segments then releases 2, 4 or 8 segments, up to a window of 20. This
/// sender does the same when it counts bytes. When it counts ACKs (RFC 5681 §3.1, equation 2), an
/// ACK counts for one segment.
#[test]
fn slow_start_grows_with_acks_of_one_two_and_four_segments() {
    for (every, by_bytes, by_acks) in [(1, 2, 2), (2, 4, 3), (4, 8, 5)] {
        for (counting, released) in
            [(GrowthCounting::Bytes, by_bytes), (GrowthCounting::Acks, by_acks)]
        {
            let mut s = Script::with(TcpOptions { counting, ..options(LossRecovery::Sack) }, 100);
            assert_eq!(s.write(30), numbers(0..10));
            s.after(105);
            assert_eq!(
                s.ack(every, &[]),
                numbers(10..10 + released),
                "{counting:?}, one ACK per {every}"
            );
            assert_eq!(s.ack(2 * every, &[]).len() as u64, released);
            (3..=10 / every).for_each(|n| drop(s.ack(n * every, &[])));
            s.ack(10, &[]);
            let grown = if counting == GrowthCounting::Bytes { 10 } else { 10_u64.div_ceil(every) };
            assert_eq!(s.window(), 10 + grown);
        }
    }
}

/// tcp/slow_start/slow-start-app-limited, -app-limited-9-packets-out, -ack-per-2pkt-send-6pkt,
/// -ack-per-2pkt-send-5pkt. In slow start Linux lets the window grow to twice the segments in
/// flight: 20, 18, 12 and 10 after 10, 9, 6 and 5 segments. This sender grows the window only by
/// ACKs received while the window was full, as in RFC 9002 §7.8.
#[test]
fn unused_window_does_not_grow() {
    for (segments, window) in [(10, 12), (9, 10), (6, 10), (5, 10)] {
        let mut s = Script::new(LossRecovery::Sack, 100);
        assert_eq!(s.write(segments), numbers(0..segments));
        s.after(105);
        for acked in (2..=segments).step_by(2).chain([segments]) {
            assert_eq!(s.ack(acked, &[]), []);
        }
        assert_eq!(s.window(), window, "{segments} segments");
    }
}

/// tcp/slow_start/slow-start-after-idle: a large window, two seconds of silence, then a window of
/// 10 (RFC 5681 §4.1). Linux sends five segments at once, half of the window; this sender sends all
/// ten.
#[test]
fn idle_time_restores_the_initial_window() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(26), numbers(0..10));
    assert_eq!(s.after(100).ack(10, &[]), numbers(10..26));
    assert_eq!((s.after(100).ack(26, &[]), s.window()), (vec![], 20));
    assert_eq!((s.after(2_000).write(20), s.window()), (numbers(26..36), 10));
}

/// tcp/fast_retransmit/fr-4pkt, -4pkt-sack: the third duplicate ACK retransmits the first segment
/// and nothing else.
#[test]
fn third_duplicate_ack_triggers_a_retransmission() {
    for recovery in [LossRecovery::NewReno, LossRecovery::Sack] {
        let mut s = Script::new(recovery, 100);
        assert_eq!(s.write(4), numbers(0..4));
        let blocks = if recovery == LossRecovery::Sack {
            [(1, 2), (1, 3), (1, 4)].map(|b| vec![b])
        } else {
            [const { vec![] }; 3]
        };
        s.after(100);
        let left = blocks.map(|blocks| s.ack(0, &blocks));
        assert_eq!(left, [vec![], vec![], vec![0]], "{recovery:?}");
        assert_eq!(s.after(100).ack(4, &[]), []);
        assert!(s.s.is_done() && s.s.timeout().is_none());
    }
}

/// tcp/limited_transmit/limited-transmit-no-sack, -sack: the first two duplicate ACKs release one
/// segment each. They were caused by reordering: the ACK that shows this grows the window from 10
/// to 11.
#[test]
fn first_two_duplicate_acks_release_new_segments() {
    // Without SACK, Linux subtracts the two duplicates from the segments that the ACK counts for.
    // This sender counts three when it counts bytes.
    for (recovery, counting, then) in [
        (LossRecovery::Sack, GrowthCounting::Bytes, 12..14),
        (LossRecovery::NewReno, GrowthCounting::Acks, 12..14),
        (LossRecovery::NewReno, GrowthCounting::Bytes, 12..15),
    ] {
        let mut s = Script::with(TcpOptions { counting, ..options(recovery) }, 100);
        assert_eq!(s.write(15), numbers(0..10));
        let sack: &[(u64, u64)] =
            if recovery == LossRecovery::Sack { &[(1, 2), (1, 3)] } else { &[] };
        assert_eq!(s.after(110).ack(0, &sack[..sack.len().min(1)]), [10], "{recovery:?}");
        assert_eq!(s.after(10).ack(0, &sack[sack.len().min(1)..]), [11], "{recovery:?}");
        assert_eq!(s.after(10).ack(3, &[]), numbers(then.clone()), "{recovery:?}, {counting:?}");
        assert_eq!(s.after(20).ack(5, &[]), numbers(then.end..15));
        assert_eq!((s.after(20).ack(15, &[]), s.s.counts().retransmitted), (vec![], 0));
    }
}

/// tcp/cubic/cubic-rack-reo-timeout-retrans-failed-incoming-data, first part: blocks of 9 and of 3,
/// then all ten segments are acknowledged. From then on Linux expects reordering of up to ten
/// segments, and its window is 19. This sender keeps the threshold at three duplicates, and its
/// window does not grow because it was not full when the ACK came.
#[test]
fn reordering_of_two_segments_starts_no_recovery() {
    let mut s = Script::new(LossRecovery::Sack, 20);
    assert_eq!(s.write(10), numbers(0..10));
    assert_eq!((s.after(20).ack(0, &[(9, 10)]), s.ack(0, &[(3, 4), (9, 10)])), (vec![], vec![]));
    assert_eq!((s.ack(10, &[]), s.window(), s.s.counts().fast_recoveries), (vec![], 10, 0));
    assert_eq!(s.write(4), numbers(10..14));
    s.after(20);
    let left = [12, 13, 14].map(|end| s.ack(10, &[(11, end)]));
    assert_eq!(left, [vec![], vec![], vec![10]]);
}

/// tcp/cwnd_moderation/cwnd-moderation-disorder-no-moderation: a duplicate ACK leaves the window
/// at 10.
#[test]
fn one_duplicate_ack_leaves_the_window_unchanged() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    s.write(4);
    assert_eq!((s.after(100).ack(0, &[(1, 2)]), s.window()), (vec![], 10));
}

/// tcp/fast_recovery/prr-ss-10pkt-lost-1: one new segment is sent for each segment that leaves the
/// network, down to a window of 7. Linux uses PRR (RFC 6937), which gives the same result if that
/// many segments are in flight.
#[test]
fn one_lost_segment_is_repaired_while_the_window_stays_full() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(110);
    let left = [2, 3, 4].map(|end| s.ack(0, &[(1, end)]));
    assert_eq!((left, s.window()), ([vec![], vec![], vec![0]], 7));
    assert_eq!(s.after(10).write(7), []);
    let left = [5, 6, 7, 8, 9, 10].map(|end| s.after(10).ack(0, &[(1, end)]));
    assert_eq!(left, [10, 11, 12, 13, 14, 15].map(|n| vec![n]));
    assert_eq!((s.after(20).ack(10, &[]), s.window()), (vec![16], 7));
    assert_eq!(s.s.recovery, Recovery::Open);
}

/// tcp/fast_recovery/prr-ss-30pkt-lost1_4: four of ten segments are lost, and the window is 7
/// afterwards. Linux sends one hole per ACK: 0 with the third duplicate and 1, 2, 3 with the next
/// ones. By RFC 6675 §5, step C, all four fit the window of 7 at once.
#[test]
fn four_lost_segments_are_repaired_as_the_pipe_drains() {
    let mut s = Script::new(LossRecovery::Sack, 10);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(10);
    let left = [5, 6, 7, 8, 9, 10].map(|end| s.ack(0, &[(4, end)]));
    assert_eq!(left, [vec![], vec![], vec![0, 1, 2, 3], vec![], vec![], vec![]]);
    s.after(10);
    let left = [1, 2, 3].map(|next| s.ack(next, &[(4, 10)]));
    assert_eq!((left, s.ack(10, &[])), ([const { vec![] }; 3], vec![]));
    assert_eq!(s.after(10).write(10), numbers(10..17));
}

/// tcp/fast_recovery/prr-ss-30pkt-lost-1_4-11_16: four of ten segments are lost, and the second
/// copy of 1 as well. Linux sends 0, 1, 2, 3, 12, 13, then two (14 and 15) with the ACK of 0. With
/// the block from 2 on, RACK (RFC 8985 §6.2) makes Linux send 1 a second time. By RFC 6675 §4 no
/// segment is sent twice in a recovery, so this sender waits for the timeout.
#[test]
fn lost_retransmission_waits_for_the_timeout() {
    let mut s = Script::new(LossRecovery::Sack, 10);
    assert_eq!(s.write(20), numbers(0..10));
    s.after(10);
    let left = [5, 6, 7, 8, 9, 10, 11, 12].map(|end| s.after(2).ack(0, &[(4, end)]));
    let expected = [vec![10], vec![11], vec![0, 1], vec![2], vec![3], vec![12], vec![13], vec![14]];
    assert_eq!(left, expected);
    assert_eq!(s.after(10).ack(1, &[(4, 12)]), [15]);
    assert_eq!(s.after(2).ack(1, &[(2, 12)]), [16, 17]);
    assert_eq!([13, 14].map(|end| s.after(2).ack(1, &[(2, end)])), [[18], [19]]);
    let again = s.silence(1_000);
    assert_eq!(
        (again.first().map(|a| a.1), s.s.counts().timeouts > 0),
        (Some(1), true),
        "{again:?}"
    );
}

/// tcp/sack/sack-shift-sacked-2-6-8-3-9-nofack: blocks of 2, 6 and 8 are three duplicates. Linux
/// treats all holes below 8 as lost and sends 0, then 1 with the block of 3, and nothing with the
/// block of 9. By RFC 6675 §4, 0 and 1 are lost and are sent, and 5 is declared lost later. 4 and 7
/// are sent because nothing else can be sent (rule 3 of NextSeg).
#[test]
fn holes_below_three_sacked_segments_are_lost() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(100);
    assert_eq!(s.ack(0, &[(2, 3)]), []);
    assert_eq!(s.after(1).ack(0, &[(2, 3), (6, 7)]), []);
    assert_eq!(s.after(1).ack(0, &[(2, 3), (6, 7), (8, 9)]), [0, 1]);
    assert_eq!(s.after(7).ack(0, &[(2, 4), (6, 7), (8, 9)]), [4]);
    assert_eq!(s.after(10).ack(0, &[(2, 4), (6, 7), (8, 10)]), [5, 7]);
    assert_eq!(s.after(83).ack(1, &[(2, 4), (6, 7), (8, 10)]), []);
    assert_eq!((s.after(100).ack(10, &[]), s.s.recovery), (vec![], Recovery::Open));
}

/// tcp/sack/sack-route-refresh-ip-tos: ten segments in flight, then an ACK of the first with blocks
/// of 3 and of 6 to 9. The ACK advances the ACK number and also shows the losses, so RFC 6675 §5
/// counts it as a duplicate. Linux and this sender both send 1, 2, 4 and 5 at once.
#[test]
fn advancing_ack_can_also_reveal_losses() {
    let mut s = Script::new(LossRecovery::Sack, 10);
    assert_eq!(s.write(10), numbers(0..10));
    assert_eq!(s.after(10).ack(1, &[(3, 4), (6, 10)]), [1, 2, 4, 5]);
    assert_eq!((s.after(10).ack(10, &[]), s.s.is_done(), s.s.counts().timeouts), (vec![], true, 0));
}

/// tcp/fastopen/server/client-ack-dropped-then-recovery-ms-timestamps, from the data on: one ACK
/// with three segments behind two holes begins recovery with a window of 7, and both holes are
/// sent. The next block releases nothing.
#[test]
fn one_sack_block_of_three_segments_starts_recovery() {
    let mut s = Script::new(LossRecovery::Sack, 10);
    assert_eq!(s.write(10), numbers(0..10));
    assert_eq!((s.after(10).ack(0, &[(2, 5)]), s.window()), (vec![0, 1], 7));
    assert_eq!((s.ack(0, &[(2, 6)]), s.window()), (vec![], 7));
}

/// tcp/fast_recovery/prr-ss-ack-below-snd_una-cubic: the ACK of 3 arrives after the ACK of 4, and
/// its block of 5 and 6 counts (RFC 6675 §5). Linux sends 4, 5, 6 at the ACK of 4 (PRR: three
/// segments were acknowledged), then 7 and one new segment. This sender has room in the pipe for 4
/// and 5 (rule 3 of NextSeg), and for four new segments after the block, because nothing shows that
/// 7 is lost.
#[test]
fn sack_blocks_of_an_old_ack_are_used() {
    let mut s = Script::new(LossRecovery::Sack, 10);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(10);
    assert_eq!((s.ack(0, &[(1, 2)]), s.ack(0, &[(1, 3)])), (vec![], vec![]));
    assert_eq!(s.ack(0, &[(1, 3), (8, 9)]), [0]);
    assert_eq!(s.after(12).ack(4, &[(8, 9)]), [4, 5]);
    assert_eq!(s.write(10), []);
    assert_eq!(s.after(2).ack(3, &[(5, 7)]), [10, 11, 12, 13]);
}

/// tcp/fast_retransmit/fr-4pkt-fack-last-mss, tcp/sack/sack-shift-sacked-7-3-4-8-9-fack: one
/// segment arrived, and three or seven segments before it did not. Linux retransmits the first
/// segment 40 or 27 ms later, at an RTT of 100 ms (RACK, RFC 8985 §6.2). This sender counts one
/// duplicate, and the timeout repairs the loss.
#[test]
fn segments_before_one_sacked_segment_wait_for_the_timeout() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(4), numbers(0..4));
    assert_eq!(s.after(100).ack(0, &[(3, 4)]), []);
    assert_eq!(s.silence(250), [(200, 0)], "100 ms and four times 50 ms since the segments left");
}

/// tcp/fast_retransmit/fr-4pkt-fack-last-byte: a block of one byte does not cover a segment. The
/// timeout sends 0, the ACK of 0 releases 1 and 2, and their ACK releases 3. Linux first sends 3
/// after 200 ms (tail loss probe, RFC 8985 §7), and 0 another 300 ms later.
#[test]
fn segments_after_a_timeout_are_resent_in_order_by_slow_start() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(4), numbers(0..4));
    let byte = [(3_999, 4_000)];
    assert_eq!(s.after(100).on_ack(&ack_of(0, &byte)), []);
    assert_eq!(s.silence(500), [(200, 0)]);
    assert_eq!(s.on_ack(&ack_of(1_000, &byte)), [1, 2]);
    assert_eq!(s.after(100).on_ack(&ack_of(3_000, &byte)), [3]);
    assert_eq!((s.after(100).ack(4, &[]), s.s.is_done()), (vec![], true));
}

/// tcp/user_timeout/user_timeout: a lone FIN. The first timeout is 300 ms after a handshake of 100
/// ms, and the next ones follow after 600 and 1200 ms. Linux sends a probe after 300 ms and has
/// timeouts of 300 and 600 ms after that.
#[test]
fn successive_tcp_timeouts_double() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    s.s.finish();
    assert_eq!(s.leaves(), [0]);
    assert_eq!(s.silence(2_100), [(300, 0), (900, 0), (2_100, 0)]);
}

/// tcp/cubic/cubic-rto-ss-ca-cwnd-bump: after the timeout of a lone segment its ACK sets the window
/// to 2, and ssthresh is 7 after a window of 10. Slow start sends two segments per ACK up to 7,
/// then one. Linux sends a probe after 300 ms, and its timeout comes 300 ms later.
#[test]
fn slow_start_after_timeout_ends_at_0_7_of_the_old_window() {
    let mut s = Script::new(LossRecovery::Sack, 100);
    assert_eq!(s.write(1), [0]);
    assert_eq!((s.after(100).ack(1, &[]), s.window()), (vec![], 10));
    assert_eq!(s.write(1), [1]);
    // The sender has two samples of 100 ms.
    assert_eq!(s.silence(300), [(250, 1)]);
    assert_eq!((s.after(50).ack(2, &[]), s.window()), (vec![], 2));
    assert_eq!(s.write(200), [2, 3]);
    let left: Vec<usize> = (3..15)
        .map(|next| s.after(if next % 2 == 1 { 98 } else { 2 }).ack(next, &[]).len())
        .collect();
    assert_eq!(left, [2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(s.window(), 7);
}

/// tcp/cwnd_moderation/cwnd-moderation-ecn-enter-cwr-no-moderation-700: a mark arrives while three
/// segments are in flight. ssthresh is 7, and this sender sets the window to ssthresh
/// (RFC 3168 §6.1.2). By PRR, Linux has a window of 4, one more than the segments in flight.
#[test]
fn ecn_mark_reduces_the_cubic_window_to_0_7() {
    let mut s = Script::with(TcpOptions { ecn: true, ..options(LossRecovery::Sack) }, 100);
    assert_eq!(s.write(4), numbers(0..4));
    let marked = TcpAck { ece: true, ..ack_of(1_000, &[]) };
    assert_eq!((s.after(100).on_ack(&marked), s.window()), (vec![], 7));
}

/// tcp/fastopen/client/cookie-req-timeout, syn-data-timeout: the SYN is sent again after 1 s, and
/// data follow the SYN-ACK at once. RFC 5681 §3.1 and RFC 6298 §5, rule 5.7, then require a window
/// of one segment and a timeout of 3 s. The scripts do not show Linux's values.
#[test]
fn lost_syn_is_retransmitted_after_a_second() {
    let mut p = Path::reno(LossRecovery::Sack, 10, &[(-1, 1)]);
    p.run(1_100);
    assert_eq!(
        (p.times_of(-1), p.at(1_100), p.s.timeout()),
        (vec![0, 1_000], vec![0], Some(at(4_100)))
    );
}

/// A receiver behind a path of 10 ms.
struct Listener {
    r: TcpReceiver,
    now: u64,
}

impl Listener {
    fn new(options: TcpReceiverOptions) -> Self {
        Self { r: TcpReceiver::new(options), now: 100 }
    }

    /// Delivers the segments from `first` up to but excluding `behind`. Returns the ACK number and
    /// the blocks, in segments, if an ACK leaves at once.
    fn segment(&mut self, first: u64, behind: u64) -> Option<(u64, Vec<(u64, u64)>)> {
        let mss = u64::from(MSS);
        let len = ((behind - first) * mss) as u16;
        let segment = TcpSegment {
            seq: first * mss,
            len,
            size: len + 40,
            ..TcpSegment::bare(at(self.now - 10))
        };
        self.r.on_segment(at(self.now), &segment, false).then(|| {
            let ack = self.r.ack(at(self.now));
            (ack.ack / mss, ack.sack.as_slice().iter().map(|(a, b)| (a / mss, b / mss)).collect())
        })
    }
}

/// psp/psp-rx-rcv-clear-or-cipher: lone segments, 100 ms apart. Linux acknowledges the first and
/// the third at once and the second 40 ms later. This receiver delays each ACK, by 100 ms unless
/// configured otherwise; RFC 5681 §4.2 allows 500 ms.
#[test]
fn ack_of_a_lone_segment_is_delayed() {
    for delay in [100, 40] {
        let mut l = Listener::new(TcpReceiverOptions {
            max_delay: ms(delay),
            ..TcpReceiverOptions::default()
        });
        for n in 0..2 {
            assert_eq!((l.segment(n, n + 1), l.r.timeout()), (None, Some(at(l.now + delay))));
            l.now += delay;
            assert_eq!((l.r.ack(at(l.now)).ack, l.r.timeout()), (1_000 * (n + 1), None));
            l.now += 100 - delay;
        }
    }
}

/// psp/psp-ofo-ok: a segment behind a gap is acknowledged at once, and so is the segment that fills
/// the gap.
#[test]
fn segments_that_open_or_fill_a_gap_are_acknowledged_at_once() {
    let mut l = Listener::new(TcpReceiverOptions::default());
    assert_eq!([l.segment(1, 5), l.segment(0, 1)], [Some((0, vec![])), Some((5, vec![]))]);
}

/// selftests tcp_ooo-before-and-after-accept: all data behind a gap form one block. A segment that
/// fills part of the gap is acknowledged at once and keeps the block; a segment that fills the rest
/// removes the block.
#[test]
fn sack_block_is_reported_until_the_gap_is_filled() {
    let mut l = Listener::new(TcpReceiverOptions { sack: true, ..TcpReceiverOptions::default() });
    let acks = [(2, 41), (41, 101), (0, 1), (1, 2)].map(|(first, behind)| l.segment(first, behind));
    let expected = [(0, vec![(2, 41)]), (0, vec![(2, 101)]), (1, vec![(2, 101)]), (101, vec![])];
    assert_eq!(acks, expected.map(Some));
}

/// selftests tcp_dsack_mult: the block that changed last comes first. Data that arrive a second
/// time are acknowledged at once. With the option, as in Linux, they are also reported in a block
/// before the others (RFC 2883).
#[test]
fn newest_sack_block_is_first_after_data_that_arrived_twice() {
    for dsack in [false, true] {
        let options = TcpReceiverOptions { sack: true, dsack, ..TcpReceiverOptions::default() };
        let mut l = Listener::new(options);
        let acks = [(1, 2), (2, 3), (4, 5), (7, 8), (0, 6), (6, 8), (0, 1)]
            .map(|(first, behind)| l.segment(first, behind));
        let twice = |block: (u64, u64)| dsack.then_some(block).into_iter();
        let expected = [
            (0, vec![(1, 2)]),
            (0, vec![(1, 3)]),
            (0, vec![(4, 5), (1, 3)]),
            (0, vec![(7, 8), (4, 5), (1, 3)]),
            (6, twice((1, 3)).chain([(7, 8)]).collect()),
            (8, twice((7, 8)).collect()),
            (8, twice((0, 1)).collect()),
        ];
        assert_eq!(acks, expected.map(Some));
    }
}

/// selftests tcp_rto_synack_rto_max: with a ceiling of 1 s, the SYN-ACK is sent every second.
#[test]
fn syn_ack_timeout_backs_off_to_its_ceiling() {
    let rto = RtoOptions { ceiling: ms(1_000), ..RtoOptions::default() };
    let mut r = TcpReceiver::new(TcpReceiverOptions { rto, ..TcpReceiverOptions::default() });
    r.on_segment(at(0), &TcpSegment { syn: true, size: 40, ..TcpSegment::bare(at(0)) }, false);
    let left = [0, 1_000, 2_000, 3_000].map(|now| (r.ack(at(now)).syn, r.timeout()));
    assert_eq!(left, [1_000, 2_000, 3_000, 4_000].map(|due| (true, Some(at(due)))));
}
