//! Bundles of datagrams that a host hands to its network card at once (generic segmentation
//! offload, GSO). The datagrams of a bundle enter the first link back to back.
//!
//! As in Linux's GSO, all datagrams of a bundle except the last one have the same size. A smaller
//! datagram ends its bundle, and a larger datagram ends the bundle before it. A datagram below 1200
//! bytes, such as an acknowledgement, opens no bundle and leaves at once. A bundle leaves when it
//! is full, or at the latest `within` after its first datagram. Linux's TCP bundles the data of one
//! millisecond (`tcp_tso_autosize`, `sk_pacing_shift`).

use std::time::Duration;

use super::core::{Core, Event};
use super::handle::SimHandle;
use super::open_bundles::Bundle;

/// Size in bytes of the smallest datagram that waits for further datagrams. It is the smallest full
/// datagram of QUIC (RFC 9000 §14.1).
const FULL: usize = 1_200;

impl SimHandle {
    /// Makes the datagrams of stacks leave in bundles from now on. A bundle has at most `most`
    /// datagrams and leaves at most `within` after its first datagram.
    pub fn bundle_datagrams(&self, most: usize, within: Duration) {
        let bundles = &mut self.core().bundles;
        (bundles.most, bundles.within) = (most, within);
    }
}

impl Core {
    /// Handles a datagram of `size` bytes that is ready to leave its sender.
    pub(super) fn hand_over(&mut self, packet: u32, flow: u32, from_server: bool, size: usize) {
        if self.bundles.most < 2 {
            return self.set_off(packet);
        }
        let place = flow as usize * 2 + usize::from(from_server);
        if place >= self.bundles.open.len() {
            self.bundles.open.resize_with(place + 1, Bundle::default);
        }
        let bundle = &self.bundles.open[place];
        if !bundle.packets.is_empty() && size > bundle.size {
            self.flush(place);
        }
        let bundle = &mut self.bundles.open[place];
        if bundle.packets.is_empty() {
            if size < FULL {
                return self.set_off(packet);
            }
            (bundle.size, bundle.opened) = (size, self.now);
            let due = self.now + self.bundles.within;
            self.schedule(due, Event::Bundle(place as u32));
        }
        let most = self.bundles.most;
        let bundle = &mut self.bundles.open[place];
        bundle.packets.push(packet);
        if bundle.packets.len() >= most || size < bundle.size {
            self.flush(place);
        }
    }

    /// Sends a bundle if it has waited long enough.
    pub(super) fn bundle_is_due(&mut self, place: u32) {
        let place = place as usize;
        if self
            .bundles
            .open
            .get(place)
            .is_some_and(|bundle| bundle.opened + self.bundles.within <= self.now)
        {
            self.flush(place);
        }
    }

    fn flush(&mut self, place: usize) {
        let mut packets = std::mem::take(&mut self.bundles.open[place].packets);
        for packet in packets.drain(..) {
            self.set_off(packet);
        }
        // Keep the storage for the next bundle.
        self.bundles.open[place].packets = packets;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathom_units::{Rate, Time};

    use crate::link::Link;
    use crate::queue::DropTail;
    use crate::sim::{Executor, Group, Path, server_address};

    /// Returns the times at which datagrams of these sizes, sent at these times, enter the link
    /// (microseconds).
    fn entered(most: usize, sent: &[(u64, usize)]) -> Vec<u64> {
        let mut executor = Executor::new();
        let sim = executor.sim();
        sim.bundle_datagrams(most, Duration::from_millis(1));
        let queue = Box::new(DropTail::packets(100));
        let link =
            sim.add_link(Link::new(Rate::from_bits_per_sec(10_000_000_000), queue).with_log());
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let up = Path::over(link, Duration::ZERO);
        let group = Group {
            client: client.id(),
            server: server.id(),
            down: Path::direct(Duration::ZERO),
            up,
        };
        let group = sim.add_group(group);
        let flow = sim.add_flow(group);
        for &(at, size) in sent {
            let (sim, client) = (sim.clone(), client.clone());
            executor.sim().spawn(async move {
                sim.sleep_until(Time::from_nanos(at * 1_000)).await;
                client.send(server_address(flow), None, None, &vec![0; size], None);
            });
        }
        executor.run(Time::from_millis(1_000));
        let stats = sim.net_stats();
        assert_eq!((stats.sent, stats.delivered), (sent.len() as u64, sent.len() as u64));
        sim.link_log(link).iter().map(|packet| packet.arrived.as_nanos() / 1_000).collect()
    }

    #[test]
    fn bundles_contain_datagrams_of_one_size() {
        let full = [0, 100, 200, 300, 400].map(|at| (at, 1_392));
        assert_eq!(entered(0, &full), [0, 100, 200, 300, 400]);
        assert_eq!(entered(1, &full), [0, 100, 200, 300, 400]);
        // Two full bundles, and one that waits a millisecond for more.
        assert_eq!(entered(2, &full), [100, 100, 300, 300, 1_400]);
        assert_eq!(entered(64, &full), [1_000; 5]);
        // A smaller datagram is the last of its bundle, an acknowledgement leaves at once, and a
        // larger datagram begins another bundle.
        assert_eq!(entered(64, &[(0, 1_392), (10, 1_392), (20, 700), (30, 40)]), [20, 20, 20, 30]);
        assert_eq!(entered(64, &[(0, 1_200), (10, 1_392), (20, 1_392)]), [10, 1_010, 1_010]);
    }
}
