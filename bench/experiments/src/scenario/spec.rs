//! A scenario as written in TOML. Every field is checked once, and unknown fields are errors.

mod traffic;
mod values;

use fathom_cc::units::parse_duration;
use fathom_cc::{Capabilities, Invalid, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::path::{PathSpec, parse_range, parse_rate};
use fathom_netsim::queue::QueueSpec;
use fathom_traffic::Arrivals;
use serde::{Deserialize, Serialize};

use super::background::Background;
use super::chain::{Access, AccessQueues, Chain, ChainLink};
use super::error::InField;
use super::tcp::TcpSpec;
use super::{Connections, MaxWindow, Period, Scenario, Shaping, Stop, Timestamps, Traffic};
use crate::stack::{Controller, IDLE, Stack};
use crate::tcp::TcpSettings;
pub(crate) use values::{parse_load, parse_responses, renamed_field};
use values::{parse_mix, parse_stop, read_toml};

/// A scenario as written in TOML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ScenarioSpec {
    /// End of the run: a number of responses such as `250000 responses`, or a time such as `100s`.
    pub stop: String,
    /// End of the warm-up. Events before this time are not counted. Only runs that end at a time
    /// have a warm-up.
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
    /// Use of a shaping socket. `auto`: controllers that set packet sizes or delay packets send
    /// through a shaping socket, on stacks that need one (quinn, noq). `off`: packets leave as the
    /// stacks themselves send them.
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
    /// Data to keep in addition to counts.
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
    /// Router of the servers. Response bodies start here; upload bodies end here.
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
    /// - `uploads:COUNTxSIZE@INTERVAL`: uploads that start one after the other.
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
    /// `fresh`: each request has its own connection. `persistent`: requests reuse idle connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connections: Connections,
    /// Whether servers of web traffic think before they respond (PackMime's server delay).
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_delay: bool,
    /// Access links of the group's hosts, if they differ from the topology's.
    #[serde(default)]
    pub access: AccessSpec,
    /// Whether the clients' packets, which are mostly acknowledgements, queue at the links of the
    /// way back. If `false`, these packets only take the delays of these links.
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
    /// Way in which the clients misreport time so that servers send more: `empty-queue`,
    /// `slow-clock` or another of [`MISREPORTS`](crate::stack::MISREPORTS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misreport: Option<String>,
    /// Number of parallel streams that carry a body, 1 by default. quinn and noq close a connection
    /// whose receiver has more than 1024 gaps in a stream, and fast flows behind deep queues reach
    /// this number. quiche has no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Arrivals of web requests: `packmime`, in the bursts of the model, or `poisson`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Arrivals,
    /// Whether clients of pages send the urgency of objects and servers send urgent objects first
    /// (RFC 9218); `true` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<bool>,
    /// Maximum number of requests that a client of pages has open at once; 100 by default.
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

/// A group without a name, routers, workload and controller. All other fields have the values that
/// apply if the fields are left out.
impl Default for TrafficSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            stack: None,
            load_stack: None,
            tcp: TcpSpec::default(),
            from: String::new(),
            to: String::new(),
            workload: String::new(),
            controller: String::new(),
            connections: Connections::default(),
            server_delay: false,
            access: AccessSpec::default(),
            acks_queue: yes(),
            packet: packet(),
            max_window: none(),
            drift: 0,
            misreport: None,
            streams: None,
            arrivals: Arrivals::default(),
            priorities: None,
            in_flight: None,
            patience: none(),
            idle_timeout: idle(),
            counted: yes(),
        }
    }
}

/// Background traffic that loads links. It consists of packet-level senders, which cost less than
/// hundreds of connections.
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
    /// Round-trip delay that a flow adds to the delay of the links, or a range of such delays.
    #[serde(default = "zero")]
    pub rtt: String,
}

/// Access links. The topology determines the fields that are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AccessSpec {
    /// Number of hosts on each side.
    pub hosts: Option<u32>,
    /// Rate of each host's link. `RATE/flows` is divided by the number of the group's flows.
    pub rate: Option<String>,
    /// Propagation delay, or a range such as `1ms..2.5ms` with a random value for each host.
    pub delay: Option<String>,
    /// Queue in front of each host's link.
    pub queue: Option<String>,
    /// Access links that have a queue: `both`, `outbound` (links from hosts) or `none`. All other
    /// access links only add a fixed delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<AccessQueues>,
}

