//! Several scorecards in one table of controllers by criterion. Below the table, each failure is
//! listed with its value and the command that reproduces it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::profile::Profile;
use crate::scorecard::{JudgedCheck, JudgedCriterion, Scorecard};
use crate::verdict::Verdict;

/// Scorecards in one table.
#[derive(Clone, Debug)]
pub struct League {
    cards: Vec<Scorecard>,
}

/// Reason why scorecards cannot share a table, in one line. Scorecards are named as
/// `CONTROLLER on STACK`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeagueError {
    /// There are no scorecards.
    #[error("no scorecard is given; name at least one")]
    Empty,
    /// Two scorecards were made by different batteries.
    #[error(
        "{0} and {1} differ in profile, version, depth, seeds, references or criteria; judge both in the \
         same way"
    )]
    Differ(String, String),
    /// A controller occurs twice on a stack.
    #[error("{0} is given twice; name it once")]
    Twice(String),
}

impl League {
    /// Ranks scorecards: first by the fewest failed criteria, then by the most passed ones, then by
    /// stack and name.
    ///
    /// # Errors
    /// Returns an error if there are no scorecards, if they were made by different batteries
    /// (depth, seeds, references), or if one occurs twice.
    pub fn new(mut cards: Vec<Scorecard>) -> Result<Self, LeagueError> {
        let Some(first) = cards.first() else { return Err(LeagueError::Empty) };
        let player = |card: &Scorecard| format!("{} on {}", card.controller, card.stack);
        let made = |card: &Scorecard| {
            (
                card.profile,
                card.fathom.clone(),
                card.depth.clone(),
                (card.seeds, card.most_seeds),
                card.against.clone(),
            )
        };
        let names =
            |card: &Scorecard| card.criteria.iter().map(|c| c.section.clone()).collect::<Vec<_>>();
        if let Some(other) =
            cards.iter().find(|card| made(card) != made(first) || names(card) != names(first))
        {
            return Err(LeagueError::Differ(player(other), player(first)));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) =
            cards.iter().find(|card| !seen.insert((card.controller.clone(), card.stack.clone())))
        {
            return Err(LeagueError::Twice(player(twice)));
        }
        cards.sort_by(|a, b| {
            let key =
                |card: &Scorecard| (card.counts.failed, std::cmp::Reverse(card.counts.passed));
            key(a)
                .cmp(&key(b))
                .then_with(|| (&a.stack, &a.controller).cmp(&(&b.stack, &b.controller)))
        });
        Ok(Self { cards })
    }

    /// Formats the league in Markdown: a table of controllers by criterion, the meaning of the
    /// columns, then every failure with its command, which begins with `program`.
    pub fn markdown(&self, program: &str) -> String {
        let first = &self.cards[0];
        let asked: Vec<&JudgedCriterion> =
            first.criteria.iter().filter(|c| c.not_applicable.is_none()).collect();
        let mut text = match first.profile {
            Profile::Rfc9743 => self.controllers_down(&asked),
            Profile::Bbr | Profile::Rmcat => self.cases_down(&asked),
        };
        text += "\n✓ pass, **✗** fail, ? not decided, – not applicable on this stack. ";
        text += first.profile.note();
        text += "\n";
        if first.profile == Profile::Rfc9743 {
            text += "\n| section | asks |\n|---|---|\n";
            for criterion in &asked {
                let _ = writeln!(
                    text,
                    "| {} ({}) | {}: {} |",
                    criterion.section,
                    criterion.strength.word(),
                    criterion.title,
                    criterion.asks
                );
            }
        }
        text += "\n## Failed checks, and the command that repeats each\n\nEach line names a failed \
                 test, the measured value with its 95 % interval, and the threshold.\n";
        for card in &self.cards {
            text += &failures(card, program);
        }
        text
    }

    /// Returns a table with a row per case and a column per controller.
    fn cases_down(&self, asked: &[&JudgedCriterion]) -> String {
        let names = self.cards.iter().map(|card| format!("{} `{}`", card.stack, card.controller));
        let mut text = format!("| case | {} |\n", names.collect::<Vec<_>>().join(" | "));
        let _ = writeln!(text, "|---|{}", ":-:|".repeat(self.cards.len()));
        for case in asked {
            let marks = self.cards.iter().map(|card| mark(verdict(card, &case.section)));
            let marks = marks.collect::<Vec<_>>().join(" | ");
            let _ = writeln!(text, "| {} {} | {marks} |", case.section, case.title);
        }
        text
    }

    /// Returns a table with a row per controller and a column per criterion.
    fn controllers_down(&self, asked: &[&JudgedCriterion]) -> String {
        let mut text = String::new();
        let heads: Vec<&str> = asked.iter().map(|c| &*c.section).collect();
        let _ =
            writeln!(text, "| controller | stack | pass | fail | open | {} |", heads.join(" | "));
        let _ = writeln!(text, "|---|---|--:|--:|--:|{}", ":-:|".repeat(heads.len()));
        for card in &self.cards {
            let cells: Vec<&str> = asked.iter().map(|c| mark(verdict(card, &c.section))).collect();
            let counts = card.counts;
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | {} |",
                card.controller,
                card.stack,
                counts.passed,
                counts.failed,
                counts.not_decided,
                cells.join(" | ")
            );
        }
        text
    }
}

/// Formats a controller's failures, each with its value and threshold.
fn failures(card: &Scorecard, program: &str) -> String {
    let mut text = format!("\n### `{}` on {}\n\n", card.controller, card.stack);
    if card.counts.failed == 0 {
        return text + "Nothing failed.\n";
    }
    let against = card.against.join(",");
    let profile = match card.profile {
        Profile::Rfc9743 => String::new(),
        other => format!(" --profile {other}"),
    };
    let seeds = match card.most_seeds > card.seeds {
        true => String::new(),
        false => format!(" --seeds {}", card.seeds),
    };
    let _ = writeln!(
        text,
        "```sh\n{program} judge '{}'{profile} --stack {} --against '{against}' --{}{seeds}{}\n```\n",
        card.controller,
        card.stack,
        card.depth,
        card.criteria
            .iter()
            .filter(|c| c.verdict == Verdict::Fail)
            .map(|c| format!(" --only {}", c.section))
            .collect::<String>()
    );
    for criterion in &card.criteria {
        for test in &criterion.tests {
            let failed: Vec<&JudgedCheck> =
                test.checks.iter().filter(|check| check.verdict == Verdict::Fail).collect();
            // The first failed check stands for all others of its test, except in profiles of test
            // cases, where each check is about something else.
            let listed = match card.profile {
                Profile::Rfc9743 => failed.len().min(1),
                Profile::Bbr | Profile::Rmcat => failed.len(),
            };
            for worst in &failed[..listed] {
                let at = worst.at_text();
                let _ = writeln!(
                    text,
                    "- {}/{}{}: {}: {}{}",
                    criterion.section,
                    test.name,
                    if at.is_empty() { String::new() } else { format!(" ({at})") },
                    worst.measure,
                    card.finding(worst),
                    match failed.len() - listed {
                        0 => String::new(),
                        1 => "; 1 more check of this test failed".to_owned(),
                        more => format!("; {more} more checks of this test failed"),
                    }
                );
            }
        }
    }
    text
}

fn verdict(card: &Scorecard, section: &str) -> Verdict {
    card.criteria
        .iter()
        .find(|c| c.section == section)
        .map_or(Verdict::NotApplicable, |c| c.verdict)
}

const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NotApplicable => "–",
        Verdict::Pass => "✓",
        Verdict::NotDecided => "?",
        Verdict::Fail => "**✗**",
    }
}
