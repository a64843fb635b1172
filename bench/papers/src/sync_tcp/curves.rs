//! Distributions of response times, as the paper draws them: the fraction of all responses up to
//! each time.

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Distribution, Estimate};
use fathom_report::{Axis, Series};

use super::{ARED, DRIFT, LARGEST, MIX, ONE, SEVERAL, SYNC};
use crate::results::{BySeed, Measure};
use crate::{Artefact, Reason, Results};

/// Times at which curves are compared, in milliseconds. Our choice.
pub(super) const TIMES: [f64; 15] = [
    100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1_000.0, 1_100.0, 1_200.0,
    1_300.0, 1_400.0, 1_500.0,
];
/// Values of [`TIMES`] from 500 ms on.
pub(super) const AFTER_400: &[f64] = TIMES.split_at(4).1;
/// Times up to 350 ms.
pub(super) const FIRST: [f64; 7] = [50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0];

/// Drops in percent above which web traffic is in another regime than the paper's, whose worst run
/// without SACK-ARED-ECN drops 3.9% at 90% (Sync-TCP table 1). Above it, most packets that cross
/// the link are retransmissions, and no controller matters much. Our choice.
const MOST_DROPS: f64 = 10.0;
/// Limit of drops for SACK-ARED-ECN, which drops 13.9% in the paper: a quarter more. Our choice.
const MOST_DROPS_ARED: f64 = 1.25 * 13.9;

/// Returns how the runs of any of these curves left the regime.
pub(super) fn collapsed<'a>(
    r: &Results,
    curves: impl IntoIterator<Item = &'a Curve>,
) -> Vec<Reason> {
    curves.into_iter().filter_map(|curve| curve.collapsed(r)).collect()
}

/// Runs whose response times form a curve.
pub(super) struct Curve {
    pub(super) study: &'static str,
    pub(super) key: Vec<(&'static str, &'static str)>,
    pub(super) group: &'static str,
    pub(super) name: String,
}

impl Curve {
    fn of(study: &'static str, key: Vec<(&'static str, &'static str)>, name: &str) -> Self {
        Self { study, key, group: "forward", name: name.into() }
    }

    /// Returns the curve of a system over one bottleneck, at a load in percent.
    pub(super) fn one(load: &'static str, system: &'static str) -> Self {
        Self::of(ONE, vec![("load", load), ("system", system)], system)
    }

    /// Returns the curve of a system over one bottleneck at a load, from another study with the
    /// same axes.
    pub(super) fn one_of(study: &'static str, load: &'static str, system: &'static str) -> Self {
        Self { study, ..Self::one(load, system) }
    }

    /// Returns the curve of a system over several bottlenecks.
    pub(super) fn several(case: &'static str, system: &'static str) -> Self {
        Self::of(SEVERAL, vec![("case", case), ("system", system)], system)
    }

    /// Returns the curve of Sync-TCP with drifting clocks.
    pub(super) fn drift(load: &'static str) -> Self {
        Self::of(DRIFT, vec![("load", load)], SYNC)
    }

    /// Returns the curve of a system's run in which the largest response is traced.
    pub(super) fn largest(system: &'static str) -> Self {
        Self::of(LARGEST, vec![("system", system)], system)
    }

    /// Returns the curve of a mix's connections: all of them (`forward`), or those of one
    /// controller.
    pub(super) fn mix(mix: &'static str, group: &'static str) -> Self {
        Self { group, ..Self::of(MIX, vec![("mix", mix)], mix) }
    }

    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Returns a number of the runs.
    pub(super) fn by_seed(&self, results: &Results, of: Measure) -> BySeed {
        results.by_seed(self.study, &self.key, of)
    }

