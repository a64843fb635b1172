//! The packets of one connection.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_frames::walker::{Content, Frame, Frames};
use fathom_frames::{AckReceiveTimestamps, EcnCounts, Timestamp, varint};
use serde::Serialize;

use super::capture::CapturedDatagram;
use super::keys::{DecryptedPacket, PacketKeys, Secrets, Suite};
use super::packet::{Packet, PacketType};
use super::tls::{ClientHello, CryptoStream, EncryptedExtensions, ServerHello};
use crate::endpoint::facts::PROTOCOL_ERRORS;

/// Maximum number of connection IDs stored per endpoint.
const MAX_IDS: usize = 256;

/// A CONNECTION_CLOSE frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionClose {
    /// Whether the code is a transport error rather than an application error.
    pub transport: bool,
    /// Error code.
    pub code: u64,
    /// Type of the frame that caused the error.
    pub frame: Option<u64>,
    /// Reason phrase.
    pub reason: String,
}

impl ConnectionClose {
    /// Returns whether the error is FRAME_ENCODING_ERROR, TRANSPORT_PARAMETER_ERROR or
    /// PROTOCOL_VIOLATION.
    pub fn is_protocol_error(&self) -> bool {
        self.transport && PROTOCOL_ERRORS.contains(&self.code)
    }
}

impl std::fmt::Display for ConnectionClose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.transport { "transport" } else { "application" };
        write!(f, "{kind} error {:#x}", self.code)?;
        if let Some(frame) = self.frame {
            write!(f, " on frame {frame:#x}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, " '{}'", self.reason.escape_debug()) }
    }
}

/// A 1-RTT packet at the relay. Its times are those of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedPacket {
    /// Packet number.
    pub number: u64,
    /// Time of arrival at the relay.
    pub arrived: Duration,
    /// Time of departure from the link; `None` if the packet was lost.
    pub departed: Option<Duration>,
    /// Whether the packet is ack-eliciting.
    pub ack_eliciting: bool,
}

/// A delay sample: a 1-RTT packet with a timestamp and an ACK frame that raises the largest
/// acknowledged packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedAck {
    /// Largest Acknowledged field of the ACK frame.
    pub largest_acknowledged: u64,
    /// ACK Delay field as encoded in the ACK frame.
    pub raw_delay: u64,
    /// Timestamp of the packet.
    pub timestamp: SendTimestamp,
}

/// Send time of a packet on its sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTimestamp {
    /// Value of a SYNC_TIMESTAMP frame, in microseconds.
    Sync(u32),
    /// Value of a TIMESTAMP frame, in units of 2^ack_delay_exponent microseconds.
    Timestamp(Timestamp),
}

/// Packets that one endpoint sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointTrace {
    /// Number of Initial, 0-RTT, Handshake and 1-RTT packets.
    pub packets: [u64; 4],
    /// Packets that could not be decrypted, because their secret is missing or they were corrupted.
    pub unopened: u64,
    /// Decrypted packets with an unknown frame type.
    pub unread: u64,
    /// ACK frames.
    pub acks: u64,
    /// ACK frames with ECN counts.
    pub acks_with_ecn: u64,
    /// Largest ECT(0), ECT(1) and CE counts in ACK frames.
    pub counts: [u64; 3],
    /// Key updates seen in the endpoint's packets.
    pub key_updates: u64,
    /// SYNC_TIMESTAMP frames.
    pub stamps: u64,
    /// TIMESTAMP frames.
    pub timestamps: u64,
    /// PATH_CHALLENGE frames.
    pub challenges: u64,
    /// PATH_RESPONSE frames.
    pub responses: u64,
    /// Bytes of STREAM frames in 0-RTT packets.
    pub early_bytes: u64,
    /// Bytes of STREAM frames in 1-RTT packets.
    pub stream_bytes: u64,
    /// Whether the endpoint sent HANDSHAKE_DONE.
    pub done: bool,
    /// First CONNECTION_CLOSE frame of the endpoint.
    pub close: Option<ConnectionClose>,
    /// Decrypted 1-RTT packets in order of arrival.
    #[serde(skip)]
    pub relayed: Vec<RelayedPacket>,
    /// Delay samples of the other endpoint's packets.
    #[serde(skip)]
    pub timestamped_acks: Vec<TimestampedAck>,
    /// Largest packet number that the endpoint's 1-RTT packets acknowledge.
    #[serde(skip)]
    largest: Option<u64>,
}

