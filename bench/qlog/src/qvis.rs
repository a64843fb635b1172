//! Export for qvis: one JSON document of qlog 0.3, with the names of that draft.
//!
//! The export is a separate step rather than an option of the writer, so that files of any stack,
//! including old files, can be converted. qvis draws its congestion graph over the packets sent.
//! Fathom's logs have no event for each packet, so the bytes sent between two metrics events become
//! one `packet_sent` event marked `fathom_aggregate`.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::event::VantagePoint;
use crate::input::Input;
use crate::logged_event::{LoggedEvent, number};
use crate::read::{ReadError, ReadProgress, Summary, read_input};

/// Maximum number of connections in a file that become traces. The file is read once for each of
/// them.
const CONNECTIONS: usize = 64;

/// Reason why a log cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error("cannot be written: {0}")]
    Write(#[from] io::Error),
    /// The log has too many connections.
    #[error(
        "contains {0} connections, but one file for qvis takes at most {CONNECTIONS}; record one \
         file per connection"
    )]
    Many(usize),
}

/// Converts the log of `from` for qvis and writes it to `to`.
///
/// # Errors
/// Returns an error if the log cannot be read or the output cannot be written.
pub fn export(
    from: &Path,
    to: &mut dyn Write,
    bytes: ReadProgress<'_>,
) -> Result<Summary, ExportError> {
    let input = Input::open(from).map_err(ReadError::from)?;
    // Nearly all logs have one connection, so write the first connection while counting all
    // connections.
    let mut about: Vec<About> = Vec::new();
    let mut first = Writer::new(to, 0);
    let summary = read_input(&input, bytes, &mut |event| {
        if event.connection == about.len() && about.len() < CONNECTIONS {
            let new = About::of(event);
            if about.is_empty() {
                first.begin_document(&new);
            }
            about.push(new);
        }
        first.take(event);
    })?;
    first.end()?;
    if summary.connections > CONNECTIONS {
        return Err(ExportError::Many(summary.connections));
    }
    for (connection, about) in about.iter().enumerate().skip(1) {
        to.write_all(b",")?;
        let mut trace = Writer::new(to, connection);
        trace.begin(about);
        read_input(&input, &mut |_| {}, &mut |event| trace.take(event))?;
        trace.end()?;
    }
    writeln!(to, "],\"title\":{}}}", json!(summary.title.as_deref().unwrap_or("fathom")))?;
    Ok(summary)
}

struct About {
    group: Option<String>,
    vantage: Option<VantagePoint>,
    title: String,
}

impl About {
    fn of(event: &LoggedEvent<'_>) -> Self {
        let title = event.title.unwrap_or("fathom").to_owned();
        Self { group: event.group.map(str::to_owned), vantage: event.vantage, title }
    }

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut common = json!({ "time_format": "relative", "reference_time": 0 });
        if let Some(group) = &self.group {
            common["ODCID"] = json!(group);
            common["group_id"] = json!(group);
        }
        let vantage = self.vantage.map_or(json!("unknown"), |v| json!(v));
        let title = json!(self.title);
        write!(
            to,
            "\n{{\"title\":{title},\"vantage_point\":{{\"name\":{title},\"type\":{vantage}}},\"common_fields\":{common},\"events\":[",
        )
    }
}

/// Writer of one trace.
struct Writer<'a> {
    to: &'a mut dyn Write,
    connection: usize,
    /// Numbers of packets and bytes sent at the last metrics event.
    packets: u64,
    sent: f64,
    events: u64,
    failed: Option<io::Error>,
}

impl<'a> Writer<'a> {
    fn new(to: &'a mut dyn Write, connection: usize) -> Self {
        Self { to, connection, packets: 0, sent: 0.0, events: 0, failed: None }
    }

    fn begin_document(&mut self, about: &About) {
        self.failed = self
            .to
            .write_all(b"{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"traces\":[")
            .err();
        if self.failed.is_none() {
            self.begin(about);
        }
    }

