//! Limits the number of simultaneous requests at the upstream server, in total and per client.
//!
//! Slots are shared like memory (`server/memory_budget.rs`). A client prefix may hold as many slots
//! as are free, but at most a quarter of all slots. If n clients all want more slots, each gets one
//! of n + 1 equal parts, and one such part stays free for the next client. A client may hold more
//! than an equal part if there were fewer clients before. If other clients have waited for a while,
//! such a client must give slots back, so its slowest responses end.
//!
//! A response whose client reads slowly holds its slot for long. While few slots are free, each
//! single response must make progress (`upstream_body.rs`).

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

/// Divisor that defines scarcity: slots are scarce while fewer than one in this many is free.
const SCARCE: usize = 4;

/// The slots of a server.
#[derive(Debug)]
pub(super) struct Slots {
    all: usize,
    /// Maximum number of slots of one client prefix.
    each: usize,
    /// Wait after which other clients must give back slots beyond their part to a waiting client.
    /// They keep the slots of requests that began within this time.
    grace: Duration,
    /// Time for which a slot stays occupied after its client has aborted a request at the upstream
    /// server. An aborted request costs a connection.
    cooldown: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Clients that hold a slot or wait for a slot.
    clients: HashMap<IpAddr, ClientSlots>,
    /// Number of requests that have asked for a slot so far. It determines the turn of a request.
    turns: u64,
}

#[derive(Debug, Default)]
struct ClientSlots {
    held: Vec<Arc<Hold>>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    turn: u64,
    grant: oneshot::Sender<Slot>,
}

/// State of a request that holds a slot.
#[derive(Debug)]
pub(super) struct Hold {
    since: Instant,
    /// Bytes that the client has taken.
    moved: AtomicU64,
    /// Whether the response has begun. From then on, the client determines how long the response
    /// takes.
    streams: AtomicBool,
    evicted: AtomicBool,
    told: Notify,
}

impl Hold {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            moved: AtomicU64::new(0),
            streams: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            told: Notify::new(),
        })
    }

    /// Returns the order in which slots are taken back: responses come before requests that wait
    /// for the upstream server, and the slowest response comes first.
    fn order(&self, now: Instant) -> (Reverse<bool>, u64) {
        let held = now.saturating_duration_since(self.since).as_secs_f64().max(1e-3);
        let rate = self.moved.load(Ordering::Relaxed) as f64 / held;
        (Reverse(self.streams.load(Ordering::Relaxed)), rate as u64)
    }

    fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        self.told.notify_waiters();
        self.told.notify_one();
    }
}

/// Slot of a request. Dropping it gives the slot back.
#[derive(Debug)]
pub(super) struct Slot {
    of: Arc<Slots>,
    client: IpAddr,
    hold: Arc<Hold>,
    begun: AtomicBool,
}

impl Slot {
    /// Resolves when the slot is taken back.
    pub(super) async fn evicted(&self) {
        evicted(&self.hold).await;
    }

    /// Records that the response has begun.
    pub(super) fn streams(&self) {
        self.hold.streams.store(true, Ordering::Relaxed);
    }

    /// Records that the client has taken this many bytes.
    pub(super) fn moved(&self, bytes: u64) {
        self.hold.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns whether few slots are free.
    pub(super) fn is_scarce(&self) -> bool {
        self.of.state.lock().free < self.of.all.div_ceil(SCARCE)
    }

    /// Records that the request is on a connection. From now on, aborting the request costs a
    /// connection.
    pub(super) fn begun(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Records that the response is over or that the proxy gave up the response.
    pub(super) fn settled(&self) {
        self.begun.store(false, Ordering::Relaxed);
    }

    /// Keeps the slot a little longer, unless other clients need it. Returns whether the slot is
    /// kept.
    fn cool_down(&self) -> bool {
        let (of, client, hold) = (Arc::clone(&self.of), self.client, Arc::clone(&self.hold));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return false };
        if of.cooldown.is_zero() {
            return false;
        }
        let slot = Self { of, client, hold, begun: AtomicBool::new(false) };
        runtime.spawn(async move {
            let _ = timeout(slot.of.cooldown, slot.evicted()).await;
        });
        true
    }
}

async fn evicted(hold: &Hold) {
    loop {
        let told = hold.told.notified();
        if hold.evicted.load(Ordering::Relaxed) {
            return;
        }
        told.await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.begun.load(Ordering::Relaxed) && self.cool_down() {
            return;
        }
        let mut state = self.of.state.lock();
        if let Some(client) = state.clients.get_mut(&self.client) {
            client.held.retain(|hold| !Arc::ptr_eq(hold, &self.hold));
            if client.held.is_empty() && client.waiting.is_empty() {
                state.clients.remove(&self.client);
            }
        }
        state.free += 1;
        let grants = self.of.grants(&mut state);
        drop(state);
        send(grants);
    }
}

type Grant = (oneshot::Sender<Slot>, Slot);

/// Hands slots to waiting requests. If a request is gone, its slot goes to the next request.
fn send(grants: Vec<Grant>) {
    for (to, slot) in grants {
        // If the receiver is gone, the slot is dropped here and granted to another request.
        let _ = to.send(slot);
    }
}

impl Slots {
    /// Returns this many slots for all clients. `grace` and `cooldown` are the fields of [`Slots`].
    pub(super) fn new(all: usize, grace: Duration, cooldown: Duration) -> Arc<Self> {
        let all = all.max(1);
        let state = State { free: all, clients: HashMap::new(), turns: 0 };
        Arc::new(Self { all, each: (all / 4).max(1), grace, cooldown, state: Mutex::new(state) })
    }

