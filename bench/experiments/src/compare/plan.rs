//! Plans: a comparison as data. Every field has a default, and all of it is checked once. `plan_file.rs` has how it is written.

use std::ops::RangeInclusive;
use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_cc::{Capabilities, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::path::{Path, PathSpec};
use fathom_netsim::queue::QueueSpec;

use super::beside::Beside;
use super::result::{FORWARD, REVERSE};
use super::unused;
use crate::scenario::{
    Chain, Connections, MaxWindow, Period, PlanError, Shaping, TcpSettings, Timestamps, WebLoad,
    Workload, check_gso, parse_load, provided,
};
use crate::stack::{Controller, Stack};
use crate::study::check_seeds;

/// Workloads whose load is a field of its own.
const LOADED: [&str; 4] = ["packmime", "web", "page", "pages"];
/// Most responses of a run.
const MOST_RESPONSES: u64 = 10_000_000;
/// A reference that follows the link.
pub(super) const AUTO: &str = "auto";
/// The paper's (Sync-TCP §4.2), and the least of those.
const LEAST_REFERENCE: u64 = 100_000_000;

/// A plan: `link = "10Mbps"` and the like are checked before a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Controllers to compare, with options: `["reno", "sync:floor=1ms"]`.
    pub controllers: Vec<String>,
    /// Stacks that run them: `["quinn"]`, or several to compare them.
    pub stacks: Vec<Stack>,
    /// Rate of the bottleneck.
    pub link: String,
    /// Queue at the bottleneck.
    pub queue: String,
    /// The path in place of the built-in network with its link and queue, where it says anything.
    pub path: PathSpec,
    /// Who else uses it, in every run: `cubic:2`, `tcp:1`, `udp:2Mbps`.
    pub beside: Vec<String>,
    /// Offered load in percent of the link, in each direction (Sync-TCP §4.2).
    pub load: String,
    /// What the clients ask for: `packmime`, `pages`, `media`, `uploads`, or any of a scenario's workloads that ends.
    pub workload: String,
    /// Responses to complete before a run ends.
    pub responses: u64,
    /// Seeds that every controller runs with: each seed is another sequence of requests, the same for all controllers.
    pub seeds: u64,
    /// The first of them.
    pub seed: u64,
    /// `fresh`: a connection per request, as in the paper; `persistent`: requests reuse idle connections.
    pub connections: Connections,
    /// How one-way delays travel: `lean` (a stamp beside ACK frames), `paper` (every packet stamped, the receiver echoes), `timestamp`
    /// (as `lean`, in the TIMESTAMP frame that others speak), `receive` (ACK frames say when the newest packet arrived) or `off`.
    pub timestamps: Timestamps,
    /// `auto`: controllers that set packet sizes or delay packets send through a shaping socket, on every stack. `off`: only what the
    /// stacks do by themselves.
    pub shaping: Shaping,
    /// Endpoints begin with packets of 1200 bytes, and find out how large a packet the path carries.
    pub mtu_discovery: bool,
    /// Datagrams of stacks leave their host in bundles of so many at most (GSO); `None`: one by one.
    pub gso: Option<u32>,
    /// Rate of the uncongested network that the results are set beside; `auto`: ten times the link's, 100 Mbps at least.
    pub reference: String,
    /// Largest window of a sender in packets, set by the receiver's flow control (Sync-TCP §5.1: "the maximum send window is 68
    /// packets"), or `none`.
    pub max_window: String,
    /// Where it runs: `["virtual"]`, `loopback`, `netem`, or several to compare them.
    pub backends: Vec<Backend>,
    /// Servers think before they answer (PackMime's server delay). Sync-TCP does not list it: off by default.
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
            // Of each seed: five of 4,000 cost what a single one of 10,000 did, and have an interval.
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

/// A plan that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// What runs, in the order of reports: every controller on the first stack, then on the next.
    pub(crate) runs: Vec<(Stack, Controller)>,
    pub(crate) link: Rate,
    pub(crate) reference: Rate,
    pub(crate) queue: QueueSpec,
    /// In place of link and queue.
    pub(crate) path: Option<Path>,
    pub(crate) beside: Vec<Beside>,
    /// Of the forward direction, and of the reverse one where the traffic is web traffic.
    pub(crate) workload: Workload,
    /// The same as a scenario writes it.
    pub(crate) words: String,
    pub(crate) responses: u64,
    pub(crate) seeds: RangeInclusive<u64>,
    pub(crate) max_window: MaxWindow,
}

