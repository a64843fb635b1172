//! TCP connections whose ends are held by tasks. Tasks open connections, write to them and wait for
//! data, as with requests and responses over real stacks.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use fathom_cc::{ControllerMetrics, Time};
use fathom_netsim::sim::{Agent, AgentId, AgentTimer, Arrived, Ecn, SimHandle, Wire};
use parking_lot::Mutex;

use super::endpoint::ClientOrServer::{self, Client, Server};
use super::endpoint::{TcpEnd, TcpEndpoint};
use super::sender::TcpCounts;

/// Time for which a connection continues after its last task has dropped it, to deliver its last
/// bytes and FINs. The time is shorter than the one for which the network keeps the number of a
/// finished flow. RFC 9293 §3.8.3 gives up after 100 s or more.
const LINGER: Duration = Duration::from_secs(240);

/// The TCP connections of a simulation, as one agent.
#[derive(Clone)]
pub struct TcpConnections {
    sim: SimHandle,
    agent: AgentId,
    table: Arc<Mutex<Table>>,
}

impl fmt::Debug for TcpConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpConnections")
    }
}

/// Handle of a connection. Clones refer to the same connection, which exists until the last clone
/// is dropped.
#[derive(Clone)]
pub struct TcpConnection(Arc<Held>);

impl fmt::Debug for TcpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpConnection({})", self.0.index)
    }
}

struct Held {
    connections: TcpConnections,
    index: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        table.slots[self.index as usize].held_until = Some(self.connections.sim.time() + LINGER);
        table.free_if_over(self.index, self.connections.sim.time());
    }
}

impl TcpConnections {
    /// Creates an agent without connections.
    pub fn new(sim: &SimHandle) -> Self {
        let table = Arc::<Mutex<Table>>::default();
        let agent = sim.add_agent(Box::new(Connections(Arc::clone(&table))));
        Self { sim: sim.clone(), agent, table }
    }

    /// Opens a connection as flow `flow` of the network. Its SYN leaves now. No other connection
    /// may use this flow.
    pub fn open(&self, flow: u32, client: TcpEnd, server: TcpEnd) -> TcpConnection {
        let now = self.sim.time();
        let ends = [TcpEndpoint::new(now, Client, client), TcpEndpoint::new(now, Server, server)];
        let index = self.table.lock().insert(flow, ends);
        self.sim.give_flow(flow, self.agent, index);
        let connection = TcpConnection(Arc::new(Held { connections: self.clone(), index }));
        connection.send(Client);
        connection
    }
}

impl TcpConnection {
    /// Waits until the handshake is complete at the client.
    pub async fn connected(&self) {
        self.until(Client, Awaited::Established).await;
    }

    /// Gives `end` another `bytes` bytes to send.
    pub fn write(&self, end: ClientOrServer, bytes: u64) {
        self.with(end, |e| e.offer(bytes));
        self.send(end);
    }

    /// Closes the sending side of `end`, so that a FIN follows the data.
    pub fn finish(&self, end: ClientOrServer) {
        self.with(end, TcpEndpoint::finish);
        self.send(end);
    }

    /// Waits until `end` has received `bytes` bytes since the connection was opened.
    pub async fn received(&self, end: ClientOrServer, bytes: u64) {
        self.until(end, Awaited::Received(bytes)).await;
    }

    /// Waits until `end` has received `bytes` bytes or the other end's FIN.
    pub async fn received_or_finished(&self, end: ClientOrServer, bytes: u64) {
        self.until(end, Awaited::ReceivedOrFinished(bytes)).await;
    }

    /// Returns whether the ends send a FIN after their data.
    pub fn has_fin(&self) -> bool {
        self.with(Client, |e| e.has_fin())
    }

    /// Waits until `end` has received the other end's FIN and all data before it.
    pub async fn finished(&self, end: ClientOrServer) {
        self.until(end, Awaited::Finished).await;
    }

    /// Waits until both ends know that both FINs arrived.
    pub async fn over(&self) {
        self.until(Client, Awaited::Over).await;
        self.until(Server, Awaited::Over).await;
    }

    /// Returns the counts of the sender at `end` so far.
    pub fn counts(&self, end: ClientOrServer) -> TcpCounts {
        self.with(end, |e| e.counts())
    }

    /// Returns the telemetry of an end's controller.
    pub fn metrics(&self, end: ClientOrServer) -> ControllerMetrics {
        self.with(end, |e| e.metrics())
    }

    fn with<T>(&self, end: ClientOrServer, ask: impl FnOnce(&mut TcpEndpoint) -> T) -> T {
        let mut table = self.0.connections.table.lock();
        ask(&mut table.slots[self.0.index as usize].ends[end as usize].endpoint)
    }

