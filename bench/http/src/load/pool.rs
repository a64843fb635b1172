//! Persistent connections. Each connection is established when it is first needed, and again after
//! it has ended.

use std::sync::Arc;

use fathom_stacks::Endpoint;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use super::context::LoadContext;
use super::request::Failure;
use super::session::Session;

/// A fixed number of connections, established on demand.
pub(super) struct ConnectionPool<E: Endpoint> {
    slots: Vec<Mutex<Option<Arc<Session<E>>>>>,
    /// Limits the number of concurrent handshakes.
    handshakes: Semaphore,
}

impl<E: Endpoint> ConnectionPool<E> {
    pub(super) fn new(connections: usize, handshakes: usize) -> Self {
        let slots = (0..connections).map(|_| Mutex::new(None)).collect();
        Self { slots, handshakes: Semaphore::new(handshakes) }
    }

    /// Returns the connection with this index, and establishes it if necessary.
    pub(super) async fn session(
        &self,
        slot: usize,
        context: &LoadContext<E>,
    ) -> Result<Arc<Session<E>>, Failure> {
        let mut slot = self.slots[slot].lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.usable()) {
            return Ok(Arc::clone(session));
        }
        // This drop closes the ended connection once no request is open on it.
        *slot = None;
        // The semaphore is never closed, so `acquire` can only wait.
        let _turn = self.handshakes.acquire().await;
        let session = Arc::new(context.connect().await?);
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }
}

/// Assigns stream slots on pooled connections. The slot used last is assigned first, so that the
/// load uses as few connections as it needs.
pub(super) struct StreamPool<E: Endpoint> {
    pub(super) connections: ConnectionPool<E>,
    /// Indices of connections with free slots. An index occurs once for each request that the
    /// connection can take.
    idle: std::sync::Mutex<Vec<usize>>,
    room: Semaphore,
}

/// Permission for one request on a connection.
pub(super) struct StreamPermit<'a> {
    pub(super) slot: usize,
    idle: &'a std::sync::Mutex<Vec<usize>>,
    _room: SemaphorePermit<'a>,
}

impl<E: Endpoint> StreamPool<E> {
    pub(super) fn new(connections: usize, streams: usize) -> Self {
        // Slots are taken from the end, so each connection gets one request before any connection
        // gets a second one.
        let mut idle: Vec<usize> = (0..streams).flat_map(|_| 0..connections).collect();
        idle.reverse();
        // Each request waits only for its own handshake.
        Self {
            connections: ConnectionPool::new(connections, connections),
            room: Semaphore::new(idle.len()),
            idle: std::sync::Mutex::new(idle),
        }
    }

    /// Returns a stream slot if one is free now.
    pub(super) fn try_acquire_stream(&self) -> Option<StreamPermit<'_>> {
        self.permit(self.room.try_acquire().ok()?)
    }

    /// Returns a stream slot as soon as one is free. Waiting requests are served in order.
    pub(super) async fn acquire_stream(&self) -> Option<StreamPermit<'_>> {
        self.permit(self.room.acquire().await.ok()?)
    }

    fn permit<'a>(&'a self, room: SemaphorePermit<'a>) -> Option<StreamPermit<'a>> {
        let slot = self.idle.lock().ok()?.pop()?;
        Some(StreamPermit { slot, idle: &self.idle, _room: room })
    }
}

impl Drop for StreamPermit<'_> {
    fn drop(&mut self) {
        // Return the index before the permit, so that each holder of a permit finds an index.
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(self.slot);
        }
    }
}
