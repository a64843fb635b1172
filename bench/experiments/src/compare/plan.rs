//! Plans: a comparison as data. Every field has a default, and `Plan::check` checks all fields.
//! `from_study.rs` reads a plan from a study.

use std::ops::RangeInclusive;
use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_cc::{Invalid, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::path::{CheckedPath, PathSpec};
use fathom_netsim::queue::QueueSpec;

use super::beside::Beside;
use crate::scenario::{
    Chain, Connections, InField, MaxWindow, Period, Shaping, TcpSettings, Timestamps, Web, WebLoad,
    Workload, check_gso, parse_load, provided,
};
use crate::stack::{Controller, Stack};
use crate::study::check_seeds;

/// Names of a group of traffic, and of the link from its servers to its clients.
pub(super) const FORWARD: (&str, &str) = ("forward", "left-right");
pub(super) const REVERSE: (&str, &str) = ("reverse", "right-left");
/// Workloads whose load is the field `load` of a plan.
const LOADED: [&str; 4] = ["packmime", "web", "page", "pages"];
/// Maximum number of responses of a run.
const MOST_RESPONSES: u64 = 10_000_000;
/// Value of `reference` that derives the rate from the rate of the link.
pub(super) const AUTO: &str = "auto";
/// Smallest reference rate that `auto` gives, in bits per second: the paper's (Sync-TCP §4.2).
const LEAST_REFERENCE: u64 = 100_000_000;

/// Plan of a comparison. Fields are text as written, such as `link = "10Mbps"`; they are checked
/// before a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Controllers to compare, with options: `["reno", "sync:floor=1ms"]`.
    pub controllers: Vec<String>,
    /// Stacks that run the controllers: `["quinn"]`, or several to compare stacks.
    pub stacks: Vec<Stack>,
    /// Rate of the bottleneck, unless `path` has its own rate or trace.
    pub link: String,
    /// Queue at the bottleneck, unless `path` has its own rate, trace or queue.
    pub queue: String,
    /// Path instead of the built-in network, if any of its options is set.
    pub path: PathSpec,
    /// Cross traffic in every run except the one on the uncongested network: `cubic:2`, `tcp:1`,
    /// `udp:2Mbps`.
    pub beside: Vec<String>,
    /// Offered load as a part of the rate of the link: `90%` or `0.9` (Sync-TCP §4.2). Web traffic
    /// on the built-in network offers this load in each direction.
    pub load: String,
    /// Requests of the clients: `packmime`, `page`, `media`, `upload`, `bulk`, or a workload of a
    /// scenario such as `bulk:4x10MB@100ms`. Downloads and live streams without an end are refused.
    pub workload: String,
    /// Completed responses after which a run ends. Workloads that end by themselves ignore it.
    pub responses: u64,
    /// Number of seeds. Each seed is another sequence of requests, the same for every controller.
    pub seeds: u64,
    /// First seed.
    pub seed: u64,
    /// `fresh`: a connection per request, as in the paper. `persistent`: requests reuse idle
    /// connections.
    pub connections: Connections,
    /// How one-way delays are carried: `lean` (a timestamp next to ACK frames), `paper` (a
    /// timestamp on every packet; the receiver echoes the delay), `timestamp` (as `lean`, in the
    /// TIMESTAMP frame of draft-huitema-quic-ts), `receive` (ACK frames contain the arrival time of
    /// the newest packet) or `off`.
    pub timestamps: Timestamps,
    /// `auto`: controllers that set packet sizes or delay packets send through a shaping socket, on
    /// every stack. `off`: packets leave as the stack itself sends them.
    pub shaping: Shaping,
    /// Whether QUIC endpoints begin with packets of 1200 bytes and discover how large a packet the
    /// path carries (RFC 8899).
    pub mtu_discovery: bool,
    /// Maximum number of datagrams that leave a host in one bundle (GSO). `None`: datagrams leave
    /// one by one.
    pub gso: Option<u32>,
    /// Rate of the uncongested network that web traffic is compared with. `auto`: ten times the
    /// rate of the link, but at least 100 Mbps and at most 10 Gbps.
    pub reference: String,
    /// Largest window of a sender in packets, `none`, or `stack` for the stacks' defaults. The
    /// receiver's flow control enforces it (Sync-TCP §5.1: "the maximum send window is 68
    /// packets").
    pub max_window: String,
    /// Backends of the runs: `["virtual"]`, `loopback`, `netem`, or several to compare them.
    pub backends: Vec<Backend>,
    /// Whether servers of web traffic think before they respond (PackMime's server delay). It is
    /// off by default, because Sync-TCP does not list it.
    pub server_delay: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            controllers: vec!["reno".into(), "sync".into()],
            stacks: vec![Stack::Quinn],
            link: "10Mbps".into(),
            // Sync-TCP §4.4: twice the bandwidth-delay product of 68 packets.
            queue: "droptail:136p".into(),
            path: PathSpec::default(),
            beside: Vec::new(),
            load: "90%".into(),
            workload: "packmime".into(),
            // Responses per seed. Several seeds give an interval; a single seed gives none, however
            // many responses it has.
            responses: 4_000,
            seeds: 5,
            seed: 1,
            connections: Connections::Fresh,
            timestamps: Timestamps::Lean,
            shaping: Shaping::Auto,
            mtu_discovery: false,
            gso: None,
            reference: AUTO.into(),
            max_window: "68p".into(),
            backends: vec![Backend::Virtual],
            server_delay: false,
        }
    }
}

