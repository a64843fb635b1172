//! Outstanding segments: which of them are acknowledged, lost or retransmitted, and how many bytes
//! are in the network. With SACK, the functions correspond to IsLost(), SetPipe() and NextSeg() of
//! RFC 6675 §4. Without SACK, the number of bytes in the network is the flight size.

use std::collections::VecDeque;
use std::time::Duration;

use fathom_cc::{Acked, Time};

use super::segment::SackBlocks;

/// Number of duplicate ACKs, or of SACKed ranges above a segment, that mean a loss
/// (RFC 5681 §3.2, RFC 6675 §2).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// A segment that is not yet acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) seq: u64,
    pub(super) len: u16,
    /// Time of the last transmission of this segment.
    pub(super) sent: Time,
    /// Whether this segment was sent more than once.
    pub(super) retransmitted: bool,
    sacked: bool,
    /// Whether the acknowledgement of this segment was reported to the controller. A timeout clears
    /// `sacked` but not this flag.
    reported: bool,
    lost: bool,
    /// Whether this segment was sent again in this recovery, so that it lies at or below HighRxt
    /// (RFC 6675 §2).
    resent: bool,
}

impl Outstanding {
    pub(super) const fn end(&self) -> u64 {
        self.seq + self.len as u64
    }

    /// Returns the number of bytes that the segment has in the network (RFC 6675 §4, SetPipe).
    const fn in_network(&self) -> u64 {
        let copies = if self.sacked { 0 } else { !self.lost as u64 + self.resent as u64 };
        copies * self.len as u64
    }

    /// Returns whether the segment may be sent again: it is not SACKed, and not yet retransmitted
    /// in this recovery.
    const fn is_hole(&self) -> bool {
        !self.resent && !self.sacked
    }
}

/// A segment that an ACK newly acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    /// Time of the segment's last transmission.
    pub(super) sent: Time,
    pub(super) end: u64,
    pub(super) len: u16,
    pub(super) retransmitted: bool,
}

/// New information from an ACK.
#[derive(Debug, Default)]
pub(super) struct Newly {
    /// Newly acknowledged segments, by the ends of their data.
    pub(super) delivered: Vec<Delivered>,
    /// Newly acknowledged segments to report to the controller, oldest first.
    pub(super) packets: Vec<Acked>,
    /// Number of bytes acknowledged cumulatively.
    pub(super) bytes: u64,
    /// Whether a SACK block contained new information.
    pub(super) sacked: bool,
    /// Send time of the newest segment; `None` if one of the segments was sent twice (Karn's
    /// algorithm, RFC 6298 §3).
    pub(super) sample: Option<Time>,
    /// Whether one of the segments was sent twice.
    ambiguous: bool,
}

impl Newly {
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.delivered.clear();
        let (packets, delivered) =
            (std::mem::take(&mut self.packets), std::mem::take(&mut self.delivered));
        *self = Self { packets, delivered, ..Self::default() };
    }

    fn add(&mut self, segment: &Outstanding) {
        let &Outstanding { sent, len, retransmitted, .. } = segment;
        self.packets.push(Acked { sent, bytes: u64::from(segment.len) });
        self.delivered.push(Delivered { sent, end: segment.end(), len, retransmitted });
        self.ambiguous |= segment.retransmitted;
        self.sample = self.sample.max(Some(segment.sent)).filter(|_| !self.ambiguous);
    }
}

/// The segments of one connection, starting with the first unacknowledged one. Thousands of
/// segments may be outstanding, so the bounds below limit how many segments an ACK must visit. Only
/// loss detection by time, which QUIC's probes need, visits all segments.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    list: VecDeque<Outstanding>,
    una: u64,
    in_network: u64,
    /// End of the SACKed data: the sequence number after the last byte (RFC 6675 §4, NextSeg rule
    /// 1.b).
    sacked_end: u64,
    /// Blocks of the previous ACK. All segments in these blocks are SACKed.
    blocks: SackBlocks,
    /// Sequence number below which [`Scoreboard::detect_losses`] has marked all segments that are
    /// not SACKed.
    examined: u64,
    /// Lower bounds for searches. No unacknowledged segment below `lost_from` is both lost and a
    /// hole, and no segment below `hole_from` is a hole.
    lost_from: u64,
    hole_from: u64,
    /// Sequence number from which on no segment was sent twice, so that all were sent in order.
    in_order_from: u64,
}

