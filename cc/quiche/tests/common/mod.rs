//! Two connections in virtual time with a link between them, in one thread, without sockets and
//! without a real clock.
//!
//! [`Pair::wire`] records every datagram. [`Pair::run`] stops when a condition holds or time is up.

#![allow(dead_code)] // Each test file uses its part.

mod configs;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quiche::fathom::simulation::{self, ConnectionRng};
use quiche::fathom::Clock;
use quiche::{Config, Connection, ConnectionId, RecvInfo};

pub use configs::*;

pub const MS: Duration = Duration::from_millis(1);
/// Largest UDP payload, quiche's default.
pub const MTU: usize = 1200;

/// Clock for the timestamps of a side. Its time is the connections' time plus an offset, as on a
/// host with another clock.
pub struct SimulatedClock(pub u64);

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        simulation::now()
    }

    fn stamp(&self, since_start: u64) -> u64 {
        since_start + self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Passes with this ECN field.
    Pass(u8),
    Drop,
    /// Arrives later by this time.
    Late(Duration),
}

/// A datagram as it left.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Time since the pair began.
    pub at: Duration,
    pub from_client: bool,
    /// Number of the datagram, from 0 in each direction.
    pub number: usize,
    pub bytes: Vec<u8>,
    pub ecn: u8,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

impl Datagram {
    /// Returns whether the datagram contains only one 1-RTT packet (RFC 9000 §17.3.1).
    pub fn is_short(&self) -> bool {
        self.bytes[0] & 0x80 == 0
    }
}

pub struct Side {
    pub conn: Connection,
    pub rng: ConnectionRng,
    /// Streams and the bytes still to be written to each; the end follows the last byte.
    pub to_write: Vec<(u64, usize)>,
    /// Bytes read, over all streams.
    pub read: usize,
    /// Streams that the peer reset, and its error codes.
    pub resets: Vec<(u64, u64)>,
    /// Number of calls of [`Connection::on_timeout`] for a timer that was due.
    pub wakeups: usize,
    /// First error of `recv`.
    pub error: Option<quiche::Error>,
    writes: usize,
}

type Filter = Box<dyn FnMut(&Datagram) -> Action>;

pub struct Pair {
    pub start: Instant,
    pub now: Instant,
    pub client: Side,
    pub server: Side,
    /// Delays from client to server and back.
    pub delays: [Duration; 2],
    /// Bottleneck rate of each direction in bytes per second, if there is a bottleneck.
    pub rate: Option<u64>,
    /// A NAT that from now on replaces the first address by the second address.
    pub rebind: Option<(SocketAddr, SocketAddr)>,
    /// Granularity to which timers are rounded up.
    pub grain: Duration,
    pub filter: Filter,
    pub wire: Vec<Datagram>,
    free: [Instant; 2],
    coming: BTreeMap<(Instant, u64), Datagram>,
    counts: [usize; 2],
    order: u64,
}

pub const CLIENT: &str = "10.0.0.1:1000";
pub const SERVER: &str = "10.0.0.2:443";

impl Pair {
    /// Creates a connection with these delays, after the handshake and idle.
    pub fn connected(client: &mut Config, server: &mut Config, delays: [Duration; 2]) -> Self {
        let mut pair = Self::new(client, server, delays);
        assert!(pair.run(5_000, |pair| pair.client.conn.is_established()
            && pair.server.conn.is_established()));
        let until = pair.now + 200 * MS;
        pair.run(1_000, |pair| pair.now >= until);
        pair
    }

