//! Predicates of the claims, from the paper's words and before any result was seen.

use fathom_metrics::Estimate;

use crate::scenario::Outcome;

use super::super::claims::{Finding, all as all_hold, opposite};
use super::super::{Results, Verdict};
use super::measured::{Measured, PATHS, at_lags, before_losses_below_median, predicted};
use super::simulated::{
    CONGESTED, OF_LINKS, STEPS, alone, altered, loss_at_share, loss_change, loss_rate, paired, share, throughput_change,
};
use super::verdicts::{above_zero, below_zero, shown, varies_more, within};
use super::{BySeed, EMORY, LEVELS, REDUCTIONS, TUNED, by_seed, difference, estimate, relative};

/// Largest change that counts as none, in percent. Ours: the paper says "essentially unchanged" and "essentially inactive".
const UNCHANGED: f64 = 10.0;
/// Part of the losses that must come after a round trip no longer than the median. Ours.
const NOT_ONLY_LARGE: f64 = 0.1;
/// The paper's simulated DCA traffic below which losses should not fall, in percent.
const BEGINS: f64 = 10.0;

impl Finding {
    /// A verdict on one estimate.
    pub(super) fn of(judge: fn(Option<Estimate>) -> Verdict, e: Option<Estimate>) -> Self {
        Self { verdict: judge(e), numbers: shown(e) }
    }

    /// A verdict on several, each with a name, all of which have to hold.
    fn all(judge: impl Fn(Option<Estimate>) -> Verdict, parts: Vec<(String, Option<Estimate>)>) -> Self {
        Self {
            verdict: all_hold(parts.iter().map(|(_, e)| judge(*e))),
            numbers: parts.into_iter().map(|(name, e)| format!("{name}: {}", shown(e))).collect::<Vec<_>>().join("; "),
        }
    }
}

fn both() -> [&'static Measured; 2] {
    [&PATHS[0], &PATHS[1]]
}

fn predicted_over_levels(results: &Results, path: &Measured) -> BySeed {
    path.over_levels(|level| path.predicted(results, level))
}

fn degradation_over_levels(results: &Results, path: &Measured) -> BySeed {
    path.over_levels(|level| path.degradation(results, level))
}

pub(super) fn few_losses_predicted(results: &Results) -> Finding {
    let parts = both().map(|path| (path.name.to_owned(), estimate(&predicted_over_levels(results, path))));
    Finding::all(|e| within(e, 0.07, 0.18), parts.into())
}

pub(super) fn asu_predicts_least(results: &Results) -> Finding {
    let [emory, asu] = both().map(|path| predicted_over_levels(results, path));
    Finding::of(below_zero, difference(&asu, &emory))
}

pub(super) fn models_predict_as_paths(results: &Results) -> Finding {
    // Smallest and largest mean of the paths' rows of table 3-4.
    let spans = [(0.137, 0.2), (0.063, 0.081)];
    let each = both().map(|path| estimate(&path.predicted(results, TUNED)));
    let verdict = all_hold(each.iter().zip(spans).map(|(e, (low, high))| within(*e, low, high)));
    let found = both().iter().zip(each).map(|(path, e)| format!("{}: {}", path.name, shown(e))).collect::<Vec<_>>();
    Finding { verdict, numbers: found.join("; ") }
}

pub(super) fn predicted_to_lose(results: &Results) -> Finding {
    let each = both().into_iter().flat_map(|path| LEVELS.map(|level| (path, level)));
    let parts =
        each.map(|(path, level)| (format!("{} at {level}", path.name), estimate(&path.degradation(results, level))));
    Finding::all(below_zero, parts.collect())
}

pub(super) fn congestion_costs_less(results: &Results) -> Finding {
    let [emory, asu] = both().map(|path| degradation_over_levels(results, path));
    let mut parts = vec![("ASU less Emory".to_owned(), difference(&asu, &emory))];
    for path in both() {
        let change = difference(&path.degradation(results, LEVELS[4]), &path.degradation(results, LEVELS[0]));
        parts.push((format!("{}, 120 % less 80 %", path.name), change));
    }
    Finding::all(above_zero, parts)
}

pub(super) fn rise_after_the_loss(results: &Results) -> Finding {
    let parts = both().map(|path| {
        let at = at_lags(results, path.study, &[1, -1]);
        (format!("{}, +1 less -1", path.name), difference(&at[0], &at[1]))
    });
    Finding::all(above_zero, parts.into())
}

