//! A unit normal series with long memory: fractional sum-difference plus noise. PackMime uses it
//! wherever web traffic is long-range dependent.
//!
//! Each value x_t of the fractional noise is generated from its best linear prediction from all
//! earlier values (Hosking's method, with coefficients by the Durbin-Levinson recursion). From t =
//! N on, the prediction uses only the last N-1 values. Then
//!
//! - y_t = x_t + x_(t-1),
//! - z_t = s y_t + sqrt(nu) e_t, where the e_t are independent unit normals, and s gives z unit
//!   variance.
//!
//! Sources: Hosking 1984, "Modeling persistence in hydrological time series using fractional
//! differencing"; Cao et al., INFOCOM 2004 (reference 18 of Sync-TCP) for the sum-difference and
//! its noise.
//!
//! Cost: each value takes one dot product of N-1 elements, which dominates the cost of the whole
//! workload. Therefore, both operands are contiguous, and the sum is computed in independent lanes.
//! The lanes are added in a fixed order, so the same seed gives the same bits. The first N+1 values
//! are discarded, which takes about N^2 multiplications per series. They are exact samples of the
//! stationary process, so there is no transient to wait for.

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use statrs::function::gamma::gamma;

/// Parameters of one series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fsd {
    /// Order of the fractional difference, in (0, 0.5). A larger order means longer memory.
    pub(super) d: f64,
    /// N: the number of values that the frozen prediction uses, plus one.
    pub(super) n: usize,
    /// White noise's share of the variance, in \[0, 1\]. A larger share makes the values more
    /// independent.
    pub(super) nu: f64,
}

impl Fsd {
    /// Returns the variance of fractional noise with unit innovations: v0 = G(1-2d) / G(1-d)^2.
    fn v0(&self) -> f64 {
        gamma(1.0 - 2.0 * self.d) / gamma(1.0 - self.d).powi(2)
    }

    /// Returns the weight of the sum: s = sqrt((1-nu) / (v0 (2 + 2d/(1-d)))), where d/(1-d) is the
    /// correlation of neighbours.
    fn s(&self) -> f64 {
        ((1.0 - self.nu) / (self.v0() * (2.0 + 2.0 * self.d / (1.0 - self.d)))).sqrt()
    }
}

/// The series z_t of an [`Fsd`], sampled with one random generator.
///
/// Each value uses the same random numbers for every `nu`. Series with different `nu` on the same
/// generator therefore mix the same x and e.
#[derive(Clone)]
pub(super) struct CorrelatedNormal {
    rng: Pcg64,
    prediction: Prediction,
    recent: Recent,
    sum_weight: f64,
    noise_weight: f64,
}

impl CorrelatedNormal {
    /// Creates the series and discards the first N+1 values of x, as PackMime does.
    pub(super) fn new(fsd: Fsd, rng: Pcg64) -> Self {
        let mut series = Self {
            rng,
            prediction: Prediction::new(&fsd),
            recent: Recent::new(fsd.n),
            sum_weight: fsd.s(),
            noise_weight: fsd.nu.sqrt(),
        };
        for t in 0..=fsd.n {
            if (1..fsd.n).contains(&t) {
                series.prediction.extend();
            }
            series.next_x();
        }
        series
    }

    /// Returns the next value of z.
    pub(super) fn sample(&mut self) -> f64 {
        let before = self.recent.newest(1)[0];
        let y = self.next_x() + before;
        let e: f64 = StandardNormal.sample(&mut self.rng);
        self.sum_weight * y + self.noise_weight * e
    }

    fn next_x(&mut self) -> f64 {
        let innovation: f64 = StandardNormal.sample(&mut self.rng);
        let phi = &self.prediction.phi;
        let x = dot(phi, self.recent.newest(phi.len())) + self.prediction.v.sqrt() * innovation;
        self.recent.push(x);
        x
    }
}

/// Best linear prediction of x_t from the t values before it.
#[derive(Clone)]
struct Prediction {
    d: f64,
    /// Coefficients phi_t1 to phi_tt, the weight of the newest value first.
    phi: Vec<f64>,
    /// Prediction error variance v_t.
    v: f64,
}

impl Prediction {
    /// Creates the prediction without earlier values, which is 0. Its error is the full variance.
    fn new(fsd: &Fsd) -> Self {
        Self { d: fsd.d, phi: Vec::with_capacity(fsd.n), v: fsd.v0() }
    }

    /// Extends the prediction from t-1 to t values by one Durbin-Levinson step: phi_tt = d/(t-d);
    /// phi_tj = phi_(t-1,j) - phi_tt phi_(t-1,t-j); v_t = (1 - phi_tt^2) v_(t-1).
    fn extend(&mut self) {
        let before = self.phi.len();
        let phi_tt = self.d / ((before + 1) as f64 - self.d);
        // Elements j and t-j change together, so the old row need not be copied.
        let (front, back) = self.phi.split_at_mut(before / 2);
        for (j, t_minus_j) in front.iter_mut().zip(back.iter_mut().rev()) {
            (*j, *t_minus_j) = (*j - phi_tt * *t_minus_j, *t_minus_j - phi_tt * *j);
        }
        if before % 2 == 1 {
            back[0] -= phi_tt * back[0];
        }
        self.phi.push(phi_tt);
        self.v *= 1.0 - phi_tt * phi_tt;
    }
}

