//! The advice: each class's path is simulated under each controller. The result contains the effect
//! of each controller on each class and on all clients together, the recommended controller, and
//! the share of clients for whom it matters.
//!
//! The effect on all clients is computed for each seed: the logarithm of a controller's ratio to
//! the current controller is averaged over the classes, weighted by their shares. The mean over the
//! seeds has Student's 95% interval, like the ratio of a single class.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fathom_experiments::compare::{CompareOptions, Comparison, Stage, compare_with};
use fathom_experiments::measures::Change;
use fathom_experiments::scenario::ScenarioError;
use fathom_metrics::Estimate;
use serde::Serialize;

use crate::scenario::Scenario;

/// Change from the current controller, in percent of the measure's value; a negative change is
/// better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Mean change.
    pub percent: f64,
    /// Both ends of the 95% interval; `None` with one seed.
    pub interval_percent: Option<(f64, f64)>,
    /// Whether the change is a difference in percentage points.
    pub points: bool,
}

impl Effect {
    fn of(change: &Change) -> Self {
        Self {
            percent: change.percent,
            interval_percent: change.interval_percent,
            points: change.points,
        }
    }

    /// Returns whether every value in the interval is better than the current controller's value.
    pub fn is_better(&self) -> bool {
        self.interval_percent.is_some_and(|(_, high)| high < 0.0)
    }

    /// Returns whether every value in the interval is worse than the current controller's value.
    pub fn is_worse(&self) -> bool {
        self.interval_percent.is_some_and(|(low, _)| low > 0.0)
    }

    /// Formats the effect like the ranking of a comparison: `-27 % (-34 to -18)`.
    pub fn text(&self) -> String {
        let Self { percent, interval_percent, points } = *self;
        Change { percent, interval_percent, seeds: 0, points }.text()
    }
}

/// Result of a controller in one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InClass {
    /// Name of the controller.
    pub controller: String,
    /// Value of the measure, with half the width of its 95% interval.
    pub value: Option<(f64, Option<f64>)>,
    /// Change from the current controller; `None` for the current controller itself and for a
    /// controller without results.
    pub effect: Option<Effect>,
    /// Whether the controller may be as good as the first one in the ranking.
    pub tied: bool,
    /// Logarithm of the ratio to the current controller, by seed; differences in percentage points
    /// if the measure has no ratios.
    #[serde(skip)]
    by_seed: Vec<(u64, f64)>,
}

/// Ranking in one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAdvice {
    /// Name of the class.
    pub name: String,
    /// Share of all clients.
    pub share: f64,
    /// Controllers, best first.
    pub ranking: Vec<InClass>,
    /// Further notes on the runs: missing results, late events.
    pub notes: Vec<String>,
}

/// Result of a controller over all clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overall {
    /// Name of the controller.
    pub controller: String,
    /// Change from the current controller; `None` for the current controller itself and for a
    /// controller without results in a class.
    pub effect: Option<Effect>,
    /// Share of the clients for whom the controller is better over its whole interval.
    pub better_for: f64,
    /// Share of the clients for whom the controller is worse over its whole interval.
    pub worse_for: f64,
    /// Whether the controller cannot be distinguished from the first one.
    pub tied: bool,
}

/// Recommendation and its results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Simulated scenario.
    pub scenario: Scenario,
    /// Measure of the ranking.
    pub measure: &'static str,
    /// Unit of the measure.
    pub unit: &'static str,
    /// Recommended controller; `None` unless one is better for all clients together, over its whole
    /// interval.
    pub take: Option<String>,
    /// Share of the clients for whom the recommended controller is better over its whole interval.
    pub matters_for: f64,
    /// Options for `fathom serve`.
    pub flags: String,
    /// Results over all clients, best first.
    pub overall: Vec<Overall>,
    /// Results by class.
    pub classes: Vec<ClassAdvice>,
}

/// Runs a scenario and derives the advice. `watch` is called for every run.
///
/// # Errors
/// Returns an error if the scenario is invalid, a run fails, or `interrupt` is set.
pub fn advise(
    scenario: &Scenario,
    watch: &(dyn Fn(Stage) + Sync),
    interrupt: &Arc<AtomicBool>,
) -> Result<Advice, ScenarioError> {
    let plans = scenario.plans()?;
    let options = CompareOptions { interrupt: Arc::clone(interrupt), ..CompareOptions::default() };
    let mut classes = Vec::new();
    let mut measure = None;
    for (class, (share, plan)) in scenario.classes.iter().zip(&plans) {
        let (comparison, failed) = compare_with(plan, watch, &options)?;
        if let Some(e @ ScenarioError::Run(fathom_experiments::scenario::RunError::Interrupted)) =
            failed
        {
            return Err(e);
        }
        let primary = comparison.primary();
        measure = Some((primary.name, primary.unit));
        classes.push(of_class(class.name.clone(), *share, &comparison));
    }
    let (measure, unit) = measure.unwrap_or_default();
    Ok(conclude(scenario.clone(), measure, unit, classes))
}

