use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::*;
use crate::path::{DirectedPath, Impairments};

/// Upper bound of all waits; only a test that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A relay on a thread, stopped when this value is dropped. Its clock stands still until it is set.
struct Running {
    address: SocketAddr,
    millis: Arc<AtomicU64>,
    seen: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<RelayStats>>,
}

impl Running {
    fn new(to: SocketAddr, spec: RelaySpec) -> Self {
        let (millis, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&seen);
        let mut relay =
            Relay::bind("127.0.0.1:0".parse().unwrap(), to, spec).unwrap().tapped(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        relay.clock = Clock::Hand(Arc::clone(&millis));
        let (address, stop) = (relay.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stops = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || {
            relay.run(&stops, None, |_, _| {}).unwrap();
            relay.stats()
        }));
        Self { address, millis, seen, stop, thread }
    }

    /// Sets the clock once the relay has read `taken` datagrams.
    #[allow(clippy::disallowed_methods)]
    fn go_to(&self, millis: u64, taken: usize) {
        let began = Instant::now();
        while self.seen.load(Ordering::Relaxed) < taken {
            assert!(began.elapsed() < PATIENCE, "it has not got {taken} datagrams");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn end(mut self) -> RelayStats {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn delayed(ms: u64) -> DirectedPath {
    DirectedPath { delay: Duration::from_millis(ms), ..DirectedPath::default() }
}

/// Checks that nothing has arrived after the relay has looked at its clock a few times.
fn nothing_comes(to: &UdpSocket) {
    std::thread::sleep(LOOK_UP * 3);
    to.set_nonblocking(true).unwrap();
    assert_eq!(to.recv(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    to.set_nonblocking(false).unwrap();
}

#[test]
fn each_direction_of_the_relay_has_its_own_delay() {
    let (server, client) = (socket(), socket());
    let spec = RelaySpec { up: delayed(20), down: delayed(40), ..RelaySpec::default() };
    let relay = Running::new(server.local_addr().unwrap(), spec);
    let mut buffer = [0; 2_000];
    client.send_to(b"ping", relay.address).unwrap();
    relay.go_to(19, 1);
    nothing_comes(&server);
    relay.go_to(20, 1);
    let (n, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"ping");
    assert_ne!(from, client.local_addr().unwrap(), "a port of the relay's");
    server.send_to(b"pong", from).unwrap();
    relay.go_to(59, 2);
    nothing_comes(&client);
    relay.go_to(60, 2);
    let n = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"pong");
    let stats = relay.end();
    assert_eq!(
        (stats.up.forwarded, stats.down.forwarded, stats.clients, stats.overrun),
        (1, 1, 1, 0)
    );
}

#[test]
fn each_relay_client_has_a_port_that_rebinding_changes() {
    let server = socket();
    let rebind = "rebind@300ms".parse().unwrap();
    let spec = RelaySpec { events: vec![rebind], ..RelaySpec::default() };
    let relay = Running::new(server.local_addr().unwrap(), spec);
    let clients = [socket(), socket()];
    let query = |client: &UdpSocket| {
        client.send_to(b"?", relay.address).unwrap();
        server.recv_from(&mut [0; 10]).unwrap().1
    };
    let before = [query(&clients[0]), query(&clients[1])];
    assert_ne!(before[0], before[1]);
    relay.go_to(300, 2);
    let after = [query(&clients[0]), query(&clients[1])];
    assert!(before[0] != after[0] && before[1] != after[1], "{before:?} {after:?}");
    server.send_to(b"!", after[1]).unwrap();
    assert_eq!(clients[1].recv(&mut [0; 10]).unwrap(), 1);
    assert_eq!(relay.end().clients, 2);
}

#[test]
fn relay_observer_sees_server_and_ecn_of_each_datagram() {
    let servers = [socket(), socket()];
    let local = "127.0.0.1:0".parse().unwrap();
    let [first, second] = [0, 1].map(|n| servers[n].local_addr().unwrap());
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let mut relay = Relay::bind(local, first, RelaySpec::default())
        .unwrap()
        .also(local, second)
        .unwrap()
        .tapped(move |passing| {
            notes.lock().push((passing.server, passing.ecn, passing.contents.to_vec()))
        });
    let at = [0, 1].map(|number| relay.address_of(number).unwrap());
    assert!(relay.address_of(2).is_err());
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        relay.run(&stops, None, |_, _| {}).unwrap();
        relay.stats()
    });
    // The client sends to both servers.
    let client = Udp::new(socket()).unwrap();
    client.send(at[0], Some(EcnCodepoint::Ect0), b"one").unwrap();
    client.send(at[1], None, b"two").unwrap();
    for (server, word) in servers.iter().zip([b"one", b"two"]) {
        let mut buffer = [0; 10];
        let (n, _) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..n], word);
    }
    stop.store(true, Ordering::Relaxed);
    let stats = thread.join().unwrap();
    assert_eq!((stats.up.forwarded, stats.clients), (2, 2));
    let mut seen = seen.lock().clone();
    seen.sort_by_key(|(_, _, word)| word.clone());
    assert_eq!(seen, [(first, 2, b"one".to_vec()), (second, 0, b"two".to_vec())]);
}

#[test]
fn relay_corruption_flips_one_bit_and_duplicates_arrive_twice() {
    let (server, client) = (socket(), socket());
    let up = DirectedPath {
        impairments: Impairments { corrupt: 1.0, duplicate: 1.0, ..Impairments::default() },
        ..DirectedPath::default()
    };
    let relay =
        Running::new(server.local_addr().unwrap(), RelaySpec { up, ..RelaySpec::default() });
    client.send_to(&[0; 1_200], relay.address).unwrap();
    for _ in 0..2 {
        let mut buffer = [0; 2_000];
        assert_eq!(server.recv(&mut buffer).unwrap(), 1_200);
        assert_eq!(buffer.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }
    let stats = relay.end();
    assert_eq!(
        (stats.up.impairments.corrupted, stats.up.impairments.duplicated, stats.up.forwarded),
        (1, 1, 2)
    );
}

#[test]
fn relay_drops_datagrams_in_a_blackout_or_above_the_mtu() {
    let (server, client) = (socket(), socket());
    let events = vec!["mtu:1000@0s".parse().unwrap(), "blackout:400ms@0s".parse().unwrap()];
    let relay =
        Running::new(server.local_addr().unwrap(), RelaySpec { events, ..RelaySpec::default() });
    client.send_to(&[1; 10], relay.address).unwrap();
    relay.go_to(400, 1);
    client.send_to(&[2; 1_001], relay.address).unwrap();
    client.send_to(&[3; 1_000], relay.address).unwrap();
    let mut buffer = [0; 2_000];
    assert_eq!(server.recv(&mut buffer).unwrap(), 1_000);
    assert_eq!(buffer[0], 3);
    let stats = relay.end();
    assert_eq!((stats.cut_off, stats.up.impairments.cut_off), (2, 2));
}

#[test]
fn relay_reports_an_address_in_use() {
    let taken = socket();
    let at = taken.local_addr().unwrap();
    let error = Relay::bind(at, "127.0.0.1:9".parse().unwrap(), RelaySpec::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains(&at.to_string()) && error.contains("free port"), "{error}");
}

/// Binds a relay at a free port, to the port that `to_port` makes of it. Another process may take the
/// port first: then the next free one is tried.
fn bind_on_one_port(
    listen: &str,
    to: &str,
    to_port: impl Fn(u16) -> u16,
) -> Result<Relay, RelayError> {
    let at = |ip: &str, port| format!("{ip}:{port}").parse().unwrap();
    let bind = |_| {
        let free = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        Relay::bind(at(listen, free), at(to, to_port(free)), RelaySpec::default())
    };
    (0..100)
        .map(bind)
        .find(|bound| {
            !matches!(bound, Err(RelayError::Listen(_, e)) if e.kind() == ErrorKind::AddrInUse)
        })
        .expect("a free port")
}

#[test]
fn relay_to_its_own_address_is_refused() {
    for (listen, to) in [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.9"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "0.0.0.0"),
        ("127.0.0.1", "[::ffff:127.0.0.1]"),
    ] {
        let error = bind_on_one_port(listen, to, |port| port).unwrap_err();
        assert!(matches!(error, RelayError::Itself(_)), "{listen} to {to}: {error}");
        // A relay to another port or another host makes no loop and is accepted.
        drop(bind_on_one_port(listen, "127.0.0.1", |port| port ^ 1).unwrap());
        drop(bind_on_one_port(listen, "192.0.2.1", |port| port).unwrap());
    }
    // Each server is checked against every entrance.
    let first = Relay::bind(
        "127.0.0.1:0".parse().unwrap(),
        "127.0.0.1:9".parse().unwrap(),
        RelaySpec::default(),
    );
    let first = first.unwrap();
    let at = first.address().unwrap();
    assert!(matches!(first.also("127.0.0.1:0".parse().unwrap(), at), Err(RelayError::Itself(_))));
}

/// Returns a relay that the test drives by hand.
fn by_hand(server: &UdpSocket) -> Relay {
    Relay::bind("127.0.0.1:0".parse().unwrap(), server.local_addr().unwrap(), RelaySpec::default())
        .unwrap()
}

fn turn(relay: &mut Relay) {
    let now = relay.now();
    relay.send_due(now);
    relay.wait(now, None).unwrap();
}

#[test]
fn reply_to_an_evicted_relay_client_is_dropped() {
    let (server, old, new) = (socket(), socket(), socket());
    let mut relay = by_hand(&server);
    let at = relay.address().unwrap();
    old.send_to(b"?", at).unwrap();
    while relay.stats.clients == 0 {
        turn(&mut relay);
    }
    // The old client's socket is readable in the round in which a new client evicts the old client.
    // No socket can be opened for the new client.
    let theirs = relay.clients[0].socket.io().local_addr().unwrap().port();
    server.send_to(b"!", (Ipv4Addr::LOCALHOST, theirs)).unwrap();
    new.send_to(b"?", at).unwrap();
    relay.most = 1;
    relay.entrances[0].to = "255.255.255.255:9".parse().unwrap();
    relay.take_in(&[true; 2], &mut [vec![0; LARGEST]]);
    assert_eq!(
        (relay.clients.len(), relay.stats.overrun, relay.down.stats().impairments.arrived),
        (0, 1, 1)
    );
}

#[test]
fn scheduling_queue_of_the_relay_serves_clients_in_turn() {
    let (server, busy, sparse) = (socket(), socket(), socket());
    // 972 bytes and 28 bytes of headers take 100 ms.
    let link = Some((
        fathom_units::Rate::from_bits_per_sec(80_000).into(),
        "fq-codel:quantum=1000B".parse().unwrap(),
    ));
    let spec =
        RelaySpec { up: DirectedPath { link, ..DirectedPath::default() }, ..RelaySpec::default() };
    let to = server.local_addr().unwrap();
    let mut relay = Relay::bind("127.0.0.1:0".parse().unwrap(), to, spec).unwrap();
    let millis = Arc::new(AtomicU64::new(0));
    relay.clock = Clock::Hand(Arc::clone(&millis));
    let at = relay.address().unwrap();
    for n in 0..4 {
        busy.send_to(&[n; 972], at).unwrap();
    }
    sparse.send_to(&[9; 972], at).unwrap();
    while relay.up.stats().impairments.arrived < 5 {
        turn(&mut relay);
    }
    let mut came = Vec::new();
    for step in 1..=5 {
        millis.store(100 * step, Ordering::Relaxed);
        turn(&mut relay);
        let mut buffer = [0; 1_000];
        assert_eq!(server.recv(&mut buffer).unwrap(), 972);
        came.push(buffer[0]);
    }
    assert_eq!(came, [0, 9, 1, 2, 3]);
    assert_eq!((relay.stats().up.forwarded, relay.waiting_bytes), (5, 0));
}

#[test]
fn rebinding_loses_datagrams_that_wait_in_any_queue() {
    // CoDel's sojourn never exceeds this target.
    for queue in ["droptail:10p", "fq-codel:target=1s,interval=10s"] {
        let (server, client) = (socket(), socket());
        // 972 bytes and 28 bytes of headers take 100 ms.
        let link =
            Some((fathom_units::Rate::from_bits_per_sec(80_000).into(), queue.parse().unwrap()));
        let down = DirectedPath { link, ..DirectedPath::default() };
        let spec = RelaySpec {
            down,
            events: vec!["rebind@handshake".parse().unwrap()],
            ..RelaySpec::default()
        };
        let to = server.local_addr().unwrap();
        let mut relay = Relay::bind("127.0.0.1:0".parse().unwrap(), to, spec).unwrap();
        let millis = Arc::new(AtomicU64::new(0));
        relay.clock = Clock::Hand(Arc::clone(&millis));
        // Short headers have a first bit of 0.
        let says = |relay: &mut Relay, times: u64| {
            let until = relay.up.stats().forwarded + times;
            for _ in 0..times {
                client.send_to(&[0; 30], relay.address().unwrap()).unwrap();
            }
            while relay.up.stats().forwarded < until {
                turn(relay);
            }
            turn(relay);
            let before =
                (0..times).map(|_| server.recv_from(&mut [0; 100]).unwrap().1).collect::<Vec<_>>();
            before[0]
        };
        let before = says(&mut relay, u64::from(REBOUND) - 1);
        for _ in 0..4 {
            server.send_to(&[1; 972], before).unwrap();
        }
        while relay.down.stats().impairments.arrived < 4 {
            turn(&mut relay);
        }
        // One datagram has arrived; three are in the queue and on the link.
        millis.store(100, Ordering::Relaxed);
        turn(&mut relay);
        assert_eq!(client.recv(&mut [0; 1_000]).unwrap(), 972);
        let after = says(&mut relay, 1);
        assert_ne!(before, after, "{queue}");
        server.send_to(&[2; 972], after).unwrap();
        while relay.down.stats().impairments.arrived < 5 {
            turn(&mut relay);
        }
        millis.store(1_000, Ordering::Relaxed);
        turn(&mut relay);
        let mut buffer = [0; 1_000];
        client.recv(&mut buffer).unwrap();
        assert_eq!((buffer[0], relay.stats().cut_off, relay.waiting_bytes), (2, 3, 0), "{queue}");
    }
}
