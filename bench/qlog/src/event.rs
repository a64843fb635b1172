//! Events and their encoding. They have the names and units of draft-ietf-quic-qlog-quic-events-13.
//! Additional events are under `fathom`.
//!
//! Times and delays are in milliseconds, sizes in bytes, rates in bits per second. Fields that the
//! draft does not define begin with `fathom_`.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// Endpoint that writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VantagePoint {
    /// Endpoint that opens the connection.
    Client,
    /// Endpoint that accepts the connection.
    Server,
}

/// Header of a log file.
#[derive(Clone, Debug)]
pub struct TraceHeader {
    /// Original destination connection ID, which identifies the connection. Only its letters, its
    /// digits and `-` appear in the file's name.
    pub id: String,
    /// Endpoint that writes the log.
    pub vantage: VantagePoint,
    /// Title, such as stack and controller.
    pub title: String,
    /// Wall-clock time at the log's time 0.
    pub began: SystemTime,
}

/// Recovery and congestion control state of a path after an event; `None` for unknown values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Latest round-trip sample.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub latest_rtt: Option<Duration>,
    /// Smoothed round-trip time.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub smoothed_rtt: Option<Duration>,
    /// Smallest round-trip time.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub min_rtt: Option<Duration>,
    /// Congestion window in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_window: Option<u64>,
    /// Bytes in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_in_flight: Option<u64>,
    /// Slow-start threshold in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u64>,
    /// Pacing rate in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_rate: Option<u64>,
    /// Packets newly acknowledged by the ACK frame that caused this event.
    #[serde(rename = "fathom_acked_packets", skip_serializing_if = "Option::is_none")]
    pub acked_packets: Option<u64>,
    /// Bytes newly acknowledged by the ACK frame that caused this event.
    #[serde(rename = "fathom_acked_bytes", skip_serializing_if = "Option::is_none")]
    pub acked_bytes: Option<u64>,
    /// Packets sent so far.
    #[serde(rename = "fathom_packets_sent", skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<u64>,
    /// Bytes sent so far.
    #[serde(rename = "fathom_bytes_sent", skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Queueing delay, averaged by the controller.
    #[serde(
        rename = "fathom_queueing_delay",
        skip_serializing_if = "Option::is_none",
        serialize_with = "millis"
    )]
    pub queueing: Option<Duration>,
    /// Delay that the sender adds to every packet.
    #[serde(
        rename = "fathom_added_delay",
        skip_serializing_if = "Option::is_none",
        serialize_with = "millis"
    )]
    pub hold: Option<Duration>,
    /// Window reductions for delay so far.
    #[serde(rename = "fathom_early_reductions", skip_serializing_if = "Option::is_none")]
    pub early_reductions: Option<u64>,
}

impl Metrics {
    /// Returns the metrics without values that did not change. A round-trip sample always counts as
    /// new, even if it is equal to the last one.
    pub(crate) fn since(&self, last: &Self) -> Self {
        fn news<T: PartialEq>(now: Option<T>, last: &Option<T>) -> Option<T> {
            now.filter(|v| last.as_ref() != Some(v))
        }
        Self {
            latest_rtt: self.latest_rtt,
            acked_packets: self.acked_packets,
            acked_bytes: self.acked_bytes,
            smoothed_rtt: news(self.smoothed_rtt, &last.smoothed_rtt),
            min_rtt: news(self.min_rtt, &last.min_rtt),
            congestion_window: news(self.congestion_window, &last.congestion_window),
            bytes_in_flight: news(self.bytes_in_flight, &last.bytes_in_flight),
            ssthresh: news(self.ssthresh, &last.ssthresh),
            pacing_rate: news(self.pacing_rate, &last.pacing_rate),
            packets_sent: news(self.packets_sent, &last.packets_sent),
            bytes_sent: news(self.bytes_sent, &last.bytes_sent),
            queueing: news(self.queueing, &last.queueing),
            hold: news(self.hold, &last.hold),
            early_reductions: news(self.early_reductions, &last.early_reductions),
        }
    }

    /// Returns the state in `self`, updated by `next`.
    pub(crate) fn then(&self, next: &Self) -> Self {
        Self {
            latest_rtt: next.latest_rtt.or(self.latest_rtt),
            acked_packets: next.acked_packets.or(self.acked_packets),
            acked_bytes: next.acked_bytes.or(self.acked_bytes),
            smoothed_rtt: next.smoothed_rtt.or(self.smoothed_rtt),
            min_rtt: next.min_rtt.or(self.min_rtt),
            congestion_window: next.congestion_window.or(self.congestion_window),
            bytes_in_flight: next.bytes_in_flight.or(self.bytes_in_flight),
            ssthresh: next.ssthresh.or(self.ssthresh),
            pacing_rate: next.pacing_rate.or(self.pacing_rate),
            packets_sent: next.packets_sent.or(self.packets_sent),
            bytes_sent: next.bytes_sent.or(self.bytes_sent),
            queueing: next.queueing.or(self.queueing),
            hold: next.hold.or(self.hold),
            early_reductions: next.early_reductions.or(self.early_reductions),
        }
    }
}

