//! Topologies. In all five papers, routers form a row, and each host connects to a router by its
//! own access link.

use std::time::Duration;

use fathom_cc::{Invalid, Rate};
use serde::{Deserialize, Serialize};

use fathom_netsim::link::Capacity;
use fathom_netsim::path::{CheckedPath, DirectedPath};
use fathom_netsim::queue::QueueSpec;

/// Routers in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Names of the routers, from left to right.
    pub routers: Vec<String>,
    /// The link from each router to the next, in both directions.
    pub links: Vec<ChainLink>,
    /// Default access links of traffic.
    pub access: Access,
    /// Path from which the chain was built, if any. The chain then has one link with the path's
    /// nominal rate and queues.
    pub path: Option<Box<CheckedPath>>,
}

/// The link between two neighbouring routers. Both directions have the same rate and delay, but
/// separate queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainLink {
    /// Rate of the link in each direction.
    pub rate: Rate,
    /// Propagation delay of the link in each direction.
    pub delay: Duration,
    /// Queue from left to right.
    pub queue: QueueSpec,
    /// Queue from right to left.
    pub back_queue: QueueSpec,
}

/// Access links of a group's hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Number of hosts on each side. Connections take hosts in turn. `None` for one host per flow.
    pub hosts: Option<u32>,
    /// Rate of each access link.
    pub rate: Rate,
    /// Smallest and largest propagation delay. The delay of each host is a random value between
    /// them, uniformly distributed.
    pub delay: (Duration, Duration),
    /// Queue in front of a host's link, towards the router.
    pub queue: QueueSpec,
    /// Access links that have a queue. All other access links only add a fixed delay.
    pub queues: AccessQueues,
}

/// Access links that have a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessQueues {
    /// Links from hosts and links to hosts.
    #[default]
    Both,
    /// Links from hosts. The links to hosts never queue, because packets arrive no faster than
    /// these links send.
    Outbound,
    /// No access links.
    None,
}

/// Queue of access links for which the papers set no limit. It is large enough never to drop
/// packets.
pub(super) const DEEP: QueueSpec = QueueSpec::droptail_packets(1_000_000);

