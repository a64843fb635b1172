//! PackMime's inverse CDFs as tables: piecewise linear, extended beyond either end with the slope
//! of the end segment.

use std::sync::LazyLock;

use serde::Deserialize;

/// Tables of `packmime.json`, parsed once.
pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    serde_json::from_str(include_str!("packmime.json")).expect("packmime.json is part of the build")
});

/// One table per empirical distribution. Arguments and units are those of the functions in
/// `distributions.rs`.
#[derive(Debug, Deserialize)]
pub(super) struct Tables {
    /// Lower half of the request sizes: bytes, by the probability within the half.
    pub(super) request_size_body: Table,
    /// Upper half of the request sizes: log2(bytes), by log2 of the probability of lying above,
    /// within the half.
    pub(super) request_size_tail: Table,
    /// Responses that only validate a cache entry: bytes, by the probability.
    pub(super) response_size_cache_validation: Table,
    /// Responses that carry a document: log2(bytes), by log2 of the probability of lying above.
    pub(super) response_size_download: Table,
    /// Fifth root of the client's part of the RTT in ms, by -log10 of the probability of lying
    /// above.
    pub(super) client_rtt: Table,
    /// Cube root of the server's part of the RTT in ms, by -log10 of the probability of lying
    /// above.
    pub(super) server_rtt: Table,
}

/// A piecewise-linear function.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Points")]
pub(super) struct Table {
    points: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct Points {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl TryFrom<Points> for Table {
    type Error = &'static str;

    fn try_from(Points { x, y }: Points) -> Result<Self, Self::Error> {
        if x.len() != y.len() || x.len() < 2 {
            return Err("a table needs the same number of x and y values, at least two of each");
        }
        if !x.is_sorted_by(|a, b| a < b) || !y.iter().all(|y| y.is_finite()) {
            return Err("a table needs increasing x values and finite y values");
        }
        Ok(Self { points: x.into_iter().zip(y).collect() })
    }
}

impl Table {
    /// Returns the value at `x`.
    pub(super) fn at(&self, x: f64) -> f64 {
        let last_segment = self.points.len() - 2;
        let segment =
            self.points.partition_point(|&(left, _)| left <= x).saturating_sub(1).min(last_segment);
        let ((x0, y0), (x1, y1)) = (self.points[segment], self.points[segment + 1]);
        y0 + (x - x0) * (y1 - y0) / (x1 - x0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(x: &[f64], y: &[f64]) -> Result<Table, &'static str> {
        Points { x: x.to_vec(), y: y.to_vec() }.try_into()
    }

    #[test]
    fn lookup_tables_interpolate_linearly_and_extrapolate_at_ends() {
        let t = table(&[0.0, 1.0, 3.0], &[10.0, 20.0, 10.0]).unwrap();
        for (x, y) in [
            (-1.0, 0.0),
            (0.0, 10.0),
            (0.5, 15.0),
            (1.0, 20.0),
            (2.0, 15.0),
            (3.0, 10.0),
            (5.0, 0.0),
        ] {
            assert_eq!(t.at(x), y, "at {x}");
        }
    }

    #[test]
    fn lookup_tables_that_are_not_functions_are_refused() {
        assert!(table(&[0.0], &[1.0]).is_err());
        assert!(table(&[0.0, 1.0], &[1.0]).is_err());
        assert!(table(&[0.0, 0.0], &[1.0, 2.0]).is_err());
        assert!(table(&[0.0, f64::NAN], &[1.0, 2.0]).is_err());
        assert!(table(&[0.0, 1.0], &[1.0, f64::INFINITY]).is_err());
    }

    #[test]
    fn shipped_traffic_tables_are_valid() {
        assert_eq!(TABLES.request_size_body.points.len(), 100);
        assert_eq!(TABLES.request_size_tail.points.len(), 100);
        assert_eq!(TABLES.response_size_cache_validation.points.len(), 100);
        assert_eq!(TABLES.response_size_download.points.len(), 100);
        assert_eq!(TABLES.client_rtt.points.len(), 22);
        assert_eq!(TABLES.server_rtt.points.len(), 14);
    }
}
