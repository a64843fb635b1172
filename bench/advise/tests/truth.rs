//! Tests that logs recorded over a known path give the path's rate and round trip within 10%, and
//! the controller ranking of a direct run. Everything runs in virtual time: a controller writes the
//! records that `fathom serve --qlog` writes, for each connection. `-- --nocapture` prints the
//! numbers.

use std::sync::{Arc, Mutex};

use fathom_advise::{Advice, ClassPath, Objects, Observed, Profile, Scenario, advise};
use fathom_cc::algorithm::Algorithm;
use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_cc::{
    AckEvent, Capabilities, Cause, CongestionEvent, Controller, ControllerConfig,
    ControllerMetrics, Missing, PathChange, SendParams, Sent, Start, Time,
};
use fathom_experiments::compare::{Plan, compare};
use fathom_netsim::path::PathSpec;
use fathom_qlog::{Event, Metrics, PacketsLost};

/// Logs of the connections so far.
static LOGS: Mutex<Vec<Arc<Mutex<String>>>> = Mutex::new(Vec::new());
const HEADER: &str = "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n";
/// Minimum bytes that a server's sender sends, as a fraction of the largest sender's bytes. Senders
/// with fewer bytes belong to clients, which only send requests and acknowledgements.
const SERVER: f64 = 0.5;

/// CUBIC that writes a log.
#[derive(Debug)]
struct LoggedConfig(Arc<dyn ControllerConfig>);

#[derive(Debug)]
struct Logged {
    inner: Box<dyn Controller>,
    log: Arc<Mutex<String>>,
    sent: u64,
}

fn build() -> Arc<dyn ControllerConfig> {
    Arc::new(LoggedConfig(catalogue::parse("cubic").unwrap()))
}

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
        let log = Arc::new(Mutex::new(HEADER.to_owned()));
        LOGS.lock().unwrap().push(Arc::clone(&log));
        Ok(Box::new(Logged { inner: self.0.start(start)?, log, sent: 0 }))
    }
}

impl Logged {
    fn event(&self, at: Time, event: &Event) {
        let data = serde_json::to_string(event).unwrap();
        let record = format!(
            "\u{1e}{{\"time\":{},\"name\":\"{}\",\"data\":{data}}}\n",
            at.as_secs_f64() * 1e3,
            event.name()
        );
        self.log.lock().unwrap().push_str(&record);
    }
}

impl Controller for Logged {
    fn on_sent(&mut self, sent: &Sent) {
        self.sent += sent.bytes;
        self.inner.on_sent(sent);
    }
    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.inner.on_ack(acks);
        let metrics = Metrics {
            latest_rtt: Some(acks.rtt.latest + acks.rtt.ack_delay),
            min_rtt: Some(acks.rtt.min),
            bytes_in_flight: Some(acks.in_flight),
            congestion_window: Some(self.inner.send_params().window),
            acked_packets: Some(acks.packets.len() as u64),
            acked_bytes: Some(acks.bytes()),
            bytes_sent: Some(self.sent),
            ..Metrics::default()
        };
        self.event(acks.now, &Event::Metrics(metrics));
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.inner.on_congestion_event(event);
        if let Cause::Loss { bytes, persistent } = event.cause {
            let lost = PacketsLost { sent: None, packets: None, bytes: Some(bytes), persistent };
            self.event(event.now, &Event::Lost(lost));
        }
    }
    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.inner.on_spurious_congestion_event(now);
    }
    fn on_path(&mut self, now: Time, change: PathChange) {
        self.inner.on_path(now, change);
    }
    fn send_params(&self) -> SendParams {
        self.inner.send_params()
    }
    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }
    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.boxed(), log: Arc::clone(&self.log), sent: self.sent })
    }
}