/// Rate of a path without a configured rate. At this rate, packets do not wait for each other.
const FREE: Rate = Rate::from_bits_per_sec(100_000_000_000);
/// Number of hosts on each side of a path whose RTT is a range.
const PATH_HOSTS: u32 = 64;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Chain {
    /// Returns two routers and one link: SDC figure 3, gHSTCP figure 1, Packet size figure 4.1.
    pub fn dumbbell(link: ChainLink) -> Self {
        let access = Access {
            hosts: None,
            rate: Rate::from_bits_per_sec(link.rate.bits_per_sec().saturating_mul(10)),
            delay: (Duration::ZERO, Duration::ZERO),
            queue: DEEP,
            queues: AccessQueues::Both,
        };
        Self { routers: vec!["left".into(), "right".into()], links: vec![link], access, path: None }
    }

    /// Returns the chain of a path: servers on the left, clients on the right. If the RTT is a
    /// range, each client has its own RTT.
    pub fn of_path(path: CheckedPath) -> Self {
        let of = |direction: &DirectedPath| {
            let (capacity, queue) = direction.link.as_ref()?;
            Some((capacity.nominal(), *queue))
        };
        let (rate, queue) = of(&path.down).unwrap_or((FREE, DEEP));
        let (_, back_queue) = of(&path.up).unwrap_or((FREE, DEEP));
        let (low, high) = path.rtt;
        // A client's RTT exceeds the smallest RTT by up to `high - low`. Each of its two hosts adds
        // up to a quarter of this difference in each direction.
        let most = (high - low) / 4;
        let access = Access {
            hosts: (!most.is_zero()).then_some(PATH_HOSTS),
            rate,
            delay: (Duration::ZERO, most),
            queue: DEEP,
            queues: AccessQueues::None,
        };
        let link = ChainLink { rate, delay: path.down.delay, queue, back_queue };
        Self { access, path: Some(Box::new(path)), ..Self::dumbbell(link) }
    }

    /// Checks that the kernel can emulate the links of the path.
    ///
    /// # Errors
    /// Returns an error that names the field of the path that the kernel cannot emulate.
    pub(crate) fn fits_netem(&self) -> Result<(), Invalid> {
        let path = self.path.as_deref();
        let mut capacities = path
            .into_iter()
            .flat_map(|path| [&path.down, &path.up])
            .filter_map(|d| d.link.as_ref());
        match capacities.find(|(capacity, _)| !matches!(capacity, Capacity::Fixed(_))) {
            None => Ok(()),
            Some((Capacity::Steps(..), _)) => {
                Err(Invalid::because("the links of the kernel cannot change their rate")
                    .hint("leave out the steps of the rate, or use the backend virtual or loopback")
                    .in_field("event"))
            }
            Some(_) => Err(Invalid::because("the links of the kernel need a rate, not a trace")
                .hint("write a rate, or use the backend virtual or loopback")
                .in_field("trace")),
        }
    }

    /// Returns one direction of the path, or `None` if the topology is not a path.
    pub fn direction(&self, leftwards: bool) -> Option<&DirectedPath> {
        self.path.as_deref().map(|path| if leftwards { &path.up } else { &path.down })
    }

    /// Returns the single-bottleneck network of Sync-TCP (Sync-TCP §4.1, figure 3) as two routers.
    /// The network has seven links of 1 ms each way, one rate for all links, and five hosts on each
    /// side. Links behind the bottleneck have its rate, so they never queue.
    pub fn one_bottleneck(rate: Rate, queue: QueueSpec) -> Self {
        let link = ChainLink { rate, delay: ms(5), queue, back_queue: queue };
        Self {
            access: Access { queues: AccessQueues::Outbound, ..sync_tcp_access(rate) },
            ..Self::dumbbell(link)
        }
    }

    /// Returns the parking lot with six routers, R0 to R5 (Sync-TCP §4.1, figure 3). Every link,
    /// including access links, has the same rate and a delay of 1 ms. Five hosts feed each router
    /// on each interface.
    pub fn parking_lot(rate: Rate, queue: QueueSpec) -> Self {
        let link = ChainLink { rate, delay: ms(1), queue, back_queue: queue };
        Self {
            routers: (0..6).map(|n| format!("r{n}")).collect(),
            links: vec![link; 5],
            access: sync_tcp_access(rate),
            path: None,
        }
    }

    /// Returns the path to Arizona State University (DCA figure 4-1-2), which has 14 routers. The
    /// figure gives the queue in packets, the delay and the capacity of each link from left to
    /// right.
    pub fn asu() -> Self {
        // Packets, microseconds and Mbps of the links r1-r2 to r13-r14. The figure has one more
        // column of delays and capacities than of queues. If the queues are assigned to r1 to r14
        // in order, the long queues precede the slow links 4-5, 8-9 and 10-11.
        let links = [
            (200, 500, 155),
            (200, 100, 155),
            (200, 250, 155),
            (900, 3_500, 45),
            (200, 70, 155),
            (200, 500, 155),
            (200, 500, 155),
            (600, 900, 100),
            (200, 25_000, 155),
            (900, 500, 45),
            (200, 400, 155),
            (200, 250, 100),
            (200, 500, 100),
        ];
        Self::of_figures(&links, Duration::from_micros(100))
    }

    /// Returns the path to Emory University. The paper has no figure of this path, only some facts
    /// (DCA §4.1 and table 3-2): 12 hops, a round trip of 66 ms, access links of 10 Mbps, loss at
    /// the links 4-5, 7-8 and 10-11, and a queue of 200 packets at link 7-8. The rates of the other
    /// links and the distribution of the delay are our choice.
    pub fn emory() -> Self {
        let links = [
            (200, 500, 155),
            (200, 100, 155),
            (200, 250, 155),
            (200, 3_500, 45),
            (200, 500, 155),
            (200, 500, 155),
            (200, 12_000, 45),
            (200, 500, 155),
            (200, 500, 155),
            (200, 3_500, 45),
        ];
        Self::of_figures(&links, Duration::from_micros(100))
    }

    fn of_figures(links: &[(usize, u64, u64)], access_delay: Duration) -> Self {
        let rate = |mbps: u64| Rate::from_bits_per_sec(mbps * 1_000_000);
        let links: Vec<ChainLink> = links
            .iter()
            .map(|&(packets, micros, mbps)| {
                let queue = QueueSpec::droptail_packets(packets);
                ChainLink {
                    rate: rate(mbps),
                    delay: Duration::from_micros(micros),
                    queue,
                    back_queue: queue,
                }
            })
            .collect();
        let access = Access {
            hosts: None,
            rate: rate(10),
            delay: (access_delay, access_delay),
            queue: QueueSpec::droptail_packets(200),
            queues: AccessQueues::Both,
        };
        Self {
            routers: (1..=links.len() + 1).map(|n| format!("r{n}")).collect(),
            links,
            access,
            path: None,
        }
    }

    /// Returns the router with this name.
    pub fn router(&self, name: &str) -> Option<usize> {
        self.routers.iter().position(|r| r == name)
    }

    /// Returns every link in each direction, from left to right and back: the numbers of its end
    /// routers, and its name in results.
    pub fn directed(&self) -> impl Iterator<Item = (usize, usize, String)> + '_ {
        let name = |a: usize, b: usize| format!("{}-{}", self.routers[a], self.routers[b]);
        (0..self.links.len())
            .flat_map(move |i| [(i, i + 1, name(i, i + 1)), (i + 1, i, name(i + 1, i))])
    }
}

