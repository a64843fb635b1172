//! Tests that artefacts and studies are consistent, and that predicates hold, fail or abstain on
//! handmade results.

use std::time::Duration;

use fathom_cc::Time;
use fathom_experiments::scenario::{
    BackgroundOutcome, GroupOutcome, LinkOutcome, Load, Outcome, RttOutcome,
};
use fathom_metrics::RttSample;

use super::claims::varies_more;
use super::simulated::{CONGESTED, CURVES, STEPS};
use super::*;
use crate::testing::{self, axis, outcome, seeds, study};
use crate::{Body, Results, Verdict};

/// Adds results of a study: one outcome per seed, from seed 1 on.
fn put(results: &mut Results, study: &str, key: &[(&str, &str)], outcomes: Vec<Outcome>) {
    testing::put(results, study, key, 1, outcomes);
}

fn blank() -> Outcome {
    outcome(500.0, [])
}

/// Returns a run in which Reno has 1 Mbit/s and loses 1000 of 100,000 packets. The throughput and
/// the losses of the delay-based connection differ from Reno's by these percentages.
fn beside(throughput: f64, loss: f64) -> Outcome {
    let group = |bps: f64, lost: f64| GroupOutcome {
        throughput_bps: bps,
        sent: 100_000,
        lost: (1_000.0 + 10.0 * lost) as u64,
        ..GroupOutcome::default()
    };
    outcome(
        500.0,
        [("reno", group(1e6, 0.0)), ("delay-based", group(1e6 * (1.0 + throughput / 100.0), loss))],
    )
}

fn pair(path: &str, controller: &str, throughput: [f64; 3], loss: [f64; 3]) -> Results {
    let mut results = Results::default();
    add_pair(&mut results, path, controller, throughput, loss);
    results
}

fn add_pair(
    results: &mut Results,
    path: &str,
    controller: &str,
    throughput: [f64; 3],
    loss: [f64; 3],
) {
    let runs = throughput.iter().zip(loss).map(|(t, l)| beside(*t, l)).collect();
    put(results, PAIRED, &[("path", path), ("controller", controller)], runs);
}

/// Returns a Reno connection with round trips of about 50 ms. Every hundred samples end with the
/// two round trips `before`, and the next sample is `after`. A loss follows the last sample of each
/// hundred.
fn with_series(before: [u64; 2], after: u64, rounds: u64) -> Outcome {
    let ms = |n: u64| Duration::from_millis(n);
    let mut samples = Vec::new();
    for n in 0..rounds * 100 {
        // Some noise gives a nonzero deviation: 49 and 51 ms.
        let rtt = match n % 100 {
            98 => before[0],
            99 => before[1],
            0 if n > 0 => after,
            other => 49 + 2 * (other % 2),
        };
        samples.push(RttSample {
            at: Time::from_millis(n * 25),
            rtt: ms(rtt),
            loss_follows: n % 100 == 99,
        });
    }
    let group = GroupOutcome {
        throughput_bps: 1e6,
        sent: rounds * 200,
        lost: rounds,
        rtt: Some(RttOutcome { samples }),
        ..GroupOutcome::default()
    };
    outcome(500.0, [("reno", group)])
}

fn measured(study: &str, levels: &[&str], of: impl Fn(u64) -> Outcome) -> Results {
    let mut results = Results::default();
    for level in levels {
        put(&mut results, study, &[("level", level)], (1..=3).map(&of).collect());
    }
    results
}

fn link(arrived: u64, dropped: u64) -> LinkOutcome {
    LinkOutcome {
        arrived,
        dropped,
        drops_percent: 100.0 * dropped as f64 / arrived as f64,
        ..LinkOutcome::default()
    }
}

/// Figure 4-7 with a loss of 1% (10000 of a million, slightly different for each seed), changed by
/// `change` packets at each share.
fn shares(curve: &str, controller: &str, change: impl Fn(&str) -> i64) -> Results {
    let mut results = Results::default();
    add_shares(&mut results, curve, controller, change);
    results
}

