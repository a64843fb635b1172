//! The state that time advances: the event queue, timers, the network and its agents.

use std::task::Waker;

use fathom_units::Time;

use super::event_queue::EventQueue;
use super::network::{AgentId, LinkId, Network};
use super::open_bundles::Bundles;
use super::timers::{TimerKey, Timers};
#[cfg(not(feature = "real-time"))]
use super::virtual_only::RealTime;
#[cfg(feature = "real-time")]
use crate::backend::real_time::RealTime;
use crate::ecn::Ecn;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A timer may be due.
    Timer(TimerKey),
    /// A packet reaches its next hop (index into the network's packet store).
    Packet(u32),
    /// An agent's own timer.
    Agent(AgentId, u32),
    /// A link with a scheduling queue has sent a packet.
    LinkFree(LinkId),
    /// Packets behind a link may have waited long enough for later packets to pass.
    Release(LinkId),
    /// A sender's bundle may have waited long enough.
    Bundle(u32),
}

/// All state that the advance of time changes, behind one lock.
pub(crate) struct Core {
    pub(crate) now: Time,
    pub(crate) events: EventQueue<Event>,
    pub(crate) timers: Timers,
    pub(crate) net: Network,
    pub(crate) bundles: Bundles,
    /// Agents; an entry is `None` while its agent is being called.
    pub(crate) agents: Vec<Option<Box<dyn Agent>>>,
    /// Wall clock and kernel sockets of a real-time run.
    pub(crate) real: Option<Box<RealTime>>,
    pub(crate) processed: u64,
}

#[cfg(not(feature = "real-time"))]
impl Core {
    /// This function is never called, because no hop exists.
    pub(crate) fn send_to_kernel(&mut self, _packet: u32, _hop: usize) {}
}

impl Core {
    /// Schedules `event` at `at`, or now if `at` is past. Events at the same time keep the order in
    /// which they were scheduled.
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        self.events.push(at.max(self.now), event);
    }

    /// Returns the time of the next event.
    pub(crate) fn next_event(&mut self) -> Option<Time> {
        self.load_new_day();
        self.events.next_time()
    }

    /// Reads the packets of a day of events when the day begins. In a fast network, most packets
    /// are not in the processor's cache: read together, they arrive at the same time, and read one
    /// by one, each is waited for (a quarter of the CPU time of a 2.5 Gbps run).
    fn load_new_day(&mut self) {
        let Some(events) = self.events.new_day() else { return };
        let mut read = 0;
        for event in events {
            if let Event::Packet(index) = event {
                let packet = &self.net.packets[*index as usize];
                read ^= packet.flow ^ u32::from(packet.data.first().copied().unwrap_or_default());
            }
        }
        std::hint::black_box(read);
    }

    /// Handles the next event. Returns the task to wake.
    pub(crate) fn dispatch(&mut self) -> Option<Waker> {
        let (at, event) = self.events.pop()?;
        debug_assert!(at >= self.now, "time ran backwards");
        self.now = at;
        self.processed += 1;
        match event {
            Event::Timer(key) => self.fire_timer(key),
            Event::Packet(index) => self.packet_arrives(index),
            Event::Agent(agent, timer) => {
                self.agent_timer(agent, timer);
                None
            }
            Event::LinkFree(link) => {
                self.transmit_next(link);
                None
            }
            Event::Release(link) => {
                self.release_waiting(link);
                None
            }
            Event::Bundle(place) => {
                self.bundle_is_due(place);
                None
            }
        }
    }
}

/// A packet that reached its receiver.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The agent's own number for the flow.
    pub index: u32,
    /// Whether the packet came from the group's server to its client.
    pub down: bool,
    /// ECN field on arrival.
    pub ecn: Option<Ecn>,
    /// Stored contents of the packet.
    pub body: &'a [u8],
}

/// A traffic source that is part of the network. The simulation calls it for each of its packets
/// and timers.
pub trait Agent: Send {
    /// Handles a packet of one of the agent's flows.
    fn on_packet(&mut self, wire: &mut Wire<'_>, packet: Arrived<'_>);
    /// Handles a timer call that the agent scheduled. Outdated calls also arrive (see
    /// [`AgentTimer::due`](super::AgentTimer::due)).
    fn on_timer(&mut self, wire: &mut Wire<'_>, timer: u32);
}

/// Access of an agent to the network during a call.
pub struct Wire<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) agent: AgentId,
}

impl Wire<'_> {
    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Sends a packet of network flow `flow`. The packet counts `wire` bytes, including headers,
    /// and stores `body`.
    pub fn send(&mut self, down: bool, flow: u32, ecn: Option<Ecn>, wire: u32, body: &[u8]) {
        self.core.send_sized(down, flow, ecn, wire, body);
    }

    /// Schedules a call of [`Agent::on_timer`] at `at`, or now if `at` is past. The call cannot be
    /// cancelled.
    pub fn call_at(&mut self, at: Time, timer: u32) {
        self.core.schedule(at, Event::Agent(self.agent, timer));
    }
}
