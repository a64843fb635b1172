//! A scenario as written in TOML. Every field is checked once, and unknown fields are errors.

mod traffic;
mod values;

use fathom_cc::units::parse_duration;
use fathom_cc::{Capabilities, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::path::{PathSpec, parse_range, parse_rate};
use fathom_netsim::queue::QueueSpec;
use fathom_traffic::Arrivals;
use serde::{Deserialize, Serialize};

use super::background::Background;
use super::chain::{Access, AccessQueues, Chain, ChainLink};
use super::error::field;
use super::tcp::TcpSpec;
use super::{
    Connections, MaxWindow, Period, PlanError, Scenario, Shaping, Stop, Timestamps, Traffic,
};
use crate::stack::{Controller, IDLE, Stack};
use crate::tcp::TcpSettings;
pub(crate) use values::{parse_load, parse_responses, toml_message};
use values::{parse_mix, parse_stop, read_toml};

/// A scenario as written in TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScenarioSpec {
    /// End of the run: a number of responses such as `250000 responses`, or a time such as `100s`.
    pub stop: String,
    /// End of the warm-up: nothing that happens before is counted. For runs that end at a time.
    #[serde(default = "zero")]
    pub warm_up: String,
    /// Stack of both ends.
    #[serde(default)]
    pub stack: Stack,
    /// Backend that runs the scenario: `virtual`, `loopback` or `netem`.
    #[serde(default, skip_serializing_if = "Backend::is_virtual")]
    pub backend: Backend,
    /// Extension that carries one-way delays.
    #[serde(default)]
    pub timestamps: Timestamps,
    /// `auto`: controllers that set packet sizes or delay packets send through a shaping socket, on
    /// stacks that need one (quinn, noq). `off`: only what the stacks do by themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shaping: Shaping,
    /// Whether QUIC endpoints begin with packets of 1200 bytes and discover how large a packet the
    /// path carries (RFC 8899). Otherwise packets have their full size from the start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mtu_discovery: bool,
    /// Maximum number of datagrams that leave a host in one bundle (GSO), 2 to 64. A bundle holds
    /// datagrams that a sender sends within 1 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso: Option<u32>,
    /// TCP settings, if a stack is `tcp`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSpec,
    /// Routers and links.
    pub network: NetworkSpec,
    /// Groups of traffic.
    pub traffic: Vec<TrafficSpec>,
    /// Packet-level background traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundSpec>,
    /// Data that are kept in addition to counts.
    #[serde(default)]
    pub keep: KeepSpec,
}

/// Routers and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkSpec {
    /// Topology: `path` (left: servers, right: clients), `dumbbell` or `one-bottleneck` (left,
    /// right), `parking-lot` (r0 to r5), `asu` (r1 to r14) or `emory` (r1 to r11).
    pub topology: String,
    /// The path, if the topology is `path`: rates, base RTT, loss, jitter, traces, events.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub path: PathSpec,
    /// Rate of the links, for dumbbell, one bottleneck and parking lot.
    pub link: Option<String>,
    /// Propagation delay of the bottleneck, for dumbbell.
    pub delay: Option<String>,
    /// Queue of every router link, for dumbbell, one bottleneck and parking lot.
    pub queue: Option<String>,
    /// Queue from right to left if it differs, for dumbbell.
    pub back_queue: Option<String>,
}

