//! One connection, packet by packet.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_frames::walker::{Content, Frame, Frames};
use fathom_frames::{EcnCounts, Timestamp, varint};
use serde::Serialize;

use super::capture::Datagram;
use super::hello::{ClientHello, EncryptedExtensions, ServerHello, Stream};
use super::keys::{Level, Opened, Secrets, Suite};
use super::packet::{Kind, Packet};
use crate::endpoint::facts::FAULTS;

/// Connection IDs remembered of each side.
const IDS: usize = 256;

/// A connection that one side closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closing {
    /// With a code of QUIC's, not of the application's.
    pub transport: bool,
    /// The code.
    pub code: u64,
    /// The type of the frame that was wrong.
    pub frame: Option<u64>,
    /// Reason phrase.
    pub reason: String,
}

impl Closing {
    /// Frame encoding, transport parameter or protocol violation.
    pub fn is_fault(&self) -> bool {
        self.transport && FAULTS.contains(&self.code)
    }
}

impl std::fmt::Display for Closing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.transport { "transport" } else { "application" };
        write!(f, "{kind} error {:#x}", self.code)?;
        if let Some(frame) = self.frame {
            write!(f, " on frame {frame:#x}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, " '{}'", self.reason.escape_debug()) }
    }
}

/// A 1-RTT packet at the relay, in the relay's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Packet number.
    pub number: u64,
    /// When it came.
    pub came: Duration,
    /// When it went on; `None`: it was lost.
    pub left: Option<Duration>,
    /// It asks for an acknowledgement.
    pub eliciting: bool,
}

/// A 1-RTT packet with a stamp and an ACK frame whose largest packet no frame before has acknowledged: what tells a one-way delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The largest packet number that it acknowledges.
    pub acknowledged: u64,
    /// How long that was held back, as it is in the frame.
    pub raw_delay: u64,
    /// The stamp.
    pub stamp: Stamp,
}

/// When a packet was sent, on its sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// SYNC_TIMESTAMP: microseconds.
    Sync(u32),
    /// TIMESTAMP: in units of 2^ack_delay_exponent microseconds.
    Timestamp(Timestamp),
}

/// What one side sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Initial, 0-RTT, Handshake and 1-RTT packets.
    pub packets: [u64; 4],
    /// Of these, packets that could not be opened: without their secret, or damaged.
    pub unopened: u64,
    /// Opened packets with a frame that is not known here.
    pub unread: u64,
    /// ACK frames.
    pub acks: u64,
    /// ACK frames with ECN counts.
    pub acks_with_ecn: u64,
    /// The largest count of ECT(0), ECT(1) and CE in them.
    pub counts: [u64; 3],
    /// Key updates that its packets show.
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
    /// HANDSHAKE_DONE.
    pub done: bool,
    /// How it closed the connection.
    pub close: Option<Closing>,
    /// Opened 1-RTT packets, in the order in which they came.
    #[serde(skip)]
    pub passages: Vec<Passage>,
    /// What its stamps say of the other side's packets.
    #[serde(skip)]
    pub claims: Vec<Claim>,
    /// The largest packet number that its 1-RTT packets acknowledge.
    #[serde(skip)]
    largest: Option<u64>,
}

/// A connection as its packets show it.
#[derive(Debug, Serialize)]
pub struct Conversation {
    /// What the client said first.
    pub client_hello: Option<ClientHello>,
    /// What the server answered.
    pub server_hello: Option<ServerHello>,
    /// What the server chose; needs secrets.
    pub extensions: Option<EncryptedExtensions>,
    /// Retry packets.
    pub retries: u64,
    /// An Initial packet of the client's bore a token after a Retry.
    pub token_after_retry: bool,
    /// What the client sent.
    pub client: Side,
    /// What the server sent.
    pub server: Side,
    #[serde(skip)]
    ids: [Vec<Vec<u8>>; 2],
    #[serde(skip)]
    initial: Option<[Level; 2]>,
    #[serde(skip)]
    early: Option<Level>,
    #[serde(skip)]
    handshake: [Option<Level>; 2],
    #[serde(skip)]
    traffic: [Option<Level>; 2],
    /// CRYPTO frames of Initial packets, and the server's of Handshake packets.
    #[serde(skip)]
    hellos: [Stream; 2],
    #[serde(skip)]
    answer: Stream,
}

