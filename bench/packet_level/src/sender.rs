//! The sending side of a reliable bulk stream: loss detection and probe timeouts (RFC 9002 §6),
//! persistent congestion (RFC 9002 §7.6), and the window of a [`Controller`].
//!
//! All stream bytes are interchangeable, so a packet only counts how many bytes it carries. The
//! bytes of a lost packet are added to the bytes that are still to be sent. Thus, each byte is in
//! only one packet at a time and counts as delivered exactly once.
//!
//! Differences from QUIC and TCP:
//! - `max_window` limits the bytes in flight. TCP's receiver window also counts data that arrived
//!   behind a loss.
//! - Each timeout sends two probes. A probe carries the data of an old packet if there are no new
//!   data (RFC 9002 §6.2.4 allows one or two probes).

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use fathom_cc::{
    AckEvent, Acked, Cause, CongestionEvent, Controller, ControllerMetrics, EcnDelta, SendParams,
    Sent, Time,
};

use super::pace;
use super::packet::{ACK_DATAGRAM, Ack, HEADER, Packet};
use super::rtt::RttEstimator;

/// Packet threshold of loss detection: a packet is lost if a packet sent this many packets later
/// was acknowledged (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u32 = 3;
/// UDP payload in bytes of a handshake packet. Clients and servers pad these packets to this size
/// (RFC 9000 §14.1).
const INITIAL: u16 = 1_200;
/// Number of probes sent per probe timeout.
const PROBES: u32 = 2;

/// Options of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// UDP payload of a full packet in bytes, above [`HEADER`].
    pub packet: u16,
    /// Maximum number of full packets in flight, in addition to the controller's window; `None` for
    /// no limit.
    pub max_window: Option<u32>,
    /// Maximum delay of the peer's acknowledgements.
    pub max_ack_delay: Duration,
    /// Whether data wait until a first packet without data has been acknowledged. Like a handshake,
    /// this exchange gives an RTT sample.
    pub handshake: bool,
    /// Whether packets are ECN-capable and marks are reported to the controller.
    pub ecn: bool,
}

/// Counts of a sender over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Probe timeouts that expired.
    pub probe_timeouts: u64,
    /// Number of times that persistent congestion was detected.
    pub persistent: u64,
    /// Stream bytes acknowledged.
    pub delivered: u64,
}

/// A packet that is still in the list of sent packets.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    sent: Time,
    size: u16,
    /// Number of stream bytes that this packet carries.
    carries: u16,
    acked: bool,
}