/// Data to keep in addition to counts, as names of links and of groups.
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
    /// Link on which the bytes of each flow are kept, in bins of 0.1 s, for fairness over time.
    pub shares: Option<String>,
    /// Links whose per-packet arrival and transit times are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<String>,
    /// Links whose bytes are kept by the purpose of their packets. The netem backend does not
    /// support this.
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
    /// Returns one line with the first error in the text and its line number.
    pub fn from_toml(text: &str) -> Result<Self, Invalid> {
        read_toml(text)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Returns an error for the first field that is wrong, and advice on how to fix it.
    pub fn check(&self) -> Result<Scenario, Invalid> {
        self.check_over(self.network.check()?)
    }

    /// Checks every field of the scenario over this chain, which comes from the scenario's checked
    /// network. Many scenarios can thus share a network, perhaps with a large trace, that is read
    /// only once.
    ///
    /// # Errors
    /// Returns an error that names the first wrong field and how to fix it.
    pub(crate) fn check_over(&self, chain: Chain) -> Result<Scenario, Invalid> {
        let (traffic, background) = self.check_groups(&chain)?;
        let stop = self.check_stop(&traffic)?;
        let warm_up = parse_duration(&self.warm_up).in_field("warm-up")?;
        if matches!(stop, Stop::At(end) if end <= warm_up) {
            return Err(Invalid::value(&self.warm_up, "does not end before the end of the run")
                .hint("shorten it")
                .in_field("warm-up"));
        }
        self.keep.check(&chain, &traffic)?;
        #[cfg(target_os = "linux")]
        if self.backend == Backend::Netem {
            check_netem(&chain)?;
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

    /// Checks the groups of traffic and of background traffic.
    fn check_groups(&self, chain: &Chain) -> Result<(Vec<Traffic>, Vec<Background>), Invalid> {
        if self.traffic.is_empty() {
            return Err(Invalid::because("there is none")
                .hint("write at least one [[traffic]]")
                .in_field("traffic"));
        }
        let twice = |name: &str| {
            Invalid::value(name, "is named twice").hint("give each group its own name")
        };
        let group = |kind: &str, name: &str| format!("{kind} '{}'", name.escape_debug());
        let mut traffic: Vec<Traffic> = Vec::new();
        for spec in &self.traffic {
            if traffic.iter().any(|t| t.name == spec.name) {
                return Err(twice(&spec.name).in_field("traffic"));
            }
            traffic.push(spec.check(chain, self).in_field(group("traffic", &spec.name))?);
        }
        let mut background: Vec<Background> = Vec::new();
        for spec in &self.background {
            if background.iter().any(|b| b.name == spec.name)
                || traffic.iter().any(|t| t.name == spec.name)
            {
                return Err(twice(&spec.name).in_field("background"));
            }
            background.push(spec.check(chain, self).in_field(group("background", &spec.name))?);
        }
        Ok((traffic, background))
    }

    /// Checks that the run ends.
    fn check_stop(&self, traffic: &[Traffic]) -> Result<Stop, Invalid> {
        let stop = parse_stop(&self.stop).in_field("stop")?;
        if matches!(stop, Stop::At(_)) {
            return Ok(stop);
        }
        if !traffic.iter().any(|t| t.counted && t.workload.ends()) {
            return Err(Invalid::because(
                "no counted traffic completes responses, so a number of \
                responses cannot end the run",
            )
            .hint("write a time at which the run ends, such as 100s, or count web traffic")
            .in_field("stop"));
        }
        match traffic.iter().find(|t| t.workload.model().period() != Period::default()) {
            None => Ok(stop),
            Some(t) => Err(Invalid::value(&t.name, "makes requests during a part of the run only")
                .hint("write a time at which the run ends, such as 1200s")
                .in_field("stop")),
        }
    }
}

/// Checks that the kernel can emulate the links and queues of a chain.
#[cfg(target_os = "linux")]
fn check_netem(chain: &Chain) -> Result<(), Invalid> {
    chain.fits_netem().map_err(|e| e.in_table("network.path"))?;
    let mut queues = chain.links.iter().flat_map(|link| [&link.queue, &link.back_queue]);
    queues
        .try_for_each(fathom_netsim::backend::netem::has)
        .map_err(|e| Invalid::because(e.to_string()).in_field("network"))
}

/// Checks the size of a sender's bundles.
///
/// # Errors
/// Returns an error if the size is out of range, or if the backend sends datagrams one by one.
pub(crate) fn check_gso(gso: Option<u32>, backend: Backend) -> Result<Option<u32>, Invalid> {
    let refused = match gso {
        Some(most) if !(2..=64).contains(&most) => {
            Invalid::value(&most.to_string(), "is not a valid number of datagrams in a bundle")
                .hint("write 2 to 64 datagrams")
        }
        Some(_) if backend != Backend::Virtual => {
            Invalid::because(format!("the backend {backend} sends datagrams one by one"))
                .hint("leave out gso, or use the backend virtual")
        }
        gso => return Ok(gso),
    };
    Err(refused.in_field("gso"))
}

impl NetworkSpec {
    fn check(&self) -> Result<Chain, Invalid> {
        if self.topology != "path" && !self.path.is_empty() {
            let topology = self.topology.escape_debug();
            return Err(Invalid::because(format!(
                "the topology '{topology}' takes no path options"
            ))
            .hint("write topology = \"path\", or leave it out")
            .in_field("network.path"));
        }
        if self.topology == "path" {
            self.refuse_unused(&["link", "delay", "queue", "back-queue"])
                .map_err(|error| error.in_table("network"))?;
            let path = self.path.check_simulated();
            return path.map(Chain::of_path).map_err(|e| e.in_table("network.path"));
        }
        self.chain().map_err(|error| error.in_table("network"))
    }

    /// Refuses these fields if they are set, because the topology determines their values.
    fn refuse_unused(&self, fields: &[&'static str]) -> Result<(), Invalid> {
        let values = [
            ("link", &self.link),
            ("delay", &self.delay),
            ("queue", &self.queue),
            ("back-queue", &self.back_queue),
        ];
        match values.iter().find(|(name, value)| value.is_some() && fields.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Invalid::because(format!(
                "the topology '{}' sets this field itself",
                self.topology
            ))
            .hint("leave it out")
            .in_field(*name)),
        }
    }

    /// Returns the chain of a topology that is not a path.
    fn chain(&self) -> Result<Chain, Invalid> {
        let link = || parse_rate(self.link.as_deref().unwrap_or("10Mbps")).in_field("link");
        let queue = |default: &str| -> Result<QueueSpec, Invalid> {
            self.queue.as_deref().unwrap_or(default).parse().in_field("queue")
        };
        match self.topology.as_str() {
            "dumbbell" => {
                let forward = queue("droptail:100p")?;
                let back = self.back_queue.as_deref().map(str::parse).transpose();
                let back_queue = back.in_field("back-queue")?.unwrap_or(forward);
                let delay = parse_duration(self.delay.as_deref().unwrap_or("20ms"));
                let delay = delay.in_field("delay")?;
                Ok(Chain::dumbbell(ChainLink { rate: link()?, delay, queue: forward, back_queue }))
            }
            "parking-lot" | "one-bottleneck" => {
                self.refuse_unused(&["delay", "back-queue"])?;
                let (rate, queue) = (link()?, queue("droptail:136p")?);
                Ok(if self.topology == "one-bottleneck" {
                    Chain::one_bottleneck(rate, queue)
                } else {
                    Chain::parking_lot(rate, queue)
                })
            }
            "asu" | "emory" => {
                self.refuse_unused(&["link", "delay", "queue", "back-queue"])?;
                Ok(if self.topology == "asu" { Chain::asu() } else { Chain::emory() })
            }
            other => Err(Invalid::value(other, "is not one")
                .hint("write dumbbell, one-bottleneck, parking-lot, asu or emory")
                .in_field("topology")),
        }
    }
}

/// Returns the signals that a stack delivers to a controller and the send parameters that it
/// honours. `tcp` has the settings of TCP, for the case that the stack is TCP.
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
fn ends(chain: &Chain, from: &str, to: &str) -> Result<(usize, usize), Invalid> {
    let router = |name: &str, field: &'static str| {
        chain.router(name).ok_or_else(|| {
            Invalid::value(name, "is not a router of this network")
                .hint(format!("write one of {}", chain.routers.join(", ")))
                .in_field(field)
        })
    };
    let (from, to) = (router(from, "from")?, router(to, "to")?);
    if from == to {
        return Err(Invalid::because("from and to name the same router")
            .hint("name two routers, because packets have to cross a link"));
    }
    Ok((from, to))
}

/// Checks the name of a group.
fn check_name(name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.contains('/') {
        return Err(Invalid::because("a group needs a name without '/'"));
    }
    Ok(())
}

/// Checks the size of a full packet on the wire.
fn check_packet(bytes: u16, smallest: u16) -> Result<(), Invalid> {
    if (smallest..=1_500).contains(&bytes) {
        return Ok(());
    }
    Err(Invalid::because(format!("{bytes} is out of range"))
        .hint(format!("write {smallest} to 1500 bytes"))
        .in_field("packet"))
}

impl BackgroundSpec {
    fn check(&self, chain: &Chain, scenario: &ScenarioSpec) -> Result<Background, Invalid> {
        let stack = scenario.stack;
        check_name(&self.name)?;
        let (from, to) = ends(chain, &self.from, &self.to)?;
        check_packet(self.packet, 200)?;
        let ours = |(part, controller)| match controller {
            Controller::Fathom(controller_config) => Ok((part, controller_config)),
            Controller::Native(name) => {
                Err(Invalid::because(format!("native:{name} runs only inside a stack"))
                    .hint("packet-level flows run only fathom's controllers"))
            }
        };
        let mix =
            parse_mix(&self.controller, stack).and_then(|mix| mix.into_iter().map(ours).collect());
        Ok(Background {
            name: self.name.clone(),
            from,
            to,
            load: self.workload.parse().in_field("workload")?,
            tcp: (stack == Stack::Tcp)
                .then(|| scenario.tcp.check(&TcpSpec::default()))
                .transpose()?,
            mix: mix.in_field("controller")?,
            datagram: self.packet - fathom_netsim::sim::WIRE_OVERHEAD as u16,
            max_window: self.packets().in_field("max-window")?,
            rtt: parse_range(&self.rtt).in_field("rtt")?,
        })
    }

    /// Returns the largest window in packets; `None` for no limit.
    fn packets(&self) -> Result<Option<u32>, Invalid> {
        match self.max_window.parse()? {
            MaxWindow::Stack => Err(Invalid::because(
                "packet-level flows have no stack whose default window could apply",
            )
            .hint("write a number of packets such as 68p, or none")),
            window => Ok(window.packets()),
        }
    }
}

impl AccessSpec {
    /// Returns the access links of a group. `flows` is the group's number of flows, if this number
    /// is fixed.
    fn check(&self, default: &Access, flows: Option<u32>) -> Result<Access, Invalid> {
        let range = self.delay.as_deref().map(parse_range).transpose();
        let queue = self.queue.as_deref().map(str::parse).transpose();
        let links = || {
            if self.hosts.is_some_and(|n| !(1..=10_000).contains(&n)) {
                return Err(Invalid::because("write 1 to 10000").in_field("hosts"));
            }
            Ok(Access {
                hosts: self.hosts.or(default.hosts),
                rate: self.rate(flows).in_field("rate")?.unwrap_or(default.rate),
                delay: range.in_field("delay")?.unwrap_or(default.delay),
                queue: queue.in_field("queue")?.unwrap_or(default.queue),
                queues: self.queues.unwrap_or(default.queues),
            })
        };
        links().map_err(|error| error.in_table("access"))
    }

    /// Parses the rate of a host's link.
    fn rate(&self, flows: Option<u32>) -> Result<Option<Rate>, Invalid> {
        let Some(text) = self.rate.as_deref() else { return Ok(None) };
        let Some(whole) = text.strip_suffix("/flows") else { return Ok(Some(parse_rate(text)?)) };
        let Some(flows) = flows else {
            return Err(Invalid::because(
                "web traffic has no fixed number of flows, so /flows cannot divide the rate",
            ));
        };
        Ok(Some(Rate::from_bits_per_sec(parse_rate(whole)?.bits_per_sec() / u64::from(flows))))
    }
}

impl KeepSpec {
    fn check(&self, chain: &Chain, traffic: &[Traffic]) -> Result<(), Invalid> {
        self.check_names(chain, traffic).map_err(|error| error.in_table("keep"))
    }

    /// Checks the names of links and groups.
    fn check_names(&self, chain: &Chain, traffic: &[Traffic]) -> Result<(), Invalid> {
        let links: Vec<String> = chain.directed().map(|(_, _, name)| name).collect();
        check_known("queue", &self.queue, &links, "is not a link")?;
        check_known("shares", &self.shares, &links, "is not a link")?;
        check_known("delays", &self.delays, &links, "is not a link")?;
        check_known("bytes", &self.bytes, &links, "is not a link")?;
        check_known("drops", &self.drops, &links, "is not a link")?;
        let groups: Vec<String> = traffic.iter().map(|t| t.name.clone()).collect();
        check_known("window", &self.window, &groups, "is not a traffic group")?;
        check_known("rtt", &self.rtt, &groups, "is not a traffic group")?;
        check_known("latency", &self.latency, &groups, "is not a traffic group")?;
        match traffic.iter().find(|t| self.latency.contains(&t.name) && !t.stack.on_rustls()) {
            None => Ok(()),
            Some(Traffic { stack, .. }) => Err(Invalid::because(format!(
                "{stack} does not show which bytes its packets carry"
            ))
            .hint("run the traffic on quinn or noq")
            .in_field("latency")),
        }
    }
}

/// Checks that the names in a field are known.
fn check_known<'a>(
    field: &'static str,
    names: impl IntoIterator<Item = &'a String>,
    known: &[String],
    problem: &'static str,
) -> Result<(), Invalid> {
    match names.into_iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Invalid::value(name, problem)
            .hint(format!("write one of {}", known.join(", ")))
            .in_field(field)),
    }
}

#[cfg(test)]
mod tests;
