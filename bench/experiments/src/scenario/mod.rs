//! Scenarios: a chain of routers, the traffic over it, and what to measure. A run is a pure
//! function of the scenario and a seed.
//!
//! | file | contents |
//! |---|---|
//! | `spec.rs` | a scenario as written in TOML, and its checks |
//! | `chain.rs` | the topologies: routers in a row, after each paper |
//! | `background.rs` | packet-level flows that load the links in addition to the measured traffic |
//! | `load.rs` | rates of new connections that offer a wanted load |
//! | `tcp.rs` | TCP settings as written in TOML, and their checks |
//! | `max_window.rs` | the window of a sender without a limit |
//! | `settings.rs` | settings of connections |
//! | `workload/` | workloads: their syntax, requests and properties, one file per workload |
//! | `traffic.rs` | the clients and servers of one group |
//! | `state.rs` | the state and statistics of a run |
//! | `seeds.rs` | the seeds of a run's parts |
//! | `run.rs` | one run: setup, execution, checks of its counters |
//! | `recorder.rs` | counts of the events that controllers receive |
//! | `sender_watch.rs` | what limits senders over time |
//! | `counters.rs` | counters of connections that exclude the warm-up |
//! | `responses.rs` | single responses, in a temporary file |
//! | `outcome.rs`, `limit_outcome.rs` | the outcome of a run, as data |
//! | `cost.rs` | CPU time and memory that a run takes |
//! | `error.rs` | errors of plans and runs |

mod background;
mod chain;
mod cost;
mod counters;
mod error;
mod limit_outcome;
mod load;
mod max_window;
mod outcome;
mod recorder;
mod responses;
mod run;
mod seeds;
mod sender_watch;
mod settings;
mod spec;
mod state;
mod tcp;
mod traffic;
mod unused;
mod workload;

use std::time::Duration;

use fathom_netsim::backend::Backend;
use fathom_netsim::path::PathEvent;

pub use crate::flow_control::MaxWindow;
pub use crate::tcp::{TcpOutcome, TcpSettings};
pub use background::{Background, BackgroundOutcome, Load};
pub use chain::{Access, AccessQueues, Chain, ChainLink};
pub use cost::Cost;
pub(crate) use error::InField;
pub use error::{RunError, ScenarioError};
pub use fathom_traffic::{Arrivals, PageShape};
pub use limit_outcome::{LimitOutcome, LimitTimes, SentPackets};
pub use outcome::{
    ComputedLoad, DropsOverTime, FlowOutcome, GroupOutcome, ImpairmentOutcome, LinkOutcome,
    Outcome, PacketDelay, RttOutcome, SharesOverTime, TracedOutcome,
};
pub use responses::{ResponseKind, ResponseResult, ResponseRow};
pub use run::run;
pub use settings::{
    Connections, MediaEncoder, MediaTransport, Resume, Resumption, Shaping, Timestamps,
};
pub use spec::{AccessSpec, BackgroundSpec, KeepSpec, NetworkSpec, ScenarioSpec, TrafficSpec};
pub use state::Progress;
pub use tcp::TcpSpec;
pub use workload::{Bulk, Media, Pages, Period, Uploads, Web, WebLoad, Workload};

pub(crate) use responses::ResponseSpool;
pub(crate) use run::{RunControl, check_loads, goal, run_with};
pub(crate) use unused::check_used;

pub(crate) use spec::{check_gso, parse_load, parse_responses, provided, renamed_field};
pub(crate) use workload::split_options;

use crate::stack::{ClockMisreport, Controller, Stack};

/// A checked scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Routers in a row and the links between them.
    pub chain: Chain,
    /// Groups of traffic that use the chain.
    pub traffic: Vec<Traffic>,
    /// Additional packet-level traffic.
    pub background: Vec<Background>,
    /// Condition that ends a run.
    pub stop: Stop,
    /// End of the warm-up. Events before this time are not counted. Only runs that end at a time
    /// have a warm-up.
    pub warm_up: Duration,
    /// Backend that runs the scenario.
    pub backend: Backend,
    /// Extension that carries one-way delays.
    pub timestamps: Timestamps,
    /// Whether endpoints send through a shaping socket.
    pub shaping: Shaping,
    /// Whether endpoints begin with packets of 1200 bytes and discover how large a packet the path
    /// carries, up to the packet size of their traffic.
    pub mtu_discovery: bool,
    /// Maximum number of datagrams that leave a sender in one bundle (GSO). `None` if each datagram
    /// leaves by itself when the stack sends it.
    pub gso: Option<u32>,
    /// Data to keep in addition to counts.
    pub keep: KeepSpec,
}