/// A plan that passed all checks.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// Stacks and controllers to run, in the order of reports: every controller on the first stack,
    /// then every controller on the next stack.
    pub(crate) runs: Vec<(Stack, Controller)>,
    pub(crate) link: Rate,
    pub(crate) reference: Rate,
    pub(crate) queue: QueueSpec,
    /// Path instead of link and queue; `None` on the built-in network.
    pub(crate) path: Option<CheckedPath>,
    pub(crate) beside: Vec<Beside>,
    /// Workload of the forward direction. For web traffic on the built-in network, the reverse
    /// direction has it too.
    pub(crate) workload: Workload,
    /// The workload as a scenario writes it.
    pub(crate) words: String,
    pub(crate) responses: u64,
    pub(crate) seeds: RangeInclusive<u64>,
    pub(crate) max_window: MaxWindow,
}

impl Checked {
    /// Returns the name of the link that the bodies of the forward group cross.
    pub(super) fn bottleneck(&self) -> &'static str {
        if self.workload.goes_up() { REVERSE.1 } else { FORWARD.1 }
    }

    /// Returns whether the results are compared with an uncongested network: only for web traffic
    /// on the built-in network.
    pub(super) fn has_reference(&self) -> bool {
        self.path.is_none() && matches!(self.workload, Workload::Web(_))
    }
}

/// Lowest and highest rate of a link, in bits per second.
const LOWEST_RATE: u64 = 100_000;
const HIGHEST_RATE: u64 = 10_000_000_000;

/// Reads the rate in this field and checks its range.
fn checked_rate(field: &'static str, text: &str) -> Result<Rate, Invalid> {
    let rate: Rate = text.parse().in_field(field)?;
    if (LOWEST_RATE..=HIGHEST_RATE).contains(&rate.bits_per_sec()) {
        return Ok(rate);
    }
    let error = format!("'{text}' is out of range; write a rate from 100kbps to 10Gbps");
    Err(Invalid::because(error).in_field(field))
}