/// The sender of one flow.
pub struct Sender {
    controller: Box<dyn Controller>,
    options: SenderOptions,
    /// Sent packets by number, starting at `base`. The first packet is neither acknowledged nor
    /// lost.
    flight: VecDeque<InFlight>,
    base: u32,
    /// Bytes in flight.
    in_flight: u64,
    /// Numbers of stream bytes in packets in flight (`carried`) and in no packet (`pending`).
    carried: u64,
    pending: u64,
    largest_acked: Option<u32>,
    last_sent: Time,
    /// Time at which the oldest packet will be lost by the time threshold.
    loss_time: Option<Time>,
    rtt: RttEstimator,
    /// Number of the first packet sent after the first RTT sample.
    sampled_from: Option<u32>,
    timeouts: u32,
    /// Number of probes still to send, and number of the first packet after their timeout.
    probes: u32,
    probes_from: u32,
    /// Earliest send time under pacing, and whether the sender is waiting for this time.
    next_send: Time,
    waits_for_pace: bool,
    app_limited: bool,
    /// Numbers of unmarked and marked packets that acknowledgements have reported so far.
    reported: (u32, u32),
    /// Packets that the current frame newly acknowledges.
    newly: Vec<Acked>,
    counts: SenderCounts,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("controller", &self.controller)
            .field("in_flight", &self.in_flight)
            .field("pending", &self.pending)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Sender {
    /// Creates a sender with nothing to send.
    pub fn new(controller: Box<dyn Controller>, options: SenderOptions) -> Self {
        Self {
            controller,
            options,
            flight: VecDeque::new(),
            base: 0,
            in_flight: 0,
            carried: 0,
            pending: 0,
            largest_acked: None,
            last_sent: Time::ZERO,
            loss_time: None,
            rtt: RttEstimator::new(options.max_ack_delay),
            sampled_from: None,
            timeouts: 0,
            probes: 0,
            probes_from: 0,
            next_send: Time::ZERO,
            waits_for_pace: false,
            app_limited: true,
            reported: (0, 0),
            newly: Vec::new(),
            counts: SenderCounts::default(),
        }
    }

    /// Starts a new connection. All state except the counts is reset, and undelivered bytes are
    /// dropped.
    pub fn restart(&mut self, controller: Box<dyn Controller>) {
        let old = std::mem::replace(self, Self::new(controller, self.options));
        (self.counts, self.flight, self.newly) = (old.counts, old.flight, old.newly);
        self.flight.clear();
    }

    /// Adds `bytes` bytes to the data to send.
    pub fn offer(&mut self, bytes: u64) {
        self.pending = self.pending.saturating_add(bytes);
    }

    /// Returns whether all offered bytes were acknowledged.
    pub const fn is_done(&self) -> bool {
        self.pending == 0 && self.carried == 0
    }

    /// Returns the bytes in flight.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Returns the controller's telemetry.
    pub fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    /// Returns the next packet to send now. Call this function repeatedly until it returns `None`.
    pub fn poll_send(&mut self, now: Time) -> Option<Packet> {
        let params = self.controller.send_params();
        let full = params
            .datagram
            .map_or(self.options.packet, |d| d.clamp(HEADER + 1, self.options.packet));
        self.waits_for_pace = false;
        if self.options.handshake && self.largest_acked.is_none() {
            return self.poll_handshake(now);
        }
        if self.probes > 0 {
            self.probes -= 1;
            if let Some(probe) = self.probe(now, full) {
                return Some(probe);
            }
        }
        let after = self.in_flight + u64::from(full);
        let most = self
            .options
            .max_window
            .map_or(u64::MAX, |n| u64::from(n) * u64::from(self.options.packet));
        let congested = after > params.window;
        // A sender that waits for pacing is not application-limited (RFC 9002 §7.8).
        self.app_limited = !congested && (self.pending == 0 || after > most);
        if self.pending == 0 || congested || after > most {
            return None;
        }
        if let Some(gap) = self.gap(&params, full) {
            if now < self.next_send {
                self.waits_for_pace = true;
                return None;
            }
            self.next_send = now + gap;
        }
        Some(self.send(now, full))
    }

    /// Returns the handshake packet, and another one after each of its timeouts.
    fn poll_handshake(&mut self, now: Time) -> Option<Packet> {
        let due = self.flight.is_empty() || self.probes > 0;
        (self.probes, self.app_limited) = (0, true);
        (due && self.pending > 0).then(|| self.put(now, INITIAL.min(self.options.packet), 0))
    }

    /// Returns the time to the next packet; `None` unless the controller asks for pacing.
    fn gap(&self, params: &SendParams, bytes: u16) -> Option<Duration> {
        pace::gap(params, self.rtt.is_sampled().then(|| self.rtt.rtt().smoothed), bytes)
    }

    /// Sends pending bytes in a packet of up to `full` bytes.
    fn send(&mut self, now: Time, full: u16) -> Packet {
        let carries = self.pending.min(u64::from(full - HEADER)) as u16;
        // A packet without stream bytes is a PING.
        let size = if carries == 0 { ACK_DATAGRAM } else { carries + HEADER };
        self.put(now, size, carries)
    }

    /// Sends a packet of `size` bytes that carries `carries` of the pending bytes.
    fn put(&mut self, now: Time, size: u16, carries: u16) -> Packet {
        let number = self.next_number();
        self.pending -= u64::from(carries);
        self.carried += u64::from(carries);
        self.in_flight += u64::from(size);
        self.flight.push_back(InFlight { sent: now, size, carries, acked: false });
        self.last_sent = now;
        self.counts.sent += 1;
        self.controller.on_sent(&Sent { now, bytes: u64::from(size) });
        Packet { number, sent: now, size }
    }

    /// Sends a probe. It carries new data or, if there are none, the data of the oldest packet sent
    /// before the timeout. If there are no such data either, the first probe is a PING
    /// (RFC 9002 §6.2.4).
    fn probe(&mut self, now: Time, full: u16) -> Option<Packet> {
        if self.pending == 0 {
            let before = (self.probes_from - self.base.min(self.probes_from)) as usize;
            let old = self.flight.iter_mut().take(before).find(|p| !p.acked && p.carries > 0);
            match old {
                Some(old) => {
                    let bytes = u64::from(std::mem::take(&mut old.carries));
                    self.carried -= bytes;
                    self.pending += bytes;
                }
                None if self.probes + 1 < PROBES => return None,
                None => {}
            }
        }
        Some(self.send(now, full))
    }

    fn next_number(&self) -> u32 {
        self.base + self.flight.len() as u32
    }

    /// Returns the time at which to call [`Sender::on_timeout`], or to call [`Sender::poll_send`]
    /// again.
    pub fn timeout(&self) -> Option<Time> {
        let pace = self.waits_for_pace.then_some(self.next_send);
        [self.recovery_time(), pace].into_iter().flatten().min()
    }

    /// Returns the time of the loss timer if it is set. Otherwise, returns the time of the probe
    /// timeout if bytes are in flight (RFC 9002 §6.2.1).
    fn recovery_time(&self) -> Option<Time> {
        let probe =
            || (self.in_flight > 0).then(|| self.last_sent + self.rtt.probe_timeout(self.timeouts));
        self.loss_time.or_else(probe)
    }

    /// Handles an expired timer.
    pub fn on_timeout(&mut self, now: Time) {
        if self.recovery_time().is_none_or(|at| at > now) {
            return; // Only the pacing timer has expired.
        }
        if self.loss_time.is_some() {
            self.detect_losses(now);
            return;
        }
        self.timeouts += 1;
        self.probes = PROBES;
        self.probes_from = self.next_number();
        self.counts.probe_timeouts += 1;
        self.controller.on_probe_timeout(now, self.timeouts);
    }

    /// Processes an acknowledgement.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        let Some(largest) = self.take_acked(ack) else { return };
        self.timeouts = 0;
        self.probes = 0;
        self.largest_acked = self.largest_acked.max(Some(largest));
        // A sample requires that the frame newly acknowledges its newest packet (RFC 9002 §5.1).
        let newest = self.newly.last().copied();
        let fresh = newest.filter(|_| ack.ranges.largest() == Some(largest));
        if let Some(newest) = fresh {
            self.rtt.sample(now.since(newest.sent), ack.delay);
            self.sampled_from = self.sampled_from.or(Some(self.next_number()));
        }
        let ecn = self.new_counts(ack);
        self.controller.on_ack(&AckEvent {
            now,
            packets: &self.newly,
            in_flight: self.in_flight,
            rtt: self.rtt.rtt(),
            one_way: fresh.map(|_| ack.one_way),
            ecn: self.options.ecn.then_some(ecn),
            app_limited: self.app_limited,
        });
        self.detect_losses(now);
        if let Some(newest) = newest.filter(|_| self.options.ecn && ecn.ce > 0) {
            self.controller.on_congestion_event(&CongestionEvent {
                now,
                sent: newest.sent,
                cause: Cause::Mark,
            });
        }
    }