/// A group of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TrafficSpec {
    /// Name in results.
    pub name: String,
    /// Stack of both ends, if it differs from the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// Stack whose bytes per connection and per byte of body define a computed load; the group's
    /// own by default. With the same `load-stack`, several stacks get the same requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_stack: Option<Stack>,
    /// TCP settings, if the stack is `tcp` and they differ from the scenario's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSpec,
    /// Router of the servers; bodies travel from here, except uploads.
    pub from: String,
    /// Router of the clients.
    pub to: String,
    /// Requests of the clients:
    ///
    /// - `web:LOAD of RATE`, such as `web:90% of 10Mbps`; for a part of the run,
    ///   `web:95% of 10Mbps from 200s to 400s`.
    /// - `flows:N`: N downloads that outlast the run, or `flows:NxSIZE`. Their starts can be
    ///   spread, and the first can wait: `flows:100@2s`, `flows:1 after 20s`.
    /// - `bulk:COUNTxSIZE@INTERVAL`: downloads that start one after the other.
    /// - `uploads:COUNTxSIZE@INTERVAL`: the same, with bodies from clients to servers.
    /// - `pages:RATE/s`: page views per second; `pages:60% of 10Mbps`: the number of page views
    ///   that fills this fraction of a link. Pages can have given objects,
    ///   `pages:1/s with 20kB,4x50kB`, or objects of random sizes,
    ///   `pages:1/s with 3.5x1kB..4kB..9kB..40kB..200kB..2MB`.
    /// - `media:N at RATE FPSfps deadline TIME`: live streams; with an end, `for 60s`.
    ///
    /// Options come last: `pages:2/s resume=0rtt tickets=40%`.
    pub workload: String,
    /// A controller, or several with their percentages: `reno`, `20% sync + 80% reno`.
    pub controller: String,
    /// `fresh`: a connection per request. `persistent`: requests reuse idle connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connections: Connections,
    /// Whether servers of web traffic think before they respond (PackMime's server delay).
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_delay: bool,
    /// Access links of the group's hosts, if they differ from the topology's.
    #[serde(default)]
    pub access: AccessSpec,
    /// Whether the clients' packets, mostly acknowledgements, use the links of the way back. If
    /// `false`, these packets only take the delays of the links.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub acks_queue: bool,
    /// Size of a full packet on the wire in bytes.
    #[serde(default = "packet")]
    pub packet: u16,
    /// Largest window of a sender in packets, `none`, or `stack` for the stacks' defaults.
    #[serde(default = "none")]
    pub max_window: String,
    /// Largest drift of a client's clock in microseconds per second.
    #[serde(default)]
    pub drift: u32,
    /// How the clients misreport time so that servers send more: `empty-queue`, `slow-clock` or
    /// another of [`MISREPORTS`](crate::stack::MISREPORTS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misreport: Option<String>,
    /// Number of parallel streams that carry a body, 1 by default. quinn and noq close a connection
    /// whose receiver has more than 1024 gaps in a stream, which fast flows behind deep queues
    /// reach. quiche has no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Arrivals of web requests: `packmime`, in the bursts of the model, or `poisson`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Arrivals,
    /// For pages: whether clients send the urgency of objects and servers send urgent objects first
    /// (RFC 9218); `true` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<bool>,
    /// For pages: maximum number of requests that a client has open at once; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Time that a user waits for a response (or page view) from the start of the request, such as
    /// `10s`, or `none`. Afterwards, the client closes the connection, and the request counts as
    /// failed.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub patience: String,
    /// Idle timeout of connections, at both ends.
    #[serde(default = "idle", skip_serializing_if = "is_idle")]
    pub idle_timeout: String,
    /// Whether the responses count towards the end of the run.
    #[serde(default = "yes")]
    pub counted: bool,
}

/// Background traffic that loads links: packet-level senders instead of hundreds of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackgroundSpec {
    /// Name in results.
    pub name: String,
    /// Router of the senders.
    pub from: String,
    /// Router of the receivers.
    pub to: String,
    /// Traffic of the group: `users:2200 idle 1s..4s`, or `udp:5 at 20Mbps on 200ms off 800ms`.
    pub workload: String,
    /// Controllers of the web users, written as for other traffic.
    #[serde(default = "reno")]
    pub controller: String,
    /// Size of a full packet on the wire in bytes.
    #[serde(default = "full")]
    pub packet: u16,
    /// Largest window of a web user in packets, or `none`.
    #[serde(default = "none")]
    pub max_window: String,
    /// Round-trip delay that a flow adds to the delay of the links, or a range of it.
    #[serde(default = "zero")]
    pub rtt: String,
}

/// Access links. Fields that are left out are the topology's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AccessSpec {
    /// Number of hosts on each side.
    pub hosts: Option<u32>,
    /// Rate of each host's link, or `RATE/flows`: divided by the number of the group's flows.
    pub rate: Option<String>,
    /// Propagation delay, or a range such as `1ms..2.5ms` with a random value for each host.
    pub delay: Option<String>,
    /// Queue in front of each host's link.
    pub queue: Option<String>,
    /// Links that queue: `both`, `outbound` (links from hosts) or `none`. The others only add a
    /// fixed delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<AccessQueues>,
}

