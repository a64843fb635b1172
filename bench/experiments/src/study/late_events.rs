//! Path events that came after the end of a run and therefore had no effect.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_netsim::link::Capacity;
use fathom_netsim::path::{DirectedPath, PathEvent};

use super::{StudyRun, StudyRunResult};

/// Returns a line for each event that came after the end of at least one run.
pub fn late_events(runs: &[StudyRun], results: &[StudyRunResult]) -> Vec<String> {
    let ends: BTreeMap<&str, f64> =
        results.iter().map(|r| (&*r.fingerprint, r.outcome.seconds)).collect();
    // Values by event: number of runs with the event, number of these runs that ended before the
    // event, and duration of the longest run in seconds.
    let mut seen: BTreeMap<String, (usize, usize, f64)> = BTreeMap::new();
    for run in runs {
        let (Some(path), Some(&end)) = (&run.scenario.chain.path, ends.get(&*run.fingerprint))
        else {
            continue;
        };
        for (event, at) in events(&path.down) {
            let (all, late, longest) = seen.entry(event).or_default();
            *all += 1;
            *late += usize::from(end <= at.as_secs_f64());
            *longest = longest.max(end);
        }
    }
    (seen.into_iter().filter(|(_, (_, late, _))| *late > 0))
        .map(|(event, (all, late, longest))| {
            format!(
                "event '{event}' came after the end of {late} of {all} runs (the longest of them \
                 took {longest:.1} s), so it had no effect in these runs; write an earlier time, \
                 or make runs longer"
            )
        })
        .collect()
}

/// Returns the events of the direction towards clients, with their times. Rate changes are read
/// from the link, because they are part of its capacity.
fn events(way: &DirectedPath) -> Vec<(String, Duration)> {
    let steps = match &way.link {
        Some((Capacity::Steps(_, steps), _)) => &steps[..],
        _ => &[],
    };
    let rates = steps.iter().map(|&(at, rate)| PathEvent::Rate { at, rate });
    let all = way.impairments.events.iter().copied().chain(rates);
    all.filter_map(|event| Some((event.to_string(), event.at()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Outcome;
    use crate::study::Study;

    #[test]
    fn study_reports_path_events_after_the_end_of_all_runs() {
        let text = r#"
question = "Does it come?"
seeds = 1
[sweep]
controller = ["reno"]
[scenario]
stop = "20 responses"
stack = "quinn"
[scenario.network]
topology = "path"
[scenario.network.path]
rate = "10Mbps"
rtt = "20ms"
events = ["rate:5Mbps@1s", "blackout:1s@9s", "rate:2Mbps@30s"]
[[scenario.traffic]]
name = "transfer"
from = "left"
to = "right"
workload = "flows:20x10kB"
controller = "$controller"
"#;
        let study = Study::from_toml("late.toml", text).unwrap();
        let runs = study.runs(1.0).unwrap();
        let results: Vec<StudyRunResult> = (runs.iter())
            .map(|run| StudyRunResult {
                key: run.key.clone(),
                seed: run.seed,
                fingerprint: run.fingerprint.clone(),
                outcome: Outcome { seconds: 5.0, ..Outcome::default() },
            })
            .collect();
        let told = late_events(&runs, &results);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with(
            "event 'blackout:1s@9s' came after the end of 1 of 1 runs (the longest of them \
                 took 5.0 s)"
        ));
        assert!(told[1].starts_with("event 'rate:2Mbps@30s'"), "{told:?}");
    }
}
