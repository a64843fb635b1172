//! Estimates the cost of a run before it begins, accurate to about a factor of two.

use std::time::Duration;

use fathom_netsim::sim::WIRE_OVERHEAD;

use crate::scenario::{Background, Load, Scenario, Stop, Traffic};
use fathom_packet_level::WebUser;

/// CPU seconds for each data packet of a long QUIC transfer: both ends, acknowledgements, network
/// and measurement, on one core. Measured on machines of 2025: about 5 us.
const CPU_PER_PACKET: f64 = 5e-6;
/// CPU seconds for each QUIC web connection with all its packets and both ends of the TLS
/// handshake. Measured on the same machines: 0.45 ms.
const CPU_PER_CONNECTION: f64 = 0.45e-3;
/// CPU seconds for each data packet (`CPU_PER_TCP_PACKET`) and each web connection
/// (`CPU_PER_TCP_CONNECTION`) of TCP, which is simulated at packet level. Measured on the same
/// machines: 2.7 us for a packet, at 400,000 packets per second with an acknowledgement each, and
/// 35 us for a web connection over five links.
const CPU_PER_TCP_PACKET: f64 = 2.7e-6;
const CPU_PER_TCP_CONNECTION: f64 = 35e-6;
/// CPU seconds for each packet or acknowledgement of packet-level traffic, for each link that it
/// crosses. Measured on the same machines.
const CPU_PER_PACKET_LEVEL_HOP: f64 = 0.4e-6;
/// Memory in bytes of a packet-level flow, including its packets in flight.
const MEMORY_PER_PACKET_LEVEL_FLOW: f64 = 2e3;
/// Duration in seconds of a web user's transfer without queueing: a handshake and the round trips
/// of slow start.
const TRANSFER: f64 = 0.5;

/// Memory in bytes of a run without connections (`MEMORY_OF_RUN`), and additional memory of each
/// flow or of each new web connection per second (`MEMORY_PER_FLOW`). Web connections count by
/// their rate because they linger while they close. The values come from the largest resident set
/// of `fathom compare`: 122 MB for 400 flows of 100 kB at once, 232 MB for 400 flows of 400 kB, 75
/// MB for 100 flows of 400 kB, and 106 MB for 188 web connections per second.
const MEMORY_OF_RUN: f64 = 20e6;
const MEMORY_PER_FLOW: f64 = 0.5e6;

/// Estimated cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Duration in seconds of virtual time.
    pub seconds: f64,
    /// Packets of all groups and of background traffic, without acknowledgements.
    pub packets: f64,
    /// Connections of all groups.
    pub connections: f64,
    /// CPU time on one core in seconds.
    pub cpu_seconds: f64,
    /// Memory in bytes during the run.
    pub memory: f64,
}

/// Estimates the cost of a run. Long flows fill the tightest link on their way, unless their access
/// link or window limits them; other traffic sends its offered load.
pub fn estimate(scenario: &Scenario) -> Estimate {
    let rates = group_rates(scenario);
    let seconds = match scenario.stop {
        Stop::At(end) => end.as_secs_f64(),
        Stop::Responses(n) => {
            let per_second: f64 = scenario
                .traffic
                .iter()
                .zip(&rates)
                .filter(|(t, _)| t.counted)
                .map(|(t, rate)| t.workload.model().responses_per_second(*rate))
                .sum();
            if per_second > 0.0 { n as f64 / per_second } else { 0.0 }
        }
    };
    let mut sum = Estimate { seconds, memory: MEMORY_OF_RUN, ..Estimate::default() };
    for (traffic, rate) in scenario.traffic.iter().zip(rates) {
        let full = f64::from(traffic.datagram) + f64::from(WIRE_OVERHEAD);
        let (per_packet, per_connection) = if traffic.stack.is_everywhere() {
            (CPU_PER_PACKET, CPU_PER_CONNECTION)
        } else {
            (CPU_PER_TCP_PACKET, CPU_PER_TCP_CONNECTION)
        };
        let work = traffic.workload.model().work(rate, seconds);
        let packets = work.bytes / full;
        let of_packets = if work.few_packets { 0.0 } else { packets * per_packet };
        sum.connections += work.connections;
        sum.memory += work.at_once * MEMORY_PER_FLOW;
        sum.packets += packets;
        sum.cpu_seconds += of_packets + work.connections * per_connection;
    }
    for group in &scenario.background {
        let hops = way(group.from, group.to).0.len() as f64;
        let packets = packet_level_rate(scenario, group)
            / 8.0
            / (f64::from(group.datagram) + f64::from(WIRE_OVERHEAD))
            * seconds;
        let (flows, acks) = match group.load {
            Load::Users { count, .. } => (count, packets / 2.0),
            Load::Udp { count, .. } => (count, 0.0),
        };
        sum.packets += packets;
        sum.memory += f64::from(flows) * MEMORY_PER_PACKET_LEVEL_FLOW;
        sum.cpu_seconds += (packets + acks) * hops * CPU_PER_PACKET_LEVEL_HOP;
    }
    sum
}