/// Data that are kept in addition to counts: names of links and of groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeepSpec {
    /// Links whose queue is kept over time.
    pub queue: Vec<String>,
    /// Groups in which the window of one sender is traced: the sender of the largest response of
    /// the first half, or of the first flow.
    pub window: Vec<String>,
    /// Groups whose first flow's tcpRTT series is kept.
    pub rtt: Vec<String>,
    /// Groups whose first flow's packet delivery latency is kept (quinn, noq).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<String>,
    /// Link whose bytes are kept by flow, in bins of 0.1 s, for fairness over time.
    pub shares: Option<String>,
    /// Links whose per-packet arrival and transit times are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<String>,
    /// Links whose bytes are kept by the purpose of their packets; not in netem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<String>,
    /// Links whose arrivals and drops are kept over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn zero() -> String {
    "0s".into()
}
/// Bytes of a segment in Sync-TCP §4.4.
fn packet() -> u16 {
    1_420
}
/// Payload of an Ethernet frame in bytes.
fn full() -> u16 {
    1_500
}
fn reno() -> String {
    "reno".into()
}
fn none() -> String {
    "none".into()
}
fn is_none(text: &str) -> bool {
    text == none()
}
fn idle() -> String {
    format!("{}s", IDLE.as_secs())
}
fn is_idle(text: &str) -> bool {
    text == idle()
}
fn yes() -> bool {
    true
}

impl ScenarioSpec {
    /// Parses a scenario written in TOML.
    ///
    /// # Errors
    /// Returns the error in the text and its line number, in one line.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        read_toml(text)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Returns an error for the first field that is wrong, and advice on how to fix it.
    pub fn check(&self) -> Result<Scenario, PlanError> {
        self.check_over(self.network.check()?)
    }

    /// Checks every field over this chain, which the network has been checked to be. A network that
    /// many scenarios share, perhaps with a large trace, is read once in this way.
    ///
    /// # Errors
    /// Returns an error that names the first wrong field and how to fix it.
    pub(crate) fn check_over(&self, chain: Chain) -> Result<Scenario, PlanError> {
        if self.traffic.is_empty() {
            return Err(PlanError("traffic: there is none; write at least one [[traffic]]".into()));
        }
        let mut traffic: Vec<Traffic> = Vec::new();
        for spec in &self.traffic {
            if traffic.iter().any(|t| t.name == spec.name) {
                return Err(PlanError(format!(
                    "traffic: '{}' is named twice; give each group its own name",
                    spec.name
                )));
            }
            traffic.push(spec.check(&chain, self)?);
        }
        let mut background: Vec<Background> = Vec::new();
        for spec in &self.background {
            if background.iter().any(|b| b.name == spec.name)
                || traffic.iter().any(|t| t.name == spec.name)
            {
                return Err(PlanError(format!(
                    "background: '{}' is named twice; give each group its own name",
                    spec.name
                )));
            }
            background.push(spec.check(&chain, self)?);
        }
        let stop = field("stop", parse_stop(&self.stop))?;
        if matches!(stop, Stop::Responses(_))
            && !traffic.iter().any(|t| t.counted && t.workload.ends())
        {
            return Err(PlanError(
                "stop: no counted traffic completes responses; end at a time, such as 100s, or count web traffic"
                    .into(),
            ));
        }
        let periods = |t: &&Traffic| t.workload.model().period() != Period::default();
        if let (Stop::Responses(_), Some(t)) = (stop, traffic.iter().find(periods)) {
            return Err(PlanError(format!(
                "stop: '{}' makes requests for a part of the run only; end it at a time, such as 1200s",
                t.name
            )));
        }
        let warm_up = field("warm-up", parse_duration(&self.warm_up))?;
        if matches!(stop, Stop::At(end) if end <= warm_up) {
            return Err(PlanError(format!(
                "warm-up: '{}' does not end before the run does; shorten it",
                self.warm_up
            )));
        }
        self.keep.check(&chain, &traffic)?;
        #[cfg(target_os = "linux")]
        if self.backend == Backend::Netem {
            chain.fits_netem().map_err(|e| PlanError(format!("network.path.{e}")))?;
            let mut queues = chain.links.iter().flat_map(|link| [&link.queue, &link.back_queue]);
            queues
                .try_for_each(fathom_netsim::backend::netem::has)
                .map_err(|e| PlanError(format!("network: {e}")))?;
        }
        Ok(Scenario {
            chain,
            traffic,
            background,
            stop,
            warm_up,
            backend: self.backend,
            timestamps: self.timestamps,
            shaping: self.shaping,
            mtu_discovery: self.mtu_discovery,
            gso: check_gso(self.gso, self.backend)?,
            keep: self.keep.clone(),
        })
    }
}

/// Checks the size of a sender's bundles.
///
/// # Errors
/// Returns an error if the size is out of range, or if the backend sends datagrams one by one.
pub(crate) fn check_gso(gso: Option<u32>, backend: Backend) -> Result<Option<u32>, PlanError> {
    match gso {
        Some(most) if !(2..=64).contains(&most) => {
            Err(PlanError(format!("gso: '{most}' is no bundle; write 2 to 64 datagrams")))
        }
        Some(_) if backend != Backend::Virtual => Err(PlanError(format!(
            "gso: on the backend {backend} datagrams leave one by one; leave gso out, or use the backend virtual"
        ))),
        gso => Ok(gso),
    }
}