pub(super) fn emory_early_rise(results: &Results) -> Finding {
    let at = at_lags(results, EMORY, &[-1, -10]);
    let above_mean: BySeed = at[0].iter().map(|(seed, x)| (*seed, x - 1.0)).collect();
    let parts = vec![
        ("at -1, less 1".to_owned(), estimate(&above_mean)),
        ("-10 less -1".to_owned(), difference(&at[1], &at[0])),
    ];
    Finding::all(above_zero, parts)
}

pub(super) fn losses_after_short_round_trips(results: &Results) -> Finding {
    let part = estimate(&by_seed(results, EMORY, &[("level", TUNED)], before_losses_below_median));
    Finding { verdict: within(part, NOT_ONLY_LARGE, 1.0), numbers: shown(part) }
}

/// A verdict on the runs of a controller beside Reno on a path.
pub(super) fn on_path(
    results: &Results,
    path: &str,
    controller: &str,
    of: fn(&Outcome) -> Option<f64>,
    judge: fn(Option<Estimate>) -> Verdict,
) -> Finding {
    Finding::of(judge, estimate(&paired(results, path, controller, of)))
}

fn change_of(results: &Results, path: &str, controller: &str) -> BySeed {
    paired(results, path, controller, throughput_change)
}

pub(super) fn degrades(results: &Results) -> Finding {
    let parts = ["emory", "asu"].map(|path| (path.to_owned(), estimate(&change_of(results, path, REDUCTIONS[0].1))));
    Finding::all(below_zero, parts.into())
}

pub(super) fn smaller_reductions_cost_less(results: &Results) -> Finding {
    let parts = ["emory", "asu"].map(|path| {
        let (deep, small) = (change_of(results, path, REDUCTIONS[0].1), change_of(results, path, REDUCTIONS[2].1));
        (format!("{path}, 12.5 % less 50 %"), difference(&small, &deep))
    });
    Finding::all(above_zero, parts.into())
}

pub(super) fn small_reduction_avoids_nothing(results: &Results) -> Finding {
    let e = estimate(&paired(results, "emory", REDUCTIONS[2].1, loss_change));
    // Without an interval nothing is decided; with one that reaches zero, it is what the paper says.
    let verdict = match e.and_then(|e| e.interval()) {
        None => Verdict::Undecided,
        Some(_) if below_zero(e) == Verdict::Held => Verdict::NotHeld,
        Some(_) => Verdict::Held,
    };
    Finding { verdict, numbers: shown(e) }
}

pub(super) fn asu_avoids_less(results: &Results) -> Finding {
    let [emory, asu] = ["emory", "asu"].map(|path| paired(results, path, REDUCTIONS[0].1, loss_change));
    Finding::of(above_zero, difference(&asu, &emory))
}

pub(super) fn asu_varies_more(results: &Results) -> Finding {
    let [deep, middle, small] =
        REDUCTIONS.map(|(_, controller)| estimate(&paired(results, "asu", controller, loss_change)));
    let deviation =
        |e: Option<Estimate>| e.and_then(|e| e.deviation).map_or("not measured".into(), |s| format!("{s:.1}"));
    Finding {
        verdict: all_hold([varies_more(middle, deep), varies_more(small, deep)]),
        numbers: format!(
            "deviations at 50, 25 and 12.5 %: {}, {}, {}",
            deviation(deep),
            deviation(middle),
            deviation(small)
        ),
    }
}

pub(super) fn altered_degrades(results: &Results) -> Finding {
    let parts = ["heavy", "light"]
        .map(|level| (level.to_owned(), estimate(&altered(results, level, "dca", throughput_change))));
    Finding::all(below_zero, parts.into())
}

pub(super) fn altered_light_loses_less(results: &Results) -> Finding {
    let of = |group: &'static str| {
        altered(results, "light", "dca", |o| loss_rate(o.groups.get(group)?).map(|rate| 100.0 * rate))
    };
    let (dca, reno) = (of("delay-based"), of("reno"));
    let change = difference(&dca, &reno);
    let found =
        format!("DCA {}, Reno {} percent; difference {}", shown(estimate(&dca)), shown(estimate(&reno)), shown(change));
    Finding { verdict: below_zero(change), numbers: found }
}

