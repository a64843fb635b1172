//! Tests the properties that every stack relies on, and the purpose of this controller.

use std::time::Duration;

use fathom_cc::testing::{Bottleneck, Curve, script};
use fathom_cc::{Rate, Start, Time, catalogue};

// If your controller breaks a property on purpose, declare this in `Algorithm::contract`.
fathom_cc::contract_tests!(&[template_controller::ALGORITHM]);

/// Twenty seconds of bulk data over 10 Mbps and 40 ms, with a queue of 80 ms.
fn run(spec: &str) -> Curve {
    fathom_cc::testing::contract::known(&[template_controller::ALGORITHM]);
    let path = Bottleneck {
        rate: Rate::from_bits_per_sec(10_000_000),
        forward: Duration::from_millis(20),
        reverse: Duration::from_millis(20),
        queue: 100_000,
        datagram: script::MSS as u16,
        per_ack: 2,
        clock_offset: 0,
    };
    let config = catalogue::parse(spec).unwrap_or_else(|e| panic!("{e}"));
    let start = Start { now: Time::ZERO, ..script::start() };
    let mut controller = config.start(&start).unwrap_or_else(|e| panic!("{e}"));
    let curve = path.run(&mut *controller, Duration::from_secs(20));
    println!("{spec}, window over time:\n{}", curve.to_ascii(100, 10));
    curve
}

#[test]
fn own_controller_keeps_queue_below_renos_and_link_full() {
    let (own, reno) = (run("template-controller"), run("reno"));
    let queued = |curve: &Curve| curve.mean_queued(Time::from_millis(5_000));
    assert!(queued(&own) < queued(&reno) / 2, "{:?}, Reno {:?}", queued(&own), queued(&reno));
    // 25 MB in twenty seconds.
    assert!(own.delivered > 23_000_000, "{} bytes", own.delivered);
}

#[test]
fn smaller_target_makes_a_shorter_queue() {
    let queued = |spec| run(spec).mean_queued(Time::from_millis(5_000));
    assert!(queued("template-controller:target=5ms") < queued("template-controller"));
}