impl Scoreboard {
    pub(super) fn clear(&mut self) {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        *self = Self { list, ..Self::default() };
    }

    /// Returns the first byte that is not acknowledged cumulatively. `high` returns the next new
    /// byte.
    pub(super) const fn una(&self) -> u64 {
        self.una
    }

    pub(super) fn high(&self) -> u64 {
        self.list.back().map_or(self.una, Outstanding::end)
    }

    /// Returns the number of bytes in the network. With SACK, this is "pipe", otherwise FlightSize.
    /// After a timeout, only bytes sent since then count.
    pub(super) const fn in_network(&self) -> u64 {
        self.in_network
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Outstanding {
        self.list[index]
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Outstanding)) {
        let segment = &mut self.list[index];
        self.in_network -= segment.in_network();
        change(segment);
        self.in_network += segment.in_network();
        if segment.is_hole() {
            self.hole_from = self.hole_from.min(segment.seq);
            self.lost_from =
                if segment.lost { self.lost_from.min(segment.seq) } else { self.lost_from };
        }
    }

    /// Adds new data that are sent now. Returns their sequence number.
    pub(super) fn push(&mut self, len: u16, now: Time) -> u64 {
        let seq = self.high();
        self.list.push_back(Outstanding {
            seq,
            len,
            sent: now,
            retransmitted: false,
            sacked: false,
            reported: false,
            lost: false,
            resent: false,
        });
        self.in_network += u64::from(len);
        seq
    }

    /// Marks a segment as sent again. A rescue retransmission counts neither for HighRxt nor for
    /// the bytes in the network (RFC 6675 §4, NextSeg rule 4).
    pub(super) fn resend(&mut self, index: usize, now: Time, rescue: bool) {
        self.in_order_from = self.in_order_from.max(self.list[index].end());
        self.change(index, |s| {
            (s.sent, s.retransmitted) = (now, true);
            s.resent |= !rescue;
        });
    }

    /// Processes an ACK number and SACK blocks. Fills `newly` with the newly acknowledged segments.
    pub(super) fn acknowledge(&mut self, ack: u64, sack: &SackBlocks, newly: &mut Newly) {
        newly.clear();
        let ack = ack.min(self.high());
        while let Some(segment) = self.list.front().copied().filter(|s| s.end() <= ack) {
            if !segment.reported {
                newly.add(&segment);
            }
            newly.bytes += u64::from(segment.len);
            self.in_network -= segment.in_network();
            self.una = segment.end();
            self.list.pop_front();
        }
        let before = std::mem::replace(&mut self.blocks, *sack);
        for block in sack.ranges() {
            let known =
                before.ranges().find(|b| b.contains(&block.start)).map_or(block.start, |b| b.end);
            let first = self.list.partition_point(|s| s.seq < block.start || s.end() <= known);
            for index in first..self.list.len() {
                let segment = self.list[index];
                if segment.end() > block.end {
                    break;
                }
                if segment.sacked {
                    continue;
                }
                if !segment.reported {
                    newly.add(&segment);
                }
                newly.sacked = true;
                self.sacked_end = self.sacked_end.max(segment.end());
                self.change(index, |s| (s.sacked, s.reported) = (true, true));
            }
        }
        newly.packets.sort_by_key(|p| p.sent);
        newly.delivered.sort_by_key(|d| d.end);
    }

    /// Marks the first segment as lost, after duplicate ACKs or a partial ACK.
    pub(super) fn lose_first(&mut self) {
        if !self.list.is_empty() {
            self.change(0, |s| (s.lost, s.resent) = (true, false));
        }
    }

    /// Marks all segments as lost after a timeout. This includes SACKed segments, because the
    /// receiver may have discarded them (RFC 6298 §5, RFC 2018 §8).
    pub(super) fn lose_all(&mut self) {
        for segment in &mut self.list {
            (segment.lost, segment.resent, segment.sacked) = (true, false, false);
        }
        (self.in_network, self.sacked_end) = (0, self.una);
        (self.blocks, self.examined, self.lost_from, self.hole_from) =
            (SackBlocks::default(), 0, 0, 0);
    }

