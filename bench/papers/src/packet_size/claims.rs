//! What the thesis says of its experiments, each statement with its predicate. All predicates were written before full results were seen.

use fathom_experiments::scenario::Outcome;

use super::super::claims::all;
use super::super::claims::values::{above, below, less, more, shown, with, within};
use super::super::{Claim, Results, Verdict};
use super::figures::{LARGE_PERCENT, QUEUES, beside_percent, delivered_mbps};
use super::{ADAPTIVE, ALIKE, BESIDE, MIXED, everyone, fairness, half_or_less, members, off};

/// Studies that a claim needs, and what makes it.
type Maker = (&'static [&'static str], fn(&Results) -> Claim);

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let makers: [Maker; 18] = [
        (&[ALIKE], large_half_share),
        (&[ALIKE], small_perfect_at_50),
        (&[ALIKE], large_worse_with_flows),
        (&[ALIKE], large_starve_at_400),
        (&[ALIKE], small_perfect_at_400),
        (&[ALIKE], long_windows_better),
        (&[ALIKE], long_windows_fair),
        (&[ALIKE], long_windows_200),
        (&[ALIKE], long_windows_400),
        (&[ALIKE], long_windows_small),
        (&[ALIKE], smaller_is_fairer),
        (&[MIXED], natural_penalty),
        (&[MIXED], drops_per_byte),
        (&[MIXED], all_suffer),
        (&[ALIKE, MIXED], mixed_worse_than_alike),
        (&[BESIDE], active_queues_help_small),
        (&[ADAPTIVE], adaptive_fairer),
        (&[ADAPTIVE], adaptive_cheaper),
    ];
    makers.iter().filter(|(studies, _)| results.have(studies)).map(|(_, make)| make(results)).collect()
}

/// "About", "10 %": points by which a number may miss. Ours.
const ABOUT: f64 = 10.0;
/// A tenth of the flows may be off by more than half their share where sharing is near perfect, a fifth where it is close to fair or
/// slightly degraded. Ours.
const NEAR_PERFECT: f64 = 10.0;
const CLOSE: f64 = 20.0;
/// How the tests of claims say so.
const NEAR_PERFECT_SAYS: &str =
    "At most 10 % of the flows (ours) get half their share or less, or more than one and a half of it";

fn claim(id: &str, source: &str, says: &str, test: &str, verdict: Verdict, found: String) -> Claim {
    Claim { id: id.into(), source: source.into(), says: says.into(), test: test.into(), verdict, found }
}

/// A number of round one's flows.
fn alike(results: &Results, flows: &str, packet: &str, of: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
    results.values(ALIKE, &[("flows", flows), ("packet", packet)], of)
}

fn half(results: &Results, flows: &str, packet: &str, seconds: f64) -> Vec<f64> {
    alike(results, flows, packet, |o| half_or_less(everyone(o, seconds)?))
}

fn starved(results: &Results, flows: &str, packet: &str, seconds: f64) -> Vec<f64> {
    alike(results, flows, packet, |o| Some(everyone(o, seconds)?.starved_percent))
}

fn astray(results: &Results, flows: &str, packet: &str, seconds: f64) -> Vec<f64> {
    alike(results, flows, packet, |o| off(everyone(o, seconds)?))
}

/// `1000: 1.2 ± 0.1, ...`
fn list<'a>(values: impl IntoIterator<Item = (&'a str, &'a Vec<f64>)>) -> String {
    values.into_iter().map(|(name, v)| format!("{name}: {}", shown(v))).collect::<Vec<_>>().join(", ")
}

/// About so many percent, ten points either way.
pub(super) fn about(percent: &[f64], paper: f64) -> Verdict {
    within(percent, paper - ABOUT, paper + ABOUT)
}

/// So many percent, five points either way.
pub(super) fn just(percent: &[f64], paper: f64) -> Verdict {
    within(percent, paper - ABOUT / 2.0, paper + ABOUT / 2.0)
}

