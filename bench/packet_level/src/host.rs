//! All packet-level flows of a run, with both ends of each flow, as one agent of the simulation.
//! The agent uses no tasks and no sockets. The simulation stores the packets in transit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::{Controller, Time};
use fathom_netsim::sim::{Agent, AgentId, AgentTimer, Arrived, Ecn, GroupId, SimHandle, Wire};
use parking_lot::{Mutex, MutexGuard};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::endpoints::Endpoints;
use super::flow::{PacketLevelError, PacketLevelFlow, Workload};
use super::on_off::{OnOff, Source};
use super::report::{PacketLevelReport, TcpReport, UdpReport};
use super::web_user::{Connections, WebUser};

/// Packet-level traffic of a simulation. The flows start by themselves when the simulation runs.
///
/// Every flow has its own random generator. The seed depends on how many flows were added before
/// it, so the traffic that a flow offers does not depend on any controller. (DCA §4.5: "the sample
/// of the application data presented to the network in both runs is the same".)
pub struct PacketLevel {
    sim: SimHandle,
    agent: AgentId,
    seed: u64,
    flows: Arc<Mutex<Flows>>,
}

impl fmt::Debug for PacketLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketLevel")
    }
}

impl PacketLevel {
    /// Creates an agent without flows. `seed` is the seed of the random generators of all flows.
    pub fn new(sim: &SimHandle, seed: u64) -> Self {
        let flows = Arc::<Mutex<Flows>>::default();
        let agent = sim.add_agent(Box::new(Handle(Arc::clone(&flows))));
        Self { sim: sim.clone(), agent, seed, flows }
    }

    /// Adds a reliable flow and returns its number in the network.
    ///
    /// # Errors
    /// Returns a [`PacketLevelError`] if the controller cannot start or a number is out of range.
    pub fn tcp(&mut self, flow: PacketLevelFlow) -> Result<u32, PacketLevelError> {
        flow.check()?;
        let controller = flow.controller(self.sim.time().max(flow.start))?;
        // Lock order: the simulation holds its own lock when it calls this agent. Never take the
        // simulation's lock while holding the lock of the flows.
        let (index, rng) = self.next(|flows| flows.tcp.len());
        let id = self.sim.add_agent_flow(
            self.agent,
            Key { index, kind: Kind::Start }.pack(),
            flow.group,
            flow.rtt,
        );
        let mut tcp = Tcp::new(flow, id, controller, rng);
        let start = tcp.options.start.max(self.sim.time()) + tcp.first_idle();
        lock(&self.flows).tcp.push(tcp);
        self.sim.call_agent_at(self.agent, start, Key { index, kind: Kind::Start }.pack());
        Ok(id)
    }

    /// Adds a UDP source and returns its number in the network. Packets go from the group's server
    /// to its client.
    ///
    /// # Errors
    /// Returns a [`PacketLevelError`] if a number is out of range.
    pub fn udp(&mut self, source: OnOff, group: GroupId) -> Result<u32, PacketLevelError> {
        source.check()?;
        let (index, rng) = self.next(|flows| flows.udp.len());
        let key = Key { index, kind: Kind::Udp }.pack();
        let id = self.sim.add_agent_flow(self.agent, key, group, Duration::ZERO);
        let mut source = Source::new(source, rng);
        let first = self.sim.time().max(source.options.start) + source.gap();
        let udp = Udp { report: UdpReport { flow: id, ..UdpReport::default() }, source };
        lock(&self.flows).udp.push(udp);
        self.sim.call_agent_at(self.agent, first, key);
        Ok(id)
    }

    /// Returns the counts of all flows up to now.
    pub fn report(&self) -> PacketLevelReport {
        report(&self.flows)
    }

    /// Returns a function that reports the counts while the simulation runs.
    pub fn reporter(&self) -> impl Fn() -> PacketLevelReport + Send + use<> {
        let flows = Arc::clone(&self.flows);
        move || report(&flows)
    }

    /// Returns the index of the next flow among the flows of the same kind, and the random
    /// generator of this flow.
    fn next(&self, of_kind: impl Fn(&Flows) -> usize) -> (u32, Pcg64Mcg) {
        let flows = lock(&self.flows);
        let number = (flows.tcp.len() + flows.udp.len()) as u64;
        // With neighbouring seeds, the second flow of one run would get the random numbers of the
        // first flow of another run. The multiplier (the fraction of the golden ratio) spreads the
        // seeds.
        let rng = Pcg64Mcg::seed_from_u64(
            self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number),
        );
        (of_kind(&flows) as u32, rng)
    }
}

