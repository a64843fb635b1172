//! Content of an event, independent of the draft and the stack.
//!
//! | stack | names |
//! |---|---|
//! | quinn, noq | `recovery:metrics_updated`, `recovery:packet_lost` (0.3); connections as groups |
//! | quiche | `quic:recovery_metrics_updated` (draft-12); before, as quinn |
//! | quic-go, aioquic | `recovery:metrics_updated`; aioquic uses milliseconds since 2021 |
//! | picoquic | arrays, microseconds, `cwnd` for the window |
//! | mvfst | arrays of text, microseconds, `metric_update`, `congestion_metric_update` with `current_cwnd`, `packets_lost` |

use serde_json::Value;

use crate::logged_event::{LoggedEvent, number};

/// A packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketNumberSpace {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Application,
}

/// Direction of a packet or of stream data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent by the endpoint that writes the log.
    Sent,
    /// Received by the endpoint that writes the log.
    Received,
}

/// Content of a metrics event. Times are in milliseconds, and the window is in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ParsedMetrics {
    /// Latest round-trip sample.
    pub latest_rtt: Option<f64>,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Option<f64>,
    /// Smallest round-trip time.
    pub min_rtt: Option<f64>,
    /// Congestion window in bytes.
    pub window: Option<f64>,
    /// Number of bytes in flight.
    pub in_flight: Option<f64>,
    /// Packets acknowledged by the ACK frame that caused the event (Fathom's logs only).
    pub acked_packets: Option<f64>,
    /// Bytes acknowledged by the ACK frame that caused the event (Fathom's logs only).
    pub acked_bytes: Option<f64>,
    /// Packets sent so far (Fathom's logs only).
    pub packets_sent: Option<f64>,
    /// Bytes sent so far (Fathom's logs only).
    pub bytes_sent: Option<f64>,
}

/// Round trip in milliseconds that senders assume before the first sample (RFC 9002 §6.2.2).
const INITIAL_RTT: f64 = 333.0;

impl ParsedMetrics {
    /// Removes round trips that senders assume before the first sample. Such a value is longer than
    /// the age of the connection (`since`, in milliseconds), which is impossible for a real round
    /// trip.
    pub fn without_guess(mut self, since: f64) -> Self {
        let is_guess = |rtt: &f64| since < 0.99 * rtt && (rtt / INITIAL_RTT - 1.0).abs() < 1e-3;
        for rtt in [&mut self.latest_rtt, &mut self.smoothed_rtt, &mut self.min_rtt] {
            *rtt = rtt.filter(|rtt| !is_guess(rtt));
        }
        self
    }
}

/// A controller's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Recovery: from a loss until packets sent after the loss are acknowledged.
    Recovery,
    /// Any other phase.
    Other,
}

/// Content of a loss event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParsedLoss {
    /// Number of packets; `None` if the event does not contain it. The event is then about one
    /// packet, or about as many packets as `bytes` suggests.
    pub packets: Option<u64>,
    /// Number and space of the packet, if the event names one.
    pub packet: Option<(PacketNumberSpace, u64)>,
    /// Number of bytes (logs of Fathom and mvfst only).
    pub bytes: Option<f64>,
    /// Send time of the newest lost packet in milliseconds of the log (Fathom's logs only).
    pub sent: Option<f64>,
}

/// A range of bytes in a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamData {
    /// Stream ID.
    pub stream: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// A packet that was sent or received.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Direction of the packet.
    pub direction: Direction,
    /// Packet number space and number, if the event has both.
    pub number: Option<(PacketNumberSpace, u64)>,
    /// Size in bytes; `None` if the event does not contain it.
    pub bytes: Option<u64>,
    /// STREAM frames in the packet.
    pub streams: Vec<StreamData>,
    /// First and last packet number of each range acknowledged by the packet's ACK frames.
    pub acked: Vec<(u64, u64)>,
}

/// End point of a response time, as a log or table records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResponseEnd {
    /// The last byte was handed to the server's QUIC, where it may wait for an unknown time.
    HandedOver,
    /// The server sent the last byte to the network.
    Sent,
    /// The client acknowledged the last byte.
    Acknowledged,
    /// The client received the last byte.
    Received,
}