impl NetworkSpec {
    fn check(&self) -> Result<Chain, PlanError> {
        let link = || field("network.link", parse_rate(self.link.as_deref().unwrap_or("10Mbps")));
        let queue =
            |text: &Option<String>, name: &str, default: &str| -> Result<QueueSpec, PlanError> {
                field(name, text.as_deref().unwrap_or(default).parse())
            };
        let unused = |fields: &[(&str, &Option<String>)]| match fields
            .iter()
            .find(|(_, value)| value.is_some())
        {
            Some((name, _)) => Err(PlanError(format!(
                "network.{name}: the topology '{}' sets it; leave it out",
                self.topology
            ))),
            None => Ok(()),
        };
        if self.topology != "path" && !self.path.is_empty() {
            return Err(PlanError(format!(
                "network.path: the topology '{}' has none; write topology = \"path\", or leave it out",
                self.topology.escape_debug()
            )));
        }
        match self.topology.as_str() {
            "path" => {
                unused(&[
                    ("link", &self.link),
                    ("delay", &self.delay),
                    ("queue", &self.queue),
                    ("back-queue", &self.back_queue),
                ])?;
                self.path
                    .check_simulated()
                    .map(Chain::of_path)
                    .map_err(|e| PlanError(format!("network.path.{e}")))
            }
            "dumbbell" => {
                let forward = queue(&self.queue, "network.queue", "droptail:100p")?;
                let back_queue = match &self.back_queue {
                    Some(_) => queue(&self.back_queue, "network.back-queue", "")?,
                    None => forward,
                };
                let delay = field(
                    "network.delay",
                    parse_duration(self.delay.as_deref().unwrap_or("20ms")),
                )?;
                Ok(Chain::dumbbell(ChainLink { rate: link()?, delay, queue: forward, back_queue }))
            }
            "parking-lot" | "one-bottleneck" => {
                unused(&[("delay", &self.delay), ("back-queue", &self.back_queue)])?;
                let (rate, queue) =
                    (link()?, queue(&self.queue, "network.queue", "droptail:136p")?);
                let one = self.topology == "one-bottleneck";
                Ok(if one {
                    Chain::one_bottleneck(rate, queue)
                } else {
                    Chain::parking_lot(rate, queue)
                })
            }
            "asu" | "emory" => {
                unused(&[
                    ("link", &self.link),
                    ("delay", &self.delay),
                    ("queue", &self.queue),
                    ("back-queue", &self.back_queue),
                ])?;
                Ok(if self.topology == "asu" { Chain::asu() } else { Chain::emory() })
            }
            other => Err(PlanError(format!(
                "network.topology: '{}' is not one; write dumbbell, one-bottleneck, parking-lot, asu or emory",
                other.escape_debug()
            ))),
        }
    }
}

/// Returns the signals that a stack delivers to a controller and the send parameters that it
/// honours. `tcp` has the settings of TCP, if that is the stack.
pub(crate) fn provided(
    stack: Stack,
    timestamps: Timestamps,
    shaping: Shaping,
    tcp: &TcpSettings,
) -> Capabilities {
    let provided = match shaping {
        Shaping::Auto => stack.provided_with_shaping(),
        Shaping::Off => stack.provided(),
    };
    let ecn = provided.ecn && (stack != Stack::Tcp || tcp.provided().ecn);
    Capabilities { one_way: timestamps != Timestamps::Off, ecn, ..provided }
}

/// Returns the numbers of the routers with these names.
fn ends(chain: &Chain, from: &str, to: &str) -> Result<(usize, usize), String> {
    let router = |name: &str, which: &str| {
        chain.router(name).ok_or_else(|| {
            let known = chain.routers.join(", ");
            format!(
                "{which}: '{}' is not a router of this network; write one of {known}",
                name.escape_debug()
            )
        })
    };
    let (from, to) = (router(from, "from")?, router(to, "to")?);
    if from == to {
        return Err("from and to are the same router; packets have to cross a link".into());
    }
    Ok((from, to))
}

