//! Measures the cost of carrying one-way delays in a bulk transfer, in SYNC_TIMESTAMP and in
//! ACK_RECEIVE_TIMESTAMPS frames: CPU time and bytes, in paired runs with and without the
//! extension.
//!
//! `cargo bench -p fathom-experiments --bench frame_cost`. The two runs of a pair follow each other
//! at once and take turns in going first; the result is the median of the ratios. CPU time is that
//! of the run's thread and covers both ends, the network and TLS. Bytes include everything that
//! crossed the bottleneck in both directions, with headers; they are the same in every run.

use fathom_experiments::compare::{Plan, Stage, compare};
use fathom_experiments::scenario::Timestamps;
use fathom_experiments::stack::Stack;
use parking_lot::Mutex;

const PAIRS: usize = 15;
const WORKLOAD: &str = "bulk:1x50MB";

/// CPU seconds and bytes of one run.
fn run(stack: Stack, timestamps: Timestamps) -> (f64, f64) {
    let plan = Plan {
        controllers: vec!["reno".into()],
        stacks: vec![stack],
        link: "100Mbps".into(),
        workload: WORKLOAD.into(),
        max_window: "none".into(),
        timestamps,
        seeds: 1,
        ..Plan::default()
    };
    let cpu = Mutex::new(0.0);
    let watch = |stage: Stage| {
        if let Stage::Ends { cost, .. } = stage {
            *cpu.lock() += cost.cpu_seconds;
        }
    };
    let result = compare(&plan, &watch).expect("a sound plan");
    let r = &result.runs[0];
    let bytes = r.outcome.links.values().map(|link| link.throughput_bps).sum::<f64>()
        * r.outcome.seconds
        / 8.0;
    (cpu.into_inner(), bytes)
}

fn main() {
    for (stack, with) in Stack::ALL
        .iter()
        .flat_map(|stack| [Timestamps::Lean, Timestamps::Receive].map(|with| (stack, with)))
    {
        let mut ratios = Vec::new();
        let mut bytes = [0.0; 2];
        for pair in 0..=PAIRS {
            let order =
                if pair % 2 == 0 { [Timestamps::Off, with] } else { [with, Timestamps::Off] };
            let mut cpu = [0.0; 2];
            for mode in order {
                let at = usize::from(mode == with);
                (cpu[at], bytes[at]) = run(*stack, mode);
            }
            // The first pair warms caches up.
            if pair > 0 {
                ratios.push(100.0 * (cpu[1] / cpu[0] - 1.0));
            }
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "{stack}: {WORKLOAD}, {with} against off: CPU {:+.2} % (median of {PAIRS} pairs; quartiles {:+.2}, {:+.2}), bytes {:+.3} %",
            ratios[PAIRS / 2],
            ratios[PAIRS / 4],
            ratios[PAIRS * 3 / 4],
            100.0 * (bytes[1] / bytes[0] - 1.0)
        );
    }
}