/// Returns the rate of a packet-level group in bits per second: its offered load without queueing,
/// limited by the tightest link on its way.
fn packet_level_rate(scenario: &Scenario, group: &Background) -> f64 {
    let offered = match group.load {
        Load::Users { count, idle: (low, high) } => {
            let bits = WebUser::default().mean_size()
                * (f64::from(group.datagram) + f64::from(WIRE_OVERHEAD))
                * 8.0;
            f64::from(count) * bits / ((low + high).as_secs_f64() / 2.0 + TRANSFER)
        }
        Load::Udp { count, rate, on, off } => {
            f64::from(count) * rate.bits_per_sec() as f64 * on.as_secs_f64()
                / (on + off).as_secs_f64()
        }
    };
    let bps = |link: usize| scenario.chain.links[link].rate.bits_per_sec() as f64;
    way(group.from, group.to).0.map(bps).fold(offered, f64::min)
}

/// Returns the links between two routers, numbered by their left routers, and whether the way goes
/// to the right.
pub(super) fn way(from: usize, to: usize) -> (std::ops::Range<usize>, bool) {
    (from.min(to)..from.max(to), from < to)
}

/// Returns the smallest and largest base round trip: the propagation delays of the links and access
/// links, in both directions.
pub(super) fn base_round_trip(s: &Scenario, t: &Traffic) -> (Duration, Duration) {
    let links: Duration = way(t.from, t.to).0.map(|i| s.chain.links[i].delay).sum();
    (2 * links + 4 * t.access.delay.0, 2 * links + 4 * t.access.delay.1)
}

