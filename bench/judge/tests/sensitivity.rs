//! Tests of the battery's sensitivity: the battery must find defects and pass sound controllers.
//! The cases are the controllers of `fathom_cc::testing::BROKEN` and the standard ones.
//!
//! The expected failures of each controller were written down before the first run of this edition
//! of the battery, and stay as they were. If the stored scorecards show an expectation to be wrong,
//! `wrong` of the case says why, and the page lists it. Criteria in `open` are not predicted: the
//! defect may or may not show there.

use std::collections::BTreeSet;

use fathom_cc::catalogue;
use fathom_cc::testing::BROKEN;
use fathom_experiments::study::{RunOptions, StudyRun, run_study};
use fathom_judge::{
    Battery, Depth, JudgePlan, League, Profile, Scorecard, Settings, Verdict, report, scorecard,
};
use fathom_netsim::backend::Backend;
use fathom_stacks::Stack;

use crate::stored::{card, is_page};

/// A controller with the verdicts expected before a run.
struct Case {
    controller: &'static str,
    /// Criteria that the controller must fail.
    fails: &'static [&'static str],
    /// Criteria without an expectation. The controller must not fail any other criterion.
    open: &'static [&'static str],
    /// Parts of the battery that find the defect in every test run.
    found_by: &'static [&'static str],
    /// Criteria whose expectation the stored scorecard shows to be wrong, with the reason.
    wrong: &'static [(&'static str, &'static str)],
}

const CASES: &[Case] = &[
    // The standards are the references, so they can fail only absolute checks, and passed all of
    // them in the first edition of the battery.
    Case { controller: "cubic", fails: &[], open: &[], found_by: SHORT, wrong: &[] },
    Case { controller: "reno", fails: &[], open: &[], found_by: SHORT, wrong: &[] },
    // This controller sends more than any queue holds. It keeps a buffer of two bandwidth-delay
    // products full (5.1.2), and many of its packets are lost in incast (7.11).
    Case {
        controller: "ignores-loss",
        fails: &[
            "5.1.1", "5.1.2", "5.1.3", "5.1.5", "5.2", "5.2.1", "5.2.2", "5.2.3", "6.2", "7.1",
            "7.2", "7.4", "7.8", "7.9", "7.11",
        ],
        open: &["5.1.4", "6.1", "6.3", "7.6"],
        found_by: SHORT,
        wrong: &[],
    },
    // This controller sends at most ten packets per round trip. It harms no flow but is too slow
    // for a fast or long path, and for a receive buffer of twenty packets (7.4).
    Case {
        controller: "never-grows",
        fails: &[
            "5.1.5", "5.2.1", "6.1", "6.2", "6.3", "6.4", "7.1", "7.3", "7.4", "7.5", "7.7", "7.8",
            "7.9",
        ],
        open: &["5.1.4", "7.6", "7.11"],
        found_by: SHORT,
        wrong: &[],
    },
    // This controller sends two packets per round trip and is even slower on a fast or long path.
    Case {
        controller: "halves-on-every-ack",
        fails: &[
            "5.1.5", "5.2.1", "6.1", "6.2", "6.3", "6.4", "7.1", "7.3", "7.4", "7.5", "7.7", "7.8",
            "7.9",
        ],
        open: &["5.1.4", "7.6", "7.11"],
        found_by: SHORT,
        wrong: &[],
    },
    // Other flows get little throughput beside this controller. Many packets are lost if there are
    // many flows of it, or if the capacity falls. It keeps a buffer nearly full (5.1.2).
    Case {
        controller: "starves-others",
        fails: &["5.1.1", "5.1.2", "5.2.1", "5.2.2", "5.2.3", "7.1", "7.2"],
        open: &["5.1.3", "5.1.4", "5.1.5", "5.2", "6.2", "6.3", "7.4", "7.6", "7.8", "7.9", "7.11"],
        found_by: SHORT,
        wrong: &[],
    },
    // Behaves like Reno as long as the peer reports correctly. At a policer, which shows no queue,
    // it loses a seventh (5.1.3).
    Case {
        controller: "believes-a-liar",
        fails: &["5.1.3", "7.6"],
        open: &["6.4", "7.2", "7.4", "7.5"],
        found_by: SHORT,
        wrong: &[
            ("6.2", "a path that marks every packet shows no queue, so it grows fast"),
            ("7.11", "incast begins without a queue, so it grows fast"),
        ],
    },
    // The longer a connection lasts and the more it carries, the smaller is its window.
    Case {
        controller: "leaks-window",
        fails: &["5.1.5", "5.2.1", "6.1", "6.3", "6.4", "7.3", "7.4", "7.5", "7.7", "7.8", "7.9"],
        open: &["5.1.4", "6.2", "7.1", "7.6", "7.11"],
        found_by: SHORT,
        wrong: &[
            ("5.1.3", "it loses more packets in its start than CUBIC; the cause was not traced"),
            ("7.5", "34 % (23 to 49) of Reno's throughput is too wide for the corrected interval"),
        ],
    },
    // This controller loses several times as many packets in its start as Reno, which shows where
    // many downloads start (5.1.1) and in the first seconds (5.1.3).
    Case {
        controller: "leaves-slow-start-late",
        fails: &["5.1.1", "5.1.3"],
        open: &[
            "5.1.2", "5.1.5", "5.2.2", "5.2.3", "6.4", "7.2", "7.4", "7.5", "7.8", "7.9", "7.11",
        ],
        found_by: &["5.1.3/start-up"],
        wrong: &[(
            "5.1.1",
            "where many downloads start at once, every sender loses packets in its start",
        )],
    },
    // The first flow of this controller keeps what it found, so a latecomer gets little (5.1.4).
    // Its window does not follow a change of the path (7.8). It takes the place of `multiplies`,
    // which gave back an eighth and grew by a fiftieth: ten seeds did not decide 5.1.4 for it,
    // because chance losses made its shares equal.
    Case {
        controller: "keeps-its-first-share",
        fails: &["5.1.4", "7.8"],
        open: &[
            "5.1.1", "5.1.2", "5.1.3", "5.1.5", "5.2", "5.2.1", "5.2.2", "5.2.3", "6.1", "6.2",
            "6.3", "6.4", "7.1", "7.2", "7.3", "7.4", "7.5", "7.7", "7.9", "7.11",
        ],
        found_by: &["5.1.4/latecomer"],
        wrong: &[],
    },
    // Alone, this controller is Reno. Beside a rival, it gets more than a standard in its place.
    Case {
        controller: "greedy-beside-others",
        fails: &["5.2.1"],
        open: &[
            "5.1.1", "5.1.3", "5.1.4", "5.1.5", "5.2.2", "5.2.3", "6.2", "7.1", "7.2", "7.4",
            "7.11",
        ],
        found_by: &["5.2.1/one-to-one"],
        wrong: &[],
    },
];