/// A connection as reconstructed from its packets.
#[derive(Debug, Serialize)]
pub struct ConnectionTrace {
    /// ClientHello of the client; `None` if it is missing.
    pub client_hello: Option<ClientHello>,
    /// ServerHello of the server; `None` if it is missing.
    pub server_hello: Option<ServerHello>,
    /// EncryptedExtensions of the server; `None` without TLS secrets.
    pub extensions: Option<EncryptedExtensions>,
    /// Number of Retry packets.
    pub retries: u64,
    /// Whether a client's Initial packet carried a token after a Retry.
    pub token_after_retry: bool,
    /// The client's packets.
    pub client: EndpointTrace,
    /// The server's packets.
    pub server: EndpointTrace,
    #[serde(skip)]
    connection_ids: [Vec<Vec<u8>>; 2],
    #[serde(skip)]
    initial: Option<[PacketKeys; 2]>,
    #[serde(skip)]
    early: Option<PacketKeys>,
    #[serde(skip)]
    handshake: [Option<PacketKeys>; 2],
    #[serde(skip)]
    traffic: [Option<PacketKeys>; 2],
    /// CRYPTO data of both endpoints' Initial packets.
    #[serde(skip)]
    hellos: [CryptoStream; 2],
    #[serde(skip)]
    encrypted_extensions: CryptoStream,
}

/// Index of the client's direction.
const CLIENT: usize = 0;
/// Index of the server's direction.
const SERVER: usize = 1;

impl ConnectionTrace {
    /// Starts a connection with the client's first Initial packet.
    pub(super) fn new(first: &Packet<'_>) -> Self {
        Self {
            client_hello: None,
            server_hello: None,
            extensions: None,
            retries: 0,
            token_after_retry: false,
            client: EndpointTrace::default(),
            server: EndpointTrace::default(),
            connection_ids: [vec![first.scid.to_vec()], vec![first.dcid.to_vec()]],
            initial: PacketKeys::initial(first.dcid),
            early: None,
            handshake: [None, None],
            traffic: [None, None],
            hellos: Default::default(),
            encrypted_extensions: CryptoStream::default(),
        }
    }

    /// Returns whether the packets show that the handshake completed.
    pub const fn is_complete(&self) -> bool {
        self.server.done || self.server.stream_bytes > 0 && self.client.packets[3] > 0
    }

    /// Returns whether the packet's destination connection ID belongs to this connection.
    pub(super) fn matches(&self, packet: &Packet<'_>, to_server: bool) -> bool {
        let receiver = if to_server { SERVER } else { CLIENT };
        match packet.kind {
            PacketType::OneRtt => self.connection_id_length(packet, receiver).is_some(),
            _ => self.connection_ids[receiver].iter().any(|id| id == packet.dcid),
        }
    }

    fn connection_id_length(&self, packet: &Packet<'_>, receiver: usize) -> Option<usize> {
        let rest = &packet.bytes[1..];
        self.connection_ids[receiver].iter().filter(|id| rest.starts_with(id)).map(Vec::len).max()
    }

    fn add_connection_id(&mut self, sender: usize, id: &[u8]) {
        let connection_ids = &mut self.connection_ids[sender];
        if connection_ids.len() < MAX_IDS && !connection_ids.iter().any(|known| known == id) {
            connection_ids.push(id.to_vec());
        }
    }

    /// Processes a packet and returns a short description.
    pub(super) fn on_packet(
        &mut self,
        packet: &Packet<'_>,
        datagram: &CapturedDatagram,
        secrets: &Secrets,
    ) -> String {
        let (sender, receiver) =
            if datagram.to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        if packet.kind == PacketType::Retry {
            if sender == SERVER {
                self.retries += 1;
                self.add_connection_id(SERVER, packet.scid);
                // A client ignores a second Retry (RFC 9000 §17.2.5.2). It gets a second one if
                // its first flight had two packets.
                if self.retries == 1 {
                    self.initial = PacketKeys::initial(packet.scid);
                }
            }
            return "Retry".into();
        }
        if packet.kind != PacketType::OneRtt {
            self.add_connection_id(sender, packet.scid);
        }
        if packet.kind == PacketType::Other {
            return "other version".into();
        }
        let decrypted = self.decrypt(packet, sender, receiver, secrets);
        let (index, name) = match packet.kind {
            PacketType::Initial => (0, "Initial"),
            PacketType::ZeroRtt => (1, "0-RTT"),
            PacketType::Handshake => (2, "Handshake"),
            _ => (3, "1-RTT"),
        };
        let side = self.side(sender);
        side.packets[index] += 1;
        match decrypted {
            Some(decrypted) => {
                let ack_eliciting = self.on_payload(sender, packet.kind, &decrypted);
                if packet.kind == PacketType::OneRtt {
                    let (number, arrived, departed) =
                        (decrypted.number, datagram.at, datagram.leaves);
                    self.side(sender).relayed.push(RelayedPacket {
                        number,
                        arrived,
                        departed,
                        ack_eliciting,
                    });
                }
                format!("{name} {}:{}", decrypted.number, describe_frames(&decrypted.payload))
            }
            None => {
                side.unopened += 1;
                format!("{name}, not decrypted")
            }
        }
    }

