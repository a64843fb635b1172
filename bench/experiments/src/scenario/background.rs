//! Background traffic: hundreds of packet-level flows that load the links of a chain in addition to
//! the measured connections.
//!
//! The flows are not QUIC connections, but packet-level senders with the same controllers
//! ([`fathom_packet_level`]). As QUIC connections, the papers' thousands of web users would take
//! more CPU time than the measured connections.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::units::parse_duration;
use fathom_cc::{ControllerConfig, Invalid, Rate, Time};
use fathom_metrics::round;
use fathom_netsim::sim::{Group, Path, SimHandle};
use serde::{Deserialize, Serialize};

use fathom_packet_level::{
    AckOptions, OnOff, PacketLevel, PacketLevelError, PacketLevelFlow, PacketLevelReport, Spell,
    TcpReport, UdpReport, WebUser, Workload,
};

use super::TcpSettings;

/// A checked group of packet-level flows.
#[derive(Clone, Debug)]
pub struct Background {
    /// Name in results.
    pub name: String,
    /// Router of the senders.
    pub from: usize,
    /// Router of the receivers.
    pub to: usize,
    /// Traffic of the group.
    pub load: Load,
    /// Settings of TCP if the web users are TCP senders, as in scenarios whose stack is TCP.
    pub tcp: Option<TcpSettings>,
    /// Controllers of the web users, each with the fraction of the users that have it.
    pub mix: Vec<(f64, Arc<dyn ControllerConfig>)>,
    /// UDP payload of a full packet in bytes.
    pub datagram: u16,
    /// Maximum number of packets in flight of a web user.
    pub max_window: Option<u32>,
    /// Smallest and largest round-trip delay that a flow adds to the delay of the links.
    pub rtt: (Duration, Duration),
}

/// Traffic of a group of packet-level flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Web users: transfers of Pareto-distributed size with idle times between them (DCA §4.5).
    Users {
        /// Number of users.
        count: u32,
        /// Shortest and longest idle time.
        idle: (Duration, Duration),
    },
    /// UDP sources with exponential on and off times.
    Udp {
        /// Number of sources.
        count: u32,
        /// Rate of each source while it is on.
        rate: Rate,
        /// Mean length of an on period.
        on: Duration,
        /// Mean length of an off period.
        off: Duration,
    },
}

impl FromStr for Load {
    type Err = Invalid;

    /// Parses `users:2200 idle 1s..4s` or `udp:5 at 20Mbps on 200ms off 800ms`.
    fn from_str(s: &str) -> Result<Self, Invalid> {
        let help = || {
            Invalid::value(s, "is not a background load")
                .hint("write users:2200 idle 1s..4s, or udp:5 at 20Mbps on 200ms off 800ms")
        };
        let count = |text: &str| {
            text.trim().parse().ok().filter(|n| (1..=20_000).contains(n)).ok_or_else(help)
        };
        if let Some(rest) = s.strip_prefix("users:") {
            let (users, idle) = rest.split_once(" idle ").ok_or_else(help)?;
            let (low, high) = idle.split_once("..").ok_or_else(help)?;
            let idle = (parse_duration(low)?, parse_duration(high)?);
            let count = count(users)?;
            return if idle.0 <= idle.1 { Ok(Self::Users { count, idle }) } else { Err(help()) };
        }
        let rest = s.strip_prefix("udp:").ok_or_else(help)?;
        let (sources, rest) = rest.split_once(" at ").ok_or_else(help)?;
        let (rate, rest) = rest.split_once(" on ").ok_or_else(help)?;
        let (on, off) = rest.split_once(" off ").ok_or_else(help)?;
        let spell = |text: &str| match parse_duration(text)? {
            Duration::ZERO => Err(help()),
            spell => Ok(spell),
        };
        let (count, rate) = (count(sources)?, rate.parse()?);
        Ok(Self::Udp { count, rate, on: spell(on)?, off: spell(off)? })
    }
}

/// Counts of a group of packet-level flows after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundOutcome {
    /// Number of flows.
    pub flows: u64,
    /// Data packets sent.
    pub sent: u64,
    /// Data packets lost: for web users, packets declared lost; for UDP, packets that did not
    /// arrive.
    pub lost: u64,
    /// Probe timeouts; for TCP, retransmission timeouts.
    pub probe_timeouts: u64,
    /// Transfers completed.
    pub transfers: u64,
    /// Throughput in bits per second. For UDP, it counts bytes sent, including headers; for web
    /// users, stream bytes acknowledged.
    pub throughput_bps: f64,
    /// Early (delay-based) window reductions.
    pub early_reductions: u64,
}

