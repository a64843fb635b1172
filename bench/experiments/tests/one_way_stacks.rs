//! Tests of one-way delays on every stack, with every frame type that carries them. Checks the
//! samples that a controller receives when the path gets longer, and while a queue grows.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathom_cc::algorithm::Algorithm;
use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_cc::testing::{Event, Log, Record, RecordingConfig};
use fathom_cc::{Capabilities, Controller, ControllerConfig, Missing, Start, Time};
use fathom_experiments::scenario::{ScenarioSpec, Timestamps, run};
use fathom_experiments::stack::Stack;

/// Logs, one for each controller of a run.
static LOGS: Mutex<Vec<Log>> = Mutex::new(Vec::new());

/// Reno; each of its controllers has its own log.
#[derive(Debug)]
struct LoggedConfig(Arc<dyn ControllerConfig>);

impl ControllerConfig for LoggedConfig {
    fn name(&self) -> &'static str {
        "logged"
    }
    fn spec(&self) -> String {
        "logged".into()
    }
    fn required(&self) -> Capabilities {
        self.0.required()
    }
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        let log = Log::new(100_000);
        LOGS.lock().unwrap().push(log.clone());
        RecordingConfig::new(Arc::clone(&self.0), log).start(start)
    }
}

/// Returns the catalogue entry of the logged controller.
pub(crate) fn logged() -> Algorithm {
    Algorithm { name: "logged", aliases: &[], options: &[], build: |_| build(), ..CATALOGUE[0] }
}

fn build() -> Arc<dyn ControllerConfig> {
    Arc::new(LoggedConfig(catalogue::parse("reno").unwrap()))
}

/// A sample that the sender of a transfer received: its time, and the one-way delay and RTT in
/// milliseconds above their minima.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    one_way: f64,
    rtt: f64,
}

/// Returns the samples that the sender of one transfer received.
fn told(
    stack: Stack,
    timestamps: Timestamps,
    path: &str,
    workload: &str,
    max_window: &str,
) -> Vec<Told> {
    LOGS.lock().unwrap().clear();
    let text = format!(
        r#"
        stop = "1 responses"
        stack = "{stack}"
        timestamps = "{timestamps}"
        [network]
        topology = "path"
        [network.path]
        {path}
        [[traffic]]
        name = "transfer"
        from = "left"
        to = "right"
        workload = "{workload}"
        controller = "logged"
        max-window = "{max_window}"
        "#
    );
    let scenario = ScenarioSpec::from_toml(&text)
        .and_then(|spec| spec.check())
        .unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, 1, &Arc::new(AtomicU64::new(0)))
        .unwrap_or_else(|e| panic!("{stack} {timestamps}: {e}"));
    let logs = LOGS.lock().unwrap().clone();
    let acked = |log: &Vec<Record>| -> u64 {
        let events = log.iter().map(|record| match &record.event {
            Event::AckEvent { packets, .. } => packets.iter().map(|packet| packet.bytes).sum(),
            _ => 0,
        });
        events.sum()
    };
    let sender = logs.iter().map(Log::records).max_by_key(acked).expect("a controller");
    let samples: Vec<_> = sender
        .iter()
        .filter_map(|record| match &record.event {
            Event::AckEvent { now, rtt, one_way: Some(one_way), .. } => {
                Some((*now, *one_way, rtt.latest))
            }
            _ => None,
        })
        .collect();
    let base = samples.iter().map(|sample| sample.1).min().expect("delays");
    let least = samples.iter().map(|sample| sample.2).min().expect("round trips");
    let millis = |d: Duration| d.as_secs_f64() * 1e3;
    samples
        .iter()
        .map(|(at, one_way, rtt)| Told {
            at: *at,
            one_way: millis(one_way.above(base)),
            rtt: millis(*rtt - least),
        })
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    assert!(values.len() > 20, "{} values", values.len());
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Checks the samples on a path whose RTT grows from 40 to 100 ms at 3 s, by 30 ms in each
/// direction. The window never fills the link. Returns the reported growth of the one-way delay in
/// milliseconds.
fn delay_growth_on_a_longer_path(stack: Stack, timestamps: Timestamps) -> f64 {
    let path = "rtt = \"40ms\"\nrate = \"50Mbps\"\nevents = [\"rtt:100ms@3s\"]";
    let told = told(stack, timestamps, path, "flows:1x2MB", "10p");
    let of = |from: u64, to: u64, value: fn(&Told) -> f64| {
        let within =
            |told: &&Told| (Time::from_millis(from)..Time::from_millis(to)).contains(&told.at);
        median(told.iter().filter(within).map(value))
    };
    let moved = |value| of(3_500, 30_000, value) - of(500, 3_000, value);
    let (one_way, rtt) = (moved(|told| told.one_way), moved(|told| told.rtt));
    println!(
        "{stack} by {timestamps}: one-way delay {one_way:+.3} ms, RTT {rtt:+.3} ms, {} delays",
        told.len()
    );
    assert!((rtt - 60.0).abs() < 1.0, "{stack} by {timestamps}: RTT {rtt:+} ms");
    // The medians come from bursts, in which each packet waits for the packets before it.
    assert!((one_way - 30.0).abs() < 1.0, "{stack} by {timestamps}: one-way delay {one_way:+} ms");
    one_way
}

/// Compares one-way delays with RTTs while a queue grows. Acknowledgements meet no queue, so the
/// RTT grows only by the queue ahead. Returns the mean and 95th percentile of the difference, and
/// the largest queue, in milliseconds.
fn delay_errors_while_a_queue_grows(stack: Stack, timestamps: Timestamps) -> [f64; 3] {
    let path = "rtt = \"40ms\"\nrate = \"10Mbps\"\nqueue = \"droptail:150p\"";
    let told = told(stack, timestamps, path, "flows:1x3MB", "120p");
    let mut errors: Vec<f64> = told.iter().map(|told| (told.one_way - told.rtt).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let (p95, deepest) =
        (errors[errors.len() * 95 / 100], told.iter().map(|told| told.rtt).fold(0.0, f64::max));
    println!(
        "{stack} by {timestamps}: {} delays, off the queue by {mean:.3} ms, p95 {p95:.3} ms; deepest {deepest:.1} ms",
        told.len()
    );
    [mean, p95, deepest]
}

/// One test for all stacks, because the logs are shared by all controllers of the process.
#[test]
fn every_timestamp_frame_type_gives_one_way_delays() {
    crate::extend_catalogue();
    for stack in Stack::ALL {
        let frames = [Timestamps::Lean, Timestamps::Timestamp, Timestamps::Receive];
        let [lean, others @ ..] =
            frames.map(|timestamps| delay_growth_on_a_longer_path(*stack, timestamps));
        assert!(
            others.iter().all(|other| (other - lean).abs() < 0.5),
            "{stack}: {others:?} against {lean} ms"
        );
        let [lean, others @ ..] =
            frames.map(|timestamps| delay_errors_while_a_queue_grows(*stack, timestamps));
        for [mean, p95, deepest] in others {
            assert!(deepest > 60.0, "{stack}: the queue never grew");
            assert!(
                (mean - lean[0]).abs() < 0.1 && p95 < lean[1] + 0.1,
                "{stack}: {mean}, {p95} against {lean:?} ms"
            );
        }
        assert!(lean[0] < 1.0, "{stack}: {lean:?}");
    }
}