fn of_class(name: String, share: f64, comparison: &Comparison) -> ClassAdvice {
    let measure = comparison.primary();
    let candidates = comparison.candidates();
    let base =
        candidates.iter().find(|candidate| candidate.label == comparison.plan.controllers[0]);
    let of_base = base.map(|base| base.values(measure)).unwrap_or_default();
    let points = measure.unit == "%";
    let ratio = |(seed, value): (u64, f64)| {
        let base = *of_base.get(&seed)?;
        if points {
            Some((seed, value - base))
        } else {
            (base > 0.0 && value > 0.0).then(|| (seed, (value / base).ln()))
        }
    };
    let ranking = comparison.ranking();
    let entry = |entry: &fathom_experiments::compare::Ranked<'_>| InClass {
        controller: entry.candidate.label.to_owned(),
        value: entry.value.map(|value| (value.mean, value.half_width)),
        effect: entry.change.as_ref().map(Effect::of),
        tied: entry.tied,
        by_seed: entry.candidate.values(measure).into_iter().filter_map(ratio).collect(),
    };
    let notes = comparison
        .missing()
        .into_iter()
        .chain(comparison.failed_requests())
        .chain(comparison.notes());
    let notes = notes.collect();
    ClassAdvice { name, share, ranking: ranking.entries.iter().map(entry).collect(), notes }
}

fn conclude(
    scenario: Scenario,
    measure: &'static str,
    unit: &'static str,
    classes: Vec<ClassAdvice>,
) -> Advice {
    let points = unit == "%";
    let current = scenario.current.trim();
    let mut all: Vec<(Overall, Vec<(u64, f64)>)> = (scenario.all_controllers().into_iter())
        .filter_map(|name| Some((name.clone(), over_classes(&classes, label(&classes, &name)?)?)))
        .map(|(controller, by_seed)| {
            let is_current = controller == current;
            let shares = |holds: fn(&Effect) -> bool| {
                let of = |class: &ClassAdvice| {
                    let found = class.ranking.iter().find(|r| same(&r.controller, &controller));
                    found.and_then(|r| r.effect).filter(holds).map_or(0.0, |_| class.share)
                };
                classes.iter().map(of).sum()
            };
            let effect = (!is_current).then(|| effect(&by_seed, points)).flatten();
            let (better_for, worse_for) = (shares(Effect::is_better), shares(Effect::is_worse));
            (Overall { controller, effect, better_for, worse_for, tied: false }, by_seed)
        })
        .collect();
    let mean = |by_seed: &[(u64, f64)]| {
        by_seed.iter().map(|(_, value)| value).sum::<f64>() / by_seed.len().max(1) as f64
    };
    all.sort_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    let first = all.first().map(|(_, by_seed)| by_seed.clone()).unwrap_or_default();
    for (overall, by_seed) in all.iter_mut().skip(1) {
        let pairs = by_seed.iter().filter_map(|(seed, value)| {
            Some((*seed, value - first.iter().find(|(s, _)| s == seed)?.1))
        });
        let from_first = effect(&pairs.collect::<Vec<_>>(), points);
        overall.tied = from_first
            .is_some_and(|e| e.interval_percent.is_some() && !e.is_worse() && !e.is_better());
    }
    let overall: Vec<Overall> = all.into_iter().map(|(overall, _)| overall).collect();
    // Keep the current controller unless another one is better over its whole interval.
    let best = overall.iter().find(|o| o.effect.is_some_and(|effect| effect.is_better()));
    let take = best.map(|best| best.controller.clone());
    let matters_for = best.map_or(0.0, |best| best.better_for);
    let flags =
        format!("--stack {} --controller {}", scenario.stack, take.as_deref().unwrap_or(current));
    Advice { scenario, measure, unit, take, matters_for, flags, overall, classes }
}

/// Returns whether two names mean the same controller. The laboratory writes names in full.
pub(crate) fn same(label: &str, name: &str) -> bool {
    label == name || fathom_cc::catalogue::parse(name).is_ok_and(|config| config.spec() == label)
}

/// Returns the label under which a controller has results.
fn label<'a>(classes: &'a [ClassAdvice], name: &str) -> Option<&'a str> {
    let ranking = &classes.first()?.ranking;
    ranking.iter().map(|r| r.controller.as_str()).find(|label| same(label, name))
}