    fn begin(&mut self, about: &About) {
        self.failed = about.write(self.to).err();
    }

    fn end(self) -> io::Result<()> {
        self.failed.map_or_else(|| self.to.write_all(b"\n]}"), Err)
    }

    fn take(&mut self, event: &LoggedEvent<'_>) {
        if event.connection != self.connection || self.failed.is_some() {
            return;
        }
        if let Err(e) = self.write(event) {
            self.failed = Some(e);
        }
    }

    fn write(&mut self, event: &LoggedEvent<'_>) -> io::Result<()> {
        let mut data = event.data.clone();
        in_usual_units(&mut data, event);
        plain_lengths(&mut data);
        if let Some(sent) =
            event.data.get("fathom_bytes_sent").and_then(number).filter(|n| *n > self.sent)
        {
            // A packet needs a number. Without a count of packets, number the packets
            // consecutively.
            let packets = event
                .data
                .get("fathom_packets_sent")
                .and_then(number)
                .map_or(self.packets + 1, |n| n as u64);
            let of = json!({
                "header": { "packet_type": "1RTT", "packet_number": packets },
                "raw": { "length": (sent - self.sent) as u64 },
                "frames": [],
                "fathom_aggregate": true,
            });
            (self.packets, self.sent) = (packets, sent);
            self.record(event.at, "transport:packet_sent", &of)?;
        }
        self.record(event.at, &older_name(event.category, event.name), &data)
    }

    fn record(&mut self, at: f64, name: &str, data: &Value) -> io::Result<()> {
        let comma = if self.events > 0 { "," } else { "" };
        self.events += 1;
        write!(self.to, "{comma}\n{}", json!({ "time": at, "name": name, "data": data }))
    }
}

/// Returns the name of an event in qlog 0.3.
fn older_name(category: &str, name: &str) -> String {
    let category = match (category, name) {
        ("http3" | "h3", _) => "http",
        ("quic", "recovery_metrics_updated") => return "recovery:metrics_updated".into(),
        ("quic", "recovery_parameters_set") => return "recovery:parameters_set".into(),
        ("quic", "timer_updated") => return "recovery:loss_timer_updated".into(),
        (
            "quic",
            "congestion_state_updated"
            | "packet_lost"
            | "marked_for_retransmit"
            | "loss_timer_updated",
        ) => "recovery",
        ("quic", "key_updated" | "key_discarded" | "key_retired") => "security",
        ("quic", n)
            if n.starts_with("connection_")
                || matches!(n, "server_listening" | "spin_bit_updated") =>
        {
            "connectivity"
        }
        ("quic", _) => "transport",
        (other, _) => other,
    };
    format!("{category}:{name}")
}

/// Converts round trips to milliseconds and sizes to bytes.
fn in_usual_units(data: &mut Value, event: &LoggedEvent<'_>) {
    let mut scale = |keys: &[&str], unit: f64| {
        for key in keys {
            if let Some(value) = data.get_mut(*key).filter(|_| unit != 1.0)
                && let Some(n) = number(value)
            {
                *value = json!(n * unit);
            }
        }
    };
    scale(&["latest_rtt", "smoothed_rtt", "min_rtt", "rtt_variance"], event.unit);
    scale(&["congestion_window", "cwnd", "current_cwnd"], event.window_unit);
    scale(&["bytes_in_flight"], event.flight_unit);
    if let Some(window) =
        ["cwnd", "current_cwnd"].iter().find_map(|key| data.get(key).and_then(number))
    {
        data["congestion_window"] = json!(window);
    }
}

/// Copies `raw` lengths to `length`, which qvis reads. Newer drafts have only `raw`.
fn plain_lengths(data: &mut Value) {
    for frame in data.get_mut("frames").and_then(Value::as_array_mut).into_iter().flatten() {
        let length =
            frame.pointer("/raw/payload_length").or_else(|| frame.pointer("/raw/length")).cloned();
        if let (Some(length), Some(frame)) = (length, frame.as_object_mut()) {
            frame.entry("length").or_insert(length);
        }
    }
}
