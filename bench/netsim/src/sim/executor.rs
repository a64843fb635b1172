//! The simulation's executor: tasks, the event queue, and the loop that advances time.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use fathom_units::Time;
use parking_lot::Mutex;

use super::core::Core;
use super::event_queue::EventQueue;
use super::handle::{RunQueue, SimHandle, SimInner, Task};
use super::network::Network;
use super::open_bundles::Bundles;
use super::timers::Timers;

/// A waker that puts its task back on the run queue, at most once.
struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    ready: Arc<RunQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.push(self.id);
        }
    }
}

/// Number of a [`MainTask`] on the run queue.
const MAIN: usize = usize::MAX;

/// The future of [`Executor::block_on`].
pub(crate) struct MainTask<'a> {
    future: Pin<&'a mut dyn Future<Output = ()>>,
    handle: Arc<TaskWaker>,
    waker: Waker,
}

struct TaskSlot {
    task: Option<Task>,
    handle: Arc<TaskWaker>,
    waker: Waker,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// [`SimHandle::stop`] was called.
    #[error("the run was stopped")]
    Stopped,
    /// No event is left. A task that is not finished waits for something that never happens.
    #[error("no event is left in the simulation")]
    Idle,
    /// The time limit was reached.
    #[error("the time limit of the run was reached")]
    TimeLimit,
    /// The flag of [`Executor::interrupt_on`] was set.
    #[error("the run was interrupted")]
    Interrupted,
}

