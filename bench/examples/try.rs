#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    let n: u64 = std::env::args().nth(1).map_or(500, |s| s.parse().unwrap());
    let mut plan = fathom_bench::experiment::Plan { responses: n, ..Default::default() };
    if let Some(w) = std::env::args().nth(2) {
        plan.workload = w;
        plan.max_window = "none".into();
    }
    if let Some(c) = std::env::args().nth(3) {
        plan.controllers = vec![c];
    }
    let c = fathom_bench::experiment::compare(&plan, &|s| {
        if let fathom_bench::experiment::Stage::Ends { name, cost } = s {
            println!(
                "{name}: {cost:?} {:.0} pkts/cpus {:.3} ms/conn",
                cost.packets as f64 / cost.cpu_seconds,
                1e3 * cost.cpu_seconds / cost.connections as f64
            );
        }
    })
    .unwrap_or_else(|e| panic!("{e}"));
    for r in c.runs.iter().chain(c.reference.as_ref().map(|r| &r.run)) {
        println!(
            "{} {} t={:.1} n={} failed={} drops={}% meanq={} maxq={} util={} size={} gpr={} med={} mean={} p99={} large_med={} oneway={}% early={} loss={} hash={}",
            r.controller,
            r.link,
            r.seconds,
            r.responses,
            r.failed,
            r.drops_percent,
            r.mean_queue,
            r.max_queue,
            r.utilisation_percent,
            r.mean_size,
            r.goodput_per_response_kbps,
            r.times.median_ms,
            r.times.mean_ms,
            r.times.p99_ms,
            r.times_large.median_ms,
            r.one_way_percent,
            r.early_reductions,
            r.loss_reductions,
            r.trace_hash
        );
    }
    if let Some(r) = c.reference {
        println!("{:?} {:?} {}", r.rates, r.offered_percent, r.calibration_runs);
    }
    println!("{}", c.request_hash);
}