/// Returns, for each seed, the mean over the classes weighted by their shares; `None` if a class
/// has no results.
fn over_classes(classes: &[ClassAdvice], controller: &str) -> Option<Vec<(u64, f64)>> {
    let of: Vec<(f64, &Vec<(u64, f64)>)> = (classes.iter())
        .map(|class| {
            Some((class.share, &class.ranking.iter().find(|r| r.controller == controller)?.by_seed))
        })
        .collect::<Option<_>>()?;
    let value = |seed: u64| -> Option<f64> {
        let parts = of
            .iter()
            .map(|(share, by_seed)| Some(share * by_seed.iter().find(|(s, _)| *s == seed)?.1));
        parts.sum()
    };
    let seeds = of.first()?.1.iter().map(|(seed, _)| *seed);
    let all: Vec<(u64, f64)> = seeds.filter_map(|seed| Some((seed, value(seed)?))).collect();
    (!all.is_empty()).then_some(all)
}

/// Computes the effect from the logarithm of each seed's ratio, or from each seed's difference in
/// percentage points.
fn effect(by_seed: &[(u64, f64)], points: bool) -> Option<Effect> {
    let values: Vec<f64> = by_seed.iter().map(|(_, value)| *value).collect();
    let mean = Estimate::of(&values)?;
    let percent = |x: f64| if points { x } else { 100.0 * (x.exp() - 1.0) };
    let interval_percent = mean.interval().map(|(low, high)| (percent(low), percent(high)));
    Some(Effect { percent: percent(mean.mean), interval_percent, points })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a class with these response times by controller and seed; the first controller is
    /// the current one.
    fn class(share: f64, times: &[(&str, [f64; 3])]) -> ClassAdvice {
        let base = times[0].1;
        let ranking = times.iter().map(|(name, times)| {
            let by_seed: Vec<(u64, f64)> =
                (0..3).map(|s| (s as u64, (times[s] / base[s]).ln())).collect();
            let effect = (*name != "native:cubic").then(|| effect(&by_seed, false)).flatten();
            InClass { controller: (*name).into(), value: None, effect, tied: false, by_seed }
        });
        ClassAdvice { name: String::new(), share, ranking: ranking.collect(), notes: Vec::new() }
    }

    fn scenario(controllers: &[&str]) -> Scenario {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        Scenario { current: "native:cubic".into(), controllers, ..Scenario::default() }
    }

    fn concluded(classes: Vec<ClassAdvice>) -> Advice {
        conclude(scenario(&["vegas", "native:bbr"]), "mean response time", "ms", classes)
    }

    #[test]
    fn advice_names_the_best_controller_and_the_clients_it_helps() {
        let cubic = ("native:cubic", [100.0, 110.0, 120.0]);
        let few = class(
            0.3,
            &[cubic, ("vegas", [50.0, 56.0, 60.0]), ("native:bbr", [120.0, 133.0, 144.0])],
        );
        let many = class(
            0.7,
            &[cubic, ("vegas", [101.0, 108.0, 121.0]), ("native:bbr", [90.0, 121.0, 110.0])],
        );
        let advice = concluded(vec![few, many]);
        assert_eq!(
            (advice.take.as_deref(), advice.flags.as_str()),
            (Some("vegas"), "--stack quinn --controller vegas")
        );
        assert!((advice.matters_for - 0.3).abs() < 1e-9);
        // 0.5 to the power of 0.3 is 0.81.
        let vegas = &advice.overall[0];
        assert!(
            (vegas.effect.unwrap().percent + 18.7).abs() < 1.0 && vegas.effect.unwrap().is_better(),
            "{vegas:?}"
        );
        let bbr = advice.overall.iter().find(|o| o.controller == "native:bbr").unwrap();
        assert!(
            (bbr.worse_for - 0.3).abs() < 1e-9 && bbr.better_for == 0.0 && !bbr.tied,
            "{bbr:?}"
        );
    }

    #[test]
    fn advice_keeps_current_controller_unless_another_is_better() {
        let times = [
            ("native:cubic", [100.0, 110.0, 120.0]),
            ("vegas", [90.0, 121.0, 119.0]),
            ("native:bbr", [100.0, 110.0, 120.0]),
        ];
        let advice = concluded(vec![class(1.0, &times)]);
        assert_eq!((advice.take, advice.matters_for), (None, 0.0));
        assert_eq!(advice.flags, "--stack quinn --controller native:cubic");
        assert!(advice.overall.iter().skip(1).all(|o| o.tied), "{:?}", advice.overall);
    }

    #[test]
    fn advice_does_not_rank_controller_missing_from_a_class() {
        let all = [("native:cubic", [1.0; 3]), ("vegas", [0.5; 3]), ("native:bbr", [2.0; 3])];
        let advice = concluded(vec![class(0.5, &all), class(0.5, &all[..1])]);
        assert_eq!(advice.overall.len(), 1, "{:?}", advice.overall);
    }
}
