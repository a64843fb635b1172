//! Path properties derived from a connection's log: the smallest round trip, the delivery rate
//! while the path was full, losses at a short and at a long queue, and the length of the queue.

use std::collections::BTreeMap;

use fathom_analyze::{Connection, FirstPath};
use fathom_qlog::{
    Direction, LoggedEvent, Packet, PacketNumberSpace, ParsedEvent, ParsedLoss, ParsedMetrics,
    VantagePoint,
};
use serde::Serialize;

use crate::delivery::{Bins, RateSource, is_queue};

/// Maximum number of packets whose size is remembered until they are acknowledged or lost; more
/// than any window.
const REMEMBERED: usize = 1 << 16;
/// Assumed bytes of a packet until one is known (RFC 9000 §14.1).
const PACKET: f64 = 1_200.0;
/// Bytes of the UDP and IPv4 headers of a packet.
const HEADERS: f64 = 28.0;
/// Steps per factor of e in the histogram of round trips; each step is 3%.
const STEPS: f64 = 32.0;
/// Fraction of the packets with a round trip below the long-queue value; the rest are late
/// acknowledgements.
const LONG: f64 = 0.9;
/// Minimum number of loss events at a short queue for treating them as random loss of the path.
const RANDOM_EVENTS: u64 = 3;

/// Path properties observed from a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observation {
    /// Base round trip in milliseconds: the smallest one, minus the transmission time of a full
    /// packet if the rate is known.
    pub rtt_ms: Option<f64>,
    /// Rate of the path in bits per second, including IP and UDP headers, if the path was full for
    /// a while.
    pub rate_bps: Option<f64>,
    /// Highest observed rate in bits per second, which is a lower bound of the path's rate.
    pub seen_bps: Option<f64>,
    /// Source of the rate.
    pub rate_source: Option<RateSource>,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost.
    pub lost: u64,
    /// Fraction of the packets lost while the queue was short, which means lost by the path and not
    /// by its queue.
    pub random_loss: Option<f64>,
    /// Maximum length of the queue in bytes, if the queue dropped packets and the path has no
    /// random loss.
    pub queue_bytes: Option<f64>,
    /// Bytes delivered.
    pub bytes: u64,
    /// Sizes of the responses in bytes.
    #[serde(skip)]
    pub responses: Vec<u64>,
    /// Milliseconds between the starts of consecutive requests.
    #[serde(skip)]
    pub gaps_ms: Vec<f64>,
    /// Start of the connection in milliseconds since 1970, if the log contains it.
    pub began_ms: Option<f64>,
}

impl Observation {
    /// Returns the fraction of the packets that was lost.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost as f64 / self.sent.max(self.lost) as f64)
    }

    /// Adds the responses of the log.
    pub(crate) fn with_responses(mut self, connection: &Connection) -> Self {
        self.responses =
            connection.responses.iter().map(|r| r.bytes).filter(|bytes| *bytes > 0).collect();
        let mut starts: Vec<f64> = connection.responses.iter().filter_map(|r| r.began_ms).collect();
        starts.sort_by(f64::total_cmp);
        self.gaps_ms = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        self
    }
}

/// Builder of an [`Observation`] from the events of a connection.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    bins: Bins,
    /// Sizes of the packets in flight.
    sizes: BTreeMap<(u8, u64), f64>,
    /// Smallest and latest round trip in milliseconds.
    least: Option<f64>,
    latest: Option<f64>,
    /// Smoothed round trip, used if the log has no samples.
    smoothed: Option<f64>,
    /// Packets acknowledged and lost, grouped by the round trip that was the latest at that time.
    by_rtt: BTreeMap<i32, Weight>,
    window: Option<f64>,
    counted_bytes: Option<f64>,
    counted_packets: Option<f64>,
    /// Packets sent, lost and acknowledged, and bytes acknowledged or sent.
    sent: f64,
    lost: f64,
    packets: f64,
    packet_bytes: f64,
    client: bool,
    path: FirstPath,
    began: Option<f64>,
    reference: Option<f64>,
    now: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    packets: f64,
    lost: f64,
    events: u64,
}

fn place((space, number): (PacketNumberSpace, u64)) -> (u8, u64) {
    (space as u8, number)
}

