//! The event queue of the simulation: a calendar queue.
//!
//! With a single heap of tens of thousands of events, each operation takes a few cache misses,
//! which is a fifth of the CPU time of a 2.5 Gbps run. Here, the next second is divided into days
//! (buckets). The events of a day are stored unsorted and sorted when the day begins. Later events
//! wait in a heap and move to their day once it is near.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fathom_units::Time;

/// Length of a day as a power of two: 2^17 ns (0.13 ms). A day has about 80 events at 2.5 Gbps, and
/// mostly none at 10 Mbps.
const DAY: u32 = 17;
/// Number of near days. They cover 1.07 s, longer than most timers that expire.
const NEAR: usize = 8_192;
const WORD: usize = u64::BITS as usize;

/// An entry of the queue: time, sequence number, event.
type Entry<E> = (Time, u64, E);

/// Returns the day to which a time belongs.
const fn day_of(at: Time) -> u64 {
    at.as_nanos() >> DAY
}

/// Events ordered by time. Events of the same time keep the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    entered: u64,
    /// Number of the current day. Its events are due before the events of all other days.
    day: u64,
    /// Events of the current day, sorted with the latest first.
    today: Vec<Entry<E>>,
    /// Events of the near days after the current one. The index of a day is its number modulo
    /// [`NEAR`].
    near: Vec<Vec<Entry<E>>>,
    /// Bit set of the near days with events.
    busy: Vec<u64>,
    /// Events of later days.
    later: BinaryHeap<Reverse<Entry<E>>>,
    /// Storage of past days, kept for reuse.
    spare: Vec<Vec<Entry<E>>>,
}

impl<E: Ord> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self {
            entered: 0,
            day: 0,
            today: Vec::new(),
            near: (0..NEAR).map(|_| Vec::new()).collect(),
            busy: vec![0; NEAR / WORD],
            later: BinaryHeap::new(),
            spare: Vec::new(),
        }
    }

    /// Adds an event at `at`.
    pub(crate) fn push(&mut self, at: Time, event: E) {
        self.entered += 1;
        let entry = (at, self.entered, event);
        let day = day_of(at);
        if day <= self.day {
            let place = self.today.partition_point(|other| *other > entry);
            self.today.insert(place, entry);
        } else if day - self.day < NEAR as u64 {
            self.put_near(entry);
        } else {
            self.later.push(Reverse(entry));
        }
    }

    /// Returns the time of the next event.
    pub(crate) fn next_time(&mut self) -> Option<Time> {
        if self.today.is_empty() {
            self.turn();
        }
        self.today.last().map(|(at, ..)| *at)
    }

    /// Removes the next event.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        self.next_time()?;
        self.today.pop().map(|(at, _, event)| (at, event))
    }

    fn put_near(&mut self, entry: Entry<E>) {
        let place = day_of(entry.0) as usize % NEAR;
        let events = &mut self.near[place];
        if events.is_empty() {
            self.busy[place / WORD] |= 1 << (place % WORD);
            if events.capacity() == 0 {
                *events = self.spare.pop().unwrap_or_default();
            }
        }
        events.push(entry);
    }

    /// Begins the next day if all events of the current one are removed, and returns its events.
    /// Returns `None` if the current day goes on.
    pub(crate) fn new_day(&mut self) -> Option<impl Iterator<Item = &E>> {
        if !self.today.is_empty() {
            return None;
        }
        self.turn();
        Some(self.today.iter().map(|(.., event)| event))
    }

    /// Advances to the next day that has events.
    fn turn(&mut self) {
        if let Some(ahead) = self.ahead() {
            self.day += ahead;
            let place = self.day as usize % NEAR;
            self.busy[place / WORD] &= !(1 << (place % WORD));
            let over = std::mem::replace(&mut self.today, std::mem::take(&mut self.near[place]));
            self.spare.push(over);
        } else if let Some(Reverse((at, ..))) = self.later.peek() {
            self.day = day_of(*at);
        } else {
            return;
        }
        while let Some(Reverse((at, ..))) = self.later.peek() {
            let day = day_of(*at);
            if day >= self.day + NEAR as u64 {
                break;
            }
            let Some(Reverse(entry)) = self.later.pop() else { break };
            if day == self.day {
                self.today.push(entry);
            } else {
                self.put_near(entry);
            }
        }
        self.today.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Returns the number of days until the next near day with events.
    fn ahead(&self) -> Option<u64> {
        let from = (self.day as usize + 1) % NEAR;
        // The word in which the search begins is examined twice: first from the starting bit on,
        // and at the end before this bit.
        let words = (0..=NEAR / WORD).map(|n| {
            let word = (from / WORD + n) % (NEAR / WORD);
            let bits = self.busy[word];
            let split = from % WORD;
            let mask = match n {
                0 => !0 << split,
                _ if n == NEAR / WORD => !(!0 << split),
                _ => !0,
            };
            (word, bits & mask)
        });
        let (word, bits) = words.into_iter().find(|(_, bits)| *bits != 0)?;
        let place = word * WORD + bits.trailing_zeros() as usize;
        Some(((place + NEAR - from) % NEAR) as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Runs the same operations on this queue and a heap: the next event is removed, and others are
    /// added at its time or later.
    fn same_as_a_heap(steps: &[(u8, u64)]) -> Result<(), TestCaseError> {
        let (mut queue, mut heap, mut now) = (EventQueue::new(), BinaryHeap::new(), Time::ZERO);
        for (n, (kind, delay)) in steps.iter().enumerate() {
            if kind % 3 == 0 {
                let expected: Option<Reverse<(Time, usize)>> = heap.pop();
                let expected = expected.map(|Reverse(e)| e);
                prop_assert_eq!(queue.next_time(), expected.map(|(at, _)| at));
                prop_assert_eq!(queue.pop(), expected);
                now = expected.map_or(now, |(at, _)| at);
            } else {
                // Some delays are zero, some short, some near the edge of the near days, some far
                // beyond it.
                let edge = (NEAR as u64) << DAY;
                let delay = match kind / 3 % 5 {
                    0 => 0,
                    1 => delay % (3 << DAY),
                    2 => edge - (2 << DAY) + delay % (4 << DAY),
                    3 => delay % (5 * edge),
                    _ => delay % edge,
                };
                let at = now + Duration::from_nanos(delay);
                queue.push(at, n);
                heap.push(Reverse((at, n)));
            }
        }
        while let Some(Reverse(expected)) = heap.pop() {
            prop_assert_eq!(queue.pop(), Some(expected));
        }
        prop_assert_eq!(queue.pop(), None);
        Ok(())
    }

    proptest! {
        #[test]
        fn event_queue_returns_events_in_the_order_of_a_heap(steps in prop::collection::vec((any::<u8>(), any::<u64>()), 0..2_000)) {
            same_as_a_heap(&steps)?;
        }
    }

    #[test]
    fn event_queue_accepts_an_earlier_event_after_a_peek() {
        let mut queue = EventQueue::new();
        let ms = Time::from_millis;
        queue.push(ms(900), 'c');
        assert_eq!(queue.next_time(), Some(ms(900)));
        queue.push(ms(5_000), 'd');
        queue.push(ms(200), 'a');
        queue.push(ms(200), 'b');
        assert_eq!(std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect::<String>(), "abcd");
        assert_eq!(queue.next_time(), None);
    }
}