    /// Takes a slot for a request of this client prefix as soon as a slot is free. The client with
    /// the fewest slots is served first, and the requests of each client are served in order.
    pub(super) async fn take(self: &Arc<Self>, client: IpAddr) -> Option<Slot> {
        let (grant, granted) = oneshot::channel();
        let mut place = Place { slots: self, client, granted };
        let grants = {
            let mut state = self.state.lock();
            state.turns += 1;
            let turn = state.turns;
            state.clients.entry(client).or_default().waiting.push_back(Waiting { turn, grant });
            self.grants(&mut state)
        };
        send(grants);
        loop {
            match timeout(self.grace, &mut place.granted).await {
                Ok(slot) => return slot.ok(),
                Err(_) => self.take_back(client),
            }
        }
    }

    /// Returns the slots that can be granted now.
    fn grants(self: &Arc<Self>, state: &mut State) -> Vec<Grant> {
        let mut grants = Vec::new();
        while state.free > 0 {
            let most = self.each.min(state.free);
            let next = state.clients.iter_mut().filter_map(|(client, slots)| {
                while slots.waiting.front().is_some_and(|waiting| waiting.grant.is_closed()) {
                    slots.waiting.pop_front();
                }
                let turn = slots.waiting.front()?.turn;
                (slots.held.len() < most).then_some((slots.held.len(), turn, *client))
            });
            let Some((_, _, client)) = next.min() else { break };
            let Some(slots) = state.clients.get_mut(&client) else { break };
            let Some(waiting) = slots.waiting.pop_front() else { break };
            let hold = Hold::new();
            slots.held.push(Arc::clone(&hold));
            state.free -= 1;
            grants.push((
                waiting.grant,
                Slot { of: Arc::clone(self), client, hold, begun: AtomicBool::new(false) },
            ));
        }
        grants
    }

