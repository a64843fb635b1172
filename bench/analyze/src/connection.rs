//! The tcpRTT series of a connection (DCA §3.1) from the events of its log.
//!
//! # Departures
//! - **Samples**: every new `latest_rtt` is a round trip. qlog does not contain how many packets an
//!   ACK frame acknowledged, so frames that acknowledge a single packet also give samples. If a log
//!   contains the number (Fathom's logs do), only frames that acknowledge several packets give
//!   samples, as in the paper.
//! - **Send time of a lost packet**: taken from its `packet_sent` event, or from the loss event
//!   itself (Fathom's logs). Otherwise it is assumed to be one round trip before the packet was
//!   declared lost, and the result contains the number of such assumptions.
//! - **Newest packet only**: stacks take round trips of the largest newly acknowledged packet
//!   (RFC 9002 §5.1), so a log's samples are in order. If a log names the newest packet of each
//!   frame instead (Fathom's logs), samples of older packets are left out.
//! - **Recovery** is the state that `congestion_state_updated` calls recovery.
//! - **Packets sent** are the `packet_sent` events, or the count in the log (Fathom's logs), or all
//!   packets acknowledged or lost.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::{RttSample, RttSeries};
use fathom_qlog::{
    LoggedEvent, Packet, PacketNumberSpace, ParsedEvent, ParsedLoss, ParsedMetrics, Phase,
    ResponseEnd, ServerTitle, VantagePoint,
};
use serde::Serialize;

use super::kept::Kept;
use super::responses::{ResponseTime, Streams};

/// Maximum number of packets whose send time is remembered; more than any window.
const REMEMBERED: usize = 1 << 16;
/// Maximum number of round trips kept per connection, 8 MB.
const SAMPLES: usize = 1 << 18;
/// Maximum number of packets that a connection may claim, so that sums of many connections do not
/// overflow.
const MOST: u64 = 10_000_000_000_000;
/// Assumed bytes of a packet until one is known.
const PACKET: f64 = 1_200.0;

/// A connection as described by its log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Connection {
    /// Name in the log.
    pub name: Option<String>,
    /// Server's controller with its options, if the log names it (logs of `fathom serve` do).
    pub controller: Option<String>,
    /// Round trips and losses.
    #[serde(skip)]
    pub series: RttSeries,
    /// Packets sent, if known.
    pub sent: Option<u64>,
    /// Losses whose packet is assumed to have been sent one round trip earlier.
    pub guessed_losses: u64,
    /// Loss events in the log.
    pub loss_events: u64,
    /// Whether the log has smoothed round trips but no single ones.
    pub only_smoothed: bool,
    /// Mean congestion window over time, in bytes.
    pub window: Option<f64>,
    /// Events of paths other than the first, which were left out.
    pub other_paths: u64,
    /// Earliest end point of any response time; `None` without responses.
    #[serde(skip)]
    pub until: Option<ResponseEnd>,
    /// Responses.
    #[serde(skip)]
    pub responses: Vec<ResponseTime>,
}

/// Builds a [`Connection`] from events.
#[derive(Debug, Default)]
pub(super) struct Builder {
    name: Option<String>,
    controller: Option<String>,
    samples: Vec<RttSample>,
    /// Time of the first round trip that was not kept.
    cut_at: Option<Time>,
    /// Send time of the newest packet acknowledged so far, in milliseconds.
    newest: Option<f64>,
    recovers: bool,
    latest: Option<f64>,
    smoothed: Option<f64>,
    sent_at: BTreeMap<(u8, u64), f64>,
    /// Numbers of packets: sent, by events; sent, as counted by the log; acknowledged; lost.
    sent: u64,
    counted: Option<f64>,
    acked: f64,
    acked_bytes: f64,
    lost: u64,
    loss_events: u64,
    guessed: u64,
    window: Window,
    path: FirstPath,
    /// Start of the connection in milliseconds; the largest acknowledged packet of each space;
    /// whether an ACK frame arrived since the last round trip.
    began: Option<f64>,
    largest: BTreeMap<u8, u64>,
    acked_since: bool,
    streams: Streams,
    responses: Vec<ResponseTime>,
    /// End point of the response times that the log itself records.
    until: Option<ResponseEnd>,
    /// Latest time in milliseconds; events are taken in order.
    now: f64,
}

/// Filter for the first path of a connection. Other paths have their own round trips, losses and
/// packet numbers.
#[derive(Clone, Debug, Default)]
pub struct FirstPath {
    first: Option<serde_json::Value>,
    /// Number of events of other paths.
    pub others: u64,
}

