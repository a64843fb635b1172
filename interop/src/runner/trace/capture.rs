//! The datagrams that arrived at the relay.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use fathom_netsim::relay::Passing;

/// Limit in bytes for one capture, several times the size of a test's files.
const MAX_BYTES: usize = 128 << 20;

/// A datagram that arrived at the relay.
#[derive(Clone, Debug)]
pub struct CapturedDatagram {
    /// Arrival time since the relay's start.
    pub at: Duration,
    /// Direction: from client to server.
    pub to_server: bool,
    /// The client's address.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// ECN field.
    pub ecn: u8,
    /// Departure time since the relay's start; `None` if the link lost it.
    pub leaves: Option<Duration>,
    /// UDP payload.
    pub contents: Vec<u8>,
}

/// The captured datagrams in order of arrival.
#[derive(Debug, Default)]
pub struct Capture {
    datagrams: Vec<CapturedDatagram>,
    bytes: usize,
    truncated: bool,
}

impl Capture {
    /// Records a datagram.
    pub fn record(&mut self, passing: &Passing<'_>) {
        if self.bytes + passing.contents.len() > MAX_BYTES {
            self.truncated = true;
            return;
        }
        self.bytes += passing.contents.len();
        self.datagrams.push(CapturedDatagram {
            at: passing.at,
            to_server: passing.to_server,
            client: passing.client,
            server: passing.server,
            ecn: passing.ecn,
            leaves: passing.leaves,
            contents: passing.contents.to_vec(),
        });
    }

    /// The recorded datagrams.
    pub fn datagrams(&self) -> &[CapturedDatagram] {
        &self.datagrams
    }

    /// Whether datagrams are missing because of the limit.
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Writes a pcap file (draft-ietf-opsawg-pcap) with synthetic IPv4 and UDP headers.
    /// It includes the datagrams that the link lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_pcap(&self, path: &Path) -> io::Result<()> {
        const MAGIC: u32 = 0xa1b2_c3d4;
        const RAW: u32 = 101;
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        for word in [MAGIC, 2 | 4 << 16, 0, 0, 1 << 16, RAW] {
            out.write_all(&word.to_le_bytes())?;
        }
        for datagram in &self.datagrams {
            let ends = (datagram.client, datagram.server);
            let (from, to) = if datagram.to_server { ends } else { (ends.1, ends.0) };
            let packet = ipv4(from, to, datagram.ecn, &datagram.contents);
            let length = packet.len() as u32;
            for word in [datagram.at.as_secs() as u32, datagram.at.subsec_micros(), length, length] {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(&packet)?;
        }
        out.flush()
    }
}

/// Adds UDP and IPv4 headers. Checksums are zero: for UDP this means none, and pcap readers ignore it for IP.
fn ipv4(from: SocketAddr, to: SocketAddr, ecn: u8, contents: &[u8]) -> Vec<u8> {
    let address = |a: SocketAddr| match a.ip() {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST.octets(),
    };
    let length = |more: usize| u16::try_from(contents.len() + more).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x45, ecn];
    packet.extend(length(28));
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(address(from));
    packet.extend(address(to));
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(length(8));
    packet.extend([0, 0]);
    packet.extend_from_slice(contents);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcap_has_ip_and_udp_headers() {
        let mut capture = Capture::default();
        let [client, server] = ["127.0.0.1:5000", "127.0.0.1:4433"].map(|text| text.parse().unwrap());
        let at = Duration::from_millis(1_500);
        capture.record(&Passing { at, to_server: true, client, server, ecn: 2, contents: b"hi", leaves: Some(at) });
        let file = tempfile::NamedTempFile::new().unwrap();
        capture.write_pcap(file.path()).unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.len(), 24 + 16 + 20 + 8 + 2);
        assert_eq!((&bytes[24..28], &bytes[32..36]), (&1u32.to_le_bytes()[..], &30u32.to_le_bytes()[..]));
        let ip = &bytes[40..];
        assert_eq!((ip[1], &ip[20..24], &ip[28..]), (2, &[0x13, 0x88, 0x11, 0x51][..], &b"hi"[..]));
    }
}
