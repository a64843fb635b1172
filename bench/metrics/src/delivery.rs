//! Packet delivery latency: "the time between when a packet is first sent and when the packet
//! arrives at the receiver, regardless of how many times the packet is retransmitted" (SDC §3.3).
//!
//! QUIC retransmits the data of a lost packet, not the packet itself, and QUIC packets are
//! encrypted. Therefore, the lab's TLS keys record which bytes of which streams they seal
//! ([`Sealed`]). The records are found by the packet's authentication tag, which is unique. The
//! network reports each datagram of the observed flow when it enters the first link and when it
//! arrives ([`Delivery`]). The bytes that a packet carries for the first time form one piece. A
//! piece has arrived when its first byte has arrived, in any packet. Delays that the sender adds
//! occur before the first link and are not part of the latency.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use fathom_cc::Time;
use fathom_frames::{Frames, varint};
use fathom_netsim::sim::Tap;
use parking_lot::Mutex;

use super::latency::Latencies;

/// Size of an AEAD tag in bytes (RFC 9001 §5.3).
const TAG: usize = 16;
/// Maximum number of packets remembered from sealing to sending. A limit is needed because packets
/// of unobserved flows are never removed. The limit is many times the number of packets that the
/// senders of all flows hold back.
const REMEMBERED: usize = 1 << 16;
/// STREAM frame types, and the bits of a type that indicate an offset and a length
/// (RFC 9000 §19.8).
const STREAM: std::ops::RangeInclusive<u64> = 0x08..=0x0f;
const OFFSET: u64 = 0x04;
const LENGTH: u64 = 0x02;

type Tag = [u8; TAG];
/// A stream and a range of its bytes.
type Piece = (u64, Range<u64>);

/// Pieces in packets that were sealed but not yet sent.
#[derive(Debug, Default)]
pub struct Sealed {
    pieces: HashMap<Tag, Vec<Piece>>,
    order: VecDeque<Tag>,
}

impl Sealed {
    fn take(&mut self, tag: &Tag) -> Option<Vec<Piece>> {
        self.pieces.remove(tag)
    }

    /// Records that a packet with these pieces was sealed with this tag.
    pub fn note(&mut self, tag: &[u8], pieces: Vec<Piece>) {
        let Ok(tag) = Tag::try_from(tag) else { return };
        if pieces.is_empty() {
            return;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.pieces.remove(&oldest);
        }
        self.order.push_back(tag);
        self.pieces.insert(tag, pieces);
    }
}

/// Returns the stream bytes in a 1-RTT payload that is about to be sealed. Parsing stops at a frame
/// that cannot be read.
pub fn pieces(payload: &[u8]) -> Vec<Piece> {
    let frames =
        Frames::new(payload).map_while(Result::ok).filter(|frame| STREAM.contains(&frame.ty));
    frames.filter_map(|frame| piece(frame.ty, &payload[frame.range])).collect()
}

fn piece(ty: u64, frame: &[u8]) -> Option<Piece> {
    let mut rest = frame;
    let mut int = || {
        let (value, len) = varint::decode(rest)?;
        rest = rest.get(len..)?;
        Some(value)
    };
    int()?;
    let stream = int()?;
    let from = if ty & OFFSET == 0 { 0 } else { int()? };
    let length = if ty & LENGTH == 0 { None } else { Some(int()?) };
    let length = length.unwrap_or(rest.len() as u64);
    (length > 0).then(|| (stream, from..from + length))
}

/// Sending and arrival of the data from one flow's server.
#[derive(Debug)]
pub struct Delivery {
    sealed: Arc<Mutex<Sealed>>,
    /// Pieces in datagrams in transit. Pieces of lost datagrams also stay here, which takes a few
    /// bytes for each loss of one flow.
    under_way: HashMap<Tag, Vec<Piece>>,
    /// First unsent byte of each stream.
    unsent: HashMap<u64, u64>,
    /// Time at which each piece that has not arrived was first sent, by stream and first byte.
    waiting: BTreeMap<(u64, u64), Time>,
    latencies: Latencies,
}

impl Delivery {
    /// Creates an observer of a flow. The keys of the flow's server record the sealed pieces in
    /// `sealed`.
    pub fn new(sealed: Arc<Mutex<Sealed>>) -> Self {
        Self {
            sealed,
            under_way: HashMap::new(),
            unsent: HashMap::new(),
            waiting: BTreeMap::new(),
            latencies: Latencies::default(),
        }
    }

    /// Returns the latencies so far.
    pub const fn latencies(&self) -> &Latencies {
        &self.latencies
    }
}

