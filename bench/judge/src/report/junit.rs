//! JUnit XML for continuous integration: a suite per criterion and a case per check. Undecided
//! checks are reported as skipped.

use fathom_report::capitalised;
use maud::{Markup, PreEscaped, html};

use crate::scorecard::{JudgedCheck, JudgedCriterion, JudgedTest, Scorecard};
use crate::verdict::Verdict;

/// Returns the text of the file.
pub fn junit(card: &Scorecard) -> String {
    let all: Vec<&JudgedCheck> =
        card.criteria.iter().flat_map(|c| &c.tests).flat_map(|t| &t.checks).collect();
    let count = |verdict| all.iter().filter(|check| check.verdict == verdict).count();
    let body = html! {
        testsuites name={ "fathom judge " (card.controller) } tests=(all.len()) failures=(count(Verdict::Fail)) skipped=(count(Verdict::NotDecided)) {
            @for criterion in &card.criteria { (suite(card, criterion)) }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", body.into_string())
}

fn suite(card: &Scorecard, criterion: &JudgedCriterion) -> Markup {
    let checks = || criterion.tests.iter().flat_map(|test| &test.checks);
    let count = |verdict| checks().filter(|check| check.verdict == verdict).count();
    html! {
        testsuite name={ (capitalised(card.profile.document())) " " (criterion.section) " " (criterion.title) } tests=(checks().count()) failures=(count(Verdict::Fail)) skipped=(count(Verdict::NotDecided)) {
            @for test in &criterion.tests {
                @for check in &test.checks { (case(card, criterion, test, check)) }
            }
        }
    }
}

fn case(
    card: &Scorecard,
    criterion: &JudgedCriterion,
    test: &JudgedTest,
    check: &JudgedCheck,
) -> Markup {
    let at = check.at_text();
    // A test may compare one measure with several thresholds, but dashboards treat cases with equal
    // names as one.
    let same = |other: &&JudgedCheck| other.measure == check.measure && other.at_text() == at;
    let threshold = if test.checks.iter().filter(same).count() > 1 {
        format!(" ({})", check.threshold)
    } else {
        String::new()
    };
    let at = if at.is_empty() { String::new() } else { format!(" [{at}]") };
    let name = format!("{}{threshold}{at}", check.measure);
    let why = card.finding(check);
    html! {
        testcase classname={ (criterion.section) "/" (test.name) } name=(name) {
            @match check.verdict {
                Verdict::Fail => { failure message=(why) {} }
                Verdict::NotDecided => { (PreEscaped("<skipped message=\"")) (why) (PreEscaped("\"/>")) }
                Verdict::Pass | Verdict::NotApplicable => {}
            }
        }
    }
}
