//! Checks the units of a trace against its own events. The time from a packet to its
//! acknowledgement is a round trip, whatever the unit of the metrics is.
//!
//! Released versions of quinn write round trips in seconds instead of qlog's milliseconds
//! (quinn#2631). Other logs count event times in microseconds without declaring this unit. Several
//! kinds of evidence reveal the actual unit. From best to worst, they are: ACK frames; bytes in
//! flight; packets sent one logged round trip earlier; the initial round trip of RFC 9002 §6.2.2;
//! and the peer's first answer, which takes at least one round trip.

use std::collections::HashMap;

use super::clues::{Clues, FACTORS, FULL, Matches, Pair, median};
use crate::parsed_event::{Direction, ParsedEvent, ParsedMetrics};

/// Maximum number of connections followed per trace. The same program wrote all of them, so a few
/// suffice.
const CONNECTIONS: usize = 32;
/// Maximum number of samples kept of each kind.
const SAMPLES: usize = 64;
/// Number of samples from ACK frames that suffice for a conclusion.
const ENOUGH: usize = 16;
/// Minimum number of samples for a median.
const LEAST: usize = 3;
/// Factor below which two times have the same order of magnitude. Units differ by a factor of
/// 1,000.
const NEAR: f64 = 5.0;
/// Plausible range of a path's smallest round trip in milliseconds. Behind a single switch, the
/// round trip is 0.02 ms, and no path has a round trip of 10 s.
const PLAUSIBLE: std::ops::Range<f64> = 0.02..10_000.0;
/// Round trip in milliseconds below which a path is within one machine or rack.
const LOCAL: f64 = 0.1;
/// Initial round trip of RFC 9002 §6.2.2, in milliseconds.
const INITIAL: f64 = 333.0;

/// Factor by which declared round trips are scaled before they are checked. It is needed because
/// parsing drops implausibly long round trips.
pub(super) const CHECKED: f64 = 1e-6;

/// Result of the check: factors that correct the declared units, and a warning for the reader.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// Factor that corrects event times.
    pub(super) times: f64,
    /// Factor that corrects round trips in metrics.
    pub(super) rtts: f64,
    /// Warning, as words that follow the name of the log.
    pub(super) warning: Option<String>,
}

/// Bytes per unit of congestion windows and of bytes in flight. It is 1, or the size of a packet if
/// they are counted in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) window: f64,
    pub(super) in_flight: f64,
}

impl Sizes {
    pub(super) const BYTES: Self = Self { window: 1.0, in_flight: 1.0 };
}

impl Verdict {
    const AS_DECLARED: Self = Self { times: 1.0, rtts: 1.0, warning: None };
}

/// Collector of evidence from a trace's events.
#[derive(Debug, Default)]
pub(super) struct UnitCheck {
    connections: HashMap<Option<String>, Clues>,
    /// Pairs of derived and logged round trips, by kind of evidence.
    acks: Vec<Pair>,
    flight: Vec<Pair>,
    bytes: Vec<Pair>,
    matches: Matches,
    /// The initial round trip as the log has it.
    initial: Option<f64>,
    answers: Vec<Pair>,
    /// Smallest logged round trip.
    least: Option<f64>,
    /// Largest congestion window, largest number of bytes in flight and largest packet in the log,
    /// and the numbers of samples of the first two.
    largest_window: f64,
    windows: u64,
    largest_flight: f64,
    flights: u64,
    largest_packet: f64,
}

/// Smallest possible window in bytes: two datagrams of 1,200 bytes (RFC 9002 §7.2).
const LEAST_WINDOW: f64 = 2_400.0;
/// Assumed size of a datagram in bytes if the log has no larger packet (RFC 9000 §14.1).
const DATAGRAM: f64 = 1_200.0;

fn keep(pairs: &mut Vec<Pair>, shown: f64, logged: f64) {
    if pairs.len() < SAMPLES && shown > 0.0 && logged > 0.0 {
        pairs.push(Pair { shown, logged });
    }
}

