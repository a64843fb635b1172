//! The models of the paths; tables 4-1 to 4-5; what one connection changes (DCA §4.5); figure 4-7.

use fathom_metrics::Estimate;

use crate::scenario::{GroupOutcome, LinkOutcome, Outcome};

use super::super::{Artefact, Axis, Body, Figure, Results, Row, Series};
use super::measured::{predicted, round_trips, series};
use super::{
    ALONE, ALTERED, ASU, BySeed, EMORY, PAIRED, PAIRED_ALTERED, REDUCTIONS, SHARES, TUNED, by_seed, entry, estimate,
    relative, row, table,
};

/// Curves of figure 4-7, as the study calls them, and as the paper draws them.
pub(super) const CURVES: [(&str, &str); 3] =
    [("DCA, heavy", "dark"), ("Vegas, heavy", "dash-dotted"), ("DCA, light", "dashed")];
/// Shares of the web users that send early, as the study has them.
pub(super) const STEPS: [&str; 10] = ["0%", "2.3%", "5%", "10%", "15%", "20%", "30%", "50%", "75%", "100%"];

/// Links that the paper says are congested, in the direction of the data.
pub(super) const CONGESTED: [(&str, &[&str]); 2] =
    [("emory", &["r4-r5", "r7-r8", "r10-r11"]), ("asu", &["r4-r5", "r7-r8", "r8-r9", "r10-r11"])];

/// Change of the early connection's number against Reno's in the same run, in percent.
fn change(o: &Outcome, of: impl Fn(&GroupOutcome) -> Option<f64>) -> Option<f64> {
    let (early, reno) = (of(o.groups.get("delay-based")?)?, of(o.groups.get("reno")?)?);
    (reno > 0.0).then(|| 100.0 * (early - reno) / reno)
}

pub(super) fn loss_rate(g: &GroupOutcome) -> Option<f64> {
    (g.sent > 0).then(|| g.lost as f64 / g.sent as f64)
}

pub(super) fn throughput_change(o: &Outcome) -> Option<f64> {
    change(o, |g| Some(g.throughput_bps))
}

pub(super) fn loss_change(o: &Outcome) -> Option<f64> {
    change(o, loss_rate)
}

/// A number of a controller's runs beside Reno on a path.
pub(super) fn paired(results: &Results, path: &str, controller: &str, of: impl Fn(&Outcome) -> Option<f64>) -> BySeed {
    by_seed(results, PAIRED, &[("path", path), ("controller", controller)], of)
}

/// The same on the altered Emory model.
pub(super) fn altered(
    results: &Results,
    level: &str,
    controller: &str,
    of: impl Fn(&Outcome) -> Option<f64>,
) -> BySeed {
    by_seed(results, PAIRED_ALTERED, &[("level", level), ("controller", controller)], of)
}

const PAIRED_NOTE: &str =
    "(early - Reno) / Reno in percent, both in the same run: mean (deviation) (95 % confidence interval).";

fn by_reduction(
    results: &Results,
    id: &str,
    title: &str,
    of: fn(&Outcome) -> Option<f64>,
    paper: [[&str; 2]; 3],
) -> Artefact {
    let rows = REDUCTIONS.iter().zip(paper).map(|((level, controller), [emory, asu])| {
        let ours = |path| estimate(&paired(results, path, controller, of));
        row(level, vec![entry(ours("emory"), emory), entry(ours("asu"), asu)])
    });
    table(id, title, &["Emory", "ASU"], rows.collect(), PAIRED_NOTE)
}

pub(super) fn table_4_1(results: &Results) -> Artefact {
    let paper = [
        ["-37 (8.1) (-42, -31)", "-13.2 (9.4) (-19.8, -6.6)"],
        ["-12 (12) (-21, -4)", "-9.8 (20) (-24, 4)"],
        ["-6.8 (8.6) (-13, -.8)", "-7.4 (15) (-18.1, 3.1)"],
    ];
    by_reduction(results, "table 4-1", "Change of throughput by reduction level, percent", throughput_change, paper)
}

pub(super) fn table_4_2(results: &Results) -> Artefact {
    let paper = [
        ["-7.5 (12.8) (-16.5, 1.5)", "-2.4 (15.6) (-13.4, 8.6)"],
        ["-8 (17.5) (-20, 4.2)", "7.8 (25.7) (-10.2, 26)"],
        ["3.4 (15) (-7.4, 14.3)", "7.8 (21) (-6.7, 22.6)"],
    ];
    by_reduction(results, "table 4-2", "Change of the loss rate by reduction level, percent", loss_change, paper)
}

