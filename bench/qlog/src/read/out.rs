//! Delivery of events to the caller, in the order of their times and with checked units.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use serde_json::Value;

use super::trace::Trace;
use super::units::{CHECKED, Sizes, UnitCheck, Verdict};
use super::{Malformed, ReadError, Sink, Summary};
use crate::logged_event::LoggedEvent;
use crate::parsed_event::ParsedEvent;

/// Maximum number of connections distinguished in a file. Further connections are merged with the
/// last one.
const CONNECTIONS: usize = 100_000;
/// Maximum number of events held back for reordering. Events of threads that log concurrently are
/// never further out of order.
const DISORDER: usize = 512;
/// Maximum number of events held back until the units of their trace are known.
const UNCHECKED: usize = 4_096;
/// Approximate maximum memory of events held back, in bytes.
const WAITING: usize = 16 << 20;
/// Maximum number of different warnings kept per file.
const WARNINGS: usize = 16;

/// An event that is held back.
struct Held {
    /// Time in the trace's unit.
    time: f64,
    order: u64,
    memory: usize,
    record: Value,
}

impl Ord for Held {
    /// Orders events so that the heap returns the oldest event first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.order.cmp(&self.order))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Held {}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

/// Output of events.
pub(super) struct Out<'a> {
    sink: Sink<'a>,
    pub(super) summary: Summary,
    /// Numbers of connections by trace and group.
    numbers: HashMap<(usize, Option<String>), usize>,
    /// Trace, group and number of the previous event. Nearly always, the next event has the same
    /// ones.
    last: Option<(usize, Option<String>, usize)>,
    current: Current,
}

/// State of the trace that is being read.
#[derive(Default)]
struct Current {
    waiting: BinaryHeap<Held>,
    /// Events in order, held back until the units are known.
    unchecked: Vec<Held>,
    memory: usize,
    events: u64,
    check: UnitCheck,
    verdict: Option<(Verdict, Sizes)>,
    /// Times of the first event and of the newest delivered event.
    first: Option<f64>,
    newest: Option<f64>,
    /// Number of events that were older than an event already delivered.
    late: u64,
}

impl<'a> Out<'a> {
    pub(super) fn new(sink: Sink<'a>) -> Self {
        let current = Current::default();
        Self { sink, summary: Summary::default(), numbers: HashMap::new(), last: None, current }
    }

