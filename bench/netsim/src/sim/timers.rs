//! Timers of the simulation.
//!
//! Stacks reset their timers on nearly every packet, mostly to later times. A reset to a later time
//! only records the deadline. The entry that is already in the event queue reschedules itself if it
//! comes up early.

use std::task::Waker;

use fathom_units::Time;

/// Identifier of a timer in the event queue. If a slot is reused, the generation shows that an old
/// entry meant the previous timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// A time later than any event.
pub(super) const NEVER: Time = Time::from_nanos(u64::MAX);

#[derive(Debug)]
pub(super) struct TimerState {
    pub(super) generation: u32,
    pub(super) deadline: Time,
    /// Time of the earliest live entry in the event queue; [`NEVER`] if there is none.
    pub(super) queued_at: Time,
    pub(super) waker: Option<Waker>,
}

/// All timers of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(super) slots: Vec<TimerState>,
    free: Vec<u32>,
}

impl Timers {
    /// Removes all waiting tasks. Returns their wakers, so that the caller can drop them outside
    /// the lock.
    pub(crate) fn clear(&mut self) -> Vec<Option<Waker>> {
        self.slots.iter_mut().map(|s| s.waker.take()).collect()
    }

    pub(super) fn open(&mut self, deadline: Time) -> TimerKey {
        if let Some(slot) = self.free.pop() {
            let s = &mut self.slots[slot as usize];
            s.deadline = deadline;
            s.queued_at = NEVER;
            return TimerKey { slot, generation: s.generation };
        }
        self.slots.push(TimerState { generation: 0, deadline, queued_at: NEVER, waker: None });
        TimerKey { slot: self.slots.len() as u32 - 1, generation: 0 }
    }

    pub(super) fn close(&mut self, key: TimerKey) -> Option<Waker> {
        let s = &mut self.slots[key.slot as usize];
        s.generation = s.generation.wrapping_add(1);
        self.free.push(key.slot);
        s.waker.take()
    }
}
