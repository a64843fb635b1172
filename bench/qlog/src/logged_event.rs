//! An event of a log as a reader gets it.

use serde_json::Value;

use crate::event::VantagePoint;

/// An event of a log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedEvent<'a> {
    /// Number of the event's connection in the file, from 0 in the order of appearance.
    pub connection: usize,
    /// Name of the connection, if the file has one.
    pub group: Option<&'a str>,
    /// Endpoint that logged the event, if the file says so.
    pub vantage: Option<VantagePoint>,
    /// Title of the trace, if the file has one.
    pub title: Option<&'a str>,
    /// Milliseconds since the first event of the trace. Negative if events are far out of order.
    pub at: f64,
    /// Time of day of the trace's reference time, in milliseconds since 1970, if the file has it.
    pub reference: Option<f64>,
    /// First part of the event's name, such as `recovery`, in lower case; empty if there is none.
    pub category: &'a str,
    /// Last part of the event's name, such as `metrics_updated`, in lower case.
    pub name: &'a str,
    /// Content of the event.
    pub data: &'a Value,
    /// Network path of the event, if the log distinguishes several (multipath, migration).
    pub path: Option<&'a Value>,
    /// Milliseconds per unit of time in the data: 1, or 0.001 if a trace counts microseconds, 1,000
    /// if it counts seconds. The value follows from the trace's own packets and acknowledgements
    /// and overrides the declared unit.
    pub unit: f64,
    /// Bytes per unit of congestion windows: 1, or the size of a packet if a trace counts packets.
    pub window_unit: f64,
    /// Bytes per unit of bytes in flight: 1, or the size of a packet if a trace counts packets.
    pub flight_unit: f64,
}

/// Reads a number, or a string that contains one, because some stacks quote numbers.
pub(crate) fn number(value: &Value) -> Option<f64> {
    let n = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    };
    n.filter(|n: &f64| n.is_finite())
}
