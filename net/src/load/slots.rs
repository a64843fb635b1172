//! Connections that are kept: each is made when it is first needed, and again when it has ended.

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use super::books::Failure;
use super::dialer::Dialer;
use super::session::Session;
use super::shared::Shared;

/// So many connections.
pub(super) struct Slots<D: Dialer> {
    slots: Vec<Mutex<Option<Arc<Session<D>>>>>,
    /// Handshakes at once.
    handshakes: Semaphore,
}

impl<D: Dialer> Slots<D> {
    pub(super) fn new(connections: usize, handshakes: usize) -> Self {
        let slots = (0..connections).map(|_| Mutex::new(None)).collect();
        Self { slots, handshakes: Semaphore::new(handshakes) }
    }

    /// The connection of this number.
    pub(super) async fn session(&self, slot: usize, shared: &Shared<D>) -> Result<Arc<Session<D>>, Failure> {
        let mut slot = self.slots[slot].lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.usable()) {
            return Ok(Arc::clone(session));
        }
        // Closes the one that has ended, once nothing is open on it.
        *slot = None;
        // It is never closed: this only waits.
        let _turn = self.handshakes.acquire().await;
        let session = Arc::new(shared.connect().await?);
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }
}

/// Connections that requests borrow: the one used last first, so that there are as few as the load needs.
pub(super) struct Pool<D: Dialer> {
    pub(super) slots: Slots<D>,
    /// Numbers of connections with room, once for each request that they may take.
    idle: std::sync::Mutex<Vec<usize>>,
    room: Semaphore,
}

/// Room for one request on a connection.
pub(super) struct Place<'a> {
    pub(super) slot: usize,
    idle: &'a std::sync::Mutex<Vec<usize>>,
    _room: SemaphorePermit<'a>,
}

impl<D: Dialer> Pool<D> {
    pub(super) fn new(connections: usize, streams: usize) -> Self {
        // What is taken first is at the end: one request on each connection before a second one on any.
        let mut idle: Vec<usize> = (0..streams).flat_map(|_| 0..connections).collect();
        idle.reverse();
        // Requests wait for no handshake but their own.
        Self {
            slots: Slots::new(connections, connections),
            room: Semaphore::new(idle.len()),
            idle: std::sync::Mutex::new(idle),
        }
    }

    /// Room, if there is some now.
    pub(super) fn try_place(&self) -> Option<Place<'_>> {
        self.place(self.room.try_acquire().ok()?)
    }

    /// Room; those who wait get it in turn.
    pub(super) async fn wait(&self) -> Option<Place<'_>> {
        self.place(self.room.acquire().await.ok()?)
    }

    fn place<'a>(&'a self, room: SemaphorePermit<'a>) -> Option<Place<'a>> {
        let slot = self.idle.lock().ok()?.pop()?;
        Some(Place { slot, idle: &self.idle, _room: room })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Before the permit goes back: who has a permit finds a number.
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(self.slot);
        }
    }
}
