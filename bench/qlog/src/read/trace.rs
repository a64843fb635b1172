//! Settings of a trace; fields of an event.

use std::borrow::Cow;

use serde_json::Value;

use crate::event::VantagePoint;
use crate::logged_event::{LoggedEvent, number};

/// Reference of event times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Times {
    /// All times refer to one reference time.
    #[default]
    Same,
    /// Each time refers to the time of the previous event.
    Previous,
}

/// Settings and clock of a trace.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    /// Milliseconds per unit of time.
    pub(super) unit: f64,
    pub(super) group: Option<String>,
    pub(super) vantage: Option<VantagePoint>,
    pub(super) title: Option<String>,
    /// Time of day of the reference time, in milliseconds since 1970.
    pub(super) reference: Option<f64>,
    times: Times,
    /// Field names of events that are arrays (draft-02 and before).
    fields: Vec<String>,
    /// Problems with the settings.
    pub(super) warnings: Vec<String>,
    /// Sum of all time differences so far.
    sum: f64,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            unit: 1.0,
            group: None,
            vantage: None,
            title: None,
            reference: None,
            times: Times::Same,
            fields: ["relative_time", "category", "event", "data"].map(str::to_owned).into(),
            warnings: Vec::new(),
            sum: 0.0,
        }
    }
}

/// Fields of an event.
pub(super) struct EventFields<'a> {
    pub(super) category: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) data: &'a Value,
    pub(super) group: Option<&'a str>,
    path: Option<&'a Value>,
}

/// The year 2000 in milliseconds since 1970. A smaller number is from a clock that started with the
/// machine.
const YEAR_2000: f64 = 946_684_800_000.0;

/// Reads a reference time. It is a number since 1970 in the trace's unit, or an object with a date
/// (draft-09 and later). Returns `None` if the value is not a time of day.
fn reference(value: &Value, unit: f64) -> Option<f64> {
    let of_number = || number(value).map(|n| n * unit).filter(|ms| *ms > YEAR_2000 && *ms < 1e14);
    let date = || {
        ["wall_clock_time", "epoch"].into_iter().find_map(|key| rfc3339(value.get(key)?.as_str()?))
    };
    of_number().or_else(date)
}

/// Converts `2026-01-31T12:00:00.250Z` or `2026-01-31T13:00:00.250+01:00` to milliseconds since
/// 1970 (RFC 3339 §5.6).
fn rfc3339(text: &str) -> Option<f64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0.0),
        None => {
            let at = time.rfind(['+', '-', '\u{2212}'])?;
            let sign = if time[at..].starts_with('+') { 1.0 } else { -1.0 };
            let [hours, minutes] =
                numbers(time[at..].trim_start_matches(['+', '-', '\u{2212}']), ':')?[..]
            else {
                return None;
            };
            (&time[..at], sign * (hours * 60.0 + minutes))
        }
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &time[..]) else { return None };
    // Years begin in March, so that the leap day comes last.
    let year = if *month <= 2.0 { year - 1.0 } else { *year };
    let day_of_year = ((153.0 * ((month + 9.0) % 12.0) + 2.0) / 5.0).floor() + day - 1.0;
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = 365.0 * year + leap_days + day_of_year - 719_468.0;
    Some(((days * 24.0 + hour) * 60.0 + minute - offset) * 60e3 + second * 1e3)
}

fn numbers(text: &str, by: char) -> Option<Vec<f64>> {
    text.split(by).map(|n| n.parse().ok().filter(|n: &f64| (0.0..10_000.0).contains(n))).collect()
}

