//! Timers of the simulation. Stacks reset them on nearly every packet, mostly to a later time: a reset to a later time only
//! notes the deadline, and the entry already in the event queue reschedules itself when it comes up early.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::executor::{Core, Event, SimHandle};

/// Names a timer in the event queue; the generation tells a reused slot from the one an old entry meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct TimerState {
    generation: u32,
    deadline: u64,
    /// Time of the earliest live entry in the event queue; `u64::MAX` when there is none.
    queued_at: u64,
    waker: Option<Waker>,
}

/// All timers of a simulation.
#[derive(Debug, Default)]
pub(super) struct Timers {
    slots: Vec<TimerState>,
    free: Vec<u32>,
}

impl Timers {
    /// Forgets every waiting task; hands the wakers out so that they drop outside the lock.
    pub(super) fn clear(&mut self) -> Vec<Option<Waker>> {
        self.slots.iter_mut().map(|s| s.waker.take()).collect()
    }

    fn open(&mut self, deadline: u64) -> TimerKey {
        if let Some(slot) = self.free.pop() {
            let s = &mut self.slots[slot as usize];
            s.deadline = deadline;
            s.queued_at = u64::MAX;
            return TimerKey { slot, generation: s.generation };
        }
        self.slots.push(TimerState { generation: 0, deadline, queued_at: u64::MAX, waker: None });
        TimerKey { slot: self.slots.len() as u32 - 1, generation: 0 }
    }

    fn close(&mut self, key: TimerKey) -> Option<Waker> {
        let s = &mut self.slots[key.slot as usize];
        s.generation = s.generation.wrapping_add(1);
        self.free.push(key.slot);
        s.waker.take()
    }
}

impl Core {
    /// An event-queue entry of a timer came up: whom to wake.
    pub(super) fn fire_timer(&mut self, key: TimerKey) -> Option<Waker> {
        let now = self.now;
        let s = &mut self.timers.slots[key.slot as usize];
        if s.generation != key.generation || s.queued_at != now {
            return None; // closed, or superseded by an earlier entry
        }
        s.queued_at = u64::MAX;
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

/// A timer: as a future it ends at its deadline, and stacks may reset it.
#[derive(Debug)]
pub struct Sleep {
    sim: SimHandle,
    key: TimerKey,
}

impl Sleep {
    pub(crate) fn new(sim: SimHandle, deadline: u64) -> Self {
        let key = sim.core().timers.open(deadline);
        Self { sim, key }
    }

    /// Moves the deadline; a task that waits goes on waiting.
    pub(crate) fn reset(&self, at: Instant) {
        let deadline = self.sim.nanos_of(at);
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
        // The waker may own the last reference to a task: drop it outside the lock.
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
