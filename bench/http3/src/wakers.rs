//! Tasks of a connection that wait, and the lock that they use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Locks a mutex whose data stay consistent if a thread panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tasks that wait for streams and must hear of a GOAWAY.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    tasks: Vec<Option<Waker>>,
    free: Vec<u32>,
}

/// Place of a task in [`Waiting`].
#[derive(Debug, Default)]
pub(crate) struct Slot(Option<u32>);

impl Waiting {
    /// Registers the task, which replaces the one before.
    #[inline]
    pub(crate) fn register(&self, slot: &mut Slot, task: &Waker) {
        let mut slots = lock(&self.0);
        let number = match slot.0 {
            Some(number) => number as usize,
            None => {
                let number = slots.free.pop().unwrap_or(slots.tasks.len() as u32);
                slot.0 = Some(number);
                number as usize
            }
        };
        if number == slots.tasks.len() {
            slots.tasks.push(None);
        }
        let registered = &mut slots.tasks[number];
        if !registered.as_ref().is_some_and(|waker| waker.will_wake(task)) {
            let before = registered.replace(task.clone());
            // Dropping a waker may drop a stream, which locks again.
            drop(slots);
            drop(before);
        }
    }

    /// Removes the task, if there is one.
    #[inline]
    pub(crate) fn remove(&self, slot: &mut Slot) {
        if let Some(number) = slot.0.take() {
            self.free(number);
        }
    }

    fn free(&self, number: u32) {
        let mut slots = lock(&self.0);
        let task = slots.tasks[number as usize].take();
        slots.free.push(number);
        drop(slots);
        drop(task);
    }

    /// Wakes all tasks.
    pub(crate) fn wake(&self) {
        let tasks: Vec<_> = lock(&self.0).tasks.iter().flatten().cloned().collect();
        tasks.into_iter().for_each(Waker::wake);
    }
}

/// Records that the driver has something to do, and wakes its task. The task polls far more often
/// than unidirectional streams have data.
#[derive(Default)]
pub(crate) struct Wakeup {
    woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wakeup {
    /// Registers the task. Returns whether it was woken since the last call.
    pub(crate) fn take(&self, task: &Waker) -> bool {
        let mut registered = lock(&self.task);
        if !registered.as_ref().is_some_and(|waker| waker.will_wake(task)) {
            *registered = Some(task.clone());
        }
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let task = lock(&self.task).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}