    /// Marks the segments for which IsLost() holds. Returns the number of newly marked bytes.
    /// IsLost() holds for a segment if above it [`DUPLICATE_THRESHOLD`] discontiguous ranges or
    /// more than `(DUPLICATE_THRESHOLD - 1) * smss` bytes are SACKed (RFC 6675 §4).
    pub(super) fn detect_losses(&mut self, smss: u16) -> u64 {
        // Go down from the newest SACKed segment to the segment at and below which IsLost() holds.
        let (mut bytes, mut pieces, mut above) = (0_u64, 0, false);
        let mut bound = self.index_of(self.sacked_end);
        while pieces < DUPLICATE_THRESHOLD
            && bytes <= u64::from(DUPLICATE_THRESHOLD - 1) * u64::from(smss)
        {
            let Some(index) = bound.checked_sub(1) else { return 0 };
            let segment = self.list[index];
            if segment.sacked {
                bytes += u64::from(segment.len);
                pieces += u32::from(!above);
            }
            (bound, above) = (index, segment.sacked);
        }
        let mut lost = 0;
        for index in self.index_of(self.examined)..bound {
            let segment = self.list[index];
            if !segment.sacked && !segment.lost {
                self.change(index, |s| s.lost = true);
                lost += u64::from(segment.len);
            }
        }
        self.examined = self.examined.max(self.list[bound].seq);
        lost
    }

    /// Returns the index of the first segment that starts at or above this sequence number.
    fn index_of(&self, seq: u64) -> usize {
        self.list.partition_point(|s| s.seq < seq)
    }

    /// Returns the sequence number that follows the first segment.
    pub(super) fn first_end(&self) -> u64 {
        self.list.front().map_or(self.una, Outstanding::end)
    }

    /// Marks segments as lost by QUIC's time threshold (RFC 9002 §6.1.2): their last transmission
    /// was at or before `time`, and they are neither SACKed nor already marked as lost. Returns the
    /// number of newly marked bytes.
    pub(super) fn lose_sent_by(&mut self, time: Time) -> u64 {
        let mut bytes = 0;
        for index in 0..self.list.len() {
            let segment = self.list[index];
            if !segment.sacked && segment.sent <= time && (!segment.lost || segment.resent) {
                self.change(index, |s| (s.lost, s.resent) = (true, false));
                bytes += u64::from(segment.len);
            }
        }
        bytes
    }

    /// Marks segments as lost by RACK (RFC 8985 §6.2, step 5): their last transmission was before
    /// `newest` (a time and the end of a segment) and `wait` or longer ago. Segments that were
    /// retransmitted since they were marked can be lost again. Returns the number of newly marked
    /// bytes, and the latest transmission before `newest` that is not lost yet.
    pub(super) fn lose_before(
        &mut self,
        newest: (Time, u64),
        now: Time,
        wait: Duration,
    ) -> (u64, Option<Time>) {
        let (mut bytes, mut later) = (0, None);
        for index in 0..self.list.len() {
            let segment = self.list[index];
            let late = (segment.sent, segment.end()) < newest;
            if !late && segment.seq >= self.in_order_from {
                break;
            }
            let waits = !segment.sacked && (!segment.lost || segment.resent);
            if !waits || !late {
                continue;
            }
            if segment.sent + wait <= now {
                self.change(index, |s| (s.lost, s.resent) = (true, false));
                bytes += u64::from(segment.len);
            } else {
                later = later.max(Some(segment.sent));
            }
        }
        (bytes, later)
    }

    /// Returns the number of segments that are SACKed, up to [`DUPLICATE_THRESHOLD`].
    pub(super) fn sacked(&self) -> usize {
        let below = self.list.iter().take(self.index_of(self.sacked_end));
        below.filter(|s| s.sacked).take(DUPLICATE_THRESHOLD as usize).count()
    }

    /// Returns the number of segments that were sent again and are not SACKed.
    pub(super) fn retransmitted(&self) -> u32 {
        self.list.iter().filter(|s| s.retransmitted && !s.sacked).count() as u32
    }

    /// Returns the index of the last segment.
    pub(super) fn last(&self) -> Option<usize> {
        self.list.len().checked_sub(1)
    }

    /// Returns the first segment at or above this sequence number that is not SACKed.
    pub(super) fn next_outstanding(&self, seq: u64) -> Option<usize> {
        (self.index_of(seq)..self.list.len()).find(|index| !self.list[*index].sacked)
    }

    /// Returns whether the first segment counts as lost.
    pub(super) fn is_first_lost(&self) -> bool {
        self.list.front().is_some_and(|s| s.lost)
    }