fn add_shares(results: &mut Results, curve: &str, controller: &str, change: impl Fn(&str) -> i64) {
    for step in STEPS {
        let part: f64 = step.trim_end_matches('%').parse().unwrap();
        let runs = (1..=3i64).map(|seed| {
            // The seeds differ by the same amount at every share, plus a little more.
            let dropped = 10_000 + 500 * seed + change(step) + seed * i64::from(step.len() as i32);
            let group =
                |sent: f64| BackgroundOutcome { sent: sent as u64, ..BackgroundOutcome::default() };
            let background = [
                ("web-7-8".to_owned(), group(950_000.0)),
                (format!("web-7-8/{controller}"), group(part * 9_500.0)),
                ("udp-7-8".to_owned(), group(40_000.0)),
            ];
            let own = GroupOutcome { sent: 10_000, ..GroupOutcome::default() };
            Outcome {
                links: [("r7-r8".to_owned(), link(1_000_000, dropped as u64))].into(),
                background: background.into(),
                ..outcome(500.0, [("measured", own)])
            }
        });
        put(results, SHARES, &[("curve", curve), ("share", step)], runs.collect());
    }
}

fn verdict(id: &str, results: &Results) -> Verdict {
    testing::verdict(&PAPER, results, id)
}

#[test]
fn axis_values_used_by_dca_claims_exist_in_the_studies() {
    assert_eq!(axis(EMORY, "level"), LEVELS);
    assert_eq!(axis(ASU, "level"), LEVELS);
    assert!(LEVELS.contains(&TUNED));
    assert_eq!(axis(ALTERED, "level"), ["heavy", "light"]);
    assert_eq!(axis(PAIRED_ALTERED, "level"), ["heavy", "light"]);
    assert_eq!(axis(PAIRED, "path"), CONGESTED.map(|(path, _)| path));
    assert_eq!(axis(ALONE, "path"), CONGESTED.map(|(path, _)| path));
    assert_eq!(axis(ALONE, "controller"), ["reno", "dca"]);
    let controllers: Vec<&str> =
        REDUCTIONS.iter().map(|(_, c)| *c).chain([VEGAS, "dual"]).collect();
    assert_eq!(axis(PAIRED, "controller"), controllers);
    assert_eq!(axis(SHARES, "share"), STEPS);
    assert_eq!(axis(SHARES, "curve"), CURVES.map(|(curve, _)| curve));
}

#[test]
fn dca_studies_of_one_path_share_its_traffic_model() {
    // Groups of a run as text, without the mix of controllers, which figure 4-7 varies.
    let background = |name: &str, key: &[(&str, &str)]| {
        let runs = study(name).runs(1.0).unwrap();
        let run = runs.into_iter().find(|c| key.iter().all(|(axis, value)| c.key[*axis] == *value));
        let s = run.unwrap_or_else(|| panic!("{name} {key:?}")).scenario;
        let groups = s.background.iter().map(|b| {
            format!(
                "{} {} {} {:?} {:?} {:?} {}",
                b.name, b.from, b.to, b.load, b.max_window, b.rtt, b.datagram
            )
        });
        (s.chain.clone(), s.stop, groups.collect::<Vec<_>>())
    };
    for (tuned, path) in [(EMORY, "emory"), (ASU, "asu")] {
        let model = background(tuned, &[("level", TUNED)]);
        for name in [PAIRED, ALONE] {
            assert_eq!(background(name, &[("path", path)]), model, "{name}, {path}");
        }
    }
    for (level, curves) in [("heavy", &CURVES[..2]), ("light", &CURVES[2..])] {
        let model = background(ALTERED, &[("level", level)]);
        assert_eq!(background(PAIRED_ALTERED, &[("level", level)]), model);
        for (curve, _) in curves {
            for share in ["0%", "100%"] {
                assert_eq!(
                    background(SHARES, &[("curve", curve), ("share", share)]),
                    model,
                    "{curve}"
                );
            }
        }
    }
}