fn large_half_share(results: &Results) -> Claim {
    let percent = half(results, "50", "1500", 1.0);
    claim(
        "large-half-share-50-flows",
        "Packet size §4.3.1",
        "With 50 flows of 1500-byte packets about 30 % get at most half of their fair share in windows of 1 s.",
        "20 to 40 % (ours) of the flows.",
        about(&percent, 30.0),
        format!("{} %", shown(&percent)),
    )
}

/// At most so many percent of the flows are off, in every case.
pub(super) fn few_off<'a>(cases: impl IntoIterator<Item = &'a Vec<f64>>, most: f64) -> Verdict {
    all(cases.into_iter().map(|percent| below(percent, most)))
}

fn small_perfect_at_50(results: &Results) -> Claim {
    let sizes = ["1000", "500", "278"];
    let cases = sizes.map(|size| astray(results, "50", size, 1.0));
    claim(
        "small-near-perfect-50-flows",
        "Packet size §4.3.1",
        "With 50 flows the smaller packets achieve near perfect sharing in windows of 1 s.",
        &format!("{NEAR_PERFECT_SAYS}, with 1000, 500 and 278 bytes."),
        few_off(&cases, NEAR_PERFECT),
        format!("percent of flows that far off: {}", list(sizes.into_iter().zip(&cases))),
    )
}

/// Each is more than the one before.
pub(super) fn rises(cases: &[Vec<f64>]) -> Verdict {
    all(cases.windows(2).map(|pair| more(&pair[1], &pair[0])))
}

fn large_worse_with_flows(results: &Results) -> Claim {
    let flows = ["50", "100", "200", "400"];
    let cases = flows.map(|n| half(results, n, "1500", 1.0));
    claim(
        "large-worse-with-flows",
        "Packet size §4.3.1",
        "As the number of flows grows, the 1500-byte flows do poorly.",
        "More flows get at most half their share in windows of 1 s with 100 than with 50 flows, with 200 than with 100, with 400 than \
         with 200.",
        rises(&cases),
        format!("percent of flows by their number: {}", list(flows.into_iter().zip(&cases))),
    )
}

fn large_starve_at_400(results: &Results) -> Claim {
    let percent = starved(results, "400", "1500", 1.0);
    claim(
        "large-starve-400-flows",
        "Packet size §4.3.1",
        "With 400 flows of 1500-byte packets about 50 % are completely starved in windows of 1 s.",
        "40 to 60 % (ours) of the flows get less than 5 % of their share (ours).",
        about(&percent, 50.0),
        format!("{} %", shown(&percent)),
    )
}

fn small_perfect_at_400(results: &Results) -> Claim {
    let sizes = ["500", "278"];
    let cases = sizes.map(|size| astray(results, "400", size, 1.0));
    claim(
        "small-near-perfect-400-flows",
        "Packet size §4.3.1",
        "With 400 flows 500- and 250-byte packets still achieve near perfect sharing in windows of 1 s.",
        &format!("{NEAR_PERFECT_SAYS}, with 500 and 278 bytes."),
        few_off(&cases, NEAR_PERFECT),
        format!("percent of flows that far off: {}", list(sizes.into_iter().zip(&cases))),
    )
}

fn long_windows_better(results: &Results) -> Claim {
    let [short, long] = [1.0, 10.0].map(|seconds| half(results, "50", "1500", seconds));
    claim(
        "long-windows-better",
        "Packet size §4.3.1",
        "With windows of 10 s the 1500-byte flows do better under mild congestion.",
        "With 50 flows fewer get at most half their share in windows of 10 s than in windows of 1 s.",
        less(&long, &short),
        format!("percent of flows: 1 s {}, 10 s {}", shown(&short), shown(&long)),
    )
}

