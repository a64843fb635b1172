//! The change of a measure from one controller to another, paired by seed.

use fathom_metrics::Estimate;

use super::standings::BySeed;
use super::{Better, Measure};

/// Change of a measure from one controller to another, over the seeds that both have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Mean change in percent; in percentage points if the measure is a percentage itself.
    pub percent: f64,
    /// Both ends of the 95 % interval of the change; `None` with one seed, which has no interval.
    pub interval_percent: Option<(f64, f64)>,
    /// Number of seeds.
    pub seeds: usize,
    /// Whether the change is a difference in percentage points. A measure that may be zero has no
    /// ratios.
    pub points: bool,
}

impl Change {
    /// Returns the change over the seeds that both systems have: points for a percentage, a ratio
    /// for any other measure. Returns `None` if the systems have no common seed, or if a ratio
    /// cannot be computed.
    pub(crate) fn by_seed(measure: &Measure, from: &BySeed, to: &BySeed) -> Option<Self> {
        let pair = |(seed, base): (&u64, &f64)| Some((*base, *to.get(seed)?));
        let pairs: Vec<(f64, f64)> = from.iter().filter_map(pair).collect();
        if measure.unit == "%" { Self::in_points(&pairs) } else { Self::of(&pairs) }
    }

    /// Returns the change of paired values as a ratio; `None` if there are no pairs or if a value
    /// is not above zero.
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.iter().any(|(base, value)| *base <= 0.0 || *value <= 0.0) {
            return None;
        }
        let logarithms: Vec<f64> = pairs.iter().map(|(base, value)| (value / base).ln()).collect();
        let mean = Estimate::of(&logarithms)?;
        let percent = |x: f64| 100.0 * (x.exp() - 1.0);
        Some(Self {
            percent: percent(mean.mean),
            interval_percent: mean.interval().map(|(low, high)| (percent(low), percent(high))),
            seeds: mean.n,
            points: false,
        })
    }

    /// Returns the change of paired percentages: their difference.
    fn in_points(pairs: &[(f64, f64)]) -> Option<Self> {
        let differences: Vec<f64> = pairs.iter().map(|(base, value)| value - base).collect();
        let mean = Estimate::of(&differences)?;
        Some(Self {
            percent: mean.mean,
            interval_percent: mean.interval(),
            seeds: mean.n,
            points: true,
        })
    }

    /// Returns the unit of the change.
    pub fn unit(&self) -> &'static str {
        if self.points { "points" } else { "%" }
    }

    /// Returns whether the interval excludes zero.
    pub fn is_significant(&self) -> bool {
        self.interval_percent.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Returns whether the mean change improves the measure.
    pub(crate) fn is_improvement(&self, measure: &Measure) -> bool {
        (self.percent > 0.0) == (measure.better == Better::Higher)
    }

    /// Returns the change and its interval as text: `-27 % (-34 to -18)`.
    pub fn text(&self) -> String {
        let unit = self.unit();
        let Some((low, high)) = self.interval_percent else {
            return format!("{:+.1} {unit}", self.percent);
        };
        let digits = usize::from(high - low < 4.0);
        format!("{:+.digits$} {unit} ({low:+.digits$} to {high:+.digits$})", self.percent)
    }

    /// Returns the change of a measure in words: `18 to 34 % faster`.
    pub(crate) fn words(&self, measure: &Measure) -> String {
        let (lower, higher) =
            if measure.unit == "ms" { ("faster", "slower") } else { ("lower", "higher") };
        let size = match self.interval_percent {
            Some((low, high)) => {
                let (near, far) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
                let digits = usize::from(far - near < 4.0);
                format!("{near:.digits$} to {far:.digits$}")
            }
            None => format!("{:.0}", self.percent.abs()),
        };
        format!("{size} {} {}", self.unit(), if self.percent < 0.0 { lower } else { higher })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_a_percentage_is_given_in_points_even_from_zero() {
        let pairs = [(0.0, 27.0), (0.1, 25.1), (0.2, 29.2)];
        let change = Change::in_points(&pairs).unwrap();
        assert!((change.percent - 27.0).abs() < 1e-9 && change.is_significant(), "{change:?}");
        assert!(change.text().starts_with("+27 points (") && Change::of(&pairs).is_none());
        assert!(!Change::in_points(&[(0.0, 0.0), (0.0, 0.0)]).unwrap().is_significant());
    }

    #[test]
    fn change_is_a_ratio_with_students_t_interval() {
        // Both values halve: no spread.
        let halved = Change::of(&[(10.0, 5.0), (20.0, 10.0)]).unwrap();
        assert!((halved.percent + 50.0).abs() < 1e-6 && halved.is_significant(), "{halved:?}");
        // ln 1.1 and ln 1.3: mean 0.1788, half width 12.706 x 0.1181 / sqrt 2 = 1.0613.
        let change = Change::of(&[(100.0, 110.0), (100.0, 130.0)]).unwrap();
        let (low, high) = change.interval_percent.unwrap();
        assert!(
            (change.percent - 19.58).abs() < 0.01
                && (low + 58.6).abs() < 0.2
                && (high - 245.6).abs() < 0.6,
            "{change:?}"
        );
        assert!(!change.is_significant());
        // The change back is the inverse.
        let back = Change::of(&[(110.0, 100.0), (130.0, 100.0)]).unwrap();
        assert!((1.0 + back.percent / 100.0 - 1.0 / (1.0 + change.percent / 100.0)).abs() < 1e-6);
        let one = Change::of(&[(100.0, 90.0)]).unwrap();
        assert_eq!((one.interval_percent, one.is_significant()), (None, false));
        assert_eq!((Change::of(&[]), Change::of(&[(0.0, 1.0)])), (None, None));
        assert_eq!(halved.text(), "-50.0 % (-50.0 to -50.0)");
        assert_eq!(change.text(), "+20 % (-59 to +246)");
    }
}
