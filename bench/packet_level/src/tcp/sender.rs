//! The sending side of TCP under the window of a [`Controller`]: handshake, window, fast retransmit
//! and recovery (RFC 5681, with RFC 6582, RFC 6675 or RFC 8985), timeouts (RFC 6298) and the
//! response to ECN marks (RFC 3168).
//!
//! The controller's window is cwnd whenever possible. The sender itself handles the parts of TCP
//! that the controller's interface cannot express:
//! - NewReno's inflation by duplicate ACKs (RFC 5681 §3.2) is added to the window and removed at
//!   the end of recovery.
//! - The sender applies a cap where TCP's window is smaller than the controller's: in the initial
//!   window, with one segment after a timeout, and with FlightSize after NewReno's recovery. The
//!   cap grows by slow start until it reaches the controller's window, and is then removed.
//! - Under such a cap, on duplicate ACKs and in recovery, the controller's window must not grow.
//!   These acknowledgements are therefore reported to the controller as `app_limited`.
//! - With [`GrowthCounting::Acks`], all packets of an acknowledgement together count as one segment
//!   (RFC 5681 §3.1).
//!
//! The controller gets one report of a loss per recovery and one report of marks per window. A
//! timeout is reported as persistent congestion. A repeated timeout of the same segment is not
//! reported, because ssthresh stays unchanged (RFC 5681 §3.1).
//!
//! Differences from the RFCs:
//! - ssthresh is the controller's fraction of its own window rather than of FlightSize
//!   (RFC 5681 §3.1, equation 4). It is at least the controller's minimum window.
//! - A segment that was just retransmitted is not used as a rescue retransmission (RFC 6675 §4,
//!   rule 4 of NextSeg).
//! - Marks of classic ECN are not counted, so [`AckEvent::ecn`] is set only with accurate ECN.
//! - Except with [`LossRecovery::Rack`], the sender undoes nothing when a retransmission proves to
//!   be spurious. A timeout is never undone.

mod handshake;
mod marks;
mod rack;
mod recovery;

use std::fmt;
use std::time::Duration;

use fathom_cc::{
    AckEvent, Controller, ControllerMetrics, EcnDelta, Pacing, SendParams, Sent, Time,
};

use super::options::{GrowthCounting, LossRecovery, TcpOptions};
use super::rto::RtoEstimator;
use super::scoreboard::{DUPLICATE_THRESHOLD, Newly, Scoreboard};
use super::segment::{TcpAck, TcpSegment};
use crate::pace;
use rack::Rack;

/// Counts of a sender over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Number of sent segments with data.
    pub sent: u64,
    /// Number of retransmissions among the sent segments with data.
    pub retransmitted: u64,
    /// Number of fast recoveries begun.
    pub fast_recoveries: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Timeouts of SYNs.
    pub syn_timeouts: u64,
    /// Number of data bytes acknowledged cumulatively.
    pub delivered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Closed,
    /// The sender waits for the other end to open the connection.
    Listening,
    /// The SYN has left at this time. The second field is the number of SYNs to send again.
    SynSent(Time, u32),
    Established,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    /// No FIN is planned. More data may follow.
    None,
    /// The FIN must be sent after the pending data.
    Owed,
    /// The FIN was sent. The field is the sequence number after the FIN.
    Sent(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    Open,
    /// Fast recovery. The field tells whether a partial ACK has already arrived.
    Fast(bool),
    /// Recovery from a timeout. All segments that were outstanding at the timeout are sent again.
    Timeout,
}

/// The sender of one flow.
pub struct TcpSender {
    controller: Box<dyn Controller>,
    options: TcpOptions,
    connection: Connection,
    /// Whether to send the SYN before there are data to send.
    opens: bool,
    /// Number of SYNs sent, and whether the handshake's ACK must be sent.
    syns: u32,
    ack_owed: bool,
    board: Scoreboard,
    newly: Newly,
    /// Number of bytes that have not been sent yet.
    pending: u64,
    fin: Fin,
    recovery: Recovery,
    /// First unsent byte when the last recovery began (`recover`), and when the window was last
    /// reduced for any reason (`reduced`).
    recover: Option<u64>,
    reduced: Option<u64>,
    duplicates: u32,
    /// NewReno's inflation in bytes. It is negative if deflation exceeds inflation.
    inflation: i64,
    /// Window of TCP in bytes; `None` unless it is smaller than the controller's window.
    cap: Option<u64>,
    /// Whether to send the first lost segment regardless of the window.
    forced: bool,
    /// Number of probes to send, and the sequence number from which their data are taken.
    probes_left: u32,
    probed: u64,
    /// Sequence number that a cumulative ACK must exceed before another rescue retransmission:
    /// RescueRxt (RFC 6675 §2) plus one.
    rescue_above: u64,
    rack: Rack,
    cwr_owed: bool,
    /// Numbers of unmarked and marked packets that accurate ECN has reported so far.
    marks: (u32, u32),
    rto: RtoEstimator,
    rto_at: Option<Time>,
    /// Number of timeouts since the last new acknowledgement.
    timeouts: u32,
    last_sent: Option<Time>,
    /// Earliest send time under pacing, and whether the sender is waiting for this time.
    next_send: Time,
    waits_for_pace: bool,
    app_limited: bool,
    counts: TcpCounts,
}