/// Sections in every test run. Most defects fail one of them, and a controller takes about 5 s of
/// CPU time.
const SHORT: &[&str] = &["5.1.1", "7.2", "7.3", "7.6"];

/// Returns the scorecard of a controller.
fn judge(controller: &str, only: &[&str]) -> Scorecard {
    let settings = Settings {
        controller: controller.to_owned(),
        against: vec!["cubic".to_owned(), "reno".to_owned()],
        stack: Stack::Quinn,
        depth: Depth::Quick,
        seeds: None,
        only: only.iter().map(|section| (*section).to_owned()).collect(),
        backend: Backend::Virtual,
        scale: 1.0,
    };
    let mut plan = JudgePlan::new(Battery::shipped(Profile::default()), settings)
        .expect("a controller that runs");
    let run = |runs: &[StudyRun]| {
        run_study(runs, &RunOptions::default(), &|_| ()).expect("runs that end")
    };
    let mut results = Vec::new();
    loop {
        results.extend(run(&plan.runs[results.len()..]));
        let card = scorecard(&plan, &results, &std::collections::BTreeMap::new());
        if !plan.add_seeds(&card).expect("runs that can be added") {
            return card;
        }
    }
}

/// Returns the criteria of a scorecard that differ from the expectations, with their verdicts.
fn differences<'c>(case: &Case, card: &'c Scorecard) -> Vec<(&'c str, Verdict)> {
    let (fails, open): (BTreeSet<_>, BTreeSet<_>) =
        (case.fails.iter().copied().collect(), case.open.iter().copied().collect());
    let wrong = |section: &str, verdict: Verdict| match (fails.contains(section), verdict) {
        (true, verdict) => verdict != Verdict::Fail,
        (false, Verdict::Fail) => !open.contains(section),
        (false, _) => false,
    };
    let criteria = card.criteria.iter().filter(|c| wrong(&c.section, c.verdict));
    criteria.map(|c| (&*c.section, c.verdict)).collect()
}

/// Returns the unknown differences, one line each.
fn unknown(case: &Case, card: &Scorecard) -> Vec<String> {
    let known = |section: &str| case.wrong.iter().any(|(wrong, _)| *wrong == section);
    let differences = differences(case, card).into_iter().filter(|(section, _)| !known(section));
    let line = |(section, verdict): (&str, Verdict)| {
        format!("{} {section}: {}", case.controller, verdict.text())
    };
    differences.map(line).collect()
}

fn all_as_expected(only: impl Fn(&Case) -> &[&str]) -> Vec<Scorecard> {
    // Once per process, because both tests of this file may have run.
    let _ = catalogue::extend(BROKEN);
    let cards: Vec<Scorecard> =
        CASES.iter().map(|case| judge(case.controller, only(case))).collect();
    let wrong: Vec<String> =
        CASES.iter().zip(&cards).flat_map(|(case, card)| unknown(case, card)).collect();
    assert!(
        wrong.is_empty(),
        "{}\nrepeat: cargo test --release -p fathom-judge --test judge-tests sensitivity::\n{}",
        wrong.join("\n"),
        cards.iter().map(|card| report::text(card, None)).collect::<String>()
    );
    cards
}