impl BackgroundOutcome {
    /// Adds the counts of a flow between two reports, `seconds` apart.
    fn add_tcp(&mut self, now: &TcpReport, before: &TcpReport, seconds: f64) {
        let since = |of: fn(&TcpReport) -> u64| of(now) - of(before);
        self.flows += 1;
        self.sent += since(|r| r.sent);
        self.lost += since(|r| r.lost);
        self.probe_timeouts += since(|r| r.probe_timeouts);
        self.transfers += since(|r| r.done);
        self.early_reductions += since(|r| r.early_reductions);
        self.throughput_bps += since(|r| r.delivered) as f64 * 8.0 / seconds;
    }

    fn add_udp(&mut self, now: &UdpReport, before: &UdpReport, seconds: f64) {
        let (sent, arrived) = (now.sent - before.sent, now.arrived - before.arrived);
        self.flows += 1;
        self.sent += sent;
        self.lost += sent.saturating_sub(arrived);
        self.throughput_bps += (now.wire_bytes - before.wire_bytes) as f64 * 8.0 / seconds;
    }
}

/// The packet-level flows of a run.
pub(super) struct PacketLevelGroups {
    packet_level: PacketLevel,
    /// Groups of the flows: for each reliable flow, in the order of addition, its group and its
    /// entry for group and controller; then, for each UDP flow, its group.
    tcp: Vec<(String, String)>,
    udp: Vec<String>,
}

impl PacketLevelGroups {
    pub(super) fn new(sim: &SimHandle, seed: u64) -> Self {
        Self { packet_level: PacketLevel::new(sim, seed), tcp: Vec::new(), udp: Vec::new() }
    }

    /// Adds a group whose flows take these paths.
    pub(super) fn add(
        &mut self,
        sim: &SimHandle,
        group: &Background,
        down: Path,
        up: Path,
    ) -> Result<(), PacketLevelError> {
        // Packet-level flows use no sockets, but a group must have two.
        let (client, server) = (sim.client_socket().id(), sim.server_socket().id());
        let path = sim.add_group(Group { client, server, down, up });
        match group.load {
            Load::Users { count, idle } => {
                for number in 0..count {
                    let controller_config = group.controller(number);
                    let max_window = group.max_window;
                    let tcp = group.tcp.map(|tcp| {
                        tcp.sender(
                            group.datagram,
                            max_window,
                            TcpSettings::stamps(&*controller_config),
                            controller_config.required().l4s,
                        )
                    });
                    self.tcp.push((
                        group.name.clone(),
                        format!("{}/{}", group.name, controller_config.spec()),
                    ));
                    self.packet_level.tcp(PacketLevelFlow {
                        packet: group.datagram,
                        max_window,
                        tcp,
                        acks: group.tcp.map_or_else(AckOptions::default, |tcp| tcp.acks),
                        ecn: tcp.is_some_and(|tcp| tcp.ecn),
                        rtt: group.own_rtt(number),
                        handshake: true,
                        ..PacketLevelFlow::new(
                            controller_config,
                            path,
                            Workload::WebUser(WebUser { idle, ..WebUser::default() }),
                        )
                    })?;
                }
            }
            Load::Udp { count, rate, on, off } => {
                let spell = |mean| Spell::Exponential { mean };
                let source = OnOff {
                    rate,
                    packet: group.datagram,
                    on: spell(on),
                    off: spell(off),
                    start: Time::ZERO,
                };
                for _ in 0..count {
                    self.udp.push(group.name.clone());
                    self.packet_level.udp(source, path)?;
                }
            }
        }
        Ok(())
    }

    /// Returns a function that reports the counts of the flows so far. The function can be called
    /// during the run.
    pub(super) fn reporter(&self) -> impl Fn() -> PacketLevelReport + Send + use<> {
        self.packet_level.reporter()
    }

    /// Returns the counts of every group since the report `before`, which was made `seconds` ago. A
    /// group with several controllers also has an entry for each controller.
    pub(super) fn outcomes(
        &self,
        before: &PacketLevelReport,
        seconds: f64,
    ) -> BTreeMap<String, BackgroundOutcome> {
        let report = self.packet_level.report();
        // Without a warm-up, there is no earlier report.
        let (no_tcp, no_udp) = (TcpReport::default(), UdpReport::default());
        let mut outcomes: BTreeMap<String, BackgroundOutcome> = BTreeMap::new();
        let several = of_several_controllers(&self.tcp);
        for (i, ((group, controller), flow)) in self.tcp.iter().zip(&report.tcp).enumerate() {
            let before = before.tcp.get(i).unwrap_or(&no_tcp);
            outcomes.entry(group.clone()).or_default().add_tcp(flow, before, seconds);
            if several.contains(group.as_str()) {
                outcomes.entry(controller.clone()).or_default().add_tcp(flow, before, seconds);
            }
        }
        for (i, (group, flow)) in self.udp.iter().zip(&report.udp).enumerate() {
            let before = before.udp.get(i).unwrap_or(&no_udp);
            outcomes.entry(group.clone()).or_default().add_udp(flow, before, seconds);
        }
        for outcome in outcomes.values_mut() {
            outcome.throughput_bps = round(outcome.throughput_bps, 0);
        }
        outcomes
    }
}

