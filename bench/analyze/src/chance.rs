//! Intervals and tests. All are seeded, so the same files give the same result.

use fathom_metrics::percentile;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use statrs::distribution::{Beta, ContinuousCDF};

/// Number of resamples of a bootstrap.
const ROUNDS: usize = 400;
/// Number of rotations of a test.
const ROTATIONS: u32 = 1_999;
/// Maximum number of values in a bootstrap. Larger samples are thinned evenly, which makes
/// intervals wider, never narrower.
pub(super) const VALUES: usize = 20_000;
/// Number of blocks into which a series is cut for resampling. Neighbouring values are similar, so
/// resampling single values would make intervals too narrow.
const BLOCKS: usize = 50;
/// Minimum number of pieces for a bootstrap interval; with fewer it would be too narrow.
const PIECES: usize = 10;

pub(super) fn rng() -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(1)
}

/// Returns the 95% interval of a proportion by the method of Clopper and Pearson. It is never too
/// narrow for independent trials.
pub(super) fn share_interval(hits: u64, of: u64) -> Option<(f64, f64)> {
    if of == 0 || hits > of {
        return None;
    }
    let (k, n) = (hits as f64, of as f64);
    let low = if hits == 0 { 0.0 } else { Beta::new(k, n - k + 1.0).ok()?.inverse_cdf(0.025) };
    let high = if hits == of { 1.0 } else { Beta::new(k + 1.0, n - k).ok()?.inverse_cdf(0.975) };
    Some((low, high))
}

/// Returns the 95% interval of a quantile, with values of the sample as its ends; `None` if the
/// interval extends beyond the sample.
pub(super) fn quantile_interval(sorted: &[f64], q: f64) -> Option<(f64, f64)> {
    let n = sorted.len() as f64;
    let half = 1.96 * (n * q * (1.0 - q)).sqrt();
    let (low, high) = ((n * q - half).floor(), (n * q + half).ceil());
    if low < 0.0 || high >= n {
        return None;
    }
    Some((sorted[low as usize], sorted[high as usize]))
}

