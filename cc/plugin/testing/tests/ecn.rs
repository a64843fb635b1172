//! Tests that marks on the path reach the controller on every pair of stacks. The counts come with
//! the acknowledgements, and the congestion event comes after them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_cc::testing::{Event, Log, RecordingConfig};
use fathom_cc::{Capabilities, Cause, Controller, ControllerConfig, Missing, Start};
use fathom_plugin::{Extension, Offer};
use fathom_plugin_testing::marking::Marks;
use fathom_plugin_testing::{EVERY, SideConfig, run};

/// Recorded controller that requires ECN counts.
#[derive(Debug)]
struct NeedsCounts(RecordingConfig);

impl ControllerConfig for NeedsCounts {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn spec(&self) -> String {
        self.0.spec()
    }
    fn required(&self) -> Capabilities {
        Capabilities { ecn: true, ..Capabilities::NONE }
    }
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.0.start(start)
    }
}

/// Event at the controller: a batch of acknowledgements with its CE count (`None` without counts),
/// or a congestion event. Sent packets are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Received {
    Batch(fathom_cc::Time, Option<u64>),
    Mark(fathom_cc::Time),
    Loss,
}

fn received(log: &Log) -> Vec<Received> {
    let of = |event| match event {
        Event::AckEvent { now, ecn, .. } => {
            Some(Received::Batch(now, ecn.map(|e: fathom_cc::EcnDelta| e.ce)))
        }
        Event::CongestionEvent(s) if s.cause == Cause::Mark => Some(Received::Mark(s.now)),
        Event::CongestionEvent(_) => Some(Received::Loss),
        _ => None,
    };
    log.records().into_iter().filter_map(|r| of(r.event)).collect()
}

#[tokio::test]
async fn ecn_counts_arrive_with_acks_before_congestion_events() {
    let lean = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
    for on in EVERY {
        for server in [SideConfig::with_plugin("reno", lean), SideConfig::stock()] {
            let (log, marks) = (Log::new(100_000), Marks::default());
            let reno = fathom_cc::catalogue::parse("reno").expect("reno");
            let controller_config = Arc::new(NeedsCounts(RecordingConfig::new(reno, log.clone())));
            let client = SideConfig {
                controller_config: Some(controller_config),
                extension: lean,
                rounds: 2,
                ..SideConfig::stock()
            };
            let server = SideConfig { marks: Some(marks.clone()), rounds: 2, ..server };
            run(on, client, server).await;

            let received = received(&log);
            let marked = marks.datagrams.load(Ordering::Relaxed);
            let counted: u64 = received
                .iter()
                .filter_map(|h| if let Received::Batch(_, ce) = h { *ce } else { None })
                .sum();
            assert!(marked > 10, "{on:?}: {marked} marked");
            // The last acknowledgements may not arrive.
            assert!(counted <= marked && counted > marked / 2, "{on:?}: {counted} of {marked}");

            let mut congestion_events = 0;
            for (i, mark) in received.iter().enumerate() {
                let Received::Mark(at) = *mark else { continue };
                congestion_events += 1;
                let before = received[..i].iter().rev().find(|h| matches!(h, Received::Batch(..)));
                assert!(
                    matches!(before, Some(Received::Batch(now, Some(1..))) if *now == at),
                    "{on:?}: a mark without its counts: {before:?}, then {mark:?}"
                );
            }
            assert!(
                congestion_events > 3,
                "{on:?}: {congestion_events} congestion events for {marked} marks"
            );
        }
    }
}
