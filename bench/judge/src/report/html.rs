//! The scorecard as one self-contained page: the result, a table of criteria, then every test with
//! its values.

use fathom_report::{Axis, Pen, Whisker, Whiskers, capitalised, shown};
use maud::{Markup, html};

use super::text::answer;
use crate::battery::Relation;
use crate::changes::Change;
use crate::scorecard::{JudgedCheck, JudgedCriterion, JudgedTest, Scorecard};
use crate::value::Value;
use crate::verdict::Verdict;

/// Style that distinguishes verdicts by word, weight and colour.
const STYLE: &str = "\
.verdict{font-weight:600;white-space:nowrap}.pass{color:#17803d}.fail{color:#c0262d}.open{color:#8a6100}.none{color:#6b6b6b}\
@media(prefers-color-scheme:dark){.pass{color:#5bd08a}.fail{color:#ff8a8a}.open{color:#e6b450}.none{color:#a2a2aa}}\
.card td,.card th{text-align:left;vertical-align:top}.card td:first-child{white-space:nowrap;min-width:0}\
@media(max-width:640px){.card th,.card td{padding:.25em .4em}.verdict{white-space:normal}}";

/// Returns the page. `changes` are the changes since an older scorecard, if one is given.
pub fn html(card: &Scorecard, changes: Option<&[Change]>) -> String {
    let body = html! {
        p.answer { (answer(card)) "." }
        @for line in card.status() { p { (line) } }
        p.note { (card.profile.note()) }
        @if let Some(changes) = changes { (changed(changes)) }
        h2 { "Criteria" }
        div.wide { table.card {
            thead { tr { th { "section" } th { "criterion" } th { "verdict" } th { "asked" } } }
            tbody {
                @for criterion in &card.criteria {
                    tr {
                        td { a href={ "#s" (criterion.section) } { (criterion.section) } }
                        td { (criterion.title) }
                        td { (verdict(criterion.verdict)) }
                        td { (criterion.strength.word()) }
                    }
                }
            }
        } }
        @for criterion in &card.criteria { (section(card, criterion)) }
        h2 { "How this was made" }
        ul {
            li { "Controller " code { (card.controller) } " on " (card.stack) ", against " code { (card.against.join(", ")) } ". A comparison is with the worse of them." }
            li {
                (card.seeds_text()) " for each combination, "
                @match (card.backend.is_virtual(), card.unseeded()) {
                    (false, _) => { "on the backend " (card.backend) "." }
                    (true, None) => { "in virtual time: the same command gives the same bytes." }
                    (true, Some(note)) => { "in virtual time. " (note) }
                }
            }
            @if let Some(cpu) = &card.cpu { li { (cpu.text(&card.thresholds)) } }
            li {
                "A check passes if the whole 95 % interval over the seeds is within its threshold. \
                 It fails if the whole interval of " (card.failing_text()) " is outside: 95 % for \
                 all " (card.checks) " checks together."
            }
            li { "fathom " (card.fathom) "; " (card.stacks.values().cloned().collect::<Vec<_>>().join("; ")) "." }
        }
    };
    fathom_report::page(
        &format!("{} judged by the criteria of {}", card.controller, card.profile.document()),
        STYLE,
        &body,
    )
}

fn verdict(of: Verdict) -> Markup {
    let (class, sign) = match of {
        Verdict::Pass => ("pass", "✓"),
        Verdict::Fail => ("fail", "✗"),
        Verdict::NotDecided => ("open", "?"),
        Verdict::NotApplicable => ("none", "–"),
    };
    html! { span class={ "verdict " (class) } { (sign) " " (of.text()) } }
}

fn changed(changes: &[Change]) -> Markup {
    html! {
        h2 { "Since the baseline" }
        @if changes.is_empty() { p { "No verdict changed." } }
        ul { @for change in changes {
            li {
                strong { (capitalised(change.direction.text())) ": " }
                (change.test) ", " (change.what) ": " (verdict(change.now.0)) " (" (change.now.1) "), was " (verdict(change.before.0)) " (" (change.before.1) ")"
            }
        } }
    }
}

fn section(card: &Scorecard, criterion: &JudgedCriterion) -> Markup {
    html! {
        h2 id={ "s" (criterion.section) } { (criterion.section) " " (criterion.title) ": " (verdict(criterion.verdict)) }
        p.note { (criterion.asks) }
        @if let Some(why) = &criterion.not_applicable { p { (why) } }
        @for test in &criterion.tests { (test_section(card, test)) }
    }
}

fn test_section(card: &Scorecard, test: &JudgedTest) -> Markup {
    html! {
        h3 { (test.says) ": " (verdict(test.verdict)) }
        @for (threshold, checks) in by_threshold(test) { (drawing(card, threshold, &checks)) }
    }
}

/// Groups the checks by threshold, in the order of the test.
fn by_threshold(test: &JudgedTest) -> Vec<(&str, Vec<&JudgedCheck>)> {
    let mut groups: Vec<(&str, Vec<&JudgedCheck>)> = Vec::new();
    for check in &test.checks {
        match groups
            .iter_mut()
            .find(|(name, of)| *name == check.threshold && of[0].measure == check.measure)
        {
            Some((_, of)) => of.push(check),
            None => groups.push((&check.threshold, vec![check])),
        }
    }
    groups
}

/// Draws values with their intervals beside the threshold.
fn drawing(card: &Scorecard, name: &str, checks: &[&JudgedCheck]) -> Markup {
    let threshold = &card.thresholds[name];
    let first = checks[0];
    let label = match first.relation {
        Relation::Absolute => format!("{}{}", first.measure, unit(&first.unit)),
        Relation::PercentOfReference => format!("{} (% of the worse reference's)", first.measure),
        Relation::MoreThanReference => {
            format!("{}, difference from the worse reference{}", first.measure, unit(&first.unit))
        }
    };
    let rows = checks.iter().map(|check| {
        let at = check.at_text();
        Whisker {
            name: if at.is_empty() { first.measure.clone() } else { at },
            value: check.value.as_ref().map(|value| value.mean),
            interval: check.value.as_ref().and_then(Value::interval),
            samples: Vec::new(),
            note: format!("{} {}", check.verdict.text(), check.value_text()),
            pen: Pen::Of(0),
        }
    });
    let mark = threshold.at_most.or(threshold.at_least).map(|at| (at, threshold.text()));
    let whiskers = Whiskers {
        axis: Axis::linear(label.clone()).within(first.relation.bounds()),
        mark,
        rows: rows.collect(),
    };
    html! {
        @if let Some(svg) = whiskers.svg() { (shown(&label, &svg, &whiskers.csv())) }
        @for check in checks { @if let Some(note) = &check.note { p { (check.at_text()) " " (note) } } }
        p.note { "Threshold: " (threshold.text()) " (" (threshold.basis.name()) "). " (threshold.reason) }
    }
}

fn unit(of: &str) -> String {
    if of.is_empty() { String::new() } else { format!(" ({of})") }
}