/// Returns the value that a fraction `q` of the values does not exceed; `None` if there are too few
/// values for it.
pub(super) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    if (values.len() as u64) < percentile::samples_for(q) {
        return None;
    }
    let rank = ((q * values.len() as f64).ceil() as usize).max(1) - 1;
    (rank < values.len()).then(|| *values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// Returns the mean.
pub(super) fn mean(values: &mut [f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A statistic of values; may reorder them.
pub(super) type Statistic<'a> = &'a dyn Fn(&mut [f64]) -> Option<f64>;

/// Resampling method of a bootstrap.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    /// Single values, which must be independent.
    Single,
    /// Runs of neighbouring values, for a series.
    Blocks,
}

fn thinned(values: &[f64]) -> Vec<f64> {
    values.iter().copied().step_by(values.len().div_ceil(VALUES).max(1)).collect()
}

/// Returns a statistic of each resample.
fn resampled(values: &[f64], draw: Draw, statistic: Statistic<'_>, rng: &mut Pcg64Mcg) -> Vec<f64> {
    let values = thinned(values);
    let block = match draw {
        Draw::Single => 1,
        Draw::Blocks => values.len().div_ceil(BLOCKS).max(1),
    };
    let mut sample = Vec::with_capacity(values.len() + block);
    let mut round = || {
        sample.clear();
        while sample.len() < values.len() {
            let from = rng.random_range(0..=values.len() - block);
            sample.extend_from_slice(&values[from..from + block]);
        }
        statistic(&mut sample)
    };
    if values.is_empty() { Vec::new() } else { (0..ROUNDS).filter_map(|_| round()).collect() }
}

/// Returns the middle 95% of these values.
pub(super) fn middle(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.retain(|v| v.is_finite());
    if values.len() < ROUNDS / 2 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// Returns the 95% interval of the ratio of a statistic of `values` to that of `first`.
pub(super) fn ratio_interval(
    first: &[f64],
    values: &[f64],
    draw: Draw,
    statistic: Statistic<'_>,
) -> Option<(f64, f64)> {
    if first.len().min(values.len()) < 20 {
        return None;
    }
    let mut rng = rng();
    let below = resampled(first, draw, statistic, &mut rng);
    let above = resampled(values, draw, statistic, &mut rng);
    middle(above.iter().zip(&below).filter(|(_, b)| **b != 0.0).map(|(a, b)| a / b).collect())
}

/// Returns the 95% interval of a number computed from pieces, by resampling the pieces.
pub(super) fn piece_interval<T>(
    pieces: &[T],
    made: impl Fn(&[&T]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if pieces.len() < PIECES {
        return None;
    }
    let mut rng = rng();
    middle((0..ROUNDS).filter_map(|_| made(&redrawn(pieces, &mut rng))).collect())
}

/// Returns the 95% interval of the difference between the number of `pieces` and that of `first`.
pub(super) fn piece_difference<T>(
    first: &[T],
    pieces: &[T],
    made: impl Fn(&[&T]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if first.len().min(pieces.len()) < PIECES {
        return None;
    }
    let mut rng = rng();
    let mut round = || Some(-made(&redrawn(first, &mut rng))? + made(&redrawn(pieces, &mut rng))?);
    middle((0..ROUNDS).filter_map(|_| round()).collect())
}

fn redrawn<'a, T>(pieces: &'a [T], rng: &mut Pcg64Mcg) -> Vec<&'a T> {
    (0..pieces.len()).map(|_| &pieces[rng.random_range(0..pieces.len())]).collect()
}

/// A boolean series and positions in it.
pub(super) struct Marked {
    pub(super) yes: Vec<bool>,
    pub(super) places: Vec<usize>,
}

impl Marked {
    fn hits(&self, shift: usize) -> u64 {
        let n = self.yes.len();
        self.places.iter().filter(|at| self.yes[(**at + shift) % n]).count() as u64
    }
}

/// Returns the probability that by chance at least as many positions fall on true values. The
/// positions of all series are rotated by a common step, which preserves the similarity of
/// neighbours in both series and positions.
pub(super) fn rotation_test(series: &[Marked]) -> Option<f64> {
    let of: Vec<&Marked> = series.iter().filter(|m| m.yes.len() > 1).collect();
    if of.is_empty() {
        return None;
    }
    let seen: u64 = of.iter().map(|m| m.hits(0)).sum();
    let mut rng = rng();
    let mut as_many = 0;
    for _ in 0..ROTATIONS {
        let turned: u64 = of.iter().map(|m| m.hits(rng.random_range(1..m.yes.len()))).sum();
        as_many += u32::from(turned >= seen);
    }
    Some(f64::from(as_many + 1) / f64::from(ROTATIONS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_shares_match_clopper_pearson_table() {
        // Clopper and Pearson's table: 4 of 20 gives 5.73 to 43.66%.
        let (low, high) = share_interval(4, 20).unwrap();
        assert!((low - 0.0573).abs() < 1e-3 && (high - 0.4366).abs() < 1e-3, "{low} {high}");
        // For 0 of 30, the interval follows approximately the rule of three.
        let (low, high) = share_interval(0, 30).unwrap();
        assert!(low == 0.0 && (high - 0.1157).abs() < 1e-3, "{high}");
        assert_eq!((share_interval(30, 30).unwrap().1, share_interval(0, 0)), (1.0, None));
    }

    #[test]
    fn quantile_intervals_match_hand_calculation() {
        let sorted: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile(&mut sorted.clone(), 0.5), Some(49.0));
        assert_eq!(quantile_interval(&sorted, 0.5), Some((40.0, 60.0)));
        assert_eq!(quantile_interval(&sorted, 0.99), None, "beyond the largest");
        assert_eq!((quantile(&mut [], 0.5), mean(&mut [])), (None, None));
    }

    #[test]
    fn ratio_interval_contains_the_true_ratio() {
        let a: Vec<f64> = (0..500).map(|n| 100.0 + f64::from(n % 37)).collect();
        let b: Vec<f64> = a.iter().map(|v| v * 2.0).collect();
        for draw in [Draw::Single, Draw::Blocks] {
            let (low, high) = ratio_interval(&a, &b, draw, &mean).unwrap();
            assert!(low < 2.0 && 2.0 < high && high - low < 0.2, "{low} {high}");
            let (low, high) = ratio_interval(&a, &a, draw, &mean).unwrap();
            assert!(low <= 1.0 && 1.0 <= high);
        }
        assert_eq!(ratio_interval(&a[..5], &b, Draw::Single, &mean), None);
    }

    #[test]
    fn difference_interval_contains_the_true_difference() {
        let made = |drawn: &[&f64]| mean(&mut drawn.iter().map(|v| **v).collect::<Vec<f64>>());
        let a: Vec<f64> = (0..40).map(|n| f64::from(n % 7)).collect();
        let b: Vec<f64> = a.iter().map(|v| v + 5.0).collect();
        let (low, high) = piece_difference(&a, &b, made).unwrap();
        assert!(3.5 < low && low < 5.0 && 5.0 < high && high < 6.5, "{low} {high}");
        let (low, high) = piece_difference(&a, &a, made).unwrap();
        assert!(low < 0.0 && 0.0 < high, "both are drawn by themselves: {low} {high}");
        assert_eq!(piece_difference(&a[..PIECES - 1], &b, made), None);
    }

    #[test]
    fn rotation_test_finds_correlation_and_ignores_chance() {
        let yes: Vec<bool> = (0..1_000).map(|n| n % 50 < 5).collect();
        let after: Vec<usize> = (0..20).map(|n| n * 50 + 4).collect();
        let p = rotation_test(&[Marked { yes: yes.clone(), places: after }]).unwrap();
        // The series is periodic, so one rotation in ten matches equally well. The p-value counts
        // these rotations.
        assert!((0.07..0.13).contains(&p), "{p}");
        let mut rng = rng();
        let yes: Vec<bool> = (0..1_000).map(|_| rng.random::<f64>() < 0.1).collect();
        let places: Vec<usize> = (0..1_000).filter(|n| yes[*n]).take(30).collect();
        assert!(rotation_test(&[Marked { yes: yes.clone(), places }]).unwrap() < 0.001);
        let places = (0..30).map(|n| n * 31).collect();
        assert!(rotation_test(&[Marked { yes, places }]).unwrap() > 0.01);
        assert_eq!(rotation_test(&[]), None);
    }
}