    /// Decrypts a packet with the keys for its type. These keys are derived when they are first
    /// needed.
    fn decrypt(
        &mut self,
        packet: &Packet<'_>,
        sender: usize,
        receiver: usize,
        secrets: &Secrets,
    ) -> Option<DecryptedPacket> {
        match packet.kind {
            PacketType::Initial => {
                self.token_after_retry |=
                    sender == CLIENT && self.retries > 0 && !packet.token.is_empty();
                self.initial
                    .as_mut()
                    .and_then(|keys| keys[sender].decrypt(packet, packet.packet_number_offset))
            }
            PacketType::ZeroRtt => self.decrypt_early(packet, secrets),
            PacketType::Handshake => {
                let label =
                    ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"][sender];
                if self.handshake[sender].is_none() {
                    self.handshake[sender] = self.packet_keys(label, secrets);
                }
                self.handshake[sender]
                    .as_mut()
                    .and_then(|keys| keys.decrypt(packet, packet.packet_number_offset))
            }
            PacketType::OneRtt => {
                let label = ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"][sender];
                if self.traffic[sender].is_none() {
                    self.traffic[sender] = self.packet_keys(label, secrets);
                }
                let at = 1 + self.connection_id_length(packet, receiver).unwrap_or_default();
                self.traffic[sender].as_mut().and_then(|keys| keys.decrypt(packet, at))
            }
            PacketType::Retry | PacketType::Other => None,
        }
    }

    fn side(&mut self, sender: usize) -> &mut EndpointTrace {
        if sender == CLIENT { &mut self.client } else { &mut self.server }
    }

    fn packet_keys(&self, label: &str, secrets: &Secrets) -> Option<PacketKeys> {
        let suite = Suite::from_id(self.server_hello.as_ref()?.suite)?;
        PacketKeys::new(suite, secrets.find(&self.client_hello.as_ref()?.random, label)?)
    }

    /// Decrypts a 0-RTT packet. Tries all cipher suites, because the suite is that of the previous
    /// session and does not appear in the handshake.
    fn decrypt_early(&mut self, packet: &Packet<'_>, secrets: &Secrets) -> Option<DecryptedPacket> {
        if let Some(keys) = &mut self.early {
            return keys.decrypt(packet, packet.packet_number_offset);
        }
        let secret =
            secrets.find(&self.client_hello.as_ref()?.random, "CLIENT_EARLY_TRAFFIC_SECRET")?;
        for suite in [Suite::Aes128, Suite::Aes256, Suite::ChaCha20] {
            let mut keys = PacketKeys::new(suite, secret)?;
            if let Some(decrypted) = keys.decrypt(packet, packet.packet_number_offset) {
                self.early = Some(keys);
                return Some(decrypted);
            }
        }
        None
    }

    /// Processes the frames of a packet. Returns whether the packet is ack-eliciting.
    fn on_payload(&mut self, sender: usize, kind: PacketType, decrypted: &DecryptedPacket) -> bool {
        if kind == PacketType::OneRtt {
            let side = self.side(sender);
            side.key_updates = side.key_updates.max(decrypted.updates);
        }
        let (mut ack, mut timestamp, mut ack_eliciting) = (None, None, false);
        for frame in Frames::new(&decrypted.payload) {
            let Ok(frame) = frame else {
                self.side(sender).unread += 1;
                break;
            };
            let body = &decrypted.payload[frame.range.clone()];
            self.on_frame(sender, kind, &frame, body);
            ack_eliciting |= frame.is_ack_eliciting();
            match frame.content {
                Content::Ack(found)
                | Content::AckReceiveTimestamps(AckReceiveTimestamps { ack: found, .. }) => {
                    ack = Some(found);
                }
                Content::SyncTimestamp(found) => timestamp = Some(SendTimestamp::Sync(found.sent)),
                Content::Timestamp(found) => timestamp = Some(SendTimestamp::Timestamp(found)),
                _ => {}
            }
        }
        if let Some(ack) = ack.filter(|_| kind == PacketType::OneRtt) {
            let side = self.side(sender);
            if side.largest.is_none_or(|largest| largest < ack.largest) {
                side.largest = Some(ack.largest);
                let timestamped = |timestamp| TimestampedAck {
                    largest_acknowledged: ack.largest,
                    raw_delay: ack.raw_delay,
                    timestamp,
                };
                side.timestamped_acks.extend(timestamp.map(timestamped));
            }
        }
        if kind == PacketType::Initial {
            if self.client_hello.is_none() {
                self.client_hello = self.hellos[CLIENT].client_hello();
            }
            if self.server_hello.is_none() {
                self.server_hello = self.hellos[SERVER].server_hello();
            }
        }
        if kind == PacketType::Handshake && self.extensions.is_none() {
            self.extensions = self.encrypted_extensions.encrypted_extensions();
        }
        ack_eliciting
    }

