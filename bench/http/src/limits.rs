//! Limits of the server, per client and in total.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

/// Bytes besides DATA frames that a response may bring to a client: its header and trailers, and frames that nobody knows. Header fields
/// may take as many when they are unpacked.
pub(crate) const RESPONSE_BYTES: u64 = 64 << 10;

/// Limits of a server. The defaults suit a public server on a small machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more are refused.
    pub connections: usize,
    /// Connections at once of one client prefix, those in their handshake too; more are refused. `None`: a fiftieth of all
    /// ([`Self::per_client_by_default`]), and any number for loopback, private and link-local addresses.
    pub connections_per_client: Option<usize>,
    /// How much of an address is one client's.
    pub client_prefix: ClientPrefix,
    /// Handshakes at once; while there are more, clients prove their address with a Retry (RFC 9000 §8.1.2) first.
    pub handshakes: usize,
    /// Connections per second from clients without a validated address; above that, they get a Retry as well.
    /// What fails at once is a handshake under way for no time.
    pub unvalidated_per_second: u32,
    /// Requests at once on a connection.
    pub streams: u32,
    /// Bytes of a request's header fields (RFC 9114 §4.2.2).
    pub header_bytes: u64,
    /// A connection on which nothing happens for so long ends.
    pub idle_timeout: Duration,
    /// A request whose header is not complete so long after its stream was opened is refused.
    pub header_timeout: Duration,
    /// A connection without a complete request for so long, and without a response that is open, ends: whatever else its client sends.
    pub request_timeout: Duration,
    /// In each such time a client takes of its responses what they held at its beginning, or 500 bytes per second, or they are given up.
    pub stall_timeout: Duration,
    /// Bytes of responses that a connection may have unacknowledged or unsent, at most.
    pub send_buffer: u64,
    /// Bytes of responses that all connections together may have unacknowledged or unsent. Each may have 16 KiB whatever the others have.
    pub unacknowledged: u64,
    /// While more than half of `unacknowledged` is in use, a connection that has more than 16 KiB of it ends if its client does not take a
    /// fourth of it in so long.
    pub pressure_timeout: Duration,
    /// The longest delay that `/delay/MS/` grants.
    pub max_delay: Duration,
    /// Requests are taken in 0-RTT: somebody may send them again, which GET and HEAD bear (RFC 9001 §9.2).
    pub early_data: bool,
    /// The largest body that `/bytes/N` grants.
    pub max_body: u64,
}

impl Limits {
    /// Bytes besides DATA frames that a request may bring: its header fields, and as much again for frames that nobody knows.
    pub(crate) const fn request_bytes(&self) -> u64 {
        self.header_bytes.saturating_mul(2)
    }

    /// Connections of one client prefix where there are so many for all: fifty prefixes fill a server, and an office behind one address
    /// has some hundred.
    pub const fn per_client_by_default(connections: usize) -> usize {
        let part = connections / 50;
        if part < 16 { 16 } else { part }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_client: None,
            client_prefix: ClientPrefix::default(),
            handshakes: 256,
            unvalidated_per_second: 500,
            streams: 100,
            header_bytes: 16 << 10,
            idle_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            send_buffer: 8 << 20,
            unacknowledged: 128 << 20,
            pressure_timeout: Duration::from_secs(5),
            max_delay: Duration::from_secs(60),
            early_data: false,
            max_body: 1 << 40,
        }
    }
}

/// How many bits of an address tell one client from another. An IPv4 address is a household's, or more: neighbours in a /24 share
/// nothing. An IPv6 customer has a /56 (RIPE-690 §4.2, RFC 6177), from which every connection may have an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPrefix {
    v4: u8,
    v6: u8,
}

impl Default for ClientPrefix {
    fn default() -> Self {
        Self { v4: 32, v6: 56 }
    }
}

impl ClientPrefix {
    /// The address of this prefix in which all other bits are zero. IPv4 within IPv6 is IPv4.
    pub(crate) fn of(self, ip: IpAddr) -> IpAddr {
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }
}

impl fmt::Display for ClientPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.v4, self.v6)
    }
}

impl FromStr for ClientPrefix {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let bits = |text: &str, most: u8| text.trim().parse().ok().filter(|bits| *bits <= most);
        let both = s
            .split_once(',')
            .and_then(|(v4, v6)| Some(Self { v4: bits(v4, 32)?, v6: bits(v6, 128)? }));
        both.ok_or_else(|| {
            format!(
                "'{}' is no pair of prefix lengths; write bits of IPv4 and of IPv6, such as 32,56",
                s.escape_debug()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_prefix_masks_addresses() {
        let of = |prefix: &str, ip: &str| {
            prefix.parse::<ClientPrefix>().unwrap().of(ip.parse().unwrap()).to_string()
        };
        assert_eq!(of("32,56", "192.0.2.77"), "192.0.2.77");
        assert_eq!(of("24,56", "192.0.2.77"), "192.0.2.0");
        assert_eq!(of("24,56", "::ffff:192.0.2.77"), "192.0.2.0");
        assert_eq!(of("0,56", "192.0.2.77"), "0.0.0.0");
        assert_eq!(of("32,56", "2001:db8:1:23ff::9"), "2001:db8:1:2300::");
        assert_eq!(of("32,0", "2001:db8::9"), "::");
        for wrong in ["", "32", "33,56", "32,129", "a,b", "-1,2"] {
            assert!(wrong.parse::<ClientPrefix>().unwrap_err().contains("32,56"), "{wrong}");
        }
        assert_eq!(ClientPrefix::default().to_string(), "32,56");
    }
}