/// Executor of the simulation. It owns the tasks and runs them on the calling thread.
pub struct Executor {
    sim: SimHandle,
    tasks: Vec<TaskSlot>,
    free: Vec<usize>,
    /// Batch of entries from the run queue. It is taken at once, so that the lock is taken once per
    /// batch and not once per task.
    batch: VecDeque<usize>,
    /// Flag that ends the run from outside.
    interrupt: Option<Arc<AtomicBool>>,
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// Creates an empty simulation at time zero.
    // The stacks require `Instant`s. Only differences from this arbitrary base are ever used.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        let core = Core {
            now: Time::ZERO,
            events: EventQueue::new(),
            timers: Timers::default(),
            net: Network::default(),
            bundles: Bundles::default(),
            agents: Vec::new(),
            real: None,
            processed: 0,
        };
        let sim = SimHandle(Arc::new(SimInner {
            base: Instant::now(),
            core: Mutex::new(core),
            ready: Arc::default(),
            spawned: Mutex::default(),
            any_spawned: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            clock: AtomicU64::new(0),
        }));
        Self { sim, tasks: Vec::new(), free: Vec::new(), batch: VecDeque::new(), interrupt: None }
    }

    /// Makes a run end soon after this flag is set, even if events remain.
    pub fn interrupt_on(&mut self, flag: Arc<AtomicBool>) {
        self.interrupt = Some(flag);
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Returns a handle for tasks and stacks.
    pub fn sim(&self) -> SimHandle {
        self.sim.clone()
    }

    /// Runs until [`SimHandle::stop`] is called, no event is left, or the time passes `limit`.
    pub fn run(&mut self, limit: Time) -> Ended {
        self.run_with(&mut None, limit)
    }

    /// Runs until `future` completes, and returns its output. Unfinished tasks continue in the next
    /// run. The future may borrow, and need not be `Send`.
    ///
    /// # Errors
    /// Returns the reason for the end of the run if it ended before `future` completed, as
    /// [`Executor::run`] does.
    pub fn block_on<T>(
        &mut self,
        future: impl Future<Output = T>,
        limit: Time,
    ) -> Result<T, Ended> {
        self.drive(future, |executor, main| executor.run_with(main, limit))
    }

    /// Calls `run` with `future` as the main task. Returns the output of `future`, or the reason
    /// why the run ended without it.
    pub(crate) fn drive<T>(
        &mut self,
        future: impl Future<Output = T>,
        run: impl FnOnce(&mut Self, &mut Option<MainTask<'_>>) -> Ended,
    ) -> Result<T, Ended> {
        let mut output = None;
        let ended = {
            let future = pin!(async { output = Some(future.await) });
            let handle = self.add_to_run_queue(MAIN);
            let waker = Waker::from(Arc::clone(&handle));
            run(self, &mut Some(MainTask { future, handle, waker }))
        };
        output.ok_or(ended)
    }

    fn run_with(&mut self, main: &mut Option<MainTask<'_>>, limit: Time) -> Ended {
        #[cfg(feature = "real-time")]
        if !self.is_virtual() {
            return self.run_in_real_time(main, limit);
        }
        self.run_in_virtual_time(main, limit)
    }

    /// Returns whether the run is in virtual time.
    pub(crate) fn is_virtual(&self) -> bool {
        self.sim.core().real.is_none()
    }

    /// Returns the time of the next event, or `None` if no event is left. This is for a loop that
    /// advances another clock together with this one. Tasks that are ready may add earlier events.
    pub fn next_event(&self) -> Option<Time> {
        self.sim.core().next_event()
    }

    /// Returns whether a task is ready.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_ready_tasks(&self) -> bool {
        !self.batch.is_empty() || self.sim.has_new_tasks()
    }

    /// Polls the tasks. Returns the reason for the end of the run if it was stopped or interrupted,
    /// or if `main` is complete.
    pub(crate) fn poll_tasks_and_flags(
        &mut self,
        main: &mut Option<MainTask<'_>>,
    ) -> Option<Ended> {
        if self.poll_tasks(main).is_ready() || self.sim.0.stop.load(Ordering::Relaxed) {
            return Some(Ended::Stopped);
        }
        self.interrupted().then_some(Ended::Interrupted)
    }

    fn run_in_virtual_time(&mut self, main: &mut Option<MainTask<'_>>, limit: Time) -> Ended {
        loop {
            if let Some(ended) = self.poll_tasks_and_flags(main) {
                return ended;
            }
            if let Some(ended) = self.advance_until_ready(limit) {
                return ended;
            }
        }
    }

    /// Handles events until a task may be ready or a flag is set. The core is locked once for all
    /// of them, because in a network of agents few events wake a task. Returns the reason for the
    /// end of the run if no event is left before `limit`.
    fn advance_until_ready(&self, limit: Time) -> Option<Ended> {
        let mut core = self.sim.core();
        loop {
            match self.step(&mut core, None, limit) {
                Err(ended) => return Some(ended),
                Ok(Some(waker)) => {
                    drop(core);
                    waker.wake();
                    return None;
                }
                Ok(None) => {}
            }
            if self.sim.has_new_tasks()
                || self.sim.0.stop.load(Ordering::Relaxed)
                || self.interrupted()
            {
                return None;
            }
        }
    }

    /// Advances virtual time to the next event and handles this event. If the event is later than
    /// `until`, advances only to `until`. Returns the reason for the end of the run if there is no
    /// such time, or none before `limit`.
    #[cfg(feature = "tokio")]
    pub(crate) fn advance(&self, until: Time, limit: Time) -> Option<Ended> {
        let mut core = self.sim.core();
        let step = self.step(&mut core, Some(until), limit);
        drop(core);
        step.map(|waker| waker.into_iter().for_each(Waker::wake)).err()
    }

    /// Handles the next event up to `until`. Returns the task that it wakes.
    fn step(
        &self,
        core: &mut Core,
        until: Option<Time>,
        limit: Time,
    ) -> Result<Option<Waker>, Ended> {
        let due = core.next_event().filter(|at| until.is_none_or(|until| *at <= until));
        let at = due.or(until).ok_or(Ended::Idle)?;
        core.now = at.min(limit);
        self.sim.set_clock(core.now);
        if at > limit {
            return Err(Ended::TimeLimit);
        }
        Ok(due.and_then(|_| core.dispatch()))
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.sim.core().processed
    }

    fn adopt_spawned(&mut self) {
        let spawned = {
            let mut spawned = self.sim.0.spawned.lock();
            self.sim.0.any_spawned.store(false, Ordering::Relaxed);
            std::mem::take(&mut *spawned)
        };
        for task in spawned {
            let id = self.free.pop().unwrap_or(self.tasks.len());
            let handle = self.add_to_run_queue(id);
            let slot =
                TaskSlot { task: Some(task), waker: Waker::from(Arc::clone(&handle)), handle };
            if id == self.tasks.len() {
                self.tasks.push(slot);
            } else {
                self.tasks[id] = slot;
            }
        }
    }

    /// Puts a new task on the run queue. Returns the waker of the task.
    fn add_to_run_queue(&self, id: usize) -> Arc<TaskWaker> {
        let ready = Arc::clone(&self.sim.0.ready);
        ready.push(id);
        Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready })
    }

    /// Polls the tasks until none is ready, or until `main` is complete.
    fn poll_tasks(&mut self, main: &mut Option<MainTask<'_>>) -> Poll<()> {
        loop {
            if self.sim.0.any_spawned.load(Ordering::Relaxed) {
                self.adopt_spawned();
            }
            let Some(id) = self.batch.pop_front() else {
                if !self.sim.0.ready.is_empty() {
                    self.sim.0.ready.take(&mut self.batch);
                }
                if self.batch.is_empty() {
                    return Poll::Pending;
                }
                continue;
            };
            if id == MAIN {
                // A future of an earlier run may still be woken.
                let Some(MainTask { future, handle, waker }) = main else { continue };
                handle.queued.store(false, Ordering::Relaxed);
                if future.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                    return Poll::Ready(());
                }
                continue;
            }
            let slot = &mut self.tasks[id];
            slot.handle.queued.store(false, Ordering::Relaxed);
            // A waker that was kept may still wake a finished task.
            let Some(task) = slot.task.as_mut() else { continue };
            if task.as_mut().poll(&mut Context::from_waker(&slot.waker)) == Poll::Ready(()) {
                slot.task = None;
                // The next task in this slot gets a new handle, so old wakers cannot reach it. They
                // only queue the id, which causes one poll without effect.
                self.free.push(id);
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold the simulation, and the simulation holds wakers. This breaks the cycle. The
        // destructor of a task may spawn or wake tasks.
        self.tasks.clear();
        loop {
            let spawned = std::mem::take(&mut *self.sim.0.spawned.lock());
            if spawned.is_empty() {
                break;
            }
            // The lock is free again, for a destructor that spawns.
            drop(spawned);
        }
        let mut core = self.sim.core();
        let wakers = core.timers.clear();
        let sockets = core.net.clear_wakers();
        drop(core);
        drop((wakers, sockets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Agent, Arrived, Wire};

    #[test]
    fn sleeps_end_in_order_of_time_and_then_of_creation() {
        let mut executor = Executor::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        for (name, ms) in [("c", 30), ("a", 10), ("b", 10)] {
            let (sim, log) = (executor.sim(), Arc::clone(&log));
            executor.sim().spawn(async move {
                sim.sleep_until(Time::from_millis(ms)).await;
                log.lock().push((name, sim.time()));
            });
        }
        assert_eq!(executor.run(Time::from_millis(1_000)), Ended::Idle);
        let ten = Time::from_millis(10);
        assert_eq!(*log.lock(), [("a", ten), ("b", ten), ("c", Time::from_millis(30))]);
    }

    #[test]
    fn block_on_returns_the_output_and_keeps_other_tasks() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let ended = Arc::new(Mutex::new(None));
        let (task, kept) = (sim.clone(), Arc::clone(&ended));
        sim.spawn(async move {
            task.sleep_until(Time::from_millis(30)).await;
            *kept.lock() = Some(task.time());
        });
        let name = String::from("borrowed");
        let output = executor.block_on(
            async {
                sim.sleep_until(Time::from_millis(10)).await;
                (name.as_str(), sim.time())
            },
            Time::from_millis(1_000),
        );
        assert_eq!(output, Ok(("borrowed", Time::from_millis(10))));
        assert_eq!(*ended.lock(), None);
        assert_eq!(executor.run(Time::from_millis(1_000)), Ended::Idle);
        assert_eq!(*ended.lock(), Some(Time::from_millis(30)));
    }

    #[test]
    fn block_on_error_explains_why_there_is_no_output() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let never = std::future::pending::<()>;
        assert_eq!(executor.block_on(never(), Time::from_millis(1)), Err(Ended::Idle));
        let late = sim.sleep_until(Time::from_millis(500));
        assert_eq!(executor.block_on(late, Time::from_millis(100)), Err(Ended::TimeLimit));
        executor.sim().stop();
        assert_eq!(executor.block_on(never(), Time::from_millis(1)), Err(Ended::Stopped));
    }

    /// A task that is never polled may hold something whose destructor spawns another task.
    #[test]
    fn task_spawned_by_a_destructor_is_dropped_with_the_executor() {
        struct Spawns(crate::sim::SimHandle, Arc<AtomicBool>);
        impl Drop for Spawns {
            fn drop(&mut self) {
                let dropped = OnDrop(Arc::clone(&self.1));
                self.0.spawn(async move { drop(dropped) });
            }
        }
        struct OnDrop(Arc<AtomicBool>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let executor = Executor::new();
        let dropped = Arc::<AtomicBool>::default();
        let spawns = Spawns(executor.sim(), Arc::clone(&dropped));
        executor.sim().spawn(async move { drop(spawns) });
        drop(executor);
        assert!(dropped.load(Ordering::Relaxed));
    }

    /// An agent whose timer goes on for ever. At its tenth call, it does something.
    struct Clock {
        calls: Arc<AtomicU64>,
        tenth: Box<dyn FnMut() + Send>,
    }

    impl Agent for Clock {
        fn on_packet(&mut self, _: &mut Wire<'_>, _: Arrived<'_>) {}
        fn on_timer(&mut self, wire: &mut Wire<'_>, timer: u32) {
            if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == 10 {
                (self.tenth)();
            }
            let next = wire.now() + std::time::Duration::from_millis(1);
            wire.call_at(next, timer);
        }
    }

    /// Starts the clock. Returns its number of calls.
    fn clock(executor: &Executor, tenth: impl FnMut() + Send + 'static) -> Arc<AtomicU64> {
        let calls = Arc::<AtomicU64>::default();
        let agent = Clock { calls: Arc::clone(&calls), tenth: Box::new(tenth) };
        let agent = executor.sim().add_agent(Box::new(agent));
        executor.sim().call_agent_at(agent, Time::ZERO, 0);
        calls
    }

    #[test]
    fn agent_without_tasks_can_end_the_run() {
        let limit = Time::from_millis(1_000);
        let mut executor = Executor::new();
        let sim = executor.sim();
        let calls = clock(&executor, move || sim.stop());
        assert_eq!((executor.run(limit), calls.load(Ordering::Relaxed)), (Ended::Stopped, 10));

        let mut executor = Executor::new();
        let flag = Arc::<AtomicBool>::default();
        executor.interrupt_on(Arc::clone(&flag));
        let calls = clock(&executor, move || flag.store(true, Ordering::Relaxed));
        assert_eq!((executor.run(limit), calls.load(Ordering::Relaxed)), (Ended::Interrupted, 10));

        let mut executor = Executor::new();
        let calls = clock(&executor, || ());
        assert_eq!(executor.run(Time::from_millis(20)), Ended::TimeLimit);
        assert_eq!(calls.load(Ordering::Relaxed), 21);
    }

    #[test]
    fn task_of_an_agent_is_polled_before_the_next_event() {
        let mut executor = Executor::new();
        let at = Arc::new(Mutex::new(Vec::new()));
        let (sim, log) = (executor.sim(), Arc::clone(&at));
        clock(&executor, move || {
            let (task, log) = (sim.clone(), Arc::clone(&log));
            sim.spawn(async move { log.lock().push(task.time()) });
        });
        assert_eq!(executor.run(Time::from_millis(20)), Ended::TimeLimit);
        assert_eq!(*at.lock(), [Time::from_millis(9)]);
    }

    #[test]
    fn simulated_time_stops_at_the_limit() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        executor.sim().spawn(async move { sim.sleep_until(Time::from_millis(500)).await });
        assert_eq!(executor.run(Time::from_millis(100)), Ended::TimeLimit);
        assert_eq!(executor.sim().time(), Time::from_millis(100));
    }
}
