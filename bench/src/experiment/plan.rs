//! Plans: an experiment as data. Every field has a default, unknown fields are refused, and all of it is checked once.

use std::fmt;
use std::str::FromStr;

use fathom_cc::units::parse_whole;
use fathom_cc::{Capabilities, Rate};
use fathom_plugin::{EnableTimestamp, Extension, Offer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stack::{Control, Stack};
use fathom_netsim::backend::Backend;
use fathom_netsim::queue::QueueSpec;

/// A plan as written in TOML. `link = "10Mbps"` and the like are checked before a run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// Controllers to compare, with options: `["reno", "sync:floor=1ms"]`.
    pub controllers: Vec<String>,
    /// Stacks that run them: `["quinn"]`, or several to compare them.
    pub stacks: Vec<Stack>,
    /// Rate of the bottleneck.
    pub link: String,
    /// Queue at the bottleneck.
    pub queue: String,
    /// Offered load in percent of the link, in each direction (Sync-TCP §4.2).
    pub load: String,
    /// What the clients ask for: `packmime`, or `bulk:COUNTxSIZE@INTERVAL`.
    pub workload: String,
    /// Responses to complete before a run ends.
    pub responses: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// `fresh`: a connection per request, as in the paper; `persistent`: requests reuse idle connections.
    pub connections: Connections,
    /// How one-way delays travel: `lean` (a stamp beside ACK frames), `paper` (every packet stamped, the receiver echoes), `timestamp`
    /// (as `lean`, in the TIMESTAMP frame that others speak) or `off`.
    pub timestamps: Timestamps,
    /// `auto`: controllers that set packet sizes or delay packets send through a shaping socket, on every stack. `off`: only what the
    /// stacks do by themselves.
    pub shaping: Shaping,
    /// Rate of the uncongested network that load is calibrated on and that the results are set beside.
    pub reference: String,
    /// Largest window of a sender in packets, set by the receiver's flow control (Sync-TCP §5.1: "the maximum send window is 68
    /// packets"), or `none`.
    pub max_window: String,
    /// Where it runs: `["virtual"]`, `loopback`, `netem`, or several to compare them.
    #[serde(skip_serializing_if = "only_virtual")]
    pub backends: Vec<Backend>,
    /// Servers think before they answer (PackMime's server delay). Sync-TCP does not list it: off by default.
    pub server_delay: bool,
}

/// How requests use connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One connection per request (HTTP/1.0 in the paper).
    #[default]
    Fresh,
    /// A request takes an idle connection if there is one.
    Persistent,
}

/// How one-way delays travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// SYNC_TIMESTAMP beside ACK frames; the sender derives the delay.
    #[default]
    Lean,
    /// SYNC_TIMESTAMP on every packet; the receiver measures and echoes the delay (Sync-TCP §3.2).
    Paper,
    /// TIMESTAMP of draft-huitema-quic-ts beside ACK frames, and no SYNC_TIMESTAMP.
    Timestamp,
    /// Not at all: the extension is not offered.
    Off,
}

/// Whether endpoints send through a shaping socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shaping {
    /// Where the controller needs it.
    #[default]
    Auto,
    /// Never.
    Off,
}

impl FromStr for Shaping {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => Err(format!("'{s}' does not say when packets are shaped; write auto or off")),
        }
    }
}

impl Timestamps {
    /// What the transport parameters say. TIMESTAMP's is there when it is asked for: it would make every handshake longer.
    pub(crate) const fn extension(self) -> Extension {
        match self {
            Self::Lean => Extension { offer: Some(Offer::Lean), ..Extension::OFF },
            Self::Paper => Extension { offer: Some(Offer::Paper), ..Extension::OFF },
            Self::Timestamp => Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF },
            Self::Off => Extension::OFF,
        }
    }

    /// The name users type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Paper => "paper",
            Self::Timestamp => "timestamp",
            Self::Off => "off",
        }
    }
}

impl FromStr for Timestamps {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "lean" => Ok(Self::Lean),
            "paper" => Ok(Self::Paper),
            "timestamp" => Ok(Self::Timestamp),
            "off" => Ok(Self::Off),
            _ => Err(format!("'{s}' is not a way to carry one-way delays; write lean, paper, timestamp or off")),
        }
    }
}