/// A response as logged by Fathom's server; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParsedResponse {
    /// Bytes of the body.
    pub bytes: f64,
    /// Time from the request's header to the last byte.
    pub total: f64,
    /// Event at which `total` ends. Old logs contain only the time at which QUIC accepted the last
    /// byte.
    pub until: ResponseEnd,
}

/// A parsed event.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedEvent {
    /// Recovery metrics.
    Metrics(ParsedMetrics),
    /// Change of the controller's phase.
    Phase(Phase),
    /// Packets were declared lost.
    Lost(ParsedLoss),
    /// A packet was sent or received.
    Packet(Packet),
    /// Bytes moved between a stream and its user. Outgoing bytes count as handed over rather than
    /// sent, unless the log says that they went to the network.
    Stream(Direction, StreamData, ResponseEnd),
    /// A response ended.
    Response(ParsedResponse),
    /// Any other event.
    Other,
}

impl ParsedEvent {
    /// Parses an event.
    pub fn parse(event: &LoggedEvent<'_>) -> Self {
        let data = event.data;
        match event.name {
            "metrics_updated"
            | "recovery_metrics_updated"
            | "metric_update"
            | "congestion_metric_update" => Self::Metrics(metrics(event)),
            "congestion_state_updated" => {
                let new = data.get("new").or_else(|| data.get("new_state")).and_then(Value::as_str);
                let recovers = new.is_some_and(|s| s.to_ascii_lowercase().contains("recovery"));
                Self::Phase(if recovers { Phase::Recovery } else { Phase::Other })
            }
            "packet_lost" | "packets_lost" => Self::Lost(loss(data, event.unit)),
            "packet_sent" => Self::Packet(packet(Direction::Sent, data)),
            "packet_received" => Self::Packet(packet(Direction::Received, data)),
            "stream_data_moved" => moved(data)
                .map_or(Self::Other, |(way, bytes, until)| Self::Stream(way, bytes, until)),
            "response" if event.category == "fathom" => {
                response(data).map_or(Self::Other, Self::Response)
            }
            _ => Self::Other,
        }
    }
}

/// Returns the first of these entries that holds a number.
fn first(data: &Value, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| number(data.get(key)?))
}

/// Returns the first of these entries as a count; `None` if the number is negative or too large.
fn count(data: &Value, keys: &[&str]) -> Option<u64> {
    first(data, keys).filter(|n| (0.0..=9.007e15).contains(n)).map(|n| n as u64)
}

fn metrics(event: &LoggedEvent<'_>) -> ParsedMetrics {
    let (data, unit) = (event.data, event.unit);
    // Stacks write a round trip of zero before they have a sample.
    let rtt = |key| first(data, &[key]).map(|v| v * unit).filter(|v| *v > 0.0 && *v < 1e7);
    ParsedMetrics {
        latest_rtt: rtt("latest_rtt"),
        smoothed_rtt: rtt("smoothed_rtt"),
        min_rtt: rtt("min_rtt"),
        window: first(data, &["congestion_window", "cwnd", "current_cwnd"])
            .map(|window| window * event.window_unit)
            .filter(|window| *window > 0.0),
        in_flight: first(data, &["bytes_in_flight"])
            .map(|bytes| bytes * event.flight_unit)
            .filter(|bytes| *bytes >= 0.0),
        acked_packets: first(data, &["fathom_acked_packets"]),
        acked_bytes: first(data, &["fathom_acked_bytes"]),
        packets_sent: first(data, &["fathom_packets_sent"]),
        bytes_sent: first(data, &["fathom_bytes_sent"]),
    }
}

fn space(data: &Value) -> Option<PacketNumberSpace> {
    let header = data.get("header");
    let named = header.and_then(|h| h.get("packet_type").or_else(|| h.get("type")));
    let kind = named.or_else(|| data.get("packet_type")).and_then(Value::as_str)?;
    match kind.to_ascii_lowercase().replace(['_', '-'], "").as_str() {
        "initial" => Some(PacketNumberSpace::Initial),
        "handshake" => Some(PacketNumberSpace::Handshake),
        "1rtt" | "onertt" | "0rtt" | "zerortt" => Some(PacketNumberSpace::Application),
        _ => None,
    }
}