    /// Takes a slot back for a waiting client if this client has less than an equal part and some
    /// other client has more.
    fn take_back(&self, client: IpAddr) {
        let state = self.state.lock();
        let part = (self.all / state.clients.len().max(1)).max(1);
        let has = state.clients.get(&client).map_or(0, |slots| slots.held.len());
        if has >= part {
            return;
        }
        let now = Instant::now();
        // Slots that are being taken back do not count.
        let kept = |slots: &ClientSlots| {
            slots.held.iter().filter(|h| !h.evicted.load(Ordering::Relaxed)).count()
        };
        let most = state.clients.values().max_by_key(|slots| kept(slots));
        let Some(most) = most.filter(|slots| kept(slots) > part) else { return };
        let old = |hold: &&Arc<Hold>| {
            !hold.evicted.load(Ordering::Relaxed)
                && now.saturating_duration_since(hold.since) >= self.grace
        };
        if let Some(slowest) = most.held.iter().filter(old).min_by_key(|hold| hold.order(now)) {
            slowest.evict();
        }
    }
}

/// Position of a request in the queue.
struct Place<'a> {
    slots: &'a Slots,
    client: IpAddr,
    granted: oneshot::Receiver<Slot>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // If a slot is granted in the meantime, dropping the receiver gives the slot back.
        self.granted.close();
        let mut state = self.slots.state.lock();
        if let Some(slots) = state.clients.get_mut(&self.client) {
            slots.waiting.retain(|waiting| !waiting.grant.is_closed());
            if slots.held.is_empty() && slots.waiting.is_empty() {
                state.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Returns the output of a future that is ready at once.
    fn now<T>(what: impl Future<Output = T>) -> Option<T> {
        // Bypass tokio's budget, which limits a task's work before others get their turn.
        match pin!(tokio::task::unconstrained(what)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    const GRACE: Duration = Duration::from_millis(50);

    fn client(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    fn is_evicted(slot: &Slot) -> bool {
        slot.hold.evicted.load(Ordering::Relaxed)
    }

    /// Waits for a slot that must not be granted, until `slot` is taken back.
    async fn until_evicted(slots: &Arc<Slots>, of: IpAddr, slot: &Slot) {
        let waited = async {
            tokio::select! {
                _ = slots.take(of) => panic!("there is none"),
                () = slot.evicted() => {}
            }
        };
        timeout(Duration::from_secs(120), waited).await.unwrap();
    }

    #[tokio::test]
    async fn one_client_cannot_take_all_proxy_slots() {
        let slots = Slots::new(8, GRACE, GRACE);
        let mut held: Vec<Slot> =
            (0..2).map(|_| now(slots.take(client(1))).unwrap().unwrap()).collect();
        assert!(now(slots.take(client(1))).is_none(), "a third waits");
        held.push(now(slots.take(client(2))).unwrap().unwrap());
        held.remove(0);
        held.push(now(slots.take(client(1))).unwrap().unwrap());
        drop(held);
        let state = slots.state.lock();
        assert!(state.clients.is_empty());
        assert_eq!(state.free, 8);
    }

    #[tokio::test]
    async fn all_clients_together_cannot_exceed_the_proxy_slots() {
        let slots = Slots::new(4, GRACE, GRACE);
        let held: Vec<Slot> =
            (0..4).map(|n| now(slots.take(client(n))).unwrap().unwrap()).collect();
        assert!(now(slots.take(client(9))).is_none());
        drop(held);
        assert!(now(slots.take(client(9))).is_some());
    }

    #[tokio::test]
    async fn greedy_clients_leave_an_equal_share_of_slots_for_others() {
        let slots = Slots::new(512, GRACE, GRACE);
        let mut held = Vec::new();
        // Four clients take turns, and each takes all slots that it gets. In this way, four
        // addresses once held all slots.
        for _ in 0..600 {
            for n in 1..=4 {
                held.extend(now(slots.take(client(n))).flatten());
            }
        }
        let of = |n| slots.state.lock().clients[&client(n)].held.len();
        for n in 1..=4 {
            assert!((100..=104).contains(&of(n)), "{}", of(n));
        }
        let newcomer: Vec<_> = (0..50).map_while(|_| now(slots.take(client(5)))).collect();
        assert_eq!(newcomer.len(), 50, "without a wait");
    }

    #[tokio::test]
    async fn waiting_client_gets_slowest_slot_of_a_client_with_more() {
        let slots = Slots::new(16, GRACE, GRACE);
        let take = |n| now(slots.take(client(n))).flatten().unwrap();
        let mut held: Vec<Slot> = (0..4).map(|_| take(1)).collect();
        held.iter().for_each(Slot::streams);
        for (n, slot) in held.iter().enumerate() {
            slot.moved([9_000, 100, 5_000, 7_000][n]);
        }
        // Other clients take the rest, one slot each.
        let others: Vec<Slot> = (2..14).map(take).collect();
        assert!(
            now(slots.take(client(20))).is_none() && !held.iter().any(is_evicted),
            "nothing is taken back at once"
        );
        until_evicted(&slots, client(20), &held[1]).await;
        for (n, slot) in held.iter().enumerate() {
            assert_eq!(is_evicted(slot), n == 1, "{n}");
        }
        assert!(!others.iter().any(is_evicted), "an equal part");
        held.remove(1);
        assert!(now(slots.take(client(20))).flatten().is_some());
    }

    #[tokio::test]
    async fn requests_waiting_for_the_upstream_are_evicted_last() {
        let slots = Slots::new(8, GRACE, GRACE);
        let take = |n| now(slots.take(client(n))).flatten().unwrap();
        let (asked, read) = (take(1), take(1));
        read.streams();
        read.moved(1_000_000);
        let _others: Vec<Slot> = (2..8).map(take).collect();
        until_evicted(&slots, client(20), &read).await;
        assert!(!is_evicted(&asked));
    }

    #[tokio::test]
    async fn slot_of_an_aborted_request_is_kept_for_a_grace_period() {
        let slots = Slots::new(4, GRACE, GRACE);
        now(slots.take(client(1))).flatten().unwrap().begun();
        assert!(now(slots.take(client(1))).is_none());
        assert!(timeout(Duration::from_secs(120), slots.take(client(1))).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn request_abandoned_while_waiting_leaks_no_slot() {
        let slots = Slots::new(1, GRACE, GRACE);
        let held = now(slots.take(client(1))).flatten().unwrap();
        assert!(now(slots.take(client(2))).is_none());
        {
            let mut waiting = pin!(slots.take(client(3)));
            assert!(now(waiting.as_mut()).is_none());
            // The slot is granted but the future is never polled again.
            drop(held);
        }
        assert!(now(slots.take(client(4))).flatten().is_some());
        assert!(slots.state.lock().clients.is_empty());
    }
}