impl Trace {
    /// Applies one entry of the trace's object. The entry `events` is handled elsewhere.
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        match key {
            "common_fields" => {
                let get = |key: &str| value.get(key);
                self.set_unit(get("time_units"));
                if let Some(format) = get("time_format").and_then(Value::as_str) {
                    let of_previous = matches!(format, "delta" | "relative_to_previous_event");
                    self.times = if of_previous { Times::Previous } else { Times::Same };
                }
                self.reference =
                    get("reference_time").and_then(|v| reference(v, self.unit)).or(self.reference);
                let name = ["group_id", "ODCID", "odcid", "dcid"]
                    .into_iter()
                    .find_map(|k| get(k)?.as_str());
                self.group = name.map(str::to_owned).or(self.group.take());
            }
            "configuration" => self.set_unit(value.get("time_units")),
            "event_fields" => {
                let names = value.as_array().into_iter().flatten();
                self.fields =
                    names.map(|n| n.as_str().unwrap_or("").to_ascii_lowercase()).collect();
                if self.fields.iter().any(|f| f == "delta_time") {
                    self.times = Times::Previous;
                }
            }
            "vantage_point" => {
                let kind = value.as_str().or_else(|| value.get("type")?.as_str()).unwrap_or("");
                self.vantage = match kind.to_ascii_lowercase().as_str() {
                    "client" => Some(VantagePoint::Client),
                    "server" => Some(VantagePoint::Server),
                    _ => None,
                };
            }
            "title" => self.title = value.as_str().map(str::to_owned),
            _ => {}
        }
    }

    fn set_unit(&mut self, unit: Option<&Value>) {
        let Some(unit) = unit.filter(|unit| !unit.is_null()) else { return };
        self.unit = match unit.as_str().unwrap_or("").trim().to_ascii_lowercase().as_str() {
            "ns" | "nanoseconds" => 1e-6,
            "us" | "\u{b5}s" | "\u{3bc}s" | "microseconds" => 1e-3,
            "s" | "seconds" => 1e3,
            "ms" | "milliseconds" => 1.0,
            _ => {
                let shown: String = unit.to_string().chars().take(40).collect();
                self.warnings.push(format!(
                    "the time_units of the log are {shown}, which is not a unit of qlog; \
                     milliseconds are assumed."
                ));
                self.unit
            }
        };
    }

    /// Applies the header of a sequence, or a second header.
    pub(super) fn add_header(&mut self, header: &Value) {
        let of_trace = header.get("trace").and_then(Value::as_object).into_iter().flatten();
        let own = header.as_object().into_iter().flatten().filter(|(key, _)| *key != "trace");
        // Apply units first, because other settings depend on the units.
        let mut all: Vec<(&String, &Value)> = own.chain(of_trace).collect();
        all.sort_by_key(|(key, _)| *key != "configuration");
        for (key, value) in all {
            if key != "title" || self.title.is_none() {
                self.set(key, value);
            }
        }
    }

    /// Returns the time of an event in the trace's unit. Fails if the record is not an event. An
    /// event is an object, or an array whose field names the trace declares.
    pub(super) fn time(&mut self, record: &Value) -> Result<f64, &'static str> {
        let raw = self.raw(record).ok_or("the event is neither an object nor an array")?;
        let of_day = |time: &Value| Some(rfc3339(time.as_str()?)? / self.unit);
        let time = raw
            .time
            .and_then(|time| number(time).or_else(|| of_day(time)))
            .ok_or("the event has no time")?;
        raw.name.ok_or("the event has no name")?;
        Ok(match self.times {
            Times::Same => time,
            // The first time difference refers to the reference time.
            Times::Previous => {
                self.sum += time;
                self.sum
            }
        })
    }

    /// Returns the fields of an event.
    pub(super) fn fields<'a>(&self, record: &'a Value) -> EventFields<'a> {
        const NOTHING: &Value = &Value::Null;
        let raw = self.raw(record).unwrap_or_default();
        let full = raw.name.unwrap_or("");
        let (category, name) = full.rsplit_once(':').unwrap_or((raw.category.unwrap_or(""), full));
        EventFields {
            category: lower(category),
            name: lower(name),
            data: raw.data.unwrap_or(NOTHING),
            group: raw.group,
            path: raw.path,
        }
    }

    fn raw<'a>(&self, record: &'a Value) -> Option<Raw<'a>> {
        match record {
            Value::Object(_) => Some(Raw::of_object(record)),
            Value::Array(places) => Some(Raw::of_array(&self.fields, places)),
            _ => None,
        }
    }
}

impl EventFields<'_> {
    /// Converts the fields to an event of the first connection. The event is at `at` milliseconds,
    /// and its data have `unit` milliseconds per unit of time.
    pub(super) fn at<'a>(&'a self, at: f64, trace: &'a Trace, unit: f64) -> LoggedEvent<'a> {
        LoggedEvent {
            connection: 0,
            group: self.group,
            vantage: trace.vantage,
            title: trace.title.as_deref(),
            at,
            reference: trace.reference,
            category: &self.category,
            name: &self.name,
            data: self.data,
            path: self.path.or_else(|| path_of(self.data)),
            unit,
            window_unit: 1.0,
            flight_unit: 1.0,
        }
    }
}

/// Returns the path that an event names in its data.
fn path_of(data: &Value) -> Option<&Value> {
    let inside = || data.get("header").and_then(|header| header.get("path_id"));
    data.get("path_id").or_else(inside).filter(|path| !path.is_null())
}

/// Converts to lower case, because draft-00 uses upper case.
fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    }
}

#[derive(Default)]
struct Raw<'a> {
    time: Option<&'a Value>,
    category: Option<&'a str>,
    name: Option<&'a str>,
    data: Option<&'a Value>,
    group: Option<&'a str>,
    path: Option<&'a Value>,
}

impl<'a> Raw<'a> {
    fn set(&mut self, key: &str, value: &'a Value) {
        match key {
            "time" | "relative_time" | "delta_time" => self.time = Some(value),
            "category" => self.category = value.as_str(),
            "name" | "event" | "event_type" | "type" => self.name = value.as_str().or(self.name),
            "data" => self.data = Some(value),
            "group_id" => self.group = value.as_str(),
            "path_id" | "path" => self.path = Some(value),
            _ => {}
        }
    }