impl FromStr for Connections {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "fresh" => Ok(Self::Fresh),
            "persistent" => Ok(Self::Persistent),
            _ => Err(format!("'{s}' is not a way to use connections; write fresh or persistent")),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            controllers: vec!["reno".into(), "sync".into()],
            stacks: vec![Stack::Quinn],
            link: "10Mbps".into(),
            // Sync-TCP §4.4: twice the bandwidth-delay product of 68 packets.
            queue: "droptail:136p".into(),
            load: "90%".into(),
            workload: "packmime".into(),
            responses: 10_000,
            seed: 1,
            connections: Connections::Fresh,
            timestamps: Timestamps::Lean,
            shaping: Shaping::Auto,
            reference: "100Mbps".into(),
            max_window: "68p".into(),
            backends: vec![Backend::Virtual],
            server_delay: false,
        }
    }
}

fn only_virtual(backends: &[Backend]) -> bool {
    backends == [Backend::Virtual]
}

/// What is wrong with a plan, and how to fix it, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

/// What the clients ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Web traffic at an offered load, in both directions.
    PackMime,
    /// `count` responses of `bytes`, one started every `every_ns` nanoseconds, in the forward direction only.
    Bulk {
        /// How many.
        count: u64,
        /// Size of each.
        bytes: u64,
        /// Nanoseconds between starts.
        every_ns: u64,
    },
}

impl FromStr for Workload {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "'{s}' is not a workload; write packmime, or bulk:COUNTxSIZE@INTERVAL such as bulk:4x10MB@100ms (kB, MB)"
            )
        };
        if s == "packmime" {
            return Ok(Self::PackMime);
        }
        let rest = s.strip_prefix("bulk:").ok_or_else(help)?;
        let (rest, every) = rest.split_once('@').unwrap_or((rest, "0ms"));
        let (count, size) = rest.split_once('x').ok_or_else(help)?;
        let count =
            parse_whole(count, 1..=1_000_000).map_err(|e| format!("{s}: responses: {e}, such as bulk:4x10MB"))?;
        let every = fathom_cc::units::parse_duration(every).map_err(|_| help())?;
        Ok(Self::Bulk { count, bytes: parse_bytes(size).ok_or_else(help)?, every_ns: every.as_nanos() as u64 })
    }
}

pub(crate) fn parse_bytes(s: &str) -> Option<u64> {
    let digits = s.find(|c: char| !c.is_ascii_digit())?;
    let scale = match &s[digits..] {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    let bytes = s[..digits].parse::<u64>().ok()?.checked_mul(scale)?;
    (1..=100_000_000_000).contains(&bytes).then_some(bytes)
}

/// A plan that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// What runs, in the order of reports: every controller on the first stack, then on the next.
    pub(crate) runs: Vec<(Stack, Control)>,
    pub(crate) link: Rate,
    pub(crate) reference: Rate,
    pub(crate) queue: QueueSpec,
    /// Fraction of the link.
    pub(crate) load: f64,
    pub(crate) workload: Workload,
    pub(crate) responses: u64,
    pub(crate) seed: u64,
    pub(crate) connections: Connections,
    pub(crate) timestamps: Timestamps,
    pub(crate) shaping: Shaping,
    /// In packets.
    pub(crate) max_window: Option<u32>,
    pub(crate) server_delay: bool,
}