/// Returns the groups whose flows have more than one controller. The argument holds the group and
/// the controller of each flow. The function makes a single pass over all flows, because a run may
/// have thousands of flows and a pass for each of them took longer than the run.
fn of_several_controllers(flows: &[(String, String)]) -> BTreeSet<&str> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut of_several = BTreeSet::new();
    for (group, controller) in flows {
        if *first.entry(group).or_insert(controller) != controller {
            of_several.insert(group.as_str());
        }
    }
    of_several
}

/// Fractional part of the golden ratio. Its multiples, modulo 1, fill the unit interval evenly from
/// the first on.
const GOLDEN: f64 = 0.618_033_988_749_895;

impl Background {
    /// Returns the controller of a flow. Any sequence of consecutive flows nearly has the fractions
    /// of the mix.
    fn controller(&self, number: u32) -> Arc<dyn ControllerConfig> {
        let place = (f64::from(number) + 0.5) * GOLDEN % 1.0;
        let mut up_to = 0.0;
        let chosen = self.mix.iter().find(|(part, _)| {
            up_to += part;
            place < up_to
        });
        let (_, controller_config) =
            chosen.or_else(|| self.mix.last()).expect("a checked group has a controller");
        Arc::clone(controller_config)
    }

    /// Returns the delay that a flow adds. Delays are evenly spread over the range and do not
    /// depend on the flows' controllers.
    fn own_rtt(&self, number: u32) -> Duration {
        let place = (f64::from(number) + 0.5) * (2f64.sqrt() - 1.0) % 1.0;
        self.rtt.0 + (self.rtt.1 - self.rtt.0).mul_f64(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_load_options_are_parsed() {
        let ms = Duration::from_millis;
        assert_eq!(
            "users:2200 idle 1s..4s".parse(),
            Ok(Load::Users { count: 2_200, idle: (ms(1_000), ms(4_000)) })
        );
        let udp = Load::Udp {
            count: 5,
            rate: Rate::from_bits_per_sec(20_000_000),
            on: ms(200),
            off: ms(800),
        };
        assert_eq!("udp:5 at 20Mbps on 200ms off 800ms".parse(), Ok(udp));
        for wrong in [
            "users",
            "users:0 idle 1s..4s",
            "users:5 idle 4s..1s",
            "udp:5 at fast on 1s off 1s",
            "udp:5 at 1Mbps on 0s off 1s",
        ] {
            assert!(wrong.parse::<Load>().is_err(), "{wrong}");
        }
    }

    /// If each flow searched all groups, this test would take too long.
    #[test]
    fn groups_with_several_controllers_are_found_in_linear_time() {
        let flow = |group: &str, controller: &str| (group.to_owned(), controller.to_owned());
        let mut flows: Vec<(String, String)> =
            (0..100_000).map(|_| flow("one", "one/reno")).collect();
        flows.extend(
            (0..100_000).map(|i| flow("two", if i % 2 == 0 { "two/reno" } else { "two/dca" })),
        );
        assert_eq!(of_several_controllers(&flows), BTreeSet::from(["two"]));
    }

    #[test]
    fn background_flows_get_controllers_in_the_configured_mix() {
        let controller_config = |name: &str| fathom_cc::catalogue::parse(name).unwrap();
        let group = Background {
            name: "web".into(),
            from: 0,
            to: 1,
            load: Load::Users { count: 2_200, idle: (Duration::ZERO, Duration::ZERO) },
            tcp: None,
            mix: vec![(0.05, controller_config("dca")), (0.95, controller_config("reno"))],
            datagram: 1_472,
            max_window: None,
            rtt: (Duration::ZERO, Duration::from_millis(100)),
        };
        let dca = (0..2_200).filter(|n| group.controller(*n).name() == "dca").count();
        assert!((109..=111).contains(&dca), "{dca} of 2200 for 5 %");
        let mean = (0..2_200).map(|n| group.own_rtt(n).as_secs_f64()).sum::<f64>() / 2_200.0;
        assert!((mean - 0.05).abs() < 0.001, "{mean}");
    }
}
