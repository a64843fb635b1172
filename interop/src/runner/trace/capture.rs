//! The datagrams that arrived at the relay.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder,
};
use fathom_netsim::relay::Passing;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

/// Maximum size of a capture in bytes. It is several times the size of a test's files.
const MAX_BYTES: usize = 128 << 20;

/// A datagram that arrived at the relay.
#[derive(Clone, Debug)]
pub struct CapturedDatagram {
    /// Arrival time, measured from the relay's start.
    pub at: Duration,
    /// Whether the datagram goes from client to server.
    pub to_server: bool,
    /// The client's address.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// ECN field of the datagram's IP header.
    pub ecn: u8,
    /// Departure time, measured from the relay's start; `None` if the link lost the datagram.
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

    /// Returns the recorded datagrams.
    pub fn datagrams(&self) -> &[CapturedDatagram] {
        &self.datagrams
    }

    /// Returns whether datagrams are missing because the capture reached its limit.
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Writes a pcap file with synthetic IP and UDP headers. The file includes datagrams that the
    /// link lost.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_pcap(&self, path: &Path) -> io::Result<()> {
        let out = io::BufWriter::new(std::fs::File::create(path)?);
        let header = PcapHeader { datalink: DataLink::RAW, ..PcapHeader::default() };
        let mut out = PcapWriter::with_header(out, header).map_err(io::Error::other)?;
        let mut packet = Vec::new();
        for datagram in &self.datagrams {
            let ends = (datagram.client, datagram.server);
            let (from, to) = if datagram.to_server { ends } else { (ends.1, ends.0) };
            packet.clear();
            PacketBuilder::ip(ip_header(from.ip(), to.ip(), datagram.ecn))
                .udp(from.port(), to.port())
                .write_to_vec(&mut packet, &datagram.contents)
                .map_err(io::Error::other)?;
            let packet = PcapPacket::new(datagram.at, packet.len() as u32, &packet);
            out.write_packet(&packet).map_err(io::Error::other)?;
        }
        out.into_writer().flush()
    }
}

fn ip_header(from: IpAddr, to: IpAddr, ecn: u8) -> IpHeaders {
    const HOPS: u8 = 64;
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        let mut header =
            Ipv4Header { time_to_live: HOPS, source: from.octets(), ..Ipv4Header::default() };
        header.destination = to.octets();
        header.ecn = ecn.try_into().unwrap_or_default();
        return IpHeaders::Ipv4(header, Ipv4Extensions::default());
    }
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let (source, destination) = (octets(from), octets(to));
    let header = Ipv6Header {
        traffic_class: ecn,
        hop_limit: HOPS,
        source,
        destination,
        ..Ipv6Header::default()
    };
    IpHeaders::Ipv6(header, Ipv6Extensions::default())
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use pcap_file::pcap::PcapReader;

    use super::*;

    #[test]
    fn pcap_packets_have_ip_and_udp_headers() {
        let mut capture = Capture::default();
        let at = Duration::from_millis(1_500);
        for (client, server) in
            [("127.0.0.1:5000", "127.0.0.1:4433"), ("[::1]:5000", "127.0.0.1:4433")]
        {
            let [client, server] = [client, server].map(|text| text.parse().unwrap());
            capture.record(&Passing {
                at,
                to_server: true,
                client,
                server,
                ecn: 2,
                contents: b"hi",
                leaves: Some(at),
            });
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        capture.write_pcap(file.path()).unwrap();
        let mut reader = PcapReader::new(file.reopen().unwrap()).unwrap();
        assert_eq!(reader.header().datalink, DataLink::RAW);
        let mut ecn = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            assert_eq!(packet.timestamp, at);
            let parsed = SlicedPacket::from_ip(&packet.data).unwrap();
            ecn.push(match parsed.net.unwrap() {
                NetSlice::Ipv4(ip) => (4, ip.header().ecn().value()),
                NetSlice::Ipv6(ip) => (6, ip.header().traffic_class()),
                NetSlice::Arp(_) => panic!("not IP"),
            });
            let Some(TransportSlice::Udp(udp)) = parsed.transport else { panic!("not UDP") };
            assert_eq!(
                (udp.source_port(), udp.destination_port(), udp.payload()),
                (5000, 4433, &b"hi"[..])
            );
        }
        assert_eq!(ecn, [(4, 2), (6, 2)]);
    }
}