#[test]
fn dca_load_levels_are_fractions_of_the_tuned_user_count() {
    for name in [EMORY, ASU] {
        let runs = study(name).runs(1.0).unwrap();
        let users = |level: &str| -> Vec<u32> {
            let run = runs.iter().find(|c| c.key["level"] == level).unwrap();
            let forward = run.scenario.background.iter().filter(|b| b.from < b.to);
            forward
                .filter_map(
                    |b| if let Load::Users { count, .. } = b.load { Some(count) } else { None },
                )
                .collect()
        };
        for level in LEVELS {
            let part: u32 = level.trim_end_matches('%').parse().unwrap();
            let expected: Vec<u32> = users(TUNED).iter().map(|n| n * part / 100).collect();
            assert_eq!(users(level), expected, "{name} {level}");
        }
    }
}

#[test]
fn measured_dca_connections_match_windows_and_packets_of_paper() {
    // DCA table 3-1: 17376 and 8760 bytes of window, 12 and 6 packets; §4.1: 12 packets of 1448
    // bytes.
    for (name, packets) in [(EMORY, 12), (ASU, 6), (ALTERED, 12)] {
        for run in study(name).runs(1.0).unwrap() {
            let t = &run.scenario.traffic[0];
            assert_eq!(
                (t.max_window.packets(), u32::from(t.datagram) + 28),
                (Some(packets), 1_448 + 52),
                "{name}"
            );
            assert_eq!(t.access.rate.bits_per_sec(), 10_000_000);
        }
    }
}

#[test]
fn dca_report_identifies_every_figure_and_table() {
    let mut results = pair("emory", "dca", [-37.0, -30.0, -44.0], [-7.0, 0.0, -14.0]);
    for study in [EMORY, ASU, ALTERED] {
        let levels: &[&str] = if study == ALTERED { &["heavy", "light"] } else { &LEVELS };
        for level in levels {
            put(&mut results, study, &[("level", level)], vec![with_series([50, 80], 50, 30)]);
        }
    }
    put(
        &mut results,
        PAIRED_ALTERED,
        &[("level", "heavy"), ("controller", "dca")],
        vec![beside(-40.0, -10.0)],
    );
    put(&mut results, ALONE, &[("path", "asu"), ("controller", "dca")], vec![blank()]);
    add_shares(&mut results, "DCA, heavy", "dca", |_| 0);
    let report = PAPER.report(&results);
    let ids: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, PAPER.artefacts.iter().map(|w| w.id).collect::<Vec<_>>());
    assert_eq!(report.claims.len(), claims::CLAIMS.len());
    let Body::Table(reductions) =
        &report.artefacts.iter().find(|a| a.id == "table 4-1").unwrap().body
    else {
        panic!("a table")
    };
    let first = &reductions.rows[0].entries[0];
    assert_eq!((reductions.rows[0].label.as_str(), first.ours.unwrap().mean), ("50%", -37.0));
    assert_eq!(first.paper.as_deref(), Some("-37 (8.1) (-42, -31)"));
}

#[test]
fn dca_changes_compare_two_connections_within_a_run() {
    // Reno has 1 Mbit/s and 1% loss; the other connection has 20% less throughput and 10% fewer
    // losses.
    let o = beside(-20.0, -10.0);
    let near = |x: Option<f64>, expected: f64| (x.unwrap() - expected).abs() < 1e-9;
    assert!(
        near(simulated::throughput_change(&o), -20.0) && near(simulated::loss_change(&o), -10.0)
    );
    assert_eq!(simulated::loss_change(&blank()), None);
}

#[test]
fn dca_throughput_prediction_matches_the_model() {
    // Round trips are constant at 50 ms, so there are no reactions: the counts are 100 lost of
    // 20000, both rates are equal, and nothing changes.
    let flat = with_series([49, 51], 49, 100);
    let mut o = flat.clone();
    let rtt = o.groups.get_mut("reno").unwrap().rtt.as_mut().unwrap();
    rtt.samples.iter_mut().for_each(|s| s.rtt = Duration::from_millis(50));
    assert_eq!(measured::degradation(&o, 12.0), Some(0.0));
    // With a rise before each loss, every loss is predicted by one reaction, and all losses are
    // avoided. p-TD stays at p-loss and timeouts vanish, so the throughput increases.
    let predicted = with_series([80, 80], 50, 100);
    assert_eq!(measured::predicted(&predicted, "reno"), Some(1.0));
    assert!(measured::degradation(&predicted, 12.0).unwrap() > 0.0);
}

