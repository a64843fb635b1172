//! Sockets, clients, the clock, the loop: one thread that waits for datagrams and for the time at which waiting ones go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::RelaySpec;
use super::faults::Faults;
use super::line::{Copies, Line, LineStats};
use crate::udp::Udp;

/// Clients at once: each has a socket, and many systems allow a process 1024. More are refused, the longest silent first forgotten.
const MOST_CLIENTS: usize = 512;
/// A client that says nothing for so long is forgotten, as NATs forget (RFC 4787 §4.3: two minutes or more).
const FORGOTTEN: Duration = Duration::from_secs(120);
/// Bytes under way at most; what comes on top is dropped and counted.
const MOST_BYTES: usize = 256 << 20;
/// The longest sleep: how soon a request to stop is seen.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Datagrams read from a socket before others get their turn, in one read of at most so many bytes each.
const BATCH: usize = 32;
const LARGEST: usize = 1 << 16;

/// Why a relay cannot work.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The address to listen at.
    #[error("cannot listen at {0}: {1}; choose another address or a free port")]
    Listen(SocketAddr, io::Error),
    /// Datagrams for the server would come in where clients' do, and go round for ever.
    #[error("{0} is where the relay itself listens; name the server's address")]
    Itself(SocketAddr),
    /// Waiting for datagrams failed.
    #[error("waiting for datagrams: {0}; raise the limit of open files (ulimit -n)")]
    Wait(io::Error),
    /// A socket towards the server.
    #[error("cannot open a socket towards {0}: {1}")]
    Open(SocketAddr, io::Error),
}

/// Counts of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Server to client.
    pub down: LineStats,
    /// Client to server.
    pub up: LineStats,
    /// Datagrams that a fault held up for good.
    pub cut_off: u64,
    /// Datagrams dropped because too many bytes were under way, or because the kernel took no more or had no socket left.
    pub overrun: u64,
    /// Clients that a rebinding left at their port, because the kernel had no socket left.
    pub not_rebound: u64,
    /// Clients seen; a rebinding makes no new ones.
    pub clients: u64,
}

/// Towards the server, from a free port.
fn towards(to: SocketAddr) -> Result<Udp, RelayError> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let open = || {
        let io = UdpSocket::bind(any)?;
        // Only the server's datagrams come in.
        io.connect(to)?;
        Udp::new(io)
    };
    open().map_err(|e| RelayError::Open(to, e))
}

/// The process, or the system, has as many files open as it may.
fn no_file_left(e: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error())).contains(&e.raw_os_error())
}

/// Where clients of one server come in.
struct Entrance {
    listen: Udp,
    to: SocketAddr,
}

struct Client {
    at: Place,
    socket: Udp,
    last_heard: u64,
    /// Datagrams that it has sent to the server under short headers, as far as they matter.
    short: u8,
}

/// The datagram under a short header that leaves from another port where clients are rebound right after their handshake: by then the
/// server has confirmed it, and a response is on its way.
const REBOUND: u8 = 3;

/// A packet after the handshake (RFC 8999 §5.2).
fn is_short(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 == 0)
}

/// A client's address, and the number of its entrance.
type Place = (usize, SocketAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Towards {
    Client,
    Server,
}

/// A datagram under way. Ordered by time, then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: u64,
    order: u64,
    towards: Towards,
    client: Place,
    ecn: Option<u8>,
    contents: Vec<u8>,
}

impl Waiting {
    /// Memory that one with so many bytes takes.
    const fn cost(bytes: usize) -> usize {
        size_of::<Self>() + bytes
    }
}

/// A datagram as it comes to a relay.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Since the relay's start.
    pub at: Duration,
    /// It goes to the server.
    pub to_server: bool,
    /// The client that it is from, or for.
    pub client: SocketAddr,
    /// The server that it is for, or from.
    pub server: SocketAddr,
    /// Its ECN field.
    pub ecn: u8,
    /// What is in it.
    pub contents: &'a [u8],
    /// When it goes on, perhaps corrupted, since the relay's start; `None`: the line or a fault has taken it.
    pub leaves: Option<Duration>,
}

