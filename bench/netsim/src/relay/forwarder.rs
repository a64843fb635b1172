//! Sockets, clients, the clock and the loop of a relay. One thread waits for datagrams, and for the
//! times at which waiting datagrams leave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_units::Time;
use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::RelaySpec;
use super::command::Control;
use super::held::Held;
use super::line::{Copies, Copy, Incoming, Line};
use super::passage::{Passage, Place, Towards, field, flow_of};
use super::rebindings::Rebindings;
use super::stats::RelayStats;
use super::timing::{LATE, LineTimer, LoadMeter};
use crate::ecn::Ecn;
use crate::udp::Udp;

/// Largest number of simultaneous clients. Each client has a socket, and many systems allow a
/// process 1024 files. For a further client, the client that has been silent for longest is
/// forgotten.
const MOST_CLIENTS: usize = 512;
/// Silence after which a client is forgotten, as a NAT forgets it (RFC 4787 §4.3: two minutes or
/// more).
const FORGOTTEN: Duration = Duration::from_secs(120);
/// Largest number of bytes in transit. Further datagrams are dropped and counted.
pub(super) const MOST_BYTES: usize = 256 << 20;
/// Longest sleep. It limits how late a request to stop is noticed.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Largest number of reads from a socket before other sockets get their turn. One read has at most
/// `LARGEST` bytes.
const BATCH: usize = 32;
const LARGEST: usize = 1 << 16;

/// Reason why a relay cannot work.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Listening at the address failed.
    #[error("cannot listen at {0}: {1}; choose another address or a free port")]
    Listen(SocketAddr, io::Error),
    /// The server's address is the relay's own. Datagrams for the server would come back to the
    /// relay for ever.
    #[error("the relay itself listens at {0}; name the address of the server")]
    Itself(SocketAddr),
    /// Waiting for datagrams failed.
    #[error("cannot wait for datagrams: {0}; raise the limit of open files (ulimit -n)")]
    Wait(io::Error),
    /// A socket towards the server could not be opened.
    #[error("cannot open a socket towards {0}: {1}")]
    Open(SocketAddr, io::Error),
}

/// Opens a socket towards the server, with a free local port.
fn towards(to: SocketAddr) -> Result<Udp, RelayError> {
    let any: SocketAddr = if to.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let open = || {
        let io = UdpSocket::bind(any)?;
        // The socket receives only datagrams from the server.
        io.connect(to)?;
        Udp::new(io)
    };
    open().map_err(|e| RelayError::Open(to, e))
}

/// Returns whether the process or the system has reached its limit of open files.
fn no_file_left(e: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error())).contains(&e.raw_os_error())
}

/// Socket to which the clients of one server send.
struct Entrance {
    listen: Udp,
    to: SocketAddr,
    /// Time since which the socket has not been empty.
    full_since: Option<Time>,
}

struct Client {
    at: Place,
    socket: Udp,
    last_heard: Time,
    /// Time since which the client's socket towards the server has not been empty.
    full_since: Option<Time>,
    /// Number of short-header datagrams that the client has sent to the server. It is counted only
    /// as far as needed.
    short: u8,
}

/// Number of the short-header datagram that leaves from a new port, if clients are rebound right
/// after their handshake. At this datagram, the server has confirmed the handshake, and a response
/// is in transit.
const REBOUND: u8 = 3;

/// Returns whether a packet has a short header and therefore follows the handshake
/// (RFC 8999 §5.2).
fn is_short(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 == 0)
}

/// A datagram in transit. Datagrams are ordered by time, and then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) at: Time,
    order: u64,
    pub(super) towards: Towards,
    /// Time at which the datagram came in. `out` is the time at which the datagram leaves the link.
    arrived: Time,
    pub(super) out: Time,
    client: Place,
    ecn: Option<u8>,
    contents: Vec<u8>,
}

impl Waiting {
    /// Returns the memory in bytes that a datagram of `bytes` bytes uses.
    pub(super) const fn cost(bytes: usize) -> usize {
        size_of::<Self>() + bytes
    }
}

