//! Priorities that a client gives to the responses of its connection (RFC 9218).

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use fathom_http3::priority::Priority;
use parking_lot::Mutex;

/// Largest number of updates that are kept for requests that have not arrived. Updates for requests
/// that are over are kept, too, until newer ones replace them.
const UPDATES: usize = 64;

/// Priorities of a connection's responses. Without any `priority` field and PRIORITY_UPDATE frame,
/// responses share the connection equally.
#[derive(Debug, Default)]
pub(super) struct Priorities {
    /// Whether the client has sent a priority.
    used: AtomicBool,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    /// Streams and their new priorities, in the order of arrival.
    updates: Vec<(u64, Priority)>,
    /// Tasks of responses that wait for the client.
    waiting: Vec<(u64, Waker)>,
}

impl Priorities {
    /// Handles a PRIORITY_UPDATE frame. Only the last one of each stream matters.
    pub(super) fn update(&self, stream: u64, priority: Priority) {
        self.used.store(true, Ordering::Relaxed);
        let mut changes = self.changes.lock();
        changes.updates.retain(|(before, _)| *before != stream);
        if changes.updates.len() >= UPDATES {
            changes.updates.remove(0);
        }
        changes.updates.push((stream, priority));
        if let Some((_, waker)) = changes.waiting.iter().find(|(waiting, _)| *waiting == stream) {
            waker.wake_by_ref();
        }
    }

    /// Returns the priority of a response to a request on this stream with this `priority` field.
    pub(super) fn of(&self, stream: u64, field: Option<&[u8]>) -> ResponsePriority<'_> {
        if field.is_some() {
            self.used.store(true, Ordering::Relaxed);
        }
        let requested = field.map(|value| Priority::parse(value).unwrap_or_default());
        ResponsePriority { of: self, stream, requested, current: None, waits: false }
    }
}

/// Priority of one response.
#[derive(Debug)]
pub(super) struct ResponsePriority<'a> {
    of: &'a Priorities,
    stream: u64,
    requested: Option<Priority>,
    current: Option<Priority>,
    /// Whether the task of the response is woken when its priority changes.
    waits: bool,
}

impl ResponsePriority<'_> {
    /// Returns the priority if it has changed since the last call.
    pub(super) fn changed(&mut self) -> Option<Priority> {
        // Most clients send no priorities.
        if self.of.used.load(Ordering::Relaxed) { self.look_up() } else { None }
    }

    fn look_up(&mut self) -> Option<Priority> {
        let updated = {
            let updates = &mut self.of.changes.lock().updates;
            let found = updates.iter().position(|(stream, _)| *stream == self.stream);
            found.map(|at| updates.remove(at).1)
        };
        // An update overrides the field (RFC 9218 §7).
        let now = updated.or(self.current).or(self.requested).unwrap_or_default();
        let changed = self.current != Some(now);
        self.current = Some(now);
        changed.then_some(now)
    }

    /// Wakes this task when the priority changes.
    pub(super) fn wake(&mut self, task: &Waker) {
        if !self.waits && self.of.used.load(Ordering::Relaxed) {
            self.waits = true;
            self.of.changes.lock().waiting.push((self.stream, task.clone()));
        }
    }
}

impl Drop for ResponsePriority<'_> {
    fn drop(&mut self) {
        if self.waits {
            let waiting = &mut self.of.changes.lock().waiting;
            waiting.retain(|(stream, _)| *stream != self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn priority(urgency: u8, incremental: bool) -> Option<Priority> {
        Some(Priority { urgency, incremental })
    }

    #[test]
    fn responses_have_no_priority_until_the_client_sends_one() {
        let priorities = Priorities::default();
        let mut first = priorities.of(0, None);
        assert_eq!(first.changed(), None);
        let mut second = priorities.of(4, Some(b"u=1, i"));
        assert_eq!((second.changed(), second.changed()), (priority(1, true), None));
        // The first response now has the default priority.
        assert_eq!((first.changed(), first.changed()), (priority(3, false), None));
        assert_eq!(priorities.of(8, Some(b"?")).changed(), priority(3, false));
    }

    #[test]
    fn updates_override_fields_in_any_order() {
        let priorities = Priorities::default();
        let mut before = priorities.of(0, Some(b"u=5"));
        assert_eq!(before.changed(), priority(5, false));
        for (stream, urgency) in [(0, 6), (0, 2), (4, 7)] {
            priorities.update(stream, Priority { urgency, incremental: false });
        }
        assert_eq!((before.changed(), before.changed()), (priority(2, false), None));
        let mut after = priorities.of(4, Some(b"u=0"));
        assert_eq!((after.changed(), after.changed()), (priority(7, false), None));
    }

    #[test]
    fn updates_of_unknown_requests_are_bounded() {
        let priorities = Priorities::default();
        for stream in 0..1_000 {
            priorities.update(4 * stream, Priority::default());
        }
        assert_eq!(priorities.changes.lock().updates.len(), UPDATES);
    }
}