impl Plan {
    /// Reads a plan written in TOML.
    ///
    /// # Errors
    /// The error in the file with its line, in one line.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        read_toml(text)
    }

    /// As [`Plan::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds texts, numbers and lists only")
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub(crate) fn check(&self) -> Result<Checked, PlanError> {
        let field = |name: &str, e: String| PlanError(format!("{name}: {e}"));
        let (low, high) = (100_000, 10_000_000_000u64);
        let rate = |name: &str, text: &str| {
            let rate: Rate = text.parse().map_err(|e| field(name, e))?;
            if !(low..=high).contains(&rate.bits_per_sec()) {
                return Err(field(name, format!("'{text}' is out of range; write a rate from 100kbps to 10Gbps")));
            }
            Ok(rate)
        };
        let runs = self.runs()?;
        let (link, reference) = (rate("link", &self.link)?, rate("reference", &self.reference)?);
        if link.bits_per_sec() == high {
            return Err(field(
                "link",
                format!("'{}' leaves no faster link for the reference; write less than 10Gbps", self.link),
            ));
        }
        if reference <= link {
            return Err(field(
                "reference",
                format!(
                    "'{}' must be faster than the link of {link}: the load is set on a network that is not congested; write --reference {}",
                    self.reference,
                    Rate::from_bits_per_sec(link.bits_per_sec().saturating_mul(10).min(high))
                ),
            ));
        }
        if !(1..=10_000_000).contains(&self.responses) {
            return Err(field("responses", format!("{} is out of range; write 1 to 10000000", self.responses)));
        }
        if self.seed > i64::MAX as u64 {
            return Err(field("seed", format!("{} is out of range; write 0 to {}", self.seed, i64::MAX)));
        }
        let queue = self.queue.parse().map_err(|e| field("queue", e))?;
        #[cfg(target_os = "linux")]
        if self.backends.contains(&Backend::Netem) {
            fathom_netsim::backend::netem::has(&queue).map_err(|e| field("queue", e.to_string()))?;
        }
        Ok(Checked {
            runs,
            link,
            reference,
            queue,
            load: parse_load(&self.load).map_err(|e| field("load", e))?,
            workload: self.workload.parse().map_err(|e| field("workload", e))?,
            responses: self.responses,
            seed: self.seed,
            connections: self.connections,
            timestamps: self.timestamps,
            shaping: self.shaping,
            max_window: parse_window(&self.max_window).map_err(|e| field("max-window", e))?,
            server_delay: self.server_delay,
        })
    }
}

impl Plan {
    /// A file that says nothing: it would be the default plan under another name.
    pub fn is_blank(text: &str) -> bool {
        text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
    }

    /// Checks every field, and says how many runs it makes besides the reference.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<usize, PlanError> {
        self.check().map(|checked| checked.runs.len())
    }

    fn runs(&self) -> Result<Vec<(Stack, Control)>, PlanError> {
        let wrong = |e: String| PlanError(format!("controllers: {e}"));
        if self.controllers.is_empty() {
            return Err(PlanError("controllers: name at least one, such as reno,sync".into()));
        }
        if self.backends.is_empty() {
            return Err(PlanError("backends: name at least one, such as virtual".into()));
        }
        if let Some(twice) = (1..self.backends.len()).find(|i| self.backends[..*i].contains(&self.backends[*i])) {
            return Err(PlanError(format!("backends: '{}' is named twice; name it once", self.backends[twice])));
        }
        if self.stacks.is_empty() {
            return Err(PlanError("stacks: name at least one, such as quinn".into()));
        }
        let mut runs: Vec<(Stack, Control)> = Vec::new();
        for (i, stack) in self.stacks.iter().enumerate() {
            if self.stacks[..i].contains(stack) {
                return Err(PlanError(format!("stacks: '{stack}' is named twice; name it once")));
            }
            for spec in &self.controllers {
                let control = Control::read(spec, *stack).map_err(wrong)?;
                if let Control::Fathom(controller_config) = &control {
                    let provided = match self.shaping {
                        Shaping::Auto => stack.provided_with_shaping(),
                        Shaping::Off => stack.provided(),
                    };
                    let provided = Capabilities { one_way: self.timestamps != Timestamps::Off, ..provided };
                    controller_config.check(provided).map_err(|e| wrong(e.to_string()))?;
                }
                if runs.iter().any(|(s, c)| s == stack && c.spec() == control.spec()) {
                    return Err(wrong(format!("'{}' is named twice; name it once", control.spec())));
                }
                runs.push((*stack, control));
            }
        }
        Ok(runs)
    }
}

/// Fields of plans and studies that have a new name.
const RENAMED: [(&str, &str); 3] = [("world", "backend"), ("worlds", "backends"), ("outlet", "shaping")];

/// A message of the TOML reader in one line; for a renamed field it names the new one.
pub(crate) fn toml_message(message: &str) -> String {
    let old = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    match RENAMED.iter().find(|(name, _)| Some(*name) == old) {
        Some((old, new)) => format!("the field '{old}' is now called '{new}'; write {new}"),
        None => message.replace('\n', "; "),
    }
}

/// Reads TOML. An error is one line that names the line of the text.
pub(crate) fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| 1 + text[..s.start].matches('\n').count());
        PlanError(format!("line {line}: {}", toml_message(e.message())))
    })
}