impl FirstPath {
    /// Returns whether an event belongs to a path other than the first one seen. Events that name
    /// no path belong to the first.
    pub fn is_other(&mut self, event: &LoggedEvent<'_>, parsed: &ParsedEvent) -> bool {
        let of_path = matches!(
            parsed,
            ParsedEvent::Metrics(_) | ParsedEvent::Lost(_) | ParsedEvent::Packet(_)
        );
        let Some(path) = event.path.filter(|_| of_path) else { return false };
        let is_other = match &self.first {
            Some(first) => first != path,
            None => {
                self.first = Some(path.clone());
                false
            }
        };
        self.others += u64::from(is_other);
        is_other
    }
}

/// A time-weighted mean.
#[derive(Debug, Default)]
struct Window {
    last: Option<(f64, f64)>,
    area: f64,
    time: f64,
}

impl Window {
    fn is(&mut self, at: f64, bytes: f64) {
        self.until(at);
        self.last = Some((at, bytes));
    }

    fn until(&mut self, at: f64) {
        if let Some((from, bytes)) = self.last {
            self.area += bytes * (at - from);
            self.time += at - from;
            self.last = Some((at, bytes));
        }
    }

    fn mean(&self) -> Option<f64> {
        let only = self.last.map(|(_, bytes)| bytes);
        if self.time > 0.0 { Some(self.area / self.time) } else { only }
    }
}

/// Converts milliseconds of a log to a time.
fn time(ms: f64) -> Time {
    Time::from_nanos((ms.max(0.0) * 1e6).round() as u64)
}

impl Builder {
    pub(super) fn new(event: &LoggedEvent<'_>) -> Self {
        let controller =
            event.title.and_then(ServerTitle::parse).map(|title| title.controller.to_owned());
        Self { name: event.group.map(str::to_owned), controller, ..Self::default() }
    }

    pub(super) fn take(&mut self, event: &LoggedEvent<'_>, parsed: ParsedEvent, kept: &mut Kept) {
        self.now = self.now.max(event.at);
        let at = self.now;
        let since = at - *self.began.get_or_insert(at);
        let is_other = self.path.is_other(event, &parsed);
        match parsed {
            ParsedEvent::Packet(packet) if is_other => self.streams_of(at, &packet, event.vantage),
            ParsedEvent::Metrics(_) | ParsedEvent::Lost(_) if is_other => {}
            ParsedEvent::Metrics(metrics) => self.metrics(at, &metrics.without_guess(since), kept),
            ParsedEvent::Phase(phase) => self.recovers = phase == Phase::Recovery,
            ParsedEvent::Lost(loss) => self.lost(at, &loss),
            ParsedEvent::Packet(packet) => self.packet(at, &packet, event.vantage),
            ParsedEvent::Stream(way, bytes, until) => {
                self.streams.moved(at, way, bytes, until, event.vantage)
            }
            ParsedEvent::Response(r) if kept.response() => {
                self.until = Some(self.until.map_or(r.until, |until| until.min(r.until)));
                let began_ms = Some(at - r.total);
                let bytes = r.bytes.max(0.0) as u64;
                self.responses.push(ResponseTime {
                    bytes,
                    ms: r.total,
                    first_byte_ms: None,
                    began_ms,
                });
            }
            ParsedEvent::Response(_) | ParsedEvent::Other => {}
        }
    }

    fn metrics(&mut self, at: f64, m: &ParsedMetrics, kept: &mut Kept) {
        self.acked += m.acked_packets.unwrap_or(0.0);
        self.acked_bytes += m.acked_bytes.unwrap_or(0.0);
        self.counted = m.packets_sent.or(self.counted);
        if let Some(window) = m.window {
            self.window.is(at, window);
        }
        let smoothed_moved = m.smoothed_rtt.is_some() && m.smoothed_rtt != self.smoothed;
        self.smoothed = m.smoothed_rtt.or(self.smoothed);
        let Some(latest) = m.latest_rtt else { return };
        // Some stacks repeat the last sample whenever another metric changes, and two real samples
        // can be equal.
        let acked = std::mem::take(&mut self.acked_since);
        let is_new =
            m.acked_packets.is_some() || self.latest != Some(latest) || smoothed_moved || acked;
        self.latest = Some(latest);
        if is_new && self.counts(at - latest, m.acked_packets) && kept.sample() {
            self.sample(time(at), Duration::from_nanos((latest * 1e6) as u64));
        }
    }

