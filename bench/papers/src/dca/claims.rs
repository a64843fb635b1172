//! Claims of the paper about these experiments, with predicates from its words, written before any
//! result was known.

use std::fmt::Display;

use fathom_metrics::Estimate;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::measured::{Measured, PATHS, at_lags, before_losses_below_median, predicted};
use super::simulated::{
    CONGESTED, OF_LINKS, STEPS, alone, altered, loss_at_share, loss_change, loss_percent, paired,
    share, throughput_change,
};
use super::{
    ALONE, ASU, EMORY, LEVELS, PAIRED, PAIRED_ALTERED, REDUCTIONS, SHARES, TUNED, VEGAS, relative,
};
use crate::claims::{above, all, below, between, more};
use crate::results::{BySeed, Pairs};
use crate::{ClaimCheck, Finding, Results, Verdict, claim};

/// Largest change that counts as none, in percent. Our choice: the paper says "essentially
/// unchanged" and "essentially inactive".
const UNCHANGED: f64 = 10.0;
/// Minimum fraction of losses after a round trip no longer than the median. Our choice.
const NOT_ONLY_LARGE: f64 = 0.1;
/// Share of DCA traffic in percent below which losses should not fall, from the paper's simulation.
const BEGINS: f64 = 10.0;
/// Minimum difference, in percentage points, at which a share of traffic counts as larger. Our
/// choice.
const LARGER: f64 = 5.0;
const BOTH: [&Measured; 2] = [&PATHS[0], &PATHS[1]];
/// DCA with the paper's reduction.
const DCA: &str = REDUCTIONS[0].1;
/// Paths, and the other controllers run on them.
const OTHERS: [(&str, &str); 4] =
    [("emory", VEGAS), ("emory", "dual"), ("asu", VEGAS), ("asu", "dual")];

/// Reason why the delays before losses differ from the paper's.
const MODEL: &str = "The paper measured real Internet paths and did not publish its models of \
                     these paths. Our models are tuned only to losses and round trips. In our \
                     models, one or two UDP sources per link fill the queue within milliseconds \
                     before a loss. No ladder shows this cause, because packet-level TCP keeps no \
                     samples of round trips.";

