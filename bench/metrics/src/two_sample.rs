//! Tests whether two samples may come from the same distribution.
//!
//! Each test returns a p-value: the probability of samples at least as different if the
//! distributions are the same. All tests assume independent values. If values depend on each other,
//! callers must thin them first.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

/// Minimum expected count of a chi-square test in each class (W. G. Cochran, "Some methods for
/// strengthening the common chi-square tests", Biometrics 10, 1954).
const LEAST: f64 = 5.0;

/// Result of a test of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoSample {
    /// The test's statistic.
    pub statistic: f64,
    /// Probability of a statistic at least as large if both samples come from the same
    /// distribution.
    pub p_value: f64,
}

/// Performs the two-sided Kolmogorov-Smirnov test. The statistic is the largest distance between
/// the distribution functions of two samples. The p-value is the one for large samples, and ties
/// only make the test less strict. With a `resolution` above zero, either sample may be moved
/// towards the other by this amount before the distance is taken, so differences below the
/// resolution do not count. Returns `None` if a sample has fewer than two values or contains a NaN.
// The library also has this test, but only with a feature that takes the library's arithmetic from
// the standard library. This would change the pinned results of runs.
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64], resolution: f64) -> Option<TwoSample> {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (a, b) = (sorted(a), sorted(b));
    if a.len().min(b.len()) < 2 || a.iter().chain(&b).any(|value| value.is_nan()) {
        return None;
    }
    let statistic = lead(&a, &b, resolution).max(lead(&b, &a, resolution));
    let size = (a.len() * b.len()) as f64 / (a.len() + b.len()) as f64;
    Some(TwoSample { statistic, p_value: kolmogorov_sf(statistic * size.sqrt()) })
}

/// Returns the largest amount by which the distribution function of `a` exceeds that of `b`, if
/// values of `b` may be smaller by `resolution`. Both slices are sorted.
fn lead(a: &[f64], b: &[f64], resolution: f64) -> f64 {
    let (mut i, mut j, mut most) = (0, 0, 0.0_f64);
    while let Some(value) = a.get(i).copied() {
        // Skip all equal values in both slices before comparing.
        i += a[i..].partition_point(|other| *other <= value);
        j += b[j..].partition_point(|other| *other <= value + resolution);
        most = most.max(i as f64 / a.len() as f64 - j as f64 / b.len() as f64);
    }
    most
}