impl BackgroundSpec {
    fn check(&self, chain: &Chain, scenario: &ScenarioSpec) -> Result<Background, PlanError> {
        let stack = scenario.stack;
        let at = |name: &str| format!("background '{}': {name}", self.name.escape_debug());
        if self.name.is_empty() || self.name.contains('/') {
            return Err(PlanError(at("a name is a word without '/'")));
        }
        let (from, to) = ends(chain, &self.from, &self.to).map_err(|e| PlanError(at(&e)))?;
        if !(200..=1_500).contains(&self.packet) {
            return Err(PlanError(at(&format!(
                "packet: {} is out of range; write 200 to 1500 bytes",
                self.packet
            ))));
        }
        let ours = |(part, controller)| match controller {
            Controller::Fathom(controller_config) => Ok((part, controller_config)),
            Controller::Native(name) => Err(format!(
                "native:{name} belongs to a stack; packet-level flows run our controllers"
            )),
        };
        let mix =
            parse_mix(&self.controller, stack).and_then(|mix| mix.into_iter().map(ours).collect());
        Ok(Background {
            name: self.name.clone(),
            from,
            to,
            load: field(&at("workload"), self.workload.parse())?,
            tcp: (stack == Stack::Tcp)
                .then(|| scenario.tcp.check(&TcpSpec::default()))
                .transpose()?,
            mix: field(&at("controller"), mix)?,
            datagram: self.packet - fathom_netsim::sim::WIRE_OVERHEAD as u16,
            max_window: field(&at("max-window"), self.packets())?,
            rtt: field(&at("rtt"), parse_range(&self.rtt))?,
        })
    }
}

impl BackgroundSpec {
    /// Returns the largest window in packets; `None` for no limit.
    fn packets(&self) -> Result<Option<u32>, String> {
        match self.max_window.parse()? {
            MaxWindow::Stack => {
                Err("packet-level flows have no stack; write packets such as 68p, or none".into())
            }
            window => Ok(window.packets()),
        }
    }
}

impl AccessSpec {
    fn check(&self, default: &Access, flows: Option<u32>) -> Result<Access, PlanError> {
        if self.hosts.is_some_and(|n| !(1..=10_000).contains(&n)) {
            return Err(PlanError("access.hosts: write 1 to 10000".into()));
        }
        let rate = match self.rate.as_deref() {
            None => default.rate,
            Some(text) => match (text.strip_suffix("/flows"), flows) {
                (Some(whole), Some(flows)) => {
                    let whole = field("access.rate", parse_rate(whole))?;
                    Rate::from_bits_per_sec(whole.bits_per_sec() / u64::from(flows))
                }
                (Some(_), None) => {
                    return Err(PlanError(
                        "access.rate: web traffic has no number of flows to divide by".into(),
                    ));
                }
                (None, _) => field("access.rate", parse_rate(text))?,
            },
        };
        let delay = match self.delay.as_deref() {
            None => default.delay,
            Some(text) => field("access.delay", parse_range(text))?,
        };
        let queue = match self.queue.as_deref() {
            None => default.queue,
            Some(text) => field("access.queue", text.parse())?,
        };
        Ok(Access {
            hosts: self.hosts.or(default.hosts),
            rate,
            delay,
            queue,
            queues: self.queues.unwrap_or(default.queues),
        })
    }
}

impl KeepSpec {
    fn check(&self, chain: &Chain, traffic: &[Traffic]) -> Result<(), PlanError> {
        let links: Vec<String> = chain.directed().map(|(_, _, name)| name).collect();
        let queues = self
            .queue
            .iter()
            .map(|n| ("queue", n))
            .chain(self.shares.iter().map(|n| ("shares", n)));
        let others = [("delays", &self.delays), ("bytes", &self.bytes), ("drops", &self.drops)];
        let others =
            others.into_iter().flat_map(|(field, names)| names.iter().map(move |n| (field, n)));
        for (field, name) in queues.chain(others) {
            if !links.contains(name) {
                let known = links.join(", ");
                return Err(PlanError(format!(
                    "keep.{field}: '{}' is no link; write one of {known}",
                    name.escape_debug()
                )));
            }
        }
        let groups = [("window", &self.window), ("rtt", &self.rtt), ("latency", &self.latency)];
        for (field, name) in
            groups.into_iter().flat_map(|(field, names)| names.iter().map(move |n| (field, n)))
        {
            if !traffic.iter().any(|t| t.name == *name) {
                let known = traffic.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(PlanError(format!(
                    "keep.{field}: '{}' is no traffic; write one of {known}",
                    name.escape_debug()
                )));
            }
        }
        let hidden =
            traffic.iter().find(|t| self.latency.contains(&t.name) && !t.stack.on_rustls());
        if let Some(Traffic { stack, .. }) = hidden {
            return Err(PlanError(format!(
                "keep.latency: {stack} does not show which bytes its packets carry; run it on quinn or noq"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
