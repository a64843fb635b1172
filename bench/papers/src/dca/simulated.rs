//! Models of the paths; tables 4-1 to 4-5; changes caused by one connection (DCA §4.5); figure 4-7.

use fathom_experiments::scenario::{GroupOutcome, LinkOutcome, Outcome};
use fathom_report::{Axis, Entry, Row, Series};

use super::measured::{predicted, round_trips, series};
use super::{
    ALONE, ALTERED, ASU, EMORY, PAIRED, PAIRED_ALTERED, REDUCTIONS, SHARES, TUNED, VEGAS, relative,
};
use crate::results::{BySeed, Measure};
use crate::{Artefact, Results};

/// Curves of figure 4-7, with their names in the study and their line styles in the paper.
pub(super) const CURVES: [(&str, &str); 3] =
    [("DCA, heavy", "dark"), ("Vegas, heavy", "dash-dotted"), ("DCA, light", "dashed")];
/// Shares of the web users with the early controller, as named in the study.
pub(super) const STEPS: [&str; 10] =
    ["0%", "2.3%", "5%", "10%", "15%", "20%", "30%", "50%", "75%", "100%"];

/// Links that the paper calls congested, in the direction of the data.
pub(super) const CONGESTED: [(&str, &[&str]); 2] =
    [("emory", &["r4-r5", "r7-r8", "r10-r11"]), ("asu", &["r4-r5", "r7-r8", "r8-r9", "r10-r11"])];

/// Returns the change of the early connection's number relative to Reno's in the same run, in
/// percent.
fn change(o: &Outcome, of: impl Fn(&GroupOutcome) -> Option<f64>) -> Option<f64> {
    let (early, reno) = (of(o.groups.get("delay-based")?)?, of(o.groups.get("reno")?)?);
    (reno > 0.0).then(|| 100.0 * (early - reno) / reno)
}

fn loss_rate(g: &GroupOutcome) -> Option<f64> {
    (g.sent > 0).then(|| g.lost as f64 / g.sent as f64)
}

pub(crate) fn throughput_change(o: &Outcome) -> Option<f64> {
    change(o, |g| Some(g.throughput_bps))
}

/// Returns the change of TCP's timeouts.
pub(crate) fn timeout_change(o: &Outcome) -> Option<f64> {
    change(o, |g| Some(g.timeouts() as f64))
}

pub(super) fn loss_change(o: &Outcome) -> Option<f64> {
    change(o, loss_rate)
}

/// Returns a number of the runs of a controller beside Reno on a path.
pub(super) fn paired(r: &Results, path: &str, controller: &str, of: Measure) -> BySeed {
    r.by_seed(PAIRED, &[("path", path), ("controller", controller)], of)
}

/// Returns a number of the runs of a controller beside Reno on the altered Emory model.
pub(super) fn altered(
    r: &Results,
    level: &str,
    controller: &str,
    of: impl Fn(&Outcome) -> Option<f64>,
) -> BySeed {
    r.by_seed(PAIRED_ALTERED, &[("level", level), ("controller", controller)], of)
}

const PAIRED_NOTE: &str = "A change is (early - Reno) / Reno in percent. Here \"early\" is the \
                           throughput or loss rate of the connection with the delay-based \
                           controller, and \"Reno\" is that of the Reno connection in the same \
                           run. The paper's values are mean (deviation) (95 % confidence \
                           interval).";

fn by_reduction(r: &Results, title: &str, of: Measure, paper: [[&str; 2]; 3]) -> Artefact {
    let rows = REDUCTIONS.iter().zip(paper).map(|((level, controller), paper)| {
        let ours = ["emory", "asu"].map(|path| paired(r, path, controller, of).estimate());
        Row::new(*level, ours.into_iter().zip(paper).map(|(ours, paper)| Entry::new(ours, paper)))
    });
    Artefact::table(title, ["Emory", "ASU"], rows, PAIRED_NOTE)
}

pub(super) fn table_4_1(results: &Results) -> Artefact {
    let paper = [
        ["-37 (8.1) (-42, -31)", "-13.2 (9.4) (-19.8, -6.6)"],
        ["-12 (12) (-21, -4)", "-9.8 (20) (-24, 4)"],
        ["-6.8 (8.6) (-13, -0.8)", "-7.4 (15) (-18.1, 3.1)"],
    ];
    by_reduction(
        results,
        "Change of throughput by reduction level, percent",
        throughput_change,
        paper,
    )
}