/// Returns the probability that Kolmogorov's variable exceeds `x`:
/// `2 sum (-1)^(k-1) exp(-2 k^2 x^2)` (N. Smirnov, "Table for estimating the goodness of fit of
/// empirical distributions", Annals of Mathematical Statistics 19, 1948).
fn kolmogorov_sf(x: f64) -> f64 {
    // Below 0.25 the series converges slowly, and the probability is 1 to ten digits.
    if x < 0.25 {
        return 1.0;
    }
    let term = |k: i32| f64::from(1 - 2 * ((k - 1) % 2)) * (-2.0 * f64::from(k * k) * x * x).exp();
    (2.0 * (1..=20).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Performs a two-sided test of two proportions, `hits` of `of` trials in each sample. The
/// statistic is the difference of the proportions in standard errors of the pooled proportion.
/// Dependent trials count as fewer trials, so `of` and `hits` may be fractions. Returns `None`
/// without trials.
pub fn two_proportions(hits: [f64; 2], of: [f64; 2]) -> Option<TwoSample> {
    if !of.iter().all(|of| *of > 0.0) {
        return None;
    }
    let pooled = (hits[0] + hits[1]) / (of[0] + of[1]);
    let error = (pooled * (1.0 - pooled) * (1.0 / of[0] + 1.0 / of[1])).sqrt();
    let difference = (hits[0] / of[0] - hits[1] / of[1]).abs();
    if error == 0.0 {
        // In both samples, all trials or no trials are hits.
        return Some(TwoSample { statistic: 0.0, p_value: 1.0 });
    }
    let statistic = difference / error;
    Some(TwoSample { statistic, p_value: 2.0 * Normal::standard().sf(statistic) })
}

/// Performs Pearson's test of homogeneity on the counts of each class in two samples. Neighbouring
/// classes are merged until the expected count is at least five in both samples. Returns `None` if
/// fewer than two classes remain.
pub fn homogeneity(a: &[u64], b: &[u64]) -> Option<TwoSample> {
    let totals = [a, b].map(|counts| counts.iter().sum::<u64>() as f64);
    let expected =
        |class: [f64; 2], total: f64| (class[0] + class[1]) * total / (totals[0] + totals[1]);
    let enough = |class: &[f64; 2]| totals.iter().all(|total| expected(*class, *total) >= LEAST);
    let mut classes: Vec<[f64; 2]> = vec![[0.0; 2]];
    for number in 0..a.len().max(b.len()) {
        if classes.last().is_some_and(enough) {
            classes.push([0.0; 2]);
        }
        let counts = [a, b].map(|counts| counts.get(number).copied().unwrap_or(0) as f64);
        if let Some(last) = classes.last_mut() {
            (last[0], last[1]) = (last[0] + counts[0], last[1] + counts[1]);
        }
    }
    // A remainder at the end is merged into the previous class.
    if let Some(rest) = classes.pop_if(|last| !enough(last)) {
        let last = classes.last_mut()?;
        (last[0], last[1]) = (last[0] + rest[0], last[1] + rest[1]);
    }
    let distances = classes.iter().flat_map(|class| {
        (0..2).map(|sample| {
            let expected = expected(*class, totals[sample]);
            (class[sample] - expected).powi(2) / expected
        })
    });
    let statistic: f64 = distances.sum();
    let freedom = classes.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    Some(TwoSample { statistic, p_value: ChiSquared::new(freedom as f64).ok()?.sf(statistic) })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const ROUNDS: u64 = 400;

    /// Returns the fraction of rounds in which a test rejects at 5%.
    fn rejected(mut test: impl FnMut(&mut Pcg64Mcg) -> TwoSample) -> f64 {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        (0..ROUNDS).filter(|_| test(&mut rng).p_value < 0.05).count() as f64 / ROUNDS as f64
    }

    fn uniform(rng: &mut Pcg64Mcg, n: usize, to: f64) -> Vec<f64> {
        (0..n).map(|_| rng.random::<f64>() * to).collect()
    }

    #[test]
    fn two_sample_tests_reproduce_published_p_values() {
        // Kolmogorov: 1.358 at 5%; with 1000 values each, 1.358 sqrt(2 / 1000) = 0.0607, so 61 of
        // 1000 are just beyond it.
        let a: Vec<f64> = (0..1_000).map(f64::from).collect();
        let shifted = |by: f64| a.iter().map(|value| value + by).collect::<Vec<f64>>();
        let (below, above) = (shifted(59.5), shifted(61.5));
        let p = [below, above].map(|b| kolmogorov_smirnov(&a, &b, 0.0).unwrap().p_value);
        assert!(p[0] > 0.05 && p[1] < 0.05 && p[1] > 0.04, "{p:?}");
        // Normal distribution: 1.96 at 5%. 60 and 40 of 100: 0.2 / sqrt(0.25 x 0.02) = 2.828, p
        // 0.00468.
        let proportions = two_proportions([60.0, 40.0], [100.0, 100.0]).unwrap();
        assert!(
            (proportions.statistic - 2.828_427).abs() < 1e-6
                && (proportions.p_value - 0.004_678).abs() < 1e-6
        );
        // Chi-square with two degrees of freedom: p is exp(-x / 2). Here x is 2 (100/30 + 100/30) /
        // 2 + 0.
        let classes = homogeneity(&[20, 40, 40], &[40, 20, 40]).unwrap();
        assert!(
            (classes.statistic - 40.0 / 3.0).abs() < 1e-9
                && (classes.p_value - (-20.0_f64 / 3.0).exp()).abs() < 1e-9
        );
    }

    #[test]
    fn two_sample_tests_reject_equal_samples_at_nominal_rate() {
        let bounds = 0.02..0.08; // 5% of 400 rounds, within three deviations
        let ks = rejected(|rng| {
            kolmogorov_smirnov(&uniform(rng, 300, 1.0), &uniform(rng, 200, 1.0), 0.0).unwrap()
        });
        assert!(bounds.contains(&ks), "{ks}");
        let hits =
            |rng: &mut Pcg64Mcg| (0..1_000).filter(|_| rng.random::<f64>() < 0.05).count() as f64;
        let proportions =
            rejected(|rng| two_proportions([hits(rng), hits(rng)], [1_000.0; 2]).unwrap());
        assert!(bounds.contains(&proportions), "{proportions}");
        let lengths = |rng: &mut Pcg64Mcg| {
            let mut counts = [0; 20];
            (0..300).for_each(|_| {
                counts[(0..19).take_while(|_| rng.random::<f64>() < 0.75).count()] += 1
            });
            counts
        };
        let classes = rejected(|rng| homogeneity(&lengths(rng), &lengths(rng)).unwrap());
        assert!(bounds.contains(&classes), "{classes}");
    }

    #[test]
    fn two_sample_tests_reject_different_distributions() {
        let differ = |rng: &mut Pcg64Mcg, resolution| {
            kolmogorov_smirnov(&uniform(rng, 1_000, 1.0), &uniform(rng, 1_000, 1.15), resolution)
                .unwrap()
        };
        let (ks, coarse) = (rejected(|rng| differ(rng, 0.0)), rejected(|rng| differ(rng, 0.15)));
        assert!(ks > 0.95 && coarse < 0.05, "{ks} {coarse}");
        assert!(two_proportions([500.0, 600.0], [10_000.0; 2]).unwrap().p_value < 0.01);
        assert!(homogeneity(&[750, 190, 60], &[650, 250, 100]).unwrap().p_value < 0.001);
    }

    #[test]
    fn empty_samples_have_no_p_value() {
        assert_eq!(kolmogorov_smirnov(&[1.0], &[1.0, 2.0], 0.0), None);
        assert_eq!(kolmogorov_smirnov(&[1.0, f64::NAN], &[1.0, 2.0], 0.0), None);
        assert_eq!(two_proportions([0.0, 1.0], [0.0, 5.0]), None);
        assert_eq!(homogeneity(&[9, 1], &[9, 0]), None);
        let same = TwoSample { statistic: 0.0, p_value: 1.0 };
        assert_eq!(kolmogorov_smirnov(&[2.0, 1.0], &[1.0, 2.0], 0.0), Some(same));
        assert_eq!(two_proportions([0.0, 0.0], [10.0, 20.0]), Some(same));
    }
}
