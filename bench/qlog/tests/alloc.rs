//! Tests the cost on the packet path: logging an event allocates nothing, as a counting global
//! allocator shows.

use std::time::{Duration, UNIX_EPOCH};

use allocation_counter::measure;
use fathom_qlog::{Event, LogFolder, Metrics, PacketsLost, TraceHeader, VantagePoint};

#[test]
fn logging_an_event_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = LogFolder::open(dir.path()).unwrap();
    let log = folder.begin(TraceHeader {
        id: "a".into(),
        vantage: VantagePoint::Server,
        title: String::new(),
        began: UNIX_EPOCH,
    });
    let lost = PacketsLost {
        sent: Some(Duration::ZERO),
        packets: None,
        bytes: Some(1),
        persistent: false,
    };
    let counted = measure(|| {
        for n in 0..1_000 {
            let metrics = Metrics { congestion_window: Some(n), ..Metrics::default() };
            log.event(Duration::from_millis(n), Event::Metrics(metrics));
            log.event(Duration::from_millis(n), Event::Lost(lost));
        }
    });
    assert_eq!(counted.count_total, 0);
    drop(log);
    let counts = folder.finish();
    assert_eq!(counts.events + counts.dropped, 2_000);
}
