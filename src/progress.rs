//! Progress lines of many runs. They are printed if standard error is a file or a pipe instead of a
//! terminal with bars, because minutes can pass without a result.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fathom_experiments::study::time_text;
use parking_lot::{Condvar, Mutex};

use crate::output;

/// Time without messages after which a line is printed.
const EVERY: Duration = Duration::from_secs(20);

/// Printer of the progress of runs at intervals. It is silent if standard error is a terminal.
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Default)]
struct State {
    /// Total number of runs.
    total: usize,
    done: usize,
    /// Current runs by name, each with the final value of its count and the count itself.
    running: HashMap<String, (u64, Arc<AtomicU64>)>,
    said: Option<Instant>,
    is_over: bool,
}

impl Heartbeat {
    /// Starts to report on `total` runs.
    pub(crate) fn new(total: usize) -> Self {
        if std::io::stderr().is_terminal() {
            return Self { shared: Arc::default(), ticker: None };
        }
        Self::saying(total, EVERY, output::say)
    }

    fn saying(total: usize, every: Duration, say: impl Fn(String) + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let began = now();
        *shared.state.lock() = State { total, said: Some(began), ..State::default() };
        let of_ticker = Arc::clone(&shared);
        let ticker = std::thread::spawn(move || {
            let mut state = of_ticker.state.lock();
            while !state.is_over {
                let due = state.said.unwrap_or(began) + every;
                if !of_ticker.over.wait_until(&mut state, due).timed_out()
                    || state.said.unwrap_or(began) + every > now()
                {
                    continue;
                }
                state.said = Some(now());
                say(state.line(now().duration_since(began)));
            }
        });
        Self { shared, ticker: Some(ticker) }
    }

    /// Sets the total number of runs.
    pub(crate) fn expect(&self, total: usize) {
        self.shared.state.lock().total = total;
    }

    /// Records that a run begins. Its `count` goes up to `of`.
    pub(crate) fn begins(&self, name: &str, of: u64, count: &Arc<AtomicU64>) {
        self.shared.state.lock().running.insert(name.to_owned(), (of, Arc::clone(count)));
    }

    /// Records that a run is over.
    pub(crate) fn ends(&self, name: &str) {
        let mut state = self.shared.state.lock();
        state.running.remove(name);
        state.done += 1;
    }

    /// Records that another message was printed, which postpones the next line.
    pub(crate) fn said(&self) {
        self.shared.state.lock().said = Some(now());
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.over.notify_all();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

// Runs are timed in real time, so read the real clock.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

impl State {
    /// Returns the line: `3 of 10 runs are done, 2 running; 1 min so far, about 3 min left`.
    fn line(&self, elapsed: Duration) -> String {
        let part = |(of, count): &(u64, Arc<AtomicU64>)| match *of {
            0 => 0.0,
            of => (count.load(Ordering::Relaxed) as f64 / of as f64).min(1.0),
        };
        let parts: f64 = self.done as f64 + self.running.values().map(part).sum::<f64>();
        let total = self.total.max(self.done + self.running.len());
        let elapsed = elapsed.as_secs_f64();
        // The estimate is too rough until 1% of the work is done.
        let left = match parts / total.max(1) as f64 {
            part if part > 0.01 => {
                format!("about {} left", time_text(elapsed * (1.0 - part).max(0.0) / part))
            }
            _ => "time left unknown".to_owned(),
        };
        format!(
            "{} of {total} runs are done, {} running; {} so far, {left}",
            self.done,
            self.running.len(),
            time_text(elapsed)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn progress_lines_show_finished_runs_and_time_left() {
        let count = Arc::new(AtomicU64::new(50));
        let mut state = State { total: 10, done: 2, ..State::default() };
        state.running.insert("a".into(), (100, count));
        assert_eq!(
            state.line(Duration::from_secs(100)),
            format!(
                "2 of 10 runs are done, 1 running; {} so far, about {} left",
                time_text(100.0),
                time_text(300.0)
            )
        );
        let state = State { total: 10, ..State::default() };
        assert!(state.line(Duration::from_secs(20)).ends_with("time left unknown"));
    }

    #[test]
    fn progress_lines_stop_with_the_last_run() {
        let (sender, lines) = mpsc::channel();
        let beat =
            Heartbeat::saying(3, Duration::from_millis(1), move |line| drop(sender.send(line)));
        let count = Arc::new(AtomicU64::new(0));
        beat.begins("a", 10, &count);
        let said = |wanted: &str| lines.iter().find(|line| line.contains(wanted)).is_some();
        assert!(said("0 of 3 runs are done, 1 running"));
        beat.ends("a");
        assert!(said("1 of 3 runs are done, 0 running"));
        drop(beat);
        assert!(
            lines.iter().count() < 1_000_000,
            "the channel is closed: nothing is said any more"
        );
    }
}