impl Tap for Delivery {
    fn sent(&mut self, now: Time, datagram: &[u8]) {
        let Some(tag) = datagram.last_chunk::<TAG>() else { return };
        let pieces = self.sealed.lock().take(tag);
        let Some(pieces) = pieces else { return };
        for (stream, bytes) in &pieces {
            let unsent = self.unsent.entry(*stream).or_default();
            if bytes.end > *unsent {
                self.waiting.insert((*stream, bytes.start.max(*unsent)), now);
                *unsent = bytes.end;
            }
        }
        self.under_way.insert(*tag, pieces);
    }

    fn arrived(&mut self, now: Time, datagram: &[u8]) {
        let pieces = datagram.last_chunk::<TAG>().and_then(|tag| self.under_way.remove(tag));
        for (stream, bytes) in pieces.into_iter().flatten() {
            let (first, end) = ((stream, bytes.start), (stream, bytes.end));
            while let Some((&key, &sent)) = self.waiting.range(first..end).next() {
                self.waiting.remove(&key);
                self.latencies.record(now.since(sent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    /// Returns a datagram whose tag is the byte `n` repeated 16 times.
    fn datagram(n: u8) -> Vec<u8> {
        [&[0x40, 1, 2][..], &[n; TAG]].concat()
    }

    fn flow() -> (Arc<Mutex<Sealed>>, Delivery) {
        let sealed = Arc::new(Mutex::new(Sealed::default()));
        let delivery = Delivery::new(Arc::clone(&sealed));
        (sealed, delivery)
    }

    #[test]
    fn stream_frames_are_found_among_other_frames() {
        // PING; stream 4 with offset 0x100 and length 3; PADDING; stream 0 without offset, up to
        // the end.
        let payload = [0x01, 0x0e, 0x04, 0x41, 0x00, 0x03, 7, 7, 7, 0x00, 0x00, 0x08, 0x00, 9, 9];
        assert_eq!(pieces(&payload), [(4, 0x100..0x103), (0, 0..2)]);
        // An empty frame with FIN carries nothing; an unreadable frame ends the parsing.
        assert_eq!(pieces(&[0x0b, 0x04, 0x00]), []);
        assert_eq!(pieces(&[0x08, 0x04, 9, 0x40]), [(4, 0..2)]);
        assert_eq!(pieces(&[0x40, 0x99, 0x08, 0x04, 9]), []);
    }

    #[test]
    fn latency_runs_from_first_transmission_to_first_arrival() {
        let (sealed, mut delivery) = flow();
        let send = |delivery: &mut Delivery, at, tag, pieces: &[Piece]| {
            sealed.lock().note(&[tag; TAG], pieces.to_vec());
            delivery.sent(ms(at), &datagram(tag));
        };
        send(&mut delivery, 0, 1, &[(0, 0..100)]);
        send(&mut delivery, 1, 2, &[(0, 100..200)]);
        delivery.arrived(ms(30), &datagram(2));
        // The first datagram was lost. Its bytes are sent again in different pieces, together with
        // some new bytes.
        send(&mut delivery, 50, 3, &[(0, 0..60)]);
        send(&mut delivery, 51, 4, &[(0, 60..100), (0, 200..250)]);
        delivery.arrived(ms(80), &datagram(3));
        delivery.arrived(ms(81), &datagram(4));
        // A late and a repeated arrival add nothing.
        delivery.arrived(ms(90), &datagram(1));
        send(&mut delivery, 95, 5, &[(0, 100..200)]);
        delivery.arrived(ms(120), &datagram(5));
        let latencies = delivery.latencies();
        assert_eq!(latencies.count(), 3);
        // 29, 80 and 30 ms.
        assert_eq!(
            latencies.mean(),
            Some(Duration::from_micros(139_000 / 3 + 1) - Duration::from_nanos(667))
        );
        assert_eq!(latencies.within(ms(30).since(ms(0))), Some(2.0 / 3.0));
    }

    #[test]
    fn delivery_ignores_datagrams_of_other_flows() {
        let (sealed, mut delivery) = flow();
        sealed.lock().note(&[1; TAG], Vec::new());
        delivery.sent(ms(0), &datagram(1));
        delivery.sent(ms(0), &datagram(2));
        delivery.sent(ms(0), &[1, 2, 3]);
        delivery.arrived(ms(1), &datagram(1));
        assert_eq!(delivery.latencies().count(), 0);
    }

    #[test]
    fn oldest_unfetched_packet_records_are_discarded() {
        let mut sealed = Sealed::default();
        for n in 0..REMEMBERED as u64 + 10 {
            let tag = [n.to_le_bytes(), [0; 8]].concat();
            sealed.note(&tag, vec![(0, n..n + 1)]);
        }
        assert_eq!((sealed.pieces.len(), sealed.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(sealed.take(&[0; TAG]), None);
    }
}