fn path(rate: &str, rtt: &str, loss: Option<&str>) -> PathSpec {
    let own = |text: &str| Some(text.to_owned());
    // Acknowledgements are not lost.
    let up_loss = loss.map(|_| "0%".to_owned());
    PathSpec {
        rate: own(rate),
        rtt: own(rtt),
        loss: loss.map(str::to_owned),
        up_loss,
        ..PathSpec::default()
    }
}

/// Runs traffic over a path and writes a log per connection.
fn record(folder: &std::path::Path, name: &str, path: &PathSpec, workload: &str, responses: u64) {
    LOGS.lock().unwrap().clear();
    let plan = Plan {
        controllers: vec!["logged".into()],
        path: path.clone(),
        workload: workload.into(),
        responses,
        seeds: 1,
        max_window: "none".into(),
        ..Plan::default()
    };
    compare(&plan, &|_| {}).unwrap();
    let logs: Vec<String> =
        LOGS.lock().unwrap().iter().map(|log| log.lock().unwrap().clone()).collect();
    let sent = |log: &String| -> f64 {
        let last = log
            .rsplit("\"fathom_bytes_sent\":")
            .next()
            .and_then(|n| n.split(['}', ',']).next()?.parse().ok());
        last.unwrap_or(0.0)
    };
    let most = logs.iter().map(sent).fold(0.0, f64::max);
    for (i, log) in logs.iter().enumerate().filter(|(_, log)| sent(log) >= SERVER * most) {
        std::fs::write(folder.join(format!("{name}-{i:04}.sqlog")), log).unwrap();
    }
}

fn observed(folder: &std::path::Path) -> Observed {
    Observed::read(&[folder.to_owned()], &mut |_| {}).unwrap()
}

fn off(found: f64, truth: f64) -> f64 {
    100.0 * (found / truth - 1.0)
}

