//! The paper's single-bottleneck network (Sync-TCP §4.1, figure 3): five access links into each router on each side, seven links of
//! 1 ms each way end to end, one rate for all of them.
//!
//! Links behind the bottleneck have its rate, so nothing ever queues there: they are a fixed delay.

use std::time::Duration;

use fathom_cc::Rate;

use fathom_netsim::backend::Backend;
use fathom_netsim::backend::RouterLink;
use fathom_netsim::link::Link;
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::sim::{Group, GroupId, Hop, LinkId, Path, SimHandle, SocketId};

/// End systems behind each router on each interface.
pub(crate) const CLOUDS: usize = 5;
/// Propagation delay of every link.
const PROPAGATION: Duration = Duration::from_millis(1);
/// Links of an end-to-end path.
const LINKS: u32 = 7;
/// Queue of an access link: no limit is given in the paper beyond "each router"; five of them feed one bottleneck, so that is where
/// drops happen.
const ACCESS_QUEUE: QueueSpec = QueueSpec::droptail_packets(136);

/// Both ends of one direction of traffic: where its clients and servers attach.
#[derive(Clone, Copy)]
pub(crate) struct Sockets {
    pub(crate) client: SocketId,
    pub(crate) server: SocketId,
}

/// The network of one run.
pub(crate) struct Dumbbell {
    /// Bottleneck that forward data crosses, and that reverse data crosses.
    pub(crate) bottleneck: [LinkId; 2],
    /// The bottlenecks as the kernel has them, in the netem backend.
    pub(crate) router: Vec<RouterLink>,
    /// All access links.
    pub(crate) access: Vec<LinkId>,
    /// Groups of the forward traffic and of the reverse traffic, one per cloud.
    pub(crate) groups: [Vec<GroupId>; 2],
}

/// Queue limit of the access links, for the run's own checks.
pub(crate) fn access_limit(rate: Rate) -> Option<usize> {
    ACCESS_QUEUE.packet_limit(rate)
}

impl Dumbbell {
    /// Builds the links and groups; `ends` are the sockets of forward and reverse traffic. `shares`: what each flow gets of the
    /// bottleneck is kept.
    pub(crate) fn build(
        sim: &SimHandle,
        backend: Backend,
        rate: Rate,
        queue: &QueueSpec,
        seed: u64,
        ends: [Sockets; 2],
        shares: bool,
    ) -> Self {
        let bottleneck = [0, 1].map(|direction| {
            // Each queue has its own random numbers.
            let queue = queue.build(rate, seed.wrapping_mul(2).wrapping_add(direction));
            let link = Link::new(rate, queue).with_series();
            sim.add_link(if shares && direction == 0 { link.with_shares() } else { link })
        });
        // There the kernel delays, too, before its queue: where on the way does not matter to anybody.
        let (before, after) = match backend {
            Backend::Netem => (Duration::ZERO, Duration::ZERO),
            Backend::Virtual | Backend::Loopback => (PROPAGATION, PROPAGATION * (LINKS - 1)),
        };
        let router = bottleneck.map(|link| RouterLink { link, rate, queue: *queue, delay: PROPAGATION * LINKS });
        let mut access = Vec::new();
        let mut path = |through: LinkId| {
            let first = sim.add_link(Link::new(rate, ACCESS_QUEUE.build(rate, 0)));
            access.push(first);
            Path {
                hops: vec![Hop { delay: Duration::ZERO, link: first }, Hop { delay: before, link: through }],
                tail: after,
            }
        };
        let groups = [0, 1].map(|direction| {
            (0..CLOUDS)
                .map(|_| {
                    let down = path(bottleneck[direction]);
                    let up = path(bottleneck[1 - direction]);
                    sim.add_group(Group { client: ends[direction].client, server: ends[direction].server, down, up })
                })
                .collect()
        });
        Self { bottleneck, router: router.to_vec(), access, groups }
    }
}
