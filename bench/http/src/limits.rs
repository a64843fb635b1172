//! Limits of the server, per client and in total.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use fathom_cc::Invalid;

/// Number of response bytes other than DATA frames that a client accepts: header, trailers and
/// unknown frames. The limit for decompressed header fields is the same.
pub(crate) const RESPONSE_BYTES: u64 = 64 << 10;

/// Limits of a server. The defaults suit a public server on a small machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of simultaneous connections. Further attempts are refused.
    pub connections: usize,
    /// Maximum number of simultaneous connections of one client prefix. Further attempts are
    /// refused. Connections without a validated address do not count for refusals; they only make
    /// further clients of the prefix validate their address with a Retry. `None` means a fiftieth
    /// of all connections ([`Self::per_client_by_default`]), and no limit for loopback, private,
    /// shared (RFC 6598) and link-local addresses.
    pub connections_per_client: Option<usize>,
    /// Length of the address prefix that counts as one client.
    pub client_prefix: ClientPrefix,
    /// Number of simultaneous handshakes at which clients must first validate their address with a
    /// Retry (RFC 9000 §8.1.2).
    pub handshakes: usize,
    /// Rate of connections from clients without a validated address, per second. Above this rate,
    /// clients must also validate their address with a Retry. This limit also covers attempts that
    /// fail at once and therefore hardly count as handshakes in progress.
    pub unvalidated_per_second: u32,
    /// Maximum number of simultaneous requests on a connection.
    pub streams: u32,
    /// Maximum number of bytes of a request's header fields (RFC 9114 §4.2.2).
    pub header_bytes: u64,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// Time limit for a request's header, from the opening of its stream. Requests that exceed this
    /// limit are refused.
    pub header_timeout: Duration,
    /// Time after which a connection without a complete request and without an open response is
    /// closed, whatever else its client sends.
    pub request_timeout: Duration,
    /// Period in which a client must acknowledge either the bytes that its responses held at the
    /// start of the period, or 500 bytes per second if that is less. Otherwise, its responses are
    /// reset.
    pub stall_timeout: Duration,
    /// Largest number of response bytes that a connection may have unacknowledged or unsent.
    pub send_buffer: u64,
    /// Largest number of response bytes that all connections together may have unacknowledged or
    /// unsent. Each connection may have 16 KiB regardless of the others.
    pub unacknowledged: u64,
    /// Period that applies while more than half of `unacknowledged` is in use. A connection that
    /// holds more than 16 KiB is closed if its client does not acknowledge a fourth of these bytes
    /// within the period.
    pub pressure_timeout: Duration,
    /// Longest delay of `/delay/MS/`.
    pub max_delay: Duration,
    /// Whether requests are accepted in 0-RTT. An attacker may replay them, which is harmless for
    /// GET and HEAD (RFC 9001 §9.2).
    pub early_data: bool,
    /// Largest body of `/bytes/N`.
    pub max_body: u64,
}

impl Limits {
    /// Returns the number of request bytes other than DATA frames that are accepted: the limit of
    /// header fields, and the same number again for unknown frames.
    pub(crate) const fn request_bytes(&self) -> u64 {
        self.header_bytes.saturating_mul(2)
    }

    /// Returns the default limit of connections per client prefix: a fiftieth of `connections`, but
    /// at least 16. Fifty prefixes can then fill a server. An office behind one address has about a
    /// hundred connections.
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

/// Number of address bits that identify a client. An IPv4 address belongs to a household or more,
/// and neighbours in a /24 have nothing in common. An IPv6 customer has a /56 (RIPE-690 §4.2,
/// RFC 6177), in which every connection may have its own address.
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
    /// Returns the first address of this prefix, with all other bits zero. IPv4 addresses mapped
    /// into IPv6 count as IPv4.
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
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let bits = |text: &str, most: u8| text.trim().parse().ok().filter(|bits| *bits <= most);
        let both = s
            .split_once(',')
            .and_then(|(v4, v6)| Some(Self { v4: bits(v4, 32)?, v6: bits(v6, 128)? }));
        both.ok_or_else(|| {
            Invalid::value(s, "is not a valid pair of prefix lengths")
                .hint("write the lengths for IPv4 and IPv6, such as 32,56")
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
            let error = wrong.parse::<ClientPrefix>().unwrap_err();
            assert!(error.hint.contains("32,56"), "{wrong}: {error}");
        }
        assert_eq!(ClientPrefix::default().to_string(), "32,56");
    }
}
