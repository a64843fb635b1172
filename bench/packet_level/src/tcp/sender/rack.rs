//! Loss detection by the send times of segments, probes of the tail (RACK-TLP, RFC 8985), and the
//! reduction of the window during recovery (RFC 6937), as in Linux.
//!
//! As in Linux, the limit of RFC 6937 on what leaves below ssthresh is slow start as long as nothing
//! new is lost, and a reduction is undone if all retransmissions of a recovery proved unnecessary
//! (`tcp_try_undo_dsack`).

use std::time::Duration;

use fathom_cc::Time;

use super::super::options::LossRecovery;
use super::super::scoreboard::DUPLICATE_THRESHOLD;
use super::super::segment::{TcpAck, TcpSegment};
use super::{Fin, Recovery, TcpSender};

/// Shortest time to the probe of a tail, and the timer's granularity: two ticks of Linux's clock
/// (`TCP_TIMEOUT_MIN`) with 1000 ticks a second.
const GRANULARITY: Duration = Duration::from_millis(2);
/// Recoveries without DSACK after which the tolerance for reordering is again the smallest
/// (RFC 8985 §6.2, step 4).
const PERSISTENCE: u32 = 16;

/// A probe of the tail whose answer is awaited.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// First byte after the data that were sent at the time of the probe (TLP.end_seq).
    end: u64,
    retransmission: bool,
}

/// State of RACK-TLP and of the reduction.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Transmission time and end of the segment that was sent last among those delivered, and its
    /// round trip (RACK.xmit_ts, RACK.end_seq, RACK.rtt).
    newest: (Time, u64),
    rtt: Duration,
    /// Highest end of a delivered segment (RACK.fack), and whether a segment below it was delivered
    /// after it (RACK.reordering_seen).
    highest: u64,
    reordering_seen: bool,
    /// Quarters of the smallest round trip by which segments may be late, beyond the first
    /// (RACK.reo_wnd_mult minus one), the recoveries until they are forgotten, and the end of the
    /// round in which they last grew (RACK.dsack_round).
    more_quarters: u32,
    persists: u32,
    round_end: Option<u64>,
    undo: Undo,
    /// Time at which segments that are not lost yet will be.
    pub(super) check_at: Option<Time>,
    pub(super) probe_at: Option<Time>,
    probe: Option<Probe>,
    reduction: Reduction,
}

impl Rack {
    #[cfg(test)]
    pub(super) const fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }
}

/// Whether the retransmissions of a recovery were necessary.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    /// First byte that was outstanding when the recovery began; `None` if nothing can be undone.
    from: Option<u64>,
    /// Number of retransmissions that no DSACK has reported yet, with those that were outstanding
    /// when the recovery began.
    left: u32,
    /// The sender's cap before the reduction.
    cap: Option<u64>,
}

/// Proportional rate reduction (RFC 6937 §3). All values are in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    /// Window before the reduction.
    before: u64,
    delivered: u64,
    sent: u64,
    /// Bytes that may leave before the next ACK.
    room: u64,
}

impl TcpSender {
    pub(super) fn has_rack(&self) -> bool {
        self.options.recovery == LossRecovery::Rack
    }

    /// Processes what an ACK says about send times. Marks losses, and begins recovery if there are
    /// any.
    pub(super) fn detect_by_time(&mut self, now: Time, ack: &TcpAck) {
        self.on_duplicate_data(now, ack);
        // RFC 8985 §6.2, steps 1 to 3.
        let shortest = self.rto.rtt().min;
        for delivered in &self.newly.delivered {
            let (at, round_trip) = ((delivered.sent, delivered.end), now.since(delivered.sent));
            if delivered.end < self.rack.highest && !delivered.retransmitted {
                self.rack.reordering_seen = true;
            }
            self.rack.highest = self.rack.highest.max(delivered.end);
            // Otherwise the original may have been acknowledged.
            let certain = !delivered.retransmitted || round_trip >= shortest;
            if certain {
                self.rack.rtt = round_trip;
                self.rack.newest = self.rack.newest.max(at);
            }
        }
        let delivered = self.newly.delivered.iter().map(|d| u64::from(d.len)).sum();
        let newly_lost = self.lose_late(now);
        if matches!(self.recovery, Recovery::Fast(_)) {
            self.reduce(delivered, newly_lost);
        }
    }

