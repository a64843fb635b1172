//! The window of one connection over time, thinned so that memory use does not grow with the length
//! of the run.

use parking_lot::Mutex;

use fathom_cc::{ControllerMetrics, OneWayDelay, Time};
use fathom_plugin::Observer;
use serde::{Deserialize, Serialize};

/// Maximum number of points. When a trace is full, every second point is dropped, and the spacing
/// of points doubles.
const POINTS: usize = 4096;

/// A point of a window trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowPoint {
    /// Seconds of simulated time.
    pub at: f64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Controller's averaged queueing delay in milliseconds, if available.
    pub queueing_ms: Option<f64>,
    /// Delay in milliseconds that the sender adds to every packet, if the controller requests it
    /// (SDC).
    pub hold_ms: Option<f64>,
    /// Datagram size in bytes, if the controller sets it.
    pub datagram: Option<u16>,
}

#[derive(Debug)]
struct State {
    points: Vec<WindowPoint>,
    every: u32,
    skipped: u32,
}

/// Recorder of a connection's window, attached as the controller's [`Observer`].
#[derive(Debug)]
pub struct WindowTrace(Mutex<State>);

impl Default for WindowTrace {
    fn default() -> Self {
        Self(Mutex::new(State { points: Vec::new(), every: 1, skipped: 0 }))
    }
}

impl WindowTrace {
    /// Returns the recorded points.
    pub fn points(&self) -> Vec<WindowPoint> {
        self.0.lock().points.clone()
    }
}

impl Observer for WindowTrace {
    fn on_metrics(&self, now: Time, snapshot: &ControllerMetrics, _: Option<OneWayDelay>) {
        let mut state = self.0.lock();
        state.skipped += 1;
        if state.skipped < state.every {
            return;
        }
        state.skipped = 0;
        state.points.push(WindowPoint {
            at: now.as_secs_f64(),
            window: snapshot.window,
            queueing_ms: snapshot.queueing.map(|q| q.as_secs_f64() * 1e3),
            hold_ms: snapshot.hold.map(|q| q.as_secs_f64() * 1e3),
            datagram: snapshot.datagram,
        });
        if state.points.len() >= POINTS {
            let mut keep = false;
            state.points.retain(|_| {
                keep = !keep;
                keep
            });
            state.every *= 2;
        }
    }
}
