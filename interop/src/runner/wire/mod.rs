//! What endpoints said to each other, read from the relay's datagrams and the TLS secrets that one of them logged: the only witness that
//! every pair of stacks has.
//!
//! | file | what is in it |
//! |---|---|
//! | `capture.rs` | datagrams, as they came; as a file that Wireshark reads |
//! | `packet.rs` | headers (RFC 9000 §17) |
//! | `keys.rs` | secrets, keys and how packets are opened (RFC 9001 §5) |
//! | `hello.rs` | what TLS's messages say |
//! | `conversation.rs` | one connection, packet by packet |

mod capture;
mod conversation;
mod hello;
mod keys;
mod packet;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

pub use capture::{Capture, Datagram};
pub use conversation::{Claim, Closing, Conversation, Passage, Side, Stamp};
pub use hello::Parameters;
pub use keys::Secrets;

use packet::{Kind, Packet};

/// Connections followed at most.
const MOST: usize = 4096;
/// Bytes of the log.
const LOG: usize = 16 << 20;

/// All connections that passed a relay.
#[derive(Debug, Default)]
pub struct Wire {
    /// In the order in which they began.
    pub connections: Vec<Conversation>,
    /// Datagrams of clients, and of the server, that were ECT(0), ECT(1) or marked.
    pub ect: [u64; 2],
    /// Not all datagrams were kept.
    pub truncated: bool,
    /// Packet by packet, in a few words each.
    pub log: String,
}

impl Wire {
    /// Reads a capture.
    pub fn read(capture: &Capture, secrets: &Secrets) -> Self {
        let mut wire = Self { truncated: capture.is_truncated(), ..Self::default() };
        // Connections of a client's address, by number.
        let mut of: HashMap<SocketAddr, Vec<usize>> = HashMap::new();
        for datagram in capture.datagrams() {
            wire.ect[usize::from(!datagram.to_server)] += u64::from(datagram.ecn != 0);
            let numbers = of.entry(datagram.client).or_default();
            for packet in packet::split(&datagram.contents) {
                wire.take(datagram, &packet, numbers, secrets);
            }
        }
        wire
    }

    fn take(&mut self, datagram: &Datagram, packet: &Packet<'_>, numbers: &mut Vec<usize>, secrets: &Secrets) {
        let mine =
            |connections: &[Conversation], number: &usize| connections[*number].knows(packet, datagram.to_server);
        let known = numbers.iter().rev().copied().find(|number| mine(&self.connections, number));
        let starts = datagram.to_server && packet.kind == Kind::Initial;
        let number = match known {
            Some(number) => number,
            None if starts && self.connections.len() < MOST => {
                numbers.push(self.connections.len());
                self.connections.push(Conversation::new(packet));
                self.connections.len() - 1
            }
            None => return,
        };
        let what = self.connections[number].take(packet, datagram, secrets);
        if self.log.len() < LOG {
            let at = datagram.at.as_secs_f64();
            let (way, fate) =
                (if datagram.to_server { '>' } else { '<' }, if datagram.leaves.is_some() { "" } else { " LOST" });
            let _ = writeln!(self.log, "{at:10.6} {number} {way} {:4} {what}{fate}", packet.bytes.len());
        }
    }

    /// Closes that an extension which goes wrong ends in, by whom.
    pub fn faults(&self) -> Vec<(&'static str, Closing)> {
        let of = |c: &Conversation| {
            let sides = [("client", &c.client), ("server", &c.server)];
            sides.map(|(name, side)| side.close.clone().filter(Closing::is_fault).map(|close| (name, close)))
        };
        self.connections.iter().flat_map(of).flatten().collect()
    }

    /// Retry packets.
    pub fn retries(&self) -> u64 {
        self.connections.iter().map(|c| c.retries).sum()
    }
}

/// Connections that are made up.
#[cfg(test)]
pub(super) mod testing {
    use super::hello::{ClientHello, EncryptedExtensions, ServerHello};
    use super::*;

    /// One in which all went well, and nothing else happened.
    pub(in super::super) fn conversation() -> Conversation {
        let bytes = [0xc0, 0, 0, 0, 1, 1, 7, 1, 8, 0, 1, 0];
        let mut conversation = Conversation::new(&packet::split(&bytes)[0]);
        conversation.client_hello = Some(ClientHello::default());
        conversation.server_hello = Some(ServerHello { suite: 0x1301, resumed: false });
        conversation.extensions = Some(EncryptedExtensions::default());
        for side in [&mut conversation.client, &mut conversation.server] {
            side.packets[3] = 5;
            side.acks = 1;
        }
        conversation
    }
}