impl Scenario {
    /// Returns the first event after which the path carries only packets smaller than those of some
    /// traffic; `None` if there is no such event.
    pub(crate) fn shrinking_mtu(&self) -> Option<PathEvent> {
        let largest = self.traffic.iter().map(|traffic| traffic.datagram).max()?;
        let path = self.chain.path.as_deref()?;
        let mut events = [&path.down, &path.up].into_iter().flat_map(|way| &way.impairments.events);
        events
            .find(|event| matches!(event, PathEvent::Mtu { payload, .. } if *payload < largest))
            .copied()
    }

    /// Returns whether the same seed gives the same packets. This holds in virtual time if every
    /// controller has a seed.
    pub fn is_repeatable(&self) -> bool {
        let seeded = |traffic: &Traffic| {
            traffic.mix.iter().all(|(_, controller)| controller.is_repeatable(traffic.stack))
        };
        self.backend.is_virtual() && self.traffic.iter().all(seeded)
    }

    /// Returns the stacks of the groups, each of them once.
    pub fn stacks(&self) -> Vec<Stack> {
        let mut stacks = Vec::new();
        for traffic in &self.traffic {
            if !stacks.contains(&traffic.stack) {
                stacks.push(traffic.stack);
            }
        }
        stacks
    }
}

/// Condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// The run ends after this many completed responses of the counted traffic. Failed requests do
    /// not count. If the counted traffic makes a fixed number of requests, the run also ends when
    /// all of them have completed or failed.
    Responses(u64),
    /// The run ends at this time.
    At(Duration),
}

/// A group of traffic with the same endpoints, route and workload.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Name in results.
    pub name: String,
    /// Stack of both ends of the connections.
    pub stack: Stack,
    /// Stack whose bytes per connection and per byte of body define a computed load.
    pub load_stack: Stack,
    /// TCP settings, if TCP is the stack.
    pub tcp: TcpSettings,
    /// Router of the servers. Response bodies start here; upload bodies end here.
    pub from: usize,
    /// Router of the clients.
    pub to: usize,
    /// Links between hosts and routers.
    pub access: Access,
    /// Whether the clients' packets, which are mostly acknowledgements, queue at the links of the
    /// way back. If `false`, these packets only take the delays of these links.
    pub acks_queue: bool,
    /// Controllers, each with the fraction of the connections that use it. The fractions add up to
    /// 1.
    pub mix: Vec<(f64, Controller)>,
    /// Requests of the clients.
    pub workload: Workload,
    /// Use of connections by requests.
    pub connections: Connections,
    /// UDP payload of a full packet in bytes.
    pub datagram: u16,
    /// Largest window of a sender, which the receiver's flow control enforces.
    pub max_window: MaxWindow,
    /// Largest drift of a client's clock in microseconds per second. Each connection has one of 32
    /// drifts, evenly spread from 0 to this value (Sync-TCP §5.3).
    pub drift: u32,
    /// Way in which the clients misreport time. The clients know the queue of the first link from
    /// the servers. `None` if the clients do not misreport time; their clocks then drift instead.
    pub misreport: Option<ClockMisreport>,
    /// Number of parallel streams that carry a body.
    pub streams: u32,
    /// Time that a user waits for a response before the client closes the connection; `None` if
    /// users wait without limit.
    pub patience: Option<Duration>,
    /// Idle timeout of connections, at both ends.
    pub idle: Duration,
    /// Whether the responses count towards the end of the run.
    pub counted: bool,
}

/// QUIC's smallest maximum datagram size in bytes (RFC 9000 §14.1). Stacks do not choose a smaller
/// size by themselves.
pub(crate) const SMALLEST_STOCK_DATAGRAM: u16 = 1_200;