    pub(super) fn malformed(&mut self, number: u64, why: impl ToString) {
        match &mut self.summary.malformed {
            Some(m) => m.records += 1,
            none => *none = Some(Malformed { records: 1, first: number, why: why.to_string() }),
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        let warnings = &mut self.summary.warnings;
        if warnings.len() < WARNINGS && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Returns whether a header can still belong to the current trace.
    pub(super) fn has_no_event_of_trace(&self) -> bool {
        self.current.events == 0
    }

    /// Accepts a record that is an event.
    pub(super) fn event(&mut self, index: usize, trace: &mut Trace, record: Value, number: u64) {
        let time = match trace.time(&record) {
            Ok(time) => time,
            Err(why) => return self.malformed(number, why),
        };
        let memory = memory_of(&record);
        let current = &mut self.current;
        current.events += 1;
        current.memory += memory;
        current.waiting.push(Held { time, order: current.events, memory, record });
        while self.current.waiting.len() > DISORDER || self.current.memory > WAITING {
            let Some(oldest) = self.current.waiting.pop() else { break };
            self.in_order(index, trace, oldest);
        }
    }

    /// Delivers all held events at the end of a trace.
    pub(super) fn end_trace(&mut self, index: usize, trace: &Trace) {
        while let Some(oldest) = self.current.waiting.pop() {
            self.in_order(index, trace, oldest);
        }
        self.settle(index, trace);
        if self.current.late > 0 {
            self.warn(format!(
                "{} of the {} events in the log are out of order by more than {DISORDER} events; \
                 each of them gets the time of the event before it.",
                self.current.late, self.current.events
            ));
        }
        for warning in trace.warnings.iter().cloned() {
            self.warn(warning);
        }
        self.current = Current::default();
    }

    fn in_order(&mut self, index: usize, trace: &Trace, held: Held) {
        let current = &mut self.current;
        let first = *current.first.get_or_insert(held.time);
        let newest = *current.newest.get_or_insert(held.time);
        current.late += u64::from(held.time < newest);
        current.newest = Some(newest.max(held.time));
        if current.verdict.is_some() {
            return self.pass(index, trace, &held);
        }
        let fields = trace.fields(&held.record);
        let at = (held.time - first) * trace.unit;
        let event = LoggedEvent {
            group: fields.group.or(trace.group.as_deref()),
            ..fields.at(at, trace, trace.unit * CHECKED)
        };
        current.check.take(event.group, at, &ParsedEvent::parse(&event));
        current.unchecked.push(held);
        if current.check.is_settled()
            || current.unchecked.len() >= UNCHECKED
            || current.memory > WAITING
        {
            self.settle(index, trace);
        }
    }

    /// Decides on the units. Delivers the events that waited for this decision.
    fn settle(&mut self, index: usize, trace: &Trace) {
        if self.current.verdict.is_some() {
            return;
        }
        let verdict = self.current.check.verdict(trace.unit);
        let (sizes, warning) = self.current.check.sizes();
        for warning in verdict.warning.iter().cloned().chain(warning) {
            self.warn(warning);
        }
        self.current.verdict = Some((verdict, sizes));
        for held in std::mem::take(&mut self.current.unchecked) {
            self.pass(index, trace, &held);
        }
    }

    fn pass(&mut self, index: usize, trace: &Trace, held: &Held) {
        self.current.memory -= held.memory;
        let (times, rtts, sizes) = self
            .current
            .verdict
            .as_ref()
            .map_or((1.0, 1.0, Sizes::BYTES), |(v, sizes)| (v.times, v.rtts, *sizes));
        let at = (held.time - self.current.first.unwrap_or(held.time)) * trace.unit * times;
        let fields = trace.fields(&held.record);
        let group = fields.group.or(trace.group.as_deref());
        let connection = match &self.last {
            Some((trace, name, number)) if *trace == index && name.as_deref() == group => *number,
            _ => self.number(index, group),
        };
        self.summary.events += 1;
        let (window_unit, flight_unit) = (sizes.window, sizes.in_flight);
        let event = fields.at(at, trace, trace.unit * rtts);
        (self.sink)(&LoggedEvent { connection, group, window_unit, flight_unit, ..event });
    }

    /// Returns the number of a connection.
    fn number(&mut self, trace: usize, group: Option<&str>) -> usize {
        let known = self.numbers.len();
        let place = (trace, group.map(str::to_owned));
        let number = match self.numbers.get(&place) {
            Some(number) => *number,
            None if known >= CONNECTIONS => known - 1,
            None => {
                self.numbers.insert(place.clone(), known);
                self.summary.connections = known + 1;
                known
            }
        };
        self.last = Some((place.0, place.1, number));
        number
    }

    pub(super) fn finish(self) -> Result<Summary, ReadError> {
        let s = self.summary;
        if s.events > 0 {
            return Ok(s);
        }
        let why = match (&s.malformed, &s.cut_off) {
            (Some(m), _) => format!("; record {}: {}", m.first, m.why),
            (None, Some(at)) => format!("; {at}"),
            (None, None) => String::new(),
        };
        Err(ReadError::Empty(why))
    }
}

/// Returns the approximate memory of a value in bytes.
fn memory_of(value: &Value) -> usize {
    const EACH: usize = 48;
    match value {
        Value::String(text) => EACH + text.len(),
        Value::Array(all) => EACH + all.iter().map(memory_of).sum::<usize>(),
        Value::Object(all) => {
            EACH + all.iter().map(|(key, value)| EACH + key.len() + memory_of(value)).sum::<usize>()
        }
        _ => EACH,
    }
}