    /// Marks the segments that should have been delivered by now (RFC 8985 §6.2, steps 4 and 5).
    /// Returns the number of newly marked bytes. Begins recovery if anything lost was not sent again,
    /// which may also be left over from an earlier recovery.
    fn lose_late(&mut self, now: Time) -> u64 {
        let wait = self.rack.rtt + self.reordering_window();
        let (bytes, later) = self.board.lose_before(self.rack.newest, now, wait);
        self.rack.check_at = later.map(|sent| sent + wait);
        if self.recovery == Recovery::Open && self.board.next_lost().is_some() {
            self.begin_fast_recovery(now);
        }
        bytes
    }

    /// Returns how long a segment may arrive after a later one (RACK.reo_wnd). The factor is that
    /// of RFC 8985 §6.2, step 4, without DSACK.
    fn reordering_window(&self) -> Duration {
        let recovers = self.recovery != Recovery::Open;
        let enough = recovers || self.board.sacked() >= DUPLICATE_THRESHOLD as usize;
        if !self.rack.reordering_seen && enough {
            return Duration::ZERO;
        }
        let rtt = self.rto.rtt();
        (rtt.min / 4 * (self.rack.more_quarters + 1)).min(rtt.smoothed)
    }

    /// Handles the report of data that arrived twice: some retransmission was not necessary
    /// (RFC 8985 §6.2, step 4).
    pub(super) fn on_duplicate_data(&mut self, now: Time, ack: &TcpAck) {
        self.rack.round_end = self.rack.round_end.filter(|end| self.board.una() < *end);
        let Some((first, _)) = ack.sack.duplicate(ack.ack) else { return };
        if self.rack.round_end.is_none() {
            self.rack.round_end = Some(self.board.high());
            self.rack.more_quarters += 1;
            self.rack.persists = PERSISTENCE;
        }
        let undo = &mut self.rack.undo;
        if undo.left > 0 && undo.from.is_some_and(|from| first >= from) {
            undo.left -= 1;
            if undo.left == 0 {
                undo.from = None;
                self.cap = undo.cap;
                if matches!(self.recovery, Recovery::Fast(_)) {
                    self.recovery = Recovery::Open;
                }
                self.controller.on_spurious_congestion_event(now);
            }
        }
    }

    /// Counts a retransmission, which may prove unnecessary.
    pub(super) fn count_retransmission(&mut self) {
        self.rack.undo.left += 1;
    }

    /// Forgets the tolerance for reordering after recoveries without DSACK.
    pub(super) fn end_recovery_by_time(&mut self) {
        self.rack.persists = self.rack.persists.saturating_sub(1);
        if self.rack.persists == 0 {
            self.rack.more_quarters = 0;
        }
    }

    /// Begins a reduction (RFC 6937 §3). Must be called before the window is reduced.
    pub(super) fn begin_reduction(&mut self) {
        let before = self.window().max(1);
        self.rack.reduction = Reduction { before, ..Reduction::default() };
        let left = self.board.retransmitted();
        self.rack.undo = Undo { from: Some(self.board.una()), left, cap: self.cap };
        (self.rack.probe, self.rack.probe_at) = (None, None);
    }

    /// Computes how much may leave after an ACK in recovery (RFC 6937 §3), from the bytes that it
    /// delivered and those that it showed to be lost. If nothing was delivered, the window stays and
    /// the lost bytes make room in it.
    fn reduce(&mut self, delivered: u64, newly_lost: u64) {
        let smss = u64::from(self.options.smss());
        let (target, pipe) = (self.window(), self.board.in_network());
        let reduction = &mut self.rack.reduction;
        if delivered == 0 {
            reduction.room += newly_lost;
            return;
        }
        reduction.delivered += delivered;
        let room = if pipe > target {
            let share = u128::from(target) * u128::from(reduction.delivered);
            (share.div_ceil(u128::from(reduction.before)) as u64).saturating_sub(reduction.sent)
        } else {
            let mut limit = reduction.delivered.saturating_sub(reduction.sent).max(delivered);
            if self.newly.bytes > 0 && newly_lost == 0 {
                limit += smss;
            }
            limit.min(target - pipe)
        };
        // The first retransmission leaves at once.
        reduction.room = room.max(if reduction.sent == 0 { smss } else { 0 });
    }

    /// Counts bytes that leave in recovery.
    pub(super) fn sent_in_reduction(&mut self, bytes: u64) {
        let reduction = &mut self.rack.reduction;
        reduction.sent += bytes;
        reduction.room = reduction.room.saturating_sub(bytes);
    }

