//! Page views: load times and objects.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latency::{Distribution, Latencies};

/// Page views of a run, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct PageStats {
    load: Latencies,
    critical: Latencies,
    objects: Latencies,
    failed: u64,
    failed_objects: u64,
}

impl PageStats {
    /// Records a complete page view. `took` is the time from the start of the navigation to the
    /// last byte. `critical` is the time from the same start to the last resource needed for
    /// drawing.
    pub fn loaded(&mut self, took: Duration, critical: Duration) {
        self.load.record(took);
        self.critical.record(critical);
    }

    /// Records a page view that failed or whose user gave up.
    pub fn failed(&mut self) {
        self.failed += 1;
    }

    /// Records a complete object. `took` is the time since its request.
    pub fn object(&mut self, took: Duration) {
        self.objects.record(took);
    }

    /// Records an object that failed.
    pub fn object_failed(&mut self) {
        self.failed_objects += 1;
    }

    /// Adds the counts and times of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.load.merge(&other.load);
        self.critical.merge(&other.critical);
        self.objects.merge(&other.objects);
        self.failed += other.failed;
        self.failed_objects += other.failed_objects;
    }

    /// Returns the outcome of all page views so far.
    pub fn outcome(&self) -> PageOutcome {
        let of = |times: &Latencies| (times.count() > 0).then(|| times.distribution());
        PageOutcome {
            loaded: self.load.count(),
            failed: self.failed,
            load_time: of(&self.load),
            critical_time: of(&self.critical),
            objects: self.objects.count(),
            failed_objects: self.failed_objects,
            object_times: of(&self.objects),
        }
    }
}

/// Page views of a group after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageOutcome {
    /// Page views with all objects complete.
    pub loaded: u64,
    /// Page views with a failed object, or whose user gave up.
    pub failed: u64,
    /// Time from the start of the navigation, including connection setup, to the last byte of the
    /// last object.
    pub load_time: Option<Distribution>,
    /// Time from the start of the navigation to the last byte of the last critical resource:
    /// document, style sheet, script or font (urgency 0 and 1).
    pub critical_time: Option<Distribution>,
    /// Complete objects, including those of failed views.
    pub objects: u64,
    /// Objects that failed.
    pub failed_objects: u64,
    /// Time from the request of an object to its last byte.
    pub object_times: Option<Distribution>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_views_and_objects_are_counted_separately_and_merge() {
        let (mut a, mut b) = (PageStats::default(), PageStats::default());
        a.loaded(Duration::from_millis(900), Duration::from_millis(500));
        a.object(Duration::from_millis(100));
        b.failed();
        b.object_failed();
        b.object(Duration::from_millis(300));
        a.merge(&b);
        let outcome = a.outcome();
        assert_eq!(
            (outcome.loaded, outcome.failed, outcome.objects, outcome.failed_objects),
            (1, 1, 2, 1)
        );
        assert!((outcome.load_time.unwrap().max_ms - 900.0).abs() < 1.0);
        assert!((outcome.critical_time.unwrap().max_ms - 500.0).abs() < 1.0);
        assert_eq!(outcome.object_times.unwrap().mean_ms, 200.0);
        assert_eq!(PageStats::default().outcome(), PageOutcome::default());
    }
}