impl Plan {
    /// Checks every field.
    ///
    /// # Errors
    /// Returns the first error, with the name of its field.
    pub(crate) fn check(&self) -> Result<Checked, Invalid> {
        let runs = self.runs()?;
        let path = self.checked_path()?;
        let link = match path.as_ref().and_then(|path| path.down.link.as_ref()) {
            Some((capacity, _)) => capacity.nominal(),
            None => checked_rate("link", &self.link)?,
        };
        let beside = self.checked_beside()?;
        let reference = self.checked_reference(link, path.is_some())?;
        if !(1..=MOST_RESPONSES).contains(&self.responses) {
            let error = format!("{} is out of range; write 1 to {MOST_RESPONSES}", self.responses);
            return Err(Invalid::because(error).in_field("responses"));
        }
        let seeds = check_seeds(self.seed, self.seeds)?;
        let queue = self.queue.parse().in_field("queue")?;
        #[cfg(target_os = "linux")]
        if self.backends.contains(&Backend::Netem) {
            fathom_netsim::backend::netem::has(&queue)
                .map_err(|e| Invalid::because(e.to_string()).in_field("queue"))?;
        }
        let (words, workload) = self.workload(link)?;
        self.stacks
            .iter()
            .try_for_each(|stack| workload.check_stack(*stack))
            .in_field("workload")?;
        self.backends.iter().try_fold(self.gso, |gso, backend| check_gso(gso, *backend))?;
        // The link that bodies cross, if each direction has its own link.
        let up =
            path.as_ref().filter(|_| workload.goes_up()).and_then(|path| path.up.link.as_ref());
        let link = up.map_or(link, |(capacity, _)| capacity.nominal());
        let checked = Checked {
            runs,
            link,
            reference,
            queue,
            path,
            beside,
            responses: workload.requests().unwrap_or(self.responses),
            workload,
            words,
            seeds,
            max_window: self.max_window.parse().in_field("max-window")?,
        };
        self.refuse_unused_fields(&checked)?;
        Ok(checked)
    }

    /// Checks the cross traffic on every stack.
    fn checked_beside(&self) -> Result<Vec<Beside>, Invalid> {
        let beside: Vec<Beside> =
            self.beside.iter().map(|text| Beside::read(text)).collect::<Result<_, _>>()?;
        if let Some(twice) =
            (1..beside.len()).find(|i| beside[..*i].iter().any(|b| b.name() == beside[*i].name()))
        {
            return Err(Invalid::because(format!(
                "'{}' is named twice; name it once with its number of flows, such as cubic:2",
                self.beside[twice]
            ))
            .in_field("beside"));
        }
        for (other, stack) in
            beside.iter().flat_map(|other| self.stacks.iter().map(move |stack| (other, *stack)))
        {
            other.check(stack, self.timestamps, self.shaping)?;
        }
        Ok(beside)
    }

    /// Checks the rate of the uncongested network, which must be faster than the built-in network's
    /// link.
    fn checked_reference(&self, link: Rate, on_path: bool) -> Result<Rate, Invalid> {
        let tenfold = Rate::from_bits_per_sec(
            link.bits_per_sec().saturating_mul(10).clamp(LEAST_REFERENCE, HIGHEST_RATE),
        );
        let reference = if self.reference == AUTO {
            tenfold
        } else {
            checked_rate("reference", &self.reference)?
        };
        if link.bits_per_sec() == HIGHEST_RATE && !on_path {
            let error = Invalid::because(format!(
                "'{}' is the highest rate, so the uncongested reference cannot be faster; write \
                 less than 10Gbps",
                self.link
            ));
            return Err(error.in_field("link"));
        }
        if reference <= link && !on_path {
            let error = Invalid::because(format!(
                "'{}' is not faster than the link of {link}, but the reference is an uncongested \
                 network; write --reference {tenfold}, or leave it out",
                self.reference,
            ));
            return Err(error.in_field("reference"));
        }
        Ok(reference)
    }

    /// Returns the first word of the workload, which is its kind.
    pub(super) fn kind(&self) -> &str {
        self.workload.split([':', ' ']).next().unwrap_or_default()
    }

