//! Latency histograms and their file formats.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

/// Longest duration that the histogram distinguishes. Longer durations count as this one.
const LONGEST: Duration = Duration::from_secs(600);

/// Histogram of durations in microseconds, with three significant digits, up to ten minutes. Longer
/// durations count as ten minutes.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        // The library rejects only invalid bounds, and these are valid.
        Self(Histogram::new_with_bounds(1, LONGEST.as_micros() as u64, 3).expect("sound bounds"))
    }
}

impl LatencyHistogram {
    /// Records a duration.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the duration that a fraction of all durations (0 to 1) does not exceed, or `None` if
    /// there are no durations.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.value_at_quantile(part)))
    }

    /// Returns the mean, or `None` if there are no durations.
    pub fn mean(&self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_secs_f64(self.0.mean() / 1e6))
    }

    /// Returns the longest duration, or `None` if there are no durations.
    pub fn max(&self) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.max()))
    }

    /// Returns the distribution: durations, each with the fraction of all durations (0 to 1) that
    /// did not exceed it. The fractions are in steps of 0.5 %, with finer steps towards the end if
    /// there are enough durations.
    pub fn curve(&self) -> Vec<(Duration, f64)> {
        let tail = [0.9975, 0.999, 0.9995, 0.9999]
            .into_iter()
            .filter(|part| self.count() as f64 * (1.0 - part) >= 1.0);
        let mut parts: Vec<f64> =
            (1..200).map(|step| f64::from(step) / 200.0).chain(tail).chain([1.0]).collect();
        parts.sort_by(f64::total_cmp);
        parts.into_iter().filter_map(|part| Some((self.quantile(part)?, part))).collect()
    }

    /// Returns the percentile distribution in the format of HdrHistogram's tools (`.hgrm`), in
    /// milliseconds.
    pub fn hgrm(&self) -> String {
        let ms = |micros: u64| micros as f64 / 1e3;
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut below = 0;
        for step in self.0.iter_quantiles(5) {
            below += step.count_since_last_iteration();
            let (value, part) = (ms(step.value_iterated_to()), step.quantile_iterated_to());
            // Writing to a string does not fail.
            let _ = match part {
                part if part < 1.0 => writeln!(
                    text,
                    "{value:12.3} {part:2.12} {below:10} {:14.2}",
                    1.0 / (1.0 - part)
                ),
                part => writeln!(text, "{value:12.3} {part:2.12} {below:10}"),
            };
        }
        let (mean, deviation) = (self.0.mean() / 1e3, self.0.stdev() / 1e3);
        let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
        let _ = writeln!(
            text,
            "#[Max     = {:12.3}, Total count    = {:12}]",
            ms(self.0.max()),
            self.0.len()
        );
        let _ =
            writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", self.0.buckets(), 2048);
        text
    }
}

/// Durations of one interval of a run.
pub(super) struct Interval {
    pub(super) start: Duration,
    pub(super) length: Duration,
    pub(super) times: LatencyHistogram,
}

/// Writer of intervals as they arrive, in HdrHistogram's interval log (version 1.3, histograms in
/// V2 compressed), in microseconds.
pub(super) fn log(
    mut out: impl io::Write,
    began: SystemTime,
    what: &'static str,
    intervals: impl IntoIterator<Item = Interval>,
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[fathom load: values in microseconds]")
        .with_start_time(began)
        .with_base_time(began)
        .begin_log_with(&mut out, &mut serializer)?;
    for Interval { start, length, times } in intervals {
        let written = log.write_histogram(&times.0, start, length, Tag::new(what));
        written.map_err(|e| io::Error::other(e.to_string()))?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn times(millis: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut times = LatencyHistogram::default();
        millis.into_iter().for_each(|ms| times.record(Duration::from_millis(ms)));
        times
    }

    #[test]
    fn latency_quantiles_have_three_digits_and_saturate() {
        let found = times(1..=1000);
        let p99 = found.quantile(0.99).unwrap().as_secs_f64();
        assert!((p99 / 0.99 - 1.0).abs() < 1e-3, "{p99}");
        assert_eq!(
            (
                found.count(),
                LatencyHistogram::default().quantile(0.5),
                LatencyHistogram::default().max()
            ),
            (1000, None, None)
        );
        assert!(times([3_600_000]).max().unwrap() >= LONGEST);
    }

    #[test]
    fn latency_curve_rises_from_the_shortest_to_the_longest() {
        let found = times(1..=1000);
        let curve = found.curve();
        assert!(
            curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1),
            "{curve:?}"
        );
        assert_eq!(
            (curve.last().unwrap().1, found.max()),
            (1.0, curve.last().map(|(time, _)| *time))
        );
        assert!(curve.iter().any(|(_, part)| *part == 0.999) && times(1..=10).curve().len() == 200);
        assert!(LatencyHistogram::default().curve().is_empty());
    }

    #[test]
    fn hgrm_output_matches_the_hdrhistogram_format() {
        let text = times(1..=100).hgrm();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[2], "       1.000 0.000000000000          1           1.00");
        let last = lines.iter().rfind(|l| !l.starts_with('#')).unwrap();
        assert!(last.contains(" 1.000000000000        100"), "{last}");
        assert!(lines[lines.len() - 2].starts_with("#[Max     =      100"), "{text}");
        assert!(LatencyHistogram::default().hgrm().contains("Total count    =            0]"));
    }

    #[test]
    fn interval_logs_are_readable_by_hdrhistogram() {
        let mut out = Vec::new();
        let second = Duration::from_secs(1);
        let intervals =
            [1, 2].map(|n| Interval { start: second * n, length: second, times: times([5]) });
        log(&mut out, SystemTime::UNIX_EPOCH, "response", intervals).unwrap();
        let read: Vec<_> = IntervalLogIterator::new(&out).map(Result::unwrap).collect();
        let starts = read.iter().filter_map(|entry| match entry {
            LogEntry::Interval(found) => {
                Some((found.start_timestamp(), found.tag().map(|t| t.as_str().to_owned())))
            }
            _ => None,
        });
        let tag = || Some("response".to_owned());
        assert_eq!(starts.collect::<Vec<_>>(), [(second, tag()), (second * 2, tag())]);
    }
}
