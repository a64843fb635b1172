//! The receiving side of TCP: the time of each ACK (RFC 5681 §4.2), and its contents (RFC 2018,
//! RFC 3168 §6.1.3, RFC 7323 §4.3).

use std::time::Duration;

use fathom_cc::{OneWayDelay, Time};

use super::rto::{RtoEstimator, RtoOptions};
use super::segment::{MAX_SACK_BLOCKS, TcpAck, TcpSegment};

/// Options of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpReceiverOptions {
    /// Maximum number of in-order segments per ACK; 2 by default. A value of 1 turns delayed ACKs
    /// off (RFC 5681 §4.2).
    pub every: u32,
    /// Maximum delay of an ACK; 100 ms by default, as in ns-2's full TCP. RFC 5681 §4.2 allows
    /// 500 ms.
    pub max_delay: Duration,
    /// Whether a delayed ACK leaves at the next multiple of `max_delay`, not after `max_delay`.
    pub ticks: bool,
    /// Whether ACKs carry SACK blocks (RFC 2018).
    pub sack: bool,
    /// With SACK: whether the first block reports data that arrived twice (RFC 2883).
    pub dsack: bool,
    /// Whether ACKs carry timestamps (RFC 7323 §3). The timestamps also give one-way delays
    /// (Sync-TCP §3.2).
    pub timestamps: bool,
    /// Whether ACKs carry the numbers of packets received and marked
    /// (draft-ietf-tcpm-accurate-ecn).
    pub accurate_ecn: bool,
    /// Timeout of the SYN-ACK.
    pub rto: RtoOptions,
}

impl Default for TcpReceiverOptions {
    fn default() -> Self {
        let max_delay = Duration::from_millis(100);
        Self {
            every: 2,
            max_delay,
            ticks: false,
            sack: false,
            dsack: false,
            timestamps: false,
            accurate_ecn: false,
            rto: RtoOptions::default(),
        }
    }
}

/// The receiver of one connection.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    options: TcpReceiverOptions,
    /// Sequence number of the next expected byte.
    next: u64,
    /// Ranges received behind a gap. A range is given by its first byte and the byte after its last
    /// byte. The most recently changed range is last.
    blocks: Vec<(u64, u64)>,
    /// Data that arrived twice, for the next ACK.
    duplicate: Option<(u64, u64)>,
    /// End of all received data: the sequence number after the last byte.
    arrived_end: u64,
    /// Number of in-order segments since the last ACK.
    waiting: u32,
    deadline: Option<Time>,
    /// Timer of the SYN-ACK, and whether a SYN-ACK must be sent.
    syn_timer: RtoEstimator,
    syn_owed: bool,
    /// Whether a segment other than a SYN has arrived. Any further SYN is then old.
    opened: bool,
    ece: bool,
    /// Number of received packets with data, and number of marked packets among them.
    arrived: u32,
    marked: u32,
    /// TS.Recent and Last.ACK.sent (RFC 7323 §4.3).
    recent: Time,
    acked: u64,
    /// Send time and one-way delay of the newest segment.
    newest: (Time, OneWayDelay),
    /// Sequence number after the sender's FIN; `None` until the FIN is known.
    end: Option<u64>,
}

impl TcpReceiver {
    /// Creates a listening receiver.
    pub const fn new(options: TcpReceiverOptions) -> Self {
        Self {
            options,
            next: 0,
            blocks: Vec::new(),
            duplicate: None,
            arrived_end: 0,
            waiting: 0,
            deadline: None,
            syn_timer: RtoEstimator::new(options.rto),
            syn_owed: false,
            opened: false,
            ece: false,
            arrived: 0,
            marked: 0,
            recent: Time::ZERO,
            acked: 0,
            newest: (Time::ZERO, OneWayDelay::from_nanos(0)),
            end: None,
        }
    }

    /// Returns the number of data bytes that arrived in order.
    pub fn received(&self) -> u64 {
        self.next - u64::from(self.is_finished())
    }