pub(super) fn queue_7_8(o: &Outcome) -> Option<f64> {
    o.links.get("r7-r8").map(|l| l.mean_queue)
}

fn altered_row(results: &Results, level: &str, controller: &str, paper: &str, queue: &str) -> Row {
    let of = |of: &dyn Fn(&Outcome) -> Option<f64>| estimate(&altered(results, level, controller, of));
    let entries = vec![
        entry(of(&queue_7_8), queue),
        entry(of(&throughput_change), paper),
        entry(of(&loss_change), ""),
        entry(of(&|o| predicted(o, "delay-based")), ""),
    ];
    row(level, entries)
}

const ALTERED_COLUMNS: [&str; 4] = [
    "mean queue at 7-8 (of 200 packets)",
    "change of throughput, percent",
    "change of loss rate, percent",
    "P[sampledRTT(2) > windowAVG(20) + std] of the early connection",
];

pub(super) fn table_4_3(results: &Results) -> Artefact {
    let rows = vec![
        altered_row(results, "heavy", "dca", "-42.4 (6.9) (-47.3, -37.5)", "143.7"),
        altered_row(results, "light", "dca", "-50 (4.5) (-53.5, -4.7)", "38.3"),
    ];
    let note = format!(
        "{PAIRED_NOTE} The paper's text has it the other way round (DCA §4.3): 42 % less under moderate congestion, 53 % under heavy. The \
         changes of losses leave out runs in which Reno lost nothing."
    );
    table("table 4-3", "Altered Emory model: DCA", &ALTERED_COLUMNS, rows, &note)
}

pub(super) fn table_4_4(results: &Results) -> Artefact {
    let paper = [
        ("Emory", "emory", "-21 (-27, -15)", "-14.2 (-22.9, -5.43)"),
        ("ASU", "asu", "-7.3 (-20.3, 5.8)", "-18 (-23.3, -12.9)"),
    ];
    let rows = paper.map(|(name, path, vegas, dual)| {
        let ours = |controller| estimate(&paired(results, path, controller, throughput_change));
        row(name, vec![entry(ours("vegas"), vegas), entry(ours("dual"), dual)])
    });
    let title = "Change of throughput of Vegas-CAM and DUAL, percent";
    table("table 4-4", title, &["Vegas-CAM", "DUAL"], rows.into(), PAIRED_NOTE)
}

pub(super) fn table_4_5(results: &Results) -> Artefact {
    let rows = vec![altered_row(results, "heavy", "vegas", "-1 (16.6) (-12.3, 11)", "143.7")];
    table("table 4-5", "Altered Emory model: Vegas-CAM under heavy congestion", &ALTERED_COLUMNS, rows, PAIRED_NOTE)
}

fn link(o: &Outcome, name: &str, of: impl Fn(&LinkOutcome) -> f64) -> Option<f64> {
    o.links.get(name).map(of)
}

/// UDP's part of the packets that background groups send over a link, in percent.
fn udp_share(o: &Outcome, link: &str) -> Option<f64> {
    let sent = |kind: &str| o.background.get(&format!("{kind}-{link}")).map(|b| b.sent as f64);
    let (udp, web) = (sent("udp")?, sent("web")?);
    (udp + web > 0.0).then(|| 100.0 * udp / (udp + web))
}

/// Dropped at this link, percent of all that router links dropped in the direction of the data.
fn part_of_drops(o: &Outcome, name: &str) -> Option<f64> {
    let all: u64 = CONGESTED[1].1.iter().filter_map(|l| o.links.get(*l)).map(|l| l.dropped).sum();
    (all > 0).then_some(())?;
    link(o, name, |l| 100.0 * l.dropped as f64 / all as f64)
}

type Measure = Box<dyn Fn(&Outcome) -> Option<f64>>;

fn drops_at(name: &'static str) -> Measure {
    Box::new(move |o| link(o, name, |l| l.drops_percent))
}

fn udp_at(name: &'static str) -> Measure {
    Box::new(move |o| udp_share(o, name))
}

fn of_reno(of: fn(&GroupOutcome) -> Option<f64>) -> Measure {
    Box::new(move |o| of(o.groups.get("reno")?))
}