impl Checked {
    /// Returns the name of the link that bodies cross.
    pub(super) const fn bottleneck(&self) -> &'static str {
        if self.workload.goes_up() { REVERSE.1 } else { FORWARD.1 }
    }

    /// Returns whether the results are set beside an uncongested network: those of web traffic on the
    /// built-in one.
    pub(super) fn has_reference(&self) -> bool {
        self.path.is_none() && matches!(self.workload, Workload::Web { .. })
    }
}

impl Plan {
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
                return Err(field(
                    name,
                    format!("'{text}' is out of range; write a rate from 100kbps to 10Gbps"),
                ));
            }
            Ok(rate)
        };
        let runs = self.runs()?;
        let path = self.checked_path()?;
        let link = match path.as_ref().and_then(|path| path.down.link.as_ref()) {
            Some((capacity, _)) => capacity.nominal(),
            None => rate("link", &self.link)?,
        };
        let beside: Vec<Beside> =
            self.beside.iter().map(|text| Beside::read(text)).collect::<Result<_, _>>()?;
        if let Some(twice) =
            (1..beside.len()).find(|i| beside[..*i].iter().any(|b| b.name() == beside[*i].name()))
        {
            return Err(PlanError(format!(
                "beside: '{}' is named twice; write how many flows, such as cubic:2",
                self.beside[twice]
            )));
        }
        for (other, stack) in
            beside.iter().flat_map(|other| self.stacks.iter().map(move |stack| (other, *stack)))
        {
            other.check(stack, self.timestamps, self.shaping)?;
        }
        let tenfold = Rate::from_bits_per_sec(
            link.bits_per_sec().saturating_mul(10).clamp(LEAST_REFERENCE, high),
        );
        let reference =
            if self.reference == AUTO { tenfold } else { rate("reference", &self.reference)? };
        if link.bits_per_sec() == high && path.is_none() {
            return Err(field(
                "link",
                format!(
                    "'{}' leaves no faster link for the reference; write less than 10Gbps",
                    self.link
                ),
            ));
        }
        if reference <= link && path.is_none() {
            return Err(field(
                "reference",
                format!(
                    "'{}' must be faster than the link of {link}: it is the network that is not congested; write --reference {tenfold}, or leave it out",
                    self.reference,
                ),
            ));
        }
        if !(1..=MOST_RESPONSES).contains(&self.responses) {
            return Err(field(
                "responses",
                format!("{} is out of range; write 1 to {MOST_RESPONSES}", self.responses),
            ));
        }
        let seeds = check_seeds(self.seed, self.seeds)?;
        let queue = self.queue.parse().map_err(|e| field("queue", e))?;
        #[cfg(target_os = "linux")]
        if self.backends.contains(&Backend::Netem) {
            fathom_netsim::backend::netem::has(&queue)
                .map_err(|e| field("queue", e.to_string()))?;
        }
        let (words, workload) = self.workload(link)?;
        self.stacks
            .iter()
            .try_for_each(|stack| workload.check_stack(*stack))
            .map_err(|e| field("workload", e))?;
        self.backends.iter().try_fold(self.gso, |gso, backend| check_gso(gso, *backend))?;
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
            max_window: self.max_window.parse().map_err(|e| field("max-window", e))?,
        };
        unused::check(self, &checked)?;
        Ok(checked)
    }
}

