//! Comparison of an interval with a threshold.

use serde::{Deserialize, Serialize};

use crate::battery::Threshold;
use crate::value::Value;

/// Verdict on a check, a test or a criterion. A verdict on several parts is the worst verdict of
/// these parts, so one failed part is enough to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The criterion or test does not apply.
    NotApplicable,
    /// The whole 95% interval is within the threshold.
    Pass,
    /// Neither holds, or there is no interval.
    NotDecided,
    /// The whole interval that is wider because there are many checks is outside the threshold
    /// ([`Value::failing`]).
    Fail,
}

impl Verdict {
    /// Returns the verdict in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Pass => "pass",
            Self::NotDecided => "not decided",
            Self::Fail => "fail",
        }
    }

    /// Returns the worst of several verdicts, or `NotApplicable` if there are none.
    pub(crate) fn worst(of: impl IntoIterator<Item = Self>) -> Self {
        of.into_iter().max().unwrap_or(Self::NotApplicable)
    }

    /// Compares the intervals of a mean with a threshold. A mean over one seed has no interval, so
    /// it is not decided.
    pub(crate) fn of(value: &Value, threshold: &Threshold) -> Self {
        let Some(((low, high), failing)) = value.interval().zip(value.failing) else {
            return Self::NotDecided;
        };
        let (least, most) = (
            threshold.at_least.unwrap_or(f64::NEG_INFINITY),
            threshold.at_most.unwrap_or(f64::INFINITY),
        );
        if low >= least && high <= most {
            Self::Pass
        } else if failing.1 < least || failing.0 > most {
            Self::Fail
        } else {
            Self::NotDecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::Basis;

    #[test]
    fn verdict_needs_the_whole_interval_on_one_side_of_the_limit() {
        let threshold = |at_least, at_most| Threshold {
            at_least,
            at_most,
            unit: "%".into(),
            basis: Basis::Convention,
            reason: String::new(),
        };
        let value = |mean: f64, half: f64| Value {
            n: 3,
            mean,
            low: Some(mean - half),
            high: Some(mean + half),
            failing: Some((mean - 2.0 * half, mean + 2.0 * half)),
        };
        let least = threshold(Some(25.0), None);
        assert_eq!(Verdict::of(&value(30.0, 5.0), &least), Verdict::Pass);
        assert_eq!(Verdict::of(&value(30.0, 5.1), &least), Verdict::NotDecided);
        assert_eq!(Verdict::of(&value(20.0, 5.0), &least), Verdict::NotDecided);
        assert_eq!(Verdict::of(&value(19.0, 5.0), &least), Verdict::NotDecided);
        assert_eq!(Verdict::of(&value(14.0, 5.0), &least), Verdict::Fail);
        let both = threshold(Some(25.0), Some(80.0));
        assert_eq!(Verdict::of(&value(79.0, 2.0), &both), Verdict::NotDecided);
        assert_eq!(Verdict::of(&value(90.0, 2.0), &both), Verdict::Fail);
        let one = Value::of(&[30.0], 1).unwrap();
        assert_eq!(Verdict::of(&one, &least), Verdict::NotDecided, "one seed decides nothing");
    }

    #[test]
    fn one_failed_check_fails_the_criterion() {
        use Verdict::{Fail, NotApplicable, NotDecided, Pass};
        assert_eq!(Verdict::worst([Pass, Fail, NotDecided]), Fail);
        assert_eq!(Verdict::worst([Pass, NotDecided]), NotDecided);
        assert_eq!(Verdict::worst([NotApplicable, Pass]), Pass);
        assert_eq!(Verdict::worst([]), NotApplicable);
    }
}