    /// Processes one frame. `body` is the whole frame including its type.
    fn on_frame(&mut self, sender: usize, kind: PacketType, frame: &Frame<'_>, body: &[u8]) {
        let side = self.side(sender);
        match (frame.content, frame.ty) {
            (
                Content::Ack(ack) | Content::AckReceiveTimestamps(AckReceiveTimestamps { ack, .. }),
                _,
            ) => {
                side.acks += 1;
                if let Some(EcnCounts { ect0, ect1, ce }) = ack.ecn {
                    side.acks_with_ecn += 1;
                    for (most, count) in side.counts.iter_mut().zip([ect0, ect1, ce]) {
                        *most = count.max(*most);
                    }
                }
            }
            (Content::SyncTimestamp(_), _) => side.stamps += 1,
            (Content::Timestamp(_), _) => side.timestamps += 1,
            (_, 0x06) => {
                // A malformed CRYPTO frame is ignored.
                let _ = self.on_crypto(sender, kind, body);
            }
            (_, 0x08..=0x0f) => {
                let bytes = stream_bytes(frame.ty, body).unwrap_or_default();
                if kind == PacketType::ZeroRtt {
                    side.early_bytes += bytes;
                } else {
                    side.stream_bytes += bytes;
                }
            }
            (_, 0x18) => {
                if let Some(id) = new_connection_id(body) {
                    self.add_connection_id(sender, id);
                }
            }
            (_, 0x1a) => side.challenges += 1,
            (_, 0x1b) => side.responses += 1,
            (_, 0x1c | 0x1d) => {
                side.close = side.close.take().or_else(|| parse_connection_close(body));
            }
            (_, 0x1e) => side.done = true,
            _ => {}
        }
    }

    fn on_crypto(&mut self, sender: usize, kind: PacketType, body: &[u8]) -> Option<()> {
        let [_, offset, length] = varints(body)?;
        let data = &body[body.len().checked_sub(usize::try_from(length).ok()?)?..];
        match kind {
            PacketType::Initial => self.hellos[sender].add(offset, data),
            PacketType::Handshake if sender == SERVER => {
                self.encrypted_extensions.add(offset, data)
            }
            _ => {}
        }
        Some(())
    }
}

/// Names of the frames of RFC 9000, by type (§12.4).
const FRAME_NAMES: [&str; 31] = [
    "PADDING",
    "PING",
    "ACK",
    "ACK_ECN",
    "RESET_STREAM",
    "STOP_SENDING",
    "CRYPTO",
    "NEW_TOKEN",
    "STREAM",
    "STREAM",
    "STREAM",
    "STREAM",
    "STREAM",
    "STREAM",
    "STREAM",
    "STREAM",
    "MAX_DATA",
    "MAX_STREAM_DATA",
    "MAX_STREAMS",
    "MAX_STREAMS",
    "DATA_BLOCKED",
    "STREAM_DATA_BLOCKED",
    "STREAMS_BLOCKED",
    "STREAMS_BLOCKED",
    "NEW_CONNECTION_ID",
    "RETIRE_CONNECTION_ID",
    "PATH_CHALLENGE",
    "PATH_RESPONSE",
    "CONNECTION_CLOSE",
    "CONNECTION_CLOSE",
    "HANDSHAKE_DONE",
];

