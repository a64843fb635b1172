//! Decrypts and analyses the datagrams that passed the relay, with the TLS secrets that one of the
//! endpoints logged. The analysis is the same for every pair of implementations.
//!
//! | file | contents |
//! |---|---|
//! | `capture.rs` | the captured datagrams; pcap export |
//! | `packet.rs` | packet headers (RFC 9000 §17) |
//! | `keys.rs` | secrets, keys and decryption (RFC 9001 §5) |
//! | `tls.rs` | TLS handshake messages |
//! | `connection.rs` | the packets of one connection |

mod capture;
mod connection;
mod keys;
mod packet;
mod tls;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

pub use capture::{Capture, CapturedDatagram};
pub use connection::{
    ConnectionClose, ConnectionTrace, EndpointTrace, RelayedPacket, SendTimestamp, TimestampedAck,
};
pub use keys::Secrets;
pub use tls::TransportParameters;

use packet::{Packet, PacketType};

/// Maximum number of connections in a trace.
const MAX_CONNECTIONS: usize = 4096;
/// Maximum size of the packet log in bytes.
const MAX_LOG: usize = 16 << 20;

/// All connections that passed a relay.
#[derive(Debug, Default)]
pub struct Trace {
    /// Connections in the order in which they started.
    pub connections: Vec<ConnectionTrace>,
    /// Number of datagrams with ECT(0), ECT(1) or CE, from clients and from the server.
    pub ect: [u64; 2],
    /// Whether datagrams are missing because the capture reached its limit.
    pub truncated: bool,
    /// The packet log, one line per packet.
    pub log: String,
}

impl Trace {
    /// Analyses a capture.
    pub fn read(capture: &Capture, secrets: &Secrets) -> Self {
        let mut trace = Self { truncated: capture.is_truncated(), ..Self::default() };
        // Indices of the connections of each client address.
        let mut of: HashMap<SocketAddr, Vec<usize>> = HashMap::new();
        for datagram in capture.datagrams() {
            trace.ect[usize::from(!datagram.to_server)] += u64::from(datagram.ecn != 0);
            let numbers = of.entry(datagram.client).or_default();
            for packet in packet::split_datagram(&datagram.contents) {
                trace.on_packet(datagram, &packet, numbers, secrets);
            }
        }
        trace
    }

    fn on_packet(
        &mut self,
        datagram: &CapturedDatagram,
        packet: &Packet<'_>,
        numbers: &mut Vec<usize>,
        secrets: &Secrets,
    ) {
        let belongs = |connections: &[ConnectionTrace], number: &usize| {
            connections[*number].matches(packet, datagram.to_server)
        };
        let known = numbers.iter().rev().copied().find(|number| belongs(&self.connections, number));
        let starts = datagram.to_server && packet.kind == PacketType::Initial;
        let number = match known {
            Some(number) => number,
            None if starts && self.connections.len() < MAX_CONNECTIONS => {
                numbers.push(self.connections.len());
                self.connections.push(ConnectionTrace::new(packet));
                self.connections.len() - 1
            }
            None => return,
        };
        let what = self.connections[number].on_packet(packet, datagram, secrets);
        if self.log.len() < MAX_LOG {
            let at = datagram.at.as_secs_f64();
            let (way, lost) = (
                if datagram.to_server { '>' } else { '<' },
                if datagram.leaves.is_some() { "" } else { " LOST" },
            );
            let _ = writeln!(
                self.log,
                "{at:10.6} {number} {way} {:4} {what}{lost}",
                packet.bytes.len()
            );
        }
    }

    /// Returns all closes with a protocol error that a faulty extension would cause, with the
    /// endpoints that sent them.
    pub fn protocol_errors(&self) -> Vec<(&'static str, ConnectionClose)> {
        let of = |c: &ConnectionTrace| {
            let sides = [("client", &c.client), ("server", &c.server)];
            sides.map(|(name, side)| {
                side.close
                    .clone()
                    .filter(ConnectionClose::is_protocol_error)
                    .map(|close| (name, close))
            })
        };
        self.connections.iter().flat_map(of).flatten().collect()
    }

    /// Returns the number of Retry packets.
    pub fn retries(&self) -> u64 {
        self.connections.iter().map(|c| c.retries).sum()
    }
}

/// Synthetic connections for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::tls::{ClientHello, EncryptedExtensions, ServerHello};
    use super::*;

    /// Returns a successful connection without any special event.
    pub(in super::super) fn connection_trace() -> ConnectionTrace {
        let bytes = [0xc0, 0, 0, 0, 1, 1, 7, 1, 8, 0, 1, 0];
        let mut connection_trace = ConnectionTrace::new(&packet::split_datagram(&bytes)[0]);
        connection_trace.client_hello = Some(ClientHello::default());
        connection_trace.server_hello = Some(ServerHello { suite: 0x1301, resumed: false });
        connection_trace.extensions = Some(EncryptedExtensions::default());
        for side in [&mut connection_trace.client, &mut connection_trace.server] {
            side.packets[3] = 5;
            side.acks = 1;
        }
        connection_trace
    }
}
