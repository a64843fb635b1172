//! The virtual world's executor: tasks, the event queue, and the loop that moves time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use fathom_cc::Time;

use super::agent::{Agent, AgentId};
use super::net::Network;
use super::timer::{Sleep, TimerKey, Timers};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A timer may be due.
    Timer(TimerKey),
    /// A packet reaches its next hop (index into the network's packet store).
    Packet(u32),
    /// An agent's own timer.
    Agent(AgentId, u32),
}

/// Everything that time moves, behind one lock.
pub(super) struct Core {
    pub(super) now: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) timers: Timers,
    pub(super) net: Network,
    /// None while it is being called.
    pub(super) agents: Vec<Option<Box<dyn Agent>>>,
    processed: u64,
}

impl Core {
    /// Schedules `event` at `at` nanoseconds, never in the past; ties keep the order of scheduling.
    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at.max(self.now), self.sequence, event)));
    }
}

struct Shared {
    base: Instant,
    core: Mutex<Core>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    spawned: Mutex<Vec<Task>>,
    any_spawned: AtomicBool,
    stop: AtomicBool,
    /// The core's `now`, readable without its lock: stacks ask for the time several times per packet.
    clock: AtomicU64,
}

/// A handle to the virtual world: clock, timers, tasks, sockets. Cheap to clone; it is the runtime of the stacks.
#[derive(Clone)]
pub struct Virtual(Arc<Shared>);

impl fmt::Debug for Virtual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Virtual")
    }
}

impl Virtual {
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        // A poisoned lock means a panic is already unwinding: go on so that its message reaches the user.
        self.0.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time since the world began.
    pub fn time(&self) -> Time {
        Time::from_nanos(self.0.clock.load(Ordering::Relaxed))
    }

    /// The same moment as the [`Instant`] the stacks see.
    pub fn instant(&self) -> Instant {
        self.instant_at(self.0.clock.load(Ordering::Relaxed))
    }

    /// The [`Instant`] at which the world began.
    pub fn base(&self) -> Instant {
        self.0.base
    }

    pub(super) fn instant_at(&self, nanos: u64) -> Instant {
        self.0.base + Duration::from_nanos(nanos)
    }

    pub(super) fn nanos_of(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.0.base).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Starts a task.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(future));
    }

    pub(super) fn spawn_boxed(&self, future: Task) {
        lock(&self.0.spawned).push(future);
        self.0.any_spawned.store(true, Ordering::Relaxed);
    }

    /// Waits until `at`.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(self.clone(), at.as_nanos())
    }

    /// Ends the run after the current event.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts its task back on the run queue, once.
struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push_back(self.id);
        }
    }
}

struct Slot {
    task: Option<Task>,
    handle: Arc<TaskWaker>,
    waker: Waker,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody called [`Virtual::stop`].
    Stopped,
    /// Nothing is left to happen.
    Idle,
    /// The time limit was reached.
    TimeLimit,
}