/// Index of what the client sends.
const CLIENT: usize = 0;
/// Index of what the server sends.
const SERVER: usize = 1;

impl Conversation {
    /// Begins with the client's first Initial packet.
    pub(super) fn new(first: &Packet<'_>) -> Self {
        Self {
            client_hello: None,
            server_hello: None,
            extensions: None,
            retries: 0,
            token_after_retry: false,
            client: Side::default(),
            server: Side::default(),
            ids: [vec![first.from.to_vec()], vec![first.to.to_vec()]],
            initial: Level::initial(first.to),
            early: None,
            handshake: [None, None],
            traffic: [None, None],
            hellos: Default::default(),
            answer: Stream::default(),
        }
    }

    /// The handshake was completed, as far as packets show it.
    pub const fn is_complete(&self) -> bool {
        self.server.done || self.server.stream_bytes > 0 && self.client.packets[3] > 0
    }

    /// A packet may be of this connection.
    pub(super) fn knows(&self, packet: &Packet<'_>, to_server: bool) -> bool {
        let receiver = if to_server { SERVER } else { CLIENT };
        match packet.kind {
            Kind::Short => self.length_of_id(packet, receiver).is_some(),
            _ => self.ids[receiver].iter().any(|id| id == packet.to),
        }
    }

    fn length_of_id(&self, packet: &Packet<'_>, receiver: usize) -> Option<usize> {
        let rest = &packet.bytes[1..];
        self.ids[receiver].iter().filter(|id| rest.starts_with(id)).map(Vec::len).max()
    }

    fn learn(&mut self, whose: usize, id: &[u8]) {
        let ids = &mut self.ids[whose];
        if ids.len() < IDS && !ids.iter().any(|known| known == id) {
            ids.push(id.to_vec());
        }
    }

    /// Takes a packet in; what is in it, in a few words.
    pub(super) fn take(&mut self, packet: &Packet<'_>, datagram: &Datagram, secrets: &Secrets) -> String {
        let (sender, receiver) = if datagram.to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        if packet.kind == Kind::Retry {
            if sender == SERVER {
                self.retries += 1;
                self.learn(SERVER, packet.from);
                // A client takes no second one (RFC 9000 §17.2.5.2), and gets it if its first flight was two packets.
                if self.retries == 1 {
                    self.initial = Level::initial(packet.from);
                }
            }
            return "Retry".into();
        }
        if packet.kind != Kind::Short {
            self.learn(sender, packet.from);
        }
        let opened = match packet.kind {
            Kind::Initial => {
                self.token_after_retry |= sender == CLIENT && self.retries > 0 && !packet.token.is_empty();
                self.initial.as_mut().and_then(|levels| levels[sender].open(packet, packet.number_at))
            }
            Kind::ZeroRtt => self.open_early(packet, secrets),
            Kind::Handshake => {
                let label = ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"][sender];
                if self.handshake[sender].is_none() {
                    self.handshake[sender] = self.level(label, secrets);
                }
                self.handshake[sender].as_mut().and_then(|level| level.open(packet, packet.number_at))
            }
            Kind::Short => {
                let label = ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"][sender];
                if self.traffic[sender].is_none() {
                    self.traffic[sender] = self.level(label, secrets);
                }
                let at = 1 + self.length_of_id(packet, receiver).unwrap_or_default();
                self.traffic[sender].as_mut().and_then(|level| level.open(packet, at))
            }
            Kind::Retry | Kind::Other => return "of another version".into(),
        };
        let (place, name) = match packet.kind {
            Kind::Initial => (0, "Initial"),
            Kind::ZeroRtt => (1, "0-RTT"),
            Kind::Handshake => (2, "Handshake"),
            _ => (3, "1-RTT"),
        };
        let side = self.side(sender);
        side.packets[place] += 1;
        match opened {
            Some(opened) => {
                let eliciting = self.read(sender, packet.kind, &opened);
                if packet.kind == Kind::Short {
                    let (number, came, left) = (opened.number, datagram.at, datagram.leaves);
                    self.side(sender).passages.push(Passage { number, came, left, eliciting });
                }
                format!("{name} {}:{}", opened.number, frames(&opened.payload))
            }
            None => {
                side.unopened += 1;
                format!("{name}, not opened")
            }
        }
    }