    /// Returns whether the sender's FIN and all data before it arrived.
    pub fn is_finished(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Returns whether only SYNs have arrived, so that the answer is a SYN-ACK.
    pub(super) const fn answers_syn(&self) -> bool {
        self.syn_owed
    }

    /// Processes a segment. `marked` tells whether the segment has a Congestion Experienced mark.
    /// Returns true if an ACK must leave now: for a SYN or FIN, for every
    /// [`TcpReceiverOptions::every`]-th segment, for a segment that is out of order or was seen
    /// before, and for a segment that fills all or part of a gap (RFC 5681 §4.2).
    pub fn on_segment(&mut self, now: Time, segment: &TcpSegment, marked: bool) -> bool {
        if segment.sent >= self.recent && segment.seq <= self.acked {
            self.recent = segment.sent;
        }
        if segment.sent >= self.newest.0 {
            let on_its_way = now.as_nanos() as i64 - segment.sent.as_nanos() as i64;
            self.newest = (segment.sent, OneWayDelay::from_nanos(on_its_way));
        }
        if segment.syn {
            self.syn_owed = !self.opened;
            return true;
        }
        self.opened = true;
        if self.syn_owed {
            (self.syn_owed, self.deadline) = (false, None);
        }
        self.ece = marked || (self.ece && !segment.cwr);
        if segment.len == 0 {
            return false;
        }
        self.arrived += 1;
        self.marked += u32::from(marked);
        if segment.fin {
            self.end = Some(segment.seq + u64::from(segment.len));
        }
        let gap = !self.blocks.is_empty() || segment.fin;
        let end = segment.seq + u64::from(segment.len);
        if self.options.dsack {
            self.duplicate = self.known(segment.seq, end).or(self.duplicate);
        }
        if !self.insert(segment.seq, end) || gap {
            return true;
        }
        self.waiting += 1;
        if self.waiting >= self.options.every {
            return true;
        }
        self.deadline = self.deadline.or(Some(self.delayed(now)));
        false
    }

    /// Returns the latest time of the ACK of a segment that arrived now.
    fn delayed(&self, now: Time) -> Time {
        let delay = self.options.max_delay;
        let (now_nanos, tick) = (now.as_nanos(), delay.as_nanos() as u64);
        if self.options.ticks && tick > 0 {
            Time::from_nanos((now_nanos / tick + 1).saturating_mul(tick))
        } else {
            now + delay
        }
    }

    /// Returns the first part of a segment that has arrived before.
    fn known(&self, first: u64, end: u64) -> Option<(u64, u64)> {
        if first < self.next {
            return Some((first, end.min(self.next)));
        }
        let parts = self.blocks.iter().map(|(a, b)| (first.max(*a), end.min(*b)));
        parts.filter(|(a, b)| a < b).min()
    }

    /// Inserts received bytes. Returns true if they were the next expected bytes.
    fn insert(&mut self, first: u64, end: u64) -> bool {
        if end <= self.next {
            return false;
        }
        let in_order = first <= self.next;
        let (mut first, mut end) = (first.max(self.next), end);
        // Fast path: most segments are new, and either extend the newest block or touch no block.
        let newest =
            self.blocks.last_mut().filter(|(_, b)| first == *b && first == self.arrived_end);
        if let Some((_, b)) = newest {
            (*b, self.arrived_end) = (end, end);
            return false;
        }
        if first > self.arrived_end {
            self.blocks.push((first, end));
            self.arrived_end = end;
            return false;
        }
        self.blocks.retain(|(a, b)| {
            let touches = *a <= end && *b >= first;
            if touches {
                (first, end) = (first.min(*a), end.max(*b));
            }
            !touches
        });
        if in_order {
            self.next = end;
        } else {
            self.blocks.push((first, end));
        }
        self.arrived_end = self.arrived_end.max(end);
        in_order
    }

    /// Returns the latest time at which the next ACK, or another SYN-ACK, must leave.
    pub const fn timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Builds the ACK to send now. Builds a SYN-ACK instead until a segment other than a SYN has
    /// arrived.
    pub fn ack(&mut self, now: Time) -> TcpAck {
        self.waiting = 0;
        self.deadline = None;
        self.acked = self.next;
        if self.syn_owed {
            self.deadline = Some(now + self.syn_timer.rto());
            self.syn_timer.back_off();
        }
        let blocks = if self.options.sack {
            MAX_SACK_BLOCKS - usize::from(self.options.timestamps)
        } else {
            0
        };
        TcpAck {
            ack: self.next,
            syn: self.syn_owed,
            ece: self.ece,
            sack: self
                .duplicate
                .take()
                .into_iter()
                .chain(self.blocks.iter().rev().copied())
                .take(blocks)
                .collect(),
            echo: self.options.timestamps.then_some(self.recent),
            one_way: self.options.timestamps.then_some(self.newest.1),
            with_data: false,
            marks: self.options.accurate_ecn.then_some((self.arrived, self.marked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// ns-2's full TCP (tcp-full.cc, delay_sndtimer): the timer expires at multiples of its interval.
    #[test]
    fn delayed_ack_leaves_at_the_next_tick() {
        for (ticks, arrives, leaves) in
            [(false, 130, 230), (true, 130, 200), (true, 199, 200), (true, 200, 300)]
        {
            let mut r = TcpReceiver::new(TcpReceiverOptions { ticks, ..Default::default() });
            assert!(!r.on_segment(at(arrives), &segment(0, arrives), false));
            assert_eq!(r.timeout(), Some(at(leaves)), "{arrives}");
        }
    }

    /// Segment `n` of 1000 bytes, sent 10 ms before it arrives.
    fn segment(n: u64, arrives: u64) -> TcpSegment {
        TcpSegment { seq: 1_000 * n, len: 1_000, size: 1_040, ..TcpSegment::bare(at(arrives - 10)) }
    }

    fn receiver(sack: bool) -> TcpReceiver {
        TcpReceiver::new(TcpReceiverOptions { sack, ..TcpReceiverOptions::default() })
    }

    /// ACK number and SACK blocks in segments; `None` if no ACK leaves at once.
    type Answer = Option<(u64, Vec<(u64, u64)>)>;

    /// Delivers one segment per millisecond, starting at 101 ms.
    fn answers(r: &mut TcpReceiver, segments: &[u64]) -> Vec<Answer> {
        let mut now = 100;
        let mut answer = |n: &u64| {
            now += 1;
            r.on_segment(at(now), &segment(*n, now), false).then(|| {
                let ack = r.ack(at(now));
                (
                    ack.ack / 1_000,
                    ack.sack.as_slice().iter().map(|(a, b)| (a / 1_000, b / 1_000)).collect(),
                )
            })
        };
        segments.iter().map(&mut answer).collect()
    }

    /// RFC 5681 §4.2.
    #[test]
    fn every_second_segment_is_acknowledged() {
        let acks = answers(&mut receiver(false), &[0, 1, 2, 3]);
        assert_eq!(acks, [None, Some((2, vec![])), None, Some((4, vec![]))]);
    }

    /// RFC 5681 §4.2.
    #[test]
    fn single_segment_is_acknowledged_after_100_ms() {
        let mut r = receiver(false);
        assert!(!r.on_segment(at(100), &segment(0, 100), false));
        assert_eq!(r.timeout(), Some(at(200)));
        assert_eq!((r.ack(at(200)).ack, r.timeout()), (1_000, None));
    }

    /// RFC 5681 §4.2: each segment behind a gap gets a duplicate ACK, and segments that fill a gap
    /// are acknowledged at once.
    #[test]
    fn segments_at_a_gap_are_acknowledged_at_once() {
        let numbers: Vec<Option<u64>> = answers(&mut receiver(false), &[0, 2, 3, 5, 1, 4, 6, 7])
            .into_iter()
            .map(|a| a.map(|(n, _)| n))
            .collect();
        assert_eq!(numbers, [None, Some(1), Some(1), Some(1), Some(4), Some(6), None, Some(8)]);
    }

    /// RFC 9293 §3.10.7.4: a duplicate segment is acknowledged at once.
    #[test]
    fn duplicate_segment_is_acknowledged_at_once() {
        assert_eq!(
            answers(&mut receiver(true), &[0, 1, 1]),
            [None, Some((2, vec![])), Some((2, vec![]))]
        );
    }

    /// RFC 2018 §4: the first block holds the newest segment; the other blocks follow from newer to
    /// older.
    #[test]
    fn newest_sack_block_comes_first() {
        let acks = answers(&mut receiver(true), &[1, 3, 5, 7, 9, 4]);
        let last = acks.last().cloned().flatten().expect("an ACK");
        assert_eq!(last, (0, vec![(3, 6), (9, 10), (7, 8), (1, 2)]));
        let options =
            TcpReceiverOptions { sack: true, timestamps: true, ..TcpReceiverOptions::default() };
        let acks = answers(&mut TcpReceiver::new(options), &[1, 3, 5, 7]);
        assert_eq!(
            acks.last().cloned().flatten(),
            Some((0, vec![(7, 8), (5, 6), (3, 4)])),
            "three with timestamps"
        );
    }

    /// RFC 3168 §6.1.3.
    #[test]
    fn marks_are_echoed_until_the_sender_reduces_its_window() {
        let mut r = receiver(false);
        let mut ece = |n: u64, cwr: bool, marked: bool| {
            r.on_segment(at(100 + n), &TcpSegment { cwr, ..segment(n, 100 + n) }, marked);
            r.ack(at(100 + n)).ece
        };
        assert!(!ece(0, false, false));
        assert!(ece(1, false, true));
        assert!(ece(2, false, false));
        assert!(!ece(3, true, false));
        assert!(ece(4, true, true), "marked again");
    }

    /// RFC 7323 §4.3: a delayed ACK echoes the first segment that it acknowledges; behind a gap,
    /// the last in-order segment.
    #[test]
    fn timestamp_echo_is_that_of_the_segment_that_made_ack_due() {
        let options = TcpReceiverOptions { timestamps: true, ..TcpReceiverOptions::default() };
        let mut r = TcpReceiver::new(options);
        r.on_segment(at(100), &segment(0, 100), false);
        r.on_segment(at(105), &segment(1, 105), false);
        let ack = r.ack(at(105));
        assert_eq!(
            (ack.echo, ack.one_way.map(OneWayDelay::as_nanos)),
            (Some(at(90)), Some(10_000_000))
        );
        r.on_segment(at(120), &segment(3, 120), false);
        assert_eq!(r.ack(at(120)).echo, Some(at(90)));
        r.on_segment(at(150), &segment(2, 150), false);
        assert_eq!(r.ack(at(150)).echo, Some(at(140)), "fills the gap");
    }

    /// RFC 6298 §5: the SYN-ACK has its own timer, which backs off.
    #[test]
    fn syn_ack_is_resent_until_the_client_answers() {
        let mut r = receiver(false);
        let syn = TcpSegment { syn: true, len: 0, size: 40, ..segment(0, 100) };
        assert!(r.on_segment(at(100), &syn, false));
        let first = r.ack(at(100));
        assert_eq!((first.syn, first.size(), r.timeout()), (true, 40, Some(at(1_100))));
        assert!(r.ack(at(1_100)).syn);
        assert_eq!(r.timeout(), Some(at(3_100)));
        assert!(!r.on_segment(at(1_200), &TcpSegment { syn: false, ..syn }, false));
        assert_eq!(r.timeout(), None);
    }

    /// In any order of arrival, everything before the next expected byte has arrived, and the
    /// blocks hold exactly the data received behind it, the most recent block first.
    #[test]
    fn sack_blocks_hold_the_data_received_beyond_a_gap() {
        for seed in 0..100 {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut r = receiver(true);
            let mut arrived = [false; 80];
            for step in 0..120 {
                let n = rng.random_range(0..80_u64.min(2 + step));
                r.on_segment(at(100 + step), &segment(n, 100 + step), false);
                arrived[n as usize] = true;
                let next = arrived.iter().take_while(|a| **a).count() as u64;
                assert_eq!(r.received(), 1_000 * next, "seed {seed}, step {step}");
                let mut blocks = r.blocks.clone();
                blocks.sort_unstable();
                let edges = blocks.iter().flat_map(|(a, b)| a / 1_000..b / 1_000);
                assert!(
                    edges.eq((next..80).filter(|n| arrived[*n as usize])),
                    "seed {seed}, step {step}"
                );
                assert!(
                    blocks.windows(2).all(|w| w[0].1 < w[1].0),
                    "seed {seed}, step {step}: {blocks:?}"
                );
                if n >= next {
                    let (a, b) = r.ack(at(100 + step)).sack.as_slice()[0];
                    assert!(
                        (a..b).contains(&(1_000 * n)),
                        "seed {seed}, step {step}: segment {n}, block {a} to {b}"
                    );
                }
            }
        }
    }
}
