//! Begins requests at their times, on a thread of its own: the runtime's timers are in whole milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, park_timeout};
use std::time::Instant;

use tokio::sync::oneshot;

use super::arrivals::Arrival;
use super::clock::now;

/// A thread that begins requests. Ends when all have begun, or this is dropped.
pub(super) struct Pacer {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    done: oneshot::Receiver<()>,
}

impl Pacer {
    /// Calls `begin` for each arrival when it is due, in order; `at` counts from `began`.
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
            // What it held is let go before others hear of the end.
            drop(begin);
            let _ = released.send(());
        });
        Self { over, thread: Some(thread), done }
    }

    /// Waits until all have begun.
    pub(super) async fn done(&mut self) {
        let _ = (&mut self.done).await;
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // At once: it sleeps, or begins one request.
            let _ = thread.join();
        }
    }
}
