//! tokio programs in the simulation: tokio's paused clock advances together with the executor's
//! clock.
//!
//! Everything runs on one thread, inside a current-thread runtime. The future that the runtime
//! blocks on polls the simulation's tasks. Whenever tokio would park its thread, none of tokio's
//! tasks is ready. If none of the simulation's tasks is ready either, both clocks advance. They
//! advance to the next event of the simulation or to the next whole millisecond, because tokio's
//! timers end at whole milliseconds.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fathom_units::Time;
use parking_lot::Mutex;

use crate::sim::{Ended, Executor};

/// Resolution of tokio's timers, in nanoseconds.
const TICK: u64 = 1_000_000;

/// Signal that tokio's tasks are idle, with the waker of the future that the runtime blocks on.
#[derive(Default)]
struct IdleSignal {
    idle: AtomicBool,
    root: Mutex<Option<Waker>>,
}

impl IdleSignal {
    /// Records that no task of tokio is ready. Waking the root future keeps tokio from advancing
    /// its clock by itself.
    fn on_idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
        if let Some(waker) = self.root.lock().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Returns whether tokio has been idle since the last call.
    fn take(&self, root: &Waker) -> bool {
        let mut kept = self.root.lock();
        if !kept.as_ref().is_some_and(|waker| waker.will_wake(root)) {
            *kept = Some(root.clone());
        }
        self.idle.swap(false, Ordering::Relaxed)
    }
}

impl Executor {
    /// Runs an ordinary tokio program in virtual time until `future` completes, and returns its
    /// output. `tokio::spawn`, `tokio::time`, `tokio::sync` and `JoinSet` work as in a
    /// current-thread runtime, and `tokio::time` has the simulation's time. Unfinished tokio tasks
    /// are then dropped, as at the end of a tokio runtime. Unfinished tasks of the simulation
    /// continue in the next run.
    ///
    /// Anything that reaches outside the simulation does not take part in virtual time.
    /// `tokio::net` panics because the runtime has no I/O, `std::time::Instant` is the wall clock,
    /// and threads and `spawn_blocking` run in real time.
    ///
    /// # Errors
    /// Returns how the run ended if it ended before `future` completed. If the future waits for
    /// something that never happens, the run ends with [`Ended::TimeLimit`].
    ///
    /// # Panics
    /// Panics inside another tokio runtime, and if the simulation has a real-time backend.
    pub fn block_on_tokio<T>(
        &mut self,
        future: impl Future<Output = T>,
        limit: Time,
    ) -> Result<T, Ended> {
        assert!(self.is_virtual(), "tokio's clock follows virtual time only");
        let signal = Arc::new(IdleSignal::default());
        let on_idle = Arc::clone(&signal);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || on_idle.on_idle())
            .build()
            .expect("a runtime without I/O takes nothing from the system");
        let started = self.sim().time();
        self.drive(future, |executor, main| {
            // The tasks of the simulation share one tokio task, so tokio's budget for a single task
            // does not apply to them.
            runtime.block_on(tokio::task::unconstrained(poll_fn(|cx| {
                if signal.take(cx.waker())
                    && !executor.has_ready_tasks()
                    && let Some(ended) = executor.advance_with_tokio(started, limit, cx)
                {
                    return Poll::Ready(ended);
                }
                executor.poll_tasks_and_flags(main).map_or(Poll::Pending, Poll::Ready)
            })))
        })
    }

    /// Advances both clocks to the next time at which an event or a timer may be due. If an event
    /// of the simulation is due then, handles it.
    fn advance_with_tokio(
        &mut self,
        started: Time,
        limit: Time,
        cx: &mut Context<'_>,
    ) -> Option<Ended> {
        let now = self.sim().time();
        let since = now.since(started).as_nanos() as u64;
        let tick = now + Duration::from_nanos(TICK - since % TICK);
        let ended = self.advance(tick, limit);
        let step = self.sim().time().since(now);
        if !step.is_zero() {
            // The first poll advances tokio's clock. The timers end when tokio's driver runs the
            // next time.
            let _ = pin!(tokio::time::advance(step)).poll(cx);
        }
        ended
    }
}
