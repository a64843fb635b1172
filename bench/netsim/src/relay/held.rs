//! Datagrams that wait in a line: for the choice of its queue, or until later ones have passed.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quinn_udp::EcnCodepoint;

use super::forwarder::{Place, Relay, Towards, Waiting};
use super::line::{Copies, Incoming};
use crate::hash::StableHash;
use crate::sim::Ecn;

/// A datagram on its way into or through a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) towards: Towards,
    pub(super) client: Place,
    pub(super) ecn: Option<EcnCodepoint>,
    /// Time at which the datagram came in.
    pub(super) at: Duration,
}

/// A datagram that waits.
#[derive(Debug)]
struct Waits {
    passage: Passage,
    contents: Vec<u8>,
    /// Whether the datagram is lost: it leaves the queue as others do, but arrives nowhere.
    lost: bool,
}

/// Waiting datagrams by number.
#[derive(Debug, Default)]
pub(super) struct Held {
    datagrams: Vec<Waits>,
    free: Vec<u32>,
}

impl Held {
    /// Returns the number that the next kept datagram will get.
    pub(super) fn next_number(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.datagrams.len() as u32)
    }

    /// Keeps a datagram and returns its number.
    pub(super) fn keep(&mut self, passage: Passage, contents: &[u8]) -> u32 {
        if let Some(number) = self.free.pop() {
            let kept = &mut self.datagrams[number as usize];
            (kept.passage, kept.lost) = (passage, false);
            kept.contents.extend_from_slice(contents);
            return number;
        }
        self.datagrams.push(Waits { passage, contents: contents.to_vec(), lost: false });
        self.datagrams.len() as u32 - 1
    }

    /// Removes and returns a datagram. Its storage is borrowed until [`Held::store`].
    fn take(&mut self, number: u32) -> Waits {
        self.free.push(number);
        let kept = &mut self.datagrams[number as usize];
        Waits { contents: std::mem::take(&mut kept.contents), ..*kept }
    }

    fn store(&mut self, number: u32, mut contents: Vec<u8>) {
        contents.clear();
        self.datagrams[number as usize].contents = contents;
    }

    /// Marks all datagrams on their way to this client as lost.
    pub(super) fn lose_those_to(&mut self, client: Place) {
        // Free numbers are marked as well; the mark is reset when a number is reused.
        for kept in &mut self.datagrams {
            kept.lost |= kept.passage.towards == Towards::Client && kept.passage.client == client;
        }
    }
}

impl Relay {
    /// Enters a datagram into a line whose queue schedules.
    pub(super) fn enter_scheduled(&mut self, passage: Passage, datagram: &[u8]) {
        let now = passage.at.as_nanos() as u64;
        let cost = Waiting::cost(datagram.len());
        self.depart_due(now);
        if self.waiting_bytes + cost > super::forwarder::MOST_BYTES {
            self.stats.overrun += 1;
            return;
        }
        let number = self.held.keep(passage, datagram);
        self.waiting_bytes += cost;
        let (payload, flow) = (datagram.len() as u32, flow_of(passage.client));
        let incoming = Incoming { number, payload, flow, ecn: passage.ecn.map(field) };
        if !self.line(passage.towards).enqueue(now, incoming) {
            self.departs(number, [None; 2]);
        }
        self.depart_due(now);
    }

    /// Forwards the datagrams that left the queues of scheduling lines by `now`, or have waited
    /// long enough for later ones.
    pub(super) fn depart_due(&mut self, now: u64) {
        for towards in [Towards::Client, Towards::Server] {
            while let Some((number, copies)) = self.line(towards).depart(now) {
                self.departs(number, copies);
            }
        }
    }

    fn departs(&mut self, number: u32, copies: Copies) {
        let Waits { passage, contents, lost } = self.held.take(number);
        self.waiting_bytes -= Waiting::cost(contents.len());
        let lost = lost && copies[0].is_some();
        self.stats.cut_off += u64::from(lost);
        self.go_on(passage, if lost { [None; 2] } else { copies }, &contents);
        self.held.store(number, contents);
    }
}

/// Returns a client as a flow number.
pub(super) fn flow_of((entrance, client): Place) -> u64 {
    let mut hash = StableHash::default();
    hash.add(entrance as u64);
    let client: SocketAddr = client;
    let ip = match client.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    for word in [ip as u64, (ip >> 64) as u64, u64::from(client.port())] {
        hash.add(word);
    }
    hash.value()
}

pub(super) const fn field(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}