    /// Returns whether the paper would take a sample of an ACK frame: it acknowledges several
    /// packets and the newest packet so far, outside recovery (DCA §3.1).
    fn counts(&mut self, sent: f64, packets: Option<f64>) -> bool {
        let Some(packets) = packets else { return !self.recovers };
        if self.newest.is_some_and(|newest| sent < newest) {
            return false;
        }
        self.newest = Some(sent);
        packets >= 2.0 && !self.recovers
    }

    fn sample(&mut self, at: Time, rtt: Duration) {
        if self.samples.len() == SAMPLES {
            self.cut_at.get_or_insert(at);
        } else {
            self.samples.push(RttSample { at, rtt, loss_follows: false });
        }
    }

    /// Marks the last sample that was taken no later than the time at which a lost packet was sent.
    fn mark(&mut self, sent: Time) {
        if self.cut_at.is_some_and(|cut| sent >= cut) {
            return;
        }
        let before = self.samples.partition_point(|sample| sample.at <= sent);
        if let Some(sample) = before.checked_sub(1).and_then(|last| self.samples.get_mut(last)) {
            sample.loss_follows = true;
        }
    }

    fn lost(&mut self, at: f64, loss: &ParsedLoss) {
        let logged =
            loss.packet.and_then(|packet| self.sent_at.remove(&place(packet))).or(loss.sent);
        let sent = logged.unwrap_or_else(|| at - self.latest.or(self.smoothed).unwrap_or(0.0));
        self.guessed += u64::from(logged.is_none());
        self.loss_events += 1;
        let each = if self.acked > 0.0 && self.acked_bytes > 0.0 {
            self.acked_bytes / self.acked
        } else {
            PACKET
        };
        let by_bytes = || loss.bytes.map(|bytes| (bytes / each).round().clamp(1.0, 1e9) as u64);
        let packets = loss.packets.or_else(by_bytes).unwrap_or(1).max(1);
        self.lost = self.lost.saturating_add(packets.min(MOST));
        self.mark(time(sent));
    }

    fn packet(&mut self, at: f64, packet: &Packet, vantage: Option<VantagePoint>) {
        if packet.direction == fathom_qlog::Direction::Sent {
            self.sent += 1;
            if let Some(number) = packet.number {
                self.sent_at.insert(place(number), at);
                while self.sent_at.len() > REMEMBERED {
                    self.sent_at.pop_first();
                }
            }
        }
        // RFC 9002 §5.1: a frame that acknowledges a new largest packet gives a sample.
        let largest = packet.acked.iter().map(|(_, last)| *last).max();
        if let (Some(largest), Some((space, _))) = (largest, packet.number) {
            let before = self.largest.insert(space as u8, largest);
            self.acked_since |= before.is_none_or(|before| before < largest);
            if let Some(before) = before.filter(|before| *before > largest) {
                self.largest.insert(space as u8, before);
            }
        }
        self.streams_of(at, packet, vantage);
    }

    fn streams_of(&mut self, at: f64, packet: &Packet, vantage: Option<VantagePoint>) {
        for bytes in &packet.streams {
            let until = if packet.direction == fathom_qlog::Direction::Sent {
                ResponseEnd::Sent
            } else {
                ResponseEnd::Received
            };
            self.streams.moved(at, packet.direction, *bytes, until, vantage);
        }
    }

    pub(super) fn finish(mut self, kept: &mut Kept) -> Connection {
        self.window.until(self.now);
        let sent = match (self.sent, self.counted) {
            (0, Some(counted)) => Some((counted as u64).min(MOST)),
            (0, None) if self.acked > 0.0 => {
                Some((self.acked as u64).min(MOST) + self.lost.min(MOST))
            }
            (0, None) => None,
            (sent, _) => Some(sent),
        };
        self.lost = self.lost.min(MOST);
        let series = RttSeries {
            samples: self.samples,
            sent: sent.unwrap_or(0),
            lost: self.lost,
            cut_at: self.cut_at.map(Time::as_secs_f64),
        };
        if self.until.is_none() {
            let (streams, until) = self.streams.finish();
            self.until = until;
            self.responses = streams.into_iter().take_while(|_| kept.response()).collect();
        }
        Connection {
            name: self.name,
            controller: self.controller,
            only_smoothed: series.samples.is_empty()
                && self.smoothed.is_some()
                && self.latest.is_none(),
            series,
            sent,
            guessed_losses: self.guessed,
            loss_events: self.loss_events,
            window: self.window.mean(),
            other_paths: self.path.others,
            until: self.until,
            responses: self.responses,
        }
    }
}

/// Returns the key of a packet. Application packets sort last, so packets of other spaces are
/// forgotten first.
fn place((space, number): (PacketNumberSpace, u64)) -> (u8, u64) {
    (space as u8, number)
}