fn long_windows_fair(results: &Results) -> Claim {
    let flows = ["50", "100"];
    let cases = flows.map(|n| astray(results, n, "1500", 10.0));
    claim(
        "long-windows-close-to-fair",
        "Packet size §4.3.1",
        "With 50 and 100 flows of 1500-byte packets the curve is close to fair in windows of 10 s.",
        "At most 20 % of the flows (ours) get half their share or less, or more than one and a half of it.",
        few_off(&cases, CLOSE),
        format!("percent of flows that far off, by their number: {}", list(flows.into_iter().zip(&cases))),
    )
}

fn long_windows_200(results: &Results) -> Claim {
    let percent = starved(results, "200", "1500", 10.0);
    claim(
        "large-starve-200-flows-10-s",
        "Packet size §4.3.1",
        "With 200 flows 10 % of the 1500-byte flows starve even in windows of 10 s.",
        "5 to 15 % (ours) of the flows get less than 5 % of their share (ours).",
        just(&percent, 10.0),
        format!("{} %", shown(&percent)),
    )
}

/// Over so many percent in both cases.
pub(super) fn both_over(cases: &[Vec<f64>; 2], percent: f64) -> Verdict {
    all(cases.iter().map(|case| above(case, percent)))
}

fn long_windows_400(results: &Results) -> Claim {
    let sizes = ["1500", "1000"];
    let cases = sizes.map(|size| starved(results, "400", size, 10.0));
    claim(
        "large-starve-400-flows-10-s",
        "Packet size §4.3.1",
        "With 400 flows over 20 % of the flows get nothing in windows of 10 s, with 1500- and with 1000-byte packets.",
        "Over 20 % of the flows get less than 5 % of their share (ours).",
        both_over(&cases, 20.0),
        format!("percent of flows: {}", list(sizes.into_iter().zip(&cases))),
    )
}

fn long_windows_small(results: &Results) -> Claim {
    let cases: Vec<(String, Vec<f64>, f64)> = ["50", "100", "200", "400"]
        .into_iter()
        .flat_map(|flows| {
            ["500", "278"].map(|size| {
                let most = if (flows, size) == ("400", "500") { CLOSE } else { NEAR_PERFECT };
                (format!("{flows} flows, {size} bytes"), astray(results, flows, size, 10.0), most)
            })
        })
        .collect();
    claim(
        "small-ideal-10-s",
        "Packet size §4.3.1",
        "In windows of 10 s the smaller packets allow near ideal sharing, the 500-byte packets only slightly degraded with 400 flows.",
        &format!("{NEAR_PERFECT_SAYS}, with 500 and 278 bytes; 20 % (ours) with 400 flows of 500 bytes."),
        all(cases.iter().map(|(_, percent, most)| below(percent, *most))),
        format!("percent of flows that far off: {}", list(cases.iter().map(|(name, v, _)| (name.as_str(), v)))),
    )
}

/// In every case the first is more than the second.
pub(super) fn more_each(pairs: &[(Vec<f64>, Vec<f64>)]) -> Verdict {
    all(pairs.iter().map(|(a, b)| more(a, b)))
}

fn smaller_is_fairer(results: &Results) -> Claim {
    let index = |flows: &str, size: &str| alike(results, flows, size, |o| fairness(o, 1.0)?.jain);
    let flows = ["200", "400"];
    let pairs: Vec<_> =
        flows.iter().flat_map(|n| ["500", "278"].map(|small| (index(n, small), index(n, "1500")))).collect();
    let found: Vec<String> = flows
        .iter()
        .map(|n| {
            format!(
                "{n} flows: {}",
                list(
                    ["1500", "1000", "500", "278"]
                        .iter()
                        .map(|s| (*s, index(n, s)))
                        .collect::<Vec<_>>()
                        .iter()
                        .map(|(s, v)| (*s, v))
                )
            )
        })
        .collect();
    claim(
        "smaller-is-fairer",
        "Packet size §5",
        "Small packets allow fair sharing into severely congested periods, where larger ones share poorly.",
        "Jain's index in windows of 1 s is larger with 500 and with 278 bytes than with 1500 bytes, with 200 and with 400 flows.",
        more_each(&pairs),
        format!("Jain's index: {}", found.join("; ")),
    )
}