/// The newest values of a series, newest first. They are always contiguous, because the ring buffer
/// is stored twice.
#[derive(Clone)]
struct Recent {
    twice: Vec<f64>,
    head: usize,
}

impl Recent {
    fn new(len: usize) -> Self {
        Self { twice: vec![0.0; 2 * len], head: 0 }
    }

    fn push(&mut self, x: f64) {
        let len = self.twice.len() / 2;
        self.head = if self.head == 0 { len - 1 } else { self.head - 1 };
        self.twice[self.head] = x;
        self.twice[self.head + len] = x;
    }

    fn newest(&self, count: usize) -> &[f64] {
        &self.twice[self.head..self.head + count]
    }
}

/// Returns the dot product of two slices of equal length, computed in independent lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 16;
    debug_assert_eq!(a.len(), b.len());
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const GAPS: Fsd = Fsd { d: 0.33, n: 1000, nu: 0.0 };

    #[test]
    fn frozen_fsd_prediction_has_the_published_weights() {
        assert!((GAPS.v0() - 1.44371).abs() < 5e-6, "v0 {}", GAPS.v0());
        let frozen = CorrelatedNormal::new(GAPS, Pcg64::seed_from_u64(1)).prediction;
        assert_eq!(frozen.phi.len(), 999);
        for (phi, expected) in frozen.phi.iter().zip([0.33011, 0.11062, 0.06160]) {
            assert!((phi - expected).abs() < 5e-6, "{phi} for {expected}");
        }
    }

    /// The recursion has the closed form phi_t1 = t d/(t-d), phi_(t,j+1)/phi_tj = (t-j)(j-d) /
    /// ((j+1)(t-j-d)).
    #[test]
    fn recursive_fsd_weights_agree_with_the_closed_form() {
        for n in [1, 2, 3, 6, 7, 500] {
            let mut prediction = Prediction::new(&GAPS);
            (0..n).for_each(|_| prediction.extend());
            let (t, d) = (n as f64, GAPS.d);
            let mut expected = t * d / (t - d);
            for (i, phi) in prediction.phi.iter().enumerate() {
                let j = (i + 1) as f64;
                assert!(
                    (phi - expected).abs() < 1e-9 * expected.abs(),
                    "phi_{n},{j}: {phi} for {expected}"
                );
                expected *= (t - j) * (j - d) / ((j + 1.0) * (t - j - d));
            }
        }
    }

    /// Returns the second moment and the lag-1 product about the known mean 0, pooled over seeds
    /// because a single long-memory series converges slowly.
    fn moments(fsd: Fsd) -> (f64, f64) {
        const SEEDS: u64 = 12;
        const LEN: usize = 20_000;
        let (mut square, mut product) = (0.0, 0.0);
        for seed in 0..SEEDS {
            let mut series = CorrelatedNormal::new(fsd, Pcg64::seed_from_u64(seed));
            let mut before = series.sample();
            for _ in 0..LEN {
                let z = series.sample();
                square += z * z;
                product += z * before;
                before = z;
            }
        }
        let count = SEEDS as f64 * LEN as f64;
        (square / count, product / count)
    }

    #[test]
    fn fsd_variance_and_lag_1_correlation_match_the_formula() {
        for nu in [0.0, 0.5, 0.8945] {
            let fsd = Fsd { nu, ..GAPS };
            let (variance, lag_one) = moments(fsd);
            // rho_1 and rho_2 of x; cov(y_t, y_(t-1)) = v0 (1 + 2 rho_1 + rho_2).
            let d = fsd.d;
            let (rho_1, rho_2) = (d / (1.0 - d), d * (1.0 + d) / ((1.0 - d) * (2.0 - d)));
            let expected = (1.0 - nu) * (1.0 + 2.0 * rho_1 + rho_2) / (2.0 + 2.0 * rho_1);
            assert!((variance.sqrt() - 0.997).abs() < 0.015, "nu {nu}: std {}", variance.sqrt());
            assert!((lag_one - expected).abs() < 0.03, "nu {nu}: lag-1 {lag_one} for {expected}");
        }
    }

    #[test]
    fn ring_buffer_returns_the_newest_value_first() {
        let mut recent = Recent::new(3);
        for x in 1..=7 {
            recent.push(f64::from(x));
            assert_eq!(recent.newest(1), [f64::from(x)]);
        }
        assert_eq!(recent.newest(3), [7.0, 6.0, 5.0]);
    }

    #[test]
    fn dot_product_counts_every_element_once() {
        for len in [0, 1, 15, 16, 17, 999] {
            let ones = vec![1.0; len];
            let rising: Vec<f64> = (1..=len).map(|x| x as f64).collect();
            assert_eq!(dot(&ones, &rising), (len * (len + 1) / 2) as f64);
        }
    }
}