    /// Returns the numbers of packets that `ack` reports in addition to earlier frames. An older
    /// frame that arrives out of order adds nothing.
    fn new_counts(&mut self, ack: &Ack) -> EcnDelta {
        let (unmarked, marked) = (ack.received.saturating_sub(ack.ce), ack.ce);
        let before = self.reported;
        self.reported = (unmarked.max(before.0), marked.max(before.1));
        let [ect0, ce] = [self.reported.0 - before.0, self.reported.1 - before.1].map(u64::from);
        EcnDelta { ect0, ect1: 0, ce }
    }

    /// Fills `newly` with the packets that `ack` newly acknowledges, oldest first. Returns the
    /// largest number among them.
    fn take_acked(&mut self, ack: &Ack) -> Option<u32> {
        self.newly.clear();
        let mut largest = None;
        let end = self.next_number();
        for (first, last) in ack.ranges.as_slice().iter().rev() {
            for number in (*first).max(self.base)..last.saturating_add(1).min(end) {
                let packet = &mut self.flight[(number - self.base) as usize];
                if packet.acked {
                    continue;
                }
                packet.acked = true;
                self.in_flight -= u64::from(packet.size);
                self.carried -= u64::from(packet.carries);
                self.counts.delivered += u64::from(packet.carries);
                self.newly.push(Acked { sent: packet.sent, bytes: u64::from(packet.size) });
                largest = Some(number);
            }
        }
        largest
    }

    /// Removes lost and acknowledged packets from the front of the list (RFC 9002 §6.1). Packets
    /// are declared lost in the order of their numbers.
    fn detect_losses(&mut self, now: Time) {
        self.loss_time = None;
        let delay = self.rtt.loss_delay();
        let (mut bytes, mut newest, mut persistent) = (0, Time::ZERO, false);
        // Send time of the first packet in the current run of losses. No packet within such a run
        // was acknowledged (RFC 9002 §7.6.2).
        let mut since = None;
        while let Some(packet) = self.flight.front().copied() {
            if packet.acked {
                since = None;
            } else {
                let Some(largest) = self.largest_acked.filter(|largest| self.base < *largest)
                else {
                    break;
                };
                let due = packet.sent + delay;
                if largest - self.base < PACKET_THRESHOLD && due > now {
                    self.loss_time = Some(due);
                    break;
                }
                match since {
                    Some(start) => persistent |= packet.sent.since(start) > self.rtt.persistent(),
                    None if self.sampled_from.is_some_and(|from| self.base >= from) => {
                        since = Some(packet.sent)
                    }
                    None => {}
                }
                self.in_flight -= u64::from(packet.size);
                self.carried -= u64::from(packet.carries);
                self.pending += u64::from(packet.carries);
                self.counts.lost += 1;
                (bytes, newest) = (bytes + u64::from(packet.size), packet.sent);
            }
            self.flight.pop_front();
            self.base += 1;
        }
        if bytes > 0 {
            self.counts.persistent += u64::from(persistent);
            if persistent {
                self.rtt.forget_min();
            }
            self.controller.on_congestion_event(&CongestionEvent {
                now,
                sent: newest,
                cause: Cause::Loss { bytes, persistent },
            });
        }
    }
}

#[cfg(test)]
mod tests;