fn report(flows: &Mutex<Flows>) -> PacketLevelReport {
    let flows = lock(flows);
    PacketLevelReport {
        tcp: flows.tcp.iter().map(Tcp::report).collect(),
        udp: flows.udp.iter().map(Udp::report).collect(),
    }
}

fn lock(flows: &Mutex<Flows>) -> MutexGuard<'_, Flows> {
    flows.lock()
}

/// Flow and event to which a call from the simulation refers, packed in 32 bits. Packets of a
/// reliable flow carry the key of its start. Packets of a UDP flow carry the flow's UDP key.
#[derive(Clone, Copy)]
struct Key {
    index: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Start,
    Sender,
    Receiver,
    Udp,
}

impl Key {
    const fn pack(self) -> u32 {
        self.index << 2 | self.kind as u32
    }

    const fn unpack(packed: u32) -> Self {
        let kind = match packed & 3 {
            0 => Kind::Start,
            1 => Kind::Sender,
            2 => Kind::Receiver,
            _ => Kind::Udp,
        };
        Self { index: packed >> 2, kind }
    }
}

#[derive(Default)]
struct Flows {
    tcp: Vec<Tcp>,
    udp: Vec<Udp>,
}

/// Agent through which the simulation calls the flows of a [`PacketLevel`].
struct Handle(Arc<Mutex<Flows>>);

impl Agent for Handle {
    fn on_packet(&mut self, wire: &mut Wire<'_>, packet: Arrived<'_>) {
        let mut flows = lock(&self.0);
        let Key { index, kind } = Key::unpack(packet.index);
        match kind {
            Kind::Udp => flows.udp[index as usize].report.arrived += 1,
            _ => flows.tcp[index as usize].on_packet(wire, index, &packet),
        }
    }

    fn on_timer(&mut self, wire: &mut Wire<'_>, timer: u32) {
        let mut flows = lock(&self.0);
        let Key { index, kind } = Key::unpack(timer);
        let i = index as usize;
        match kind {
            Kind::Start => flows.tcp[i].begin(wire, index),
            Kind::Sender if flows.tcp[i].sender_timer.due(wire, timer) => {
                let now = wire.now();
                flows.tcp[i].endpoints.on_sender_timeout(now);
                flows.tcp[i].drive(wire, index);
            }
            Kind::Receiver if flows.tcp[i].receiver_timer.due(wire, timer) => {
                flows.tcp[i].acknowledge(wire);
                flows.tcp[i].set_receiver_timer(wire, index);
            }
            Kind::Sender | Kind::Receiver => {}
            Kind::Udp => {
                let next = flows.udp[i].send(wire);
                wire.call_at(next, timer);
            }
        }
    }
}

/// Both ends of a reliable flow.
struct Tcp {
    options: PacketLevelFlow,
    endpoints: Endpoints,
    sender_timer: AgentTimer,
    receiver_timer: AgentTimer,
    rng: Pcg64Mcg,
    /// Number of connections so far. Packets of earlier connections are ignored.
    epoch: u32,
    /// Start of the running transfer.
    began: Option<Time>,
    report: TcpReport,
}

impl Tcp {
    fn new(
        options: PacketLevelFlow,
        flow: u32,
        controller: Box<dyn Controller>,
        rng: Pcg64Mcg,
    ) -> Self {
        let report = TcpReport {
            flow,
            controller: options.controller_config.name(),
            ..TcpReport::default()
        };
        Self {
            endpoints: Endpoints::new(&options, controller),
            sender_timer: AgentTimer::default(),
            receiver_timer: AgentTimer::default(),
            options,
            rng,
            epoch: 0,
            began: None,
            report,
        }
    }

    fn first_idle(&mut self) -> Duration {
        match self.options.workload {
            Workload::Bulk { .. } => Duration::ZERO,
            Workload::WebUser(user) => self.idle(&user),
        }
    }

    fn idle(&mut self, user: &WebUser) -> Duration {
        let idle = user.draw_idle(&mut self.rng);
        self.report.idles += 1;
        self.report.idle += idle;
        idle
    }