fn packet_number(data: &Value) -> Option<(PacketNumberSpace, u64)> {
    let number = data
        .get("header")
        .and_then(|h| count(h, &["packet_number"]))
        .or_else(|| count(data, &["packet_number"]));
    // A packet without a type counts as a 1-RTT packet, because nearly all packets are 1-RTT
    // packets.
    let space = match space(data) {
        None if data.get("packet_type").is_none()
            && data.pointer("/header/packet_type").is_none() =>
        {
            PacketNumberSpace::Application
        }
        None => return None,
        Some(space) => space,
    };
    Some((space, number?))
}

fn loss(data: &Value, unit: f64) -> ParsedLoss {
    ParsedLoss {
        packets: count(data, &["fathom_packets", "lost_packets"]),
        packet: packet_number(data).or_else(|| {
            Some((PacketNumberSpace::Application, count(data, &["largest_lost_packet_num"])?))
        }),
        bytes: first(data, &["fathom_bytes", "lost_bytes"]),
        sent: first(data, &["fathom_sent"]).map(|v| v * unit),
    }
}

fn packet(direction: Direction, data: &Value) -> Packet {
    let frames = |kind: &'static str| {
        let all = data.get("frames").and_then(Value::as_array).into_iter().flatten();
        let is = move |f: &&Value| {
            f.get("frame_type")
                .and_then(Value::as_str)
                .is_some_and(|k| k.eq_ignore_ascii_case(kind))
        };
        all.filter(is)
    };
    Packet {
        direction,
        number: packet_number(data),
        bytes: packet_bytes(data),
        streams: frames("stream").filter_map(bytes).collect(),
        acked: frames("ack").flat_map(acked).collect(),
    }
}

/// Returns the size of a packet. It is in `raw` as in the drafts, or in the header as in picoquic,
/// mvfst and quinn.
fn packet_bytes(data: &Value) -> Option<u64> {
    let header = || data.get("header").and_then(|h| count(h, &["packet_size", "length"]));
    let raw = data.get("raw").and_then(|raw| count(raw, &["length"]));
    raw.or_else(header).or_else(|| count(data, &["packet_size"])).filter(|bytes| *bytes > 0)
}

/// Returns the ranges of an ACK frame. A range is a pair of numbers, or one number if both ends are
/// equal.
fn acked(frame: &Value) -> impl Iterator<Item = (u64, u64)> + '_ {
    let whole = |v: &Value| number(v).filter(|n| (0.0..=9.007e15).contains(n)).map(|n| n as u64);
    let range = move |range: &Value| match range {
        Value::Array(ends) => {
            let first = whole(ends.first()?)?;
            let last = ends.get(1).map_or(Some(first), whole)?;
            Some((first.min(last), first.max(last)))
        }
        single => whole(single).map(|n| (n, n)),
    };
    frame.get("acked_ranges").and_then(Value::as_array).into_iter().flatten().filter_map(range)
}

/// Reads the byte range of a STREAM frame or of moved data, in the format of the drafts or of
/// picoquic.
fn bytes(data: &Value) -> Option<StreamData> {
    let raw = || data.get("raw").and_then(|raw| count(raw, &["payload_length", "length"]));
    Some(StreamData {
        stream: count(data, &["stream_id", "id"])?,
        offset: count(data, &["offset"]).unwrap_or(0),
        length: count(data, &["length"]).or_else(raw).unwrap_or(0),
    })
}

fn moved(data: &Value) -> Option<(Direction, StreamData, ResponseEnd)> {
    let is =
        |key: &str, what: &str| data.get(key).and_then(Value::as_str).is_some_and(|v| v == what);
    let (to_user, to_net) =
        (is("to", "user") || is("to", "application"), is("to", "transport") || is("to", "network"));
    let (way, until) = match (to_user, is("to", "network")) {
        (true, _) => (Direction::Received, ResponseEnd::Received),
        (false, true) => (Direction::Sent, ResponseEnd::Sent),
        (false, false) => (Direction::Sent, ResponseEnd::HandedOver),
    };
    (to_user || to_net).then(|| bytes(data)).flatten().map(|bytes| (way, bytes, until))
}

fn response(data: &Value) -> Option<ParsedResponse> {
    let time = |key| first(data, &[key]).filter(|t| *t >= 0.0);
    let acknowledged = time("acknowledged").map(|total| (total, ResponseEnd::Acknowledged));
    let (total, until) =
        acknowledged.or_else(|| Some((time("total")?, ResponseEnd::HandedOver)))?;
    Some(ParsedResponse { bytes: first(data, &["bytes"])?, total, until })
}