/// Returns a short description of the frames in a payload.
fn describe_frames(payload: &[u8]) -> String {
    let mut text = String::new();
    for frame in Frames::new(payload) {
        let Ok(frame) = frame else {
            text.push_str(" unknown");
            break;
        };
        let name = usize::try_from(frame.ty).ok().and_then(|ty| FRAME_NAMES.get(ty)).copied();
        match (frame.content, name) {
            (Content::Ack(ack), _) => {
                let ranges = ack.ranges().map(|range| format!("{}-{}", range.start(), range.end()));
                let _ = write!(text, " ACK[{}]", ranges.take(5).collect::<Vec<_>>().join(" "));
            }
            (Content::SyncTimestamp(_), _) => text.push_str(" SYNC_TIMESTAMP"),
            (Content::Timestamp(_), _) => text.push_str(" TIMESTAMP"),
            (Content::AckReceiveTimestamps(frame), _) => {
                let _ =
                    write!(text, " ACK_RECEIVE_TIMESTAMPS[{}: {}]", frame.ack.largest, frame.count);
            }
            (_, Some(name)) => {
                let body = &payload[frame.range.clone()];
                let _ = match (frame.ty, varints(body)) {
                    (0x18, Some([_, sequence, retired])) => {
                        write!(text, " {name}({sequence}, before {retired})")
                    }
                    (0x19, _) => match varints(body) {
                        Some([_, sequence]) => write!(text, " {name}({sequence})"),
                        None => Ok(()),
                    },
                    _ => write!(text, " {name}({})", frame.range.len()),
                };
            }
            (_, None) => {
                let _ = write!(text, " {:#x}", frame.ty);
            }
        }
    }
    text
}

/// Returns the first `N` variable-length integers of a frame.
fn varints<const N: usize>(mut body: &[u8]) -> Option<[u64; N]> {
    let mut varints = [0; N];
    for number in &mut varints {
        let (value, length) = varint::decode(body)?;
        (*number, body) = (value, &body[length..]);
    }
    Some(varints)
}

/// Returns the number of data bytes in a STREAM frame (RFC 9000 §19.8).
fn stream_bytes(ty: u64, mut body: &[u8]) -> Option<u64> {
    let fields = 2 + usize::from(ty & 4 != 0);
    for _ in 0..fields {
        let (_, length) = varint::decode(body)?;
        body = &body[length..];
    }
    if ty & 2 != 0 {
        varint::decode(body).map(|(length, _)| length)
    } else {
        Some(body.len() as u64)
    }
}

/// Returns the connection ID of a NEW_CONNECTION_ID frame (RFC 9000 §19.15).
fn new_connection_id(mut body: &[u8]) -> Option<&[u8]> {
    for _ in 0..3 {
        let (_, length) = varint::decode(body)?;
        body = &body[length..];
    }
    let (length, rest) = body.split_first()?;
    rest.get(..usize::from(*length))
}

/// Parses a CONNECTION_CLOSE frame (RFC 9000 §19.19).
fn parse_connection_close(body: &[u8]) -> Option<ConnectionClose> {
    let (ty, mut rest) = varint_and_rest(body)?;
    let transport = ty == 0x1c;
    let code;
    (code, rest) = varint_and_rest(rest)?;
    let mut frame = None;
    if transport {
        let of;
        (of, rest) = varint_and_rest(rest)?;
        frame = Some(of).filter(|of| *of != 0);
    }
    let (length, rest) = varint_and_rest(rest)?;
    let reason = rest.get(..usize::try_from(length).ok()?)?;
    let reason = String::from_utf8_lossy(&reason[..reason.len().min(200)]).into_owned();
    Some(ConnectionClose { transport, code, frame, reason })
}

fn varint_and_rest(bytes: &[u8]) -> Option<(u64, &[u8])> {
    varint::decode(bytes).map(|(value, length)| (value, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_close_and_connection_id_frames_are_parsed() {
        assert_eq!(stream_bytes(0x08, &[0x08, 4, 1, 2, 3]), Some(3));
        assert_eq!(stream_bytes(0x0e, &[0x0e, 4, 0x40, 9, 2, 1, 2]), Some(2));
        assert_eq!(new_connection_id(&[0x18, 1, 0, 2, 7, 8, 0, 0]), Some(&[7, 8][..]));
        let close = parse_connection_close(&[0x1c, 7, 0x19, 2, b'n', b'o']).unwrap();
        assert!(close.is_protocol_error());
        assert_eq!(close.to_string(), "transport error 0x7 on frame 0x19 'no'");
        let close = parse_connection_close(&[0x1d, 7, 0]).unwrap();
        assert!(!close.is_protocol_error() && close.frame.is_none());
        for end in 0..6 {
            assert!(parse_connection_close(&[0x1c, 7, 0x19, 2, b'n', b'o'][..end]).is_none());
        }
    }
}