    /// Returns how the runs left the regime of the paper's claims: a link drops more than
    /// [`MOST_DROPS`] percent, or [`MOST_DROPS_ARED`] percent with SACK-ARED-ECN. Returns `None` if
    /// they did not or nothing is known.
    fn collapsed(&self, results: &Results) -> Option<Reason> {
        let worst = |o: &Outcome| o.links.values().map(|link| link.drops_percent).reduce(f64::max);
        let drops = self.by_seed(results, worst).estimate()?.mean;
        let most = if self.key.contains(&("system", ARED)) { MOST_DROPS_ARED } else { MOST_DROPS };
        let value = |(axis, value): &(&str, &str)| match *axis {
            "load" => format!("{value} % load"),
            _ => (*value).to_owned(),
        };
        let values: Vec<String> = self.key.iter().rev().map(value).collect();
        let drift = if self.study == DRIFT { " with drift" } else { "" };
        let run = format!("{}{drift} ({drops:.0} %)", values.join(" at "));
        (drops > most)
            .then(|| Reason::of(run, format!("a link drops more than {most:.0} % of its packets")))
    }

    /// Returns the mean of the fractions within these times.
    pub(super) fn mean_fraction(&self, results: &Results, at: &[f64]) -> BySeed {
        results.by_seed(self.study, &self.key, |o| {
            let d = times(o, self.group)?;
            Some(at.iter().map(|ms| d.within_ms(*ms)).sum::<f64>() / at.len() as f64)
        })
    }

    /// Returns the mean over [`TIMES`]: the further up and left the curve lies, the larger.
    pub(super) fn level(&self, results: &Results) -> BySeed {
        self.mean_fraction(results, &TIMES)
    }
}

/// Contents of a drawing: the responses, and the times in milliseconds at which a curve is
/// evaluated.
pub(super) struct View {
    of: fn(&Outcome, &str) -> Option<Distribution>,
    last_ms: f64,
    step_ms: f64,
    label: &'static str,
}

/// All responses, up to 1.5 s.
pub(super) const RESPONSES: View = View {
    of: |o, group| times(o, group).cloned(),
    last_ms: 1_500.0,
    step_ms: 10.0,
    label: "HTTP response time (ms)",
};

/// Responses above 25 kB, up to 20 s (Sync-TCP §5.1, figure 9).
pub(super) const LARGE: View = View {
    of: |o, group| o.groups.get(group)?.times_large.clone(),
    last_ms: 20_000.0,
    step_ms: 100.0,
    label: "HTTP response time (ms), responses > 25 kB",
};

/// Returns the response times of a group.
pub(super) fn times<'a>(o: &'a Outcome, group: &str) -> Option<&'a Distribution> {
    o.groups.get(group)?.times.as_ref()
}

/// Draws curves over the times of a view; means if there are several seeds.
pub(super) fn figure(results: &Results, title: &str, curves: &[Curve], view: &View) -> Artefact {
    let mut note = "The nearer a curve is to the top left, the faster the responses.".to_owned();
    let (mut series, mut incomplete) = (Vec::new(), Vec::new());
    for curve in curves {
        let outcomes = || results.outcomes(curve.study, &curve.key).map(|(_, o)| o);
        let failed: u64 =
            outcomes().filter_map(|o| o.groups.get(curve.group)).map(|g| g.failed).sum();
        if failed > 0 {
            incomplete.push(format!("{failed} ({})", curve.name));
        }
        let runs: Vec<Distribution> =
            outcomes().filter_map(|o| (view.of)(o, curve.group)).collect();
        let read = |step: u32| {
            let ms = f64::from(step) * view.step_ms;
            Some((ms, Estimate::of(&runs.iter().map(|d| d.within_ms(ms)).collect::<Vec<_>>())?))
        };
        let points = (0..=(view.last_ms / view.step_ms) as u32).filter_map(read);
        series.push(Series::of_estimates(&curve.name, points));
    }
    series.retain(|s| !s.points.is_empty());
    if !incomplete.is_empty() {
        note += &format!(" Failed requests: {}.", incomplete.join("; "));
    }
    let axes = [
        Axis::linear(view.label).over(0.0, view.last_ms),
        Axis::linear("Cumulative probability").over(0.0, 1.0),
    ];
    Artefact::figure(title, axes, series, note)
}