    /// Refuses fields that have no effect with the workload or the network.
    ///
    /// # Errors
    /// Returns an error that names the first such field.
    fn refuse_unused_fields(&self, checked: &Checked) -> Result<(), Invalid> {
        let web = matches!(checked.workload, Workload::Web(_));
        if self.reference != AUTO && !checked.has_reference() {
            let why = if web {
                "only the built-in network has a reference"
            } else {
                "only packmime has a reference"
            };
            return Err(Invalid::because(format!(
                "{why}, so nothing would run on an uncongested network"
            ))
            .hint("leave it out")
            .in_field("reference"));
        }
        if self.server_delay && !web {
            return Err(Invalid::because("only packmime has a server delay")
                .hint("leave it out, or write workload = \"packmime\"")
                .in_field("server-delay"));
        }
        let keeps = !checked.workload.model().own_fields().contains(&"connections");
        if self.connections == Connections::Persistent && keeps {
            let kind = self.kind();
            return Err(Invalid::because(format!(
                "a client of {kind} always keeps its single connection"
            ))
            .hint("leave 'persistent' out")
            .in_field("connections"));
        }
        Ok(())
    }
}

impl Plan {
    /// Sets the workload. If the text also contains a load, as in `packmime:80%` or `page:50%`,
    /// sets both fields.
    pub fn set_workload(&mut self, text: &str) {
        let with_load = text
            .split_once(':')
            .filter(|(kind, load)| LOADED.contains(kind) && parse_load(load).is_ok());
        let (workload, load) = with_load.map_or((text, None), |(kind, load)| (kind, Some(load)));
        workload.clone_into(&mut self.workload);
        if let Some(load) = load {
            load.clone_into(&mut self.load);
        }
    }

    /// Returns whether the load of the workload is the field `load`.
    pub(super) fn has_load(&self) -> bool {
        LOADED.contains(&named_options(&self.workload).0)
    }

    /// Returns whether a text has only blank lines and comments, so that it sets no field.
    pub fn is_blank(text: &str) -> bool {
        text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
    }

