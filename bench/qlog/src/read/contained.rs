//! One JSON document with traces, which is read as a stream. The document is read twice, because
//! the settings of a trace may follow its events.

use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::trace::Trace;

/// Maximum number of traces in a document.
const TRACES: usize = 100_000;

/// Maximum number of keys kept to identify a document that is not a log.
const KEYS: usize = 32;

/// Settings of a document's traces, and the other keys of the document.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) traces: Vec<Trace>,
    pub(super) keys: Vec<String>,
}

/// Reads the settings of each trace. Ignores errors, because [`read`] reaches the same position and
/// reports them.
pub(super) fn settings(from: impl Read) -> Settings {
    let mut settings = Settings::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, from));
    let _ = Document(&mut Pass::Settings(&mut settings)).deserialize(&mut json);
    settings
}

/// Reads all events.
pub(super) fn read(
    from: impl Read,
    traces: Vec<Trace>,
    out: &mut super::Out<'_>,
) -> io::Result<()> {
    let title = traces.iter().find_map(|trace| trace.title.clone());
    let mut pass = Pass::Events { traces, current: 0, number: 0, title, out };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, from));
    let ended = Document(&mut pass).deserialize(&mut json);
    // If the document ends in the middle, its last trace also ends there.
    pass.end_trace();
    let Pass::Events { title, out, .. } = pass else { return Ok(()) };
    out.summary.title = title;
    match ended {
        Err(e) if e.is_io() => Err(e.into()),
        // Everything that was read so far is valid, because a stack that crashes leaves its
        // document unfinished.
        Err(e) if e.is_eof() => {
            out.summary.cut_off = Some(format!("line {} column {}: {e}", e.line(), e.column()));
            Ok(())
        }
        Err(e) => {
            let line = e.line() as u64;
            out.malformed(line, format!("{e}; nothing after this error was read"));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Data collected in one pass over a document.
enum Pass<'p, 'o> {
    Settings(&'p mut Settings),
    Events {
        traces: Vec<Trace>,
        /// Index of the current trace.
        current: usize,
        /// Number of the current event.
        number: u64,
        title: Option<String>,
        out: &'p mut super::Out<'o>,
    },
}

impl Pass<'_, '_> {
    fn begin_trace(&mut self) {
        if let Self::Settings(Settings { traces, .. }) = self
            && traces.len() < TRACES
        {
            traces.push(Trace::default());
        }
    }

    fn set(&mut self, key: &str, value: &Value) {
        if let Self::Settings(Settings { traces, .. }) = self
            && let Some(trace) = traces.last_mut()
        {
            trace.set(key, value);
        }
    }

    fn event(&mut self, record: Value) {
        if let Self::Events { traces, current, number, out, .. } = self {
            *number += 1;
            if let Some(trace) = traces.get_mut(*current) {
                out.event(*current, trace, record, *number);
            }
        }
    }

    fn end_trace(&mut self) {
        if let Self::Events { traces, current, out, .. } = self {
            if let Some(trace) = traces.get(*current) {
                out.end_trace(*current, trace);
            }
            *current += 1;
        }
    }
}

macro_rules! seed {
    ($name:ident, $visit:ident) => {
        struct $name<'a, 'p, 'o>(&'a mut Pass<'p, 'o>);

        impl<'de> DeserializeSeed<'de> for $name<'_, '_, '_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.$visit(self)
            }
        }
    };
}

seed!(Document, deserialize_map);
seed!(Traces, deserialize_seq);
seed!(OneTrace, deserialize_map);
seed!(Events, deserialize_seq);

impl<'de> Visitor<'de> for Document<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a qlog document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if let Pass::Settings(settings) = self.0
                && settings.keys.len() < KEYS
            {
                settings.keys.push(key.clone());
            }
            match key.as_str() {
                "traces" => map.next_value_seed(Traces(self.0))?,
                "title" => {
                    let value: Value = map.next_value()?;
                    if let Pass::Events { title, .. } = self.0 {
                        *title = value.as_str().map(str::to_owned).or(title.take());
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Traces<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of traces")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while all.next_element_seed(OneTrace(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> Visitor<'de> for OneTrace<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.begin_trace();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "events" if matches!(self.0, Pass::Events { .. }) => {
                    map.next_value_seed(Events(self.0))?
                }
                "common_fields" | "configuration" | "event_fields" | "vantage_point" | "title" => {
                    let value: Value = map.next_value()?;
                    self.0.set(&key, &value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.end_trace();
        Ok(())
    }
}

impl<'de> Visitor<'de> for Events<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(record) = all.next_element::<Value>()? {
            self.0.event(record);
        }
        Ok(())
    }
}
