//! Workload of the clients: sizes of responses, and responses per connection.

use fathom_traffic::pages::{MOST_OBJECTS, SIZE_QUANTILES};

use crate::logs::Observed;
use crate::profile::quantile;

/// Prefix of a workload that lists the objects of a connection.
pub(crate) const PREFIX: &str = "objects:";
/// Smallest and largest simulated response in bytes.
const SIZES: (u64, u64) = (64, 1_000_000_000);

/// Objects of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// Mean number of objects.
    mean: f64,
    /// Sizes at [`SIZE_QUANTILES`].
    sizes: [u64; SIZE_QUANTILES.len()],
    /// Whether the logs contain no responses, so that each connection counts as one.
    pub of_connections: bool,
}

impl Objects {
    /// Builds the objects from sizes in any order and the mean number per connection.
    pub fn of(sizes: &[u64], mean: f64) -> Self {
        let mut sorted: Vec<f64> =
            sizes.iter().map(|bytes| (*bytes).clamp(SIZES.0, SIZES.1) as f64).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| quantile(&sorted, part).map_or(SIZES.0, |bytes| bytes as u64);
        let mean = mean.clamp(1.0, f64::from(MOST_OBJECTS));
        Self {
            mean: (mean * 100.0).round() / 100.0,
            sizes: SIZE_QUANTILES.map(|part| two_digits(at(part))),
            of_connections: false,
        }
    }

    /// Builds the objects from observations. If logs contain no responses, all bytes of a
    /// connection count as one response. Returns `None` if there are no bytes at all.
    pub fn observed(observed: &Observed) -> Option<Self> {
        let with: Vec<&Vec<u64>> =
            observed.connections.iter().map(|c| &c.responses).filter(|r| !r.is_empty()).collect();
        let sizes: Vec<u64> = with.iter().flat_map(|sizes| sizes.iter().copied()).collect();
        if !sizes.is_empty() {
            return Some(Self::of(&sizes, sizes.len() as f64 / with.len() as f64));
        }
        if !observed.responses.is_empty() {
            return Some(Self::of(&observed.responses, 1.0));
        }
        let bytes: Vec<u64> =
            observed.connections.iter().map(|c| c.bytes).filter(|bytes| *bytes > 0).collect();
        (!bytes.is_empty()).then(|| Self { of_connections: true, ..Self::of(&bytes, 1.0) })
    }

    /// Returns the mean bytes of a connection as simulated, with logarithmic interpolation between
    /// quantiles.
    pub fn bytes_per_connection(&self) -> f64 {
        let sizes = self.sizes.map(|bytes| bytes as f64);
        let mut sum = SIZE_QUANTILES[0] * sizes[0]
            + (1.0 - SIZE_QUANTILES[SIZE_QUANTILES.len() - 1]) * sizes[sizes.len() - 1];
        for (part, size) in SIZE_QUANTILES.windows(2).zip(sizes.windows(2)) {
            let logarithm = (size[1] / size[0]).ln();
            let mean = if logarithm > 1e-9 { (size[1] - size[0]) / logarithm } else { size[0] };
            sum += (part[1] - part[0]) * mean;
        }
        self.mean * sum
    }

    /// Formats the objects as a scenario's workload: `objects:3.5x1kB..4kB..9kB..40kB..200kB..2MB`.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|bytes| size_text(*bytes)).collect();
        format!("{PREFIX}{}x{}", self.mean, sizes.join(".."))
    }
}

/// Rounds up to two significant digits, because a percentile of a log is no more exact.
fn two_digits(bytes: u64) -> u64 {
    let scale = 10u64.pow(bytes.max(1).ilog10().saturating_sub(1));
    bytes.div_ceil(scale) * scale
}

/// Formats bytes for a workload: whole numbers of the largest unit that needs no fraction.
fn size_text(bytes: u64) -> String {
    let unit = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)]
        .into_iter()
        .find(|(_, of)| bytes.is_multiple_of(*of));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, of)| format!("{}{unit}", bytes / of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Observation;

    #[test]
    fn object_sizes_are_formatted_as_a_workload() {
        let sizes: Vec<u64> = (1..=1_000).map(|i| i * 1_234).collect();
        let objects = Objects::of(&sizes, 2.345);
        assert_eq!(objects.text(), "objects:2.35x62kB..310kB..620kB..930kB..1200kB..1300kB");
        assert_eq!(
            Objects::of(&[1, 2_000_000_000], 0.0).text(),
            "objects:1x64B..64B..64B..1GB..1GB..1GB"
        );
    }

    #[test]
    fn estimated_bytes_per_connection_match_the_object_sizes() {
        let sizes: Vec<u64> =
            (0..10_000).map(|i| (1_000.0 * (f64::from(i) / 1_500.0).exp()) as u64).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        let found = Objects::of(&sizes, 3.0).bytes_per_connection() / 3.0;
        assert!((found / mean - 1.0).abs() < 0.1, "{found} of {mean}");
    }

    #[test]
    fn connection_without_responses_counts_as_one_response() {
        let connection = Observation { bytes: 70_000, ..Observation::default() };
        let observed = Observed { connections: vec![connection.clone()], ..Observed::default() };
        let objects = Objects::observed(&observed).unwrap();
        assert!(objects.of_connections && objects.text().contains("70kB"), "{objects:?}");
        let connections = vec![Observation { responses: vec![10_000, 30_000], ..connection }];
        let objects = Objects::observed(&Observed { connections, ..Observed::default() }).unwrap();
        assert!(
            !objects.of_connections && objects.text().starts_with("objects:2x10kB"),
            "{objects:?}"
        );
        assert_eq!(Objects::observed(&Observed::default()), None);
    }
}
