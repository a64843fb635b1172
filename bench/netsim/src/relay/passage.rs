//! A datagram's passage through a relay: its direction, its client and its ECN field.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quinn_udp::EcnCodepoint;

use crate::ecn::Ecn;
use crate::hash::StableHash;

/// A client, identified by the number of its entrance and by its address.
pub(super) type Place = (usize, SocketAddr);

/// End towards which a datagram travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Towards {
    Client,
    Server,
}

/// A datagram in a line, or on its way into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) towards: Towards,
    pub(super) client: Place,
    pub(super) ecn: Option<EcnCodepoint>,
    /// Time at which the datagram came in.
    pub(super) at: Duration,
}

/// Converts a client to a flow number.
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

/// Converts an ECN codepoint to the type of links and queues.
pub(super) const fn field(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}