    fn side(&mut self, whose: usize) -> &mut Side {
        if whose == CLIENT { &mut self.client } else { &mut self.server }
    }

    fn level(&self, label: &str, secrets: &Secrets) -> Option<Level> {
        let suite = Suite::numbered(self.server_hello.as_ref()?.suite)?;
        Level::new(suite, secrets.find(&self.client_hello.as_ref()?.random, label)?)
    }

    /// The suite of 0-RTT is that of the session before, which nobody names here: the one that opens the packet.
    fn open_early(&mut self, packet: &Packet<'_>, secrets: &Secrets) -> Option<Opened> {
        if let Some(level) = &mut self.early {
            return level.open(packet, packet.number_at);
        }
        let secret = secrets.find(&self.client_hello.as_ref()?.random, "CLIENT_EARLY_TRAFFIC_SECRET")?;
        for suite in [Suite::Aes128, Suite::Aes256, Suite::ChaCha20] {
            let mut level = Level::new(suite, secret)?;
            if let Some(opened) = level.open(packet, packet.number_at) {
                self.early = Some(level);
                return Some(opened);
            }
        }
        None
    }

    /// Takes its frames in; whether one of them asks for an acknowledgement.
    fn read(&mut self, sender: usize, kind: Kind, opened: &Opened) -> bool {
        if kind == Kind::Short {
            let side = self.side(sender);
            side.key_updates = side.key_updates.max(opened.updates);
        }
        let (mut ack, mut stamp, mut eliciting) = (None, None, false);
        for frame in Frames::new(&opened.payload) {
            let Ok(frame) = frame else {
                self.side(sender).unread += 1;
                break;
            };
            let body = &opened.payload[frame.range.clone()];
            self.frame(sender, kind, &frame, body);
            eliciting |= frame.is_ack_eliciting();
            match frame.content {
                Content::Ack(found) => ack = Some(found),
                Content::SyncTimestamp(found) => stamp = Some(Stamp::Sync(found.sent)),
                Content::Timestamp(found) => stamp = Some(Stamp::Timestamp(found)),
                Content::Other => {}
            }
        }
        if let Some(ack) = ack.filter(|_| kind == Kind::Short) {
            let side = self.side(sender);
            if side.largest.is_none_or(|largest| largest < ack.largest) {
                side.largest = Some(ack.largest);
                let claim = |stamp| Claim { acknowledged: ack.largest, raw_delay: ack.raw_delay, stamp };
                side.claims.extend(stamp.map(claim));
            }
        }
        if kind == Kind::Initial {
            if self.client_hello.is_none() {
                self.client_hello = self.hellos[CLIENT].client_hello();
            }
            if self.server_hello.is_none() {
                self.server_hello = self.hellos[SERVER].server_hello();
            }
        }
        if kind == Kind::Handshake && self.extensions.is_none() {
            self.extensions = self.answer.encrypted_extensions();
        }
        eliciting
    }

    /// One frame; `body` is all of it, its type included.
    fn frame(&mut self, sender: usize, kind: Kind, frame: &Frame<'_>, body: &[u8]) {
        let side = self.side(sender);
        match (frame.content, frame.ty) {
            (Content::Ack(ack), _) => {
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
                // One that cannot be read says nothing.
                let _ = self.crypto(sender, kind, body);
            }
            (_, 0x08..=0x0f) => {
                let bytes = stream_bytes(frame.ty, body).unwrap_or_default();
                if kind == Kind::ZeroRtt {
                    side.early_bytes += bytes;
                } else {
                    side.stream_bytes += bytes;
                }
            }
            (_, 0x18) => {
                if let Some(id) = new_id(body) {
                    self.learn(sender, id);
                }
            }
            (_, 0x1a) => side.challenges += 1,
            (_, 0x1b) => side.responses += 1,
            (_, 0x1c | 0x1d) => {
                side.close = side.close.take().or_else(|| closing(body));
            }
            (_, 0x1e) => side.done = true,
            _ => {}
        }
    }