impl Observer {
    /// Processes the next event.
    pub fn take(&mut self, event: &LoggedEvent<'_>, parsed: &ParsedEvent) {
        self.now = self.now.max(event.at);
        self.client |= event.vantage == Some(VantagePoint::Client);
        self.reference = self.reference.or(event.reference);
        let since = self.now - *self.began.get_or_insert(self.now);
        if self.path.is_other(event, parsed) {
            return;
        }
        match parsed {
            ParsedEvent::Metrics(metrics) => self.metrics(&metrics.without_guess(since)),
            ParsedEvent::Lost(loss) => self.lost(loss),
            ParsedEvent::Packet(packet) => self.packet(packet),
            _ => {}
        }
    }

    fn metrics(&mut self, m: &ParsedMetrics) {
        let bin = self.bins.at(self.now);
        let acked = m.acked_bytes.unwrap_or(0.0).max(0.0);
        bin.acked += acked;
        self.window = m.window.or(self.window);
        bin.in_flight = m.in_flight.or(bin.in_flight);
        if let Some(bytes) = m.bytes_sent {
            let before = self.counted_bytes.replace(bytes).unwrap_or(0.0);
            bin.sent += (bytes - before).max(0.0);
        }
        self.counted_packets = m.packets_sent.or(self.counted_packets);
        let packets = m.acked_packets.unwrap_or(0.0).max(0.0);
        self.packets += packets;
        self.packet_bytes += acked;
        if m.latest_rtt.is_some() && self.latest.is_none() {
            // Smoothed values before the first sample are a stack's guess or the initial 333 ms.
            self.bins.forget_round_trips();
            self.by_rtt.clear();
            self.least = None;
        }
        self.latest = m.latest_rtt.or(self.latest);
        self.smoothed = m.smoothed_rtt.or(self.smoothed);
        let rtt = m.latest_rtt.or_else(|| m.smoothed_rtt.filter(|_| self.latest.is_none()));
        self.bins.at(self.now).sample(rtt);
        for rtt in [rtt, m.min_rtt].into_iter().flatten() {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if let Some(rtt) = rtt {
            self.weight(rtt).packets += packets.max(1.0);
        }
    }

    fn weight(&mut self, rtt: f64) -> &mut Weight {
        self.by_rtt.entry(((rtt.max(1e-3)).ln() * STEPS).round() as i32).or_default()
    }

    fn packet(&mut self, packet: &Packet) {
        let bytes = packet.bytes.map_or(PACKET, |bytes| (bytes as f64).min(65_535.0));
        let bin = self.bins.at(self.now);
        match packet.direction {
            Direction::Received => bin.received += bytes,
            Direction::Sent => {
                bin.sent += bytes;
                self.sent += 1.0;
                self.packets += 1.0;
                self.packet_bytes += bytes;
                if let Some(number) = packet.number {
                    self.sizes.insert(place(number), bytes);
                    while self.sizes.len() > REMEMBERED {
                        self.sizes.pop_first();
                    }
                }
            }
        }
        let Some((space, _)) = packet.number.filter(|_| packet.direction == Direction::Received)
        else {
            return;
        };
        let space = space as u8;
        let mut acked = 0.0;
        for (first, last) in &packet.acked {
            let there: Vec<_> = self
                .sizes
                .range((space, *first)..=(space, *last))
                .map(|(place, _)| *place)
                .collect();
            acked += there.iter().filter_map(|place| self.sizes.remove(place)).sum::<f64>();
        }
        self.bins.at(self.now).acked += acked;
    }

    fn lost(&mut self, loss: &ParsedLoss) {
        let each = self.mean_packet();
        let known = loss.packet.and_then(|packet| self.sizes.remove(&place(packet)));
        let packets = loss
            .packets
            .map(|n| n as f64)
            .or_else(|| loss.bytes.map(|bytes| (bytes / each).round()));
        let packets = packets.unwrap_or(1.0).clamp(1.0, 1e9);
        self.lost += packets;
        self.bins.at(self.now).lost += loss.bytes.or(known).unwrap_or(each * packets);
        if let Some(rtt) = self.latest.or(self.smoothed) {
            let weight = self.weight(rtt);
            weight.lost += packets;
            weight.events += 1;
        }
    }

    fn mean_packet(&self) -> f64 {
        if self.packets >= 1.0 && self.packet_bytes > 0.0 {
            self.packet_bytes / self.packets
        } else {
            PACKET
        }
    }

    /// Returns the source of the delivered bytes.
    fn source(&self) -> Option<RateSource> {
        let sum = |of: fn(&crate::delivery::Bin) -> f64| self.bins.sum(of);
        let flight =
            sum(|bin| f64::from(u8::from(bin.in_flight.is_some_and(|bytes| bytes > 0.0)))) > 0.0;
        let (acked, sent, received) =
            (sum(|bin| bin.acked), sum(|bin| bin.sent), sum(|bin| bin.received));
        if received > 0.0 && received >= sent && self.client {
            return Some(RateSource::Received);
        }
        match (acked > 0.0, sent > 0.0, flight) {
            (true, ..) => Some(RateSource::Acknowledged),
            (_, true, true) => Some(RateSource::SentLessInFlight),
            (_, true, false) => Some(RateSource::Sent),
            (_, _, true) => Some(RateSource::FlightOverRtt),
            _ => None,
        }
    }

    /// Returns the observation.
    pub fn finish(self) -> Observation {
        let source = self.source();
        let packet = self.mean_packet();
        // Full packets are larger than the mean if the packets include acknowledgements.
        let with_headers = (packet + HEADERS) / packet;
        let sent = self.counted_packets.unwrap_or(self.sent).max(0.0);
        let sent = if sent > 0.0 { sent } else { self.packets + self.lost };
        let mut observation = Observation {
            rtt_ms: self.least,
            rate_source: source,
            sent: sent.min(1e15) as u64,
            lost: self.lost.min(1e15) as u64,
            bytes: source.map_or(0.0, |source| self.bins.total(source)).min(1e18) as u64,
            began_ms: self.reference,
            ..Observation::default()
        };
        let Some((base, source)) = self.least.zip(source) else { return observation };
        let delivered = self.bins.rate(source, base, packet);
        let bits = |rate: f64| rate * 8.0 * with_headers;
        observation.seen_bps = delivered.highest.map(bits);
        observation.rate_bps = delivered.full.map(bits);
        let rate = delivered.full.or(delivered.highest);
        let packet_ms = rate.map_or(0.0, |rate| 1e3 * packet / rate);
        if delivered.full.is_some() {
            // The smallest round trip contains the transmission time of one full packet; the rest
            // is propagation.
            observation.rtt_ms = Some((base - packet_ms).max(base / 10.0));
        }
        let (random, longest) = self.losses(base, packet_ms);
        observation.random_loss = random;
        observation.queue_bytes =
            longest.zip(delivered.full).map(|(above, rate)| above / 1e3 * rate * with_headers);
        observation
    }

    /// Returns the fraction lost at a short queue, and the length of the queue in milliseconds if
    /// packets were lost at its end.
    fn losses(&self, base: f64, packet_ms: f64) -> (Option<f64>, Option<f64>) {
        let above =
            quantile_of(self.by_rtt.iter().map(|(step, weight)| (*step, weight.packets)), LONG)
                .map_or(0.0, |rtt| rtt - base);
        let queues = is_queue(above, base, packet_ms);
        let half = if queues { base + above / 2.0 } else { f64::INFINITY };
        let mut low = Weight::default();
        for (_, weight) in self.by_rtt.iter().filter(|(step, _)| rtt_of(**step) < half) {
            low.packets += weight.packets;
            low.lost += weight.lost;
            low.events += weight.events;
        }
        let lost_at_high =
            |step: i32, weight: &Weight| if rtt_of(step) < half { 0.0 } else { weight.lost };
        let steps = self.by_rtt.iter().map(|(step, weight)| (*step, lost_at_high(*step, weight)));
        let longest = quantile_of(steps, 0.5).map(|rtt| rtt - base);
        let part = low.lost / (low.packets + low.lost).max(1.0);
        let random = if low.events >= RANDOM_EVENTS { part } else { 0.0 };
        let known = low.packets + low.lost > 0.0;
        // If the path has random loss, losses do not reveal the maximum length of the queue.
        (known.then_some(random), longest.filter(|_| queues && random == 0.0))
    }
}

/// Returns the round trip of a step in milliseconds.
fn rtt_of(step: i32) -> f64 {
    (f64::from(step) / STEPS).exp()
}

/// Returns the round trip that this fraction of the weight does not exceed; `None` without any
/// weight.
fn quantile_of(steps: impl Iterator<Item = (i32, f64)> + Clone, part: f64) -> Option<f64> {
    let all: f64 = steps.clone().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let mut reached = |(step, weight): (i32, f64)| {
        below += weight;
        (weight > 0.0 && below >= part * all).then(|| rtt_of(step))
    };
    steps.into_iter().find_map(&mut reached)
}