/// Returns the rate of each group in bits per second. On each link, web traffic, pages and media
/// take their rates first. Long flows share the remaining rate in proportion to their numbers.
fn group_rates(scenario: &Scenario) -> Vec<f64> {
    let bps = |link: usize| scenario.chain.links[link].rate.bits_per_sec() as f64;
    let tightest = |t: &Traffic| way(t.from, t.to).0.map(bps).fold(f64::INFINITY, f64::min);
    let offered =
        |t: &Traffic| t.workload.model().bits_per_second().map(|bps| bps.min(tightest(t)));
    let flows = |t: &Traffic| f64::from(t.workload.flows().unwrap_or(0));
    let rate = |t: &Traffic| {
        if let Some(offered) = offered(t) {
            return offered;
        }
        let share = |link: usize| {
            let there = || {
                scenario.traffic.iter().filter(|o| {
                    way(o.from, o.to).1 == way(t.from, t.to).1
                        && way(o.from, o.to).0.contains(&link)
                })
            };
            let left = (bps(link) - there().filter_map(offered).sum::<f64>()).max(0.0);
            left * flows(t) / there().map(flows).sum::<f64>()
        };
        let access =
            t.access.rate.bits_per_sec() as f64 * t.access.hosts.map_or(flows(t), f64::from);
        // A sender with a window limit sends at most one window per round trip.
        let window = t.max_window.packets().map_or(f64::INFINITY, |packets| {
            let bits =
                f64::from(packets) * (f64::from(t.datagram) + f64::from(WIRE_OVERHEAD)) * 8.0;
            flows(t) * bits / base_round_trip(scenario, t).0.as_secs_f64()
        });
        way(t.from, t.to).0.map(share).fold(access.min(window), f64::min)
    };
    scenario.traffic.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioSpec;

    fn of(text: &str) -> Estimate {
        estimate(&ScenarioSpec::from_toml(text).unwrap().check().unwrap())
    }

    fn near(x: f64, expected: f64) {
        assert!((x / expected - 1.0).abs() < 1e-9, "{x} is not {expected}");
    }

    /// Estimates 50 flows over 10 Mbps for 100 s.
    fn of_long_flows(stack: &str) -> Estimate {
        of(&format!(
            r#"
            stop = "100s"
            stack = "{stack}"
            [network]
            topology = "dumbbell"
            link = "10Mbps"
            [[traffic]]
            name = "a"
            from = "left"
            to = "right"
            workload = "flows:50"
            controller = "reno"
            packet = 1000
            "#
        ))
    }

    #[test]
    fn cost_estimate_of_long_flows_uses_the_link_rate() {
        let e = of_long_flows("quinn");
        // 10 Mbps for 100 s are 125,000 packets of 1000 bytes, which take 0.625 s; 50 connections
        // take 0.45 ms each.
        near(e.packets, 125_000.0);
        near(e.cpu_seconds, 0.6475);
        near(e.seconds, 100.0);
        // 20 MB, plus 0.5 MB for each flow.
        near(e.memory, 45e6);
    }

    #[test]
    fn estimated_cpu_time_of_tcp_is_below_that_of_quic() {
        let e = of_long_flows("tcp");
        near(e.packets, 125_000.0);
        near(e.cpu_seconds, 125_000.0 * 2.7e-6 + 50.0 * 35e-6);
    }

    #[test]
    fn run_estimate_uses_offered_load_and_sizes_of_finite_flows() {
        let e = of(r#"
            stop = "1000 responses"
            [network]
            topology = "dumbbell"
            link = "10Mbps"
            [[traffic]]
            name = "web"
            from = "left"
            to = "right"
            workload = "web:50% of 10Mbps"
            controller = "reno"
            [[traffic]]
            name = "bulk"
            from = "right"
            to = "left"
            workload = "flows:2x142kB"
            controller = "reno"
            counted = false
        "#);
        // 5 Mbps are 48.4 connections of 12,900 bytes per second: 20.64 s for 1000 responses. The
        // two transfers are 200 packets of 1420 bytes.
        near(e.seconds, 20.64);
        near(e.connections, 1_002.0);
        near(e.packets, 1_000.0 * 12_900.0 / 1_420.0 + 200.0);
    }

    #[test]
    fn estimate_divides_link_per_flow_up_to_the_access_rate() {
        let e = of(r#"
            stop = "8s"
            [network]
            topology = "dumbbell"
            link = "10Mbps"
            [[traffic]]
            name = "many"
            from = "left"
            to = "right"
            workload = "flows:30"
            controller = "reno"
            packet = 1000
            [[traffic]]
            name = "few"
            from = "left"
            to = "right"
            workload = "flows:10"
            controller = "reno"
            packet = 1000
            access = { rate = "100kbps" }
        "#);
        // 7.5 Mbps of the 10 Mbps, and 10 flows of 100 kbps: 8.5 Mbps for 8 s are 8500 packets of
        // 1000 bytes.
        near(e.packets, 8_500.0);
    }

    #[test]
    fn estimated_packet_level_cost_grows_per_packet_and_hop() {
        let e = of(r#"
            stop = "100s"
            [network]
            topology = "emory"
            [[traffic]]
            name = "a"
            from = "r1"
            to = "r11"
            workload = "flows:1"
            controller = "reno"
            packet = 1500
            max-window = "12p"
            [[background]]
            name = "udp"
            from = "r4"
            to = "r6"
            workload = "udp:2 at 30Mbps on 100ms off 900ms"
            [[background]]
            name = "web"
            from = "r7"
            to = "r8"
            workload = "users:20000 idle 1s..4s"
        "#);
        // The traffic has a flow with a window of 12 packets per 44.1 ms of propagation, two
        // sources of 30 Mbps that are on for a tenth of the time, and users that fill a link of
        // 45 Mbps.
        let (flow, udp, web) = (12.0 / 0.0441 * 100.0, 6e6 / 12e3 * 100.0, 45e6 / 12e3 * 100.0);
        near(e.packets, flow + udp + web);
        near(e.cpu_seconds, flow * 5e-6 + 0.45e-3 + (udp * 2.0 + web * 1.5) * 0.4e-6);
    }
}
