//! Real-time runs, in which a thread of the test emulates the link.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fathom_units::{Rate, Time};
use parking_lot::Mutex;

use super::real_time::KernelLink;
use crate::ecn::Ecn;
use crate::link::Link;
use crate::queue::QueueSpec;
use crate::sim::{Executor, Group, Hop, LinkId, Path, SimHandle, SimSocket, server_address};
use crate::udp::Udp;

/// Packets that a server received, as the time, the first byte and the ECN field.
type Arrivals = Arc<Mutex<Vec<(Time, u8, Option<Ecn>)>>>;

struct Bench {
    executor: Executor,
    client: SimSocket,
    link: LinkId,
    arrivals: Arrivals,
}

/// Upper bound of a run's length. Runs end earlier, when nothing is left to do.
const LIMIT: Time = Time::from_millis(120_000);

/// Creates a client, a link with room for four packets, a delay of 10 ms, and a listening server.
/// The link takes 100 ms for 1000 bytes (80 kbps): enough time even for a busy machine to handle
/// everything that is due at one moment.
fn bench() -> Bench {
    let executor = Executor::new();
    let sim = executor.sim();
    let rate = Rate::from_bits_per_sec(80_000);
    let link = sim.add_link(Link::new(rate, QueueSpec::droptail_packets(4).build(rate, 0)));
    let (client, server) = (sim.client_socket(), sim.server_socket());
    let up =
        Path { hops: vec![Hop { delay: Duration::ZERO, link }], tail: Duration::from_millis(10) };
    let group = sim.add_group(Group {
        client: client.id(),
        server: server.id(),
        down: Path::default(),
        up,
    });
    assert_eq!(sim.add_flow(group), 0);
    let arrivals = Arrivals::default();
    sim.spawn(listen(sim.clone(), server, Arc::clone(&arrivals)));
    Bench { executor, client, link, arrivals }
}

async fn listen(sim: SimHandle, server: SimSocket, arrivals: Arrivals) {
    loop {
        poll_fn(|cx| {
            let came = server.receive(64, cx.waker(), |_, bytes, received| {
                let mut arrivals = arrivals.lock();
                arrivals.push((sim.time(), bytes[0], received.ecn));
            });
            came.map_or(Poll::Pending, |_| Poll::Ready(()))
        })
        .await;
    }
}

impl Bench {
    /// Sends `count` numbered packets of 1000 bytes on the wire, one every `every`.
    fn send(&self, count: u8, every: Duration) {
        let (sim, client) = (self.executor.sim(), self.client.clone());
        self.executor.sim().spawn(async move {
            for n in 0..count {
                sim.sleep_until(Time::ZERO + every * u32::from(n)).await;
                client.send(server_address(0), None, Some(Ecn::Ect0), &[n; 972], None);
            }
        });
    }

    fn numbers(&self) -> Vec<u8> {
        self.arrivals.lock().iter().map(|(_, n, _)| *n).collect()
    }
}

#[test]
fn datagrams_over_loopback_pass_through_the_simulated_link() {
    let mut bench = bench();
    bench.send(6, Duration::ZERO);
    bench.executor.through_loopback().unwrap();
    bench.executor.run(LIMIT);
    // Four packets fit; two find the queue full.
    assert_eq!(bench.numbers(), [0, 1, 2, 3]);
    let arrivals = bench.arrivals.lock().clone();
    for (n, (at, _, ecn)) in arrivals.into_iter().enumerate() {
        let due = Time::from_millis(10 + 100 * (n as u64 + 1));
        assert!(at + Duration::from_micros(300) >= due, "{at:?} before {due:?}");
        assert_eq!(ecn, Some(Ecn::Ect0));
    }
    let stats = bench.executor.sim().net_stats();
    assert_eq!(
        (stats.sent, stats.delivered, stats.dropped, stats.lost, stats.in_transit),
        (6, 4, 2, 0, 0)
    );
    let punctuality = bench.executor.punctuality().unwrap();
    assert_eq!((punctuality.lost, punctuality.strays), (0, 0));
}

/// Returns a link that drops every third datagram and sends every fifth twice.
fn lossy() -> (Udp, Udp) {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (from, middle, to) = (socket(), socket(), socket());
    from.connect(middle.local_addr().unwrap()).unwrap();
    let target = to.local_addr().unwrap();
    middle.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let mut count = 0;
        while let Ok(len) = middle.recv(&mut buffer) {
            count += 1;
            let copies = if count % 3 == 0 { 0 } else { 1 + usize::from(count % 5 == 0) };
            for _ in 0..copies {
                middle.send_to(&buffer[..len], target).unwrap();
            }
        }
    });
    // Sends all datagrams to the middle socket, whatever their address is.
    (Udp::new(from).unwrap(), Udp::new(to).unwrap())
}