impl fmt::Debug for TcpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSender")
            .field("controller", &self.controller)
            .field("recovery", &self.recovery)
            .field("in_network", &self.board.in_network())
            .field("pending", &self.pending)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl TcpSender {
    /// Creates a sender with nothing to send. The controller counts windows in data bytes and has
    /// [`TcpOptions::smss`] as its datagram size.
    pub fn new(controller: Box<dyn Controller>, options: TcpOptions) -> Self {
        Self {
            controller,
            options,
            connection: Connection::Closed,
            opens: false,
            syns: 0,
            ack_owed: false,
            board: Scoreboard::default(),
            newly: Newly::default(),
            pending: 0,
            fin: Fin::None,
            recovery: Recovery::Open,
            recover: None,
            reduced: None,
            duplicates: 0,
            inflation: 0,
            cap: Some(options.initial_window.bytes(options.smss())),
            forced: false,
            probes_left: 0,
            probed: 0,
            rescue_above: 0,
            rack: Rack::default(),
            cwr_owed: false,
            marks: (0, 0),
            rto: RtoEstimator::new(options.rto),
            rto_at: None,
            timeouts: 0,
            last_sent: None,
            next_send: Time::ZERO,
            waits_for_pace: false,
            app_limited: true,
            counts: TcpCounts::default(),
        }
    }

    /// Starts a new connection. All state except the counts is reset, and undelivered bytes are
    /// dropped.
    pub fn restart(&mut self, controller: Box<dyn Controller>) {
        let old = std::mem::replace(self, Self::new(controller, self.options));
        (self.counts, self.board, self.newly) = (old.counts, old.board, old.newly);
        self.board.clear();
    }

    /// Adds `bytes` bytes to the data to send. The first call opens the connection.
    pub fn offer(&mut self, bytes: u64) {
        self.pending = self.pending.saturating_add(bytes);
    }

    /// Closes the sending side, so that a FIN follows the last byte.
    pub fn finish(&mut self) {
        if self.fin == Fin::None {
            self.fin = Fin::Owed;
        }
    }

    /// Returns whether all offered bytes were acknowledged, and the FIN if there is one.
    pub fn is_done(&self) -> bool {
        self.pending == 0 && self.fin != Fin::Owed && self.board.is_empty()
    }

    /// Returns the number of data bytes in the network, as the window counts them.
    pub const fn in_flight(&self) -> u64 {
        self.board.in_network()
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> TcpCounts {
        self.counts
    }

    /// Returns the controller's telemetry.
    pub fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    /// Returns cwnd in bytes without inflation: the controller's window, or the sender's cap if the
    /// cap is smaller.
    pub fn window(&self) -> u64 {
        let window = self.controller.send_params().window;
        self.cap.map_or(window, |cap| cap.min(window))
    }

    /// Returns the next segment to send now. Call this function repeatedly until it returns `None`.
    pub fn poll_send(&mut self, now: Time) -> Option<TcpSegment> {
        self.waits_for_pace = false;
        match self.connection {
            Connection::Closed if self.opens || self.pending > 0 => {
                return Some(self.send_syn(now));
            }
            Connection::SynSent(_, 1..) => return Some(self.send_syn(now)),
            Connection::Established => {}
            _ => return None,
        }
        if std::mem::take(&mut self.ack_owed) {
            let size = self.options.handshake.max(self.options.header());
            return Some(TcpSegment { size, ..self.segment(now, self.board.high(), 0) });
        }
        if self.probes_left > 0 {
            self.probes_left -= 1;
            let probe = if self.has_rack() { self.probe_tail(now) } else { self.probe(now) };
            if let Some(probe) = probe {
                return Some(probe);
            }
        }
        if std::mem::take(&mut self.forced)
            && let Some(lost) = self.board.next_lost()
        {
            self.app_limited = false;
            return Some(self.resend(now, lost, false));
        }
        let params = self.controller.send_params();
        let full = params.datagram.map_or(self.options.smss(), |d| d.clamp(1, self.options.smss()));
        self.restart_after_idle(now, params.window);
        self.cap = self.cap.filter(|cap| *cap < params.window);
        let window =
            (self.cap.unwrap_or(params.window) as i64).saturating_add(self.inflation).max(0) as u64;
        let window = self.reduced_window().unwrap_or(window);
        if self.resends_by_window()
            && let Some(lost) = self.board.next_lost()
        {
            self.app_limited = false;
            let len = self.board.get(lost).len;
            let fits = self.board.in_network() + u64::from(len) <= window;
            return (fits && self.may_pace(now, &params, len))
                .then(|| self.resend(now, lost, false));
        }
        self.send_new(now, &params, full, window)
    }

    /// Returns whether the window alone determines when lost segments are sent. In NewReno's
    /// recovery, duplicate and partial ACKs determine this instead.
    fn resends_by_window(&self) -> bool {
        match self.recovery {
            Recovery::Open => self.options.probes.is_some(),
            Recovery::Fast(_) => self.options.has_sack(),
            Recovery::Timeout => true,
        }
    }

    /// Sends new data if the window and the receiver allow it. Otherwise, in recovery with SACK,
    /// sends a hole or the rescue retransmission (RFC 6675 §4, NextSeg rules 2 to 4).
    fn send_new(
        &mut self,
        now: Time,
        params: &SendParams,
        full: u16,
        window: u64,
    ) -> Option<TcpSegment> {
        let extra = u64::from(self.limited_transmit()) * u64::from(self.options.smss());
        let congested = self.board.in_network() + u64::from(full) > window.saturating_add(extra);
        let ahead = self.board.high() - self.board.una();
        let most = self
            .options
            .max_window
            .map_or(u64::MAX, |n| u64::from(n) * u64::from(self.options.smss()));
        let idle = self.pending == 0 && self.fin != Fin::Owed;
        let small = self.options.nagle && self.pending < u64::from(full) && ahead > 0;
        let none = idle || small || ahead + u64::from(full) > most;
        // A sender that waits for pacing is not application-limited.
        self.app_limited = !congested && none;
        if congested || self.waits_for_third_duplicate() {
            return None;
        }
        if !none {
            let len = self.pending.min(u64::from(full)) as u16;
            return self.may_pace(now, params, len).then(|| self.send_data(now, len));
        }
        let sack = self.options.recovery == LossRecovery::Sack;
        if !sack || !matches!(self.recovery, Recovery::Fast(_)) {
            return None;
        }
        if let Some(hole) = self.board.next_hole() {
            let len = self.board.get(hole).len;
            return self.may_pace(now, params, len).then(|| self.resend(now, hole, false));
        }
        let last = self.board.last_hole().filter(|_| self.board.una() > self.rescue_above)?;
        self.rescue_above = self.board.high();
        Some(self.resend(now, last, true))
    }

    /// Returns how many segments limited transmit allows beyond the window now (RFC 3042 §2).
    fn limited_transmit(&self) -> u32 {
        let extra = !self.options.has_sack() && self.options.limited_transmit;
        let first = self.recovery == Recovery::Open && self.duplicates < DUPLICATE_THRESHOLD;
        if extra && first { self.duplicates } else { 0 }
    }

    /// Returns whether new data has to wait for the third duplicate ACK. With SACK, duplicate ACKs
    /// make room in the window, which is used with limited transmit only (RFC 6675 §5, step 3).
    fn waits_for_third_duplicate(&self) -> bool {
        self.options.has_sack()
            && !self.options.limited_transmit
            && self.recovery == Recovery::Open
            && self.duplicates > 0
    }

    /// Caps the window after an idle time (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Time, window: u64) {
        let idle = self.last_sent.is_some_and(|sent| now.since(sent) > self.rto.rto());
        if self.options.restart_idle && idle && self.board.is_empty() && self.pending > 0 {
            let restart = self.options.initial_window.bytes(self.options.smss());
            self.cap = Some(self.cap.unwrap_or(window).min(restart));
        }
    }

    /// Returns whether pacing allows a segment to leave now. If so, schedules the next segment.
    /// Without pacing, always returns true.
    fn may_pace(&mut self, now: Time, params: &SendParams, len: u16) -> bool {
        let round_trip = self.rto.is_sampled().then(|| self.rto.rtt().smoothed);
        // Pace by TCP's window, which may be smaller than the controller's.
        let params = SendParams { window: self.window(), ..*params };
        let gap = pace::gap(&params, round_trip, len).unwrap_or_default();
        if !gap.is_zero() {
            self.waits_for_pace = now < self.next_send;
            if self.waits_for_pace {
                return false;
            }
            self.next_send = now + gap;
        }
        true
    }

    fn segment(&self, now: Time, seq: u64, len: u16) -> TcpSegment {
        let fin = len > 0 && self.fin == Fin::Sent(seq + u64::from(len));
        TcpSegment {
            seq,
            len,
            fin,
            size: self.options.header() + len - u16::from(fin),
            ..TcpSegment::bare(now)
        }
    }

    fn send_data(&mut self, now: Time, len: u16) -> TcpSegment {
        self.pending -= u64::from(len);
        let fin = self.fin == Fin::Owed && self.pending == 0;
        let len = len + u16::from(fin);
        let seq = self.board.push(len, now);
        if fin {
            self.fin = Fin::Sent(seq + u64::from(len));
        }
        self.sent(now, len);
        self.arm_probe(now);
        let cwr = self.options.ecn && std::mem::take(&mut self.cwr_owed);
        TcpSegment { cwr, ecn_capable: self.options.ecn, ..self.segment(now, seq, len) }
    }

    fn resend(&mut self, now: Time, index: usize, rescue: bool) -> TcpSegment {
        self.board.resend(index, now, rescue);
        let segment = self.board.get(index);
        self.counts.retransmitted += 1;
        self.count_retransmission();
        self.sent(now, segment.len);
        if index == 0 && self.has_rack() {
            self.rto_at = Some(self.timer(now)); // as Linux's tcp_xmit_retransmit_queue
        }
        let ecn_capable = self.options.ecn && self.options.ecn_retransmissions;
        TcpSegment {
            retransmission: true,
            ecn_capable,
            ..self.segment(now, segment.seq, segment.len)
        }
    }

    /// Records that data leave. Starts the timer if it is not running (RFC 6298 §5, rule 5.1).
    fn sent(&mut self, now: Time, len: u16) {
        self.rto_at = self.rto_at.or_else(|| Some(self.timer(now)));
        self.last_sent = Some(now);
        self.counts.sent += 1;
        self.sent_in_reduction(u64::from(len));
        self.controller.on_sent(&Sent { now, bytes: u64::from(len) });
    }

    /// Returns the time at which to call [`TcpSender::on_timeout`], or to call
    /// [`TcpSender::poll_send`] again.
    pub fn timeout(&self) -> Option<Time> {
        let pace = self.waits_for_pace.then_some(self.next_send);
        [self.rto_at, pace, self.rack.check_at, self.rack.probe_at].into_iter().flatten().min()
    }

    /// Handles an expired timer (RFC 6298 §5, rules 5.4 to 5.7).
    pub fn on_timeout(&mut self, now: Time) {
        if self.on_rack_timeout(now) {
            return;
        }
        if self.rto_at.is_none_or(|at| at > now) {
            return; // Only the pacing timer has expired.
        }
        self.rto.back_off();
        if let Connection::SynSent(sent, _) = self.connection {
            self.connection =
                Connection::SynSent(sent, self.options.probes.map_or(1, |probes| probes.count));
            (self.rto_at, self.counts.syn_timeouts) = (None, self.counts.syn_timeouts + 1);
            return;
        }
        self.rto_at = Some(self.timer(now));
        self.counts.timeouts += 1;
        self.timeouts += 1;
        if let Some(probes) = self.options.probes {
            (self.probes_left, self.probed) = (probes.count, self.board.una());
            self.controller.on_probe_timeout(now, self.timeouts);
            return;
        }
        if self.board.is_empty() {
            // The sender waited because of a mark; nothing is lost.
            (self.cap, self.rto_at) = (Some(u64::from(self.options.smss())), None);
            return;
        }
        if self.has_rack() {
            self.lose_after_timeout(now);
        } else {
            self.board.lose_all();
        }
        self.begin_recovery(Recovery::Timeout);
        // Set the loss window (RFC 5681 §3.1).
        self.cap = Some(u64::from(self.options.smss()));
        if self.timeouts == 1 {
            let (bytes, sent) = self.board.lost();
            self.on_loss(now, bytes, sent, true);
        }
    }

    /// Processes an ACK or a SYN-ACK.
    pub fn on_ack(&mut self, now: Time, ack: &TcpAck) {
        if ack.syn || self.connection != Connection::Established {
            if ack.syn {
                self.on_syn_ack(now, ack);
            }
            return;
        }
        // The SACK blocks of an old ACK still count (RFC 6675 §5).
        let old = ack.ack < self.board.una() && !self.options.has_sack();
        if old || self.board.is_empty() {
            // The ACK is old, or no data are outstanding.
            self.newly.clear();
            if self.has_rack() {
                self.on_duplicate_data(now, ack);
                self.on_probe_ack(now, ack, false);
            }
            return;
        }
        let ecn = self.new_marks(ack);
        self.board.acknowledge(ack.ack, &ack.sack, &mut self.newly);
        let advanced = self.newly.bytes > 0;
        let sampled = match ack.echo {
            Some(echo) => advanced.then_some(echo),
            None => self.newly.sample,
        };
        if let Some(sent) = sampled {
            self.rto.sample(now.since(sent));
        }
        let timeouts = self.timeouts;
        self.counts.delivered += self.newly.bytes;
        if advanced || (self.newly.sacked && self.options.probes.is_some()) {
            (self.timeouts, self.probes_left) = (0, 0);
            self.restart_timer(now);
        }
        self.tell_acked(now, ack, advanced, ecn);
        self.react(now, ack, advanced);
        if self.options.probes.is_some() {
            self.lose_by_time(now, timeouts);
        }
        if self.has_rack() {
            self.detect_by_time(now, ack);
            self.on_probe_ack(now, ack, advanced);
            if advanced || self.newly.sacked {
                self.arm_probe(now);
            }
        }
        if ecn.is_some_and(|ecn| ecn.ce > 0) {
            self.tell_mark(now);
        }
    }

    /// Restarts the timer after new data were acknowledged (RFC 6298 §5, rules 5.2 and 5.3). In
    /// NewReno's recovery, only the first partial ACK restarts the timer (RFC 6582 §3.2).
    fn restart_timer(&mut self, now: Time) {
        let impatient = self.options.recovery == LossRecovery::NewReno
            && self.recovery == Recovery::Fast(true)
            && self.recover.is_some_and(|recover| self.board.una() < recover);
        if self.board.is_empty() && !self.is_stalled() {
            self.rto_at = None;
        } else if !impatient {
            self.rto_at = Some(self.timer(now));
        }
    }

    /// Returns the time at which a retransmission timer that starts now expires. The timeout
    /// includes a delay that the controller adds to packets at the sender (SDC), because this delay
    /// is part of the measured round trip. With such a delay, packets are so far apart that
    /// duplicate ACKs would come too late.
    fn timer(&self, now: Time) -> Time {
        let added = match self.controller.send_params().pacing {
            Pacing::Delay(added) => added,
            _ => Duration::ZERO,
        };
        now + self.rto.rto()
            + added
            + self.options.probes.map_or(Duration::ZERO, |probes| probes.ack_delay)
    }

    /// Reports an acknowledgement to the controller. Also grows the cap.
    fn tell_acked(&mut self, now: Time, ack: &TcpAck, advanced: bool, ecn: Option<EcnDelta>) {
        let smss = u64::from(self.options.smss());
        let grows = advanced && !self.app_limited && !matches!(self.recovery, Recovery::Fast(_));
        let one =
            self.options.counting == GrowthCounting::Acks || self.recovery == Recovery::Timeout;
        let mut acked = self.newly.bytes;
        if one {
            acked = acked.min(smss);
            let mut left = smss;
            // Process the newest packets first, because older packets may have been sent before a
            // reduction.
            for packet in self.newly.packets.iter_mut().rev() {
                packet.bytes = packet.bytes.min(left);
                left -= packet.bytes;
            }
        }
        if !self.newly.packets.is_empty() {
            self.controller.on_ack(&AckEvent {
                now,
                packets: &self.newly.packets,
                in_flight: self.board.in_network(),
                rtt: self.rto.rtt(),
                one_way: ack.one_way,
                ecn,
                app_limited: self.cap.is_some() || !grows,
            });
        }
        // RFC 3168 §6.1.2: an ACK that echoes a mark does not increase the window.
        let echoes = self.options.least_window < 2 && ack.ece;
        if grows && !echoes {
            self.cap = self.cap.map(|cap| cap.saturating_add(acked));
        }
    }
}

#[cfg(test)]
mod tests;