pub(super) const CLAIMS: &[ClaimCheck] = &[
    claim("dca-few-losses-predicted", "DCA §3.2.1", &[EMORY, ASU])
        .says(
            "On average over the times of day, a significant rise in the round-trip time precedes \
             7 to 18 % of the losses on a path.",
        )
        .test("On both paths, the indication metric averaged over the five levels is between 0.07 \
               and 0.18, including its interval.")
        .cause(MODEL)
        .asks(|r| {
            let parts = BOTH.map(|path| (path.name, path.over_levels(|level| path.predicted(r, level))));
            each(parts, |part| between(part.estimate(), 0.07, 0.18))
        }),
    claim("dca-asu-predicts-least", "DCA §3.2.1", &[EMORY, ASU])
        .says("The congested path 7 (ASU) has the smallest share of predicted losses.")
        .test("Paired by seed, the indication metric averaged over the levels is smaller on ASU \
               than on Emory.")
        .asks(|r| {
            let [emory, asu] = BOTH.map(|path| path.over_levels(|level| path.predicted(r, level)));
            one(&asu.minus(&emory), below_zero)
        }),
    claim("dca-models-predict-as-paths", "DCA §4.1", &[EMORY, ASU])
        .says("The models show about the same correlation between losses and rising round trips as \
               the measured paths.")
        .test(
            "At the tuned level, the indication metric including its interval is within the range \
             of the paper's values for this path in table 3-4. The criterion is our choice.",
        )
        .cause(MODEL)
        .asks(|r| {
            // Smallest and largest mean in the paths' rows of table 3-4.
            let spans = [(0.137, 0.2), (0.063, 0.081)];
            Finding::together(BOTH.iter().zip(spans).map(|(path, (low, high))| {
                let part = path.predicted(r, TUNED);
                Finding::new(between(part.estimate(), low, high), format!("{}: {part}", path.name))
            }))
        }),
    claim("dca-predicted-to-lose", "DCA §3.3, table 3-5", &[EMORY, ASU])
        .says("DCA is predicted to reduce the throughput by 4 to 70 %.")
        .test("On both paths and at every level, the predicted change of throughput is below zero.")
        .cause("On ASU at levels of 110 and 120 %, the predicted change is above zero. Windows at \
                these levels have at most six packets, so a reduction costs less throughput than \
                the shorter round trip gains. In the paper, the change on this path is only -4 % \
                at one time of day. No ladder shows this cause, because packet-level TCP keeps no \
                samples of round trips.")
        .asks(|r| {
            let cases = BOTH.map(|path| LEVELS.map(|level| (format!("{} at {level}", path.name), path.degradation(r, level))));
            each(cases.into_iter().flatten(), below_zero)
        }),
    claim("dca-congestion-costs-less", "DCA §3.3, table 3-5", &[EMORY, ASU])
        .says("The predicted degradation becomes smaller as the loss rate grows.")
        .test(
            "Paired by seed, the predicted reduction of throughput is smaller on ASU than on Emory \
             (over all levels). On each path, it is smaller at a level of 120 % than at 80 %.",
        )
        .asks(|r| {
            let [emory, asu] = BOTH.map(|path| path.over_levels(|level| path.degradation(r, level)));
            let on_path = BOTH.map(|path| {
                let change = path.degradation(r, LEVELS[4]).minus(&path.degradation(r, LEVELS[0]));
                (format!("{}, 120 % minus 80 %", path.name), change)
            });
            each([("ASU minus Emory".to_owned(), asu.minus(&emory))].into_iter().chain(on_path), above_zero)
        }),
    claim("dca-rise-after-the-loss", "DCA §3.2.2, figures 3-1 and 3-2", &[EMORY, ASU])
        .says("Round-trip samples after the sending of a lost packet are longer than the samples \
               before it. On path 7, the delay peaks around lag +1.")
        .test("Paired by seed, the relative delay on both paths is longer at lag +1 than at lag \
               -1.")
        .asks(|r| {
            let parts = BOTH.map(|path| {
                let [after, before] = at_lags(r, path.study, [1, -1]);
                (format!("{}, lag +1 minus lag -1", path.name), after.minus(&before))
            });
            each(parts, above_zero)
        }),
    claim("dca-emory-early-rise", "DCA §3.2.2, figure 3-1", &[EMORY])
        .says("On path 1, the delay has a small rise at lag -1 and a larger rise at lag -10.")
        .test("Paired by seed, the relative delay on Emory is above 1 at lag -1, and longer at lag \
               -10 than at lag -1.")
        .cause(MODEL)
        .asks(|r| {
            let [near, far] = at_lags(r, EMORY, [-1, -10]);
            each([("at lag -1, minus 1", near.map(|x| x - 1.0)), ("lag -10 minus lag -1", far.minus(&near))], above_zero)
        }),
    claim("dca-losses-after-short-round-trips", "DCA §3.2.3, figure 3-3", &[EMORY])
        .says("Losses do not occur only after the longest round trips.")
        .test("On Emory, more than 10 % (our choice) of the losses follow a sampledRTT(2) that is \
               no longer than the median round trip.")
        .asks(|r| {
            let part = r.by_seed(EMORY, &[("level", TUNED)], before_losses_below_median);
            one(&part, |part| between(part.estimate(), NOT_ONLY_LARGE, 1.0))
        }),
    claim("dca-degrades", "DCA §4.3, table 4-1", &[PAIRED])
        .says("With a reduction of 50 %, DCA gets less throughput on both paths than the competing \
               Reno connection.")
        .test("With a reduction of 50 %, the change of throughput is below zero on both paths.")
        .asks(|r| each(["emory", "asu"].map(|path| (path, throughput(r, path, DCA))), below_zero)),
    claim("dca-smaller-reductions-cost-less", "DCA §4.3, table 4-1", &[PAIRED])
        .says("A smaller reduction costs less throughput.")
        .test("Paired by seed, the change of throughput on both paths is higher with a reduction \
               of 12.5 % than with a reduction of 50 %.")
        .asks(|r| {
            let parts = ["emory", "asu"].map(|path| {
                let change = throughput(r, path, REDUCTIONS[2].1).minus(&throughput(r, path, DCA));
                (format!("{path}, 12.5 % minus 50 %"), change)
            });
            each(parts, above_zero)
        }),
    claim("dca-emory-loses-less", "DCA §4.3, table 4-2", &[PAIRED])
        .says("On the Emory path, DCA lowers the loss rate of its connection by roughly 7 %.")
        .test("On Emory, the change of the loss rate with a reduction of 50 % is below zero.")
        .asks(|r| one(&paired(r, "emory", DCA, loss_change), below_zero)),
    claim("dca-small-reduction-avoids-nothing", "DCA §4.3, table 4-2", &[PAIRED])
        .says("On the Emory path, a reduction of 12.5 % does not appear to lower the loss rate.")
        .test("On Emory, the change of the loss rate with a reduction of 12.5 % is not below zero \
               by more than its interval.")
        .asks(|r| {
            // Without an interval nothing is decided. An interval that reaches zero confirms the
            // paper's statement.
            one(&paired(r, "emory", REDUCTIONS[2].1, loss_change), |change| {
                match change.estimate().and_then(|e| e.interval()) {
                    None => Verdict::Undecided,
                    Some(_) if below_zero(change) == Verdict::Held => Verdict::NotHeld,
                    Some(_) => Verdict::Held,
                }
            })
        }),
    claim("dca-asu-avoids-less", "DCA §4.3, table 4-2", &[PAIRED])
        .says("DCA avoids fewer losses on the ASU path than on the Emory path.")
        .test("Paired by seed, the change of the loss rate with a reduction of 50 % is higher on \
               ASU than on Emory.")
        .asks(|r| {
            let [emory, asu] = ["emory", "asu"].map(|path| paired(r, path, DCA, loss_change));
            one(&asu.minus(&emory), above_zero)
        }),
    claim("dca-asu-varies-more", "DCA §4.3, table 4-2", &[PAIRED])
        .says("On the ASU path, the change of the loss rate varies more with the smaller \
               reductions.")
        .test("On ASU, the deviation of the change of the loss rate is larger with reductions of \
               25 and 12.5 % than with a reduction of 50 %, by an F test at 5 % (our choice).")
        .asks(|r| {
            let each = REDUCTIONS.map(|(_, controller)| paired(r, "asu", controller, loss_change).estimate());
            let shown = each.map(|e| e.and_then(|e| e.deviation).map_or("not measured".into(), |s| format!("{s:.1}")));
            let [deep, middle, small] = each;
            let verdict = all([varies_more(middle, deep), varies_more(small, deep)]);
            Finding::new(verdict, format!("deviations at 50, 25 and 12.5 %: {}", shown.join(", ")))
        }),
    claim("dca-altered-degrades", "DCA §4.3, table 4-3", &[PAIRED_ALTERED])
        .says("If web users are the background traffic, DCA reduces throughput significantly at \
               both levels of congestion.")
        .test("The change of throughput is below zero at both levels of congestion.")
        .asks(|r| {
            each(["heavy", "light"].map(|level| (level, altered(r, level, DCA, throughput_change))), below_zero)
        }),
    claim("dca-altered-light-loses-less", "DCA §4.3", &[PAIRED_ALTERED])
        .says("Under light congestion, DCA is somewhat successful and avoids up to 30 % of the \
               losses.")
        .test("Under light congestion and paired by run, the loss rate of DCA is below the loss \
               rate of Reno.")
        .asks(|r| {
            let rate = |group| altered(r, "light", DCA, |o| loss_percent(o.groups.get(group)?));
            let (dca, reno) = (rate("delay-based"), rate("reno"));
            let change = dca.minus(&reno);
            let numbers = format!("DCA {dca}, Reno {reno} percent; difference {change}");
            Finding::new(below_zero(&change), numbers)
        }),
    claim("dca-altered-predicts-more", "DCA §4.3", &[PAIRED_ALTERED, EMORY])
        .says("On the altered model, losses are predicted significantly more often than on the \
               measured path.")
        .test(
            "Paired by seed, the indication metric of the DCA connection at both levels of \
             congestion is above that of Reno on Emory at the tuned level.",
        )
        .cause("Our altered model has 470 or 580 web users. The paper's model has 2,200 web users, \
                so queues change more slowly in the paper. No ladder shows this cause, because \
                packet-level TCP keeps no samples of round trips.")
        .asks(|r| {
            let measured = PATHS[0].predicted(r, TUNED);
            let parts = ["heavy", "light"].map(|level| {
                let there = altered(r, level, DCA, |o| predicted(o, "delay-based"));
                (format!("{level} minus measured"), there.minus(&measured))
            });
            each(parts, above_zero)
        }),
    claim("dca-vegas-and-dual-degrade", "DCA §4.4, table 4-4", &[PAIRED])
        .says("Both Vegas-CAM and DUAL get less throughput than the competing Reno connection.")
        .test("The change of throughput is below zero for both controllers on both paths.")
        .asks(|r| {
            each(OTHERS.map(|(path, c)| (format!("{c} on {path}"), throughput(r, path, c))), below_zero)
        }),
    claim("dca-vegas-and-dual-lose-less-than-dca", "DCA §4.4", &[PAIRED])
        .says("Vegas-CAM and DUAL lose less throughput than DCA.")
        .test("Paired by seed, the change of throughput of Vegas-CAM and of DUAL is above that of \
               DCA with a reduction of 50 %, on both paths.")
        .cause(super::VEGAS_ON_QUIC)
        .asks(|r| {
            let parts = OTHERS.map(|(path, c)| {
                (format!("{c} minus DCA on {path}"), throughput(r, path, c).minus(&throughput(r, path, DCA)))
            });
            each(parts, above_zero)
        }),
    claim("dca-vegas-loses-less-on-asu", "DCA §4.4, table 4-4", &[PAIRED])
        .says("Vegas-CAM loses less throughput on the congested ASU path than on Emory.")
        .test("Paired by seed, the change of throughput of Vegas-CAM on ASU is above that on \
               Emory.")
        .cause(super::VEGAS_ON_QUIC)
        .asks(|r| one(&throughput(r, "asu", VEGAS).minus(&throughput(r, "emory", VEGAS)), above_zero)),
    claim("dca-vegas-altered-loses-little", "DCA §4.4, table 4-5", &[PAIRED, PAIRED_ALTERED])
        .says("On the altered model under heavy congestion, Vegas-CAM loses much less throughput \
               (1 %) than on Emory.")
        .test("Paired by seed, the change of throughput of Vegas-CAM on the altered model is above \
               that on Emory.")
        .asks(|r| {
            let there = altered(r, "heavy", VEGAS, throughput_change);
            one(&there.minus(&throughput(r, "emory", VEGAS)), above_zero)
        }),
    claim("dca-one-flow-changes-nothing", "DCA §4.5", &[ALONE])
        .says(
            "If one DCA connection replaces a Reno connection, losses, mean queues and queue \
             oscillations remain essentially unchanged.",
        )
        .test("Paired by run, losses, mean queues and queue oscillations change by less than 10 % \
               (our choice) on both paths, including their intervals.")
        .asks(|r| {
            let cases = CONGESTED.map(|(path, _)| OF_LINKS.map(|(name, of)| (path, name, of)));
            let parts = cases.into_iter().flatten().map(|(path, name, of)| {
                let change = relative(&alone(r, path, "dca", of), &alone(r, path, "reno", of));
                (format!("{path}, {name}: change in percent"), change)
            });
            each(parts, unchanged)
        }),
    claim("dca-loss-falls", "DCA §4.5, figure 4-7", &[SHARES])
        .says("The loss rate of the link falls if enough of the traffic is DCA.")
        .test("Under heavy congestion and paired by seed, the loss rate with all users on DCA is \
               below the loss rate without DCA.")
        .asks(|r| one(&drop_at(r, "DCA, heavy", "100%"), below_zero)),
    claim("dca-loss-falls-from-10-percent", "DCA §4.5, figure 4-7", &[SHARES])
        .says("The loss rate begins to fall only when at least 10 % of the arriving traffic is DCA.")
        .test(
            "Under heavy congestion and paired by seed, the loss rate including its interval is \
             within 10 % (our choice) of the rate without DCA at every share of DCA up to 10 %. \
             With all users on DCA, it is more than 10 % (our choice) below the rate without DCA.",
        )
        .asks(|r| {
            let few = STEPS[1..].iter().filter_map(|step| {
                let share = share(r, "DCA, heavy", step).filter(|share| *share <= BEGINS)?;
                Some((format!("at {share:.1} %"), loss_change_at(r, "DCA, heavy", step)))
            });
            let all = loss_change_at(r, "DCA, heavy", "100%");
            let falls = Finding::new(between(all.estimate(), -100.0, -UNCHANGED), format!("with all: {all}"));
            Finding::together([each(few, unchanged), falls]).named("change of the loss rate in percent")
        }),
    claim("dca-vegas-inactive", "DCA §4.5, figure 4-7", &[SHARES])
        .says("Vegas is essentially inactive. The loss rate stays the same, however many users \
               have Vegas.")
        .test("Paired by seed, the loss rate with all users on Vegas changes by less than 10 % \
               (our choice), including its interval.")
        .asks(|r| {
            let [all, none] = ["100%", STEPS[0]].map(|step| loss_at_share(r, "Vegas, heavy", step));
            each([("change in percent", relative(&all, &none))], unchanged)
        }),
    claim("dca-light-needs-more", "DCA §4.5, figure 4-7", &[SHARES])
        .says("Under light congestion an even larger share of DCA is needed before the loss rate falls.")
        .test(
            "Paired by seed, the share of DCA at which the loss rate is 10 % (our choice) below \
             the rate without DCA is at least 5 percentage points (our choice) larger under light \
             congestion than under heavy congestion. If the loss rate never falls by 10 %, the \
             share counts as 100 %.",
        )
        .asks(|r| {
            let heavy = fallen_at(r, "DCA, heavy", None);
            let light = fallen_at(r, "DCA, light", Some(100.0));
            let pairs: Pairs = light.pairs(&heavy.map(|share| share + LARGER));
            Finding::new(more(&pairs), format!("10 % below at a share of {heavy} % heavy, {light} % light"))
        }),
];

