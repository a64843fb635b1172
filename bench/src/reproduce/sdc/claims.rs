//! What SDC §3 says of its experiments, each statement with its predicate. All predicates were written before full results were seen.

use super::super::claims::all;
use super::super::claims::values::{above, below, less, more, shown, with, within};
use super::super::{Claim, Results, Verdict};
use super::{
    ALONE, FIGURE_4, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, LATENCY, SDC, TCP, WINDOWS, above_four, alone_mbps,
    backoff, drops, eight_or_more, mean_latency, near_over_far, sdc_percent, timeouts, worst_latency,
};
use crate::scenario::Outcome;

/// Studies that a claim needs, and what makes it.
type Maker = (&'static [&'static str], fn(&Results) -> Claim);

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let makers: [Maker; 18] = [
        (&[FIGURE_4], sdc_few_timeouts),
        (&[FIGURE_4], tcp_many_timeouts),
        (&[WINDOWS], tcp_small_windows),
        (&[WINDOWS], sdc_large_windows),
        (&[FIGURE_4], tcp_timeouts_fall),
        (&[FIGURE_4], tcp_backoffs_grow),
        (&[FIGURE_4], sdc_fewer_drops),
        (&[LATENCY], |r| sooner(r, "sdc-lower-mean-latency", "average", mean_latency)),
        (&[LATENCY], |r| sooner(r, "sdc-lower-worst-latency", "worst-case", worst_latency)),
        (&[FIGURE_9], |r| less_bias(r, FIGURE_9, "sdc-less-bias-10-flows")),
        (&[FIGURE_10], |r| less_bias(r, FIGURE_10, "sdc-less-bias-100-flows")),
        (&[FIGURE_9, FIGURE_10], tcp_biased),
        (&[FIGURE_11], sdc_yields),
        (&[FIGURE_11], |r| share_with_factor(r, "0.9", 30.0)),
        (&[FIGURE_11], |r| share_with_factor(r, "0.1", 90.0)),
        (&[FIGURE_11], sdc_tunable),
        (&[ALONE], sdc_alone),
        (&[FIGURE_4, FIGURE_12], avq_helps),
    ];
    makers.iter().filter(|(studies, _)| results.have(studies)).map(|(_, make)| make(results)).collect()
}

/// What a number was over the seeds, at one value of an axis of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct At {
    pub(super) x: f64,
    pub(super) values: Vec<f64>,
}