#[test]
fn losses_in_a_kernel_link_are_counted_by_the_link() {
    let mut bench = bench();
    bench.send(30, Duration::from_millis(2));
    let (from, to) = lossy();
    let towards = from.io().peer_addr().unwrap();
    let kernel = KernelLink {
        link: bench.link,
        delay: Duration::ZERO,
        from,
        others: Vec::new(),
        to,
        keep: Box::new(()),
    };
    bench.executor.through_kernel_links(vec![kernel]).unwrap();
    bench.executor.sim().core().real.as_mut().unwrap().kernel_hops[0].address = towards;
    bench.executor.run(LIMIT);
    let expected: Vec<u8> = (0..30).filter(|n| (n + 1) % 3 != 0).collect();
    assert_eq!(bench.numbers(), expected);
    let sim = bench.executor.sim();
    let (stats, link) = (sim.net_stats(), sim.link_stats(bench.link));
    assert_eq!(
        (stats.sent, stats.delivered, stats.dropped, stats.lost, stats.in_transit),
        (30, 20, 10, 0, 0)
    );
    assert_eq!((link.arrived, link.admitted, link.dropped), (30, 20, 10));
    // Duplicates of received packets: the 5th, 10th, 20th and 25th. The 15th and 30th were dropped.
    assert_eq!(bench.executor.punctuality().unwrap().strays, 4);
}

/// Returns a link with two ports to send from. It releases all packets of the second port before
/// those of the first port, and drops the third packet of the first port.
fn overtaking(count: usize) -> (Udp, Vec<Udp>, Udp, std::net::SocketAddr) {
    let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (from, other, middle, to) = (socket(), socket(), socket(), socket());
    let (at, target) = (middle.local_addr().unwrap(), to.local_addr().unwrap());
    let first = from.local_addr().unwrap();
    // Datagrams must leave from the port by which they came.
    let leave = [from.try_clone().unwrap(), other.try_clone().unwrap()];
    middle.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    std::thread::spawn(move || {
        let (mut buffer, mut kept) = ([0; 2_000], [Vec::new(), Vec::new()]);
        for _ in 0..count {
            let (len, sender) = middle.recv_from(&mut buffer).unwrap();
            kept[usize::from(sender != first)].push(buffer[..len].to_vec());
        }
        kept[0].remove(2);
        for number in [1, 0] {
            for datagram in &kept[number] {
                leave[number].send_to(datagram, target).unwrap();
            }
        }
    });
    (Udp::new(from).unwrap(), vec![Udp::new(other).unwrap()], Udp::new(to).unwrap(), at)
}

#[test]
fn flows_overtake_each_other_in_a_scheduling_kernel_queue() {
    let mut bench = bench();
    // A second flow, whose packets have the same contents as those of the first.
    assert_eq!(bench.executor.sim().add_flow(crate::sim::GroupId(0)), 1);
    let (sim, client) = (bench.executor.sim(), bench.client.clone());
    bench.executor.sim().spawn(async move {
        sim.sleep_until(Time::from_millis(1)).await;
        for n in 0..10u8 {
            client.send(server_address(u32::from(n % 2)), None, None, &[n / 2; 972], None);
        }
    });
    let (from, others, to, towards) = overtaking(10);
    let kernel = KernelLink {
        link: bench.link,
        delay: Duration::ZERO,
        from,
        others,
        to,
        keep: Box::new(()),
    };
    bench.executor.through_kernel_links(vec![kernel]).unwrap();
    bench.executor.sim().core().real.as_mut().unwrap().kernel_hops[0].address = towards;
    bench.executor.run(LIMIT);
    // All packets of the second flow come first. The packets of the first flow follow, without the
    // lost packet.
    assert_eq!(bench.numbers(), [0, 1, 2, 3, 4, 0, 1, 3, 4]);
    let sim = bench.executor.sim();
    let (stats, link) = (sim.net_stats(), sim.link_stats(bench.link));
    assert_eq!(
        (stats.sent, stats.delivered, stats.dropped, stats.lost, stats.in_transit),
        (10, 9, 1, 0, 0)
    );
    assert_eq!((link.arrived, link.admitted, link.dropped), (10, 9, 1));
    assert_eq!(bench.executor.punctuality().unwrap().strays, 0);
}
