//! Agents: traffic that lives inside the network instead of in tasks. A packet or a timer of an agent is a call, with no task to wake and
//! no socket to read, which is what thousands of background flows need. An agent's packet may count more bytes on the wire than it stores.

use std::time::Duration;

use fathom_units::Time;

use super::core::{Agent, Arrived, Core, Event, Wire};
use super::handle::SimHandle;
use super::network::{AgentId, Direction, GroupId, Local};

/// A timer that is reset on nearly every packet, mostly to a later time: that only notes the deadline, and the call already on its way
/// sets itself anew when it comes early (as timers of tasks do).
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentTimer {
    deadline: Option<Time>,
    /// The earliest call on its way.
    queued: Option<Time>,
}

impl AgentTimer {
    /// Due at `deadline`, or not at all; `timer` names it in the agent's calls.
    pub fn set(&mut self, wire: &mut Wire<'_>, timer: u32, deadline: Option<Time>) {
        self.deadline = deadline;
        self.arm(wire, timer);
    }

    /// Not due any more.
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

    /// A call came up: whether the timer is due now, which clears it.
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

    /// A packet of an agent's flow arrived; its storage is free again after the call.
    pub(crate) fn deliver_to_agent(&mut self, packet: u32, to: Local) {
        let p = &mut self.net.packets[packet as usize];
        let (down, ecn) = (p.direction == Direction::Down, p.ecn);
        let body = std::mem::take(&mut p.data);
        self.with_agent(to.agent, |agent, net| {
            agent.on_packet(net, Arrived { index: to.index, down, ecn, body: &body });
        });
        // Back to its place, so that the next packet there needs no new storage.
        self.net.packets[packet as usize].data = body;
        self.net.release(packet);
    }

    fn with_agent(&mut self, id: AgentId, call: impl FnOnce(&mut dyn Agent, &mut Wire<'_>)) {
        // Out of the list while it runs, since it is given everything else.
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

    /// As [`SimHandle::add_flow`], for a flow whose both ends are the agent's; `index` is its own number for it.
    pub fn add_agent_flow(&self, agent: AgentId, index: u32, group: GroupId, rtt: Duration) -> u32 {
        let flow = self.add_flow_with_delays(group, rtt, Duration::ZERO);
        self.give_flow(flow, agent, index);
        flow
    }

    /// Both ends of the flow are the agent's from now on; `index` is its own number for it.
    pub fn give_flow(&self, flow: u32, agent: AgentId, index: u32) {
        self.core().net.give_to(flow, Local { agent, index });
    }

    /// Calls the agent's [`Agent::on_timer`] at `at`.
    pub fn call_agent_at(&self, agent: AgentId, at: Time, timer: u32) {
        self.core().schedule(at.as_nanos(), Event::Agent(agent, timer));
    }
}