pub(super) fn altered_predicts_more(results: &Results) -> Finding {
    let measured = PATHS[0].predicted(results, TUNED);
    let parts = ["heavy", "light"].map(|level| {
        let of = altered(results, level, "dca", |o| predicted(o, "delay-based"));
        (format!("{level} less measured"), difference(&of, &measured))
    });
    Finding::all(above_zero, parts.into())
}

pub(super) fn vegas_and_dual_degrade(results: &Results) -> Finding {
    let each = ["emory", "asu"].into_iter().flat_map(|path| ["vegas", "dual"].map(|controller| (path, controller)));
    let parts = each.map(|(path, c)| (format!("{c} on {path}"), estimate(&change_of(results, path, c))));
    Finding::all(below_zero, parts.collect())
}

pub(super) fn lose_less_than_dca(results: &Results) -> Finding {
    let each = ["emory", "asu"].into_iter().flat_map(|path| ["vegas", "dual"].map(|controller| (path, controller)));
    let parts = each.map(|(path, c)| {
        let dca = change_of(results, path, REDUCTIONS[0].1);
        (format!("{c} less DCA on {path}"), difference(&change_of(results, path, c), &dca))
    });
    Finding::all(above_zero, parts.collect())
}

pub(super) fn vegas_loses_less_on_asu(results: &Results) -> Finding {
    let [emory, asu] = ["emory", "asu"].map(|path| change_of(results, path, "vegas"));
    Finding::of(above_zero, difference(&asu, &emory))
}

pub(super) fn vegas_altered_loses_little(results: &Results) -> Finding {
    let there = altered(results, "heavy", "vegas", throughput_change);
    Finding::of(above_zero, difference(&there, &change_of(results, "emory", "vegas")))
}

pub(super) fn one_flow_changes_nothing(results: &Results) -> Finding {
    let mut parts = Vec::new();
    for (path, _) in CONGESTED {
        for (name, of) in OF_LINKS {
            let change = relative(&alone(results, path, "dca", of), &alone(results, path, "reno", of));
            parts.push((format!("{path}, {name}: change in percent"), change));
        }
    }
    Finding::all(|e| within(e, -UNCHANGED, UNCHANGED), parts)
}

/// Loss rate at a share less that at none, in percent of the packets.
pub(super) fn drop_at(results: &Results, curve: &str, step: &str) -> Option<Estimate> {
    difference(&loss_at_share(results, curve, step), &loss_at_share(results, curve, STEPS[0]))
}

/// The smallest share of early traffic, in percent of the packets, at which the link loses less than without any.
fn first_fall(results: &Results, curve: &str) -> Option<f64> {
    let fell = |step: &&&str| below_zero(drop_at(results, curve, step)) == Verdict::Held;
    STEPS[1..].iter().find(fell).and_then(|step| share(results, curve, step))
}

fn first_fall_text(first: Option<f64>) -> String {
    first.map_or("at no share".into(), |share| format!("at {share:.1} %"))
}

pub(super) fn falls_from_ten_percent(results: &Results) -> Finding {
    let first = first_fall(results, "DCA, heavy");
    let verdict = match first {
        Some(share) if share >= BEGINS => Verdict::Held,
        Some(_) => Verdict::NotHeld,
        // No fall anywhere: not what the paper says where even the largest share is measured to do nothing or harm.
        None => match opposite(below_zero(drop_at(results, "DCA, heavy", "100%"))) {
            Verdict::Held => Verdict::NotHeld,
            _ => Verdict::Undecided,
        },
    };
    Finding { verdict, numbers: format!("first below the loss rate of no DCA {}", first_fall_text(first)) }
}

pub(super) fn vegas_inactive(results: &Results) -> Finding {
    let curve = "Vegas, heavy";
    let change = relative(&loss_at_share(results, curve, "100%"), &loss_at_share(results, curve, STEPS[0]));
    Finding { verdict: within(change, -UNCHANGED, UNCHANGED), numbers: format!("change in percent: {}", shown(change)) }
}

pub(super) fn light_needs_more(results: &Results) -> Finding {
    let (heavy, light) = (first_fall(results, "DCA, heavy"), first_fall(results, "DCA, light"));
    let verdict = match (heavy, light) {
        (Some(heavy), Some(light)) if light > heavy => Verdict::Held,
        (_, Some(_)) => Verdict::NotHeld,
        _ => Verdict::Undecided,
    };
    let found = format!("first fall heavy {}, light {}", first_fall_text(heavy), first_fall_text(light));
    Finding { verdict, numbers: found }
}