/// Tests whether values are below zero beyond their interval. Values without an interval, such as
/// one seed, decide nothing.
fn below_zero(values: &BySeed) -> Verdict {
    below(values, 0.0)
}

fn above_zero(values: &BySeed) -> Verdict {
    above(values, 0.0)
}

fn unchanged(percent: &BySeed) -> Verdict {
    between(percent.estimate(), -UNCHANGED, UNCHANGED)
}

fn one(values: &BySeed, judge: impl Fn(&BySeed) -> Verdict) -> Finding {
    Finding::new(judge(values), values.to_string())
}

/// Combines the verdicts on several named numbers, all of which have to hold.
fn each(
    parts: impl IntoIterator<Item = (impl Display, BySeed)>,
    judge: impl Fn(&BySeed) -> Verdict,
) -> Finding {
    Finding::together(
        parts.into_iter().map(|(name, part)| Finding::new(judge(&part), format!("{name}: {part}"))),
    )
}

/// Tests whether the first number varies more than the second, by the two-sided F test of their
/// variances at 5%.
pub(super) fn varies_more(a: Option<Estimate>, b: Option<Estimate>) -> Verdict {
    let freedom =
        |e: Estimate| Some((e.deviation?.powi(2), e.n.checked_sub(1).filter(|n| *n > 0)? as f64));
    let ratio = || {
        let ((a, n), (b, m)) = (freedom(a?)?, freedom(b?)?);
        let f = FisherSnedecor::new(n, m).ok()?;
        (b > 0.0).then(|| (a / b, f.inverse_cdf(0.025), f.inverse_cdf(0.975)))
    };
    match ratio() {
        Some((ratio, _, high)) if ratio > high => Verdict::Held,
        Some((ratio, low, _)) if ratio < low => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// Returns the change of throughput of a controller relative to Reno on a path.
fn throughput(r: &Results, path: &str, controller: &str) -> BySeed {
    paired(r, path, controller, throughput_change)
}

/// Returns the change of the loss rate at a share, in percent of the loss rate without early
/// traffic.
fn loss_change_at(r: &Results, curve: &str, step: &str) -> BySeed {
    relative(&loss_at_share(r, curve, step), &loss_at_share(r, curve, STEPS[0]))
}

/// Returns the loss rate at a share minus the loss rate without early traffic, in percent of the
/// packets.
fn drop_at(r: &Results, curve: &str, step: &str) -> BySeed {
    loss_at_share(r, curve, step).minus(&loss_at_share(r, curve, STEPS[0]))
}

/// Returns the share of early traffic, in percent of the packets, at which the loss rate first
/// falls [`UNCHANGED`] percent below the rate without early traffic, interpolated linearly between
/// the simulated shares. Returns `never` if it falls this far at none of them. The result does not
/// depend on the number of seeds, unlike the first share with a significant fall.
fn fallen_at(r: &Results, curve: &str, never: Option<f64>) -> BySeed {
    let point = |step: &&str| Some((share(r, curve, step)?, loss_change_at(r, curve, step)));
    let points: Vec<(f64, BySeed)> = STEPS.iter().filter_map(point).collect();
    let of = |seed: u64| {
        let curve: Vec<(f64, f64)> =
            points.iter().filter_map(|(x, ys)| Some((*x, ys.get(seed)?))).collect();
        let (first, last) =
            curve.windows(2).map(|two| (two[0], two[1])).find(|(_, last)| last.1 <= -UNCHANGED)?;
        Some(first.0 + (last.0 - first.0) * (-UNCHANGED - first.1) / (last.1 - first.1))
    };
    loss_at_share(r, curve, STEPS[0]).each(|seed| of(seed).or(never))
}