impl UnitCheck {
    /// Adds an event at `at` declared milliseconds. Round trips of `parsed` are scaled by
    /// [`CHECKED`].
    pub(super) fn take(&mut self, group: Option<&str>, at: f64, parsed: &ParsedEvent) {
        if !self.connections.contains_key(&group.map(str::to_owned)) {
            if self.connections.len() >= CONNECTIONS {
                return;
            }
            self.connections.insert(group.map(str::to_owned), Clues::default());
        }
        let Some(clues) = self.connections.get_mut(&group.map(str::to_owned)) else { return };
        match parsed {
            ParsedEvent::Packet(packet) => {
                if packet.direction == Direction::Sent {
                    self.largest_packet = self.largest_packet.max(packet.bytes.unwrap_or(0) as f64);
                }
                clues.packet(at, packet);
            }
            ParsedEvent::Lost(loss) => {
                clues.lost = true;
                clues.lost_bytes += loss.bytes.unwrap_or(1_200.0);
                if let Some((space, number)) = loss.packet {
                    clues.sent.remove(&(space as u8, number));
                }
            }
            ParsedEvent::Metrics(metrics) => self.metrics(group, at, metrics),
            _ => {}
        }
    }

    /// Returns whether the evidence is conclusive.
    pub(super) fn is_settled(&self) -> bool {
        self.acks.len() >= ENOUGH
    }

    fn metrics(&mut self, group: Option<&str>, at: f64, metrics: &ParsedMetrics) {
        if let Some(window) = metrics.window {
            self.largest_window = self.largest_window.max(window);
            self.windows += 1;
        }
        if let Some(flight) = metrics.in_flight.filter(|bytes| *bytes > 0.0) {
            self.largest_flight = self.largest_flight.max(flight);
            self.flights += 1;
        }
        let Some(clues) = self.connections.get_mut(&group.map(str::to_owned)) else { return };
        let first = !std::mem::replace(&mut clues.metrics, true);
        let declared = |rtt: f64| rtt / CHECKED;
        let guess = metrics.latest_rtt.or(metrics.smoothed_rtt).map(declared);
        if first && let Some(guess) = guess.filter(|rtt| is_initial(*rtt)) {
            self.initial.get_or_insert(guess);
            clues.flight(at, metrics.in_flight);
            return;
        }
        let by_increase = clues.flight(at, metrics.in_flight);
        let by_bytes = metrics.in_flight.and_then(|bytes| clues.delivered(at, bytes));
        clues.lost = false;
        let latest = metrics.latest_rtt.map(declared);
        let Some(logged) = latest.filter(|rtt| clues.latest != Some(*rtt)) else { return };
        clues.latest = Some(logged);
        self.least = Some(self.least.map_or(logged, |least: f64| least.min(logged)));
        if let Some(shown) = clues.shown.take() {
            keep(&mut self.acks, shown, logged);
        }
        if let Some(shown) = by_increase {
            keep(&mut self.flight, shown, logged);
        }
        if let Some(shown) = by_bytes {
            keep(&mut self.bytes, shown, logged);
        }
        if !clues.answered
            && let (Some(sent), Some(received)) = (clues.first_sent, clues.first_received)
        {
            clues.answered = true;
            keep(&mut self.answers, received - sent, logged);
        }
        self.matches.take(at, logged, &clues.sent_times);
    }

    /// Returns the units of windows and bytes in flight, and a warning if they are not bytes.
    pub(super) fn sizes(&self) -> (Sizes, Option<String>) {
        let packet = if self.largest_packet >= FULL { self.largest_packet } else { DATAGRAM };
        let window = self.windows > 0 && self.largest_window < LEAST_WINDOW;
        // If a full packet is in flight, the number of bytes in flight is at least its size.
        let flight = self.flights >= LEAST as u64
            && self.largest_packet >= FULL
            && self.largest_flight < FULL;
        let factor = |in_packets: bool| if in_packets { packet } else { 1.0 };
        let what = match (window, flight) {
            (true, true) => "congestion windows and bytes in flight",
            (true, false) => "congestion windows",
            (false, true) => "bytes in flight",
            (false, false) => return (Sizes::BYTES, None),
        };
        let most = if window { self.largest_window } else { self.largest_flight };
        let warning = format!(
            "{what} in the log are counted in packets (at most {}, which is less than the smallest \
             window in bytes). They were converted with {packet:.0} bytes per packet.",
            significant(most)
        );
        (Sizes { window: factor(window), in_flight: factor(flight) }, Some(warning))
    }