/// Reads `90%` or, below one, `0.9`. Two links' worth can be offered, so a part above all is a load.
pub(crate) fn parse_load(s: &str) -> Result<f64, String> {
    let help = || format!("'{s}' is not a load; write a percentage of the link from 1% to 200%, such as 90%");
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let load = match s.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        // A bare 1 could be one percent or all.
        None => number(s).filter(|part| *part < 1.0),
    };
    load.filter(|load| (0.01..=2.0).contains(load)).ok_or_else(help)
}

pub(crate) fn parse_window(s: &str) -> Result<Option<u32>, String> {
    if s == "none" {
        return Ok(None);
    }
    let packets = s.strip_suffix('p').and_then(|n| n.parse().ok()).filter(|n| (2..=1_000_000).contains(n));
    packets
        .map(Some)
        .ok_or_else(|| format!("'{s}' is not a window; write packets such as 68p (2p to 1000000p), or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::default();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn the_default_plan_is_sound_and_reads_back() {
        let plan = Plan::default();
        plan.check().unwrap();
        assert_eq!(Plan::from_toml(&toml::to_string(&plan).unwrap()).unwrap(), plan);
        assert_eq!(Plan::from_toml("").unwrap(), plan);
    }

    #[test]
    fn errors_name_the_field_and_a_fix() {
        let cases = [
            (error(|p| p.link = "0Mbps".into()), "link: ", "100kbps"),
            (error(|p| p.link = "fast".into()), "link: ", "10Mbps"),
            (error(|p| p.queue = "droptail:0p".into()), "queue: ", "droptail:2p"),
            (error(|p| p.load = "ninety".into()), "load: ", "90%"),
            (error(|p| p.load = "NaN%".into()), "load: ", "90%"),
            (error(|p| p.responses = 0), "responses: ", "1 to"),
            (error(|p| p.controllers = vec!["rneo".into()]), "controllers: ", "reno"),
            (error(|p| p.controllers = vec!["reno".into(), "reno".into()]), "controllers: ", "once"),
            (error(|p| p.max_window = "68".into()), "max-window: ", "68p"),
            (error(|p| p.backends = Vec::new()), "backends: ", "virtual"),
            (error(|p| p.backends = vec![Backend::Loopback; 2]), "backends: ", "once"),
            (error(|p| (p.backends, p.queue) = (vec![Backend::Netem], "avq".into())), "queue: ", "loopback"),
            (error(|p| p.reference = "1Mbps".into()), "reference: ", "faster"),
            (error(|p| p.link = "1Gbps".into()), "reference: ", "--reference 10Gbps"),
            (error(|p| p.link = "10Gbps".into()), "link: ", "less than 10Gbps"),
            (error(|p| p.load = "1".into()), "load: ", "90%"),
            (error(|p| p.timestamps = Timestamps::Off), "controllers: ", "one-way delay"),
            (error(|p| p.workload = "bulk:0x1MB".into()), "workload: ", "bulk:4x10MB"),
            (error(|p| p.workload = "bulk:9999999x1MB".into()), "workload: ", "1 to 1000000"),
        ];
        for (text, field, hint) in cases {
            assert!(text.starts_with(field) && text.contains(hint) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn a_load_may_be_a_fraction_of_the_link() {
        assert_eq!((parse_load("90%"), parse_load("0.9"), parse_load("120%")), (Ok(0.9), Ok(0.9), Ok(1.2)));
        assert!(Plan::is_blank("\n # nothing\n") && !Plan::is_blank("seed = 1"));
    }

    #[test]
    fn unknown_fields_are_refused_with_their_line() {
        let text = Plan::from_toml("seed = 3\nlnik = \"1Mbps\"\n").unwrap_err().to_string();
        assert!(text.starts_with("line 2: ") && text.contains("lnik"), "{text}");
    }

    #[test]
    fn renamed_fields_and_values_name_the_new_ones() {
        for (old, new) in [
            ("worlds = [\"virtual\"]", "'backends'"),
            ("outlet = \"off\"", "'shaping'"),
            ("backends = [\"relay\"]", "'loopback'"),
        ] {
            let text = Plan::from_toml(old).unwrap_err().to_string();
            assert!(text.starts_with("line 1: ") && text.contains(new) && !text.contains('\n'), "{text}");
        }
    }
}
