//! The sending side of a reliable bulk stream: loss detection and probe timeouts (RFC 9002 §6), persistent congestion (RFC 9002 §7.6), and
//! the window of a [`Controller`].
//!
//! All bytes of the stream are alike, so a packet only counts how many it carries: those of a lost packet go back to what is still to be
//! sent. A byte is thus in one packet at a time, and counts as delivered exactly once.
//!
//! Departures: `max_window` limits what is in flight (TCP's receiver window also counts what arrived behind a loss); two probes per
//! timeout, each with the data of an old packet when there is nothing new (RFC 9002 §6.2.4 allows one or two).

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

/// A packet is lost when one sent so many packets later was acknowledged (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u32 = 3;
/// UDP payload in bytes of a handshake's packet: clients and servers pad theirs (RFC 9000 §14.1).
const INITIAL: u16 = 1_200;
/// Probes sent when the timeout runs out.
const PROBES: u32 = 2;

/// How a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// UDP payload of a full packet in bytes; more than [`HEADER`].
    pub packet: u16,
    /// Full packets in flight at most, whatever the controller allows.
    pub max_window: Option<u32>,
    /// How long the peer may hold acknowledgements back.
    pub max_ack_delay: Duration,
    /// Data wait until a first packet without data was acknowledged, for an RTT sample as a handshake gives it.
    pub handshake: bool,
    /// Packets are ECN-capable, and marks are reported to the controller.
    pub ecn: bool,
}

/// What a sender did, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Probe timeouts that ran out.
    pub probe_timeouts: u64,
    /// Times of persistent congestion.
    pub persistent: u64,
    /// Stream bytes acknowledged.
    pub delivered: u64,
}

/// A packet not yet taken off the list.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    sent: Time,
    size: u16,
    /// Stream bytes it is responsible for.
    carries: u16,
    acked: bool,
}

/// The sender of one flow.
pub struct Sender {
    controller: Box<dyn Controller>,
    options: SenderOptions,
    /// Packets by number, from `base` on; the first is neither acknowledged nor lost.
    flight: VecDeque<InFlight>,
    base: u32,
    /// Bytes in flight.
    in_flight: u64,
    /// Stream bytes that packets in flight are responsible for, and those that none is.
    carried: u64,
    pending: u64,
    largest_acked: Option<u32>,
    last_sent: Time,
    /// When the oldest packet counts as lost by time.
    loss_time: Option<Time>,
    rtt: RttEstimator,
    /// First packet after the first RTT sample.
    sampled_from: Option<u32>,
    timeouts: u32,
    /// Probes still to send, and the number of the first packet after their timeout.
    probes: u32,
    probes_from: u32,
    /// When a paced sender may send again, and whether that is what it waits for.
    next_send: Time,
    waits_for_pace: bool,
    app_limited: bool,
    /// Unmarked and marked packets reported so far.
    reported: (u32, u32),
    /// Packets newly acknowledged by the frame at hand.
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
    /// A sender with nothing to send yet.
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

    /// Another connection takes this one's place: everything anew but the counts. Bytes not delivered are forgotten.
    pub fn restart(&mut self, controller: Box<dyn Controller>) {
        let old = std::mem::replace(self, Self::new(controller, self.options));
        (self.counts, self.flight, self.newly) = (old.counts, old.flight, old.newly);
        self.flight.clear();
    }

    /// So many bytes more to send.
    pub fn offer(&mut self, bytes: u64) {
        self.pending = self.pending.saturating_add(bytes);
    }

    /// Everything offered was acknowledged.
    pub const fn is_done(&self) -> bool {
        self.pending == 0 && self.carried == 0
    }

    /// Bytes in flight.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// What was done so far.
    pub const fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// The controller's telemetry.
    pub fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    /// The next packet to send now, if there is one. Call it until there is none.
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
        // Waiting for the pace is not the application's doing (RFC 9002 §7.8).
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

    /// The first packet, and another one each time its timeout runs out.
    fn poll_handshake(&mut self, now: Time) -> Option<Packet> {
        let due = self.flight.is_empty() || self.probes > 0;
        (self.probes, self.app_limited) = (0, true);
        (due && self.pending > 0).then(|| self.put(now, INITIAL.min(self.options.packet), 0))
    }

    /// Time to the next packet, where the controller asks for a pace.
    fn gap(&self, params: &SendParams, bytes: u16) -> Option<Duration> {
        pace::gap(params, self.rtt.is_sampled().then(|| self.rtt.rtt().smoothed), bytes)
    }

    /// Sends what is pending in a packet of up to `full` bytes.
    fn send(&mut self, now: Time, full: u16) -> Packet {
        let carries = self.pending.min(u64::from(full - HEADER)) as u16;
        // One without stream bytes is a PING.
        let size = if carries == 0 { ACK_DATAGRAM } else { carries + HEADER };
        self.put(now, size, carries)
    }

    /// Puts a packet of `size` bytes that carries so many of the pending ones on its way.
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

    /// A probe: new data, else that of the oldest packet from before the timeout, else (first probe only) a PING (RFC 9002 §6.2.4).
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

    /// When [`Sender::on_timeout`] is to be called, or [`Sender::poll_send`] again.
    pub fn timeout(&self) -> Option<Time> {
        let pace = self.waits_for_pace.then_some(self.next_send);
        [self.recovery_time(), pace].into_iter().flatten().min()
    }

    /// The loss timer if there is one, else the probe timeout while anything is in flight (RFC 9002 §6.2.1).
    fn recovery_time(&self) -> Option<Time> {
        let probe =
            || (self.in_flight > 0).then(|| self.last_sent + self.rtt.probe_timeout(self.timeouts));
        self.loss_time.or_else(probe)
    }

    /// The timer came up.
    pub fn on_timeout(&mut self, now: Time) {
        if self.recovery_time().is_none_or(|at| at > now) {
            return; // only the pace
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

    /// An acknowledgement arrived.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) {
        let Some(largest) = self.take_acked(ack) else { return };
        self.timeouts = 0;
        self.probes = 0;
        self.largest_acked = self.largest_acked.max(Some(largest));
        // A sample needs the newest packet of the frame to be newly acknowledged (RFC 9002 §5.1).
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

    /// What `ack` reports beyond the frames before it; a frame that came late reports nothing.
    fn new_counts(&mut self, ack: &Ack) -> EcnDelta {
        let (unmarked, marked) = (ack.received.saturating_sub(ack.ce), ack.ce);
        let before = self.reported;
        self.reported = (unmarked.max(before.0), marked.max(before.1));
        let [ect0, ce] = [self.reported.0 - before.0, self.reported.1 - before.1].map(u64::from);
        EcnDelta { ect0, ect1: 0, ce }
    }

    /// Fills `newly` with the packets that `ack` acknowledges first, oldest first; the largest number of them.
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

    /// Takes lost packets and acknowledged ones off the front of the list (RFC 9002 §6.1): packets are lost in the order of their numbers.
    fn detect_losses(&mut self, now: Time) {
        self.loss_time = None;
        let delay = self.rtt.loss_delay();
        let (mut bytes, mut newest, mut persistent) = (0, Time::ZERO, false);
        // When the first of the losses without an acknowledged packet among them was sent (RFC 9002 §7.6.2).
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