    /// Returns the window in recovery: what is in the network and what may leave.
    pub(super) fn reduced_window(&self) -> Option<u64> {
        let recovers = self.has_rack() && matches!(self.recovery, Recovery::Fast(_));
        recovers.then(|| self.board.in_network() + self.rack.reduction.room)
    }

    /// Marks what a timeout makes lost: the first segment, and those that should have been delivered
    /// by now (RFC 8985 §6.3).
    pub(super) fn lose_after_timeout(&mut self, now: Time) {
        let wait = self.rack.rtt + self.reordering_window();
        self.board.lose_before((now, u64::MAX), now, wait);
        self.board.lose_first();
        (self.rack.check_at, self.rack.probe_at, self.rack.probe) = (None, None, None);
        self.rack.undo = Undo::default();
    }

    /// Arms the timer of the tail's probe (RFC 8985 §7.2) after new data were sent or acknowledged.
    pub(super) fn arm_probe(&mut self, now: Time) {
        if !self.has_rack() {
            return;
        }
        let (outstanding, rtt) = (self.board.last(), self.rto.rtt());
        let calm = self.recovery == Recovery::Open && self.board.sacked() == 0;
        self.rack.probe_at = None;
        if let Some(last) = outstanding.filter(|_| calm && self.rack.probe.is_none()) {
            // A single segment may wait for the receiver's delayed ACK; Linux allows the smallest
            // timeout for it.
            let ack_delay = if last == 0 { self.options.rto.floor } else { GRANULARITY };
            let wait = if self.rto.is_sampled() {
                rtt.smoothed * 2 + ack_delay
            } else {
                self.options.rto.initial
            };
            let probe_at = now + wait;
            self.rack.probe_at = Some(self.rto_at.map_or(probe_at, |rto| rto.min(probe_at)));
        }
    }

    /// Handles the timers of this file. Returns whether one of them expired.
    pub(super) fn on_rack_timeout(&mut self, now: Time) -> bool {
        if self.rack.check_at.is_some_and(|at| at <= now) {
            self.newly.clear();
            let begins = self.recovery == Recovery::Open;
            let lost = self.lose_late(now);
            if matches!(self.recovery, Recovery::Fast(_)) {
                // At the beginning, one segment leaves, as if one had been delivered.
                self.reduce(if begins { u64::from(self.options.smss()) } else { 0 }, lost);
            }
            return true;
        }
        if self.rack.probe_at.is_some_and(|at| at <= now) {
            self.rack.probe_at = None;
            self.probes_left = 1;
            self.rto_at = Some(self.timer(now));
            return true;
        }
        false
    }

    /// Sends new data, or the last segment again (RFC 8985 §7.3).
    pub(super) fn probe_tail(&mut self, now: Time) -> Option<TcpSegment> {
        let full = self.options.smss();
        let most = self.options.max_window.map_or(u64::MAX, |n| u64::from(n) * u64::from(full));
        let fits = self.board.high() - self.board.una() + u64::from(full) <= most;
        let (sent, retransmission) = if fits && (self.pending > 0 || self.fin == Fin::Owed) {
            let len = self.pending.min(u64::from(full)) as u16;
            (self.send_data(now, len), false)
        } else {
            let last = self.board.last()?;
            (self.resend(now, last, true), true)
        };
        self.rack.probe = Some(Probe { end: self.board.high(), retransmission });
        self.rack.probe_at = None;
        Some(sent)
    }

    /// Finds out whether a probe repaired a loss (RFC 8985 §7.4). If so, the window is reduced.
    pub(super) fn on_probe_ack(&mut self, now: Time, ack: &TcpAck, advanced: bool) {
        let Some(probe) = self.rack.probe.filter(|probe| ack.ack >= probe.end) else { return };
        let twice = ack.sack.duplicate(ack.ack).is_some_and(|(_, end)| end == probe.end);
        if probe.retransmission && !twice && ack.ack > probe.end {
            let sent = self.newly.packets.last().map_or(now, |packet| packet.sent);
            self.reduced = Some(self.board.high());
            self.cap = self.cap.map(|cap| (cap / 2).max(2 * u64::from(self.options.smss())));
            self.on_loss(now, u64::from(self.options.smss()), sent, false);
        } else if probe.retransmission && !twice && (advanced || self.newly.sacked || ack.with_data)
        {
            return; // A later ACK decides.
        }
        self.rack.probe = None;
    }
}