    /// Checks every field, and returns the number of runs. The run on the uncongested network
    /// counts too.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn validate(&self) -> Result<usize, Invalid> {
        self.validate_given(&[])
    }

    /// Returns the path, completed from the built-in network. A path without a rate and a trace
    /// gets the plan's link and, unless it has its own, the plan's queue. A path without an RTT and
    /// a delay gets the RTT of the built-in network. A preset stays as it is.
    pub(crate) fn filled_path(&self) -> PathSpec {
        let mut spec = self.path.clone();
        if spec.is_empty() || spec.preset.is_some() {
            return spec;
        }
        if spec.rate.is_none() && spec.trace.is_none() {
            spec.rate = Some(self.link.clone());
            spec.queue.get_or_insert_with(|| self.queue.clone());
        }
        if [&spec.rtt, &spec.delay, &spec.up_delay].into_iter().all(Option::is_none) {
            spec.rtt = Some(duration_text(BUILT_IN_RTT));
        }
        spec
    }

    /// Sets the completed path, and the link and the queue that this path has.
    pub(super) fn set_path_figures(&mut self, checked: &Checked) {
        let Some(path) = &checked.path else { return };
        self.path = self.filled_path();
        let way = if checked.workload.goes_up() { &path.up } else { &path.down };
        if let Some((capacity, queue)) = &way.link {
            (self.link, self.queue) = (capacity.nominal().to_string(), queue.to_string());
        }
    }

    /// Returns the checked path; `None` on the built-in network.
    fn checked_path(&self) -> Result<Option<CheckedPath>, Invalid> {
        if self.path.is_empty() {
            return Ok(None);
        }
        let wrong = |e: Invalid| e.in_table("path");
        let spec = self.filled_path().expanded().map_err(wrong)?;
        let path = spec.check_simulated().map_err(wrong)?;
        #[cfg(target_os = "linux")]
        if self.backends.contains(&Backend::Netem) {
            let chain = Chain::of_path(path.clone());
            chain.fits_netem().map_err(|e| e.in_table("path"))?;
            let mut queues = chain.links.iter().flat_map(|link| [&link.queue, &link.back_queue]);
            queues
                .try_for_each(fathom_netsim::backend::netem::has)
                .map_err(|e| wrong(Invalid::because(e.to_string()).in_field("queue")))?;
        }
        Ok(Some(path))
    }

    /// Returns the workload on a link of this rate, as a scenario writes it and as it is parsed.
    pub(super) fn workload(&self, link: Rate) -> Result<(String, Workload), Invalid> {
        let part = parse_load(&self.load).in_field("load")?;
        // Rounds to the percentage as written: 0.55 * 100.0 is not 55.
        let percent = (part * 1e12).round() / 1e10;
        let (name, options) = named_options(&self.workload);
        let web = ["packmime", "web"].contains(&name);
        let mut words = match name {
            _ if web => format!("web:{percent}% of {link}"),
            "page" | "pages" => format!("pages:{percent}% of {link}"),
            "media" => MEDIA.to_owned(),
            "upload" | "uploads" => UPLOADS.to_owned(),
            "bulk" => BULK.to_owned(),
            // Workloads with numbers, too, may have their name in the singular or the plural.
            other => match other.split_once(':') {
                Some(("page", numbers)) => format!("pages:{numbers}"),
                Some(("upload", numbers)) => format!("uploads:{numbers}"),
                _ => other.to_owned(),
            },
        };
        options.iter().for_each(|option| words.extend([" ", option]));
        match words.parse::<Workload>() {
            Ok(Workload::Web(of)) if web => {
                let load = WebLoad::Computed { part, of: link };
                let server_delay = self.server_delay;
                Ok((words, Workload::Web(Web { load, server_delay, ..of })))
            }
            Ok(workload)
                if matches!(workload, Workload::Web(_))
                    || (workload.requests().is_none() && workload.model().load().is_none())
                    || !workload.ends() =>
            {
                Err(Invalid::because(format!(
                    "'{}' never ends, or needs its load as a separate option (--load); write \
                     packmime, page, media, upload or bulk, or a workload with numbers, such as \
                     bulk:4x10MB@100ms",
                    self.workload
                ))
                .in_field("workload"))
            }
            Ok(workload) if workload.model().period() != Period::default() => {
                Err(Invalid::because(format!(
                    "'{}' makes requests during a part of the run only, but a comparison ends \
                     after a given number of responses; leave 'from' and 'to' out, or write a \
                     study",
                    self.workload
                ))
                .in_field("workload"))
            }
            Ok(workload) if workload.requests().is_some_and(|n| n > MOST_RESPONSES) => {
                Err(Invalid::because(format!(
                    "'{}' makes more than {MOST_RESPONSES} responses; write a shorter workload",
                    self.workload
                ))
                .in_field("workload"))
            }
            Ok(workload) => Ok((words, workload)),
            Err(e) if !options.is_empty() || e.fields.iter().any(|field| field == "responses") => {
                Err(e.in_field("workload"))
            }
            Err(_) => Err(Invalid::because(format!(
                "'{}' is not a workload; write packmime, page, media, upload or bulk, or a \
                 workload with its numbers: bulk:4x10MB@100ms, pages:2/s, 'media:4 at 2Mbps 30fps \
                 deadline 100ms for 60s', uploads:4x10MB@1s",
                self.workload.escape_debug()
            ))
            .in_field("workload")),
        }
    }

    fn runs(&self) -> Result<Vec<(Stack, Controller)>, Invalid> {
        let wrong = |e: String| Invalid::because(e).in_field("controllers");
        if self.controllers.is_empty() {
            return Err(Invalid::because("name at least one controller, such as reno,sync")
                .in_field("controllers"));
        }
        if self.backends.is_empty() {
            return Err(
                Invalid::because("name at least one backend, such as virtual").in_field("backends")
            );
        }
        if let Some(twice) =
            (1..self.backends.len()).find(|i| self.backends[..*i].contains(&self.backends[*i]))
        {
            return Err(Invalid::because(format!(
                "'{}' is named twice; name it once",
                self.backends[twice]
            ))
            .in_field("backends"));
        }
        if self.stacks.is_empty() {
            return Err(
                Invalid::because("name at least one stack, such as quinn").in_field("stacks")
            );
        }
        let mut runs: Vec<(Stack, Controller)> = Vec::new();
        for (i, stack) in self.stacks.iter().enumerate() {
            if self.stacks[..i].contains(stack) {
                return Err(Invalid::because(format!("'{stack}' is named twice; name it once"))
                    .in_field("stacks"));
            }
            for spec in &self.controllers {
                let control = Controller::read(spec, *stack).in_field("controllers")?;
                if let Controller::Fathom(controller_config) = &control {
                    let tcp = TcpSettings::default();
                    let provided = provided(*stack, self.timestamps, self.shaping, &tcp);
                    controller_config.check(provided).map_err(|e| wrong(e.to_string()))?;
                }
                if runs.iter().any(|(s, c)| s == stack && c.spec() == control.spec()) {
                    return Err(wrong(format!(
                        "'{}' is named twice; name it once",
                        control.spec()
                    )));
                }
                runs.push((*stack, control));
            }
        }
        Ok(runs)
    }
}

