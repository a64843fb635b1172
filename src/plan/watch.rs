//! Progress of a study on standard error. A terminal shows a bar for each run in progress and one
//! bar for all runs. Otherwise, a line is printed for each finished run, and a line at regular
//! intervals while runs take long.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathom_experiments::study::Event;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::output;
use crate::progress::Heartbeat;

/// Prints the events of a study as bars or lines.
pub(crate) struct Watcher {
    /// Whether bars are drawn, because standard error is a terminal.
    terminal: bool,
    /// Printer of regular lines while no run ends. It is silent on a terminal.
    heartbeat: Heartbeat,
    state: Arc<Mutex<State>>,
    ticker: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    whole: Option<ProgressBar>,
    /// Bars and counters of the runs in progress, by label.
    running: HashMap<String, (ProgressBar, Arc<AtomicU64>)>,
    /// Number of runs that ended or failed.
    done: usize,
    /// Number of runs to execute, including those that are done.
    left: usize,
    over: bool,
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Watcher {
    pub(crate) fn new(terminal: bool) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let ticker = terminal.then(|| {
            let state = Arc::clone(&state);
            std::thread::spawn(move || {
                loop {
                    let state = state.lock();
                    if state.over {
                        return;
                    }
                    for (bar, count) in state.running.values() {
                        bar.set_position(count.load(Ordering::Relaxed));
                    }
                    drop(state);
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        });
        Self { terminal, heartbeat: Heartbeat::new(0), state, ticker }
    }

    pub(crate) fn on_event(&self, event: Event<'_>) {
        let mut state = self.state.lock();
        match event {
            Event::Starts { stored, left } => {
                state.left = left;
                self.heartbeat.expect(left);
                self.say(&format!("{left} runs to execute, {stored} runs already stored"), true);
                if self.terminal {
                    let whole = output::bar(ProgressBar::new(left as u64).with_prefix("all runs"));
                    whole.set_style(style(
                        "{prefix:40!} {wide_bar} {pos}/{len} {elapsed}, {eta} left",
                    ));
                    state.whole = Some(whole);
                }
            }
            Event::Broken { place, reason } => {
                self.say(
                    &format!(
                        "the stored result '{place}' is broken, so its run is repeated: {reason}"
                    ),
                    true,
                );
            }
            Event::Begins { run, of, progress } => {
                self.heartbeat.begins(&run.label(), of, &progress);
                if self.terminal {
                    let bar = ProgressBar::new(of).with_prefix(run.label());
                    let bar = match &state.whole {
                        Some(whole) => output::bar_before(whole, bar),
                        None => output::bar(bar),
                    };
                    bar.set_style(style("{prefix:40!} {wide_bar} {percent}% {elapsed}"));
                    state.running.insert(run.label(), (bar, progress));
                }
            }
            Event::Ends { run, cost } => {
                let label = run.label();
                self.heartbeat.ends(&label);
                state.end(&label);
                let (done, left) = (state.done, state.left);
                self.say(&format!("{done}/{left} {label}: {cost}"), false);
            }
            Event::Fails { run, error } => {
                let label = run.label();
                self.heartbeat.ends(&label);
                state.end(&label);
                self.say(&format!("{label} failed: {error}"), true);
            }
        }
    }

    /// Prints a line above the bars. Unless `always` is set, prints it only if there are no bars.
    fn say(&self, line: &str, always: bool) {
        if always || !self.terminal {
            self.heartbeat.said();
            output::say(line.replace('\n', "; "));
        }
    }

    pub(crate) fn finish(self) {
        {
            let mut state = self.state.lock();
            state.over = true;
            for (_, (bar, _)) in state.running.drain() {
                bar.finish_and_clear();
            }
            if let Some(whole) = state.whole.take() {
                whole.finish_and_clear();
            }
        }
        if let Some(ticker) = self.ticker {
            let _ = ticker.join();
        }
    }
}

impl State {
    fn end(&mut self, label: &str) {
        self.done += 1;
        if let Some(whole) = &self.whole {
            whole.inc(1);
        }
        if let Some((bar, _)) = self.running.remove(label) {
            bar.finish_and_clear();
        }
    }
}