    /// Begins the next transfer.
    fn begin(&mut self, wire: &mut Wire<'_>, index: u32) {
        let bytes = match self.options.workload {
            Workload::Bulk { bytes } => bytes,
            Workload::WebUser(user) => {
                if user.connections == Connections::Fresh && self.report.started > 0 {
                    self.reconnect(wire.now());
                }
                u64::from(user.draw_size(&mut self.rng)) * u64::from(self.options.payload())
            }
        };
        self.report.started += 1;
        self.report.offered = self.report.offered.saturating_add(bytes);
        self.began = Some(wire.now());
        self.endpoints.offer(bytes);
        self.drive(wire, index);
    }

    fn reconnect(&mut self, now: Time) {
        self.count_reductions();
        let controller =
            self.options.controller(now).expect("the first one started on the same terms");
        self.endpoints.restart(&self.options, controller);
        self.receiver_timer.clear();
        self.epoch += 1;
    }

    /// Adds the controller's reductions to the report before the controller is replaced.
    fn count_reductions(&mut self) {
        let snapshot = self.endpoints.metrics();
        self.report.reductions += snapshot.reductions;
        self.report.early_reductions += snapshot.early_reductions;
    }

    fn on_packet(&mut self, wire: &mut Wire<'_>, index: u32, packet: &Arrived<'_>) {
        let now = wire.now();
        if packet.down {
            match self.endpoints.on_data(now, packet.body, self.epoch, packet.ecn == Some(Ecn::Ce))
            {
                Some(at_once) => {
                    if at_once {
                        self.acknowledge(wire);
                    }
                    self.set_receiver_timer(wire, index);
                }
                None => self.report.stale += 1,
            }
            return;
        }
        if self.endpoints.on_ack(now, packet.body, self.epoch) {
            self.drive(wire, index);
        } else {
            self.report.stale += 1;
        }
    }

    fn set_receiver_timer(&mut self, wire: &mut Wire<'_>, index: u32) {
        let key = Key { index, kind: Kind::Receiver }.pack();
        self.receiver_timer.set(wire, key, self.endpoints.receiver_timeout());
    }

    fn acknowledge(&mut self, wire: &mut Wire<'_>) {
        let ack = self.endpoints.ack(wire.now(), self.epoch);
        self.report.acks += 1;
        wire.send(false, self.report.flow, ack.ecn, ack.size, ack.stored.as_slice());
    }

    /// Sends all packets that may be sent now. Then checks whether the transfer is finished.
    fn drive(&mut self, wire: &mut Wire<'_>, index: u32) {
        let now = wire.now();
        while let Some(packet) = self.endpoints.poll_send(now, self.epoch, self.options.ecn) {
            wire.send(true, self.report.flow, packet.ecn, packet.size, packet.stored.as_slice());
        }
        self.sender_timer.set(
            wire,
            Key { index, kind: Kind::Sender }.pack(),
            self.endpoints.sender_timeout(),
        );
        if let Some(began) = self.began.filter(|_| self.endpoints.is_done()) {
            self.began = None;
            self.report.done += 1;
            self.report.busy += now.since(began);
            self.report.last_done = Some(now);
            if let Workload::WebUser(user) = self.options.workload {
                let idle = self.idle(&user);
                wire.call_at(now + idle, Key { index, kind: Kind::Start }.pack());
            }
        }
    }

    fn report(&self) -> TcpReport {
        let metrics = self.endpoints.metrics();
        self.endpoints.report(TcpReport {
            reductions: self.report.reductions + metrics.reductions,
            early_reductions: self.report.early_reductions + metrics.early_reductions,
            ..self.report
        })
    }
}

/// A UDP flow. The receiver only counts packets.
struct Udp {
    source: Source,
    report: UdpReport,
}

impl Udp {
    /// Sends a packet. Returns the time at which the next packet is due.
    fn send(&mut self, wire: &mut Wire<'_>) -> Time {
        let size = self.source.options.wire();
        wire.send(true, self.report.flow, None, size, &[]);
        self.report.sent += 1;
        self.report.wire_bytes += u64::from(size);
        wire.now() + self.source.gap()
    }

    fn report(&self) -> UdpReport {
        UdpReport { on: self.source.on, off: self.source.off, ..self.report }
    }
}