/// Change of the controller's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CongestionStateChange {
    /// Previous phase; `None` for the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<&'static str>,
    /// New phase, such as `slow_start`.
    pub new: &'static str,
}

/// Packets declared lost. One event covers all losses that were detected at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PacketsLost {
    /// Time at which the newest lost packet was sent, if known.
    #[serde(
        rename = "fathom_sent",
        skip_serializing_if = "Option::is_none",
        serialize_with = "millis"
    )]
    pub sent: Option<Duration>,
    /// Number of packets, if known.
    #[serde(rename = "fathom_packets", skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Number of bytes, if known.
    #[serde(rename = "fathom_bytes", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether all packets of a persistent-congestion period were lost (RFC 9002 §7.6).
    #[serde(rename = "fathom_persistent", skip_serializing_if = "is_false")]
    pub persistent: bool,
}

/// Congestion-experienced marks reported by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EcnMark {
    /// Time at which the newest marked packet was sent.
    #[serde(serialize_with = "plain_millis")]
    pub sent: Duration,
}

/// Sample of the forward one-way delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OneWayDelaySample {
    /// Delay in nanoseconds, including the offset between the clocks of both hosts. Only
    /// differences within a connection are meaningful.
    #[serde(rename = "one_way_delay", serialize_with = "nanos_as_millis")]
    pub delay: i64,
    /// Difference between this delay and the smallest one-way delay so far.
    #[serde(rename = "queueing_delay", serialize_with = "plain_millis")]
    pub queueing: Duration,
}

/// Negotiated method of measuring the connection's one-way delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimestampsNegotiated {
    /// Frame in use: `sync` (SYNC_TIMESTAMP), `timestamp` (TIMESTAMP) or `receive`
    /// (ACK_RECEIVE_TIMESTAMPS).
    pub frame: &'static str,
}

/// Response that the peer has acknowledged completely. Times count from the arrival of the
/// request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ResponseCompleted {
    /// HTTP status.
    pub status: u16,
    /// Bytes of the body.
    pub bytes: u64,
    /// Time until QUIC accepted the first byte.
    #[serde(serialize_with = "plain_millis")]
    pub first_byte_handed_over: Duration,
    /// Time until QUIC accepted the last byte. Data that fit into the send buffer are accepted at
    /// once.
    #[serde(serialize_with = "plain_millis")]
    pub handed_over: Duration,
    /// Time until the last byte was acknowledged.
    #[serde(serialize_with = "plain_millis")]
    pub acknowledged: Duration,
}

/// Response that ended before the peer had acknowledged it completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ResponseAbandoned {
    /// HTTP status.
    pub status: u16,
    /// Bytes of the body that QUIC accepted.
    pub bytes: u64,
    /// Time from the request's header until QUIC accepted the last byte; `None` if QUIC did not
    /// accept it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub handed_over: Option<Duration>,
}

/// An event. Events are copied and never allocated, because they are created on the packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// The event `quic:recovery_metrics_updated`.
    Metrics(Metrics),
    /// The event `quic:congestion_state_updated`.
    State(CongestionStateChange),
    /// The event `quic:packet_lost`.
    Lost(PacketsLost),
    /// The event `fathom:mark`.
    Marked(EcnMark),
    /// The event `fathom:one_way_delay`.
    OneWay(OneWayDelaySample),
    /// The event `fathom:timestamps_negotiated`.
    Timestamps(TimestampsNegotiated),
    /// The event `fathom:response`.
    Response(ResponseCompleted),
    /// The event `fathom:response_abandoned`.
    Abandoned(ResponseAbandoned),
}

impl Event {
    /// Returns the event's name in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Metrics(_) => "quic:recovery_metrics_updated",
            Self::State(_) => "quic:congestion_state_updated",
            Self::Lost(_) => "quic:packet_lost",
            Self::Marked(_) => "fathom:mark",
            Self::OneWay(_) => "fathom:one_way_delay",
            Self::Timestamps(_) => "fathom:timestamps_negotiated",
            Self::Response(_) => "fathom:response",
            Self::Abandoned(_) => "fathom:response_abandoned",
        }
    }
}

