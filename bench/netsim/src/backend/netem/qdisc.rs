//! The lab's queues as tc qdiscs.
//!
//! Drop-tail in packets is netem itself. Its rate sends packets one after another, and its limit
//! includes the packet in transmission, as in the lab's link. The other queues are served by a
//! token bucket. A full token bucket lets a packet pass at once, so a packet after an idle period
//! is one transmission time early. Sizes are those on the wire without Ethernet's header, as in the
//! lab.
//!
//! Differences between Linux's queues and the lab's:
//! - RED's weight is a power of two. RED has no gentle slope, and it spreads its drops by a
//!   different rule (gaps uniform up to 1/probability).
//! - Adaptive RED adapts as in the lab: every half second, between 0.01 and 0.5.
//! - CoDel decides about a packet when the packet leaves.
//! - FQ-CoDel distinguishes flows by addresses and ports. Each flow has its own port, up to
//!   [`PORTS`](super::wire::PORTS).
//! - PIE updates its probability after whole ticks of the kernel's clock, plus one tick (User-Mode
//!   Linux: every 30 ms instead of every 15 ms).

use std::time::Duration;

use fathom_units::Rate;

use crate::queue::{self, Qdisc, QueueSpec};

/// Size in bytes of Ethernet's header, which the kernel counts and the lab does not.
const ETHERNET: u32 = 14;
/// Size of the token bucket in bytes. It must hold the largest packet.
pub(super) const BUCKET: u32 = 10_000;
/// MTU in bytes that is larger than any packet of the lab.
const MTU: u32 = 9_216;
/// MTU in bytes of links whose queue takes the interface's MTU as the size of a full packet.
const ETHERNET_MTU: u32 = 1_500;
/// Maximum number of packets in a delay without a queue.
const UNLIMITED: u32 = 1_000_000;

/// Error for a queue that tc does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel has no equivalent of the queue '{0}'; write one of {kinds}, or use --backend \
    loopback", kinds = queue::names(|kind| kind.module.is_some()))]
pub struct NoQdisc(String);

/// Returns the MTU of the interface of a queue. CoDel, FQ-CoDel and PIE do not drop from queues of
/// one or two packets of this size.
pub(super) const fn mtu(queue: &QueueSpec) -> u32 {
    if matches!(queue, QueueSpec::Codel(_) | QueueSpec::FqCodel(_) | QueueSpec::Pie(_)) {
        ETHERNET_MTU
    } else {
        MTU
    }
}

/// Returns the arguments of each `tc qdisc add dev DEV ...`, outermost qdisc first.
pub(super) fn qdiscs(
    rate: Rate,
    queue: &QueueSpec,
    delay: Duration,
) -> Result<Vec<String>, NoQdisc> {
    let mut list = Vec::new();
    // The outermost qdisc sets the size of a packet for all qdiscs inside it.
    let mut at = format!("root handle 10: stab overhead -{ETHERNET}");
    if !delay.is_zero() {
        let delay = format!("netem delay {}us limit {UNLIMITED}", delay.as_micros());
        list.push(format!("root handle 1: stab overhead -{ETHERNET} {delay}"));
        at = "parent 1:1 handle 10:".to_owned();
    }
    let bps = rate.bits_per_sec();
    let bucket = |limit: u64| format!("{at} tbf rate {bps}bit burst {BUCKET} limit {limit}");
    match queue.qdisc(rate).ok_or_else(|| NoQdisc(queue.to_string()))? {
        Qdisc::Netem { limit } => list.push(format!("{at} netem rate {bps}bit limit {limit}")),
        Qdisc::Bucket { limit } => list.push(bucket(limit)),
        Qdisc::Within(words) => {
            list.extend([bucket(u64::from(BUCKET)), format!("parent 10:1 handle 20: {words}")])
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    fn of(queue: &str, delay_ms: u64) -> Vec<String> {
        qdiscs(RATE, &queue.parse().unwrap(), Duration::from_millis(delay_ms)).unwrap()
    }

    #[test]
    fn queues_are_translated_to_tc_qdiscs() {
        assert_eq!(
            of("droptail:136p", 0),
            ["root handle 10: stab overhead -14 netem rate 10000000bit limit 136"]
        );
        assert_eq!(
            of("droptail:136p", 7),
            [
                "root handle 1: stab overhead -14 netem delay 7000us limit 1000000",
                "parent 1:1 handle 10: netem rate 10000000bit limit 136"
            ]
        );
        assert_eq!(
            of("droptail:190kB", 0),
            ["root handle 10: stab overhead -14 tbf rate 10000000bit burst 10000 limit 190000"]
        );
        let red = of("adaptive-red", 0);
        assert!(
            red[1].starts_with(
                "parent 10:1 handle 20: red limit 626220 min 7100 max 21300 avpkt 1420 burst "
            ),
            "{red:?}"
        );
        assert!(red[1].ends_with("probability 0.1 bandwidth 10000000bit adaptive ecn"), "{red:?}");
        assert!(
            of("codel", 0)[1].ends_with("codel limit 1000 target 5000us interval 100000us ecn")
        );
        let fair = of("fq-codel", 0);
        assert_eq!(
            fair[0],
            "root handle 10: stab overhead -14 tbf rate 10000000bit burst 10000 limit 10000"
        );
        assert!(
            fair[1].ends_with(
                ": fq_codel limit 10240 flows 1024 target 5000us interval 100000us quantum 1514 ecn"
            ),
            "{fair:?}"
        );
        assert!(
            of("pie", 0)[1]
                .ends_with(": pie limit 1000 target 15000us tupdate 15000us alpha 2 beta 20 ecn")
        );
    }

    #[test]
    fn error_names_queues_missing_from_the_kernel() {
        for queue in ["avq", "gared", "dualpi2", "cobalt"] {
            let error =
                qdiscs(RATE, &queue.parse().unwrap(), Duration::ZERO).unwrap_err().to_string();
            assert!(error.contains("--backend loopback"), "{error}");
        }
    }
}