fn round_trip(o: &Outcome) -> Option<f64> {
    round_trips(series(o, "reno")?).map(|(mean, _)| mean * 1e3)
}

fn loss_percent(g: &GroupOutcome) -> Option<f64> {
    loss_rate(g).map(|rate| rate * 100.0)
}

fn kilobytes(g: &GroupOutcome) -> Option<f64> {
    Some(g.throughput_bps / 8e3)
}

pub(super) fn models(results: &Results) -> Artefact {
    let of = |study, level| {
        move |label: &'static str, of: Measure, wanted: &str| (study, level, label, of, wanted.to_owned())
    };
    let (emory, asu) = (of(EMORY, TUNED), of(ASU, TUNED));
    let (heavy, light) = (of(ALTERED, "heavy"), of(ALTERED, "light"));
    let rows = [
        emory("Emory: loss at 4-5, percent", drops_at("r4-r5"), "1.5"),
        emory("Emory: loss at 7-8, percent", drops_at("r7-r8"), ".86"),
        emory("Emory: loss at 10-11, percent", drops_at("r10-r11"), ".6"),
        emory("Emory: UDP at 4-5, percent of packets", udp_at("4-5"), "20"),
        emory("Emory: UDP at 7-8, percent of packets", udp_at("7-8"), "12"),
        emory("Emory: loss of Reno, percent", of_reno(loss_percent), "1 (simulated: .55)"),
        emory("Emory: mean round trip, ms", Box::new(round_trip), "66 (12)"),
        emory("Emory: throughput of Reno, kB/s", of_reno(kilobytes), "185.1 (77.5)"),
        asu("ASU: loss at 8-9, percent", drops_at("r8-r9"), "high, sustained"),
        asu("ASU: losses that are at 8-9, percent", Box::new(|o| part_of_drops(o, "r8-r9")), "the majority"),
        asu("ASU: loss at 4-5, percent", drops_at("r4-r5"), "low, bursty"),
        asu("ASU: loss at 7-8, percent", drops_at("r7-r8"), "low, bursty"),
        asu("ASU: loss at 10-11, percent", drops_at("r10-r11"), "low, bursty"),
        asu("ASU: UDP at 7-8, percent of packets", udp_at("7-8"), "50"),
        asu("ASU: UDP at 8-9, percent of packets", udp_at("8-9"), "8"),
        asu("ASU: loss of Reno, percent", of_reno(loss_percent), "7"),
        asu("ASU: mean round trip, ms", Box::new(round_trip), "179 (60)"),
        asu("ASU: throughput of Reno, kB/s", of_reno(kilobytes), "10.8 (7.3)"),
        heavy("altered, heavy: loss at 7-8, percent", drops_at("r7-r8"), ".8 to 2"),
        heavy("altered, heavy: mean queue at 7-8, packets", Box::new(queue_7_8), "143.7"),
        heavy("altered, heavy: UDP at 7-8, percent of packets", udp_at("7-8"), "less than 5"),
        light("altered, light: loss at 7-8, percent", drops_at("r7-r8"), "less than .5"),
        light("altered, light: mean queue at 7-8, packets", Box::new(queue_7_8), "38.3"),
    ];
    let rows = rows.into_iter().map(|(study, level, label, of, wanted)| {
        row(label, vec![entry(estimate(&by_seed(results, study, &[("level", level)], of)), &wanted)])
    });
    let note = "A Reno connection crosses each model alone; the paper's beside, measured where it says so in tables 3-1 and 3-2, else its \
                model's (DCA §4.1, §4.3). The tuning aimed at losses, UDP and, of the altered model, queues.";
    table("models", "The models of the paths", &["value"], rows.collect(), note)
}

/// Percent of the packets that arrived at a path's congested links that these dropped.
pub(super) fn lost_at(o: &Outcome, links: &[&str]) -> Option<f64> {
    let all: Option<Vec<&LinkOutcome>> = links.iter().map(|name| o.links.get(*name)).collect();
    let (dropped, arrived) = all?.iter().fold((0, 0), |(d, a), l| (d + l.dropped, a + l.arrived));
    (arrived > 0).then(|| 100.0 * dropped as f64 / arrived as f64)
}

/// Sum of the mean queues of a path's congested links, in packets.
pub(super) fn queue_at(o: &Outcome, links: &[&str]) -> Option<f64> {
    links.iter().map(|name| link(o, name, |l| l.mean_queue)).sum()
}

