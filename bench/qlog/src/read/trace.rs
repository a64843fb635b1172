//! How a trace writes times and events, and what one event says.

use std::borrow::Cow;

use serde_json::Value;

use crate::event::VantagePoint;

/// How times relate to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Times {
    /// All to one moment.
    #[default]
    Same,
    /// Each to the event before.
    Previous,
}

/// A trace's settings, and where its clock is.
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
    /// Names of the places of an event that is an array (draft-02 and before).
    fields: Vec<String>,
    /// Time of the first event, in the trace's unit.
    first: Option<f64>,
    /// Sum of the differences so far.
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
            first: None,
            sum: 0.0,
        }
    }
}

/// What an event says.
pub(super) struct EventFields<'a> {
    pub(super) at: f64,
    pub(super) category: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) data: &'a Value,
    pub(super) group: Option<&'a str>,
}

/// A number, or text that is one: some stacks quote theirs.
pub(crate) fn number(value: &Value) -> Option<f64> {
    let n = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    };
    n.filter(|n: &f64| n.is_finite())
}

/// The year 2000 in milliseconds: a smaller number is of a clock that began with its machine.
const YEAR_2000: f64 = 946_684_800_000.0;

/// A reference time: a number of the trace's unit since 1970, or an object with a date (draft-09 on). What is no time of day is none.
fn reference(value: &Value, unit: f64) -> Option<f64> {
    let of_number = || number(value).map(|n| n * unit).filter(|ms| *ms > YEAR_2000 && *ms < 1e14);
    let date = || ["wall_clock_time", "epoch"].into_iter().find_map(|key| rfc3339(value.get(key)?.as_str()?));
    of_number().or_else(date)
}

/// `2026-01-31T12:00:00.250Z` in milliseconds since 1970; other time zones than UTC are not read.
fn rfc3339(text: &str) -> Option<f64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<Vec<f64>> {
        text.split(by).map(|n| n.parse().ok().filter(|n: &f64| (0.0..10_000.0).contains(n))).collect()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let ([year, month, day], [hour, minute, second]) = (&date[..], &time[..]) else { return None };
    // Years begin in March: the leap day comes last.
    let year = if *month <= 2.0 { year - 1.0 } else { *year };
    let day_of_year = ((153.0 * ((month + 9.0) % 12.0) + 2.0) / 5.0).floor() + day - 1.0;
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = 365.0 * year + leap_days + day_of_year - 719_468.0;
    Some(((days * 24.0 + hour) * 60.0 + minute) * 60e3 + second * 1e3)
}

impl Trace {
    /// Takes one entry of the trace's own object, `events` excepted.
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        match key {
            "common_fields" => {
                let get = |key: &str| value.get(key);
                self.set_unit(get("time_units"));
                if let Some(format) = get("time_format").and_then(Value::as_str) {
                    let of_previous = matches!(format, "delta" | "relative_to_previous_event");
                    self.times = if of_previous { Times::Previous } else { Times::Same };
                }
                self.reference = get("reference_time").and_then(|v| reference(v, self.unit)).or(self.reference);
                let name = ["group_id", "ODCID", "odcid", "dcid"].into_iter().find_map(|k| get(k)?.as_str());
                self.group = name.map(str::to_owned).or(self.group.take());
            }
            "configuration" => self.set_unit(value.get("time_units")),
            "event_fields" => {
                let names = value.as_array().into_iter().flatten();
                self.fields = names.map(|n| n.as_str().unwrap_or("").to_ascii_lowercase()).collect();
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
        self.unit = match unit.and_then(Value::as_str) {
            Some("ns") => 1e-6,
            Some("us") => 1e-3,
            Some("s") => 1e3,
            Some("ms") => 1.0,
            _ => self.unit,
        };
    }

    /// The header of a sequence.
    pub(super) fn of_header(header: &Value) -> Self {
        let mut trace = Self::default();
        trace.set("title", header.get("title").unwrap_or(&Value::Null));
        for (key, value) in header.get("trace").and_then(Value::as_object).into_iter().flatten() {
            if key != "title" || trace.title.is_none() {
                trace.set(key, value);
            }
        }
        trace
    }

    /// Reads an event: an object, or an array whose places the trace names.
    pub(super) fn event<'a>(&mut self, record: &'a Value) -> Result<EventFields<'a>, &'static str> {
        let raw = match record {
            Value::Object(_) => Raw::of_object(record),
            Value::Array(places) => Raw::of_array(&self.fields, places),
            _ => return Err("it is neither an object nor an array"),
        };
        let time = raw.time.and_then(number).ok_or("it has no time")?;
        let full = raw.name.ok_or("it has no name")?;
        let (category, name) = full.rsplit_once(':').unwrap_or((raw.category.unwrap_or(""), full));
        let at = match self.times {
            Times::Same => time - *self.first.get_or_insert(time),
            Times::Previous => {
                // The first difference is to the reference time.
                let first = *self.first.get_or_insert(time);
                self.sum += time;
                self.sum - first
            }
        };
        const NOTHING: &Value = &Value::Null;
        Ok(EventFields {
            at: at * self.unit,
            category: lower(category),
            name: lower(name),
            data: raw.data.unwrap_or(NOTHING),
            group: raw.group,
        })
    }
}