/// Who sees every datagram.
type Tap = Box<dyn FnMut(&Passing<'_>) + Send>;

/// What tells a relay the time.
enum Clock {
    /// When it began.
    Wall(Instant),
    /// Milliseconds that a test lets go by.
    #[cfg(test)]
    Hand(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

/// A relay at work.
pub struct Relay {
    entrances: Vec<Entrance>,
    down: Line,
    up: Line,
    faults: Faults,
    clients: Vec<Client>,
    known: HashMap<Place, usize>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    order: u64,
    clock: Clock,
    stats: RelayStats,
    tap: Option<Tap>,
    /// Clients at once.
    most: usize,
    buffer: [Vec<u8>; 1],
}

impl Entrance {
    fn open(listen: SocketAddr, to: SocketAddr) -> Result<Self, RelayError> {
        let bound = UdpSocket::bind(listen).and_then(Udp::new).map_err(|e| RelayError::Listen(listen, e))?;
        Ok(Self { listen: bound, to })
    }

    /// What is sent to `to` comes in here.
    fn receives(&self, to: SocketAddr) -> io::Result<bool> {
        let at = self.listen.io().local_addr()?;
        // "Any address", as one to send to, is this host's loopback.
        let target = match to.ip() {
            ip if !ip.is_unspecified() => ip.to_canonical(),
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let listens = at.ip().to_canonical();
        // Only this host's addresses can be bound to. A socket at [::] hears IPv4 as well.
        let here = || UdpSocket::bind((target, 0)).is_ok() && (listens.is_ipv6() || target.is_ipv4());
        Ok(at.port() == to.port() && (listens == target || listens.is_unspecified() && here()))
    }
}

/// No server may be where an entrance is.
fn no_loop(entrances: &[Entrance]) -> Result<(), RelayError> {
    for Entrance { to, .. } in entrances {
        for entrance in entrances {
            if entrance.receives(*to).map_err(|e| RelayError::Listen(*to, e))? {
                return Err(RelayError::Itself(*to));
            }
        }
    }
    Ok(())
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let to: Vec<SocketAddr> = self.entrances.iter().map(|e| e.to).collect();
        f.debug_struct("Relay").field("to", &to).field("clients", &self.clients.len()).finish_non_exhaustive()
    }
}

impl Relay {
    /// Listens for clients of the server at `to`. Its time begins now.
    ///
    /// # Errors
    /// The address is taken or not this host's, or it is the server's.
    // A relay works in real time.
    #[allow(clippy::disallowed_methods)]
    pub fn bind(listen: SocketAddr, to: SocketAddr, spec: RelaySpec) -> Result<Self, RelayError> {
        let entrances = vec![Entrance::open(listen, to)?];
        no_loop(&entrances)?;
        Ok(Self {
            entrances,
            // Each direction has its own random numbers.
            down: Line::new(spec.down, spec.seed.wrapping_mul(2)),
            up: Line::new(spec.up, spec.seed.wrapping_mul(2) + 1),
            faults: Faults::new(spec.faults),
            clients: Vec::new(),
            known: HashMap::new(),
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            order: 0,
            clock: Clock::Wall(Instant::now()),
            stats: RelayStats::default(),
            tap: None,
            most: MOST_CLIENTS,
            buffer: [vec![0; LARGEST]],
        })
    }

    /// Listens at one more address, for clients of another server: they share the links.
    ///
    /// # Errors
    /// The address is taken or not this host's, or it is a server's.
    pub fn also(mut self, listen: SocketAddr, to: SocketAddr) -> Result<Self, RelayError> {
        self.entrances.push(Entrance::open(listen, to)?);
        no_loop(&self.entrances)?;
        Ok(self)
    }

    /// Shows every datagram to `tap` as it comes in.
    #[must_use]
    pub fn tapped(mut self, tap: impl FnMut(&Passing<'_>) + Send + 'static) -> Self {
        self.tap = Some(Box::new(tap));
        self
    }

    /// Where clients find it.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.address_of(0)
    }

    /// Where clients of the server of this number find it: 0 is that of [`Relay::bind`].
    ///
    /// # Errors
    /// The system does not say, or there is no such server.
    pub fn address_of(&self, number: usize) -> io::Result<SocketAddr> {
        let entrance = self.entrances.get(number).ok_or(io::ErrorKind::NotFound)?;
        entrance.listen.io().local_addr()
    }

    /// Counts so far.
    pub const fn stats(&self) -> RelayStats {
        RelayStats { down: self.down.stats(), up: self.up.stats(), ..self.stats }
    }

    /// Relays until `stop` is set or `until` is over; `look` is called some twenty times a second. Datagrams still under way then are lost.
    ///
    /// # Errors
    /// A socket cannot be opened or waited for. What cannot be sent is dropped and counted, as networks do.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        until: Option<Duration>,
        mut look: impl FnMut(Duration, &RelayStats),
    ) -> Result<(), RelayError> {
        let mut looked = Duration::ZERO;
        loop {
            let now = self.now();
            if stop.load(Ordering::Relaxed) || until.is_some_and(|until| now >= until) {
                return Ok(());
            }
            if now >= looked + LOOK_UP {
                look(now, &self.stats());
                self.forget(now);
                looked = now;
            }
            if self.faults.rebind(now) {
                for client in &mut self.clients {
                    match towards(self.entrances[client.at.0].to) {
                        Ok(socket) => client.socket = socket,
                        Err(_) => self.stats.not_rebound += 1,
                    }
                }
            }
            self.send_due(now);
            self.wait(now, until)?;
        }
    }

    /// Time since the start.
    // A relay works in real time.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        match &self.clock {
            Clock::Wall(start) => start.elapsed(),
            #[cfg(test)]
            Clock::Hand(millis) => Duration::from_millis(millis.load(Ordering::Relaxed)),
        }
    }

    /// Sleeps until a datagram comes or goes on, and takes in what came.
    fn wait(&mut self, now: Duration, until: Option<Duration>) -> Result<(), RelayError> {
        let due = self.waiting.peek().map(|Reverse(next)| Duration::from_nanos(next.at));
        let times = [due, self.faults.next(now), until, Some(now + LOOK_UP)];
        let sleep = times.into_iter().flatten().min().unwrap_or(now).saturating_sub(now);
        let timeout = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        // Clients first: taking in from them neither makes nor forgets any, so that their numbers hold until all have had their turn.
        let sockets = self.clients.iter().map(|c| &c.socket).chain(self.entrances.iter().map(|e| &e.listen));
        let mut polled: Vec<PollFd<'_>> = sockets.map(|s| PollFd::new(s.io(), PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // More than the process may have open now: its limit fell.
            Err(rustix::io::Errno::INVAL) if self.remove_oldest() => return Ok(()),
            Err(e) => return Err(RelayError::Wait(e.into())),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.take_in(&ready, &mut buffer);
        self.buffer = buffer;
        Ok(())
    }

    /// Reads what is there: from the clients' sockets, then from the entrances.
    fn take_in(&mut self, ready: &[bool], buffer: &mut [Vec<u8>; 1]) {
        let clients = self.clients.len();
        for (number, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
            let (client, number) = match number.checked_sub(clients) {
                None => (Some(number), 0),
                Some(entrance) => (None, entrance),
            };
            for _ in 0..BATCH {
                let socket = match client {
                    None => &self.entrances[number].listen,
                    Some(client) => &self.clients[client].socket,
                };
                let mut metas = [RecvMeta::default()];
                if socket.receive(buffer, &mut metas) == 0 {
                    break;
                }
                let ([meta], [buffer]) = (metas, &*buffer);
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    match client {
                        None => self.take_from_client((number, meta.addr), meta.ecn, datagram),
                        Some(client) => self.pass(Towards::Client, self.clients[client].at, meta.ecn, datagram),
                    }
                }
            }
        }
    }

    fn take_from_client(&mut self, at: Place, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        let now = self.now().as_nanos() as u64;
        match self.known.get(&at) {
            Some(client) => self.clients[*client].last_heard = now,
            None => {
                if self.clients.len() >= self.most {
                    self.remove_oldest();
                }
                let to = self.entrances[at.0].to;
                // A process that may open fewer files makes room as one that has the most clients.
                let socket = loop {
                    match towards(to) {
                        Ok(socket) => break socket,
                        Err(RelayError::Open(_, e)) if no_file_left(&e) && self.remove_oldest() => {}
                        Err(_) => {
                            self.stats.overrun += 1;
                            return;
                        }
                    }
                };
                self.known.insert(at, self.clients.len());
                self.clients.push(Client { at, socket, last_heard: now, short: 0 });
                self.stats.clients += 1;
            }
        }
        self.pass(Towards::Server, at, ecn, datagram);
    }

    /// A datagram enters its line.
    fn pass(&mut self, towards: Towards, client: Place, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        let now = self.now();
        let line = match towards {
            Towards::Client => &mut self.down,
            Towards::Server => &mut self.up,
        };
        let copies = if self.faults.let_pass(now, datagram.len()) {
            line.arrive(now.as_nanos() as u64, datagram.len() as u32, ecn.is_some())
        } else {
            self.stats.cut_off += 1;
            Copies::default()
        };
        if let Some(tap) = &mut self.tap {
            let to_server = towards == Towards::Server;
            let (ecn, leaves) = (ecn.map_or(0, |ecn| ecn as u8), copies[0].map(|copy| Duration::from_nanos(copy.at)));
            let server = self.entrances[client.0].to;
            tap(&Passing { at: now, to_server, client: client.1, server, ecn, contents: datagram, leaves });
        }
        for copy in copies.into_iter().flatten() {
            if self.waiting_bytes + Waiting::cost(datagram.len()) > MOST_BYTES {
                self.stats.overrun += 1;
                continue;
            }
            let mut contents = datagram.to_vec();
            if let Some(bit) = copy.flip {
                contents[bit as usize / 8] ^= 1 << (bit % 8);
            }
            let ecn = if copy.mark { Some(EcnCodepoint::Ce) } else { ecn };
            self.waiting_bytes += Waiting::cost(contents.len());
            self.order += 1;
            let ecn = ecn.map(|ecn| ecn as u8);
            self.waiting.push(Reverse(Waiting { at: copy.at, order: self.order, towards, client, ecn, contents }));
        }
    }

    fn send_due(&mut self, now: Duration) {
        let now = now.as_nanos() as u64;
        while self.waiting.peek().is_some_and(|Reverse(next)| next.at <= now) {
            let Some(Reverse(next)) = self.waiting.pop() else { return };
            self.waiting_bytes -= Waiting::cost(next.contents.len());
            if next.towards == Towards::Server && is_short(&next.contents) && self.faults.rebinds_after_handshake() {
                self.count_short(next.client);
            }
            let ecn = next.ecn.and_then(EcnCodepoint::from_bits);
            let entrance = &self.entrances[next.client.0];
            let sent = match (next.towards, self.known.get(&next.client)) {
                (Towards::Client, _) => entrance.listen.send(next.client.1, ecn, &next.contents),
                (Towards::Server, Some(client)) => self.clients[*client].socket.send(entrance.to, ecn, &next.contents),
                // Forgotten meanwhile.
                (Towards::Server, None) => Ok(()),
            };
            // Nobody listening at the other end is a matter between the two.
            let full = matches!(&sent, Err(e) if e.kind() != io::ErrorKind::ConnectionRefused);
            self.stats.overrun += u64::from(full);
        }
    }

    /// Rebinds a client whose handshake is over. What is on its way to the port of before is lost, as where a NAT has forgotten it.
    fn count_short(&mut self, at: Place) {
        let Some(client) = self.known.get(&at).map(|client| &mut self.clients[*client]) else { return };
        client.short = client.short.saturating_add(1);
        if client.short != REBOUND {
            return;
        }
        match towards(self.entrances[at.0].to) {
            Ok(socket) => client.socket = socket,
            Err(_) => self.stats.not_rebound += 1,
        }
        let (bytes, stats) = (&mut self.waiting_bytes, &mut self.stats);
        self.waiting.retain(|Reverse(datagram)| {
            let lost = datagram.towards == Towards::Client && datagram.client == at;
            if lost {
                *bytes -= Waiting::cost(datagram.contents.len());
                stats.cut_off += 1;
            }
            !lost
        });
    }

    /// Forgets clients that have been silent for long.
    fn forget(&mut self, now: Duration) {
        let since = now.saturating_sub(FORGOTTEN).as_nanos() as u64;
        while let Some(silent) = self.clients.iter().position(|client| client.last_heard < since) {
            self.remove(silent);
        }
    }

    /// Forgets the client that has been silent for longest; whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let oldest = (0..self.clients.len()).min_by_key(|n| self.clients[*n].last_heard);
        oldest.map(|oldest| self.remove(oldest)).is_some()
    }

    fn remove(&mut self, number: usize) {
        let gone = self.clients.swap_remove(number);
        self.known.remove(&gone.at);
        if let Some(moved) = self.clients.get(number) {
            self.known.insert(moved.at, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use super::super::line::LineSpec;
    use super::*;

    /// Only what hangs takes so long.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// A relay on a thread, stopped when it is dropped. Its time stands until it is set.
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
            let mut relay = Relay::bind("127.0.0.1:0".parse().unwrap(), to, spec).unwrap().tapped(move |_| {
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

        /// Sets its time, once it has taken in so many datagrams.
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

    fn delayed(ms: u64) -> LineSpec {
        LineSpec { delay: Duration::from_millis(ms), ..LineSpec::default() }
    }

    /// Nothing is there, though the relay has looked at its clock a few times.
    fn nothing_comes(to: &UdpSocket) {
        std::thread::sleep(LOOK_UP * 3);
        to.set_nonblocking(true).unwrap();
        assert_eq!(to.recv(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        to.set_nonblocking(false).unwrap();
    }

    #[test]
    fn datagrams_go_there_and_back_after_the_delays_of_their_directions() {
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
        assert_eq!((stats.up.forwarded, stats.down.forwarded, stats.clients, stats.overrun), (1, 1, 1, 0));
    }

    #[test]
    fn clients_have_a_port_each_and_a_rebinding_changes_it() {
        let server = socket();
        let rebind = "rebind@300ms".parse().unwrap();
        let spec = RelaySpec { faults: vec![rebind], ..RelaySpec::default() };
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
    fn clients_of_two_servers_share_the_links_and_are_seen_with_their_ecn() {
        let servers = [socket(), socket()];
        let local = "127.0.0.1:0".parse().unwrap();
        let [first, second] = [0, 1].map(|n| servers[n].local_addr().unwrap());
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let mut relay = Relay::bind(local, first, RelaySpec::default())
            .unwrap()
            .also(local, second)
            .unwrap()
            .tapped(move |passing| notes.lock().push((passing.server, passing.ecn, passing.contents.to_vec())));
        let at = [0, 1].map(|number| relay.address_of(number).unwrap());
        assert!(relay.address_of(2).is_err());
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            relay.run(&stops, None, |_, _| {}).unwrap();
            relay.stats()
        });
        // One client of both.
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
    fn corruption_flips_one_bit_and_duplicates_arrive_twice() {
        let (server, client) = (socket(), socket());
        let up = LineSpec { corrupt: 1.0, duplicate: 1.0, ..LineSpec::default() };
        let relay = Running::new(server.local_addr().unwrap(), RelaySpec { up, ..RelaySpec::default() });
        client.send_to(&[0; 1_200], relay.address).unwrap();
        for _ in 0..2 {
            let mut buffer = [0; 2_000];
            assert_eq!(server.recv(&mut buffer).unwrap(), 1_200);
            assert_eq!(buffer.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        }
        let stats = relay.end();
        assert_eq!((stats.up.corrupted, stats.up.duplicated, stats.up.forwarded), (1, 1, 2));
    }

    #[test]
    fn nothing_passes_in_a_blackout_nor_above_an_mtu() {
        let (server, client) = (socket(), socket());
        let faults = vec!["mtu:1000@0s".parse().unwrap(), "blackout:400ms@0s".parse().unwrap()];
        let relay = Running::new(server.local_addr().unwrap(), RelaySpec { faults, ..RelaySpec::default() });
        client.send_to(&[1; 10], relay.address).unwrap();
        relay.go_to(400, 1);
        client.send_to(&[2; 1_001], relay.address).unwrap();
        client.send_to(&[3; 1_000], relay.address).unwrap();
        let mut buffer = [0; 2_000];
        assert_eq!(server.recv(&mut buffer).unwrap(), 1_000);
        assert_eq!(buffer[0], 3);
        assert_eq!(relay.end().cut_off, 2);
    }

    #[test]
    fn an_address_that_is_taken_is_said_so() {
        let taken = socket();
        let at = taken.local_addr().unwrap();
        let error = Relay::bind(at, "127.0.0.1:9".parse().unwrap(), RelaySpec::default()).unwrap_err().to_string();
        assert!(error.contains(&at.to_string()) && error.contains("free port"), "{error}");
    }

    #[test]
    fn a_relay_to_itself_is_refused() {
        for (listen, to) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.9"),
            ("127.0.0.1", "0.0.0.0"),
            ("0.0.0.0", "0.0.0.0"),
            ("127.0.0.1", "[::ffff:127.0.0.1]"),
        ] {
            let free = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
            let [listen, to] = [listen, to].map(|ip| format!("{ip}:{free}").parse().unwrap());
            let error = Relay::bind(listen, to, RelaySpec::default()).unwrap_err();
            assert!(matches!(error, RelayError::Itself(_)), "{listen} to {to}: {error}");
            // Another port, another host: no loop.
            let other =
                |ip: &str, port| Relay::bind(listen, format!("{ip}:{port}").parse().unwrap(), RelaySpec::default());
            drop(other("127.0.0.1", free ^ 1).unwrap());
            drop(other("192.0.2.1", free).unwrap());
        }
        // Each server is checked against every entrance.
        let first = Relay::bind("127.0.0.1:0".parse().unwrap(), "127.0.0.1:9".parse().unwrap(), RelaySpec::default());
        let first = first.unwrap();
        let at = first.address().unwrap();
        assert!(matches!(first.also("127.0.0.1:0".parse().unwrap(), at), Err(RelayError::Itself(_))));
    }

    /// A relay that is driven by hand, and what its clients are.
    fn by_hand(server: &UdpSocket) -> Relay {
        Relay::bind("127.0.0.1:0".parse().unwrap(), server.local_addr().unwrap(), RelaySpec::default()).unwrap()
    }

    fn turn(relay: &mut Relay) {
        let now = relay.now();
        relay.send_due(now);
        relay.wait(now, None).unwrap();
    }

    #[test]
    fn a_reply_to_an_evicted_client_is_dropped() {
        let (server, old, new) = (socket(), socket(), socket());
        let mut relay = by_hand(&server);
        let at = relay.address().unwrap();
        old.send_to(b"?", at).unwrap();
        while relay.stats.clients == 0 {
            turn(&mut relay);
        }
        // The old client's socket is readable in the round in which a new client takes its place, and has no socket itself.
        let theirs = relay.clients[0].socket.io().local_addr().unwrap().port();
        server.send_to(b"!", (Ipv4Addr::LOCALHOST, theirs)).unwrap();
        new.send_to(b"?", at).unwrap();
        relay.most = 1;
        relay.entrances[0].to = "255.255.255.255:9".parse().unwrap();
        relay.take_in(&[true; 2], &mut [vec![0; LARGEST]]);
        assert_eq!((relay.clients.len(), relay.stats.overrun, relay.down.stats().arrived), (0, 1, 1));
    }
}
