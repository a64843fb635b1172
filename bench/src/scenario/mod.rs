//! Scenarios: a chain of routers, traffic over it, and what to measure. A run of one is a pure function of scenario and seed.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec.rs` | a scenario as written in TOML, and its checks |
//! | `chain.rs` | the topologies: routers in a row, after each paper |
//! | `background.rs` | packet-level flows that load the links besides |
//! | `load.rs` | what a workload offers: rates of new connections for a wanted load |
//! | `source.rs` | the requests of one group of traffic |
//! | `traffic.rs` | the clients and servers of one group |
//! | `state.rs` | the state and statistics of a run |
//! | `run.rs` | sets everything up, runs it, checks its counters |
//! | `outcome.rs` | what a run says in the end, as data |

mod background;
mod chain;
mod load;
mod outcome;
mod recorder;
mod run;
mod source;
mod spec;
mod state;
mod traffic;

use std::time::Duration;

use fathom_cc::Rate;

pub use background::{Background, BackgroundOutcome, Load};
pub use chain::{Access, Chain, ChainLink};
pub use outcome::{FlowOutcome, GroupOutcome, LinkOutcome, Outcome, RttOutcome, TracedOutcome};
pub use run::{ScenarioError, goal, run};
pub use spec::{AccessSpec, BackgroundSpec, KeepSpec, NetworkSpec, ScenarioSpec, TrafficSpec};

use crate::experiment::Timestamps;
use crate::stack::{Control, Stack};
use fathom_netsim::backend::Backend;

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
    /// Stack of both ends of every connection.
    pub stack: Stack,
    /// Where it runs.
    pub backend: Backend,
    /// How one-way delays travel.
    pub timestamps: Timestamps,
    /// What is kept besides counts.
    pub keep: KeepSpec,
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
    /// Router behind which its servers are: bodies travel from here.
    pub from: usize,
    /// Router behind which its clients are.
    pub to: usize,
    /// Links between hosts and routers.
    pub access: Access,
    /// Controllers of its connections and the part of the connections that each has. The parts sum to 1.
    pub mix: Vec<(f64, Control)>,
    /// What its clients ask for.
    pub workload: Workload,
    /// UDP payload of a full packet in bytes.
    pub datagram: u16,
    /// Largest window of a sender in packets, by the receiver's flow control.
    pub max_window: Option<u32>,
    /// Largest drift of a client's clock in microseconds per second; each connection's is drawn evenly from 0 to it (Sync-TCP §5.3).
    pub drift: u32,
    /// Streams that a body travels over at once.
    pub streams: u32,
    /// Its responses count towards the end of the run.
    pub counted: bool,
}

/// What the clients of a group ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Web traffic (PackMime): new connections at a rate that offers this fraction of a link's rate.
    Web {
        /// Part of `of` that the group's bodies, with all headers, fill on average.
        load: f64,
        /// Rate that `load` is a part of.
        of: Rate,
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
}

/// QUIC's smallest largest datagram (RFC 9000 §14.1): what a stack sends by itself is no smaller.
pub(crate) const SMALLEST_STOCK_DATAGRAM: u16 = 1_200;