pub(super) fn table_4_2(results: &Results) -> Artefact {
    let paper = [
        ["-7.5 (12.8) (-16.5, 1.5)", "-2.4 (15.6) (-13.4, 8.6)"],
        ["-8 (17.5) (-20, 4.2)", "7.8 (25.7) (-10.2, 26)"],
        ["3.4 (15) (-7.4, 14.3)", "7.8 (21) (-6.7, 22.6)"],
    ];
    by_reduction(results, "Change of the loss rate by reduction level, percent", loss_change, paper)
}

pub(super) fn queue_7_8(o: &Outcome) -> Option<f64> {
    o.links.get("r7-r8").map(|l| l.mean_queue)
}

fn altered_row(r: &Results, level: &str, controller: &str, paper: &str, queue: &str) -> Row {
    let entry =
        |of: Measure, paper| Entry::new(altered(r, level, controller, of).estimate(), paper);
    let entries = [
        entry(queue_7_8, queue),
        entry(throughput_change, paper),
        entry(loss_change, ""),
        entry(|o| predicted(o, "delay-based"), ""),
    ];
    Row::new(level, entries)
}

const ALTERED_COLUMNS: [&str; 4] = [
    "mean queue at link 7-8, packets (at most 200)",
    "change of throughput, percent",
    "change of the loss rate, percent",
    "P[sampledRTT(2) > windowAVG(20) + std] of the early connection",
];

pub(super) fn table_4_3(r: &Results) -> Artefact {
    let rows = [
        altered_row(r, "heavy", "dca", "-42.4 (6.9) (-47.3, -37.5)", "143.7"),
        altered_row(r, "light", "dca", "-50 (4.5) (-53.5, -4.7)", "38.3"),
    ];
    let note = format!(
        "{PAIRED_NOTE} The paper's text has the opposite order (DCA §4.3): throughput is 42 % \
         lower under moderate congestion and 53 % lower under heavy congestion. The changes of the \
         loss rate exclude runs in which Reno lost no packet."
    );
    Artefact::table("Altered Emory model: DCA", ALTERED_COLUMNS, rows, note)
}

pub(super) fn table_4_4(r: &Results) -> Artefact {
    let paper = [
        ("Emory", "emory", ["-21 (-27, -15)", "-14.2 (-22.9, -5.43)"]),
        ("ASU", "asu", ["-7.3 (-20.3, 5.8)", "-18 (-23.3, -12.9)"]),
    ];
    let rows = paper.map(|(name, path, paper)| {
        let ours = [VEGAS, "dual"]
            .map(|controller| paired(r, path, controller, throughput_change).estimate());
        Row::new(name, ours.into_iter().zip(paper).map(|(ours, paper)| Entry::new(ours, paper)))
    });
    let title = "Change of throughput of Vegas-CAM and DUAL, percent";
    Artefact::table(title, ["Vegas-CAM", "DUAL"], rows, PAIRED_NOTE)
}

pub(super) fn table_4_5(r: &Results) -> Artefact {
    let rows = [altered_row(r, "heavy", VEGAS, "-1 (16.6) (-12.3, 11)", "143.7")];
    Artefact::table(
        "Altered Emory model: Vegas-CAM under heavy congestion",
        ALTERED_COLUMNS,
        rows,
        PAIRED_NOTE,
    )
}

fn link(o: &Outcome, name: &str, of: impl Fn(&LinkOutcome) -> f64) -> Option<f64> {
    o.links.get(name).map(of)
}

/// Returns UDP's share of the packets that background groups send over a link, in percent.
fn udp_share(o: &Outcome, link: &str) -> Option<f64> {
    let sent = |kind: &str| o.background.get(&format!("{kind}-{link}")).map(|b| b.sent as f64);
    let (udp, web) = (sent("udp")?, sent("web")?);
    (udp + web > 0.0).then(|| 100.0 * udp / (udp + web))
}

/// Returns this link's share of all packets that router links dropped in the direction of the data,
/// in percent.
fn part_of_drops(o: &Outcome, name: &str) -> Option<f64> {
    let all: u64 = CONGESTED[1].1.iter().filter_map(|l| o.links.get(*l)).map(|l| l.dropped).sum();
    (all > 0).then_some(())?;
    link(o, name, |l| 100.0 * l.dropped as f64 / all as f64)
}

fn drops_at(o: &Outcome, name: &str) -> Option<f64> {
    link(o, name, |l| l.drops_percent)
}

fn loss_of_reno(o: &Outcome) -> Option<f64> {
    loss_percent(o.groups.get("reno")?)
}

pub(super) fn loss_percent(g: &GroupOutcome) -> Option<f64> {
    loss_rate(g).map(|rate| 100.0 * rate)
}

fn round_trip(o: &Outcome) -> Option<f64> {
    round_trips(series(o, "reno")?).map(|(mean, _)| mean * 1e3)
}