    fn of_object(record: &'a Value) -> Self {
        let mut raw = Self::default();
        for (key, value) in record.as_object().into_iter().flatten() {
            raw.set(key, value);
        }
        raw
    }

    fn of_array(fields: &[String], places: &'a [Value]) -> Self {
        let mut raw = Self::default();
        fields.iter().zip(places).for_each(|(key, value)| raw.set(key, value));
        if raw.data.is_none_or(|d| !d.is_object()) {
            // If the array has more fields than declared, for example a trigger, the data are the
            // object at the end.
            raw.data = places.last().filter(|v| v.is_object()).or(raw.data);
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns milliseconds after the first time.
    fn at<const N: usize>(trace: &mut Trace, times: [Value; N]) -> [f64; N] {
        let all = times.map(|time| trace.time(&json!({ "time": time, "name": "a:b" })).unwrap());
        all.map(|time| (time - all[0]) * trace.unit)
    }

    #[test]
    fn event_times_are_read_in_all_formats_and_units() {
        let of = |key: &str, settings: Value| {
            let mut trace = Trace::default();
            trace.set(key, &settings);
            trace
        };
        let mut absolute = of("common_fields", json!({ "time_format": "absolute" }));
        assert_eq!(
            at(&mut absolute, [json!(1_700_000_000_000_u64), json!(1_700_000_000_012.5)]),
            [0.0, 12.5]
        );
        let mut delta = of("common_fields", json!({ "time_format": "delta" }));
        assert_eq!(at(&mut delta, [10, 5, 2].map(|t| json!(t))), [0.0, 5.0, 7.0]);
        let mut micros = of("configuration", json!({ "time_units": "us" }));
        assert_eq!(at(&mut micros, [json!("904"), json!("1904")]), [0.0, 1.0]);
        let mut seconds = of("common_fields", json!({ "time_units": "s" }));
        assert_eq!(at(&mut seconds, [json!(1), json!(1.5)]), [0.0, 500.0]);
    }

    #[test]
    fn reference_times_are_read_as_wall_clock_times() {
        let of = |value: Value, unit| reference(&value, unit);
        assert_eq!(of(json!(1_700_000_000_000.5), 1.0), Some(1_700_000_000_000.5));
        assert_eq!(of(json!("1600000000000000"), 1e-3), Some(1_600_000_000_000.0));
        let date = |text: &str| {
            of(
                json!({ "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": text }),
                1.0,
            )
        };
        assert_eq!(date("1970-01-01T00:00:00.000Z"), Some(0.0));
        assert_eq!(date("2000-03-01T00:00:00.000Z"), Some(951_868_800_000.0));
        assert_eq!(date("2025-12-31T23:59:59.999Z"), Some(1_767_225_599_999.0));
        let zones =
            ["2025-12-31T23:59:59+01:00", "2025-12-31T17:29:59-05:30", "2025-12-31t22:59:59z"];
        assert_eq!(zones.map(date), [Some(1_767_221_999_000.0); 3]);
        for none in [
            "",
            "unknown",
            "2025-12-31",
            "2025-12-31T23:59Z",
            "2025-12-31T23:59:59",
            "2025-12-31T23:59:59+1",
        ] {
            assert_eq!(date(none), None, "{none}");
        }
        assert_eq!((of(json!("0"), 1e-3), of(json!("3638855510"), 1e-3)), (None, None));
    }

    #[test]
    fn event_names_of_all_qlog_drafts_are_read() {
        let mut trace = Trace::default();
        let mut name = |record: Value| {
            trace.time(&record).map_err(str::to_owned)?;
            let said = trace.fields(&record);
            Ok::<_, String>((said.category.into_owned(), said.name.into_owned(), said.data.clone()))
        };
        let is = |category: &str, name: &str, data: Value| {
            Ok((category.to_owned(), name.to_owned(), data))
        };
        assert_eq!(
            name(json!({ "time": 1, "name": "quic:packet_lost", "data": 1 })),
            is("quic", "packet_lost", json!(1))
        );
        let old =
            json!({ "relative_time": 1, "category": "RECOVERY", "event_type": "PACKET_LOST" });
        assert_eq!(name(old), is("recovery", "packet_lost", Value::Null));
        assert_eq!(
            name(json!([1, "recovery", "metrics_updated", {}])),
            is("recovery", "metrics_updated", json!({}))
        );
        let with_trigger = json!([1, "recovery", "metrics_updated", "default", { "cwnd": 1 }]);
        assert_eq!(name(with_trigger), is("recovery", "metrics_updated", json!({ "cwnd": 1 })));
        assert_eq!(name(json!({ "name": "a:b" })), Err("the event has no time".into()));
        assert_eq!(name(json!([1])), Err("the event has no name".into()));
        assert_eq!(
            name(json!({ "time": "soon", "name": "a:b" })),
            Err("the event has no time".into())
        );
        assert!(name(json!("text")).is_err());
    }
}
