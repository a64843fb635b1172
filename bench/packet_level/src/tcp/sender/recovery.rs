//! The sender's response to losses: fast recovery of Reno, NewReno and SACK, recovery from
//! timeouts, and QUIC's probes and loss detection by time.

use fathom_cc::{Cause, CongestionEvent, Time};

use super::super::options::LossRecovery;
use super::super::scoreboard::DUPLICATE_THRESHOLD;
use super::super::segment::{TcpAck, TcpSegment};
use super::{Fin, Recovery, TcpSender};

impl TcpSender {
    pub(super) fn begin_recovery(&mut self, recovery: Recovery) {
        self.recovery = recovery;
        self.recover = Some(self.board.high());
        self.reduced = self.recover;
        (self.forced, self.cwr_owed) = (true, true);
        // This segment is retransmitted first (RFC 6675 §5, step 4.3).
        self.rescue_above = self.board.first_end();
        (self.duplicates, self.inflation) = (0, 0);
    }

    pub(super) fn on_loss(&mut self, now: Time, bytes: u64, sent: Time, persistent: bool) {
        self.controller.on_congestion_event(&CongestionEvent {
            now,
            sent,
            cause: Cause::Loss { bytes, persistent },
        });
    }

    /// Handles duplicate ACKs, the progress of recovery, and marks.
    pub(super) fn react(&mut self, now: Time, ack: &TcpAck, advanced: bool) {
        let una = self.board.una();
        let repaired = self.recover.is_none_or(|recover| una >= recover);
        let kind = self.options.recovery;
        let was_fast = matches!(self.recovery, Recovery::Fast(_));
        match self.recovery {
            Recovery::Fast(_) if advanced && (repaired || kind == LossRecovery::Reno) => {
                self.end_fast_recovery()
            }
            Recovery::Fast(_) if kind == LossRecovery::Sack => {
                let _ = self.board.detect_losses(self.options.smss());
            }
            Recovery::Fast(_) if kind == LossRecovery::Rack => {}
            Recovery::Fast(_) if advanced => self.on_partial_ack(),
            Recovery::Fast(_) if !ack.with_data => self.inflation += i64::from(self.options.smss()),
            Recovery::Fast(_) => {}
            Recovery::Timeout if advanced && repaired => {
                self.recovery = Recovery::Open;
                self.end_recovery_by_time();
            }
            Recovery::Timeout | Recovery::Open => {}
        }
        if advanced {
            self.duplicates = 0;
        }
        // With SACK, an ACK of new data may also be a duplicate (RFC 6675 §2). RACK counts no
        // duplicates.
        let counts = kind != LossRecovery::Rack;
        if counts && !was_fast && !ack.with_data && (!advanced || kind == LossRecovery::Sack) {
            self.on_duplicate_ack(now);
        }
        let window_ago = ack.ack >= una && self.reduced.is_none_or(|reduced| una > reduced);
        if self.options.ecn && !self.options.accurate_ecn && ack.ece && window_ago {
            self.on_mark(now);
        }
    }

    fn on_duplicate_ack(&mut self, now: Time) {
        let sack = self.options.has_sack();
        // With SACK, a duplicate ACK must carry new information (RFC 6675 §2).
        if sack && !self.newly.sacked {
            return;
        }
        self.duplicates += 1;
        if self.recovery == Recovery::Timeout {
            return;
        }
        // NewReno requires an ACK beyond `recover`. With SACK, an ACK of `recover` is enough
        // (RFC 6582 §3.2, RFC 6675 §5).
        let una = self.board.una();
        let allowed = self.recover.is_none_or(|recover| una > recover || (sack && una == recover));
        if sack {
            self.board.detect_losses(self.options.smss());
        }
        let threshold = self.duplicates >= DUPLICATE_THRESHOLD;
        if allowed && (threshold || (sack && self.board.is_first_lost())) {
            self.board.lose_first();
            self.begin_fast_recovery(now);
        }
    }

    pub(super) fn begin_fast_recovery(&mut self, now: Time) {
        let smss = u64::from(self.options.smss());
        self.begin_reduction();
        self.begin_recovery(Recovery::Fast(false));
        self.counts.fast_recoveries += 1;
        if !self.options.has_sack() {
            self.inflation = (u64::from(DUPLICATE_THRESHOLD) * smss) as i64;
        }
        self.cap = self.cap.map(|cap| (cap / 2).max(2 * smss));
        let (bytes, sent) = self.board.lost();
        self.on_loss(now, bytes, sent, false);
    }

    /// Sends the next hole at once. Deflates the window by the number of acknowledged bytes
    /// (RFC 6582 §3.2, step 3).
    fn on_partial_ack(&mut self) {
        let smss = u64::from(self.options.smss());
        let back = if self.newly.bytes >= smss { smss } else { 0 };
        self.inflation += back as i64 - self.newly.bytes as i64;
        self.board.lose_first();
        (self.recovery, self.forced) = (Recovery::Fast(true), true);
    }

    /// Ends fast recovery. NewReno continues with FlightSize plus one segment, to avoid a burst
    /// (RFC 6582 §3.2, step 3, first choice). Reno and SACK continue with ssthresh, which is the
    /// controller's window.
    fn end_fast_recovery(&mut self) {
        self.recovery = Recovery::Open;
        self.inflation = 0;
        self.end_recovery_by_time();
        if self.options.recovery == LossRecovery::NewReno {
            let smss = u64::from(self.options.smss());
            let flight = self.board.in_network().max(smss) + smss;
            self.cap = Some(self.cap.map_or(flight, |cap| cap.min(flight)));
        }
    }

    /// Sends a probe with new data or, if there are none, with the oldest unacknowledged segment.
    /// Each segment is probed only once (RFC 9002 §6.2.4).
    pub(super) fn probe(&mut self, now: Time) -> Option<TcpSegment> {
        if self.pending > 0 || self.fin == Fin::Owed {
            let len = self.pending.min(u64::from(self.options.smss())) as u16;
            return Some(self.send_data(now, len));
        }
        let index = self.board.next_outstanding(self.probed)?;
        self.probed = self.board.get(index).end();
        Some(self.resend(now, index, false))
    }

    /// Marks segments as lost that were sent before the newest acknowledged segment and more than
    /// 9/8 of a round trip ago (RFC 9002 §6.1.2). After two consecutive probe timeouts, such a
    /// loss is persistent congestion. RFC 9002 §7.6.1 requires three times the timeout, and two
    /// consecutive timeouts add up to this time.
    pub(super) fn lose_by_time(&mut self, now: Time, timeouts: u32) {
        let Some(newest) = self.newly.packets.last().map(|p| p.sent) else { return };
        let rtt = self.rto.rtt();
        let delay = rtt.smoothed.max(rtt.latest) * 9 / 8;
        let by = Time::from_nanos(now.as_nanos().saturating_sub(delay.as_nanos() as u64));
        let before = Time::from_nanos(newest.as_nanos().saturating_sub(1));
        if self.board.lose_sent_by(by.min(before)) == 0 {
            return;
        }
        if self.recovery == Recovery::Open {
            self.begin_fast_recovery(now);
        }
        if timeouts >= 2 {
            let (bytes, sent) = self.board.lost();
            self.on_loss(now, bytes, sent, true);
        }
    }
}