/// Returns Reno's throughput in kilobytes per second.
fn kilobytes(o: &Outcome) -> Option<f64> {
    Some(o.groups.get("reno")?.throughput_bps / 8e3)
}

/// Rows about one model: label, function of an outcome, and the paper's number.
type Facts<const N: usize> = [(&'static str, Measure, &'static str); N];

const OF_EMORY: Facts<8> = [
    ("loss at link 4-5, percent", |o| drops_at(o, "r4-r5"), "1.5"),
    ("loss at link 7-8, percent", |o| drops_at(o, "r7-r8"), "0.86"),
    ("loss at link 10-11, percent", |o| drops_at(o, "r10-r11"), "0.6"),
    ("UDP at link 4-5, percent of the packets", |o| udp_share(o, "4-5"), "20"),
    ("UDP at link 7-8, percent of the packets", |o| udp_share(o, "7-8"), "12"),
    ("loss of Reno, percent", loss_of_reno, "1 (simulated: 0.55)"),
    ("mean round trip, ms", round_trip, "66 (12)"),
    ("throughput of Reno, kB/s", kilobytes, "185.1 (77.5)"),
];
const OF_ASU: Facts<10> = [
    ("loss at link 8-9, percent", |o| drops_at(o, "r8-r9"), "high, sustained"),
    ("share of the losses at link 8-9, percent", |o| part_of_drops(o, "r8-r9"), "the majority"),
    ("loss at link 4-5, percent", |o| drops_at(o, "r4-r5"), "low, bursty"),
    ("loss at link 7-8, percent", |o| drops_at(o, "r7-r8"), "low, bursty"),
    ("loss at link 10-11, percent", |o| drops_at(o, "r10-r11"), "low, bursty"),
    ("UDP at link 7-8, percent of the packets", |o| udp_share(o, "7-8"), "50"),
    ("UDP at link 8-9, percent of the packets", |o| udp_share(o, "8-9"), "8"),
    ("loss of Reno, percent", loss_of_reno, "7"),
    ("mean round trip, ms", round_trip, "179 (60)"),
    ("throughput of Reno, kB/s", kilobytes, "10.8 (7.3)"),
];
const OF_HEAVY: Facts<3> = [
    ("loss at link 7-8, percent", |o| drops_at(o, "r7-r8"), "0.8 to 2"),
    ("mean queue at link 7-8, packets", queue_7_8, "143.7"),
    ("UDP at link 7-8, percent of the packets", |o| udp_share(o, "7-8"), "less than 5"),
];
const OF_LIGHT: Facts<2> = [
    ("loss at link 7-8, percent", |o| drops_at(o, "r7-r8"), "less than 0.5"),
    ("mean queue at link 7-8, packets", queue_7_8, "38.3"),
];

pub(super) fn models(r: &Results) -> Artefact {
    let of = |model: &'static str,
              study: &'static str,
              level: &'static str,
              facts: &'static [(&str, Measure, &str)]| {
        facts.iter().map(move |(what, of, paper)| {
            let ours = r.estimate(study, &[("level", level)], of);
            Row::new(format!("{model}: {what}"), [Entry::new(ours, paper)])
        })
    };
    let rows = of("Emory", EMORY, TUNED, &OF_EMORY)
        .chain(of("ASU", ASU, TUNED, &OF_ASU))
        .chain(of("altered, heavy", ALTERED, "heavy", &OF_HEAVY))
        .chain(of("altered, light", ALTERED, "light", &OF_LIGHT));
    let note = "In each model, one Reno connection is measured. The paper's values are measured \
                values if its tables 3-1 and 3-2 contain them, and otherwise values of its models \
                (DCA §4.1, DCA §4.3). Our models were tuned until losses and the share of UDP \
                matched the paper's values. In the altered model, the queue was also tuned.";
    Artefact::table("The models of the paths", ["value"], rows, note)
}

/// Returns the percentage of packets dropped at a path's congested links, of the packets that
/// arrived there.
pub(super) fn lost_at(o: &Outcome, links: &[&str]) -> Option<f64> {
    let all: Option<Vec<&LinkOutcome>> = links.iter().map(|name| o.links.get(*name)).collect();
    let (dropped, arrived) = all?.iter().fold((0, 0), |(d, a), l| (d + l.dropped, a + l.arrived));
    (arrived > 0).then(|| 100.0 * dropped as f64 / arrived as f64)
}

/// Returns the sum of the mean queues of a path's congested links, in packets.
pub(super) fn queue_at(o: &Outcome, links: &[&str]) -> Option<f64> {
    links.iter().map(|name| link(o, name, |l| l.mean_queue)).sum()
}

