//! A path as users write it, on a command line or in TOML, and the checked path that results.

use std::borrow::Cow;
use std::fmt;
use std::path::Path as FilePath;
use std::time::Duration;

use fathom_units::{Invalid, Rate, duration_text, parse_duration, parse_part};
use serde::{Deserialize, Deserializer, Serialize};

use super::event::{PathEvent, parse_rate};
use super::impairer::Impairments;
use super::presets::Preset;
use crate::link::Capacity;
use crate::queue::QueueSpec;
use crate::trace::Model;
use crate::trace::Trace;

/// Deserializes a value as text: `loss = 0.01` is the same fraction as `loss = "1%"`. If an option
/// needs a unit, a number without a unit is rejected, as it would be in text.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "text, such as \"1%\" or \"20ms\", or a number")]
    enum Value {
        Text(String),
        Whole(i64),
        Number(f64),
    }
    Ok(Some(match Value::deserialize(from)? {
        Value::Text(text) => text,
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
    }))
}

/// Largest trace file that is read, in bytes.
const LARGEST_FILE: u64 = 300_000_000;
/// Default length of a model's trace, which is as long as most runs.
const MODEL_LENGTH: Duration = Duration::from_secs(120);
/// Default queue in packets (Sync-TCP §4.1). If one bandwidth-delay product is larger, the default
/// is one bandwidth-delay product.
const QUEUE_PACKETS: usize = 136;

