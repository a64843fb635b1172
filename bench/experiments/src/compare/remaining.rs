//! Runs that an interrupted comparison has left, as the options of commands that execute them.

use super::result::Comparison;

/// Runs without a result that one command executes: controllers over consecutive seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Controllers; `None`: all controllers of the plan.
    pub controllers: Option<Vec<String>>,
    /// First seed.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u64,
}

impl Remaining {
    /// Returns the options of the command: `--controllers sync --seed 3 --seeds 1`.
    pub fn arguments(&self) -> String {
        let controllers =
            self.controllers.iter().map(|names| format!("--controllers {} ", names.join(",")));
        controllers.collect::<String>() + &format!("--seed {} --seeds {}", self.seed, self.seeds)
    }
}

impl Comparison {
    /// Returns the runs without a result, seed by seed. A command runs its controllers on all
    /// stacks and backends, even if only some of these runs are missing. If the plan does not name
    /// the controller of a missing run, the entry is for all controllers.
    pub fn remaining(&self) -> Vec<Remaining> {
        let mut all: Vec<Remaining> = Vec::new();
        let mut seeds: Vec<u64> = self.incomplete.iter().map(|run| run.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        for seed in seeds {
            let lacks = |name: &String| {
                self.incomplete.iter().any(|run| run.seed == seed && run.controller == *name)
            };
            let of_plan: Vec<String> =
                self.plan.controllers.iter().filter(|name| lacks(name)).cloned().collect();
            let unknown = |name: &String| !of_plan.contains(name);
            let some = of_plan.len() < self.plan.controllers.len()
                && !self.incomplete.iter().any(|run| run.seed == seed && unknown(&run.controller));
            let controllers = some.then_some(of_plan);
            match all.last_mut() {
                Some(last) if last.controllers == controllers && last.seed + last.seeds == seed => {
                    last.seeds += 1
                }
                _ => all.push(Remaining { controllers, seed, seeds: 1 }),
            }
        }
        all
    }

    /// Returns a sentence with the commands that execute the remaining runs: the same command with
    /// other options. If this takes too many commands, the same command repeats all runs.
    pub fn how_to_go_on(&self) -> String {
        let left = self.remaining();
        let commands: Vec<String> = left.iter().map(Remaining::arguments).collect();
        match &commands[..] {
            [] => "nothing is left".into(),
            several if several.len() <= MOST_COMMANDS => {
                format!(
                    "the same command with {} executes the remaining runs",
                    several.join(", and with ")
                )
            }
            _ => "the same command repeats all runs".into(),
        }
    }
}

/// Maximum number of commands that the sentence lists.
const MOST_COMMANDS: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::{Missing, Plan};
    use super::*;

    fn left(runs: &[(&str, u64)]) -> Comparison {
        let missing = |(name, seed): &(&str, u64)| Missing {
            label: (*name).into(),
            controller: (*name).into(),
            seed: *seed,
            why: "interrupted".into(),
        };
        let incomplete = runs.iter().map(missing).collect();
        // The default plan has reno and sync with seeds 1 to 5.
        Comparison {
            plan: Plan::default(),
            request_hash: String::new(),
            runs: Vec::new(),
            reference: None,
            incomplete,
        }
    }

    #[test]
    fn suggested_commands_run_each_missing_run_once() {
        for (runs, says) in [
            (
                &[("reno", 4), ("sync", 4), ("reno", 5), ("sync", 5)][..],
                "with --seed 4 --seeds 2 executes the remaining runs",
            ),
            (
                &[("sync", 3), ("reno", 4), ("sync", 4)],
                "with --controllers sync --seed 3 --seeds 1, and with --seed 4 --seeds 1",
            ),
            (
                &[("sync", 1)],
                "with --controllers sync --seed 1 --seeds 1 executes the remaining runs",
            ),
            (&[("sync", 1), ("reno", 2), ("sync", 3), ("reno", 5)], "repeats all runs"),
        ] {
            let text = left(runs).how_to_go_on();
            assert!(text.contains(says), "{text}");
            let made = left(runs).remaining().into_iter().flat_map(|of| {
                let names = of.controllers.unwrap_or_else(|| vec!["reno".into(), "sync".into()]);
                (of.seed..of.seed + of.seeds)
                    .flat_map(move |seed| names.clone().into_iter().map(move |name| (name, seed)))
            });
            let wanted: Vec<(String, u64)> =
                runs.iter().map(|(name, seed)| ((*name).to_owned(), *seed)).collect();
            assert_eq!(made.collect::<Vec<_>>(), wanted);
        }
    }
}
