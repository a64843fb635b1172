//! The change of a measure from one controller to another, paired by seed.

use fathom_metrics::Estimate;

use super::Measure;

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
    /// Returns the change of paired values as a ratio; `None` if there are no pairs or if a value
    /// is not above zero.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
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
    pub fn in_points(pairs: &[(f64, f64)]) -> Option<Self> {
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