    pub fn new(client: &mut Config, server: &mut Config, delays: [Duration; 2]) -> Self {
        // quiche subtracts durations from its first instants, so the simulation starts a day from
        // now.
        let start = simulation::now() + Duration::from_secs(86_400);
        let (here, there): (SocketAddr, SocketAddr) =
            (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        let mut rng = [ConnectionRng::new(1), ConnectionRng::new(2)];
        let cids = [ConnectionId::from_vec(vec![0xc1; 16]), ConnectionId::from_vec(vec![0x5e; 16])];
        let client = simulation::run_at(start, &mut rng[0], || {
            quiche::connect(Some("localhost"), &cids[0], here, there, client).expect("a client")
        });
        let server = simulation::run_at(start, &mut rng[1], || {
            quiche::accept(&cids[1], None, there, here, server).expect("a server")
        });
        let side = |conn, rng| Side {
            conn,
            rng,
            to_write: Vec::new(),
            read: 0,
            resets: Vec::new(),
            wakeups: 0,
            error: None,
            writes: 0,
        };
        Self {
            start,
            now: start,
            client: side(client, rng[0]),
            server: side(server, rng[1]),
            delays,
            rate: None,
            rebind: None,
            grain: Duration::ZERO,
            filter: Box::new(|d| Action::Pass(d.ecn)),
            wire: Vec::new(),
            free: [start; 2],
            coming: BTreeMap::new(),
            counts: [0; 2],
            order: 0,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Runs until `done`, for at most `millis`. Returns whether `done` was reached.
    pub fn run(&mut self, millis: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + Duration::from_millis(millis);
        loop {
            self.flush();
            if done(self) {
                return true;
            }
            let timers = [&self.client, &self.server].map(|side| self.timer(side));
            let arrival = self.coming.keys().next().map(|(at, _)| *at);
            let Some(next) =
                timers.into_iter().chain([arrival]).flatten().min().filter(|at| *at <= end)
            else {
                self.now = end;
                return done(self);
            };
            self.now = self.now.max(next);
            for (side, timer) in [&mut self.client, &mut self.server].into_iter().zip(timers) {
                if timer.is_some_and(|at| at <= self.now) {
                    side.wakeups += 1;
                    simulation::run_at(self.now, &mut side.rng, || side.conn.on_timeout());
                }
            }
            while let Some(entry) = self.coming.first_entry().filter(|e| e.key().0 <= self.now) {
                let datagram = entry.remove();
                self.deliver(datagram);
            }
        }
    }

    /// Delivers the datagram that arrives next, before either application acts or sends anything
    /// else.
    pub fn deliver_next(&mut self) {
        let (&(at, order), _) = self.coming.first_key_value().expect("a datagram on its way");
        let datagram = self.coming.remove(&(at, order)).expect("it is there");
        self.now = self.now.max(at);
        self.deliver(datagram);
    }

    /// Returns the time at which the side's timer expires, rounded up to the host's timer
    /// granularity (`grain`).
    fn timer(&self, side: &Side) -> Option<Instant> {
        let at = simulation::run_at(self.now, &mut ConnectionRng::new(0), || {
            side.conn.timeout_instant()
        })?;
        let since = at.saturating_duration_since(self.start).as_nanos() as u64;
        let grain = self.grain.as_nanos().max(1) as u64;
        Some(self.start + Duration::from_nanos(since.div_ceil(grain) * grain))
    }

    fn deliver(&mut self, datagram: Datagram) {
        let now = self.now;
        let side = if datagram.from_client { &mut self.server } else { &mut self.client };
        let mut bytes = datagram.bytes;
        let (from, to) = match self.rebind {
            Some((inside, outside)) if datagram.from == inside => (outside, datagram.to),
            Some((inside, outside)) if datagram.to == outside => (datagram.from, inside),
            _ => (datagram.from, datagram.to),
        };
        let info = RecvInfo { from, to };
        side.inside(now, |side| {
            side.conn.set_received_ecn(datagram.ecn);
            if let Err(e) = side.conn.recv(&mut bytes, info) {
                side.error.get_or_insert(e);
            }
            side.serve();
        });
        self.flush();
    }

    /// Lets both applications write and send everything they can now.
    pub fn flush(&mut self) {
        for from_client in [true, false] {
            for packets in 0.. {
                assert!(packets < 20_000, "send() never ends");
                let now = self.now;
                let side = if from_client { &mut self.client } else { &mut self.server };
                // A used buffer, as applications have it.
                let mut out = vec![0xa5; 1500];
                let sent = side.inside(now, |side| {
                    side.serve();
                    side.conn.send(&mut out).map(|(len, info)| (len, info, side.conn.ecn_to_send()))
                });
                let Ok((len, info, ecn)) = sent else { break };
                out.truncate(len);
                let number = self.counts[usize::from(!from_client)];
                self.counts[usize::from(!from_client)] += 1;
                let at = self.elapsed();
                let datagram = Datagram {
                    at,
                    from_client,
                    number,
                    bytes: out,
                    ecn,
                    from: info.from,
                    to: info.to,
                };
                self.carry(&datagram);
                self.wire.push(datagram);
            }
        }
    }

    fn carry(&mut self, datagram: &Datagram) {
        let way = usize::from(!datagram.from_client);
        let (late, ecn) = match (self.filter)(datagram) {
            Action::Drop => return,
            Action::Pass(ecn) => (Duration::ZERO, ecn),
            Action::Late(late) => (late, datagram.ecn),
        };
        let served = self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_nanos((datagram.bytes.len() as u64 * 1_000_000_000).div_ceil(rate))
        });
        self.free[way] = self.free[way].max(self.now) + served;
        self.order += 1;
        let arrival = self.free[way] + self.delays[way] + late;
        self.coming.insert((arrival, self.order), Datagram { ecn, ..datagram.clone() });
    }

    /// Loses all datagrams to this address, including datagrams in flight.
    pub fn lose_on_the_way_to(&mut self, address: SocketAddr) {
        self.coming.retain(|_, datagram| datagram.to != address);
        self.filter =
            Box::new(move |d| if d.to == address { Action::Drop } else { Action::Pass(d.ecn) });
    }

    /// Returns the client's datagrams with 1-RTT packets from `from` on.
    pub fn shorts(&self, from: Duration) -> impl Iterator<Item = &Datagram> {
        self.wire.iter().filter(move |d| d.from_client && d.at >= from && d.is_short())
    }
}

impl Side {
    fn inside<T>(&mut self, now: Instant, work: impl FnOnce(&mut Self) -> T) -> T {
        let mut rng = self.rng;
        let done = simulation::run_at(now, &mut rng, || work(self));
        self.rng = rng;
        done
    }