/// A datagram that passes through a relay.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Time at which the datagram came in, measured from the relay's start.
    pub at: Duration,
    /// Whether the datagram goes to the server.
    pub to_server: bool,
    /// Client that sent the datagram or receives it.
    pub client: SocketAddr,
    /// Server that receives the datagram or sent it.
    pub server: SocketAddr,
    /// ECN field of the incoming datagram.
    pub ecn: u8,
    /// UDP payload of the incoming datagram.
    pub contents: &'a [u8],
    /// Time since the relay's start at which the datagram is forwarded, possibly corrupted; `None`
    /// if the line dropped it.
    pub leaves: Option<Duration>,
}

/// Observer of every datagram.
type Tap = Box<dyn FnMut(&Passing<'_>) + Send>;

/// Clock of a relay.
enum Clock {
    /// The wall clock, with the time at which the relay began.
    Wall(Instant),
    /// A number of milliseconds that a test sets.
    #[cfg(test)]
    Hand(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

/// A relay with its state.
pub struct Relay {
    entrances: Vec<Entrance>,
    pub(super) down: Line,
    pub(super) up: Line,
    rebindings: Rebindings,
    clients: Vec<Client>,
    known: HashMap<Place, usize>,
    pub(super) waiting: BinaryHeap<Reverse<Waiting>>,
    /// Datagrams that wait in a line.
    pub(super) held: Held,
    pub(super) waiting_bytes: usize,
    order: u64,
    clock: Clock,
    timers: Box<[LineTimer; 2]>,
    meter: LoadMeter,
    pub(super) control: Option<Control>,
    pub(super) stats: RelayStats,
    tap: Option<Tap>,
    /// Largest number of simultaneous clients.
    most: usize,
    buffer: [Vec<u8>; 1],
}

impl Entrance {
    fn open(listen: SocketAddr, to: SocketAddr) -> Result<Self, RelayError> {
        let bound = UdpSocket::bind(listen)
            .and_then(Udp::new)
            .map_err(|e| RelayError::Listen(listen, e))?;
        Ok(Self { listen: bound, to, full_since: None })
    }

    /// Returns whether this entrance receives datagrams that are sent to `to`.
    fn receives(&self, to: SocketAddr) -> io::Result<bool> {
        let at = self.listen.io().local_addr()?;
        // As a destination, the unspecified address means this host's loopback.
        let target = match to.ip() {
            ip if !ip.is_unspecified() => ip.to_canonical(),
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let listens = at.ip().to_canonical();
        // Only addresses of this host can be bound. A socket at [::] also receives IPv4 datagrams.
        let here =
            || UdpSocket::bind((target, 0)).is_ok() && (listens.is_ipv6() || target.is_ipv4());
        Ok(at.port() == to.port() && (listens == target || listens.is_unspecified() && here()))
    }
}

/// Checks that no server has the address of an entrance.
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
        f.debug_struct("Relay")
            .field("to", &to)
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// Listens for clients of the server at `to`. The relay's time begins now.
    ///
    /// # Errors
    /// Returns an error if the address is taken, if it does not belong to this host, or if it is
    /// the server's.
    // A relay works in real time, so it reads the wall clock.
    #[allow(clippy::disallowed_methods)]
    pub fn bind(listen: SocketAddr, to: SocketAddr, spec: RelaySpec) -> Result<Self, RelayError> {
        let entrances = vec![Entrance::open(listen, to)?];
        no_loop(&entrances)?;
        let RelaySpec { mut down, mut up, events, seed } = spec;
        let rebindings = Rebindings::of(&events);
        for line in [&mut down, &mut up] {
            line.impairments.events.extend(&events);
        }
        Ok(Self {
            entrances,
            // Each direction has its own random numbers.
            down: Line::new(down, seed.wrapping_mul(2)),
            up: Line::new(up, seed.wrapping_mul(2) + 1),
            rebindings,
            clients: Vec::new(),
            known: HashMap::new(),
            waiting: BinaryHeap::new(),
            held: Held::default(),
            waiting_bytes: 0,
            order: 0,
            clock: Clock::Wall(Instant::now()),
            timers: Box::new([LineTimer::new(), LineTimer::new()]),
            meter: LoadMeter::default(),
            control: None,
            stats: RelayStats::default(),
            tap: None,
            most: MOST_CLIENTS,
            buffer: [vec![0; LARGEST]],
        })
    }

    /// Also listens at another address, for clients of another server. These clients share the
    /// links.
    ///
    /// # Errors
    /// Returns an error if the address is taken, if it does not belong to this host, or if it is a
    /// server's.
    pub fn also(mut self, listen: SocketAddr, to: SocketAddr) -> Result<Self, RelayError> {
        self.entrances.push(Entrance::open(listen, to)?);
        no_loop(&self.entrances)?;
        Ok(self)
    }

    /// Shows every datagram to `tap` when its departure is decided. This happens when the datagram
    /// comes in, or when it leaves a scheduling queue.
    #[must_use]
    pub fn tapped(mut self, tap: impl FnMut(&Passing<'_>) + Send + 'static) -> Self {
        self.tap = Some(Box::new(tap));
        self
    }

    /// Returns the address for clients of the first server.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.address_of(0)
    }

    /// Returns the address for clients of the server with this number. Number 0 is the server of
    /// [`Relay::bind`].
    ///
    /// # Errors
    /// Returns an error if the system does not report the address, or if there is no such server.
    pub fn address_of(&self, number: usize) -> io::Result<SocketAddr> {
        let entrance = self.entrances.get(number).ok_or(io::ErrorKind::NotFound)?;
        entrance.listen.io().local_addr()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> RelayStats {
        let (down, up) = (self.down.stats(), self.up.stats());
        let cut_off = self.stats.cut_off + down.impairments.cut_off + up.impairments.cut_off;
        let [down_timing, up_timing] = [&self.timers[0], &self.timers[1]].map(LineTimer::timing);
        RelayStats {
            down,
            up,
            cut_off,
            down_timing,
            up_timing,
            load: self.meter.load,
            ..self.stats
        }
    }

    /// Relays datagrams until `stop` is set or the time `until` is reached. Calls `look` about 20
    /// times a second. Datagrams that are still in transit at the end are lost.
    ///
    /// # Errors
    /// Returns an error if opening a socket or waiting for sockets fails. Datagrams that cannot be
    /// sent are dropped and counted, as in a network.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        until: Option<Duration>,
        mut look: impl FnMut(Duration, &RelayStats),
    ) -> Result<(), RelayError> {
        let mut looked = self.now();
        self.meter.update(looked, false);
        loop {
            let now = self.now();
            if stop.load(Ordering::Relaxed) || until.is_some_and(|until| now >= until) {
                self.meter.update(now, true);
                return Ok(());
            }
            if now >= looked + LOOK_UP {
                self.meter.update(now, false);
                look(now, &self.stats());
                self.forget(now);
                self.obey(now);
                looked = now;
            }
            if self.rebindings.is_due(now) {
                self.rebind();
            }
            self.send_due(now);
            self.wait(now, until)?;
        }
    }

    /// Gives every client another port towards its server.
    pub(super) fn rebind(&mut self) {
        for client in &mut self.clients {
            match towards(self.entrances[client.at.0].to) {
                Ok(socket) => client.socket = socket,
                Err(_) => self.stats.not_rebound += 1,
            }
        }
    }

    /// Returns the time since the relay's start.
    // A relay works in real time, so it reads the wall clock.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        match &self.clock {
            Clock::Wall(start) => start.elapsed(),
            #[cfg(test)]
            Clock::Hand(millis) => Duration::from_millis(millis.load(Ordering::Relaxed)),
        }
    }

    /// Sleeps until a datagram comes in or has to be forwarded. Then reads the incoming datagrams.
    fn wait(&mut self, now: Duration, until: Option<Duration>) -> Result<(), RelayError> {
        let due = self.waiting.peek().map(|Reverse(next)| next.at);
        let [down, up] = [&self.down, &self.up].map(Line::next_departure);
        let [due, down, up] = [due, down, up].map(|at| Some(at?.since(Time::ZERO)));
        let times = [due, down, up, self.rebindings.next(), until, Some(now + LOOK_UP)];
        let sleep = times.into_iter().flatten().min().unwrap_or(now).saturating_sub(now);
        let timeout =
            Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        // Read from the clients first. This neither adds nor removes clients, so their numbers stay
        // valid until all clients have been read.
        let sockets =
            self.clients.iter().map(|c| &c.socket).chain(self.entrances.iter().map(|e| &e.listen));
        let mut polled: Vec<PollFd<'_>> =
            sockets.map(|s| PollFd::new(s.io(), PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // More files are open than the process may have now, because its limit was lowered.
            Err(rustix::io::Errno::INVAL) if self.remove_oldest() => return Ok(()),
            Err(e) => return Err(RelayError::Wait(e.into())),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.take_in(&ready, &mut buffer);
        self.buffer = buffer;
        Ok(())
    }

    /// Reads pending datagrams, from the clients' sockets and then from the entrances.
    fn take_in(&mut self, ready: &[bool], buffer: &mut [Vec<u8>; 1]) {
        let clients = self.clients.len();
        for (number, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
            let (client, number) = match number.checked_sub(clients) {
                None => (Some(number), 0),
                Some(entrance) => (None, entrance),
            };
            let now = Time::ZERO + self.now();
            let full_since = match client {
                None => self.entrances[number].full_since,
                Some(client) => self.clients[client].full_since,
            };
            let late = full_since.is_some_and(|since| now.since(since) > LATE);
            let mut emptied = false;
            for _ in 0..BATCH {
                let socket = match client {
                    None => &self.entrances[number].listen,
                    Some(client) => &self.clients[client].socket,
                };
                let mut metas = [RecvMeta::default()];
                if socket.receive(buffer, &mut metas) == 0 {
                    emptied = true;
                    break;
                }
                let ([meta], [buffer]) = (metas, &*buffer);
                let count = meta.len.div_ceil(meta.stride.max(1)) as u64;
                self.meter.load.read += count;
                self.meter.load.read_late += if late { count } else { 0 };
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    match client {
                        None => self.take_from_client((number, meta.addr), meta.ecn, datagram),
                        Some(client) => {
                            self.pass(Towards::Client, self.clients[client].at, meta.ecn, datagram)
                        }
                    }
                }
            }
            let full_since = if emptied { None } else { full_since.or(Some(now)) };
            match client {
                None => self.entrances[number].full_since = full_since,
                Some(client) => self.clients[client].full_since = full_since,
            }
        }
    }

    fn take_from_client(&mut self, at: Place, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        let now = Time::ZERO + self.now();
        match self.known.get(&at) {
            Some(client) => self.clients[*client].last_heard = now,
            None => {
                if self.clients.len() >= self.most {
                    self.remove_oldest();
                }
                let to = self.entrances[at.0].to;
                // If no more files can be opened, the client that has been silent for longest makes
                // room, as at the limit of clients.
                let socket = loop {
                    match towards(to) {
                        Ok(socket) => break socket,
                        Err(RelayError::Open(_, e)) if no_file_left(&e) && self.remove_oldest() => {
                        }
                        Err(_) => {
                            self.stats.overrun += 1;
                            return;
                        }
                    }
                };
                self.known.insert(at, self.clients.len());
                self.clients.push(Client {
                    at,
                    socket,
                    last_heard: now,
                    full_since: None,
                    short: 0,
                });
                self.stats.clients += 1;
            }
        }
        self.pass(Towards::Server, at, ecn, datagram);
    }

    /// Enters a datagram into its line.
    fn pass(
        &mut self,
        towards: Towards,
        client: Place,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
    ) {
        let now = self.now();
        let passage = Passage { towards, client, ecn, at: now };
        if self.line(towards).schedules() {
            return self.enter_scheduled(passage, datagram);
        }
        let number = self.held.next_number();
        let incoming = Incoming {
            number,
            payload: datagram.len() as u32,
            flow: flow_of(client),
            ecn: ecn.map(field),
        };
        let now = Time::ZERO + now;
        match self.line(towards).arrive(now, incoming) {
            Some(copies) => self.go_on(passage, copies, datagram),
            None => {
                self.held.keep(passage, datagram);
                self.waiting_bytes += Waiting::cost(datagram.len());
            }
        }
        self.depart_due(now);
    }

    pub(super) fn line(&mut self, towards: Towards) -> &mut Line {
        match towards {
            Towards::Client => &mut self.down,
            Towards::Server => &mut self.up,
        }
    }

    /// Schedules the copies of a datagram after its line has decided on it. Also shows the datagram
    /// to the observer.
    pub(super) fn go_on(&mut self, passage: Passage, copies: Copies, datagram: &[u8]) {
        let Passage { towards, client, ecn, at } = passage;
        if let Some(tap) = &mut self.tap {
            let to_server = towards == Towards::Server;
            let (ecn, leaves) =
                (ecn.map_or(0, |ecn| ecn as u8), copies[0].map(|copy| copy.at.since(Time::ZERO)));
            let server = self.entrances[client.0].to;
            tap(&Passing {
                at,
                to_server,
                client: client.1,
                server,
                ecn,
                contents: datagram,
                leaves,
            });
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
            self.waiting_bytes += Waiting::cost(contents.len());
            self.order += 1;
            let ecn = copy.ecn.map(Ecn::bits);
            let arrived = Time::ZERO + passage.at;
            let Copy { at, out, .. } = copy;
            self.waiting.push(Reverse(Waiting {
                at,
                order: self.order,
                towards,
                arrived,
                out,
                client,
                ecn,
                contents,
            }));
        }
    }

    fn send_due(&mut self, now: Duration) {
        let now = Time::ZERO + now;
        self.depart_due(now);
        while self.waiting.peek().is_some_and(|Reverse(next)| next.at <= now) {
            let Some(Reverse(next)) = self.waiting.pop() else { return };
            self.waiting_bytes -= Waiting::cost(next.contents.len());
            self.timers[usize::from(next.towards == Towards::Server)].record(
                next.arrived,
                next.at,
                now,
            );
            if next.towards == Towards::Server
                && is_short(&next.contents)
                && self.rebindings.after_handshake()
            {
                self.count_short(next.client);
            }
            let ecn = next.ecn.and_then(EcnCodepoint::from_bits);
            let entrance = &self.entrances[next.client.0];
            let sent = match (next.towards, self.known.get(&next.client)) {
                (Towards::Client, _) => entrance.listen.send(next.client.1, ecn, &next.contents),
                (Towards::Server, Some(client)) => {
                    self.clients[*client].socket.send(entrance.to, ecn, &next.contents)
                }
                // The client was forgotten in the meantime.
                (Towards::Server, None) => Ok(()),
            };
            // A refused connection means that no program listens at the other end, which is not an
            // error of the relay.
            let full = matches!(&sent, Err(e) if e.kind() != io::ErrorKind::ConnectionRefused);
            self.stats.overrun += u64::from(full);
        }
    }

    /// Counts a short-header datagram of a client, and rebinds the client when its handshake is
    /// over. Datagrams in transit to the previous port are lost, as when a NAT has forgotten its
    /// mapping.
    fn count_short(&mut self, at: Place) {
        let Some(client) = self.known.get(&at).map(|client| &mut self.clients[*client]) else {
            return;
        };
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
        self.held.lose_those_to(at);
    }

    /// Forgets clients that have been silent for [`FORGOTTEN`].
    fn forget(&mut self, now: Duration) {
        let since = Time::ZERO + now.saturating_sub(FORGOTTEN);
        while let Some(silent) = self.clients.iter().position(|client| client.last_heard < since) {
            self.remove(silent);
        }
    }

    /// Forgets the client that has been silent for longest. Returns `false` if there are no
    /// clients.
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
mod tests;