    fn crypto(&mut self, sender: usize, kind: Kind, body: &[u8]) -> Option<()> {
        let [_, offset, length] = numbers(body)?;
        let data = &body[body.len().checked_sub(usize::try_from(length).ok()?)?..];
        match kind {
            Kind::Initial => self.hellos[sender].add(offset, data),
            Kind::Handshake if sender == SERVER => self.answer.add(offset, data),
            _ => {}
        }
        Some(())
    }
}

/// The frames of a payload, in a few words.
fn frames(payload: &[u8]) -> String {
    const NAMES: [&str; 31] = [
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
    let mut text = String::new();
    for frame in Frames::new(payload) {
        let Ok(frame) = frame else {
            text.push_str(" unknown");
            break;
        };
        let name = usize::try_from(frame.ty).ok().and_then(|ty| NAMES.get(ty)).copied();
        match (frame.content, name) {
            (Content::Ack(ack), _) => {
                let ranges = ack.ranges().map(|range| format!("{}-{}", range.start(), range.end()));
                let _ = write!(text, " ACK[{}]", ranges.take(5).collect::<Vec<_>>().join(" "));
            }
            (Content::SyncTimestamp(_), _) => text.push_str(" SYNC_TIMESTAMP"),
            (Content::Timestamp(_), _) => text.push_str(" TIMESTAMP"),
            (_, Some(name)) => {
                let body = &payload[frame.range.clone()];
                let _ = match (frame.ty, numbers(body)) {
                    (0x18, Some([_, sequence, retired])) => write!(text, " {name}({sequence}, before {retired})"),
                    (0x19, _) => match numbers(body) {
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

/// The first numbers of a frame.
fn numbers<const N: usize>(mut body: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (value, length) = varint::decode(body)?;
        (*number, body) = (value, &body[length..]);
    }
    Some(numbers)
}

/// Bytes of data in a STREAM frame (RFC 9000 §19.8).
fn stream_bytes(ty: u64, mut body: &[u8]) -> Option<u64> {
    let fields = 2 + usize::from(ty & 4 != 0);
    for _ in 0..fields {
        let (_, length) = varint::decode(body)?;
        body = &body[length..];
    }
    if ty & 2 != 0 { varint::decode(body).map(|(length, _)| length) } else { Some(body.len() as u64) }
}

/// The connection ID of a NEW_CONNECTION_ID frame (RFC 9000 §19.15).
fn new_id(mut body: &[u8]) -> Option<&[u8]> {
    for _ in 0..3 {
        let (_, length) = varint::decode(body)?;
        body = &body[length..];
    }
    let (length, rest) = body.split_first()?;
    rest.get(..usize::from(*length))
}

/// A CONNECTION_CLOSE frame (RFC 9000 §19.19).
fn closing(body: &[u8]) -> Option<Closing> {
    let (ty, mut rest) = number(body)?;
    let transport = ty == 0x1c;
    let code;
    (code, rest) = number(rest)?;
    let mut frame = None;
    if transport {
        let of;
        (of, rest) = number(rest)?;
        frame = Some(of).filter(|of| *of != 0);
    }
    let (length, rest) = number(rest)?;
    let reason = rest.get(..usize::try_from(length).ok()?)?;
    let reason = String::from_utf8_lossy(&reason[..reason.len().min(200)]).into_owned();
    Some(Closing { transport, code, frame, reason })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    varint::decode(bytes).map(|(value, length)| (value, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read() {
        assert_eq!(stream_bytes(0x08, &[0x08, 4, 1, 2, 3]), Some(3));
        assert_eq!(stream_bytes(0x0e, &[0x0e, 4, 0x40, 9, 2, 1, 2]), Some(2));
        assert_eq!(new_id(&[0x18, 1, 0, 2, 7, 8, 0, 0]), Some(&[7, 8][..]));
        let close = closing(&[0x1c, 7, 0x19, 2, b'n', b'o']).unwrap();
        assert!(close.is_fault());
        assert_eq!(close.to_string(), "transport error 0x7 on frame 0x19 'no'");
        let close = closing(&[0x1d, 7, 0]).unwrap();
        assert!(!close.is_fault() && close.frame.is_none());
        for end in 0..6 {
            assert!(closing(&[0x1c, 7, 0x19, 2, b'n', b'o'][..end]).is_none());
        }
    }
}