    /// Writes as much as the connection accepts, and reads all available data.
    fn serve(&mut self) {
        self.to_write.retain_mut(|(stream, left)| {
            let chunk = [7; 16_384];
            while *left > 0 {
                let len = (*left).min(chunk.len());
                match self.conn.stream_send(*stream, &chunk[..len], *left == len) {
                    Ok(taken) if taken > 0 => {
                        *left -= taken;
                        self.writes += taken;
                    }
                    _ => break,
                }
            }
            *left > 0
        });
        let mut buf = [0; 65_536];
        for stream in self.conn.readable().collect::<Vec<_>>() {
            loop {
                match self.conn.stream_recv(stream, &mut buf) {
                    Ok((len, _)) => self.read += len,
                    Err(quiche::Error::StreamReset(code)) => self.resets.push((stream, code)),
                    Err(_) => break,
                }
            }
        }
    }

    /// Returns the number of bytes that the connection accepted from the application.
    pub fn written(&self) -> usize {
        self.writes
    }
}

/// Gives each side two more connection IDs of the other.
pub fn spare_ids(pair: &mut Pair) {
    let now = pair.now;
    for (side, first) in [(&mut pair.client, 0x10), (&mut pair.server, 0x20)] {
        for n in 0..2 {
            let id = ConnectionId::from_vec(vec![first + n; 16]);
            simulation::run_at(now, &mut side.rng, || {
                side.conn.new_scid(&id, u128::from(first + n), false)
            })
            .expect("room for it");
        }
    }
    pair.run(200, |_| false);
}
