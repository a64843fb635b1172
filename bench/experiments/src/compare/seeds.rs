//! Checks of the seeds of a comparison: whether all seeds give the same run, which seeds are
//! outliers, and for which seeds one of two controllers has no value.

use fathom_metrics::{median, outliers};

use super::result::{Candidate, ComparedRun, Comparison};
use crate::measures::{Measure, listed};

/// Fraction of the largest value by which values may differ and still count as equal. No figure of
/// a report shows such a difference.
const SAME: f64 = 1e-4;
/// Maximum number of seeds that a sentence names. More are counted.
const NAMED: usize = 6;

impl Comparison {
    /// Returns whether the seeds change nothing. This holds if each label has several runs, all
    /// runs are virtual, and the runs of a label have the same requests and, to four digits, the
    /// same mean response time, throughput and duration. Such seeds are one run, and an interval
    /// over them says nothing.
    pub fn seeds_are_one_run(&self) -> bool {
        let all = self.by_label();
        let same = |of: &Candidate<'_>| {
            let hash = &of.runs[0].group().request_hash;
            let measures: [fn(&ComparedRun) -> f64; 3] = [
                |run| run.times().map_or(0.0, |times| times.mean_ms),
                |run| run.group().throughput_bps,
                |run| run.outcome.seconds,
            ];
            of.runs.len() > 1
                && !hash.is_empty()
                && of
                    .runs
                    .iter()
                    .all(|run| run.group().request_hash == *hash && run.backend.is_virtual())
                && measures.iter().all(|of_run| alike(of.runs.iter().map(|run| of_run(run))))
        };
        !all.is_empty() && all.iter().all(same)
    }

    /// Returns a sentence for each controller with outlying seeds by the primary measure: `seeds 6,
    /// 25 and 35 took 27 to 30 s under native:cubic, but the median of 40 seeds is 17.7 s`.
    pub fn outlying_seeds(&self) -> Vec<String> {
        let measure = self.primary();
        self.candidates().iter().filter_map(|of| outlier_line(of, measure)).collect()
    }

    /// Returns a candidate's outlying seeds by the primary measure.
    pub fn outlying_seeds_of(&self, of: &Candidate<'_>) -> Vec<u64> {
        let (seeds, values): (Vec<u64>, Vec<f64>) = of.values(self.primary()).into_iter().unzip();
        outliers(&values).into_iter().map(|place| seeds[place]).collect()
    }

    /// Returns the labels of the controllers that [`Comparison::unpaired`] names.
    pub fn unpaired_labels(&self) -> Vec<&str> {
        self.unpaired_lines().into_iter().map(|(label, _)| label).collect()
    }

    /// Returns a sentence for each controller whose change from the baseline covers other seeds
    /// than the means, because some runs of the controller or of the baseline have no value.
    pub fn unpaired(&self) -> Vec<String> {
        self.unpaired_lines().into_iter().map(|(_, line)| line).collect()
    }

    fn unpaired_lines(&self) -> Vec<(&str, String)> {
        let (measure, all) = (self.primary(), self.candidates());
        let line = |of: &Candidate<'_>| -> Option<String> {
            let base = self.baseline_of(of, &all).filter(|base| base.label != of.label)?;
            let (own, theirs) = (of.values(measure), base.values(measure));
            let both: Vec<(u64, f64, f64)> = own
                .iter()
                .filter_map(|(seed, value)| Some((*seed, *value, *theirs.get(seed)?)))
                .collect();
            if own.is_empty() || (both.len() == own.len() && both.len() == theirs.len()) {
                return None;
            }
            let counts = format!(
                "{} has results in {} and {} in {} of {} seeds",
                of.label,
                own.len(),
                base.label,
                theirs.len(),
                { self.plan.seeds }
            );
            let n = both.len() as f64;
            let (a, b) = (
                both.iter().map(|x| x.1).sum::<f64>() / n,
                both.iter().map(|x| x.2).sum::<f64>() / n,
            );
            Some(match both.len() {
                0 => format!(
                    "{counts} for the {}, but no seed has both results, so the two are not compared",
                    measure.name
                ),
                _ => format!(
                    "{counts} for the {}. The change covers {}, in which both have results (means: \
                     {} and {}). The means in the table cover all seeds, so they do not agree with \
                     the change",
                    measure.name,
                    seeds_in_words(&both.iter().map(|x| x.0).collect::<Vec<_>>()),
                    amount(measure, a),
                    amount(measure, b),
                ),
            })
        };
        let labels = self.by_label().into_iter().map(|of| of.label);
        all.iter().zip(labels).filter_map(|(of, label)| Some((label, line(of)?))).collect()
    }
}

/// Returns whether values are equal to four digits.
fn alike(values: impl Iterator<Item = f64> + Clone) -> bool {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    high - low <= SAME * high.abs()
}

fn outlier_line(of: &Candidate<'_>, measure: &Measure) -> Option<String> {
    let (seeds, plain): (Vec<u64>, Vec<f64>) = of.values(measure).into_iter().unzip();
    let far = outliers(&plain);
    let middle = median(&plain).filter(|_| !far.is_empty())?;
    let seeds: Vec<u64> = far.iter().map(|place| seeds[*place]).collect();
    let of_far = |pick: fn(f64, f64) -> f64, from: f64| {
        far.iter().map(|place| plain[*place]).fold(from, pick)
    };
    let (low, high) = (of_far(f64::min, f64::INFINITY), of_far(f64::max, f64::NEG_INFINITY));
    let range = if far.len() == 1 { amount(measure, low) } else { range(measure, low, high) };
    let verb = if measure.unit == "ms" { "took" } else { "had" };
    Some(format!(
        "{} {verb} {range} under {}, but the median of {} seeds is {}",
        seeds_in_words(&seeds),
        of.label,
        plain.len(),
        amount(measure, middle)
    ))
}

/// Returns seeds in words: `seed 3`, `seeds 1, 4 and 7`, `9 seeds`.
fn seeds_in_words(seeds: &[u64]) -> String {
    let names: Vec<String> = seeds.iter().map(u64::to_string).collect();
    match names.len() {
        1 => format!("seed {}", names[0]),
        few if few <= NAMED => format!("seeds {}", listed(&names)),
        many => format!("{many} seeds"),
    }
}

/// Returns a value with its unit for a sentence, with times of 10 s or more in seconds.
pub(super) fn amount(measure: &Measure, value: f64) -> String {
    let (value, unit) = in_words(measure, value);
    format!("{} {unit}", fathom_metrics::significant_text(value, 3)).trim_end().to_owned()
}

/// Returns a range with its unit for a sentence: `27 to 30 s`.
fn range(measure: &Measure, low: f64, high: f64) -> String {
    let ((a, of_low), (b, of_high)) = (in_words(measure, low), in_words(measure, high));
    let text = |value| fathom_metrics::significant_text(value, 3);
    if of_low == of_high {
        return format!("{} to {} {of_low}", text(a), text(b)).trim_end().to_owned();
    }
    format!("{} {of_low} to {} {of_high}", text(a), text(b))
}

fn in_words(measure: &Measure, value: f64) -> (f64, &'static str) {
    if measure.unit == "ms" && value >= 10_000.0 {
        (value / 1e3, "s")
    } else {
        (value, measure.unit)
    }
}