    /// Evaluates the evidence for a trace that declares `unit` milliseconds per unit of time.
    pub(super) fn verdict(&self, unit: f64) -> Verdict {
        let Some((pair, is_exact)) = self.evidence() else { return self.unchecked(unit) };
        let ratio = pair.shown / pair.logged;
        let power = (ratio.log10() / 3.0).round();
        let factor = 10_f64.powi((3.0 * power) as i32);
        // Evidence that only gives a limit for a round trip can distinguish units, but nothing
        // finer.
        let is_near =
            (ratio / factor > 1.0 / NEAR && ratio / factor < NEAR) || (power == 0.0 && !is_exact);
        if !is_near || power.abs() > 2.0 {
            let warning = format!(
                "the round trips in the log contradict its packets: the metrics show {}, but \
                 acknowledgements arrived after {}. Neither value is reliable.",
                millis(pair.logged),
                millis(pair.shown)
            );
            return Verdict { warning: Some(warning), ..Verdict::AS_DECLARED };
        }
        let is_path = |ms: f64| PLAUSIBLE.contains(&ms);
        if factor == 1.0 {
            return self.consistent(pair, unit);
        }
        if is_path(pair.shown) {
            let warning = self.converted(pair, unit, factor);
            return Verdict { times: 1.0, rtts: factor, warning: Some(warning) };
        }
        let times = 1.0 / factor;
        let unit_of_times = unit_name(unit * times).filter(|_| is_path(pair.logged));
        let warning = match unit_of_times {
            Some(name) => {
                let warning = format!(
                    "the event times of the log are in {name}, although the log does not declare \
                     it: a round trip takes {} in the metrics, but {} times as long between \
                     packets and their acknowledgements. The times were converted.",
                    millis(pair.logged),
                    1.0 / times
                );
                return Verdict { times, rtts: 1.0, warning: Some(warning) };
            }
            None => format!(
                "the times in the log contradict each other: the metrics show round trips of {}, \
                 but acknowledgements arrived after {}.",
                millis(pair.logged),
                millis(pair.shown)
            ),
        };
        Verdict { warning: Some(warning), ..Verdict::AS_DECLARED }
    }

    fn converted(&self, pair: Pair, unit: f64, factor: f64) -> String {
        let raw = pair.logged / unit;
        let quinn = if unit * factor == 1e3 {
            ", as released versions of quinn write them (quinn#2631)"
        } else {
            ""
        };
        let name = unit_name(unit * factor).unwrap_or("another unit");
        let (raw, shown) = (significant(raw), millis(pair.shown));
        if unit * factor == 1.0 {
            let times = unit_name(unit).unwrap_or("another unit");
            return format!(
                "the round trips of the log are in milliseconds and its event times in {times}: \
                 the metrics show {raw}, but acknowledgements arrived after {shown}. Both are read \
                 in their own units."
            );
        }
        format!(
            "the round trips of the log are in {name}{quinn}: the metrics show {raw}, but \
             acknowledgements arrived after {shown}. The round trips were converted to \
             milliseconds."
        )
    }