#[test]
fn dca_loss_claims_are_judged_by_rtt_series_metrics() {
    // The rise comes with the loss, so every loss is predicted, which is neither 7 to 18% nor a
    // peak after the loss.
    let mut results = measured(EMORY, &LEVELS, |seed| with_series([80, 80 + seed], 50, 30));
    assert_eq!(
        verdict("dca-few-losses-predicted", &results),
        Verdict::NotHeld,
        "one path is enough for no"
    );
    assert_eq!(verdict("dca-few-losses-predicted", &Results::default()), Verdict::Undecided);
    // Runs without levels are found only by queries for all runs of a study.
    let asu = || (1..=3).map(|seed| with_series([49, 51], 80 + seed, 30)).collect();
    put(&mut results, ASU, &[], asu());
    assert_eq!(verdict("dca-rise-after-the-loss", &results), Verdict::NotHeld, "Emory falls");
    let mut both = measured(EMORY, &LEVELS, |seed| with_series([49, 51], 80 + seed, 30));
    put(&mut both, ASU, &[], asu());
    assert_eq!(verdict("dca-rise-after-the-loss", &both), Verdict::Held);
    // At lag -1 the sample is 51 ms of about 50.3 ms, and at -10 it is 49 or 51 ms.
    assert_ne!(verdict("dca-emory-early-rise", &both), Verdict::Held);
    // In the first results all losses come after 50 ms, which is not above the median of 49 and 51;
    // in the second all come after 80 ms.
    assert_eq!(verdict("dca-losses-after-short-round-trips", &both), Verdict::Held);
    assert_eq!(verdict("dca-losses-after-short-round-trips", &results), Verdict::NotHeld);
}

#[test]
fn dca_reductions_are_compared_by_their_intervals() {
    let mut results = pair("emory", "dca", [-37.0, -30.0, -44.0], [-7.0, -8.0, -6.0]);
    add_pair(&mut results, "asu", "dca", [-13.0, -12.0, -14.0], [-1.0, -2.0, 0.0]);
    assert_eq!(verdict("dca-degrades", &results), Verdict::Held);
    assert_eq!(verdict("dca-emory-loses-less", &results), Verdict::Held);
    assert_eq!(verdict("dca-asu-avoids-less", &results), Verdict::Held);
    assert_eq!(
        verdict("dca-smaller-reductions-cost-less", &results),
        Verdict::Undecided,
        "no 12.5 %"
    );
    for path in ["emory", "asu"] {
        add_pair(&mut results, path, REDUCTIONS[2].1, [-7.0, -6.0, -8.0], [-20.0, 3.0, 20.0]);
        add_pair(&mut results, path, REDUCTIONS[1].1, [-7.0, -6.0, -8.0], [-30.0, 3.0, 30.0]);
    }
    assert_eq!(verdict("dca-smaller-reductions-cost-less", &results), Verdict::Held);
    assert_eq!(verdict("dca-small-reduction-avoids-nothing", &results), Verdict::Held);
    // The variances are 400 and 900 to 1: F(2, 2) at 97.5% is 39.
    assert_eq!(verdict("dca-asu-varies-more", &results), Verdict::Held);

    let mut gains = pair("emory", "dca", [5.0, 6.0, 7.0], [5.0, 6.0, 7.0]);
    add_pair(&mut gains, "asu", "dca", [-50.0, 0.0, 50.0], [5.0, 6.0, 7.0]);
    add_pair(&mut gains, "emory", REDUCTIONS[2].1, [5.0, 6.0, 7.0], [-5.0, -6.0, -7.0]);
    assert_eq!(verdict("dca-degrades", &gains), Verdict::NotHeld);
    assert_eq!(verdict("dca-emory-loses-less", &gains), Verdict::NotHeld);
    assert_eq!(verdict("dca-small-reduction-avoids-nothing", &gains), Verdict::NotHeld);
    assert_eq!(verdict("dca-asu-avoids-less", &gains), Verdict::Undecided, "no difference");
}