/// Owns the tasks and runs them on the calling thread.
pub struct Executor {
    world: Virtual,
    tasks: Vec<Slot>,
    free: Vec<usize>,
    /// The run queue's entries being worked on: taken in one go, to lock once per batch and not per task.
    batch: VecDeque<usize>,
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// A world at time zero with nothing in it.
    // The stacks want `Instant`s; only differences from this arbitrary base are ever used.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        let core = Core {
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            timers: Timers::default(),
            net: Network::default(),
            agents: Vec::new(),
            processed: 0,
        };
        let world = Virtual(Arc::new(Shared {
            base: Instant::now(),
            core: Mutex::new(core),
            ready: Arc::default(),
            spawned: Mutex::default(),
            any_spawned: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            clock: AtomicU64::new(0),
        }));
        Self { world, tasks: Vec::new(), free: Vec::new(), batch: VecDeque::new() }
    }

    /// A handle for tasks and stacks.
    pub fn world(&self) -> Virtual {
        self.world.clone()
    }

    /// Runs until somebody stops the world, nothing is left to do, or virtual time passes `limit`.
    pub fn run(&mut self, limit: Time) -> Ended {
        loop {
            self.run_ready();
            if self.world.0.stop.load(Ordering::Relaxed) {
                return Ended::Stopped;
            }
            let mut core = self.world.core();
            let Some(Reverse((at, _, event))) = core.events.pop() else {
                return Ended::Idle;
            };
            if at > limit.as_nanos() {
                core.now = limit.as_nanos();
                self.world.0.clock.store(core.now, Ordering::Relaxed);
                return Ended::TimeLimit;
            }
            debug_assert!(at >= core.now, "virtual time ran backwards");
            core.now = at;
            self.world.0.clock.store(at, Ordering::Relaxed);
            core.processed += 1;
            let wake = match event {
                Event::Timer(key) => core.fire_timer(key),
                Event::Packet(index) => core.packet_arrives(index),
                Event::Agent(agent, timer) => {
                    core.agent_timer(agent, timer);
                    None
                }
            };
            drop(core);
            if let Some(waker) = wake {
                waker.wake();
            }
        }
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.world.core().processed
    }

    fn adopt_spawned(&mut self) {
        let spawned = std::mem::take(&mut *lock(&self.world.0.spawned));
        for task in spawned {
            let id = self.free.pop().unwrap_or(self.tasks.len());
            let handle =
                Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: Arc::clone(&self.world.0.ready) });
            let slot = Slot { task: Some(task), waker: Waker::from(Arc::clone(&handle)), handle };
            if id == self.tasks.len() {
                self.tasks.push(slot);
            } else {
                self.tasks[id] = slot;
            }
            lock(&self.world.0.ready).push_back(id);
        }
    }

    fn run_ready(&mut self) {
        loop {
            if self.world.0.any_spawned.swap(false, Ordering::Relaxed) {
                self.adopt_spawned();
            }
            let Some(id) = self.batch.pop_front() else {
                std::mem::swap(&mut self.batch, &mut *lock(&self.world.0.ready));
                if self.batch.is_empty() {
                    return;
                }
                continue;
            };
            let slot = &mut self.tasks[id];
            slot.handle.queued.store(false, Ordering::Relaxed);
            // A finished task may still be woken by a waker somebody kept.
            let Some(task) = slot.task.as_mut() else { continue };
            if task.as_mut().poll(&mut Context::from_waker(&slot.waker)) == Poll::Ready(()) {
                slot.task = None;
                // A fresh handle comes with the next task in this slot, so old wakers cannot reach it: they only queue the id, which
                // polls once for nothing.
                self.free.push(id);
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold the world and the world holds wakers: break the circle. A task's destructor may spawn or wake.
        self.tasks.clear();
        lock(&self.world.0.spawned).clear();
        let mut core = self.world.core();
        let wakers = core.timers.clear();
        let sockets = core.net.clear_wakers();
        drop(core);
        drop((wakers, sockets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_end_in_order_of_time_then_of_creation() {
        let mut executor = Executor::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        for (name, ms) in [("c", 30), ("a", 10), ("b", 10)] {
            let (world, log) = (executor.world(), Arc::clone(&log));
            executor.world().spawn(async move {
                world.sleep_until(Time::from_millis(ms)).await;
                lock(&log).push((name, world.time()));
            });
        }
        assert_eq!(executor.run(Time::from_millis(1_000)), Ended::Idle);
        let ten = Time::from_millis(10);
        assert_eq!(*lock(&log), [("a", ten), ("b", ten), ("c", Time::from_millis(30))]);
    }

    #[test]
    fn the_limit_stops_time() {
        let mut executor = Executor::new();
        let world = executor.world();
        executor.world().spawn(async move { world.sleep_until(Time::from_millis(500)).await });
        assert_eq!(executor.run(Time::from_millis(100)), Ended::TimeLimit);
        assert_eq!(executor.world().time(), Time::from_millis(100));
    }
}
