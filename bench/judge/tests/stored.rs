//! Stored scorecards, and the pages written from them.

use std::path::PathBuf;

use fathom_judge::{JudgedTest, League, Scorecard, Strength, report};

fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

/// Returns the scorecard in a file of `bench/results`.
pub(crate) fn card(folder: &str, name: &str) -> Scorecard {
    let file = path(&format!("bench/results/{folder}/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    Scorecard::from_json(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Checks that a page is this text, or writes it if `FATHOM_WRITE` is set.
pub(crate) fn is_page(page: &str, text: &str) {
    let file = path(page);
    if std::env::var_os("FATHOM_WRITE").is_some() {
        std::fs::write(file, text).expect("docs can be written");
    } else {
        let stored = std::fs::read_to_string(file).expect("the page is there");
        assert!(stored == text, "{page} is not what the scorecards say: FATHOM_WRITE=1 writes it");
    }
}

const LEAGUE: &str = "\
# League of controllers

This page compares scorecards of `fathom judge` ([judge.md](judge.md)) for Fathom's controllers on
quinn and for unmodified controllers of quinn and noq. noq's BBR3 and quiche were not judged by this
edition of the battery yet. Every controller is compared with the worse of Fathom's CUBIC and Reno
on the same stack. The results are from simulated links in virtual time, and do not show how a
controller performs on the Internet.

If you maintain one of these controllers and find a test unfair, please tell us. The command under
each controller reproduces its numbers. `make league` writes this page from the scorecards in
`bench/results/league`.

";

/// Returns the league of the scorecards in a folder of `bench/results`.
fn league(folder: &str) -> League {
    let files = std::fs::read_dir(path(&format!("bench/results/{folder}"))).expect("scorecards");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    let cards: Vec<Scorecard> =
        names.map(|name| card(folder, name.strip_suffix(".json").expect("JSON"))).collect();
    cards.iter().for_each(|card| card.check_battery().expect("of the current battery"));
    League::new(cards).expect("judged alike")
}

#[test]
fn league_shows_the_stored_scorecards() {
    is_page("docs/league.md", &format!("{LEAGUE}{}", league("league").markdown("fathom")));
}

/// Start of the generated part of docs/rmcat.md, which ends with the page.
const RMCAT: &str = "<!-- scorecards, written by make rmcat -->\n\n";

#[test]
fn rmcat_shows_the_stored_scorecards() {
    let page = std::fs::read_to_string(path("docs/rmcat.md")).expect("the page");
    let (text, _) = page.split_once(RMCAT).expect("the start of the generated part");
    is_page("docs/rmcat.md", &format!("{text}{RMCAT}{}", league("rmcat").markdown("fathom")));
}

/// Start and end of the generated part of docs/plumb.md.
const ANSWERS: (&str, &str) =
    ("<!-- answers, written by make league -->\n\n", "<!-- end of answers -->");

/// Returns the answers to the questions of RFC 9743: a row per test, with its worst check.
fn answers(card: &Scorecard) -> String {
    let worst = |test: &JudgedTest| {
        let check = test.checks.iter().max_by_key(|check| check.verdict).expect("a check");
        let at = check.at_text();
        let at = if at.is_empty() { at } else { format!(" ({at})") };
        format!("{}{at}: {}", check.measure, card.finding(check)).replace('|', "\\|")
    };
    let mut text = format!(
        "{}.\n\n| test | verdict | value and threshold |\n|---|---|---|\n",
        report::answer(card)
    );
    for criterion in card.criteria.iter().filter(|criterion| !criterion.tests.is_empty()) {
        let strength = match criterion.strength {
            Strength::Consider => String::new(),
            strength => format!(" ({})", strength.word()),
        };
        text += &format!(
            "| **{} {}**{strength} | | {} |\n",
            criterion.section, criterion.title, criterion.asks
        );
        for test in &criterion.tests {
            text += &format!("| {} | {} | {} |\n", test.says, test.verdict.text(), worst(test));
        }
    }
    text + "\n"
}

#[test]
fn plumb_page_answers_the_questions_of_the_stored_scorecard() {
    let page = std::fs::read_to_string(path("docs/plumb.md")).expect("the page");
    let (before, rest) = page.split_once(ANSWERS.0).expect("the start of the generated part");
    let (_, after) = rest.split_once(ANSWERS.1).expect("its end");
    let answers = answers(&card("league", "quinn-plumb"));
    is_page("docs/plumb.md", &format!("{before}{}{answers}{}{after}", ANSWERS.0, ANSWERS.1));
}
