//! Counts of a flow's datagrams over three spans of time: the whole life of the flow, the time
//! after the warm-up, and the start of the flow.

use std::ops::AddAssign;
use std::time::Duration;

use fathom_units::Time;

/// Datagrams that a flow's server sent, and their fate. If the flow counts its client's datagrams
/// ([`SimHandle::count_client`](super::SimHandle::count_client)), all fields refer to the client's
/// datagrams instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Sent datagrams that a queue dropped.
    pub dropped: u64,
    /// Sent datagrams that impairments dropped.
    pub impaired: u64,
    /// Bytes of UDP payload that reached the other end. For an agent's packets, the counted bytes
    /// minus IP and UDP headers.
    pub delivered: u64,
}

impl FlowCounts {
    /// Returns the datagrams lost: dropped by a queue or by impairments.
    pub const fn lost(&self) -> u64 {
        self.dropped + self.impaired
    }
}

impl AddAssign for FlowCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.impaired += other.impaired;
        self.delivered += other.delivered;
    }
}

/// Length of the start of a flow, which [`FlowSpans::start_up`] counts: five seconds from the
/// opening of its connection. Slow start doubles the window in each round trip, so five seconds
/// allow ten doublings at round trips of up to 0.5 s.
pub const START_UP: Duration = Duration::from_secs(5);

/// Counts of one flow over three spans of time.
///
/// A datagram belongs to a span by the time at which it was sent, even if it is lost later. Thus,
/// no span has more lost than sent datagrams. Bytes belong to a span by the time at which they
/// arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSpans {
    /// Counts over the whole life of the flow.
    pub whole: FlowCounts,
    /// Counts since the end of the warm-up, as set by
    /// [`SimHandle::count_from`](super::SimHandle::count_from).
    pub counted: FlowCounts,
    /// Counts over the first [`START_UP`] of the flow, whatever the warm-up is.
    pub start_up: FlowCounts,
}

impl AddAssign for FlowSpans {
    fn add_assign(&mut self, other: Self) {
        self.whole += other.whole;
        self.counted += other.counted;
        self.start_up += other.start_up;
    }
}

impl FlowSpans {
    /// Counts an event at time `at` of a flow that began at `began`, if counting begins at `from`.
    pub(super) fn count(
        &mut self,
        (began, from): (Time, Time),
        at: Time,
        count: impl Fn(&mut FlowCounts),
    ) {
        count(&mut self.whole);
        if at >= from {
            count(&mut self.counted);
        }
        if at < began + START_UP {
            count(&mut self.start_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_units::Rate;

    use super::*;
    use crate::link::Link;
    use crate::queue::QueueSpec;
    use crate::sim::{Executor, Group, Hop, LinkId, Path, SimHandle, server_address};

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a link of 80 kbps, which takes 100 ms for a datagram of 972 bytes. It has room for
    /// two packets, including the one in transmission.
    fn narrow(sim: &SimHandle) -> LinkId {
        let rate = Rate::from_bits_per_sec(80_000);
        sim.add_link(Link::new(rate, QueueSpec::droptail_packets(2).build(rate, 0)))
    }

    /// Sends bursts of datagrams of 972 bytes at the given times, from the server or the client of
    /// a flow that begins at 1 s.
    fn spans(bursts: &[(Duration, u32)], up: bool, before_the_link: Duration) -> FlowSpans {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let hop = Hop { delay: before_the_link, link: narrow(&sim) };
        let path = Path { hops: vec![hop], tail: Duration::ZERO };
        let group =
            Group { client: client.id(), server: server.id(), down: path.clone(), up: path };
        let group = sim.add_group(group);
        sim.count_from(Time::ZERO + 4 * SECOND);
        let (task, bursts) = (sim.clone(), bursts.to_vec());
        sim.spawn(async move {
            task.sleep_until(Time::ZERO + SECOND).await;
            let flow = task.add_flow(group);
            if up {
                task.count_client(flow);
            }
            let server_address = server_address(flow);
            let (sender, to) =
                if up { (client, server_address) } else { (server, client.address()) };
            for (at, count) in bursts {
                task.sleep_until(Time::ZERO + at).await;
                for _ in 0..count {
                    sender.send(to, Some(server_address.ip()), None, &[0; 972], None);
                }
            }
        });
        executor.run(Time::from_millis(60_000));
        sim.flow_spans(0)
    }

    fn counts(sent: u64, dropped: u64, delivered: u64) -> FlowCounts {
        FlowCounts { sent, dropped, impaired: 0, delivered: 972 * delivered }
    }

    #[test]
    fn datagrams_are_counted_in_the_time_span_of_their_sending() {
        // Two datagrams of each burst fit. `counted` begins at 4 s, so it has the second and the
        // third burst. Start-up lasts from 1 to 6 s, so it has the first and the second.
        let bursts = [(2 * SECOND, 5), (5 * SECOND, 4), (7 * SECOND, 3)];
        for up in [false, true] {
            let spans = spans(&bursts, up, Duration::ZERO);
            assert_eq!(spans.whole, counts(12, 6, 6), "up: {up}");
            assert_eq!(spans.counted, counts(7, 3, 4), "up: {up}");
            assert_eq!(spans.start_up, counts(9, 5, 4), "up: {up}");
            assert_eq!(spans.whole.lost(), 6);
        }
    }

    #[test]
    fn losses_are_counted_at_the_time_of_sending() {
        // Sent at 3.95 s, at the link 100 ms later: lost, or delivered, after the end of the
        // warm-up.
        let spans = spans(&[(Duration::from_millis(3_950), 5)], false, Duration::from_millis(100));
        assert_eq!(spans.whole, counts(5, 3, 2));
        assert_eq!(
            spans.counted,
            counts(0, 0, 2),
            "no more lost than sent; bytes count when they arrive"
        );
    }

    #[test]
    fn bounds_of_counting_time_spans_are_exact() {
        let nanosecond = Duration::from_nanos(1);
        let [before, at] = [4 * SECOND - nanosecond, 4 * SECOND]
            .map(|at| spans(&[(at, 1)], false, Duration::ZERO));
        assert_eq!((before.counted.sent, at.counted.sent), (0, 1), "the warm-up ends before 4 s");
        let [before, at] = [6 * SECOND - nanosecond, 6 * SECOND]
            .map(|at| spans(&[(at, 1)], false, Duration::ZERO));
        assert_eq!((before.start_up.sent, at.start_up.sent), (1, 0), "start-up ends before 6 s");
    }
}