/// draft-00 shouts.
fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) { text.to_ascii_lowercase().into() } else { text.into() }
}

#[derive(Default)]
struct Raw<'a> {
    time: Option<&'a Value>,
    category: Option<&'a str>,
    name: Option<&'a str>,
    data: Option<&'a Value>,
    group: Option<&'a str>,
}

impl<'a> Raw<'a> {
    fn set(&mut self, key: &str, value: &'a Value) {
        match key {
            "time" | "relative_time" | "delta_time" => self.time = Some(value),
            "category" => self.category = value.as_str(),
            "name" | "event" | "event_type" | "type" => self.name = value.as_str().or(self.name),
            "data" => self.data = Some(value),
            "group_id" => self.group = value.as_str(),
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
            // A place more than was announced, as with a trigger: what is said is the object at the end.
            raw.data = places.last().filter(|v| v.is_object()).or(raw.data);
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(trace: &mut Trace, time: Value) -> f64 {
        trace.event(&json!({ "time": time, "name": "a:b" })).map(|said| said.at).unwrap()
    }

    #[test]
    fn times_count_from_the_first_event() {
        let mut absolute = Trace::default();
        absolute.set("common_fields", &json!({ "time_format": "absolute" }));
        assert_eq!(
            (at(&mut absolute, json!(1_700_000_000_000_u64)), at(&mut absolute, json!(1_700_000_000_012.5))),
            (0.0, 12.5)
        );
        let mut delta = Trace::default();
        delta.set("common_fields", &json!({ "time_format": "delta" }));
        assert_eq!([10, 5, 2].map(|t| at(&mut delta, json!(t))), [0.0, 5.0, 7.0]);
        let mut micros = Trace::default();
        micros.set("configuration", &json!({ "time_units": "us" }));
        assert_eq!((at(&mut micros, json!("904")), at(&mut micros, json!("1904"))), (0.0, 1.0));
        let mut seconds = Trace::default();
        seconds.set("common_fields", &json!({ "time_units": "s" }));
        assert_eq!((at(&mut seconds, json!(1)), at(&mut seconds, json!(1.5))), (0.0, 500.0));
        let mut disordered = Trace::default();
        assert_eq!((at(&mut disordered, json!(5)), at(&mut disordered, json!(3))), (0.0, -2.0));
    }

    #[test]
    fn reference_times_are_times_of_day() {
        let of = |value: Value, unit| reference(&value, unit);
        assert_eq!(of(json!(1_700_000_000_000.5), 1.0), Some(1_700_000_000_000.5));
        assert_eq!(of(json!("1600000000000000"), 1e-3), Some(1_600_000_000_000.0));
        let date =
            |text: &str| of(json!({ "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": text }), 1.0);
        assert_eq!(date("1970-01-01T00:00:00.000Z"), Some(0.0));
        assert_eq!(date("2000-03-01T00:00:00.000Z"), Some(951_868_800_000.0));
        assert_eq!(date("2025-12-31T23:59:59.999Z"), Some(1_767_225_599_999.0));
        for none in ["", "unknown", "2025-12-31", "2025-12-31T23:59Z", "2025-12-31T23:59:59+01:00"] {
            assert_eq!(date(none), None, "{none}");
        }
        assert_eq!((of(json!("0"), 1e-3), of(json!("3638855510"), 1e-3)), (None, None));
    }

    #[test]
    fn event_names_of_all_drafts_are_read() {
        let mut trace = Trace::default();
        let mut name = |record: Value| {
            let said = trace.event(&record).map_err(str::to_owned)?;
            Ok::<_, String>((said.category.into_owned(), said.name.into_owned(), said.data.clone()))
        };
        let is = |category: &str, name: &str, data: Value| Ok((category.to_owned(), name.to_owned(), data));
        assert_eq!(
            name(json!({ "time": 1, "name": "quic:packet_lost", "data": 1 })),
            is("quic", "packet_lost", json!(1))
        );
        let old = json!({ "relative_time": 1, "category": "RECOVERY", "event_type": "PACKET_LOST" });
        assert_eq!(name(old), is("recovery", "packet_lost", Value::Null));
        assert_eq!(name(json!([1, "recovery", "metrics_updated", {}])), is("recovery", "metrics_updated", json!({})));
        let with_trigger = json!([1, "recovery", "metrics_updated", "default", { "cwnd": 1 }]);
        assert_eq!(name(with_trigger), is("recovery", "metrics_updated", json!({ "cwnd": 1 })));
        assert_eq!(name(json!({ "name": "a:b" })), Err("it has no time".into()));
        assert_eq!(name(json!([1])), Err("it has no name".into()));
        assert_eq!(name(json!({ "time": "soon", "name": "a:b" })), Err("it has no time".into()));
        assert!(name(json!("text")).is_err());
    }
}
