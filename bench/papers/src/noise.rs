//! Noise of numbers: how far a number moves if nothing relevant changes except the seed, or a link
//! that is 0.1% slower. The noise is the minimum difference for a single seed.
//!
//! The studies `noise-web`, `noise-bulk` and `noise-detection` make the runs;
//! `bench/results/noise/runs.json` keeps their numbers. A margin is the largest absolute difference
//! between any two of these runs, either of a number of one system or of the difference of two
//! systems with the same seed and rate. Systems that these studies do not include have no margin,
//! and one seed then decides nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::claims::NEVER;
use crate::results::Measure;

/// Numbers of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    study: String,
    key: BTreeMap<String, String>,
    seed: u64,
    numbers: BTreeMap<String, f64>,
}

static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/noise/runs.json")).unwrap_or_default()
});

/// A number with measured noise.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    study: &'static str,
    /// Name in the file of runs.
    name: &'static str,
    /// Whether margins are fractions of the larger of two numbers rather than absolute.
    relative: bool,
    /// Whether only runs of the same seed are compared, because the number is of one response that
    /// other seeds do not have.
    same_seed: bool,
    of: Measure,
}

impl Noise {
    /// Creates a number with margins in its own unit.
    pub(crate) const fn absolute(study: &'static str, name: &'static str, of: Measure) -> Self {
        Self { study, name, relative: false, same_seed: false, of }
    }

    /// Creates a number with margins relative to it.
    pub(crate) const fn relative(study: &'static str, name: &'static str, of: Measure) -> Self {
        Self { study, name, relative: true, same_seed: false, of }
    }

    /// Restricts comparisons to the same seed, for a number that depends on one seed's requests.
    pub(crate) const fn of_one_seed(self) -> Self {
        Self { same_seed: true, ..self }
    }

    /// Returns the name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the measure that computes the number from a run.
    pub(crate) const fn measure(&self) -> Measure {
        self.of
    }