#[test]
fn claims_compare_the_throughput_of_vegas_and_dual_with_dca() {
    let mut results = Results::default();
    for (path, dca, vegas, dual) in [("emory", -37.0, -21.0, -14.0), ("asu", -25.0, -7.0, -18.0)] {
        for (controller, mean) in [("dca", dca), (VEGAS, vegas), ("dual", dual)] {
            add_pair(&mut results, path, controller, [mean - 1.0, mean, mean + 1.0], [0.0; 3]);
        }
    }
    for id in [
        "dca-vegas-and-dual-degrade",
        "dca-vegas-and-dual-lose-less-than-dca",
        "dca-vegas-loses-less-on-asu",
    ] {
        assert_eq!(verdict(id, &results), Verdict::Held, "{id}");
    }
    let key = [("level", "heavy"), ("controller", VEGAS)];
    put(&mut results, PAIRED_ALTERED, &key, [-1.0, 0.0, -2.0].map(|t| beside(t, 0.0)).into());
    assert_eq!(verdict("dca-vegas-altered-loses-little", &results), Verdict::Held);
    // In the paper's own table 4-4, DUAL loses more than DCA on ASU.
    add_pair(&mut results, "asu", "dual", [-60.0; 3], [0.0; 3]);
    let mut worse = pair("asu", "dca", [-13.0, -13.1, -12.9], [0.0; 3]);
    add_pair(&mut worse, "asu", "dual", [-18.0, -18.2, -17.8], [0.0; 3]);
    assert_eq!(verdict("dca-vegas-and-dual-lose-less-than-dca", &worse), Verdict::NotHeld);
}

#[test]
fn altered_dca_model_is_judged_at_both_load_levels() {
    let mut results = Results::default();
    for (level, mean) in [("heavy", -42.0), ("light", -50.0)] {
        let runs = [-1.0, 0.0, 1.0].map(|off| beside(mean + off, -30.0 + off));
        put(&mut results, PAIRED_ALTERED, &[("level", level), ("controller", "dca")], runs.into());
    }
    assert_eq!(verdict("dca-altered-degrades", &results), Verdict::Held);
    assert_eq!(verdict("dca-altered-light-loses-less", &results), Verdict::Held);
    assert_eq!(verdict("dca-altered-predicts-more", &results), Verdict::Undecided, "no series");
    let mut more = Results::default();
    let runs = [10.0, 11.0, 12.0].map(|l| beside(3.0 + l, l));
    put(&mut more, PAIRED_ALTERED, &[("level", "light"), ("controller", "dca")], runs.into());
    assert_eq!(verdict("dca-altered-degrades", &more), Verdict::NotHeld);
    assert_eq!(verdict("dca-altered-light-loses-less", &more), Verdict::NotHeld);
}

#[test]
fn claim_tolerates_a_10_percent_change_of_link_statistics() {
    let run = |dropped: u64, bins: Vec<f64>, links: &[&str]| {
        let of = |name: &&str| {
            let l = LinkOutcome {
                mean_queue: 20.0,
                queue_mean: bins.clone(),
                ..link(1_000_000, dropped)
            };
            ((*name).to_owned(), l)
        };
        Outcome { links: links.iter().map(of).collect(), ..blank() }
    };
    // 0 5 0 5 0 5 rises above its mean of 2.5 three times.
    let waves = vec![0.0, 5.0, 0.0, 5.0, 0.0, 5.0];
    assert_eq!(simulated::oscillations(&run(1, waves.clone(), &["r4-r5"]), &["r4-r5"]), Some(3.0));
    let with = |dca: u64| {
        let mut results = Results::default();
        for (path, links) in CONGESTED {
            for (controller, dropped) in [("reno", 10_000), ("dca", dca)] {
                let runs =
                    (0..3).map(|seed| run(dropped + seed * 10, waves.clone(), links)).collect();
                put(&mut results, ALONE, &[("path", path), ("controller", controller)], runs);
            }
        }
        verdict("dca-one-flow-changes-nothing", &results)
    };
    assert_eq!((with(9_900), with(8_000)), (Verdict::Held, Verdict::NotHeld));
    assert_eq!(verdict("dca-one-flow-changes-nothing", &Results::default()), Verdict::Undecided);
}