/// Returns the access links of Sync-TCP §4.1. For their queues, the paper gives no limit other
/// than that of "each router".
const fn sync_tcp_access(rate: Rate) -> Access {
    Access {
        hosts: Some(5),
        rate,
        delay: (ms(1), ms(1)),
        queue: QueueSpec::droptail_packets(136),
        queues: AccessQueues::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parking_lot_topology_has_seven_links_and_14_ms_rtt() {
        let lot = Chain::parking_lot(
            Rate::from_bits_per_sec(10_000_000),
            QueueSpec::droptail_packets(136),
        );
        let one_way: Duration =
            lot.links.iter().map(|l| l.delay).sum::<Duration>() + 2 * lot.access.delay.0;
        assert_eq!((lot.routers.len(), one_way * 2), (6, ms(14)));
        let one = Chain::one_bottleneck(
            Rate::from_bits_per_sec(10_000_000),
            QueueSpec::droptail_packets(136),
        );
        assert_eq!((one.links[0].delay + 2 * one.access.delay.0) * 2, ms(14));
    }

    #[test]
    fn dca_paper_topologies_have_the_published_hops_and_delays() {
        // Figure 4-1-2: 14 routers. Link 8-9 is the slow one in the middle, 9-10 the long one.
        let asu = Chain::asu();
        assert_eq!(asu.routers.len(), 14);
        let named = |chain: &Chain, name: &str| {
            let (left, _, _) = chain.directed().find(|(_, _, n)| n == name).unwrap();
            chain.links[left]
        };
        assert_eq!(named(&asu, "r8-r9").rate, Rate::from_bits_per_sec(100_000_000));
        assert_eq!(named(&asu, "r9-r10").delay, ms(25));
        assert_eq!(named(&asu, "r4-r5").rate, Rate::from_bits_per_sec(45_000_000));
        // Table 3-1 has 12 hops, including the access links. Table 3-2 has a mean round trip of
        // 66 ms, including queueing.
        let emory = Chain::emory();
        assert_eq!(emory.links.len() + 2, 12);
        let base: Duration =
            emory.links.iter().map(|l| l.delay).sum::<Duration>() * 2 + 4 * emory.access.delay.0;
        assert!(base < ms(66) && base > ms(40), "{base:?}");
    }
}