impl Plan {
    /// What the clients request, and its load where the two are written as one: `packmime:80%`, `page:50%`.
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

    /// Whether what clients request has its load in a field of its own.
    pub(super) fn has_load(&self) -> bool {
        LOADED.contains(&named_options(&self.workload).0)
    }

    /// A file that says nothing: it would be the default plan under another name.
    pub fn is_blank(text: &str) -> bool {
        text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
    }

    /// Checks every field, and returns the number of runs, with that on the uncongested network.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<usize, PlanError> {
        let checked = self.check()?;
        self.study(&checked)?;
        let runs = checked.runs.len() * self.backends.len() * self.seeds as usize;
        Ok(runs + usize::from(checked.has_reference()))
    }

    /// The path with the built-in network's rate, queue and RTT where it says none: a loss alone says what differs from the default.
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

    /// The path, where the plan says one.
    fn checked_path(&self) -> Result<Option<Path>, PlanError> {
        if self.path.is_empty() {
            return Ok(None);
        }
        let wrong = |e: &str| PlanError(format!("path.{e}"));
        let spec = self.filled_path().expanded().map_err(|e| wrong(&e))?;
        let path = spec.check_simulated().map_err(|e| wrong(&e))?;
        #[cfg(target_os = "linux")]
        if self.backends.contains(&Backend::Netem) {
            let chain = Chain::of_path(path.clone());
            chain.fits_netem().map_err(|e| wrong(&e))?;
            let mut queues = chain.links.iter().flat_map(|link| [&link.queue, &link.back_queue]);
            queues
                .try_for_each(fathom_netsim::backend::netem::has)
                .map_err(|e| wrong(&format!("queue: {e}")))?;
        }
        Ok(Some(path))
    }

    /// Returns the workload on a link of this rate, as a scenario writes it and as it is read.
    pub(super) fn workload(&self, link: Rate) -> Result<(String, Workload), PlanError> {
        let part = parse_load(&self.load).map_err(|e| PlanError(format!("load: {e}")))?;
        // As it was written: 0.55 * 100.0 is not 55.
        let percent = (part * 1e12).round() / 1e10;
        let (name, options) = named_options(&self.workload);
        let web = ["packmime", "web"].contains(&name);
        let mut words = match name {
            _ if web => format!("web:{percent}% of {link}"),
            "page" | "pages" => format!("pages:{percent}% of {link}"),
            "media" => MEDIA.to_owned(),
            "upload" | "uploads" => UPLOADS.to_owned(),
            "bulk" => BULK.to_owned(),
            // One or several: both spellings are accepted with numbers, too.
            other => match other.split_once(':') {
                Some(("page", numbers)) => format!("pages:{numbers}"),
                Some(("upload", numbers)) => format!("uploads:{numbers}"),
                _ => other.to_owned(),
            },
        };
        options.iter().for_each(|option| words.extend([" ", option]));
        match words.parse() {
            Ok(Workload::Web { arrivals, period, resumption, .. }) if web => {
                let load = WebLoad::Computed { part, of: link };
                let server_delay = self.server_delay;
                Ok((words, Workload::Web { load, server_delay, arrivals, period, resumption }))
            }
            Ok(
                Workload::Bulk { bytes: None, .. }
                | Workload::Media { length: None, .. }
                | Workload::Web { .. },
            ) => Err(PlanError(format!(
                "workload: '{}' has no end of its own, or its load is a field; write packmime, page, media, upload, bulk, or such as bulk:4x10MB@100ms",
                self.workload
            ))),
            Ok(Workload::Pages { period, .. }) if period != Period::default() => {
                Err(PlanError(format!(
                    "workload: '{}' makes requests for a part of the run, but a comparison ends after responses; leave 'from' and 'to' out, or write a study",
                    self.workload
                )))
            }
            Ok(workload) if workload.requests().is_some_and(|n| n > MOST_RESPONSES) => {
                Err(PlanError(format!(
                    "workload: '{}' makes more than {MOST_RESPONSES} responses; write a shorter one",
                    self.workload
                )))
            }
            Ok(workload) => Ok((words, workload)),
            Err(e) if !options.is_empty() || e.contains(": responses: ") => {
                Err(PlanError(format!("workload: {e}")))
            }
            Err(_) => Err(PlanError(format!(
                "workload: '{}' is not a workload; write packmime, page, media, upload or bulk, or one with its numbers: bulk:4x10MB@100ms, pages:2/s, 'media:4 at 2Mbps 30fps deadline 100ms for 60s', uploads:4x10MB@1s",
                self.workload.escape_debug()
            ))),
        }
    }

    fn runs(&self) -> Result<Vec<(Stack, Controller)>, PlanError> {
        let wrong = |e: String| PlanError(format!("controllers: {e}"));
        if self.controllers.is_empty() {
            return Err(PlanError("controllers: name at least one, such as reno,sync".into()));
        }
        if self.backends.is_empty() {
            return Err(PlanError("backends: name at least one, such as virtual".into()));
        }
        if let Some(twice) =
            (1..self.backends.len()).find(|i| self.backends[..*i].contains(&self.backends[*i]))
        {
            return Err(PlanError(format!(
                "backends: '{}' is named twice; name it once",
                self.backends[twice]
            )));
        }
        if self.stacks.is_empty() {
            return Err(PlanError("stacks: name at least one, such as quinn".into()));
        }
        let mut runs: Vec<(Stack, Controller)> = Vec::new();
        for (i, stack) in self.stacks.iter().enumerate() {
            if self.stacks[..i].contains(stack) {
                return Err(PlanError(format!("stacks: '{stack}' is named twice; name it once")));
            }
            for spec in &self.controllers {
                let control = Controller::read(spec, *stack).map_err(wrong)?;
                if let Controller::Fathom(controller_config) = &control {
                    let provided = provided_to(*stack, self.timestamps, self.shaping);
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

/// Returns the capabilities of a stack in a comparison, where TCP has its default settings.
pub(super) fn provided_to(stack: Stack, timestamps: Timestamps, shaping: Shaping) -> Capabilities {
    let mut provided = provided(stack, timestamps, shaping);
    provided.ecn &= stack != Stack::Tcp || TcpSettings::default().provided().ecn;
    provided
}

/// The name and the options of `page:resume=0rtt,tickets=40%`.
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
/// What `media` stands for: one stream as a conference at 720p30 sends it (ours), and what an interactive picture may take: ITU-T G.114's
/// 150 ms from mouth to ear.
const MEDIA: &str = "media:1 at 2.5Mbps 30fps deadline 150ms for 60s";
/// What `uploads` stands for (ours): photographs.
const UPLOADS: &str = "uploads:20x5MB@4s";
/// What `bulk` stands for (ours).
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
    fn options_of_workloads_are_read_and_written() {
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
            let again = Plan::from_toml(&plan.to_toml()).unwrap();
            assert_eq!(
                (again.check().unwrap().workload, &again.load),
                (read, &plan.load),
                "{workload}"
            );
        }
        let plan = Plan { workload: "media:transport=datagram".into(), ..Plan::default() };
        let datagrams = plan.check().unwrap().workload;
        assert!(
            matches!(datagrams, Workload::Media { transport: MediaTransport::Datagram, .. }),
            "{datagrams:?}"
        );
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap().check().unwrap().workload, datagrams);
        let wrong = error(|p| p.workload = "page:resume=3rtt".into());
        assert!(wrong.starts_with("workload: ") && wrong.contains("none, 1rtt or 0rtt"), "{wrong}");
        let wrong =
            error(|p| (p.stacks, p.workload) = (vec![Stack::Tcp], "packmime:resume=1rtt".into()));
        assert!(wrong.starts_with("workload: ") && wrong.contains("use quinn or noq"), "{wrong}");
    }

    #[test]
    fn the_reference_follows_the_link() {
        for (link, reference) in
            [("1Mbps", "100Mbps"), ("10Mbps", "100Mbps"), ("1Gbps", "10Gbps"), ("5Gbps", "10Gbps")]
        {
            let plan = Plan { link: link.into(), ..Plan::default() };
            assert_eq!(plan.check().unwrap().reference.to_string(), reference);
        }
    }

    #[test]
    fn a_load_may_be_a_fraction_of_the_link() {
        assert_eq!(
            (parse_load("90%"), parse_load("0.9"), parse_load("120%")),
            (Ok(0.9), Ok(0.9), Ok(1.2))
        );
        assert!(Plan::is_blank("\n # nothing\n") && !Plan::is_blank("seed = 1"));
    }

    #[test]
    fn unknown_fields_are_refused_with_their_line() {
        let text =
            Plan::from_toml("[scenario.network]\nlnik = \"1Mbps\"\n").unwrap_err().to_string();
        assert!(
            text.starts_with("line 2: ") && text.contains("lnik") && text.contains("link"),
            "{text}"
        );
    }

    #[test]
    fn old_fields_and_values_name_the_new_ones() {
        for (old, new) in [
            ("worlds = [\"virtual\"]", "'sweep.backend'"),
            ("outlet = \"off\"", "'scenario.shaping'"),
            ("responses = 5", "'scenario.stop'"),
            ("sweep.backend = [\"relay\"]", "'loopback'"),
        ] {
            let text = Plan::from_toml(old).unwrap_err().to_string();
            assert!(
                text.starts_with("line 1: ") && text.contains(new) && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn a_path_may_have_numbers_and_a_workload_its_load() {
        let text =
            "[scenario.network]\ntopology = 'path'\npath.loss = 0.01\npath.rate = '20Mbps'\n";
        let plan = Plan::from_toml(text).unwrap();
        assert_eq!(plan.path.loss.as_deref(), Some("0.01"));
        plan.validate().unwrap();
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

    #[test]
    fn a_plan_has_the_fields_of_a_study() {
        let text = r#"
            study = "compare"
            seeds = 3
            seed = 7
            [sweep]
            controller = ["reno", "vegas"]
            [scenario]
            stop = "300 responses"
            [scenario.network]
            link = "5Mbps"
            [scenario.traffic]
            workload = "web:80% of 5Mbps"
            connections = "persistent"
        "#;
        let plan = Plan::from_toml(text).unwrap();
        let wanted = Plan {
            controllers: vec!["reno".into(), "vegas".into()],
            link: "5Mbps".into(),
            load: "80%".into(),
            responses: 300,
            seeds: 3,
            seed: 7,
            connections: Connections::Persistent,
            ..Plan::default()
        };
        assert_eq!(plan, wanted);
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
        let bulk = Plan { workload: "bulk:4x10MB@100ms".into(), ..Plan::default() };
        assert_eq!(Plan::from_toml(&bulk.to_toml()).unwrap(), bulk);
        for (wrong, says) in [
            ("study = 'judge'", "study: 'judge'"),
            ("scenario.network.topology = 'asu'", "one-bottleneck"),
            ("scenario.stop = '10s'", "scenario.stop: "),
            ("scenario.traffic.workload = 'flows:5'", ""),
            (
                "[scenario.network]\ntopology = 'path'\nlink = '5Mbps'\npath.rate = '20Mbps'",
                "scenario.network.link: the path has its own",
            ),
            ("[scenario.network]\ntopology = 'path'\npath.loss = 1.5", "loss: '1.5'"),
        ] {
            let read = Plan::from_toml(wrong).and_then(|plan| plan.validate());
            assert!(read.unwrap_err().to_string().contains(says), "{wrong}");
        }
    }
}
