//! Properties of every queue that schedules.

use std::time::Duration;

use fathom_units::{Rate, Time};
use proptest::prelude::*;

use super::testing::{SECOND, Served, packet};
use super::{AnyQueue, KINDS, QueueSpec};
use crate::ecn::Ecn;

/// Returns the names of all kinds that schedule.
fn schedulers() -> Vec<&'static str> {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let schedules = |name: &&str| match name.parse::<QueueSpec>() {
        Ok(spec) => matches!(spec.build(rate, 1), AnyQueue::Scheduler(_)),
        Err(_) => false,
    };
    KINDS.iter().map(|kind| kind.name).filter(schedules).collect()
}

#[test]
fn only_fq_codel_and_dualpi2_are_scheduling_queues() {
    assert_eq!(schedulers(), ["fq-codel", "dualpi2"]);
}

fn field(ecn: u8) -> Option<Ecn> {
    [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)][usize::from(ecn)]
}

proptest! {
    /// Every packet is sent or dropped exactly once. Packets of one flow and one ECN field stay in
    /// order. The limit holds. The link never idles while packets wait.
    #[test]
    fn scheduling_queues_conserve_packets_and_respect_the_limit(
        arrivals in prop::collection::vec((0u64..4_000_000, 0u64..5, 40u32..1_500, 0u8..4), 1..600),
        limit in 2usize..80,
        seed in 0u64..1_000,
    ) {
        for name in schedulers() {
            let mut served = Served::new(10_000_000, &format!("{name}:limit={limit}p"), seed);
            let mut now = Time::ZERO;
            for (number, (gap, flow, bytes, ecn)) in arrivals.iter().enumerate() {
                // Packets come in bursts with pauses, and the load is about 1.5.
                now += Duration::from_nanos(if gap % 3 == 0 { *gap } else { 0 });
                served.arrive(packet(number as u32, *flow, now, *bytes, field(*ecn)));
                let waiting = served.link.queue_length(now);
                prop_assert!(waiting <= limit, "{name}: {waiting} of {limit}");
                let all = served.sent.len() + served.dropped.len();
                let stats = served.link.stats(now);
                prop_assert_eq!(stats.arrived, number as u64 + 1);
                prop_assert_eq!(stats.arrived, stats.admitted + stats.dropped);
                prop_assert_eq!(stats.admitted, stats.departed + waiting as u64);
                prop_assert!(all <= number + 1);
            }
            served.run_until(now + 100 * SECOND);
            let mut numbers: Vec<u32> = served.sent.iter().map(|sent| sent.packet.packet).collect();
            numbers.extend(served.dropped.iter().map(|packet| packet.packet));
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..arrivals.len() as u32).collect::<Vec<_>>());
            for flow in 0..5 {
                for ecn in 0..4 {
                    let of_flow = served.sent.iter().filter(|s| s.packet.flow == flow && s.packet.ecn == field(ecn));
                    prop_assert!(of_flow.clone().zip(of_flow.skip(1)).all(|(a, b)| a.packet.packet < b.packet.packet));
                }
            }
            // The link sends without a gap while packets wait. Each packet either follows the
            // previous packet directly or arrived at an idle link.
            for pair in served.sent.windows(2) {
                let time = u64::from(pair[1].packet.bytes) * 800;
                let began = pair[1].out - Duration::from_nanos(time);
                prop_assert!(began == pair[0].out || began == pair[1].packet.arrived.max(pair[0].out), "{name}");
            }
            let stats = served.link.stats(now + 100 * SECOND);
            prop_assert!(stats.max_queue <= limit && stats.mean_queue >= 0.0);
            let sojourn: Duration =
                served.sent.iter().map(|sent| sent.out.since(sent.packet.arrived)).sum();
            let at_least = sojourn.as_secs_f64() / (now + 100 * SECOND).as_secs_f64();
            prop_assert!(stats.mean_queue >= at_least * 0.999_999, "{} {at_least}", stats.mean_queue);
            prop_assert!(stats.sent_bytes <= stats.capacity_bytes + 1.0);
        }
    }
}
