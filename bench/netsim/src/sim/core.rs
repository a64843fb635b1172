//! What time moves: the event queue, timers, the network and the agents in it.

use std::task::Waker;

use fathom_units::Time;

use super::bundles::Bundles;
use super::event_queue::EventQueue;
use super::network::{AgentId, Ecn, LinkId, Network};
use super::timers::{TimerKey, Timers};
use crate::backend::real_time::RealTime;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A timer may be due.
    Timer(TimerKey),
    /// A packet reaches its next hop (index into the network's packet store).
    Packet(u32),
    /// An agent's own timer.
    Agent(AgentId, u32),
    /// A link that schedules has sent a packet.
    LinkFree(LinkId),
    /// Packets behind a link may have waited long enough for later ones to pass.
    Release(LinkId),
    /// A sender's bundle may have waited long enough.
    Bundle(u32),
}

/// Everything that time moves, behind one lock.
pub(crate) struct Core {
    pub(crate) now: u64,
    pub(crate) events: EventQueue<Event>,
    pub(crate) timers: Timers,
    pub(crate) net: Network,
    pub(crate) bundles: Bundles,
    /// None while it is being called.
    pub(crate) agents: Vec<Option<Box<dyn Agent>>>,
    /// The wall's clock and the kernel's sockets, in a real-time run.
    pub(crate) real: Option<Box<RealTime>>,
    pub(crate) processed: u64,
}

impl Core {
    /// Schedules `event` at `at` nanoseconds, never in the past; ties keep the order of scheduling.
    pub(crate) fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(at.max(self.now), event);
    }

    /// When the next event is due.
    pub(crate) fn next_event(&mut self) -> Option<u64> {
        self.events.next_time()
    }

    /// Handles the next event; returns the task to wake.
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
    /// The agent's own number of the flow.
    pub index: u32,
    /// It came from the group's server to its client.
    pub down: bool,
    /// As it arrived.
    pub ecn: Option<Ecn>,
    /// What was stored.
    pub body: &'a [u8],
}

/// What an agent does when something happens to it.
pub trait Agent: Send {
    /// A packet of one of its flows arrived.
    fn on_packet(&mut self, wire: &mut Wire<'_>, packet: Arrived<'_>);
    /// A timer it set came up; stale ones too (see [`AgentTimer::due`](super::AgentTimer::due)).
    fn on_timer(&mut self, wire: &mut Wire<'_>, timer: u32);
}

/// The network as an agent reaches it from inside a call.
pub struct Wire<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) agent: AgentId,
}

impl Wire<'_> {
    /// Now.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.core.now)
    }

    /// Sends a packet of network flow `flow` that counts `wire` bytes, headers included, and stores `body`.
    pub fn send(&mut self, down: bool, flow: u32, ecn: Option<Ecn>, wire: u32, body: &[u8]) {
        self.core.send_sized(down, flow, ecn, wire, body);
    }

    /// Calls [`Agent::on_timer`] at `at`, or now when that is past. It cannot be taken back.
    pub fn call_at(&mut self, at: Time, timer: u32) {
        self.core.schedule(at.as_nanos(), Event::Agent(self.agent, timer));
    }
}