    /// Handles event times and round trips that agree with each other. Both may still have the
    /// wrong unit.
    fn consistent(&self, pair: Pair, unit: f64) -> Verdict {
        if pair.shown < PLAUSIBLE.end && pair.shown >= 1e-3 {
            let warning = (pair.shown < LOCAL).then(|| {
                format!(
                    "round trips of {} are typical of one machine or rack; if the path is longer, \
                     the times in the log have another unit than declared.",
                    millis(pair.shown)
                )
            });
            return Verdict { warning, ..Verdict::AS_DECLARED };
        }
        let factor = if pair.shown >= PLAUSIBLE.end { 1e-3 } else { 1e3 };
        let name = unit_name(unit * factor).filter(|_| PLAUSIBLE.contains(&(pair.shown * factor)));
        match name {
            Some(name) => {
                let warning = format!(
                    "the times in the log are read as {name}, although the log does not declare \
                     it: otherwise, a round trip would take {}.",
                    millis(pair.shown)
                );
                Verdict { times: factor, rtts: factor, warning: Some(warning) }
            }
            None => self.unchecked(unit),
        }
    }

    fn unchecked(&self, unit: f64) -> Verdict {
        let Some(least) = self.least.filter(|least| *least < LOCAL || *least >= PLAUSIBLE.end)
        else {
            return Verdict::AS_DECLARED;
        };
        let other = if least < LOCAL { 1e3 } else { 1e-3 };
        let quinn = if least < LOCAL && unit == 1.0 {
            ", as released versions of quinn write them (quinn#2631)"
        } else {
            ""
        };
        let name = unit_name(unit * other).unwrap_or("another unit");
        let warning = format!(
            "round trips of {} are too short for a path beyond one rack, and the log has no \
             packets with acknowledgements to check them. If the round trips are in {name}{quinn}, \
             their real length is {}.",
            millis(least),
            millis(least * other)
        );
        Verdict { warning: Some(warning), ..Verdict::AS_DECLARED }
    }

    /// Returns the best available evidence. Also returns whether it shows round trips as exactly as
    /// the metrics should.
    fn evidence(&self) -> Option<(Pair, bool)> {
        let exact = middle(&self.acks, LEAST).map(|pair| (pair, true));
        let initial = || self.initial.map(|logged| Pair { shown: INITIAL, logged });
        let few = || {
            [&self.acks, &self.bytes, &self.flight].into_iter().find_map(|pairs| middle(pairs, 1))
        };
        exact.or_else(|| {
            let bounds = middle(&self.bytes, LEAST)
                .or_else(|| self.matches.best())
                .or_else(|| middle(&self.flight, LEAST))
                .or_else(initial)
                .or_else(few)
                .or_else(|| self.answer());
            bounds.map(|pair| (pair, false))
        })
    }

    /// Uses the peer's first answer. It took a round trip plus processing time, so it can only
    /// distinguish units.
    fn answer(&self) -> Option<Pair> {
        let pair = middle(&self.answers, 1)?;
        let ratio = pair.shown / pair.logged;
        let fits = FACTORS
            .into_iter()
            .find(|factor| ratio / factor > 1.0 / 1.5 && ratio / factor < 50.0)?;
        Some(Pair { shown: pair.logged * fits, logged: pair.logged })
    }
}

fn is_initial(rtt: f64) -> bool {
    FACTORS.iter().any(|factor| (rtt * factor / INITIAL - 1.0).abs() < 1e-3)
}

fn middle(pairs: &[Pair], least: usize) -> Option<Pair> {
    if pairs.len() < least {
        return None;
    }
    let of = |one: fn(&Pair) -> f64| median(pairs.iter().map(one).collect());
    Some(Pair { shown: of(|pair| pair.shown)?, logged: of(|pair| pair.logged)? })
}

fn unit_name(ms: f64) -> Option<&'static str> {
    let names =
        [(1e3, "seconds"), (1.0, "milliseconds"), (1e-3, "microseconds"), (1e-6, "nanoseconds")];
    names.into_iter().find(|(unit, _)| (ms / unit - 1.0).abs() < 1e-9).map(|(_, name)| name)
}

fn millis(ms: f64) -> String {
    format!("{} ms", significant(ms))
}

/// Formats a number to three significant digits.
fn significant(n: f64) -> String {
    let digits = (2 - n.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{n:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