/// Declares the options of a path for both directions and for client to server. Each option is
/// declared once, with its help.
macro_rules! path_options {
    ($($(#[$about:meta])* $field:ident $name:literal,)+) => {
        /// A path as users write it. An option without `up-` applies to both directions. An option
        /// with `up-` overrides it for the direction from clients to servers. An option that is not
        /// set has no effect: no loss, no jitter, no rate.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct PathSpec {
            $($(#[$about])* #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text_or_number")] pub $field: Option<String>,)+
            /// Events: `blackout:2s@10s`, `hold:200ms@10s`, `rate:5Mbps@10s`, `rtt:100ms@10s`,
            /// `mtu:1250@20s`.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub events: Vec<String>,
        }

        impl PathSpec {
            /// Names of the options that have one value, as users write them.
            pub const OPTIONS: &[&str] = &[$($name),+];

            /// Returns the option with this name.
            pub fn field(&mut self, name: &str) -> Option<&mut Option<String>> {
                match name {
                    $($name => Some(&mut self.$field),)+
                    _ => None,
                }
            }

            /// Returns every option that is set, with its name.
            pub fn said(&self) -> impl Iterator<Item = (&'static str, &str)> {
                [$(($name, &self.$field)),+].into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
            }

            /// Replaces options by the options that are set in `over`. An option of `over` that
            /// applies to both directions also replaces the corresponding `up-` option. The events
            /// of `over` are appended.
            pub fn overlay(&mut self, over: &Self) {
                for (name, _) in over.said() {
                    // A rate and a trace replace each other, and so do an RTT and delays.
                    let gone: &[&str] = match name {
                        "rate" | "trace" => &["rate", "trace", "up-rate", "up-trace"],
                        "up-rate" | "up-trace" => &["up-rate", "up-trace"],
                        "rtt" => &["delay", "up-delay"],
                        "delay" | "up-delay" => &["rtt"],
                        _ => &[],
                    };
                    let up = format!("up-{name}");
                    for name in gone.iter().copied().chain([up.as_str()]) {
                        if let Some(field) = self.field(name) {
                            *field = None;
                        }
                    }
                }
                $(if over.$field.is_some() { self.$field.clone_from(&over.$field); })+
                self.events.extend(over.events.iter().cloned());
            }
        }
    };
}

path_options! {
    /// A named path, which the other options change: `lte`.
    preset "preset",
    /// Base RTT: `30ms`, or a range from which each client's RTT is drawn: `20ms..80ms`.
    rtt "rtt",
    /// Propagation delay of a direction, instead of half of an RTT.
    delay "delay",
    /// Propagation delay from clients to servers.
    up_delay "up-delay",
    /// Rate of the link: `20Mbps`.
    rate "rate",
    /// Rate of the link from clients to servers.
    up_rate "up-rate",
    /// A file in Mahimahi's format instead of a rate, or `model:lte`, `model:lte,seconds=300`.
    trace "trace",
    /// Trace of the link from clients to servers.
    up_trace "up-trace",
    /// Queue in front of the link.
    queue "queue",
    /// Queue in front of the link from clients to servers.
    up_queue "up-queue",
    /// Fraction of packets lost: `1%`, `bursts:loss=1%,length=4`.
    loss "loss",
    /// Loss from clients to servers.
    up_loss "up-loss",
    /// Extra delay of each packet: `5ms`, `normal:5ms,reorder`.
    jitter "jitter",
    /// Extra delay from clients to servers.
    up_jitter "up-jitter",
    /// Fraction of packets that skip the propagation delay, or arrive behind later ones: `1%`,
    /// `1%,distance=3`.
    reorder "reorder",
    /// Reordering from clients to servers.
    up_reorder "up-reorder",
    /// Fraction of packets that arrive twice.
    duplicate "duplicate",
    /// Duplication from clients to servers.
    up_duplicate "up-duplicate",
    /// Fraction of packets that arrive with one bit changed.
    corrupt "corrupt",
    /// Corruption from clients to servers.
    up_corrupt "up-corrupt",
    /// Policer that drops packets beyond a rate: `10Mbps,burst=100kB`.
    policer "policer",
    /// Policer from clients to servers.
    up_policer "up-policer",
    /// Change of ECN fields: `pass`, `bleach`, `remark`, `ce` or `hide`.
    ecn "ecn",
    /// Change of ECN fields from clients to servers.
    up_ecn "up-ecn",
}

/// One direction of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectedPath {
    /// Capacity of the link, and the queue in front of it. `None` if there is no link; packets then
    /// do not wait for each other.
    pub link: Option<(Capacity, QueueSpec)>,
    /// Propagation delay of this direction.
    pub delay: Duration,
    /// Effects on packets other than queueing and propagation delay.
    pub impairments: Impairments,
}

/// A path whose options are checked. [`SimHandle::add_path`](crate::sim::SimHandle::add_path) adds
/// it to a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedPath {
    /// Smallest and largest base RTT. The delay of each direction is half of the smallest RTT.
    pub rtt: (Duration, Duration),
    /// Direction from server to client.
    pub down: DirectedPath,
    /// Direction from client to server.
    pub up: DirectedPath,
}

impl PathSpec {
    /// Returns whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the path with the options of its preset written out.
    ///
    /// # Errors
    /// Returns an error if the preset does not exist.
    pub fn expanded(&self) -> Result<Self, Invalid> {
        let Some(preset) = &self.preset else { return Ok(self.clone()) };
        let mut spec = Preset::named(preset).map_err(|e| e.in_field("path"))?.spec();
        spec.overlay(self);
        spec.preset = None;
        Ok(spec)
    }

    /// Returns the parsed events.
    ///
    /// # Errors
    /// Returns an error for the first event that is wrong.
    pub fn events(&self) -> Result<Vec<PathEvent>, Invalid> {
        self.events.iter().map(|event| read("event", event, str::parse)).collect()
    }

    /// Checks every option like [`PathSpec::check`], and two further conditions of a simulation:
    /// QUIC connections can complete, and no client changes its port.
    ///
    /// # Errors
    /// Returns an error that names the first wrong option and says what to write instead.
    pub fn check_simulated(&self) -> Result<CheckedPath, Invalid> {
        let path = self.check()?;
        let rebinds = |e: &&PathEvent| {
            matches!(e, PathEvent::Rebind { .. } | PathEvent::RebindAfterHandshake)
        };
        if let Some(event) = self.expanded()?.events()?.iter().find(rebinds) {
            return Err(Invalid::because("only 'fathom link' can change a client's port")
                .hint("leave it out")
                .in_field(format!("'{event}'"))
                .in_field("event"));
        }
        path.carries_quic().map(|()| path)
    }

    /// Checks every option.
    ///
    /// # Errors
    /// Returns an error that names the first wrong option and says what to write instead.
    pub fn check(&self) -> Result<CheckedPath, Invalid> {
        let spec = self.expanded()?;
        let events = spec.events()?;
        let rtt = read_set("rtt", spec.rtt.as_deref(), parse_rtt)?;
        let delay = |name, text: &Option<String>| read_set(name, text.as_deref(), parse_duration);
        let (down, up) = (delay("delay", &spec.delay)?, delay("up-delay", &spec.up_delay)?);
        if rtt.is_some() && (down.is_some() || up.is_some()) {
            return Err(Invalid::because("delay and rtt exclude each other")
                .hint("leave one of them out")
                .in_field("delay"));
        }
        let delays = match rtt {
            Some((low, _)) => [low / 2; 2],
            None => [down.unwrap_or_default(), up.or(down).unwrap_or_default()],
        };
        let rtt = rtt.unwrap_or((delays[0] + delays[1], delays[0] + delays[1]));
        if rtt.1.is_zero() && events.iter().any(|event| matches!(event, PathEvent::Rtt { .. })) {
            return Err(Invalid::because("a step of the RTT needs an RTT to start from")
                .hint("add rtt, such as 30ms")
                .in_field("event"));
        }
        let direction = |up: bool| spec.direction(up, (delays[usize::from(up)], rtt.1), &events);
        Ok(CheckedPath { rtt, down: direction(false)?, up: direction(true)? })
    }

    /// Returns one direction with this propagation delay. The largest RTT sets the default of its
    /// queue.
    fn direction(
        &self,
        up: bool,
        (delay, rtt): (Duration, Duration),
        events: &[PathEvent],
    ) -> Result<DirectedPath, Invalid> {
        let capacity = self.capacity(up, events)?;
        let queue: Option<QueueSpec> =
            read_directed("queue", up, [&self.queue, &self.up_queue], str::parse)?;
        let link = match (capacity, queue) {
            (None, Some(queue)) => {
                return Err(Invalid::because(format!(
                    "a queue ({queue}) needs a link with a rate"
                ))
                .hint("add rate, such as 10Mbps")
                .in_field(directed("queue", up)));
            }
            (None, None) => None,
            (Some(capacity), queue) => {
                let queue = queue.unwrap_or_else(|| default_queue(capacity.nominal(), rtt));
                Some((capacity, queue))
            }
        };
        Ok(DirectedPath { link, delay, impairments: self.impairments(up, events)? })
    }

    /// Returns the capacity of a direction's link; `None` if the direction has no link.
    fn capacity(&self, up: bool, events: &[PathEvent]) -> Result<Option<Capacity>, Invalid> {
        // A trace for one direction does not replace a rate that was set for the other direction.
        let (rate, trace) = match (up, &self.up_rate, &self.up_trace) {
            (true, Some(rate), None) => (Some(rate), None),
            (true, None, Some(trace)) => (None, Some(trace)),
            (true, Some(_), Some(_)) => {
                return Err(Invalid::because("up-trace and up-rate exclude each other")
                    .hint("leave out up-rate")
                    .in_field("up-trace"));
            }
            _ => (self.rate.as_ref(), self.trace.as_ref()),
        };
        let steps = self.rate_steps(up, events);
        match (rate, trace) {
            (Some(_), Some(_)) => Err(Invalid::because("trace and rate exclude each other")
                .hint("leave out the rate")
                .in_field("trace")),
            (Some(rate), None) => {
                let rate = read(directed("rate", up), rate, parse_rate)?;
                Ok(Some(Capacity::stepping(rate, steps)))
            }
            (None, trace) => {
                let capacity =
                    read_set(directed("trace", up), trace.map(String::as_str), read_trace)?;
                if !steps.is_empty() {
                    return Err(Invalid::because("a step of the rate needs a rate to start from")
                        .hint("add rate, such as 20Mbps")
                        .in_field("event"));
                }
                Ok(capacity)
            }
        }
    }

    /// Returns the impairments of a direction.
    fn impairments(&self, up: bool, events: &[PathEvent]) -> Result<Impairments, Invalid> {
        let part = |name, options| {
            read_directed(name, up, options, parse_part).map(Option::unwrap_or_default)
        };
        Ok(Impairments {
            loss: read_directed("loss", up, [&self.loss, &self.up_loss], str::parse)?
                .unwrap_or_default(),
            in_a_row: None,
            jitter: read_directed("jitter", up, [&self.jitter, &self.up_jitter], str::parse)?
                .unwrap_or_default(),
            reorder: read_directed("reorder", up, [&self.reorder, &self.up_reorder], str::parse)?
                .unwrap_or_default(),
            duplicate: part("duplicate", [&self.duplicate, &self.up_duplicate])?,
            corrupt: part("corrupt", [&self.corrupt, &self.up_corrupt])?,
            policer: read_directed("policer", up, [&self.policer, &self.up_policer], str::parse)?,
            ecn: read_directed("ecn", up, [&self.ecn, &self.up_ecn], str::parse)?
                .unwrap_or_default(),
            events: events.iter().copied().filter(PathEvent::is_of_packets).collect(),
        })
    }

    /// Returns the rate steps of a direction. `rate:` events apply to both directions unless
    /// `up-rate`, `up-trace` or an `up-rate:` event sets the rate from clients to servers.
    fn rate_steps(&self, up: bool, events: &[PathEvent]) -> Vec<(Duration, Rate)> {
        let own = self.up_rate.is_some()
            || self.up_trace.is_some()
            || events.iter().any(|event| matches!(event, PathEvent::UpRate { .. }));
        let step = |event: &PathEvent| match *event {
            PathEvent::Rate { at, rate } if !up || !own => Some((at, rate)),
            PathEvent::UpRate { at, rate } if up => Some((at, rate)),
            _ => None,
        };
        events.iter().filter_map(step).collect()
    }
}

impl Preset {
    /// Returns the preset's options.
    pub fn spec(&self) -> PathSpec {
        let mut spec = PathSpec::default();
        for (name, value) in self.options {
            let field = spec.field(name).expect("presets name options of paths");
            *field = Some((*value).to_owned());
        }
        spec
    }
}

impl CheckedPath {
    /// Checks that QUIC connections can complete over the path.
    ///
    /// # Errors
    /// Returns one line that names the option that prevents connections from completing.
    pub fn carries_quic(&self) -> Result<(), Invalid> {
        for (name, way) in [("loss", &self.down), ("up-loss", &self.up)] {
            if way.impairments.loss.mean() > MOST_LOSS {
                return Err(Invalid::because("hardly anything passes")
                    .hint(format!("write {}% at most", MOST_LOSS * 100.0))
                    .in_field(name));
            }
            let small = way
                .impairments
                .events
                .iter()
                .find(|e| matches!(e, PathEvent::Mtu { payload, .. } if *payload < 1_200));
            if let Some(event) = small {
                return Err(Invalid::because(
                    "QUIC needs datagrams of at least 1200 bytes (RFC 9000 section 14)",
                )
                .hint("write an MTU of at least 1200, such as mtu:1250@20s")
                .in_field(format!("'{event}'"))
                .in_field("event"));
            }
        }
        Ok(())
    }
}

/// Loss fraction above which connections hardly ever complete.
const MOST_LOSS: f64 = 0.9;

/// Returns a drop-tail queue of one bandwidth-delay product in full packets, or of
/// [`QUEUE_PACKETS`] if that is larger.
fn default_queue(rate: Rate, rtt: Duration) -> QueueSpec {
    let product = rate.bits_per_sec() as f64 / 8.0 * rtt.as_secs_f64() / 1_500.0;
    QueueSpec::droptail_packets((product.ceil() as usize).clamp(QUEUE_PACKETS, 1_000_000))
}

/// Reads the value of option `name`.
fn read<T>(
    name: impl Into<Cow<'static, str>>,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<T, Invalid> {
    parse(text).map_err(|error| error.in_field(name))
}

/// Reads the value of option `name`, if it is set.
fn read_set<T>(
    name: impl Into<Cow<'static, str>>,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, Invalid> {
    text.map(|text| read(name, text, parse)).transpose()
}

/// Returns the name under which an option is set for one direction only.
fn directed(name: &'static str, up: bool) -> Cow<'static, str> {
    if up { format!("up-{name}").into() } else { name.into() }
}

/// Reads the value of option `name` for one direction. It comes from the option for both directions
/// and from the option for client to server.
fn read_directed<T>(
    name: &'static str,
    up: bool,
    [both, only_up]: [&Option<String>; 2],
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, Invalid> {
    let text = if up { only_up.as_ref().or(both.as_ref()) } else { both.as_ref() };
    read_set(directed(name, up), text.map(String::as_str), parse)
}

/// Parses a value such as `30ms`, or a range such as `20ms..80ms`.
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_range(text: &str) -> Result<(Duration, Duration), Invalid> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (parse_duration(low)?, parse_duration(high)?);
    if low > high {
        Err(Invalid::value(text, "ends before it begins").hint("write 20ms..80ms"))
    } else {
        Ok((low, high))
    }
}

fn parse_rtt(text: &str) -> Result<(Duration, Duration), Invalid> {
    let (low, high) = parse_range(text)?;
    if high > Duration::from_secs(60) {
        return Err(Invalid::value(&duration_text(high), "is longer than a minute")
            .hint("write a shorter RTT"));
    }
    Ok((low, high))
}

/// Reads `model:lte`, `model:lte,seconds=300`, or the trace file with this name.
fn read_trace(text: &str) -> Result<Capacity, Invalid> {
    let Some(model) = text.strip_prefix("model:") else {
        return read_trace_file(FilePath::new(text))
            .map(Capacity::Trace)
            .map_err(|error| error.in_field(format!("'{text}'")));
    };
    let (name, length) = match model.split_once(",seconds=") {
        None => (model, MODEL_LENGTH),
        Some((name, seconds)) => {
            let seconds = fathom_units::parse_whole(seconds, 1..=3_600)?;
            (name, Duration::from_secs(seconds))
        }
    };
    let model = Model::named(name)?;
    Ok(Capacity::Model { model, length, nominal: model.trace(1, length).mean_rate() })
}

fn read_trace_file(file: &FilePath) -> Result<Trace, Invalid> {
    let wrong = |error: &dyn fmt::Display| Invalid::because(error.to_string());
    let no_file = |error: Invalid| error.hint("write a file in Mahimahi's format, or model:lte");
    let meta = std::fs::metadata(file).map_err(|error| no_file(wrong(&error)))?;
    if !meta.is_file() {
        return Err(no_file(wrong(&"not a file")));
    }
    if meta.len() > LARGEST_FILE {
        return Err(Invalid::because(format!("larger than {} MB", LARGEST_FILE / 1_000_000))
            .hint("shorten the trace"));
    }
    let bytes = std::fs::read(file).map_err(|error| wrong(&error))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        Invalid::because("not a text").hint("write one time in milliseconds per line")
    })?;
    Trace::read(text).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::super::loss::Loss;
    use super::*;

    fn spec(options: &[(&str, &str)]) -> PathSpec {
        let mut spec = PathSpec::default();
        for (name, value) in options {
            match *name {
                "event" => spec.events.push((*value).to_owned()),
                name => *spec.field(name).unwrap() = Some((*value).to_owned()),
            }
        }
        spec
    }

    #[test]
    fn path_options_apply_to_both_directions_unless_overridden() {
        let path = spec(&[
            ("rate", "20Mbps"),
            ("up-rate", "5Mbps"),
            ("rtt", "30ms"),
            ("loss", "1%"),
            ("up-loss", "2%"),
        ]);
        let path = path.check().unwrap();
        let rate = |d: &DirectedPath| d.link.as_ref().unwrap().0.nominal().bits_per_sec();
        assert_eq!((rate(&path.down), rate(&path.up)), (20_000_000, 5_000_000));
        assert_eq!(
            (path.down.impairments.loss, path.up.impairments.loss),
            (Loss::Random(0.01), Loss::Random(0.02))
        );
        assert_eq!(
            (path.down.delay, path.up.delay),
            (Duration::from_millis(15), Duration::from_millis(15))
        );
    }

    #[test]
    fn default_queue_holds_a_bandwidth_delay_product() {
        let packets = |rate: &str| {
            let path = spec(&[("rate", rate), ("rtt", "50ms..100ms")]).check().unwrap();
            let (capacity, queue) = path.down.link.unwrap();
            queue.packet_limit(capacity.nominal()).unwrap()
        };
        assert_eq!((packets("1Mbps"), packets("100Mbps")), (136, 834));
    }

    #[test]
    fn path_option_overrides_the_preset() {
        let lte = spec(&[("preset", "lte"), ("rtt", "80ms")]).check().unwrap();
        assert!(
            lte.rtt.0 == Duration::from_millis(80)
                && matches!(lte.down.link, Some((Capacity::Model { .. }, _)))
        );
        let fixed = spec(&[("preset", "lte"), ("rate", "8Mbps")]).check().unwrap();
        assert!(matches!(fixed.down.link, Some((Capacity::Fixed(_), _))));
        assert!(
            matches!(fixed.up.link, Some((Capacity::Fixed(rate), _)) if rate.bits_per_sec() == 8_000_000)
        );
    }

    #[test]
    fn rate_steps_apply_to_the_directions_they_name() {
        let both = spec(&[("rate", "20Mbps"), ("event", "rate:5Mbps@10s")]).check().unwrap();
        assert!(
            [&both.down, &both.up].iter().all(|d| matches!(d.link, Some((Capacity::Steps(..), _))))
        );
        let one = spec(&[("rate", "20Mbps"), ("up-rate", "2Mbps"), ("event", "rate:5Mbps@10s")])
            .check()
            .unwrap();
        assert!(matches!(one.up.link, Some((Capacity::Fixed(_), _))));
    }

    #[test]
    fn path_errors_name_the_option_and_a_fix() {
        for (options, says) in [
            (&[("rtt", "30")][..], "rtt: "),
            (&[("rtt", "80ms..20ms")], "ends before it begins"),
            (&[("rate", "1bps")], "rate: "),
            (&[("up-loss", "two")], "up-loss: "),
            (&[("queue", "droptail:5p")], "needs a link"),
            (&[("rate", "1Mbps"), ("trace", "model:lte")], "trace and rate exclude each other"),
            (&[("trace", "model:5g")], "lte, wifi, leo"),
            (&[("trace", "/nowhere/at/all")], "Mahimahi"),
            (&[("event", "rate:5Mbps@10s")], "needs a rate to start from"),
            (&[("event", "rtt:5ms@10s")], "needs an RTT to start from"),
            (&[("ecn", "drop")], "write pass, bleach"),
            (&[("preset", "5g")], "dsl, cable"),
        ] {
            let error = spec(options).check().unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains('\n'), "{options:?}: {error}");
        }
    }
}