#[test]
fn short_battery_fails_only_broken_controllers() {
    for case in
        CASES.iter().filter(|case| BROKEN.iter().any(|broken| broken.name == case.controller))
    {
        let section =
            |test: &str| test.split_once('/').map_or(test, |(section, _)| section).to_owned();
        assert!(
            case.fails.is_empty()
                || case.found_by.iter().any(|test| case.fails.contains(&&*section(test))),
            "nothing that every test run has finds {}",
            case.controller
        );
    }
    all_as_expected(|case| case.found_by);
}

/// Returns the scorecards that `make sensitivity` stored.
fn stored() -> Vec<Scorecard> {
    CASES.iter().map(|case| card("sensitivity", &format!("quinn-{}", case.controller))).collect()
}

#[test]
fn stored_scorecards_are_as_expected() {
    let cards = stored();
    let cases = || CASES.iter().zip(&cards);
    let unknown: Vec<String> = cases().flat_map(|(case, card)| unknown(case, card)).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    for (case, card) in cases() {
        let found: Vec<&str> =
            differences(case, card).iter().map(|(section, _)| *section).collect();
        for (section, _) in case.wrong {
            assert!(found.contains(section), "{} {section} is as expected", case.controller);
        }
    }
    cards.iter().for_each(|card| card.check_battery().expect("of the current battery"));
}

#[test]
fn page_shows_the_stored_scorecards() {
    let league = League::new(stored()).expect("judged alike");
    let table = league.markdown("cargo run --release --example broken --");
    let page = format!("{HEAD}{}{}{table}", expectations(&stored()), found(&stored()));
    is_page("docs/judge-sensitivity.md", &page);
}

/// Returns the list of expectations that the scorecards show to be wrong.
fn expectations(cards: &[Scorecard]) -> String {
    let expected: usize = CASES.iter().map(|case| case.fails.len()).sum();
    let wrong: usize = CASES.iter().map(|case| case.wrong.len()).sum();
    let mut text = format!(
        "The controllers were expected to fail {expected} criteria, and no other that was not \
         left open. {wrong} of these\nexpectations were wrong:\n\n"
    );
    for (case, card) in CASES.iter().zip(cards) {
        for (section, verdict) in differences(case, card) {
            let why = case.wrong.iter().find(|(wrong, _)| *wrong == section);
            let (_, why) = why.expect("stored_scorecards_are_as_expected checks it");
            text += &format!(
                "- `{}`, {section}: {}. Reason: {why}.\n",
                case.controller,
                verdict.text()
            );
        }
    }
    text + "\n"
}

/// Returns the table of checks with the controllers that fail each.
fn found(cards: &[Scorecard]) -> String {
    let mut rows: Vec<((String, String), BTreeSet<&str>)> = Vec::new();
    for card in cards {
        for (criterion, test) in
            card.criteria.iter().flat_map(|c| c.tests.iter().map(move |t| (c, t)))
        {
            for check in &test.checks {
                let name =
                    (format!("{}/{}", criterion.section, test.name), check.threshold.clone());
                let row = match rows.iter().position(|(of, _)| *of == name) {
                    Some(row) => row,
                    None => {
                        rows.push((name, BTreeSet::new()));
                        rows.len() - 1
                    }
                };
                if check.verdict == Verdict::Fail {
                    rows[row].1.insert(&card.controller);
                }
            }
        }
    }
    let unfailed = rows.iter().filter(|(_, failed)| failed.is_empty()).count();
    let mut text = format!(
        "There are {} kinds of checks. {} fail at least one broken controller, and none fails a \
         standard.\n\n| test | threshold | controllers that fail it |\n|---|---|---|\n",
        rows.len(),
        rows.len() - unfailed
    );
    for ((test, threshold), failed) in &rows {
        let failed: Vec<String> = failed.iter().map(|name| format!("`{name}`")).collect();
        let failed = if failed.is_empty() { "none".to_owned() } else { failed.join(", ") };
        text += &format!("| {test} | {threshold} | {failed} |\n");
    }
    text + "\n"
}

#[test]
fn no_check_fails_a_standard() {
    for card in stored().iter().filter(|card| ["cubic", "reno"].contains(&&*card.controller)) {
        assert_eq!(card.counts.failed, 0, "{}: {}", card.controller, report::text(card, None));
    }
}

const HEAD: &str = "\
# Verdicts on broken controllers

This page shows that `fathom judge` fails broken controllers, and only broken controllers. Each of
nine controllers is broken in one way on purpose (`cc/src/testing/broken.rs`). CUBIC and Reno are not
broken. The criteria that each controller should fail were written down before the first run of this
edition of the battery (`bench/judge/tests/sensitivity.rs`). `make sensitivity` writes this page from
the scorecards in `bench/results/sensitivity`.

";