/// Returns the name and the options of a workload such as `page:resume=0rtt,tickets=40%`. Without
/// options, the name is the whole text.
pub(crate) fn named_options(workload: &str) -> (&str, Vec<&str>) {
    let is_option =
        |text: &str| text.split_once('=').is_some_and(|(name, _)| !name.contains([' ', ':']));
    match workload.split_once(':') {
        Some((name, options)) if options.split(',').all(is_option) => {
            (name, options.split(',').collect())
        }
        _ => (workload, Vec::new()),
    }
}

/// Base RTT of the built-in network (Sync-TCP §4.1: seven links of 1 ms each way).
pub(super) const BUILT_IN_RTT: Duration = Duration::from_millis(14);
/// Workload for `media`, our choice: one stream, as a conference sends it at 720p30. The deadline
/// is the 150 ms from mouth to ear that ITU-T G.114 allows for interactive use.
const MEDIA: &str = "media:1 at 2.5Mbps 30fps deadline 150ms for 60s";
/// Workload for `uploads`, our choice: photographs.
const UPLOADS: &str = "uploads:20x5MB@4s";
/// Workload for `bulk`, our choice.
const BULK: &str = "bulk:4x20MB@100ms";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::MediaTransport;

    fn error(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::default();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn default_comparison_plan_passes_all_checks() {
        Plan::default().check().unwrap();
    }

    #[test]
    fn comparison_plan_errors_name_the_field_and_a_fix() {
        let cases = [
            (error(|p| p.link = "0Mbps".into()), "link: ", "100kbps"),
            (error(|p| p.link = "fast".into()), "link: ", "10Mbps"),
            (error(|p| p.queue = "droptail:0p".into()), "queue: ", "droptail:2p"),
            (error(|p| p.load = "ninety".into()), "load: ", "90%"),
            (error(|p| p.load = "NaN%".into()), "load: ", "90%"),
            (error(|p| p.responses = 0), "responses: ", "1 to"),
            (error(|p| p.seeds = 0), "seeds: ", "1 to"),
            (error(|p| p.controllers = vec!["rneo".into()]), "controllers: ", "reno"),
            (
                error(|p| p.controllers = vec!["reno".into(), "reno".into()]),
                "controllers: ",
                "once",
            ),
            (error(|p| p.max_window = "68".into()), "max-window: ", "68p"),
            (error(|p| p.backends = Vec::new()), "backends: ", "virtual"),
            (error(|p| p.backends = vec![Backend::Loopback; 2]), "backends: ", "once"),
            (
                error(|p| (p.backends, p.queue) = (vec![Backend::Netem], "avq".into())),
                "queue: ",
                "loopback",
            ),
            (error(|p| p.reference = "1Mbps".into()), "reference: ", "faster"),
            (
                error(|p| (p.link, p.reference) = ("1Gbps".into(), "1Gbps".into())),
                "reference: ",
                "--reference 10Gbps",
            ),
            (error(|p| p.link = "10Gbps".into()), "link: ", "less than 10Gbps"),
            (error(|p| p.load = "1".into()), "load: ", "90%"),
            (error(|p| p.timestamps = Timestamps::Off), "controllers: ", "one-way delay"),
            (error(|p| p.workload = "bulk:0x1MB".into()), "workload: ", "bulk:4x10MB"),
            (error(|p| p.workload = "bulk:9999999x1MB".into()), "workload: ", "1 to 1000000"),
        ];
        for (text, field, hint) in cases {
            assert!(
                text.starts_with(field) && text.contains(hint) && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn workload_options_round_trip_through_plan_text() {
        for (workload, resume, tickets) in [
            ("page:resume=0rtt,tickets=100%", "0rtt", 1.0),
            ("packmime:resume=1rtt", "1rtt", 0.4),
            ("pages:2/s resume=0rtt", "0rtt", 0.4),
            ("web", "none", 0.4),
        ] {
            let plan = Plan { workload: workload.into(), ..Plan::default() };
            let read = plan.check().unwrap().workload;
            assert_eq!(
                (read.resumption().resume.to_string(), read.resumption().tickets),
                (resume.into(), tickets)
            );
            let again = Plan::from_toml(&plan.study_text().unwrap()).unwrap();
            assert_eq!(
                (again.check().unwrap().workload, &again.load),
                (read, &plan.load),
                "{workload}"
            );
        }
        let plan = Plan { workload: "media:transport=datagram".into(), ..Plan::default() };
        let datagrams = plan.check().unwrap().workload;
        assert!(
            matches!(datagrams, Workload::Media(of) if of.transport == MediaTransport::Datagram),
            "{datagrams:?}"
        );
        let again = Plan::from_toml(&plan.study_text().unwrap()).unwrap();
        assert_eq!(again.check().unwrap().workload, datagrams);
        let wrong = error(|p| p.workload = "page:resume=3rtt".into());
        assert!(wrong.starts_with("workload: ") && wrong.contains("none, 1rtt or 0rtt"), "{wrong}");
        let wrong =
            error(|p| (p.stacks, p.workload) = (vec![Stack::Tcp], "packmime:resume=1rtt".into()));
        assert!(wrong.starts_with("workload: ") && wrong.contains("use quinn or noq"), "{wrong}");
    }

    #[test]
    fn default_reference_link_is_ten_times_as_fast_within_bounds() {
        for (link, reference) in
            [("1Mbps", "100Mbps"), ("10Mbps", "100Mbps"), ("1Gbps", "10Gbps"), ("5Gbps", "10Gbps")]
        {
            let plan = Plan { link: link.into(), ..Plan::default() };
            assert_eq!(plan.check().unwrap().reference.to_string(), reference);
        }
    }

    #[test]
    fn load_parses_as_fraction_and_comment_only_plan_is_blank() {
        assert_eq!(
            (parse_load("90%"), parse_load("0.9"), parse_load("120%")),
            (Ok(0.9), Ok(0.9), Ok(1.2))
        );
        assert!(Plan::is_blank("\n # nothing\n") && !Plan::is_blank("seed = 1"));
    }

    #[test]
    fn workload_option_may_include_the_load() {
        for (text, workload, load) in [
            ("page:30%", "page", "30%"),
            ("pages:30%", "pages", "30%"),
            ("packmime:80%", "packmime", "80%"),
            ("page:2/s", "page:2/s", "90%"),
            ("upload:2x1MB@1s", "upload:2x1MB@1s", "90%"),
        ] {
            let mut plan = Plan::default();
            plan.set_workload(text);
            assert_eq!((&*plan.workload, &*plan.load), (workload, load), "{text}");
            plan.validate().unwrap();
        }
    }
}