    /// Returns the numbers of a system by rate and seed; `None` returns all systems.
    fn runs(&self, system: Option<&str>) -> BTreeMap<(&str, &str, u64), f64> {
        let mine = RUNS.iter().filter(|run| run.study == self.study);
        let number = |run: &'static Run| {
            let text = |axis: &str| run.key.get(axis).map_or("", String::as_str);
            let fits = system.is_none_or(|system| system == text("system"));
            Some(((text("system"), text("rate"), run.seed), *run.numbers.get(self.name)?))
                .filter(|_| fits)
        };
        mine.filter_map(number).collect()
    }

    /// Returns the largest difference between any two of these values. Each value is given with its
    /// seed and the number that it is relative to.
    fn spread(&self, values: &[(u64, f64, f64)]) -> Option<f64> {
        let mean =
            values.iter().map(|(_, _, whole)| whole.abs()).sum::<f64>() / values.len() as f64;
        let pairs = values
            .iter()
            .enumerate()
            .flat_map(|(i, a)| values[i + 1..].iter().map(move |b| (a, b)));
        let comparable = pairs.filter(|(a, b)| !self.same_seed || a.0 == b.0);
        let spread = comparable.map(|(a, b)| (a.1 - b.1).abs()).reduce(f64::max)?;
        let spread = if self.relative { spread / mean } else { spread };
        spread.is_finite().then_some(spread)
    }

    /// Returns the minimum distance of one seed's number from a bound.
    pub(crate) fn beside_bound(&self, system: &str, value: f64) -> f64 {
        let values: Vec<_> =
            self.runs(Some(system)).into_iter().map(|((_, _, seed), x)| (seed, x, x)).collect();
        self.scaled(self.spread(&values), value)
    }

    /// Returns the minimum difference between one seed's numbers of two systems. With the same
    /// system twice, returns the noise of its own number.
    pub(crate) fn between(&self, a: &str, b: &str, pairs: &[(f64, f64)]) -> f64 {
        let larger = pairs.iter().fold(0.0_f64, |most, (a, b)| most.max(a.abs()).max(b.abs()));
        let (of_a, of_b) = (self.runs(Some(a)), self.runs(Some(b)));
        let both = of_a
            .iter()
            .filter_map(|((_, rate, seed), x)| Some((*seed, *x, *of_b.get(&(b, *rate, *seed))?)));
        let differ = |(seed, x, y): (u64, f64, f64)| match a == b {
            true => (seed, x, x),
            false => (seed, x - y, x.abs().max(y.abs())),
        };
        self.scaled(self.spread(&both.map(differ).collect::<Vec<_>>()), larger)
    }

    /// Returns the largest minimum difference between any two systems of the study, for one seed's
    /// numbers.
    pub(crate) fn between_any(&self, pairs: &[(f64, f64)]) -> f64 {
        let mut systems: Vec<&str> =
            self.runs(None).into_keys().map(|(system, _, _)| system).collect();
        systems.dedup();
        let all =
            systems.iter().flat_map(|a| systems.iter().map(move |b| self.between(a, b, pairs)));
        all.reduce(f64::max).unwrap_or(NEVER)
    }

    fn scaled(&self, spread: Option<f64>, value: f64) -> f64 {
        let scale = if self.relative { value.abs() } else { 1.0 };
        spread.map_or(NEVER, |spread| spread * scale)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fathom_experiments::study::{StudyRunResult, shipped, stored};

    use super::*;
    use crate::testing::study;
    use crate::{ghstcp, sync_tcp};

    fn all() -> Vec<Noise> {
        sync_tcp::NOISE.iter().chain(ghstcp::NOISE).copied().collect()
    }

    /// Writes the file of runs from results of the studies in a folder:
    /// `FATHOM_NOISE=DIR FATHOM_WRITE=1`, after `fathom plan run STUDY --results DIR`.
    #[test]
    fn noise_runs_file_matches_the_studies() {
        let Some(folder) = std::env::var_os("FATHOM_NOISE") else { return };
        let of = |name: &'static str, result: StudyRunResult| {
            let numbers = all().into_iter().filter(|noise| noise.study == name);
            let numbers = numbers
                .filter_map(|noise| Some((noise.name.to_owned(), (noise.of)(&result.outcome)?)));
            Run {
                study: name.to_owned(),
                key: result.key,
                seed: result.seed,
                numbers: numbers.collect(),
            }
        };
        let studies = ["noise-bulk", "noise-detection", "noise-web"];
        let runs: Vec<Run> = (studies.into_iter())
            .flat_map(|name| {
                let stored =
                    stored(&study(name).runs(1.0).unwrap(), &Path::new(&folder).join(name));
                stored.into_iter().map(move |result| of(name, result))
            })
            .collect();
        let lines: Vec<String> =
            runs.iter().map(|run| serde_json::to_string(run).unwrap()).collect();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/noise/runs.json");
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        if std::env::var_os("FATHOM_WRITE").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn noise_runs_file_names_only_shipped_studies() {
        assert!(!RUNS.is_empty(), "bench/results/noise/runs.json cannot be read");
        for run in RUNS.iter() {
            assert!(shipped(&run.study).is_some(), "{}", run.study);
            let runs = study(&run.study).runs(1.0).unwrap();
            assert!(runs.iter().any(|r| r.key == run.key && r.seed == run.seed), "{run:?}");
        }
        for noise in all() {
            let values: Vec<f64> = noise.runs(None).into_values().collect();
            assert!(values.len() >= 6, "{}: {}", noise.name, values.len());
        }
    }

    #[test]
    fn noise_margins_are_the_largest_differences() {
        // Values from 2 to 2.5: a spread of 0.5, or an eighth of the mean of 4.
        let absolute = Noise::absolute("s", "n", |_| None);
        let relative = Noise { relative: true, ..absolute };
        let runs = [(1, 2.0, 4.0), (1, 2.25, 4.0), (2, 2.5, 4.0)];
        assert_eq!((absolute.spread(&runs), relative.spread(&runs)), (Some(0.5), Some(0.125)));
        assert_eq!(
            (absolute.of_one_seed().spread(&runs), absolute.spread(&runs[..1])),
            (Some(0.25), None)
        );
        assert_eq!(
            (absolute.scaled(Some(0.5), 80.0), relative.scaled(Some(0.25), -80.0)),
            (0.5, 20.0)
        );
        // Numbers without noise runs decide nothing.
        assert_eq!((absolute.beside_bound("Reno", 1.0), absolute.between_any(&[])), (NEVER, NEVER));
    }
}
