//! Comparison of an interval with a threshold.

use serde::{Deserialize, Serialize};

use crate::battery::Threshold;

/// Verdict on a check, a test or a criterion. A verdict on several parts is the worst verdict of
/// these parts, so one failed part is enough to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The criterion or test does not apply.
    NotApplicable,
    /// The whole 95% interval is within the threshold.
    Pass,
    /// The interval crosses the threshold, or there is no interval.
    NotDecided,
    /// The whole interval is outside the threshold.
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

    /// Compares the interval of a mean with a threshold. A mean over one seed has no interval, so
    /// it is not decided.
    pub(crate) fn of(interval: Option<(f64, f64)>, threshold: &Threshold) -> Self {
        let Some((low, high)) = interval else { return Self::NotDecided };
        let (least, most) = (
            threshold.at_least.unwrap_or(f64::NEG_INFINITY),
            threshold.at_most.unwrap_or(f64::INFINITY),
        );
        if low >= least && high <= most {
            Self::Pass
        } else if high < least || low > most {
            Self::Fail
        } else {
            Self::NotDecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_needs_the_whole_interval_on_one_side_of_the_limit() {
        let threshold = |at_least, at_most| Threshold {
            at_least,
            at_most,
            unit: "%".into(),
            reason: String::new(),
        };
        let value = |mean: f64, half: f64| Some((mean - half, mean + half));
        let least = threshold(Some(25.0), None);
        assert_eq!(Verdict::of(value(30.0, 5.0), &least), Verdict::Pass);
        assert_eq!(Verdict::of(value(30.0, 5.1), &least), Verdict::NotDecided);
        assert_eq!(Verdict::of(value(20.0, 5.0), &least), Verdict::NotDecided);
        assert_eq!(Verdict::of(value(19.0, 5.0), &least), Verdict::Fail);
        let both = threshold(Some(25.0), Some(80.0));
        assert_eq!(Verdict::of(value(79.0, 2.0), &both), Verdict::NotDecided);
        assert_eq!(Verdict::of(value(90.0, 2.0), &both), Verdict::Fail);
        assert_eq!(Verdict::of(None, &least), Verdict::NotDecided, "one seed decides nothing");
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