/// Tests paths given by rate in Mbps, round trip in ms and loss. The transfers of a path run one at
/// a time.
fn paths_are_found_again() {
    println!(
        "{:>10} {:>8} {:>6}   {:>12} {:>12} {:>8} {:>8}",
        "rate", "rtt", "loss", "rate found", "rtt found", "loss %", "queue"
    );
    for (rate, rtt, loss, workload) in [
        (2.0, 100.0, None, "bulk:6x1MB@8s"),
        (10.0, 40.0, None, "bulk:6x3MB@5s"),
        (10.0, 40.0, Some(0.5), "bulk:6x3MB@8s"),
        (25.0, 150.0, None, "bulk:6x10MB@8s"),
        (50.0, 20.0, None, "bulk:6x10MB@4s"),
        (50.0, 20.0, Some(0.1), "bulk:6x10MB@6s"),
        (300.0, 8.0, None, "bulk:6x20MB@2s"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let percent = loss.map(|loss| format!("{loss}%"));
        let truth = path(&format!("{rate}Mbps"), &format!("{rtt}ms"), percent.as_deref());
        record(folder.path(), "transfer", &truth, workload, 6);
        let observed = observed(folder.path());
        let profile = Profile::of(&observed, 4);
        assert_eq!(profile.connections, 6, "a log for each transfer");
        let [class] = &profile.classes[..] else {
            panic!("{rate} Mbps, {rtt} ms: {:?}", profile.classes)
        };
        let (of_rate, of_rtt) = (off(class.rate_bps, rate * 1e6), off(class.rtt_ms, rtt));
        println!(
            "{rate:>5} Mbps {rtt:>5} ms {:>6}   {:>5.2} {of_rate:>+5.1}% {:>5.1} {of_rtt:>+5.1}% {:>8.3} {:>8.0}  {} of {} full",
            percent.as_deref().unwrap_or("0"),
            class.rate_bps / 1e6,
            class.rtt_ms,
            100.0 * class.loss,
            class.queue_bytes.unwrap_or(0.0) / 1e3,
            profile.measured,
            profile.connections,
        );
        assert!(
            profile.measured > 0 && of_rate.abs() < 10.0 && of_rtt.abs() < 10.0,
            "{rate} Mbps, {rtt} ms: {class:?}"
        );
        // The reported loss is within a factor of two of the path's loss, and none is reported on a
        // path without loss.
        let truth = loss.unwrap_or(0.0) / 100.0;
        assert!(
            class.loss <= 2.0 * truth + 1e-4 && class.loss >= truth / 2.0 - 1e-4,
            "{truth}: {class:?}"
        );
    }
}

fn figures(of: &str, advice: &Advice) {
    println!("{of}: take {:?}, better for {:.0} %", advice.take, 100.0 * advice.matters_for);
    for overall in &advice.overall {
        println!(
            "  {:20} {}",
            overall.controller,
            overall.effect.map_or("current".into(), |effect| effect.text())
        );
    }
}

/// Two kinds of clients have 60% and 40% of the connections. Tests that classes, shares, sizes and
/// ranking agree with those of a run on the true paths.
fn ranking_is_that_of_a_direct_run() {
    let folder = tempfile::tempdir().unwrap();
    let truths = [
        ("cellular", 0.4, path("5Mbps", "60ms", Some("1%"))),
        ("fixed", 0.6, path("40Mbps", "15ms", None)),
    ];
    record(folder.path(), "cellular", &truths[0].2, "bulk:20x2MB@12s", 20);
    record(folder.path(), "fixed", &truths[1].2, "bulk:30x2MB@3s", 30);
    let observed = observed(folder.path());
    let profile = Profile::of(&observed, 4);
    let objects = Objects::observed(&observed).unwrap();
    let stack = fathom_stacks::Stack::default();
    let scenario = Scenario {
        controllers: ["native:new-reno", "native:bbr", "vegas"].map(str::to_owned).into(),
        responses: 20,
        seeds: 3,
        ..Scenario::of(&profile, &objects, stack)
    };
    print!("{}", scenario.to_toml(&[]));
    let classes: Vec<ClassPath> = truths
        .iter()
        .map(|(name, share, path)| ClassPath {
            name: (*name).into(),
            share: *share,
            path: path.clone(),
        })
        .collect();
    let direct = Scenario {
        classes,
        workload: "objects:1x2MB..2MB..2MB..2MB..2MB..2MB".into(),
        ..scenario.clone()
    };
    let shares: Vec<f64> = scenario.classes.iter().map(|class| class.share).collect();
    assert_eq!(shares, [0.6, 0.4], "classes of clients");
    let run = |scenario: &Scenario| advise(scenario, &|_| {}, &Arc::default()).unwrap();
    let (of_logs, of_truth) = (run(&scenario), run(&direct));
    figures("from logs", &of_logs);
    figures("direct run", &of_truth);
    let order =
        |advice: &Advice| advice.overall.iter().map(|o| o.controller.clone()).collect::<Vec<_>>();
    assert_eq!(of_logs.take, of_truth.take);
    assert_eq!(order(&of_logs), order(&of_truth));
    for overall in &of_logs.overall {
        let other = of_truth.overall.iter().find(|o| o.controller == overall.controller).unwrap();
        let overlap = overall.effect.zip(other.effect).is_none_or(|(a, b)| {
            let ((a_low, a_high), (b_low, b_high)) =
                (a.interval_percent.unwrap(), b.interval_percent.unwrap());
            a_low <= b_high && b_low <= a_high
        });
        assert!(overlap, "{}: {:?} and {:?}", overall.controller, overall.effect, other.effect);
    }
}

/// One test for everything, because the catalogue can be extended only once per process and the
/// logs are shared.
#[test]
fn path_and_ranking_are_recovered_from_simulated_logs() {
    let logged = Algorithm {
        name: "logged",
        aliases: &[],
        options: &[],
        build: |_| build(),
        ..CATALOGUE[0]
    };
    catalogue::extend(vec![logged].leak()).unwrap();
    paths_are_found_again();
    ranking_is_that_of_a_direct_run();
}