fn along(
    results: &Results,
    study: &str,
    axis: &str,
    fixed: &[(&str, &str)],
    of: fn(&Outcome) -> Option<f64>,
) -> Vec<At> {
    let mut points: Vec<At> = results
        .axis(study, axis)
        .iter()
        .filter_map(|value| {
            Some(At { x: value.parse().ok()?, values: results.values(study, &with(fixed, axis, value), of) })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

fn of_systems(results: &Results, study: &str, axis: &str, of: fn(&Outcome) -> Option<f64>) -> [Vec<At>; 2] {
    [TCP, SDC].map(|system| along(results, study, axis, &[("system", system)], of))
}

fn at(points: &[At], x: f64) -> &[f64] {
    points.iter().find(|p| p.x == x).map_or(&[], |p| &p.values)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// `30: 1.2 ± 0.1, 100: ...` at these values of the axis.
fn list(points: &[At], at_x: &[f64]) -> String {
    let texts = at_x.iter().map(|x| format!("{x}: {}", shown(at(points, *x))));
    texts.collect::<Vec<_>>().join(", ")
}

fn claim(id: &str, source: &str, says: &str, test: &str, verdict: Verdict, found: String) -> Claim {
    Claim { id: id.into(), source: source.into(), says: says.into(), test: test.into(), verdict, found }
}

/// Numbers of flows that texts of results show.
const SHOWN: [f64; 5] = [30.0, 60.0, 100.0, 200.0, 500.0];

/// Fewer for SDC at every number of flows above 30.
pub(super) fn fewer_beyond_30(tcp: &[At], sdc: &[At]) -> Verdict {
    all(tcp.iter().filter(|p| p.x > 30.0).map(|p| less(at(sdc, p.x), &p.values)))
}

fn sdc_few_timeouts(results: &Results) -> Claim {
    let [tcp, sdc] = of_systems(results, FIGURE_4, "flows", timeouts);
    claim(
        "sdc-few-timeouts",
        "SDC §3.1",
        "As the number of flows increases, the average number of timeouts of a connection can be kept small under SDC.",
        "Fewer timeouts per connection under SDC than under TCP at every number of flows above 30, paired by seed. The paper has no \
         number for small: that it means fewer than TCP, from where TCP's increase, is ours.",
        fewer_beyond_30(&tcp, &sdc),
        format!("timeouts per connection by flows: SDC {}; TCP {}", list(&sdc, &SHOWN), list(&tcp, &SHOWN)),
    )
}

/// At 60 flows more than twice those at 30.
pub(super) fn rises_beyond_30(tcp: &[At]) -> Verdict {
    let twice: Vec<f64> = at(tcp, 30.0).iter().map(|v| 2.0 * v).collect();
    more(at(tcp, 60.0), &twice)
}

fn tcp_many_timeouts(results: &Results) -> Claim {
    let [tcp, _] = of_systems(results, FIGURE_4, "flows", timeouts);
    claim(
        "tcp-timeouts-rise-beyond-30",
        "SDC §3.1",
        "Under ECN the average number of timeouts increases rapidly when the number of flows is larger than 30.",
        "More than twice as many timeouts per connection with 60 flows as with 30. The factor and the 60 are ours.",
        rises_beyond_30(&tcp),
        format!("TCP's timeouts per connection by flows: {}", list(&tcp, &SHOWN)),
    )
}

/// Percent of time that "hardly" allows: ours.
const HARDLY: f64 = 10.0;

/// At every number of flows hardly ever.
pub(super) fn hardly_ever(percents: &[At]) -> Verdict {
    all(percents.iter().map(|p| below(&p.values, HARDLY)))
}

/// At every number of flows nearly always.
pub(super) fn nearly_always(percents: &[At]) -> Verdict {
    all(percents.iter().map(|p| above(&p.values, 100.0 - HARDLY)))
}

const WINDOW_FLOWS: [f64; 4] = [40.0, 100.0, 200.0, 500.0];

fn tcp_small_windows(results: &Results) -> Claim {
    let [tcp, _] = of_systems(results, WINDOWS, "flows", above_four);
    claim(
        "tcp-windows-within-four",
        "SDC §3.1",
        "With more than 30 flows TCP's window can hardly exceed four packets.",
        "The first sender's window exceeds four packets less than 10 % of the time (ours), with 40, 100, 200 and 500 flows.",
        hardly_ever(&tcp),
        format!("percent of time above four packets by flows: {}", list(&tcp, &WINDOW_FLOWS)),
    )
}

fn sdc_large_windows(results: &Results) -> Claim {
    let [_, sdc] = of_systems(results, WINDOWS, "flows", eight_or_more);
    claim(
        "sdc-windows-above-eight",
        "SDC §3.1",
        "Under SDC the window can be kept above the threshold of eight packets.",
        "The first sender's window is eight packets or more over 90 % of the time (ours), with 40, 100, 200 and 500 flows.",
        nearly_always(&sdc),
        format!("percent of time at eight packets or more by flows: {}", list(&sdc, &WINDOW_FLOWS)),
    )
}

/// Less for SDC at every number of flows.
pub(super) fn less_everywhere(tcp: &[At], sdc: &[At]) -> Verdict {
    all(tcp.iter().map(|p| less(at(sdc, p.x), &p.values)))
}

fn sooner(results: &Results, id: &str, which: &str, of: fn(&Outcome) -> Option<f64>) -> Claim {
    let [tcp, sdc] = of_systems(results, LATENCY, "flows", of);
    let flows = [100.0, 500.0];
    claim(
        id,
        "SDC §3.3",
        &format!("SDC outperforms TCP in {which} packet delivery latency."),
        "Less under SDC than under TCP with 100 and with 500 flows, paired by seed.",
        less_everywhere(&tcp, &sdc),
        format!("seconds by flows: SDC {}; TCP {}", list(&sdc, &flows), list(&tcp, &flows)),
    )
}

/// Fewer at the most flows than at 200.
pub(super) fn falls_beyond_200(tcp: &[At]) -> Verdict {
    tcp.last().filter(|p| p.x > 200.0).map_or(Verdict::Undecided, |p| less(&p.values, at(tcp, 200.0)))
}

fn tcp_timeouts_fall(results: &Results) -> Claim {
    let [tcp, _] = of_systems(results, FIGURE_4, "flows", timeouts);
    claim(
        "tcp-timeouts-fall-beyond-200",
        "SDC §3.1",
        "TCP's timeouts are fewer again when the number of connections is larger than 200, for connections spend their time backing off.",
        "Fewer timeouts per connection with 500 flows than with 200.",
        falls_beyond_200(&tcp),
        format!("TCP's timeouts per connection by flows: {}", list(&tcp, &[100.0, 200.0, 300.0, 400.0, 500.0])),
    )
}

/// Longer at each of 200 to 500 flows than a hundred flows before.
pub(super) fn grows_by_hundreds(lengths: &[At]) -> Verdict {
    all([200.0, 300.0, 400.0, 500.0].map(|x| more(at(lengths, x), at(lengths, x - 100.0))))
}

fn tcp_backoffs_grow(results: &Results) -> Claim {
    let [tcp, _] = of_systems(results, FIGURE_4, "flows", backoff);
    claim(
        "tcp-backoffs-grow",
        "SDC §3.1",
        "The average time a TCP sender remains in the backoff phase increases with the number of flows.",
        "The mean length of a backoff grows from 100 to 200, 300, 400 and 500 flows, at each step.",
        grows_by_hundreds(&tcp),
        format!("seconds by flows: {}", list(&tcp, &[100.0, 200.0, 300.0, 400.0, 500.0])),
    )
}

/// Fewer for SDC wherever TCP has one per connection or more.
pub(super) fn fewer_where_there_are_any(tcp: &[At], sdc: &[At]) -> Verdict {
    all(tcp.iter().filter(|p| mean(&p.values) >= 1.0).map(|p| less(at(sdc, p.x), &p.values)))
}

fn sdc_fewer_drops(results: &Results) -> Claim {
    let [tcp, sdc] = of_systems(results, FIGURE_4, "flows", drops);
    claim(
        "sdc-fewer-drops",
        "SDC §3.2",
        "SDC has significantly fewer packet losses than TCP.",
        "Fewer drops per connection under SDC at every number of flows at which TCP has at least one (ours), paired by seed.",
        fewer_where_there_are_any(&tcp, &sdc),
        format!("drops per connection by flows: SDC {}; TCP {}", list(&sdc, &SHOWN), list(&tcp, &SHOWN)),
    )
}

/// How unlike two bandwidths are, whichever is the larger: 1 for 2:1 and for 1:2.
fn disparity(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

/// At every ratio of round trips above 1 SDC's disparity is at most half of TCP's.
pub(super) fn half_the_disparity(tcp: &[At], sdc: &[At]) -> Verdict {
    all(tcp.iter().filter(|p| p.x > 1.0).map(|p| {
        let half: Vec<f64> = p.values.iter().map(|v| disparity(*v) / 2.0).collect();
        let sdc: Vec<f64> = at(sdc, p.x).iter().map(|v| disparity(*v)).collect();
        less(&sdc, &half)
    }))
}

const RATIOS: [f64; 5] = [2.0, 5.0, 10.0, 30.0, 100.0];

fn less_bias(results: &Results, study: &str, id: &str) -> Claim {
    let [tcp, sdc] = of_systems(results, study, "ratio", near_over_far);
    claim(
        id,
        "SDC §3.4",
        "The disparity between flows of short and long round trips is much smaller when SDC is used.",
        "At every ratio of round trips above 1, how far the ratio of bandwidths is from 1 is under SDC at most half of what it is under \
         TCP, paired by seed. That much smaller means half is ours.",
        half_the_disparity(&tcp, &sdc),
        format!("bandwidth 1 / bandwidth 2 by ratio: SDC {}; TCP {}", list(&sdc, &RATIOS), list(&tcp, &RATIOS)),
    )
}

/// The near group gets more at every ratio of 2 and above.
pub(super) fn near_gets_more(tcp: &[At]) -> Verdict {
    all(tcp.iter().filter(|p| p.x >= 2.0).map(|p| above(&p.values, 1.0)))
}

fn tcp_biased(results: &Results) -> Claim {
    let [ten, hundred] =
        [FIGURE_9, FIGURE_10].map(|study| of_systems(results, study, "ratio", near_over_far)[0].clone());
    claim(
        "tcp-biased",
        "SDC §3.4",
        "TCP has a well-known bias against connections with long round trips.",
        "Under TCP the near group gets more at every ratio of round trips from 2 on, with 10 flows and with 100.",
        all([near_gets_more(&ten), near_gets_more(&hundred)]),
        format!(
            "bandwidth 1 / bandwidth 2 by ratio: 10 flows {}; 100 flows {}",
            list(&ten, &RATIOS),
            list(&hundred, &RATIOS)
        ),
    )
}

fn with_factor(results: &Results, factor: &str) -> Vec<f64> {
    results.values(FIGURE_11, &[("factor", factor)], sdc_percent)
}

/// SDC has less than TCP beside it.
pub(super) fn yields(percent: &[f64]) -> Verdict {
    below(percent, 100.0)
}

fn sdc_yields(results: &Results) -> Claim {
    let percent = with_factor(results, "equation");
    claim(
        "sdc-yields",
        "SDC §3.5",
        "SDC connections are in general less aggressive than TCP connections.",
        "50 SDC flows with equation (2) get less bandwidth than 50 TCP flows beside them.",
        yields(&percent),
        format!("SDC's bandwidth is {} % of TCP's", shown(&percent)),
    )
}

/// Points by which "about" may miss: ours.
const ABOUT: f64 = 10.0;

/// About this many percent.
pub(super) fn about(percent: &[f64], paper: f64) -> Verdict {
    within(percent, paper - ABOUT, paper + ABOUT)
}

fn share_with_factor(results: &Results, factor: &str, paper: f64) -> Claim {
    let percent = with_factor(results, factor);
    claim(
        &format!("sdc-share-with-factor-{factor}"),
        "SDC §3.5",
        &format!(
            "If D is reduced to {factor} D, SDC connections get about {paper:.0} % of the bandwidth of ECN connections."
        ),
        "Within ten points of it (ours).",
        about(&percent, paper),
        format!("{} %", shown(&percent)),
    )
}

/// More with the smallest factor than with the largest, and nowhere surely less with a smaller one. `percents` by rising factor.
pub(super) fn rises_as_the_factor_falls(percents: &[At]) -> Verdict {
    let [first, .., last] = percents else { return Verdict::Undecided };
    let steps = percents.windows(2).map(|pair| more(&pair[0].values, &pair[1].values));
    if steps.into_iter().any(|step| step == Verdict::NotHeld) {
        return Verdict::NotHeld;
    }
    more(&first.values, &last.values)
}

fn sdc_tunable(results: &Results) -> Claim {
    let percents = along(results, FIGURE_11, "factor", &[], sdc_percent);
    claim(
        "sdc-tunable",
        "SDC §3.5",
        "SDC can be made increasingly competitive by reducing its delay more aggressively.",
        "A larger part of TCP's bandwidth with D to .1 of itself than to .9, and at no step from one factor to the next smaller one a \
         significantly smaller part.",
        rises_as_the_factor_falls(&percents),
        format!("percent of TCP's bandwidth by factor: {}", list(&percents, &[0.1, 0.3, 0.5, 0.7, 0.9])),
    )
}

/// Throughputs differ by less than this part: ours.
const SAME: f64 = 0.05;

/// SDC's throughput is TCP's, within five percent.
pub(super) fn same_throughput(tcp: &[f64], sdc: &[f64]) -> Verdict {
    let ratios: Vec<f64> = sdc.iter().zip(tcp).map(|(s, t)| s / t).collect();
    if ratios.len() == 1 {
        // One run: no interval.
        let same = (ratios[0] - 1.0).abs() <= SAME;
        return if same { Verdict::Held } else { Verdict::NotHeld };
    }
    within(&ratios, 1.0 - SAME, 1.0 + SAME)
}

fn sdc_alone(results: &Results) -> Claim {
    let of = |window, system| results.values(ALONE, &[("window", window), ("system", system)], alone_mbps);
    let cases = ["20p", "none"].map(|window| (of(window, TCP), of(window, SDC)));
    let found = |(tcp, sdc): &(Vec<f64>, Vec<f64>)| format!("TCP {}, SDC {}", shown(tcp), shown(sdc));
    claim(
        "sdc-alone-as-tcp",
        "SDC §3.5",
        "When there is no congestion or no competition, SDC has the same throughput as TCP.",
        "One flow's throughput under SDC is within 5 % (ours) of that under TCP, both with a window too small for congestion and with \
         one that fills the link by itself.",
        all(cases.iter().map(|(tcp, sdc)| same_throughput(tcp, sdc))),
        format!("Mbps: small window {}; no limit {}", found(&cases[0]), found(&cases[1])),
    )
}

/// Fewer with the second queue wherever SDC has half a timeout per connection or more with the first.
pub(super) fn further_reduced(red: &[At], avq: &[At]) -> Verdict {
    all(red.iter().filter(|p| mean(&p.values) >= 0.5).map(|p| less(at(avq, p.x), &p.values)))
}

fn avq_helps(results: &Results) -> Claim {
    let [red, avq] = [FIGURE_4, FIGURE_12].map(|study| along(results, study, "flows", &[("system", SDC)], timeouts));
    claim(
        "avq-fewer-timeouts",
        "SDC §3.6",
        "With AVQ the number of timeouts under SDC is further reduced.",
        "Fewer timeouts per connection under SDC with AVQ than with RED at every number of flows at which there is at least half a one \
         with RED (ours), paired by seed.",
        further_reduced(&red, &avq),
        format!("SDC's timeouts per connection by flows: AVQ {}; RED {}", list(&avq, &SHOWN), list(&red, &SHOWN)),
    )
}
