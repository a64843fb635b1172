//! Adds a checked path to a simulation: its links, queues and impairments.

use fathom_units::Rate;

use super::handle::SimHandle;
use super::network::Path;
use crate::hash::mix;
use crate::link::Link;
use crate::path::{CheckedPath, DirectedPath, Impairer};
use crate::queue::DropTail;

/// Rate of a link that exists only for its impairments. At this rate, packets do not wait for each
/// other.
const FREE: Rate = Rate::from_bits_per_sec(100_000_000_000);
/// Queue in packets of a link that exists only for its impairments.
const NEVER_FULL: usize = 1_000_000;

impl SimHandle {
    /// Adds the links, queues and impairments of a path. Returns the paths from server to client
    /// and from client to server, for a [`Group`](super::Group).
    ///
    /// `seed` is the seed of all randomness of the path: queues, trace models, loss, jitter. If the
    /// path has a range of RTTs, its flows have the smallest RTT. Add the difference with
    /// [`SimHandle::add_flow_with_delays`].
    pub fn add_path(&self, path: &CheckedPath, seed: u64) -> (Path, Path) {
        (
            self.add_direction(&path.down, mix(&[seed, 0])),
            self.add_direction(&path.up, mix(&[seed, 1])),
        )
    }

    fn add_direction(&self, direction: &DirectedPath, seed: u64) -> Path {
        let DirectedPath { link, delay, impairments } = direction;
        let [queue_seed, capacity_seed, impairer_seed] = [0, 1, 2].map(|part| mix(&[seed, part]));
        let link = match link {
            Some((capacity, queue)) => {
                let queue = queue.build(capacity.nominal(), queue_seed);
                Link::new(capacity.of_seed(capacity_seed), queue)
            }
            None if impairments.is_none() => return Path::direct(*delay),
            None => Link::new(FREE, Box::new(DropTail::packets(NEVER_FULL))),
        };
        let link = self.add_link(link);
        if !impairments.is_none() {
            self.impair(link, Impairer::new(impairments.clone(), *delay, impairer_seed));
        }
        Path::over(link, *delay)
    }
}

#[cfg(test)]
mod tests {
    use fathom_units::Time;

    use crate::path::PathSpec;
    use crate::sim::{Executor, Group, server_address};

    /// Sends 200 datagrams up the path of `spec`, one per millisecond. Returns the trace hash and
    /// the number delivered.
    fn delivered(spec: &PathSpec, seed: u64) -> (u64, u64) {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let (down, up) = sim.add_path(&spec.check_simulated().unwrap(), seed);
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let group = Group { client: client.id(), server: server.id(), down, up };
        let flow = sim.add_flow(sim.add_group(group));
        let send = async {
            for n in 0..200 {
                sim.sleep_until(Time::from_millis(n)).await;
                client.send(server_address(flow), None, None, &[0; 972], None);
            }
        };
        executor.block_on(send, Time::from_millis(1_000)).unwrap();
        executor.run(Time::from_millis(2_000));
        (sim.trace_hash(), sim.net_stats().delivered)
    }

    #[test]
    fn simulated_path_has_the_rate_and_impairments_of_its_options() {
        let free = PathSpec { rtt: Some("20ms".into()), ..PathSpec::default() };
        assert_eq!(delivered(&free, 1).1, 200);
        let lossy = PathSpec { loss: Some("20%".into()), ..free.clone() };
        let (first, again, other) =
            (delivered(&lossy, 1), delivered(&lossy, 1), delivered(&lossy, 2));
        assert!(first == again && first.0 != other.0, "the seed chooses the losses");
        assert!((120..190).contains(&first.1), "{first:?}");
        let slow =
            PathSpec { rate: Some("800kbps".into()), queue: Some("droptail:5p".into()), ..free };
        // A packet takes 10 ms, so that 20 of them leave while 200 arrive.
        assert!((24..=28).contains(&delivered(&slow, 1).1));
    }
}