/// How often the queues of these links rise above their means, bin by bin.
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

/// A number of the links of a path.
pub(super) type OfLinks = fn(&Outcome, &[&str]) -> Option<f64>;
/// What is compared between a run with Reno and one with DCA (DCA §4.5).
pub(super) const OF_LINKS: [(&str, OfLinks); 3] =
    [("loss, percent", lost_at), ("sum of mean queues, packets", queue_at), ("queue oscillations", oscillations)];

pub(super) fn alone(results: &Results, path: &str, controller: &str, of: OfLinks) -> BySeed {
    let links = CONGESTED.iter().find(|(name, _)| *name == path).map_or(&[][..], |(_, links)| *links);
    by_seed(results, ALONE, &[("path", path), ("controller", controller)], |o| of(o, links))
}

pub(super) fn section_4_5(results: &Results) -> Artefact {
    let mut rows = Vec::new();
    for (path, _) in CONGESTED {
        for (name, of) in OF_LINKS {
            let (reno, dca) = (alone(results, path, "reno", of), alone(results, path, "dca", of));
            let change = entry(relative(&dca, &reno), "essentially unchanged");
            rows.push(row(
                &format!("{path}: {name}"),
                vec![entry(estimate(&reno), ""), entry(estimate(&dca), ""), change],
            ));
        }
    }
    let note = "The congested links of each path together. An oscillation is a rise of the queue, averaged over bins of half a second, above \
                its mean; the paper does not define its own.";
    table("section 4.5", "One connection, Reno or DCA", &["Reno", "DCA", "change, percent"], rows, note)
}

/// Percent of the packets sent over link 7-8 that come from users with the early controller.
pub(super) fn early_share(o: &Outcome, controller: &str, step: &str) -> Option<f64> {
    let sent = |group: &str| o.background.get(group).map(|b| b.sent as f64);
    let early = match step {
        "0%" => 0.0,
        // All users have it: no part of its own.
        "100%" => sent("web-7-8")?,
        _ => sent(&format!("web-7-8/{controller}"))?,
    };
    let measured = o.groups.get("measured")?.sent as f64;
    let all = sent("web-7-8")? + sent("udp-7-8")? + measured;
    (all > 0.0).then(|| 100.0 * early / all)
}

fn controller_of(curve: &str) -> &'static str {
    if curve.starts_with("Vegas") { "vegas" } else { "dca" }
}

/// Loss rate of link 7-8 in percent, by seed.
pub(super) fn loss_at_share(results: &Results, curve: &str, step: &str) -> BySeed {
    by_seed(results, SHARES, &[("curve", curve), ("share", step)], |o| link(o, "r7-r8", |l| l.drops_percent))
}

/// Mean part of the traffic at link 7-8 that is early, in percent.
pub(super) fn share(results: &Results, curve: &str, step: &str) -> Option<f64> {
    let of = |o: &Outcome| early_share(o, controller_of(curve), step);
    estimate(&by_seed(results, SHARES, &[("curve", curve), ("share", step)], of)).map(|e| e.mean)
}

pub(super) fn figure_4_7(results: &Results) -> Artefact {
    let series = CURVES.map(|(curve, drawn)| {
        let at = STEPS
            .iter()
            .filter_map(|step| Some((share(results, curve, step)?, estimate(&loss_at_share(results, curve, step))?)));
        let at: Vec<(f64, Estimate)> = at.collect();
        let spread: Option<Vec<f64>> = at.iter().map(|(_, e)| e.half_width).collect();
        let points = at.iter().map(|(x, e)| (*x, e.mean)).collect();
        Series { name: format!("{curve} ({drawn} in the paper)"), points, spread, scatter: false }
    });
    let figure = Figure {
        x: Axis {
            label: "early traffic, percent of the packets at link 7-8".into(),
            log: false,
            range: Some((0.0, 100.0)),
        },
        y: Axis { label: "loss rate at link 7-8, percent".into(), log: false, range: None },
        series: series.into(),
    };
    let note = "The paper's text gives for its curves: no drop before 10 % of DCA, none at all with Vegas, and a later one in the lightly \
                congested case. Its loss rate at no DCA is .8 to 2 % (heavy) and less than .5 % (light).";
    Artefact {
        id: "figure 4-7".into(),
        title: "Loss rate as delay-based traffic grows".into(),
        body: Body::Figure(figure),
        note: note.into(),
    }
}
