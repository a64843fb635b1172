//! Checks whose verdict became better or worse between two scorecards.

use std::collections::BTreeMap;

use fathom_cc::Invalid;

use crate::plan::JudgePlan;
use crate::scorecard::{JudgedCheck, Scorecard};
use crate::verdict::Verdict;

/// A check with a changed verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Test name: `5.1.2/deep-buffer`.
    pub test: String,
    /// Measure, and the values of the axes.
    pub what: String,
    /// Verdict and value in the older scorecard.
    pub before: (Verdict, String),
    /// Verdict and value in the new scorecard.
    pub now: (Verdict, String),
    /// Direction of the change.
    pub direction: Direction,
}

/// Direction in which a verdict changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The check fails now, but did not fail before.
    Worse,
    /// The check was decided before and is not decided now, for example because there are fewer
    /// seeds. That is no evidence that the controller became worse or better.
    LessCertain,
    /// The check passes now, but did not pass before.
    Better,
}

impl Direction {
    /// Returns the direction in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::LessCertain => "less certain",
            Self::Better => "better",
        }
    }

    /// Returns the direction of a change to this verdict.
    const fn to(now: Verdict) -> Self {
        match now {
            Verdict::Fail => Self::Worse,
            Verdict::Pass => Self::Better,
            Verdict::NotDecided | Verdict::NotApplicable => Self::LessCertain,
        }
    }
}

/// Identity of a check, the same in both scorecards.
type Name<'a> = (String, &'a str, &'a str, &'a BTreeMap<String, String>);

/// Checks that a scorecard can be the baseline of a plan.
///
/// # Errors
/// Returns an error, in one line, if the scorecard is of another controller (other options of the
/// same controller are allowed), or of another profile, stack, references, depth, backend or scale.
/// The number of seeds and the version may differ.
pub fn check_baseline(baseline: &Scorecard, plan: &JudgePlan) -> Result<(), Invalid> {
    // The name of a native controller includes a colon: native:bbr.
    let name = |spec: &str| match spec.split_once(':') {
        Some((name, _)) if name != "native" => name.to_owned(),
        _ => spec.to_owned(),
    };
    let (card, now) = (baseline, &plan.settings);
    let facts = [
        ("profile", card.profile.to_string(), plan.battery.profile.to_string()),
        ("controller", name(&card.controller), name(&now.controller)),
        ("stack", card.stack.clone(), now.stack.name().to_owned()),
        ("--against", card.against.join(","), now.against.join(",")),
        ("depth", card.depth.clone(), now.depth.name().to_owned()),
        ("backend", card.backend.to_string(), now.backend.to_string()),
        ("--scale", card.scale.unwrap_or(1.0).to_string(), now.scale.to_string()),
    ];
    match facts.into_iter().find(|(_, before, now)| before != now) {
        None => Ok(()),
        Some((what, before, now)) => Err(Invalid::because(format!(
            "the baseline has another {what} ({before} instead of {now}); judge with {before}, or \
             name another baseline"
        ))),
    }
}

/// Returns the checks of both scorecards whose verdicts differ, in the order of the new scorecard.
pub fn changes(old: &Scorecard, new: &Scorecard) -> Vec<Change> {
    let before: BTreeMap<Name<'_>, &JudgedCheck> = checks(old).collect();
    let change = |(name, now): (Name<'_>, &JudgedCheck)| {
        let before = *before.get(&name)?;
        let at = now.at_text();
        (before.verdict != now.verdict).then(|| Change {
            test: name.0,
            what: if at.is_empty() {
                now.measure.clone()
            } else {
                format!("{} ({at})", now.measure)
            },
            before: (before.verdict, before.value_text()),
            now: (now.verdict, now.value_text()),
            direction: Direction::to(now.verdict),
        })
    };
    checks(new).filter_map(change).collect()
}

fn checks(of: &Scorecard) -> impl Iterator<Item = (Name<'_>, &JudgedCheck)> {
    of.criteria.iter().flat_map(|criterion| {
        criterion.tests.iter().flat_map(move |test| {
            let name = format!("{}/{}", criterion.section, test.name);
            test.checks.iter().map(move |check| {
                ((name.clone(), &*check.measure, &*check.threshold, &check.at), check)
            })
        })
    })
}