    /// Returns the number of bytes that are lost and not yet retransmitted, and the latest send
    /// time among them.
    pub(super) fn lost(&self) -> (u64, Time) {
        let lost = self.list.iter().filter(|s| s.lost && s.is_hole());
        lost.fold((0, Time::ZERO), |(bytes, sent), s| (bytes + u64::from(s.len), sent.max(s.sent)))
    }

    /// Returns the first lost segment that has not been retransmitted (RFC 6675 §4, NextSeg rule
    /// 1).
    pub(super) fn next_lost(&mut self) -> Option<usize> {
        let from = self.index_of(self.lost_from);
        let found = (from..self.list.len())
            .find(|index| self.list[*index].lost && self.list[*index].is_hole());
        self.lost_from = found.map_or(self.high(), |index| self.list[index].seq);
        found
    }

    /// Returns the first segment below a SACKed one that has not been retransmitted (RFC 6675 §4,
    /// NextSeg rule 3).
    pub(super) fn next_hole(&mut self) -> Option<usize> {
        let (from, end) = (self.index_of(self.hole_from), self.index_of(self.sacked_end));
        let found = (from..end).find(|index| self.list[*index].is_hole());
        self.hole_from =
            found.map_or(self.hole_from.max(self.sacked_end), |index| self.list[index].seq);
        found
    }

