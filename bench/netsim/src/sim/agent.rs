//! Agents: traffic sources that are part of the network rather than tasks.
//!
//! An agent handles each packet and each timer in a function call, without a task to wake or a
//! socket to read. This makes thousands of background flows possible. An agent's packet may count
//! more bytes on the wire than it stores.

use std::time::Duration;

use fathom_units::Time;

use super::core::{Agent, Arrived, Core, Event, Wire};
use super::direction::Direction;
use super::handle::SimHandle;
use super::network::{AgentId, GroupId, Local};

/// A timer for deadlines that are reset on nearly every packet, mostly to later times.
///
/// A reset to a later time only records the deadline. If the call that is already scheduled comes
/// early, it reschedules itself, like the timers of tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentTimer {
    deadline: Option<Time>,
    /// Time of the earliest scheduled call.
    queued: Option<Time>,
}

impl AgentTimer {
    /// Sets the deadline; `None` clears it. `timer` identifies the timer in the agent's calls.
    pub fn set(&mut self, wire: &mut Wire<'_>, timer: u32, deadline: Option<Time>) {
        self.deadline = deadline;
        self.arm(wire, timer);
    }

    /// Clears the deadline.
    pub fn clear(&mut self) {
        self.deadline = None;
    }

    fn arm(&mut self, wire: &mut Wire<'_>, timer: u32) {
        let Some(at) = self.deadline else { return };
        let at = at.max(wire.now());
        if self.queued.is_none_or(|queued| at < queued) {
            self.queued = Some(at);
            wire.call_at(at, timer);
        }
    }

    /// Returns whether the timer is due when its call arrives. Clears the timer if it is due.
    pub fn due(&mut self, wire: &mut Wire<'_>, timer: u32) -> bool {
        let now = wire.now();
        if self.queued != Some(now) {
            return false; // superseded by an earlier call
        }
        self.queued = None;
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            return true;
        }
        self.arm(wire, timer);
        false
    }
}

impl Core {
    pub(crate) fn agent_timer(&mut self, id: AgentId, timer: u32) {
        self.with_agent(id, |agent, wire| agent.on_timer(wire, timer));
    }

    /// Delivers a packet of an agent's flow. After this call, the packet's storage is free again.
    pub(crate) fn deliver_to_agent(&mut self, packet: u32, to: Local) {
        let p = &mut self.net.packets[packet as usize];
        let (down, ecn) = (p.direction == Direction::Down, p.ecn);
        let body = std::mem::take(&mut p.data);
        self.with_agent(to.agent, |agent, net| {
            agent.on_packet(net, Arrived { index: to.index, down, ecn, body: &body });
        });
        // The buffer returns to its slot, so that the next packet in this slot needs no new
        // storage.
        self.net.packets[packet as usize].data = body;
        self.net.release(packet);
    }

    fn with_agent(&mut self, id: AgentId, call: impl FnOnce(&mut dyn Agent, &mut Wire<'_>)) {
        // The agent is removed from the list while it runs, because it gets access to all other
        // state.
        let Some(mut agent) = self.agents[usize::from(id.0)].take() else { return };
        call(&mut *agent, &mut Wire { core: self, agent: id });
        self.agents[usize::from(id.0)] = Some(agent);
    }
}

impl SimHandle {
    /// Adds an agent to the simulation.
    pub fn add_agent(&self, agent: Box<dyn Agent>) -> AgentId {
        let mut core = self.core();
        core.agents.push(Some(agent));
        AgentId(core.agents.len() as u16 - 1)
    }

    /// Adds a flow like [`SimHandle::add_flow`], but with both ends at the agent. `index` is the
    /// agent's own number for the flow.
    pub fn add_agent_flow(&self, agent: AgentId, index: u32, group: GroupId, rtt: Duration) -> u32 {
        let flow = self.add_flow_with_delays(group, rtt, Duration::ZERO);
        self.give_flow(flow, agent, index);
        flow
    }

    /// Moves both ends of the flow to the agent from now on. `index` is the agent's own number for
    /// the flow.
    pub fn give_flow(&self, flow: u32, agent: AgentId, index: u32) {
        self.core().net.give_to(flow, Local { agent, index });
    }

    /// Schedules a call of the agent's [`Agent::on_timer`] at `at`.
    pub fn call_agent_at(&self, agent: AgentId, at: Time, timer: u32) {
        self.core().schedule(at, Event::Agent(agent, timer));
    }
}
