//! Scenarios: a chain of routers, traffic over it, and what to measure. A run of one is a pure function of scenario and seed.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec.rs` | a scenario as written in TOML, and its checks |
//! | `chain.rs` | the topologies: routers in a row, after each paper |
//! | `background.rs` | packet-level flows that load the links besides |
//! | `load.rs` | what a workload offers: rates of new connections for a wanted load |
//! | `tcp.rs` | how TCP sends and acknowledges, where it is the stack |
//! | `max_window.rs` | the largest window of a sender, as plans write it |
//! | `source.rs` | the requests of one group of traffic |
//! | `traffic.rs` | the clients and servers of one group |
//! | `state.rs` | the state and statistics of a run |
//! | `seeds.rs` | the one place where the seeds of a run's parts come from |
//! | `run.rs` | sets everything up, runs it, checks its counters |
//! | `responses.rs` | single responses, in a temporary file |
//! | `outcome.rs` | what a run says in the end, as data |
//! | `cost.rs` | what it cost this machine |

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
mod source;
mod spec;
mod state;
mod tcp;
mod traffic;
mod unused;

use std::time::Duration;

use fathom_cc::Rate;
use fathom_netsim::backend::Backend;
use fathom_netsim::path::PathEvent;

pub use background::{Background, BackgroundOutcome, Load};
pub use chain::{Access, AccessQueues, Chain, ChainLink};
pub use cost::Cost;
pub use error::{PlanError, RunError, ScenarioError};
pub use fathom_traffic::{Arrivals, PageShape};
pub use limit_outcome::{LimitOutcome, LimitTimes, SentPackets};
pub use max_window::MaxWindow;
pub use outcome::{
    ComputedLoad, DropsOverTime, FlowOutcome, GroupOutcome, ImpairmentOutcome, LinkOutcome,
    Outcome, PacketDelay, RttOutcome, SharesOverTime, TcpOutcome, TracedOutcome,
};
pub use responses::{ResponseKind, ResponseResult, ResponseRow};
pub use run::run;
pub use settings::{Connections, MediaTransport, Resume, Resumption, Shaping, Timestamps};
pub use spec::{AccessSpec, BackgroundSpec, KeepSpec, NetworkSpec, ScenarioSpec, TrafficSpec};
pub use state::Progress;
pub use tcp::{TcpSettings, TcpSpec};

pub(crate) use responses::ResponseSpool;
pub(crate) use run::{RunControl, check_loads, goal, run_with};
pub(crate) use unused::check_used;

pub(crate) use spec::{
    RENAMED, check_gso, parse_load, parse_responses, provided, read_toml, split_options,
    toml_message,
};

use crate::stack::{ClockMisreport, Controller, Stack};

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Routers in a row and the links between them.
    pub chain: Chain,
    /// Who sends over them.
    pub traffic: Vec<Traffic>,
    /// Packet-level traffic besides.
    pub background: Vec<Background>,
    /// When a run ends.
    pub stop: Stop,
    /// Time before which nothing is counted, where a run ends at a time.
    pub warm_up: Duration,
    /// Where it runs.
    pub backend: Backend,
    /// How one-way delays travel.
    pub timestamps: Timestamps,
    /// Whether endpoints send through a shaping socket.
    pub shaping: Shaping,
    /// Whether endpoints begin with packets of 1200 bytes and find out how large a packet the path carries, up to the size of their traffic.
    pub mtu_discovery: bool,
    /// Datagrams that leave their sender at once at most (GSO); `None`: each leaves when the stack sends it.
    pub gso: Option<u32>,
    /// What is kept besides counts.
    pub keep: KeepSpec,
}

impl Scenario {
    /// The event that makes its path carry smaller packets than some traffic sends, if there is one.
    pub(crate) fn shrinking_mtu(&self) -> Option<PathEvent> {
        let largest = self.traffic.iter().map(|traffic| traffic.datagram).max()?;
        let path = self.chain.path.as_deref()?;
        let mut events = [&path.down, &path.up].into_iter().flat_map(|way| &way.impairments.events);
        events
            .find(|event| matches!(event, PathEvent::Mtu { payload, .. } if *payload < largest))
            .copied()
    }

    /// Returns whether the same seed gives the same packets: in virtual time, if every controller has
    /// a seed.
    pub fn is_repeatable(&self) -> bool {
        let seeded = |traffic: &Traffic| {
            traffic.mix.iter().all(|(_, controller)| controller.is_repeatable(traffic.stack))
        };
        self.backend.is_virtual() && self.traffic.iter().all(seeded)
    }

    /// Stacks of its groups, each once.
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

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After so many completed responses of the counted traffic; requests that fail are counted beside. Counted downloads that have an end
    /// may be over before.
    Responses(u64),
    /// At this time.
    At(Duration),
}

