//! A datagram's passage through a relay: its direction, its client and its ECN field.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quinn_udp::EcnCodepoint;

use crate::ecn::Ecn;
use crate::hash::StableHash;

/// Number of a client's entrance, and the client's address.
pub(super) type Place = (usize, SocketAddr);

/// End to which a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Towards {
    Client,
    Server,
}

/// A datagram on its way into or through a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) towards: Towards,
    pub(super) client: Place,
    pub(super) ecn: Option<EcnCodepoint>,
    /// Time at which the datagram came in.
    pub(super) at: Duration,
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

/// Returns an ECN codepoint as the links and queues know it.
pub(super) const fn field(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}
