//! Order of systems by a measure, seed by seed. Comparisons and studies both rank with it.
//!
//! With one seed, every system gets the same requests, so systems are compared seed by seed. A
//! change is a ratio. The logarithm of this ratio is averaged over the seeds and has a 95 %
//! interval by Student's t. The change from A to B is therefore the inverse of the change from B to
//! A, and a seed with long response times has the same weight as any other seed. For measures in
//! percent, a change is a difference in points instead. Each pair has its own interval; there is no
//! correction for the number of pairs.

use std::collections::BTreeMap;

use fathom_metrics::Estimate;

use super::{Better, Change, Measure};

/// Values of one measure by seed.
pub(crate) type BySeed = BTreeMap<u64, f64>;

/// A system to rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entrant {
    pub(crate) values: BySeed,
    /// Failed requests of all seeds.
    pub(crate) failed: u64,
    /// Completed requests of all seeds.
    pub(crate) completed: u64,
}

/// Systems in the order of a measure. Systems are numbered as they were given.
#[derive(Clone, Debug)]
pub(crate) struct Standings {
    measure: &'static Measure,
    entrants: Vec<Entrant>,
    /// Ranked systems, best mean first.
    pub(crate) order: Vec<usize>,
    /// Systems that may be the best: the first system of `order`, and every other ranked system
    /// unless some system is significantly better.
    pub(crate) first: Vec<usize>,
}

impl Standings {
    /// Ranks systems. A system without a value is not ranked, nor is one that
    /// [misses failures](Self::misses_failures).
    pub(crate) fn new(measure: &'static Measure, entrants: Vec<Entrant>) -> Self {
        let mut of = Self { measure, entrants, order: Vec::new(), first: Vec::new() };
        let sign = if measure.better == Better::Higher { -1.0 } else { 1.0 };
        let ranked = |i: usize| Some((i, sign * of.estimate(i)?.mean));
        let mut ranked: Vec<(usize, f64)> =
            (0..of.entrants.len()).filter(|i| !of.misses_failures(*i)).filter_map(ranked).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        of.order = ranked.into_iter().map(|(i, _)| i).collect();
        let behind = |i: &usize| of.order.iter().any(|other| of.is_ahead(*other, *i));
        let first = of.order.iter().enumerate().filter(|(place, i)| *place == 0 || !behind(i));
        of.first = first.map(|(_, i)| *i).collect();
        of
    }

    /// Returns the number of systems.
    pub(crate) fn len(&self) -> usize {
        self.entrants.len()
    }

    /// Returns the largest number of seeds with a value of a ranked system.
    pub(crate) fn seeds(&self) -> usize {
        self.order.iter().map(|i| self.entrants[*i].values.len()).max().unwrap_or(0)
    }

    /// Returns whether one system is better than every other one, beyond the intervals.
    pub(crate) fn is_decided(&self) -> bool {
        self.first.len() == 1 && self.seeds() > 1
    }

    /// Returns the failed requests of a system.
    pub(crate) fn failed(&self, system: usize) -> u64 {
        self.entrants[system].failed
    }

    /// Returns whether a system is not ranked because its value hides failures: the measure leaves
    /// failed requests out, and too many of the system's requests failed.
    pub(crate) fn misses_failures(&self, system: usize) -> bool {
        let Entrant { failed, completed, .. } = self.entrants[system];
        self.measure.misses_failures(failed, completed)
    }

    /// Returns the mean over the seeds, with its interval.
    pub(crate) fn estimate(&self, system: usize) -> Option<Estimate> {
        Estimate::of(&self.entrants[system].values.values().copied().collect::<Vec<_>>())
    }

    /// Returns the change from one system to another over the seeds that both systems have. Returns
    /// `None` if one of them [misses failures](Self::misses_failures).
    pub(crate) fn change(&self, from: usize, to: usize) -> Option<Change> {
        if self.misses_failures(from) || self.misses_failures(to) {
            return None;
        }
        Change::by_seed(self.measure, &self.entrants[from].values, &self.entrants[to].values)
    }

    /// Returns 1 if the first system is better than the second, -1 if it is worse, and `None` if
    /// the interval includes "no change".
    pub(crate) fn sign(&self, a: usize, b: usize) -> Option<f64> {
        let change = self.change(b, a).filter(Change::is_significant)?;
        Some(if change.is_improvement(self.measure) { 1.0 } else { -1.0 })
    }

    /// Returns whether the first system is better than the second, beyond the interval of their
    /// change.
    pub(crate) fn is_ahead(&self, a: usize, b: usize) -> bool {
        a != b && self.sign(a, b) == Some(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrant(values: [f64; 3]) -> Entrant {
        Entrant { values: (1..).zip(values).collect(), failed: 0, completed: 100 }
    }

    fn standings(entrants: Vec<Entrant>) -> Standings {
        Standings::new(Measure::named("response_time_mean_ms").unwrap(), entrants)
    }

    #[test]
    fn systems_tied_with_the_best_all_rank_first() {
        let of = standings(vec![
            entrant([10.0, 20.0, 30.0]),
            entrant([20.0, 40.0, 61.0]),
            entrant([11.0, 19.0, 31.0]),
        ]);
        assert_eq!((of.order, of.first), (vec![0, 2, 1], vec![0, 2]));
    }

    #[test]
    fn system_significantly_behind_another_does_not_rank_first() {
        // No system is significantly ahead of or behind the one with the best mean, because its
        // values vary. The last system is behind the second, seed by seed.
        let of = standings(vec![
            entrant([1.0, 50.0, 10.0]),
            entrant([30.0, 31.0, 29.0]),
            entrant([36.0, 37.0, 35.0]),
        ]);
        assert_eq!((of.order, of.first), (vec![0, 1, 2], vec![0, 1]));
    }

    #[test]
    fn standings_omit_system_with_too_many_failed_requests() {
        let failing = Entrant { failed: 50, ..entrant([1.0, 1.1, 1.2]) };
        let of = standings(vec![failing, entrant([10.0, 20.0, 30.0]), Entrant::default()]);
        assert_eq!((of.change(0, 1), of.misses_failures(0)), (None, true));
        assert_eq!((of.order.clone(), of.first.clone(), of.is_decided()), (vec![1], vec![1], true));
    }
}
