//! Tracks when a connection last had a request.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// A duration longer than any connection lasts.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// Request activity of a connection. Other frames do not count as activity.
pub(super) struct RequestActivity {
    /// Number of requests in progress, and the time at which the last request ended or the
    /// connection started.
    open: Mutex<(usize, Instant)>,
}

impl RequestActivity {
    pub(super) fn new() -> Self {
        Self { open: Mutex::new((0, Instant::now())) }
    }

    fn open(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.open.lock()
    }

    /// Records a complete request. Drop the returned guard when the request has been answered.
    pub(super) fn request(&self) -> impl Drop + use<'_> {
        struct Answering<'a>(&'a RequestActivity);
        impl Drop for Answering<'_> {
            fn drop(&mut self) {
                let (open, last) = &mut *self.0.open();
                *open -= 1;
                *last = Instant::now();
            }
        }
        self.open().0 += 1;
        Answering(self)
    }

    /// Returns the time at which the connection will have been without a request for `bound`.
    pub(super) fn unused_from(&self, bound: Duration) -> Instant {
        let (open, last) = *self.open();
        let since = if open > 0 { Instant::now() } else { last };
        since.checked_add(bound).unwrap_or(since + FAR_FUTURE)
    }
}