    /// Returns the last segment that is not SACKed (RFC 6675 §4, NextSeg rule 4). Returns `None`
    /// if this segment was already retransmitted, because a rescue is then not needed.
    pub(super) fn last_hole(&self) -> Option<usize> {
        self.list.iter().rposition(|s| !s.sacked).filter(|index| !self.list[*index].resent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    /// Segments of 1000 bytes, sent a millisecond apart.
    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..segments {
            assert_eq!(board.push(1_000, Time::from_millis(n)), 1_000 * n);
        }
        board
    }

    fn sack(board: &mut Scoreboard, ack: u64, blocks: &[(u64, u64)]) -> Newly {
        let mut newly = Newly::default();
        let blocks: Vec<_> = blocks.iter().map(|(a, b)| (1_000 * a, 1_000 * b)).collect();
        board.acknowledge(1_000 * ack, &SackBlocks::from_slice(&blocks), &mut newly);
        newly
    }

    /// Tests IsLost and SetPipe of RFC 6675 §4.
    #[test]
    fn segments_are_declared_lost_as_in_rfc_6675() {
        let mut b = board(10);
        sack(&mut b, 0, &[(3, 4), (5, 6)]);
        assert_eq!((b.detect_losses(1_000), b.in_network()), (0, 8_000));
        // With a third piece, all segments below the pieces are lost, but the segments between the
        // pieces are not.
        sack(&mut b, 0, &[(7, 8)]);
        assert_eq!(
            (b.detect_losses(1_000), b.in_network(), b.is_first_lost()),
            (3_000, 4_000, true)
        );

        let mut b = board(10);
        sack(&mut b, 0, &[(1, 3)]);
        assert_eq!(b.detect_losses(1_000), 0, "two segments are not more than two");
        sack(&mut b, 0, &[(1, 4)]);
        assert_eq!((b.detect_losses(1_000), b.in_network()), (1_000, 6_000));
        b.resend(0, Time::from_millis(50), false);
        assert_eq!((b.in_network(), b.next_lost()), (7_000, None));
    }

    /// RFC 6675 §4, NextSeg: a retransmitted hole that is not known to be lost counts twice in the
    /// network.
    #[test]
    fn retransmitted_segment_not_known_lost_counts_twice_in_pipe() {
        let mut b = board(5);
        sack(&mut b, 0, &[(1, 2)]);
        assert_eq!((b.next_lost(), b.next_hole(), b.last_hole()), (None, Some(0), Some(4)));
        b.resend(0, Time::from_millis(50), false);
        assert_eq!((b.in_network(), b.next_hole()), (5_000, None));
        b.resend(4, Time::from_millis(51), true);
        assert_eq!(b.in_network(), 5_000, "a rescue does not count");
    }

    /// Each segment is reported once, even if a timeout in between clears the SACKed marks
    /// (RFC 2018 §8).
    #[test]
    fn each_delivered_segment_is_reported_once() {
        let mut b = board(4);
        assert_eq!(sack(&mut b, 0, &[(2, 4)]).packets.len(), 2);
        b.lose_all();
        assert_eq!((b.in_network(), b.lost().0, b.next_lost()), (0, 4_000, Some(0)));
        assert_eq!(sack(&mut b, 0, &[(2, 3)]).packets.len(), 0);
        let newly = sack(&mut b, 4, &[]);
        assert_eq!(
            (newly.packets.len(), newly.bytes, b.is_empty(), b.una()),
            (2, 4_000, true, 4_000)
        );
    }

    /// RFC 6298 §3: an ACK gives no sample if one of its segments was sent twice.
    #[test]
    fn retransmitted_segments_give_no_rtt_sample() {
        let mut b = board(4);
        assert_eq!(sack(&mut b, 1, &[]).sample, Some(Time::ZERO));
        b.resend(0, Time::from_millis(50), false);
        assert_eq!(sack(&mut b, 3, &[]).sample, None);
        assert_eq!(sack(&mut b, 4, &[]).sample, Some(Time::from_millis(3)));
    }

    /// The bounded searches find the same segments as a walk over all segments, for random ACKs.
    /// The reference is IsLost() and NextSeg() as the RFC words them (RFC 6675 §4).
    #[test]
    fn bounded_scoreboard_searches_match_full_scans() {
        for seed in 0..200 {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut b = board(3);
            let mut newly = Newly::default();
            for step in 0..400 {
                let now = Time::from_millis(10 + step);
                let held = b.list.len() as u64;
                match rng.random_range(0..20) {
                    0..6 => drop(b.push(rng.random_range(1..=1_000), now)),
                    6..15 => {
                        let edge = |rng: &mut Pcg64Mcg| match held {
                            0 => b.una(),
                            n => {
                                b.list[rng.random_range(0..n) as usize].seq
                                    + rng.random_range(0..5) / 4
                            }
                        };
                        let blocks: Vec<(u64, u64)> = (0..rng.random_range(0..=3))
                            .map(|_| (edge(&mut rng), edge(&mut rng)))
                            .filter(|(a, b)| a < b)
                            .collect();
                        let ack = if rng.random_bool(0.2) { edge(&mut rng) } else { b.una() };
                        let inside = |s: &Outstanding| {
                            blocks.iter().any(|(a, b)| s.seq >= *a && s.end() <= *b)
                        };
                        let sacked: Vec<bool> = b
                            .list
                            .iter()
                            .filter(|s| s.end() > ack)
                            .map(|s| s.sacked || inside(s))
                            .collect();
                        b.acknowledge(ack, &SackBlocks::from_slice(&blocks), &mut newly);
                        assert!(
                            b.list.iter().map(|s| s.sacked).eq(sacked),
                            "seed {seed}, step {step}"
                        );
                        let is_lost = |b: &Scoreboard, index: usize| {
                            let above = || b.list.range(index + 1..);
                            let bytes: u64 =
                                above().filter(|s| s.sacked).map(|s| u64::from(s.len)).sum();
                            let pieces = above().fold((0, false), |(n, on), s| {
                                (n + u32::from(s.sacked && !on), s.sacked)
                            });
                            pieces.0 >= DUPLICATE_THRESHOLD || bytes > 2_000
                        };
                        let lost: Vec<bool> = (0..b.list.len())
                            .map(|i| b.list[i].lost || (!b.list[i].sacked && is_lost(&b, i)))
                            .collect();
                        b.detect_losses(1_000);
                        assert!(b.list.iter().map(|s| s.lost).eq(lost), "seed {seed}, step {step}");
                    }
                    15 => b.lose_first(),
                    16 if rng.random_bool(0.1) => b.lose_all(),
                    17 => drop(b.lose_sent_by(Time::from_millis(step.saturating_sub(60)))),
                    _ => {
                        let next = if rng.random() { b.next_lost() } else { b.next_hole() };
                        if let Some(index) = next {
                            b.resend(index, now, false);
                        }
                    }
                }
                let lost = b.list.iter().position(|s| s.lost && !s.resent && !s.sacked);
                let hole =
                    b.list.iter().position(|s| !s.resent && !s.sacked && s.seq < b.sacked_end);
                let in_network: u64 = b.list.iter().map(Outstanding::in_network).sum();
                let bounded = (b.next_lost(), b.next_hole(), b.in_network());
                assert_eq!(bounded, (lost, hole, in_network), "seed {seed}, step {step}");
            }
        }
    }
}
