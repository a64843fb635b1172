//! Starts requests at their scheduled times. This needs a separate thread, because the runtime's
//! timers have a resolution of whole milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, park_timeout};
use std::time::Instant;

use tokio::sync::oneshot;

use super::arrivals::Arrival;
use super::clock::now;

/// A thread that starts requests. The thread ends when all requests have started or when the pacer
/// is dropped.
pub(super) struct Pacer {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    done: oneshot::Receiver<()>,
}

impl Pacer {
    /// Calls `begin` for each arrival when it is due, in order. The times `at` count from `began`.
    pub(super) fn start(
        began: Instant,
        arrivals: impl Iterator<Item = Arrival> + Send + 'static,
        mut begin: impl FnMut(Arrival, Instant) + Send + 'static,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (released, done) = oneshot::channel();
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            for arrival in arrivals {
                let Some(due) = began.checked_add(arrival.at) else { break };
                loop {
                    if ends.load(Ordering::Relaxed) {
                        return;
                    }
                    let left = due.saturating_duration_since(now());
                    if left.is_zero() {
                        break;
                    }
                    park_timeout(left);
                }
                begin(arrival, due);
            }
            // Release the state of `begin` before the end is reported.
            drop(begin);
            let _ = released.send(());
        });
        Self { over, thread: Some(thread), done }
    }

    /// Waits until all requests have started.
    pub(super) async fn done(&mut self) {
        let _ = (&mut self.done).await;
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread ends soon, because it only sleeps or starts one request.
            let _ = thread.join();
        }
    }
}
