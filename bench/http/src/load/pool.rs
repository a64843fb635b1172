//! Persistent connections. Each connection is established when it is first needed, and again after
//! it has ended.

use std::sync::Arc;

use fathom_stacks::Endpoint;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::LoadContext;
use super::request::Failure;
use super::session::Session;

/// A fixed number of connections, established on demand.
pub(super) struct ConnectionPool<E: Endpoint> {
    slots: Vec<tokio::sync::Mutex<Option<Arc<Session<E>>>>>,
    /// Limits the number of concurrent handshakes.
    handshakes: Semaphore,
}

impl<E: Endpoint> ConnectionPool<E> {
    pub(super) fn new(connections: usize, handshakes: usize) -> Self {
        let slots = (0..connections).map(|_| tokio::sync::Mutex::new(None)).collect();
        Self { slots, handshakes: Semaphore::new(handshakes) }
    }

    /// Returns the connection with this index, and establishes it if necessary.
    pub(super) async fn session(
        &self,
        index: usize,
        context: &LoadContext<E>,
    ) -> Result<Arc<Session<E>>, Failure> {
        let mut slot = self.slots[index].lock().await;
        if let Some(session) = slot.as_ref().filter(|session| session.usable()) {
            return Ok(Arc::clone(session));
        }
        // This drop closes the ended connection once no request is open on it.
        *slot = None;
        // The semaphore is never closed, so `acquire` can only wait.
        let _turn = self.handshakes.acquire().await;
        let session = Arc::new(context.connect(index).await?);
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
    idle: Mutex<Vec<usize>>,
    room: Arc<Semaphore>,
}

/// Permission for one request on a connection.
pub(super) struct StreamPermit<E: Endpoint> {
    /// Index of the connection.
    pub(super) slot: usize,
    pub(super) pool: Arc<StreamPool<E>>,
    _room: OwnedSemaphorePermit,
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
            room: Arc::new(Semaphore::new(idle.len())),
            idle: Mutex::new(idle),
        }
    }

    /// Returns a stream slot if one is free now.
    pub(super) fn try_acquire_stream(self: &Arc<Self>) -> Option<StreamPermit<E>> {
        self.permit(Arc::clone(&self.room).try_acquire_owned().ok()?)
    }

    /// Returns a stream slot as soon as one is free. Waiting requests are served in order.
    pub(super) async fn acquire_stream(self: &Arc<Self>) -> Option<StreamPermit<E>> {
        self.permit(Arc::clone(&self.room).acquire_owned().await.ok()?)
    }

    fn permit(self: &Arc<Self>, room: OwnedSemaphorePermit) -> Option<StreamPermit<E>> {
        let slot = self.idle.lock().pop()?;
        Some(StreamPermit { slot, pool: Arc::clone(self), _room: room })
    }
}

impl<E: Endpoint> Drop for StreamPermit<E> {
    fn drop(&mut self) {
        // Return the index before the permit, so that each holder of a permit finds an index.
        self.pool.idle.lock().push(self.slot);
    }
}