/// Returns how often the queues of these links rise above their means, from bin to bin.
pub(super) fn oscillations(o: &Outcome, links: &[&str]) -> Option<f64> {
    let rises = |bins: &[f64]| {
        let mean = bins.iter().sum::<f64>() / bins.len() as f64;
        bins.windows(2).filter(|pair| pair[0] <= mean && pair[1] > mean).count() as f64
    };
    let each = links.iter().map(|name| {
        let bins = &o.links.get(*name)?.queue_mean;
        (!bins.is_empty()).then(|| rises(bins))
    });
    each.sum()
}

/// A number computed from links of a path.
pub(super) type OfLinks = fn(&Outcome, &[&str]) -> Option<f64>;
/// Numbers compared between a run with Reno and a run with DCA (DCA §4.5).
pub(super) const OF_LINKS: [(&str, OfLinks); 3] = [
    ("loss, percent", lost_at),
    ("sum of mean queues, packets", queue_at),
    ("queue oscillations", oscillations),
];

pub(super) fn alone(r: &Results, path: &str, controller: &str, of: OfLinks) -> BySeed {
    let links =
        CONGESTED.iter().find(|(name, _)| *name == path).map_or(&[][..], |(_, links)| *links);
    r.by_seed(ALONE, &[("path", path), ("controller", controller)], |o| of(o, links))
}

pub(super) fn section_4_5(r: &Results) -> Artefact {
    let cases = CONGESTED.map(|(path, _)| OF_LINKS.map(|(name, of)| (path, name, of)));
    let rows = cases.into_iter().flatten().map(|(path, name, of)| {
        let [reno, dca] = ["reno", "dca"].map(|controller| alone(r, path, controller, of));
        let change = Entry::new(relative(&dca, &reno).estimate(), "essentially unchanged");
        let entries = [Entry::new(reno.estimate(), ""), Entry::new(dca.estimate(), ""), change];
        Row::new(format!("{path}: {name}"), entries)
    });
    let note = "Values are for all congested links of a path together. An oscillation is a rise of \
                the queue above its mean, with the queue averaged over bins of half a second. The \
                paper does not define its oscillations.";
    Artefact::table("One connection, Reno or DCA", ["Reno", "DCA", "change, percent"], rows, note)
}

/// Returns the percentage of the packets sent over link 7-8 that come from users with the early
/// controller.
fn early_share(o: &Outcome, controller: &str, step: &str) -> Option<f64> {
    let sent = |group: &str| o.background.get(group).map(|b| b.sent as f64);
    let early = match step {
        "0%" => 0.0,
        // All users have the early controller, so the group is not divided.
        "100%" => sent("web-7-8")?,
        _ => sent(&format!("web-7-8/{controller}"))?,
    };
    let measured = o.groups.get("measured")?.sent as f64;
    let all = sent("web-7-8")? + sent("udp-7-8")? + measured;
    (all > 0.0).then(|| 100.0 * early / all)
}

/// Returns the loss rate of link 7-8 in percent.
pub(super) fn loss_at_share(r: &Results, curve: &str, step: &str) -> BySeed {
    r.by_seed(SHARES, &[("curve", curve), ("share", step)], |o| drops_at(o, "r7-r8"))
}

/// Returns the mean share of early traffic at link 7-8, in percent.
pub(super) fn share(r: &Results, curve: &str, step: &str) -> Option<f64> {
    let controller = if curve.starts_with("Vegas") { VEGAS } else { "dca" };
    let of = |o: &Outcome| early_share(o, controller, step);
    r.estimate(SHARES, &[("curve", curve), ("share", step)], of).map(|e| e.mean)
}

pub(super) fn figure_4_7(r: &Results) -> Artefact {
    let series = CURVES.map(|(curve, drawn)| {
        let at =
            |step: &&str| Some((share(r, curve, step)?, loss_at_share(r, curve, step).estimate()?));
        Series::of_estimates(format!("{curve} ({drawn} in the paper)"), STEPS.iter().filter_map(at))
    });
    let axes = [
        Axis::linear("early traffic, percent of the packets at link 7-8").over(0.0, 100.0),
        Axis::linear("loss rate at link 7-8, percent"),
    ];
    let note = "In the paper, the loss rate does not fall until 10 % of the users have DCA. Under \
                light congestion it falls only at a larger share of DCA, and with Vegas it never \
                falls. Without DCA, the loss rate is 0.8 to 2 % under heavy congestion and less \
                than 0.5 % under light congestion.";
    Artefact::figure("Loss rate as delay-based traffic grows", axes, series, note)
}
