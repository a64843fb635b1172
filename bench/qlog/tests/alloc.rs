//! Cost on the packet path: logging an event allocates nothing, as measured by a counting global
//! allocator.

use std::time::{Duration, UNIX_EPOCH};

use allocation_counter::measure;
use fathom_qlog::{Event, LogFolder, Metrics, PacketsLost, TraceHeader, VantagePoint};

#[test]
fn events_allocate_nothing() {
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
