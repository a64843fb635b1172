//! An endpoint: one socket, and the connections behind it by connection ID.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use fathom_netsim::hash::StableHash;
use fathom_netsim::sim::{Received, SimHandle, SimSocket};
use parking_lot::{Mutex, MutexGuard};
use quiche::fathom::simulation::ConnectionRng;
use quiche::h3;

use super::connection::{Driver, Shared, Side, lock};

/// Length of the connection IDs that endpoints here choose, as quinn's.
const CID: usize = 8;
/// Datagrams taken from the socket at once.
const BATCH: usize = 16;
/// Longest datagram that is read.
const LONGEST: usize = 2048;
/// Connections an endpoint keeps at most; each has one or two identifiers.
const MOST: usize = 1 << 20;

/// A connection ID. A map of them is only looked up in, never walked, so that its order does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cid {
    bytes: [u8; quiche::MAX_CONN_ID_LEN],
    len: u8,
}

impl Cid {
    fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; quiche::MAX_CONN_ID_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, len: id.len() as u8 })
    }

    /// The identifier a packet is addressed to (RFC 8999 §5).
    fn addressed(packet: &[u8]) -> Option<Self> {
        let long = packet.first()? & 0x80 != 0;
        if long {
            Self::new(packet.get(6..6 + usize::from(*packet.get(5)?))?)
        } else {
            Self::new(packet.get(1..1 + CID)?)
        }
    }

    pub(super) fn id(&self) -> quiche::ConnectionId<'_> {
        quiche::ConnectionId::from_ref(&self.bytes[..usize::from(self.len)])
    }
}

/// A socket and its connections.
pub(super) struct Endpoint<S> {
    pub(super) sim: SimHandle,
    pub(super) socket: SimSocket,
    pub(super) http: h3::Config,
    seed: u64,
    numbers: AtomicU64,
    routes: Mutex<HashMap<Cid, Shared<S>>>,
}

impl<S: Side> Endpoint<S> {
    pub(super) fn new(sim: SimHandle, socket: SimSocket, http: h3::Config, seed: [u8; 32]) -> Arc<Self> {
        let mut hash = StableHash::default();
        seed.as_chunks().0.iter().for_each(|word| hash.add(u64::from_le_bytes(*word)));
        let (numbers, routes) = (AtomicU64::default(), Mutex::default());
        Arc::new(Self { sim, socket, http, seed: hash.value(), numbers, routes })
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<Cid, Shared<S>>> {
        self.routes.lock()
    }

    /// The connection ID and the rng of the next connection: functions of the seed and its number. The hash's last step is one to one,
    /// so no two connections share an ID.
    pub(super) fn next(&self) -> (Cid, ConnectionRng) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut hash = StableHash::default();
        hash.add(self.seed);
        hash.add(number);
        let id = hash.value();
        hash.add(1);
        (Cid::new(&id.to_le_bytes()).expect("eight bytes fit"), ConnectionRng::new(hash.value()))
    }

    /// There is room for another connection.
    pub(super) fn has_room(&self) -> bool {
        self.routes().len() < MOST
    }

    /// Routes packets to a connection and starts its driver.
    pub(super) fn adopt(self: &Arc<Self>, connection: &Shared<S>) {
        for cid in &lock(connection).cids {
            self.routes().insert(*cid, Arc::clone(connection));
        }
        self.sim.spawn(Driver::new(Arc::clone(connection), Arc::clone(self)));
    }

    /// A connection is closed.
    pub(super) fn forget(&self, cids: &[Cid]) {
        let mut routes = self.routes();
        for cid in cids {
            routes.remove(cid);
        }
    }

    /// Feeds connections what the socket receives, for ever. `accept` makes a connection of a packet that belongs to none.
    pub(super) async fn receive(
        self: Arc<Self>,
        accept: impl Fn(Cid, &mut [u8], &Received) -> Option<Shared<S>> + Send,
    ) {
        let mut buffers = vec![[0; LONGEST]; BATCH];
        let mut received = Vec::with_capacity(BATCH);
        poll_fn(|cx| {
            while self
                .socket
                .receive(BATCH, cx.waker(), |i, bytes, r| {
                    let len = r.len.min(LONGEST);
                    buffers[i][..len].copy_from_slice(&bytes[..len]);
                    received.push(Received { len, ..r });
                })
                .is_some()
            {
                for (buffer, r) in buffers.iter_mut().zip(received.drain(..)) {
                    self.route(&mut buffer[..r.len], &r, &accept);
                }
            }
            Poll::<()>::Pending
        })
        .await;
    }

    fn route(&self, packet: &mut [u8], r: &Received, accept: impl Fn(Cid, &mut [u8], &Received) -> Option<Shared<S>>) {
        let Some(cid) = Cid::addressed(packet) else { return };
        let known = self.routes().get(&cid).cloned();
        let Some(connection) = known.or_else(|| accept(cid, packet, r)) else { return };
        lock(&connection).receive(&self.sim, packet, self.socket.recv_info(r), r.ecn);
    }
}