#[test]
fn share_at_which_the_loss_rate_falls_is_interpolated() {
    // Users are 95% of the arriving traffic, so the step of 10% is 9.5% of the arriving traffic,
    // and the step of 15% is 14.25%.
    let from = |first: &'static str| {
        move |step: &str| {
            if STEPS.iter().position(|s| *s == step) >= STEPS.iter().position(|s| *s == first) {
                -3_000
            } else {
                0
            }
        }
    };
    let late = shares("DCA, heavy", "dca", from("15%"));
    assert_eq!(simulated::share(&late, "DCA, heavy", "15%"), Some(14.25));
    assert_eq!(simulated::share(&late, "DCA, heavy", "100%"), Some(95.0));
    assert_eq!(verdict("dca-loss-falls-from-10-percent", &late), Verdict::Held);
    assert_eq!(verdict("dca-loss-falls", &late), Verdict::Held);
    let early = shares("DCA, heavy", "dca", from("5%"));
    assert_eq!(verdict("dca-loss-falls-from-10-percent", &early), Verdict::NotHeld);
    let never = shares("DCA, heavy", "dca", |step| if step == "100%" { 3_000 } else { 0 });
    assert_eq!(verdict("dca-loss-falls-from-10-percent", &never), Verdict::NotHeld);
    assert_eq!(verdict("dca-loss-falls", &never), Verdict::NotHeld);

    // A fall of 2% at every share is significant, because seeds differ little from share to share.
    // It does not count as the beginning of a fall, however.
    let slight =
        shares(
            "DCA, heavy",
            "dca",
            |step| if step == "0%" { 0 } else { from("15%")(step).min(-200) },
        );
    assert_eq!(verdict("dca-loss-falls-from-10-percent", &slight), Verdict::Held);
    let only_slight = shares("DCA, heavy", "dca", |step| if step == "0%" { 0 } else { -200 });
    assert_eq!(verdict("dca-loss-falls-from-10-percent", &only_slight), Verdict::NotHeld);

    let mut two = late.clone();
    add_shares(&mut two, "DCA, light", "dca", from("50%"));
    assert_eq!(verdict("dca-light-needs-more", &two), Verdict::Held);
    assert_eq!(verdict("dca-light-needs-more", &late), Verdict::Undecided);
    let mut same = late.clone();
    add_shares(&mut same, "DCA, light", "dca", from("5%"));
    assert_eq!(verdict("dca-light-needs-more", &same), Verdict::NotHeld);
    // Under light congestion the rate never falls by a tenth, or falls by only a fiftieth
    // everywhere, which also counts as never.
    for change in [0, -200] {
        let mut never = late.clone();
        add_shares(&mut never, "DCA, light", "dca", |step| if step == "0%" { 0 } else { change });
        assert_eq!(verdict("dca-light-needs-more", &never), Verdict::Held, "{change}");
    }

    assert_eq!(verdict("dca-vegas-inactive", &shares("Vegas, heavy", VEGAS, |_| 0)), Verdict::Held);
    assert_eq!(
        verdict("dca-vegas-inactive", &shares("Vegas, heavy", VEGAS, from("2.3%"))),
        Verdict::NotHeld
    );
}

#[test]
fn claims_compare_variances_with_an_f_test() {
    // With nine degrees of freedom each, the bounds are 4.03 and 1/4.03 (tables of F).
    let spread = |by: f64| seeds((0..10).map(|n| f64::from(n) * by)).estimate();
    assert_eq!(varies_more(spread(2.02), spread(1.0)), Verdict::Held, "a ratio of 4.08");
    assert_eq!(varies_more(spread(1.99), spread(1.0)), Verdict::Undecided, "a ratio of 3.96");
    assert_eq!(varies_more(spread(1.0), spread(2.02)), Verdict::NotHeld);
    assert_eq!(varies_more(seeds([1.0]).estimate(), spread(1.0)), Verdict::Undecided);
}
