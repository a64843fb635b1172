//! The lab's queues in tc's words.
//!
//! Drop-tail in packets is netem itself: its rate sends packets one after the other, and its limit counts the one in transmission, as the
//! lab's link does. The other queues wait for a token bucket, which lets a packet that finds it full pass at once: a packet after a
//! silence is one transmission time early there. Sizes are those on the wire without Ethernet's header, as in the lab.
//!
//! Differences of Linux's queues from the lab's:
//! - RED weighs in powers of two, knows no gentle slope, and spreads its picks by another rule (1 over the probability, uniform).
//! - Adaptive RED adapts as the lab's does, every half second, between .01 and .5.
//! - CoDel decides when packets leave.

use std::time::Duration;

use fathom_cc::Rate;

use crate::link::{QueueSpec, RedSpec};

/// Bytes of Ethernet's header, which the kernel counts and the lab does not.
const ETHERNET: u32 = 14;
/// A token bucket must hold the largest packet.
const BUCKET: u32 = 10_000;
/// Packets that a delay without a queue may hold.
const UNLIMITED: u32 = 1_000_000;

/// A queue that tc does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel has no queue like '{0}'; write droptail, red, adaptive-red or codel, or use --backend loopback")]
pub struct NoQdisc(String);

/// The arguments of one `tc qdisc add dev DEV ...` each, outermost first.
pub(super) fn qdiscs(rate: Rate, queue: &QueueSpec, delay: Duration) -> Result<Vec<String>, NoQdisc> {
    let mut list = Vec::new();
    // The outermost queue decides how long a packet is for all within.
    let mut at = format!("root handle 10: stab overhead -{ETHERNET}");
    if !delay.is_zero() {
        let delay = format!("netem delay {}us limit {UNLIMITED}", delay.as_micros());
        list.push(format!("root handle 1: stab overhead -{ETHERNET} {delay}"));
        at = "parent 1:1 handle 10:".to_owned();
    }
    let bps = rate.bits_per_sec();
    let bucket = |limit: u64| format!("{at} tbf rate {bps}bit burst {BUCKET} limit {limit}");
    if let Some(limit) = drop_tail_packets(queue, rate) {
        list.push(format!("{at} netem rate {bps}bit limit {limit}"));
        return Ok(list);
    }
    match queue {
        QueueSpec::DropTail(_) => {
            let bytes = queue.byte_limit().unwrap_or(u64::from(BUCKET));
            list.push(bucket(bytes));
        }
        QueueSpec::Red(spec) => list.extend([bucket(u64::from(BUCKET)), red(rate, spec, TYPICAL, false)]),
        QueueSpec::AdaptiveRed(spec) => {
            list.extend([bucket(u64::from(BUCKET)), red(rate, &spec.red(rate), spec.packet, true)]);
        }
        QueueSpec::Codel(spec) => {
            let ecn = if spec.ecn { "ecn" } else { "noecn" };
            let (target, interval) = (spec.target.as_micros(), spec.interval.as_micros());
            let codel = format!("codel limit {} target {target}us interval {interval}us {ecn}", spec.limit);
            list.extend([bucket(u64::from(BUCKET)), format!("parent 10:1 handle 20: {codel}")]);
        }
        QueueSpec::GentleAred(_) | QueueSpec::Avq(_) => return Err(NoQdisc(queue.to_string())),
    }
    Ok(list)
}

/// Bytes of a typical packet on the wire (Sync-TCP §4.4).
const TYPICAL: u32 = 1_420;

fn drop_tail_packets(queue: &QueueSpec, rate: Rate) -> Option<usize> {
    matches!(queue, QueueSpec::DropTail(_)).then(|| queue.packet_limit(rate)).flatten()
}

fn red(rate: Rate, spec: &RedSpec, packet: u32, adaptive: bool) -> String {
    let bytes = |packets: f64| (packets * f64::from(packet)).round() as u64;
    let (min, max, limit) = (bytes(spec.min), bytes(spec.max), bytes(spec.limit as f64));
    let burst = burst(spec.min, spec.weight);
    let mut text = format!(
        "parent 10:1 handle 20: red limit {limit} min {min} max {max} avpkt {packet} burst {burst} probability {} bandwidth {}bit",
        spec.max_p,
        rate.bits_per_sec(),
    );
    if adaptive {
        text += " adaptive";
    }
    if spec.ecn {
        text += " ecn";
    }
    text
}

/// The burst for which tc chooses the power of two next to `weight`: it takes the largest weight `W` for which a burst of so many packets
/// from an empty queue brings the average to `min` at most, `burst + 1 - min <= (1 - (1-W)^burst) / W` (tc-red(8), Floyd and Jacobson
/// 1993 §6).
fn burst(min: f64, weight: f64) -> u32 {
    let wanted = (-weight.log2()).round().clamp(1.0, 31.0);
    let w = (-wanted).exp2();
    let fits = |burst: u32, w: f64| f64::from(burst) + 1.0 - min <= (1.0 - (1.0 - w).powi(burst as i32)) / w;
    // The largest burst that this weight allows: the next larger weight does not.
    (min.ceil() as u32..100_000).take_while(|burst| fits(*burst, w)).last().unwrap_or(min.ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    fn of(queue: &str, delay_ms: u64) -> Vec<String> {
        qdiscs(RATE, &queue.parse().unwrap(), Duration::from_millis(delay_ms)).unwrap()
    }

    #[test]
    fn queues_are_said_in_words_of_tc() {
        assert_eq!(of("droptail:136p", 0), ["root handle 10: stab overhead -14 netem rate 10000000bit limit 136"]);
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
            red[1].starts_with("parent 10:1 handle 20: red limit 626220 min 7100 max 21300 avpkt 1420 burst "),
            "{red:?}"
        );
        assert!(red[1].ends_with("probability 0.1 bandwidth 10000000bit adaptive ecn"), "{red:?}");
        assert!(of("codel", 0)[1].ends_with("codel limit 1000 target 5000us interval 100000us ecn"));
    }

    #[test]
    fn queues_the_kernel_lacks_are_named() {
        for queue in ["avq", "gared"] {
            let error = qdiscs(RATE, &queue.parse().unwrap(), Duration::ZERO).unwrap_err().to_string();
            assert!(error.contains("--backend loopback"), "{error}");
        }
    }

    /// What tc itself computes from a burst (iproute2, `tc_red_eval_ewma`, as its manual describes it).
    fn chosen(min: f64, burst: u32) -> u32 {
        let a = f64::from(burst) + 1.0 - min;
        (1..32)
            .find(|log| a <= (1.0 - (1.0 - (-f64::from(*log)).exp2()).powi(burst as i32)) * f64::from(*log).exp2())
            .unwrap()
    }

    #[test]
    fn the_weight_is_the_nearest_power_of_two() {
        for (min, weight, log) in [(5.0, 0.002, 9), (5.0, 0.00114, 10), (20.0, 0.02, 6), (2500.0, 0.002, 9)] {
            assert_eq!(chosen(min, burst(min, weight)), log, "min {min}, weight {weight}");
        }
    }
}
