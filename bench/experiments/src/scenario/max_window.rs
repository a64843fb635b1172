//! The window of a sender whose window has no configured limit.

use std::time::Duration;

use fathom_cc::Rate;
use fathom_netsim::link::Capacity;
use fathom_netsim::path::PathEvent;
use fathom_netsim::queue::QueueSpec;

use super::{Scenario, Traffic};

/// Smallest window in bytes of a sender without a limit. It is the default of quinn and noq, and
/// corresponds to 100 ms at 100 Mbps.
const LEAST: u64 = 1_250_000;
/// Length of a window without a limit, in round trips including jitter. Several round trips let a
/// loss be repaired more than once.
const ROUND_TRIPS: u32 = 4;
const JITTER: Duration = Duration::from_millis(250);
/// Ratio of peak to mean rate that is assumed for traces and models.
const PEAK: u64 = 4;
/// Assumed size of a packet in bytes, for queues whose limit is in packets.
const PACKET: u64 = 1_500;

/// Returns the flow control window in bytes of a sender without a limit in this scenario. The
/// window has several times the capacity of the links and queues, so that flow control never limits
/// a controller that reacts to delay or loss. The window must be finite, because a controller that
/// ignores losses would keep doubling its packets in flight.
pub(super) fn beyond_the_path(scenario: &Scenario, traffic: &Traffic) -> u64 {
    let chain = &scenario.chain;
    let peak = |capacity: &Capacity| match capacity {
        Capacity::Fixed(rate) => rate.bits_per_sec(),
        Capacity::Steps(rate, steps) => {
            steps.iter().map(|(_, rate)| rate.bits_per_sec()).fold(rate.bits_per_sec(), u64::max)
        }
        Capacity::Trace(_) | Capacity::Model { .. } => {
            capacity.nominal().bits_per_sec().saturating_mul(PEAK)
        }
    };
    let queue = |queue: &QueueSpec, rate: Rate| {
        let packets =
            queue.packet_limit(rate).map(|packets| (packets as u64).saturating_mul(PACKET));
        queue.byte_limit().or(packets).unwrap_or(rate.bits_per_sec() / 8)
    };
    let (mut bps, mut queues, mut rtt) = (0, 0_u64, 4 * traffic.access.delay.1);
    if let Some(path) = &chain.path {
        for (capacity, of_link) in
            [&path.down, &path.up].into_iter().filter_map(|way| way.link.as_ref())
        {
            bps = bps.max(peak(capacity));
            queues = queues.saturating_add(queue(of_link, capacity.nominal()));
        }
        let steps = path.down.impairments.events.iter().filter_map(|event| match event {
            PathEvent::Rtt { rtt, .. } => Some(*rtt),
            _ => None,
        });
        rtt = rtt.max(steps.fold(path.rtt.1, Duration::max));
    } else {
        for link in &chain.links {
            bps = bps.max(link.rate.bits_per_sec());
            for of_link in [&link.queue, &link.back_queue] {
                queues = queues.saturating_add(queue(of_link, link.rate));
            }
            rtt += 2 * link.delay;
        }
    }
    let under_way = (ROUND_TRIPS * rtt + JITTER).as_secs_f64() * bps as f64 / 8.0;
    // The cast saturates.
    queues.saturating_mul(2).saturating_add(under_way as u64).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::{LEAST, beyond_the_path};
    use crate::scenario::ScenarioSpec;

    #[test]
    fn unlimited_max_window_is_finite_and_exceeds_the_path() {
        let window = |path: &str| {
            let text = format!(
                "stop = \"10s\"\n[network]\ntopology = \"path\"\n[network.path]\n{path}\n[[traffic]]\nname = \"g\"\n\
                 from = \"left\"\nto = \"right\"\nworkload = \"flows:1\"\ncontroller = \"reno\"\nmax-window = \"none\""
            );
            let scenario = ScenarioSpec::from_toml(&text).unwrap().check().unwrap();
            beyond_the_path(&scenario, &scenario.traffic[0])
        };
        assert_eq!(window("rate = \"1Mbps\"\nrtt = \"20ms\"\nqueue = \"droptail:20p\""), LEAST);
        // 12.5 MB in flight and 9 MB in the queue.
        let large = window("rate = \"1Gbps\"\nrtt = \"100ms\"\nqueue = \"droptail:6000p\"");
        assert!((2 * 21_500_000..200_000_000).contains(&large), "{large}");
        let later = window("rate = \"10Mbps\"\nrtt = \"100ms\"\nevents = [\"rate:1Gbps@5s\"]");
        assert!(later > 25_000_000, "{later}");
    }
}
