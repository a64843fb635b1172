//! A web user: transfers of Pareto size with uniform idle times between them. DCA §4.5 has sizes of
//! 6 packets "to something much larger" and idle times of 1 to 4 s; DCA §4.3 has 3 to 5 s for light
//! congestion.

use std::time::Duration;

use fathom_cc::Invalid;
use rand::RngExt;
use rand_distr::{Distribution, Pareto};
use rand_pcg::Pcg64Mcg;

/// Choice of the connection for each transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// A new connection for each transfer. It starts with the initial window and without an RTT
    /// sample.
    #[default]
    Fresh,
    /// One connection for all transfers. Its window and RTT persist through idle times.
    Persistent,
}

/// Behaviour of a web user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebUser {
    /// Shape of the Pareto distribution of sizes. The paper gives no shape. The default of 1.2 is
    /// close to the measurements of Crovella and Bestavros ("Self-similarity in World Wide Web
    /// traffic", IEEE/ACM ToN 5(6), 1997: heavy tails with shapes of 1.0 to 1.3). The paper's
    /// source for web users (Barford and Crovella, 1998) continues their work.
    pub shape: f64,
    /// Smallest transfer in full packets.
    pub minimum: u32,
    /// Largest transfer in full packets. Larger sizes from the distribution are reduced to this
    /// size. The value is our choice, because the paper gives none.
    pub cap: u32,
    /// Shortest and longest idle time.
    pub idle: (Duration, Duration),
    /// Connection that a transfer uses.
    pub connections: Connections,
}

impl Default for WebUser {
    fn default() -> Self {
        Self {
            shape: 1.2,
            minimum: 6,
            cap: 5_000,
            idle: (Duration::from_secs(1), Duration::from_secs(4)),
            connections: Connections::Fresh,
        }
    }
}

impl WebUser {
    /// Checks that all options are in range.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let Self { shape, minimum, cap, idle: (shortest, longest), .. } = *self;
        if !(shape.is_finite() && shape > 0.0) {
            let problem = Invalid::value(&shape.to_string(), "is not a number above 0");
            return Err(problem.in_field("shape"));
        }
        if minimum == 0 || cap < minimum {
            let problem = Invalid::value(
                &format!("{minimum} to {cap}"),
                "is not a range of numbers from 1 upwards",
            );
            return Err(problem.in_field("packets"));
        }
        if longest < shortest {
            let range = format!("{shortest:?} to {longest:?}");
            return Err(Invalid::value(&range, "is not a range of times").in_field("idle"));
        }
        Ok(())
    }

    /// Returns the mean size of a transfer in full packets, including the effect of the cap.
    pub fn mean_size(&self) -> f64 {
        let (shape, least, most) = (self.shape, f64::from(self.minimum), f64::from(self.cap));
        if (shape - 1.0).abs() < 1e-9 {
            return least * (1.0 + (most / least).ln());
        }
        // Integral of P[X > x] from 0 to the cap.
        (shape * least - least.powf(shape) * most.powf(1.0 - shape)) / (shape - 1.0)
    }

    /// Draws the size of the next transfer in full packets.
    pub(super) fn draw_size(&self, rng: &mut Pcg64Mcg) -> u32 {
        let pareto = Pareto::new(f64::from(self.minimum), self.shape)
            .expect("checked when the flow was added");
        pareto.sample(rng).min(f64::from(self.cap)) as u32
    }

    /// Draws the next idle time.
    pub(super) fn draw_idle(&self, rng: &mut Pcg64Mcg) -> Duration {
        let (least, most) = self.idle;
        least + (most - least).mul_f64(rng.random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const DRAWS: u32 = 200_000;

    #[test]
    fn web_transfer_sizes_have_a_pareto_tail() {
        let user = WebUser { cap: u32::MAX, ..WebUser::default() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let sizes: Vec<u32> = (0..DRAWS).map(|_| user.draw_size(&mut rng)).collect();
        assert_eq!(sizes.iter().min(), Some(&6));
        // P[X >= x] = (6 / x)^1.2, within four standard errors of a proportion.
        for x in [7, 12, 60, 600] {
            let expected = (6.0 / f64::from(x)).powf(1.2);
            let got = sizes.iter().filter(|s| **s >= x).count() as f64 / f64::from(DRAWS);
            let error = (expected * (1.0 - expected) / f64::from(DRAWS)).sqrt();
            assert!((got - expected).abs() < 4.0 * error, "P[size >= {x}]: {got} for {expected}");
        }
    }

    #[test]
    fn web_transfer_sizes_stay_below_the_cap() {
        let user = WebUser { cap: 40, ..WebUser::default() };
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        let sizes: Vec<u32> = (0..10_000).map(|_| user.draw_size(&mut rng)).collect();
        assert_eq!(sizes.iter().max(), Some(&40));
    }

    #[test]
    fn computed_mean_transfer_size_matches_samples() {
        // Calculated by hand: (1.2 x 6 - 6^1.2 x 100^-0.2) / 0.2 = (7.2 - 8.58581 x 0.398107) /
        // 0.2 = 18.9099; with shape 1: 6 (1 + ln(100/6)).
        let user = WebUser { cap: 100, ..WebUser::default() };
        assert!((user.mean_size() - 18.9099).abs() < 1e-3, "{}", user.mean_size());
        let heavy = WebUser { shape: 1.0, ..user };
        assert!((heavy.mean_size() - 22.8805).abs() < 1e-3, "{}", heavy.mean_size());
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let mean =
            (0..DRAWS).map(|_| f64::from(user.draw_size(&mut rng))).sum::<f64>() / f64::from(DRAWS);
        // Sizes are rounded down, which reduces the mean by half a packet. Allow four standard
        // errors with a standard deviation below 30.
        assert!(
            (mean + 0.5 - user.mean_size()).abs() < 0.1 + 4.0 * 30.0 / f64::from(DRAWS).sqrt(),
            "{mean}"
        );
    }

    #[test]
    fn idle_times_of_web_users_are_uniform() {
        let user = WebUser {
            idle: (Duration::from_secs(3), Duration::from_secs(5)),
            ..WebUser::default()
        };
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let idle: Vec<f64> = (0..DRAWS).map(|_| user.draw_idle(&mut rng).as_secs_f64()).collect();
        assert!(idle.iter().all(|t| (3.0..=5.0).contains(t)));
        // Mean 4 and variance 2^2 / 12, within four standard errors.
        let n = f64::from(DRAWS);
        let mean = idle.iter().sum::<f64>() / n;
        let variance = idle.iter().map(|t| (t - 4.0).powi(2)).sum::<f64>() / n;
        assert!((mean - 4.0).abs() < 4.0 * (1.0 / 3.0 / n).sqrt(), "{mean}");
        // The fourth central moment of a uniform distribution of width 2 is 1/5, so the variance of
        // the squares is 1/5 - 1/9.
        assert!((variance - 1.0 / 3.0).abs() < 4.0 * ((0.2 - 1.0 / 9.0) / n).sqrt(), "{variance}");
    }

    #[test]
    fn invalid_web_user_options_are_refused() {
        let user = WebUser::default();
        assert_eq!(user.check(), Ok(()));
        assert!(WebUser { shape: 0.0, ..user }.check().is_err());
        assert!(WebUser { shape: f64::NAN, ..user }.check().is_err());
        assert!(WebUser { cap: 5, ..user }.check().is_err());
        assert!(WebUser { minimum: 0, ..user }.check().is_err());
        assert!(
            WebUser { idle: (Duration::from_secs(2), Duration::from_secs(1)), ..user }
                .check()
                .is_err()
        );
    }
}