/// A group of traffic: the same endpoints, route and workload.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Its name in results.
    pub name: String,
    /// Stack of both ends of its connections.
    pub stack: Stack,
    /// Stack whose costs a computed load is of.
    pub load_stack: Stack,
    /// How TCP sends, where that is its stack.
    pub tcp: TcpSettings,
    /// Router behind which its servers are: bodies travel from here.
    pub from: usize,
    /// Router behind which its clients are.
    pub to: usize,
    /// Links between hosts and routers.
    pub access: Access,
    /// What its clients send, acknowledgements above all, crosses the links of the way; `false`: it only takes their delays.
    pub acks_queue: bool,
    /// Controllers of its connections and the part of the connections that each has. The parts sum to 1.
    pub mix: Vec<(f64, Controller)>,
    /// What its clients ask for.
    pub workload: Workload,
    /// How its requests use connections.
    pub connections: Connections,
    /// UDP payload of a full packet in bytes.
    pub datagram: u16,
    /// Largest window of a sender, by the receiver's flow control.
    pub max_window: MaxWindow,
    /// Largest drift of a client's clock in microseconds per second; each connection's is drawn evenly from 0 to it (Sync-TCP §5.3).
    pub drift: u32,
    /// How its clients misreport time, knowing the queue of the first link of their way; `None`: they do not, and drift.
    pub misreport: Option<ClockMisreport>,
    /// Streams that a body travels over at once.
    pub streams: u32,
    /// How long a user waits for a response before the client closes the connection; `None`: for ever.
    pub patience: Option<Duration>,
    /// Longest silence before either end gives a connection up.
    pub idle: Duration,
    /// Its responses count towards the end of the run.
    pub counted: bool,
}

/// What the clients of a group ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Web traffic (PackMime).
    Web {
        /// How much of it.
        load: WebLoad,
        /// Servers think before they answer (PackMime's server delay).
        server_delay: bool,
        /// How requests arrive.
        arrivals: Arrivals,
        /// When they do.
        period: Period,
        /// How their connections resume sessions.
        resumption: Resumption,
    },
    /// This many downloads that outlast the run (`bytes` `None`) or have a size, their starts spread evenly over `spread`.
    Bulk {
        /// How many at once.
        flows: u32,
        /// Size of each; `None`: they last as long as the run.
        bytes: Option<u64>,
        /// Time from the first start to the last.
        spread: Duration,
        /// When the first starts: on a network that background traffic has filled.
        after: Duration,
    },
    /// Uploads, one connection each: the request has a body, and the server answers when it has all of it. Bodies travel from `to` to
    /// `from`.
    Uploads {
        /// How many.
        count: u32,
        /// Size of each in bytes.
        bytes: u64,
        /// Time from the first start to the last.
        spread: Duration,
    },
    /// Pages as browsers load them: visits of page views; a response is a page view.
    Pages {
        /// How much of it: `Connections` are page views per second.
        load: WebLoad,
        /// What pages consist of.
        shape: PageShape,
        /// When visits begin.
        period: Period,
        /// Clients send the `priority` header and servers send what is urgent first (RFC 9218).
        priorities: bool,
        /// Requests that a client has open at once, at most.
        in_flight: u32,
        /// How its connections resume sessions.
        resumption: Resumption,
    },
    /// Live media: streams of frames with a deadline; a response is a frame.
    Media {
        /// Streams, a client and a connection each.
        streams: u32,
        /// Bits per second of a stream's frames.
        rate: Rate,
        /// Frames per second.
        fps: u32,
        /// How long after its capture a frame has to be at the client.
        deadline: Duration,
        /// How long a stream lasts; `None`: as long as the run.
        length: Option<Duration>,
        /// How frames travel.
        transport: MediaTransport,
    },
}

/// The part of a run in which requests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// From here on.
    pub from: Duration,
    /// Up to here; `None`: to the end of the run.
    pub until: Option<Duration>,
}

/// How much web traffic comes, or how many pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WebLoad {
    /// As many connections as offer this fraction of a link's rate. How many is computed from what a connection and a byte of its body
    /// cost on a network that does not queue.
    Computed {
        /// Part of `of` that the group's bodies, with all headers, fill on average.
        part: f64,
        /// Rate that `part` is a part of.
        of: Rate,
    },
    /// So many new connections per second; of pages, so many page views per second.
    Connections(f64),
}

/// QUIC's smallest largest datagram (RFC 9000 §14.1): what a stack sends by itself is no smaller.
pub(crate) const SMALLEST_STOCK_DATAGRAM: u16 = 1_200;
