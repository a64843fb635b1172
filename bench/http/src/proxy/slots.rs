//! How many requests may be with the upstream server at once: of all clients, and of each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of a server.
#[derive(Debug)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    /// Of one client prefix at most.
    each: usize,
    clients: Mutex<HashMap<IpAddr, ClientSlots>>,
}

#[derive(Debug)]
struct ClientSlots {
    slots: Arc<Semaphore>,
    /// Requests that have one, or wait for one.
    users: usize,
}

/// A request's slot, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _all: OwnedSemaphorePermit,
    _client: ClientSlot,
}

#[derive(Debug)]
struct ClientSlot {
    of: Arc<Slots>,
    client: IpAddr,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut clients = self.of.clients.lock();
        if let Some(slots) = clients.get_mut(&self.client) {
            slots.users -= 1;
            if slots.users == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

impl Slots {
    /// So many of all clients, a quarter of them of each: who takes all that one may have leaves others most of them.
    pub(super) fn new(all: usize) -> Arc<Self> {
        let all = all.max(1);
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), each: (all / 4).max(1), clients: Mutex::default() })
    }

    /// A slot for a request of this client prefix, as soon as there is one. Who waits is served in turn.
    pub(super) async fn take(self: &Arc<Self>, client: IpAddr) -> Option<Slot> {
        let slots = {
            let mut clients = self.clients.lock();
            let entry = clients
                .entry(client)
                .or_insert_with(|| ClientSlots { slots: Arc::new(Semaphore::new(self.each)), users: 0 });
            entry.users += 1;
            Arc::clone(&entry.slots)
        };
        // From here on the client is given back, also where this future is dropped while it waits.
        let mut of_client = ClientSlot { of: Arc::clone(self), client, permit: None };
        of_client.permit = Some(slots.acquire_owned().await.ok()?);
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot { _all: all, _client: of_client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// What it gets at once.
    fn now<T>(what: impl Future<Output = T>) -> Option<T> {
        match pin!(what).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_client_leaves_slots_to_others() {
        let slots = Slots::new(8);
        let (ours, others): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut held: Vec<Slot> = (0..2).map(|_| now(slots.take(ours)).unwrap().unwrap()).collect();
        assert!(now(slots.take(ours)).is_none(), "a third waits");
        held.push(now(slots.take(others)).unwrap().unwrap());
        held.remove(0);
        held.push(now(slots.take(ours)).unwrap().unwrap());
        drop(held);
        assert!(slots.clients.lock().is_empty());
        assert_eq!(slots.all.available_permits(), 8);
    }

    #[test]
    fn all_clients_together_are_bounded() {
        let slots = Slots::new(4);
        let client = |n: u8| IpAddr::from([192, 0, 2, n]);
        let held: Vec<Slot> = (0..4).map(|n| now(slots.take(client(n))).unwrap().unwrap()).collect();
        assert!(now(slots.take(client(9))).is_none());
        drop(held);
        assert!(now(slots.take(client(9))).is_some());
    }
}
