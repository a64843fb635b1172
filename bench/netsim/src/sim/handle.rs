//! The handle through which tasks and stacks reach the simulation.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fathom_units::Time;
use parking_lot::{Mutex, MutexGuard};

use super::core::Core;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Numbers of the tasks that are ready, in the order in which they were woken.
#[derive(Default)]
pub(super) struct RunQueue {
    tasks: Mutex<VecDeque<usize>>,
    /// Whether `tasks` has an entry. It is asked after each event, without the lock.
    any: AtomicBool,
}

impl RunQueue {
    pub(super) fn push(&self, task: usize) {
        let mut tasks = self.tasks.lock();
        tasks.push_back(task);
        self.any.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// Exchanges all entries for the empty `batch`.
    pub(super) fn take(&self, batch: &mut VecDeque<usize>) {
        let mut tasks = self.tasks.lock();
        std::mem::swap(batch, &mut *tasks);
        self.any.store(!tasks.is_empty(), Ordering::Relaxed);
    }
}

pub(super) struct SimInner {
    pub(super) base: Instant,
    pub(super) core: Mutex<Core>,
    pub(super) ready: Arc<RunQueue>,
    pub(super) spawned: Mutex<Vec<Task>>,
    pub(super) any_spawned: AtomicBool,
    pub(super) stop: AtomicBool,
    /// The core's `now` in nanoseconds. It can be read without the core's lock, because stacks ask
    /// for the time several times per packet.
    pub(super) clock: AtomicU64,
}

/// A handle to the simulation: clock, timers, tasks and sockets. It is the runtime of the stacks,
/// and cloning it is cheap.
#[derive(Clone)]
pub struct SimHandle(pub(super) Arc<SimInner>);

impl fmt::Debug for SimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimHandle")
    }
}

impl SimHandle {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock()
    }

    /// Returns the virtual time since the simulation began.
    pub fn time(&self) -> Time {
        Time::from_nanos(self.0.clock.load(Ordering::Relaxed))
    }

    /// Sets the time that tasks read to the core's time.
    pub(crate) fn set_clock(&self, now: Time) {
        self.0.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the current time as the [`Instant`] that the stacks see.
    pub fn instant(&self) -> Instant {
        self.0.base + self.time().since(Time::ZERO)
    }

    /// Returns the [`Instant`] at which the simulation began.
    pub fn base(&self) -> Instant {
        self.0.base
    }

    pub(crate) fn time_of(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.0.base)
    }

    /// Starts a task.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(future));
    }

    pub(crate) fn spawn_boxed(&self, future: Task) {
        self.0.spawned.lock().push(future);
        self.0.any_spawned.store(true, Ordering::Relaxed);
    }

    /// Returns whether a task was woken or started since the executor last took them.
    pub(super) fn has_new_tasks(&self) -> bool {
        !self.0.ready.is_empty() || self.0.any_spawned.load(Ordering::Relaxed)
    }

    /// Ends the run after the current event.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
