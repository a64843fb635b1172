//! Timers as tasks and stacks see them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use fathom_units::Time;

use super::core::{Core, Event};
use super::handle::SimHandle;
use super::timers::{NEVER, TimerKey};

impl Core {
    /// Handles a timer's entry of the event queue. Returns the task to wake.
    pub(crate) fn fire_timer(&mut self, key: TimerKey) -> Option<Waker> {
        let now = self.now;
        let s = &mut self.timers.slots[key.slot as usize];
        if s.generation != key.generation || s.queued_at != now {
            return None; // The timer is closed, or an earlier entry supersedes this one.
        }
        s.queued_at = NEVER;
        if s.deadline <= now {
            return s.waker.take();
        }
        s.queued_at = s.deadline;
        let at = s.deadline;
        self.schedule(at, Event::Timer(key));
        None
    }

    fn arm_timer(&mut self, key: TimerKey) {
        let now = self.now;
        let s = &mut self.timers.slots[key.slot as usize];
        let at = s.deadline.max(now);
        if at < s.queued_at {
            s.queued_at = at;
            self.schedule(at, Event::Timer(key));
        }
    }
}

impl SimHandle {
    /// Returns a timer that ends at `at`.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(self.clone(), at)
    }
}

/// A timer. As a future, it completes at its deadline. Stacks may reset it.
#[derive(Debug)]
pub struct Sleep {
    sim: SimHandle,
    key: TimerKey,
}

impl Sleep {
    pub(crate) fn new(sim: SimHandle, deadline: Time) -> Self {
        let key = sim.core().timers.open(deadline);
        Self { sim, key }
    }

    /// Moves the deadline. A task that waits for the timer continues to wait.
    pub fn reset(&self, at: Instant) {
        let deadline = self.sim.time_of(at);
        let mut core = self.sim.core();
        let s = &mut core.timers.slots[self.key.slot as usize];
        s.deadline = deadline;
        if s.waker.is_some() {
            core.arm_timer(self.key);
        }
    }

    fn poll_deadline(&self, cx: &Context<'_>) -> Poll<()> {
        let mut core = self.sim.core();
        let now = core.now;
        let s = &mut core.timers.slots[self.key.slot as usize];
        if s.deadline <= now {
            return Poll::Ready(());
        }
        match &mut s.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            waker => *waker = Some(cx.waker().clone()),
        }
        core.arm_timer(self.key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // The waker may own the last reference to a task, so drop it outside the lock.
        let waker = self.sim.core().timers.close(self.key);
        drop(waker);
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_deadline(cx)
    }
}