/// Every mix of round two with the small size given, by its name.
fn mixes(flows: &[&str]) -> Vec<String> {
    flows.iter().flat_map(|n| LARGE_PERCENT.map(|percent| format!("{n} flows, {percent}% large"))).collect()
}

fn mixed(results: &Results, mix: &str, small: &str, of: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
    results.values(MIXED, &[("mix", mix), ("small", small)], of)
}

fn mean_share(results: &Results, mix: &str, small: &str, group: &str) -> Vec<f64> {
    mixed(results, mix, small, |o| Some(members(o, 1.0, group)?.mean_percent))
}

fn natural_penalty(results: &Results) -> Claim {
    let mut found = Vec::new();
    let mut pairs = Vec::new();
    for mix in mixes(&["50", "200"]) {
        for small in ["278", "500"] {
            let [large, little] = ["large", "small"].map(|group| mean_share(results, &mix, small, group));
            found.push(format!("{mix}, {small} bytes: {} and {}", shown(&large), shown(&little)));
            pairs.push((large, little));
        }
    }
    claim(
        "small-pay-the-natural-penalty",
        "Packet size §4.3.2",
        "Small packets are guaranteed to suffer at least a penalty of the ratio of large to small packet size.",
        "In every mix the large flows' mean share is more than the small ones', where a share is that of equal packet rates.",
        more_each(&pairs),
        format!("mean shares of large and small in percent: {}", found.join("; ")),
    )
}

/// Datagrams lost of each byte sent, on the wire.
fn lost_per_byte(outcome: &Outcome, group: &str, size: f64) -> Option<f64> {
    let group = outcome.groups.get(group).filter(|g| g.sent > 0)?;
    Some(group.lost as f64 / (group.sent as f64 * size))
}

fn drops_per_byte(results: &Results) -> Claim {
    let mut found = Vec::new();
    let mut pairs = Vec::new();
    for mix in mixes(&["50", "200"]) {
        let little = mixed(results, &mix, "278", |o| lost_per_byte(o, "small", 278.0).map(|x| x * 1e6));
        let large = mixed(results, &mix, "278", |o| lost_per_byte(o, "large", 1_500.0).map(|x| x * 1e6));
        found.push(format!("{mix}: {} and {}", shown(&little), shown(&large)));
        pairs.push((little, large));
    }
    claim(
        "small-lose-more-per-byte",
        "Packet size §1.2",
        "Routers drop without regard to size, so for the bytes they send, flows with smaller packets suffer a higher drop rate.",
        "In every mix of 1500 and 278 bytes more datagrams are dropped per byte sent of the small flows than of the large ones.",
        more_each(&pairs),
        format!("drops per megabyte of small and large: {}", found.join("; ")),
    )
}

/// Percent of flows at half their share or less from which a penalty is large: what round one has with 50 flows of 1500 bytes, which
/// the thesis calls poor. Ours.
const LARGE_PENALTY: f64 = 30.0;

/// In every case so many flows get at most half their share.
pub(super) fn all_penalised<'a>(cases: impl IntoIterator<Item = &'a Vec<f64>>) -> Verdict {
    all(cases.into_iter().map(|percent| above(percent, LARGE_PENALTY)))
}

fn all_suffer(results: &Results) -> Claim {
    let mut found = Vec::new();
    let mut cases = Vec::new();
    for mix in mixes(&["50", "200"]) {
        let [large, little] =
            ["large", "small"].map(|group| mixed(results, &mix, "278", |o| half_or_less(members(o, 1.0, group)?)));
        found.push(format!("{mix}: {} and {}", shown(&large), shown(&little)));
        cases.extend([large, little]);
    }
    claim(
        "mixed-all-suffer",
        "Packet size §4.3.2",
        "Where sizes are mixed, all flows seem to suffer a large penalty.",
        "In every mix of 1500 and 278 bytes, at least 30 % (ours) of the large and of the small flows get at most half their share in \
         windows of 1 s.",
        all_penalised(&cases),
        format!("percent of large and small flows: {}", found.join("; ")),
    )
}

