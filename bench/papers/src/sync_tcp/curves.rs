//! Distributions of response times, as the paper draws them: the part of all responses that took no longer.

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Distribution, Estimate};

use super::*;

/// Runs whose response times make a curve.
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

    /// A system over one bottleneck at a load in percent.
    pub(super) fn one(load: &'static str, system: &'static str) -> Self {
        Self::of(ONE, vec![("load", load), ("system", system)], system)
    }

    /// A system over several bottlenecks.
    pub(super) fn several(case: &'static str, system: &'static str) -> Self {
        Self::of(SEVERAL, vec![("case", case), ("system", system)], system)
    }

    /// Sync-TCP with drifting clocks.
    pub(super) fn drift(load: &'static str) -> Self {
        Self::of(DRIFT, vec![("load", load)], SYNC)
    }

    /// Connections of a mix: `forward`, or one controller's.
    pub(super) fn mix(mix: &'static str, group: &'static str) -> Self {
        Self { group, ..Self::of(MIX, vec![("mix", mix)], mix) }
    }
}

/// What is drawn: which responses, and the times at which a curve is read, in milliseconds.
pub(super) struct View {
    of: fn(&Outcome, &str) -> Option<Distribution>,
    last_ms: f64,
    step_ms: f64,
    label: &'static str,
}

/// All responses, to 1.5 s.
pub(super) const RESPONSES: View =
    View { of: |o, group| times(o, group).cloned(), last_ms: 1_500.0, step_ms: 10.0, label: "HTTP response time (ms)" };

/// Those above 25 kB, to 20 s (Sync-TCP §5.1, figure 9).
pub(super) const LARGE: View = View {
    of: |o, group| o.groups.get(group)?.times_large.clone(),
    last_ms: 20_000.0,
    step_ms: 100.0,
    label: "HTTP response time (ms), responses > 25 kB",
};

/// Response times of a group.
pub(super) fn times<'a>(o: &'a Outcome, group: &str) -> Option<&'a Distribution> {
    o.groups.get(group)?.times.as_ref()
}

/// Curves over the times of a view; over several seeds their means.
pub(super) fn figure(results: &Results, id: &str, title: &str, curves: &[Curve], view: &View) -> Artefact {
    let mut incomplete = Vec::new();
    let series = curves.iter().filter_map(|curve| {
        let of = |o: &Outcome| (view.of)(o, curve.group);
        let runs: Vec<Distribution> = results.outcomes(curve.study, &curve.key).filter_map(|(_, o)| of(o)).collect();
        let failed: u64 = results
            .outcomes(curve.study, &curve.key)
            .filter_map(|(_, o)| o.groups.get(curve.group).map(|g| g.failed))
            .sum();
        if failed > 0 {
            incomplete.push(format!("{}: {failed} requests failed", curve.name));
        }
        let read = |step: u32| {
            let ms = f64::from(step) * view.step_ms;
            let parts: Vec<f64> = runs.iter().map(|d| d.within_ms(ms)).collect();
            Some((ms, Estimate::of(&parts)?))
        };
        let points: Vec<(f64, Estimate)> = (0..=(view.last_ms / view.step_ms) as u32).filter_map(read).collect();
        (!points.is_empty()).then(|| Series {
            name: curve.name.clone(),
            spread: points.iter().map(|(_, e)| e.half_width).collect(),
            points: points.iter().map(|(ms, e)| (*ms, e.mean)).collect(),
            scatter: false,
        })
    });
    let series = series.collect();
    Artefact {
        id: id.into(),
        title: title.into(),
        body: Body::Figure(Figure {
            x: Axis { label: view.label.into(), log: false, range: Some((0.0, view.last_ms)) },
            y: Axis { label: "Cumulative probability".into(), log: false, range: Some((0.0, 1.0)) },
            series,
        }),
        note: match incomplete.is_empty() {
            true => "The nearer to the top left, the faster.".into(),
            false => format!("The nearer to the top left, the faster. {}.", incomplete.join("; ")),
        },
    }
}