fn in_millis(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

fn plain_millis<S: Serializer>(d: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(in_millis(*d))
}

fn millis<S: Serializer>(d: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(d.map_or(0.0, in_millis))
}

fn nanos_as_millis<S: Serializer>(nanos: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*nanos as f64 / 1e6)
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(b: &bool) -> bool {
    !*b
}

#[derive(Serialize)]
struct Record<D> {
    time: f64,
    name: &'static str,
    data: D,
}

/// Writes a record: a separator, JSON, and a line end (RFC 7464 §2).
pub(crate) fn write_event(to: &mut dyn Write, at: Duration, event: &Event) -> io::Result<()> {
    write_record(to, &Record { time: in_millis(at), name: event.name(), data: event })
}

#[derive(Serialize)]
struct Ended {
    reason: &'static str,
    events_dropped: u64,
}

/// Writes the last record of an incomplete log.
pub(crate) fn write_gap(
    to: &mut dyn Write,
    at: Duration,
    reason: &'static str,
    dropped: u64,
) -> io::Result<()> {
    let data = Ended { reason, events_dropped: dropped };
    write_record(to, &Record { time: in_millis(at), name: "fathom:log_incomplete", data })
}

/// Writes the first record of a file. Readers older than the schema URIs look for `qlog_version`
/// and `qlog_format`.
pub(crate) fn write_header(to: &mut dyn Write, header: &TraceHeader) -> io::Result<()> {
    let record = serde_json::json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": header.title,
        "trace": {
            "title": header.title,
            "vantage_point": { "type": header.vantage, "name": "fathom" },
            "event_schemas": ["urn:ietf:params:qlog:events:quic-13", "urn:x-fathom:qlog:events:fathom-1"],
            "common_fields": {
                "group_id": header.id,
                "ODCID": header.id,
                "time_format": "relative_to_epoch",
                "reference_time": {
                    "clock_type": "monotonic",
                    "epoch": "unknown",
                    "wall_clock_time": rfc3339(header.began),
                },
            },
        },
    });
    write_record(to, &record)
}

fn write_record(mut to: &mut dyn Write, record: &impl Serialize) -> io::Result<()> {
    to.write_all(&[0x1e])?;
    serde_json::to_writer(&mut to, record)?;
    to.write_all(b"\n")
}

/// Formats a time as RFC 3339, in UTC with milliseconds.
fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Convert days to a date, with years that begin in March so that the leap day comes last (400
    // years are 146,097 days).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(at: u64, event: Event) -> String {
        let mut bytes = Vec::new();
        write_event(&mut bytes, Duration::from_micros(at), &event).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn qlog_events_are_encoded_as_documented() {
        let metrics = Metrics {
            latest_rtt: Some(Duration::from_micros(20_500)),
            congestion_window: Some(14_720),
            packets_sent: Some(3),
            ..Metrics::default()
        };
        assert_eq!(
            text(1_234, Event::Metrics(metrics)),
            "\u{1e}{\"time\":1.234,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"latest_rtt\":20.5,\"congestion_window\":14720,\
             \"fathom_packets_sent\":3}}\n"
        );
        let lost = PacketsLost {
            sent: Some(Duration::from_millis(7)),
            packets: None,
            bytes: Some(1_200),
            persistent: false,
        };
        assert_eq!(
            text(0, Event::Lost(lost)),
            "\u{1e}{\"time\":0.0,\"name\":\"quic:packet_lost\",\"data\":{\"fathom_sent\":7.0,\"fathom_bytes\":1200}}\n"
        );
        let one_way = OneWayDelaySample { delay: -1_500_000, queueing: Duration::from_micros(250) };
        assert!(
            text(0, Event::OneWay(one_way))
                .contains("{\"one_way_delay\":-1.5,\"queueing_delay\":0.25}")
        );
        let timestamps = Event::Timestamps(TimestampsNegotiated { frame: "receive" });
        assert!(
            text(0, timestamps)
                .contains("\"fathom:timestamps_negotiated\",\"data\":{\"frame\":\"receive\"}")
        );
        let ms = Duration::from_millis;
        let response = ResponseCompleted {
            status: 200,
            bytes: 9,
            first_byte_handed_over: ms(1),
            handed_over: ms(2),
            acknowledged: ms(3),
        };
        assert!(text(0, Event::Response(response)).contains(
            "\"fathom:response\",\"data\":{\"status\":200,\"bytes\":9,\"first_byte_handed_over\":1.0,\"handed_over\":2.0,\
             \"acknowledged\":3.0}"
        ));
        let abandoned = ResponseAbandoned { status: 200, bytes: 9, handed_over: None };
        assert!(
            text(0, Event::Abandoned(abandoned))
                .contains("_abandoned\",\"data\":{\"status\":200,\"bytes\":9}")
        );
        let state = CongestionStateChange { old: Some("slow_start"), new: "recovery" };
        assert!(
            text(0, Event::State(state)).contains("{\"old\":\"slow_start\",\"new\":\"recovery\"}")
        );
    }

    #[test]
    fn only_changed_metrics_and_samples_are_logged() {
        let rtt = Some(Duration::from_millis(20));
        let first = Metrics {
            latest_rtt: rtt,
            min_rtt: rtt,
            congestion_window: Some(10),
            ..Metrics::default()
        };
        let second = Metrics { congestion_window: Some(11), ..first };
        let news = second.since(&first);
        assert_eq!(
            news,
            Metrics { latest_rtt: rtt, congestion_window: Some(11), ..Metrics::default() }
        );
        assert_eq!(first.then(&news), second);
    }

    #[test]
    fn qlog_dates_are_formatted_as_in_rfc_3339() {
        let at = |seconds: u64, millis: u64| {
            rfc3339(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        // The dates are the last second of a leap day, the first second after it, a date in a
        // century year that is not a leap year, and a recent date.
        assert_eq!(at(951_868_799, 5), "2000-02-29T23:59:59.005Z");
        assert_eq!(at(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(1_767_225_599, 999), "2025-12-31T23:59:59.999Z");
    }
}