fn mixed_worse_than_alike(results: &Results) -> Claim {
    let mixed = mixed(results, "50 flows, 75% large", "278", |o| half_or_less(everyone(o, 1.0)?));
    let alike = half(results, "50", "1500", 1.0);
    claim(
        "mixed-deteriorates-at-50-flows",
        "Packet size §4.3.2",
        "Even with 50 flows, 75 % of them large, sharing deteriorates greatly.",
        "More flows get at most half their share in windows of 1 s than with 50 flows of 1500 bytes alone.",
        more(&mixed, &alike),
        format!("percent of flows: mixed {}, 1500 bytes alone {}", shown(&mixed), shown(&alike)),
    )
}

fn active_queues_help_small(results: &Results) -> Claim {
    let of = |queue: &str, flows: &str| {
        results.values(BESIDE, &[("queue", queue), ("flows", flows), ("beside", "278")], beside_percent)
    };
    let flows = ["50", "200"];
    let [tail, active @ ..] = QUEUES;
    let pairs: Vec<_> = active.iter().flat_map(|queue| flows.map(|n| (of(queue, n), of(tail, n)))).collect();
    let found = QUEUES.map(|queue| format!("{queue} {} and {}", shown(&of(queue, "50")), shown(&of(queue, "200"))));
    claim(
        "active-queues-help-small",
        "Packet size §4.5.3",
        "Under active queues one would expect smaller packets to get a greater share (the thesis calls it speculation).",
        "278-byte flows beside as many of 1500 bytes get a larger part of those's bandwidth under RED, Adaptive RED and CoDel than under \
         drop-tail, with 50 and with 200 flows.",
        more_each(&pairs),
        format!("percent of the large ones' bandwidth with 50 and 200 flows: {}", found.join("; ")),
    )
}

fn of_sizes(results: &Results, queue: &str, flows: &str, of: impl Fn(&Outcome) -> Option<f64> + Copy) -> [Vec<f64>; 3] {
    ["1500", "278", "adaptive"]
        .map(|size| results.values(ADAPTIVE, &with(&[("queue", queue), ("flows", flows)], "size", size), of))
}

fn adaptive_fairer(results: &Results) -> Claim {
    let mut found = Vec::new();
    let mut pairs = Vec::new();
    for flows in ["200", "400"] {
        let starving = |o: &Outcome| Some(everyone(o, 1.0)?.starved_percent);
        let [large, little, adaptive] = of_sizes(results, QUEUES[0], flows, starving);
        found.push(format!(
            "{flows} flows: 1500 bytes {}, adaptive {}, 278 bytes {}",
            shown(&large),
            shown(&adaptive),
            shown(&little)
        ));
        pairs.push((large, adaptive));
    }
    claim(
        "adaptive-starves-fewer",
        "Packet size §5",
        "Adapting the packet size as congestion increases remains promising.",
        "Under drop-tail fewer flows starve in windows of 1 s (less than 5 % of their share, ours) with sizes that adapt than with 1500 \
         bytes, with 200 and with 400 flows. The thesis has no such experiment.",
        more_each(&pairs),
        format!("percent of flows that starve: {}", found.join("; ")),
    )
}

fn adaptive_cheaper(results: &Results) -> Claim {
    let [_, little, adaptive] = of_sizes(results, QUEUES[0], "50", delivered_mbps);
    claim(
        "adaptive-costs-less",
        "Packet size §1.4",
        "Fixed small packets needlessly impose overhead where congestion is mild; sizes that adapt do not.",
        "With 50 flows under drop-tail more UDP payload is delivered with sizes that adapt than with packets of 278 bytes. The thesis has \
         no such experiment.",
        more(&adaptive, &little),
        format!("Mbps: adaptive {}, 278 bytes {}", shown(&adaptive), shown(&little)),
    )
}