    async fn until(&self, end: ClientOrServer, awaited: Awaited) {
        poll_fn(|cx| {
            let mut table = self.0.connections.table.lock();
            let End { endpoint, waiting, .. } =
                &mut table.slots[self.0.index as usize].ends[end as usize];
            if awaited.holds(endpoint) {
                return Poll::Ready(());
            }
            let known = |(of, waker): &(_, Waker)| *of == awaited && waker.will_wake(cx.waker());
            if !waiting.iter().any(known) {
                waiting.push((awaited, cx.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Schedules a call of the agent at once, to send the segments that may leave.
    fn send(&self, end: ClientOrServer) {
        let TcpConnections { sim, agent, .. } = &self.0.connections;
        sim.call_agent_at(
            *agent,
            sim.time(),
            Key { index: self.0.index, end, timer: false }.pack(),
        );
    }
}

/// State of an end for which a task waits. The task is woken when the end is in this state, and not
/// for each of the end's packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Established,
    /// Number of bytes received since the connection was opened.
    Received(u64),
    ReceivedOrFinished(u64),
    Finished,
    Over,
}

impl Awaited {
    fn holds(self, end: &TcpEndpoint) -> bool {
        match self {
            Self::Established => end.is_established(),
            Self::Received(bytes) => end.received() >= bytes,
            Self::ReceivedOrFinished(bytes) => end.received() >= bytes || end.is_finished(),
            Self::Finished => end.is_finished(),
            Self::Over => end.is_over(),
        }
    }
}

/// Connection and end to which a call from the simulation refers, with a flag for an expired timer,
/// packed in 32 bits.
#[derive(Clone, Copy)]
struct Key {
    index: u32,
    end: ClientOrServer,
    timer: bool,
}

impl Key {
    const fn pack(self) -> u32 {
        self.index << 2 | (self.end as u32) << 1 | self.timer as u32
    }

    const fn unpack(packed: u32) -> Self {
        let end = if packed & 2 == 0 { Client } else { Server };
        Self { index: packed >> 2, end, timer: packed & 1 == 1 }
    }
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// A slot for a connection. When packets and timers of a flow arrive, another connection may
/// already have the slot. The epoch distinguishes the connections.
struct Slot {
    flow: u32,
    epoch: u32,
    ends: [End; 2],
    /// Time until which the connection may continue; `None` while a task holds the connection.
    held_until: Option<Time>,
    free: bool,
}

struct End {
    endpoint: TcpEndpoint,
    timer: AgentTimer,
    waiting: Vec<(Awaited, Waker)>,
}

impl Table {
    fn insert(&mut self, flow: u32, ends: [TcpEndpoint; 2]) -> u32 {
        let ends = ends.map(|endpoint| End {
            endpoint,
            timer: AgentTimer::default(),
            waiting: Vec::new(),
        });
        let slot = |epoch| Slot { flow, epoch, ends, held_until: None, free: false };
        let Some(index) = self.free.pop() else {
            self.slots.push(slot(0));
            return self.slots.len() as u32 - 1;
        };
        let place = &mut self.slots[index as usize];
        *place = slot(place.epoch + 1);
        index
    }

    fn free_if_over(&mut self, index: u32, now: Time) {
        let slot = &mut self.slots[index as usize];
        let Some(until) = slot.held_until.filter(|_| !slot.free) else { return };
        if now >= until || slot.ends.iter().all(|end| end.endpoint.is_over()) {
            slot.free = true;
            self.free.push(index);
        }
    }

    /// Sends the packets that an end may send, sets the end's timer, and wakes the tasks that wait
    /// for the end's present state.
    fn drive(&mut self, wire: &mut Wire<'_>, index: u32, end: ClientOrServer) {
        let Slot { flow, epoch, ends, free, .. } = &mut self.slots[index as usize];
        if *free {
            return;
        }
        let (flow, epoch) = (*flow, *epoch);
        let End { endpoint, timer, waiting } = &mut ends[end as usize];
        let now = wire.now();
        while let Some(packet) = endpoint.poll_send(now) {
            wire.send(
                end == Server,
                flow,
                packet.ecn,
                packet.size,
                packet.stored(epoch).as_slice(),
            );
        }
        timer.set(wire, Key { index, end, timer: true }.pack(), endpoint.timeout());
        for (_, waker) in waiting.extract_if(.., |(awaited, _)| awaited.holds(endpoint)) {
            waker.wake();
        }
        self.free_if_over(index, now);
    }
}

/// Agent through which the simulation calls the [`TcpConnections`].
struct Connections(Arc<Mutex<Table>>);

impl Agent for Connections {
    fn on_packet(&mut self, wire: &mut Wire<'_>, packet: Arrived<'_>) {
        let mut table = self.0.lock();
        let slot = &mut table.slots[packet.index as usize];
        if slot.free {
            return;
        }
        let end = if packet.down { Client } else { Server };
        let (epoch, marked) = (slot.epoch, packet.ecn == Some(Ecn::Ce));
        let known =
            slot.ends[end as usize].endpoint.on_packet(wire.now(), packet.body, epoch, marked);
        if known {
            table.drive(wire, packet.index, end);
        }
    }

    fn on_timer(&mut self, wire: &mut Wire<'_>, timer: u32) {
        let mut table = self.0.lock();
        let Key { index, end, timer: timed } = Key::unpack(timer);
        if timed {
            let End { endpoint, timer: due, .. } =
                &mut table.slots[index as usize].ends[end as usize];
            if !due.due(wire, timer) {
                return;
            }
            endpoint.on_timeout(wire.now());
        }
        table.drive(wire, index, end);
    }
}
