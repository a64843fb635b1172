//! The scorecard for a terminal: the result, a line per criterion, then the failed and undecided
//! checks.

use fathom_report::{Column, Grid, capitalised, wrapped};

use crate::changes::Change;
use crate::scorecard::{JudgedCheck, JudgedCriterion, Scorecard};
use crate::verdict::Verdict;

const WIDTH: usize = 100;

/// Returns the text. `changes` are the changes since an older scorecard, if one is given.
pub fn text(card: &Scorecard, changes: Option<&[Change]>) -> String {
    let mut lines = vec![answer(card), String::new()];
    lines.extend(criteria(card).text(WIDTH).lines().map(str::to_owned));
    for verdict in [Verdict::Fail, Verdict::NotDecided] {
        let found = of(card, verdict);
        if found.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(format!("{}:", capitalised(verdict.text())));
        lines.extend(found);
    }
    lines.extend(changes.into_iter().flat_map(since_baseline));
    if let Some(cpu) = &card.cpu {
        lines.push(String::new());
        lines.extend(wrapped(&cpu.text(&card.thresholds), WIDTH));
    }
    lines.push(String::new());
    let unseeded = card.unseeded().map(|note| format!("NOTE: {note}"));
    let intervals = format!(
        "Values are means over the seeds with 95 % intervals. A check passes if this interval is \
         within the threshold, and fails if the wider interval of {} is outside.",
        card.failing_text()
    );
    for line in card
        .status()
        .iter()
        .chain(&unseeded)
        .chain([&intervals])
        .map(String::as_str)
        .chain([card.profile.note()])
    {
        lines.extend(wrapped(line, WIDTH));
    }
    lines.join("\n") + "\n"
}

/// Returns the table of criteria with their verdicts.
fn criteria(card: &Scorecard) -> Grid {
    let column = |name: &str, cell: &dyn Fn(&JudgedCriterion) -> String| Column {
        name: name.to_owned(),
        cells: card.criteria.iter().map(cell).collect(),
        ..Column::default()
    };
    let checks = |c: &JudgedCriterion| c.tests.iter().map(|t| t.checks.len()).sum::<usize>();
    Grid {
        corner: format!("criterion of {}", card.profile.document()),
        labels: card.criteria.iter().map(|c| format!("{} {}", c.section, c.title)).collect(),
        columns: vec![
            column("asked", &|c| c.strength.word().to_owned()),
            column("checks", &|c| checks(c).to_string()),
            column("verdict", &|c| c.verdict.text().to_owned()),
        ],
    }
}

/// Lists the changes since an older scorecard.
fn since_baseline(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| {
        let (now, before) = (&change.now, &change.before);
        format!(
            "  {}: {} {}: {} ({}), was {} ({})",
            change.direction.text(),
            change.test,
            change.what,
            now.0.text(),
            now.1,
            before.0.text(),
            before.1
        )
    };
    let mut lines = vec![String::new(), "Since the baseline:".to_owned()];
    if changes.is_empty() {
        lines.push("  no verdict changed".to_owned());
    }
    lines.extend(changes.iter().map(line));
    lines
}

/// Summarises the result in a sentence.
pub fn answer(card: &Scorecard) -> String {
    let counts = card.counts;
    format!(
        "{} on {}: {} criteria passed, {} failed, {} not decided, {} not applicable ({}, {}, against {}{}{})",
        card.controller,
        card.stack,
        counts.passed,
        counts.failed,
        counts.not_decided,
        counts.not_applicable,
        card.depth,
        card.seeds_text(),
        card.against.join(", "),
        if card.backend.is_virtual() { String::new() } else { format!(", on {}", card.backend) },
        card.scale.map(|scale| format!(", durations scaled by {scale}")).unwrap_or_default()
    )
}

/// Lists the checks with this verdict, one line each.
fn of(card: &Scorecard, verdict: Verdict) -> Vec<String> {
    let line = |section: &str, test: &str, check: &JudgedCheck| {
        let at = check.at_text();
        let at = if at.is_empty() { String::new() } else { format!(" [{at}]") };
        format!("  {section}/{test}{at}: {}: {}", check.measure, card.finding(check))
    };
    card.criteria
        .iter()
        .flat_map(|criterion| {
            criterion.tests.iter().flat_map(move |test| {
                let checks = test.checks.iter().filter(move |check| check.verdict == verdict);
                checks.map(move |check| line(&criterion.section, &test.name, check))
            })
        })
        .collect()
}
