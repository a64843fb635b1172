//! Contents of TCP segments. Each segment counts with its full size on the wire but stores only a
//! few bytes.

use std::ops::Range;

use fathom_cc::{OneWayDelay, Time};

use crate::packet::{Stored, take};

/// Size in bytes of the IPv4 and TCP headers without options (RFC 791 §3.1, RFC 9293 §3.1).
pub const TCP_HEADER: u16 = 40;
/// Size in bytes of the timestamps option with its padding (RFC 7323 §A).
pub const TIMESTAMPS_OPTION: u16 = 12;
/// Maximum number of SACK blocks in an ACK without timestamps. With timestamps, one block fewer
/// fits (RFC 2018 §3).
pub const MAX_SACK_BLOCKS: usize = 4;
/// Sizes in bytes of a SACK option without blocks but with padding (`SACK_OPTION`), and of one
/// block (`SACK_BLOCK`; RFC 2018 §3).
const SACK_OPTION: u16 = 4;
const SACK_BLOCK: u16 = 8;

/// A segment from the sender: SYN, the handshake's ACK, data, or FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment {
    /// First sequence number in bytes. The first data byte has number 0.
    pub seq: u64,
    /// Length in sequence numbers: the data bytes, plus one for a FIN.
    pub len: u16,
    /// Send time, carried in the timestamps option.
    pub sent: Time,
    /// Whether the segment opens the connection.
    pub syn: bool,
    /// Whether the segment ends the data. Its last sequence number then stands for the FIN and not
    /// for a byte (RFC 9293 §3.4).
    pub fin: bool,
    /// Whether the segment closes the connection at once. Such a segment is never repeated.
    pub reset: bool,
    /// Whether the sender has reduced its window (RFC 3168 §6.1.2).
    pub cwr: bool,
    /// Whether the segment leaves as ECN-capable. SYNs, ACKs and retransmissions are not
    /// ECN-capable (RFC 3168 §6.1.1, RFC 3168 §6.1.4, RFC 3168 §6.1.5), unless
    /// `TcpOptions::ecn_retransmissions` is set.
    pub ecn_capable: bool,
    /// Whether the data have been sent before.
    pub retransmission: bool,
    /// Size of the IP packet in bytes, including headers.
    pub size: u16,
}

impl TcpSegment {
    /// Returns a segment that consists only of a header.
    pub(super) const fn bare(now: Time) -> Self {
        Self {
            seq: 0,
            len: 0,
            sent: now,
            syn: false,
            fin: false,
            reset: false,
            cwr: false,
            ecn_capable: false,
            retransmission: false,
            size: 0,
        }
    }
}

/// SACK blocks, the newest first (RFC 2018 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    list: [(u64, u64); MAX_SACK_BLOCKS],
    len: usize,
}

impl FromIterator<(u64, u64)> for SackBlocks {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(blocks: I) -> Self {
        let mut all = Self::default();
        for block in blocks.into_iter().take(MAX_SACK_BLOCKS) {
            all.list[all.len] = block;
            all.len += 1;
        }
        all
    }
}

impl SackBlocks {
    /// Builds the blocks from pairs of numbers, newest block first. A pair has the first byte and
    /// the byte after the last one. Blocks beyond [`MAX_SACK_BLOCKS`] are left out.
    pub fn from_slice(blocks: &[(u64, u64)]) -> Self {
        blocks.iter().copied().collect()
    }

    /// Returns the first byte of each block and the byte after its last one.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.list[..self.len]
    }

    /// Returns the data that the first block reports as received twice (RFC 2883 §4): it lies below
    /// the ACK number or in the second block.
    pub(super) fn duplicate(&self, ack: u64) -> Option<(u64, u64)> {
        let (first, end) = *self.as_slice().first()?;
        let inside = |(from, to): &(u64, u64)| *from <= first && end <= *to;
        (end <= ack || self.as_slice().get(1).is_some_and(inside)).then_some((first, end))
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.as_slice().iter().map(|(first, end)| *first..*end)
    }
}

/// An acknowledgement, or the handshake's SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// Sequence number of the next expected byte. All bytes before it have arrived.
    pub ack: u64,
    /// Whether this is the SYN-ACK.
    pub syn: bool,
    /// Whether a mark was seen after the last CWR (RFC 3168 §6.1.3).
    pub ece: bool,
    /// Ranges received behind a gap. Empty if SACK is not used.
    pub sack: SackBlocks,
    /// Send time of the segment that made this ACK due (RFC 7323 §4.3); `None` without the
    /// timestamps option.
    pub echo: Option<Time>,
    /// One-way delay of the newest segment; `None` without the timestamps option.
    pub one_way: Option<OneWayDelay>,
    /// Whether the ACK came with data and is therefore not a duplicate ACK (RFC 5681 §2).
    pub with_data: bool,
    /// Numbers of packets received with data and of marked packets among them so far; `None`
    /// without accurate ECN. The counts occupy header fields and add no bytes.
    pub marks: Option<(u32, u32)>,
}

impl TcpAck {
    /// Returns the ACK as it is carried in the header of a segment with or without data. SACK
    /// blocks do not fit next to data.
    pub(super) fn beside(self, data: bool) -> Self {
        let sack = if data { SackBlocks::default() } else { self.sack };
        Self { with_data: data, sack, ..self }
    }

    /// Returns the size of the IP packet in bytes, including headers.
    pub const fn size(&self) -> u16 {
        let timestamps = if self.echo.is_some() { TIMESTAMPS_OPTION } else { 0 };
        let sack =
            if self.sack.len > 0 { SACK_OPTION + SACK_BLOCK * self.sack.len as u16 } else { 0 };
        TCP_HEADER + timestamps + sack
    }
}

const SYN: u8 = 1;
/// Flag that means CWR in a segment and ECE in an ACK.
const CONGESTION: u8 = 2;
const TIMESTAMPS: u8 = 4;
const FIN: u8 = 8;
/// Flag that only segments have.
const RESET: u8 = 64;
/// Flag that only ACKs have: a segment precedes the ACK.
const WITH_DATA: u8 = 16;
/// Flag that only ACKs have: counts of marks follow.
const MARKS: u8 = 32;

fn flags_of<const N: usize>(flags: [(bool, u8); N]) -> [u8; 1] {
    [flags.iter().map(|(set, flag)| u8::from(*set) * flag).sum()]
}

/// Stores a packet between two ends that both have data: the epoch, flags for the segment and the
/// ACK, the segment, and the ACK.
pub(super) fn store_packet(
    epoch: u32,
    segment: Option<&TcpSegment>,
    ack: Option<&TcpAck>,
) -> Stored {
    let mut s = Stored::new(epoch);
    s.put([u8::from(segment.is_some()), u8::from(ack.is_some())]);
    if let Some(segment) = segment {
        put_segment(&mut s, segment);
    }
    if let Some(ack) = ack {
        put_ack(&mut s, ack);
    }
    s
}

/// Reads the epoch, segment and ACK of a packet.
pub(super) fn read_packet(mut bytes: &[u8]) -> Option<(u32, Option<TcpSegment>, Option<TcpAck>)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    let [segment, ack] = take(&mut bytes)?;
    let segment = if segment == 0 { None } else { Some(take_segment(&mut bytes)?) };
    let ack = if ack == 0 { None } else { Some(take_ack(bytes)?) };
    Some((epoch, segment, ack))
}

/// Stores a segment after its epoch (4 bytes). The epoch distinguishes the connections of a flow.
pub(crate) fn store_segment(epoch: u32, segment: &TcpSegment) -> Stored {
    let mut s = Stored::new(epoch);
    put_segment(&mut s, segment);
    s
}

/// Stores the flags (1 byte), the sequence number (8), the length (2) and the send time (8).
fn put_segment(s: &mut Stored, segment: &TcpSegment) {
    s.put(flags_of([
        (segment.syn, SYN),
        (segment.cwr, CONGESTION),
        (segment.fin, FIN),
        (segment.reset, RESET),
    ]));
    s.put(segment.seq.to_le_bytes());
    s.put(segment.len.to_le_bytes());
    s.put(segment.sent.as_nanos().to_le_bytes());
}

/// Reads the epoch, and those fields of the segment that a receiver uses.
pub(crate) fn read_segment(mut bytes: &[u8]) -> Option<(u32, TcpSegment)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    Some((epoch, take_segment(&mut bytes)?))
}

fn take_segment(bytes: &mut &[u8]) -> Option<TcpSegment> {
    let [flags] = take(bytes)?;
    Some(TcpSegment {
        seq: u64::from_le_bytes(take(bytes)?),
        len: u16::from_le_bytes(take(bytes)?),
        sent: Time::from_nanos(u64::from_le_bytes(take(bytes)?)),
        syn: flags & SYN != 0,
        cwr: flags & CONGESTION != 0,
        fin: flags & FIN != 0,
        reset: flags & RESET != 0,
        ..TcpSegment::bare(Time::ZERO)
    })
}

/// Stores an ACK after its epoch (4 bytes).
pub(crate) fn store_ack(epoch: u32, ack: &TcpAck) -> Stored {
    let mut s = Stored::new(epoch);
    put_ack(&mut s, ack);
    s
}

/// Stores the flags (1 byte) and the ACK number (8). With timestamps, the echo (8) and the one-way
/// delay (8) follow. With accurate ECN, the counts of marks (8) follow. Each block takes 16 bytes.
fn put_ack(s: &mut Stored, ack: &TcpAck) {
    let timestamps = ack.echo.zip(ack.one_way);
    s.put(flags_of([
        (ack.syn, SYN),
        (ack.ece, CONGESTION),
        (timestamps.is_some(), TIMESTAMPS),
        (ack.with_data, WITH_DATA),
        (ack.marks.is_some(), MARKS),
    ]));
    s.put(ack.ack.to_le_bytes());
    if let Some((echo, one_way)) = timestamps {
        s.put(echo.as_nanos().to_le_bytes());
        s.put(one_way.as_nanos().to_le_bytes());
    }
    if let Some((arrived, marked)) = ack.marks {
        s.put(arrived.to_le_bytes());
        s.put(marked.to_le_bytes());
    }
    for (first, end) in ack.sack.as_slice() {
        s.put(first.to_le_bytes());
        s.put(end.to_le_bytes());
    }
}

/// Reads the epoch and the acknowledgement.
pub(crate) fn read_ack(mut bytes: &[u8]) -> Option<(u32, TcpAck)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    Some((epoch, take_ack(bytes)?))
}

fn take_ack(mut bytes: &[u8]) -> Option<TcpAck> {
    let [flags] = take(&mut bytes)?;
    let ack = u64::from_le_bytes(take(&mut bytes)?);
    let (mut echo, mut one_way) = (None, None);
    if flags & TIMESTAMPS != 0 {
        echo = Some(Time::from_nanos(u64::from_le_bytes(take(&mut bytes)?)));
        one_way = Some(OneWayDelay::from_nanos(i64::from_le_bytes(take(&mut bytes)?)));
    }
    let mut marks = None;
    if flags & MARKS != 0 {
        marks =
            Some((u32::from_le_bytes(take(&mut bytes)?), u32::from_le_bytes(take(&mut bytes)?)));
    }
    let mut sack = SackBlocks::default();
    while let (Some(first), Some(end)) = (take(&mut bytes), take(&mut bytes)) {
        *sack.list.get_mut(sack.len)? = (u64::from_le_bytes(first), u64::from_le_bytes(end));
        sack.len += 1;
    }
    let [syn, ece, with_data] = [SYN, CONGESTION, WITH_DATA].map(|flag| flags & flag != 0);
    Some(TcpAck { ack, syn, ece, sack, echo, one_way, with_data, marks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2018 §3 and RFC 7323 §A.
    #[test]
    fn tcp_options_make_an_ack_larger() {
        let sack = SackBlocks::from_slice(&[(10, 20), (30, 40), (50, 60), (70, 80), (90, 99)]);
        assert_eq!(sack.as_slice().len(), 4);
        let ack = TcpAck {
            ack: 5,
            syn: false,
            ece: false,
            sack: SackBlocks::default(),
            echo: None,
            one_way: None,
            with_data: false,
            marks: None,
        };
        assert_eq!(ack.size(), 40);
        assert_eq!(TcpAck { sack, ..ack }.size(), 40 + 36);
        assert_eq!(TcpAck { echo: Some(Time::ZERO), ..ack }.size(), 52);
    }

    #[test]
    fn tcp_segments_round_trip_through_storage() {
        let blocks = [(10, 20), (30, 40), (50, 60), (70, u64::MAX)];
        let plain = TcpAck {
            ack: 5,
            syn: true,
            ece: false,
            sack: SackBlocks::from_slice(&blocks),
            echo: None,
            one_way: None,
            with_data: false,
            marks: None,
        };
        let one_way = Some(OneWayDelay::from_nanos(-5));
        let sack = SackBlocks::from_slice(&blocks[..3]);
        let counted = TcpAck { marks: Some((7, 3)), with_data: false, ..plain };
        let stamped = TcpAck {
            syn: false,
            ece: true,
            with_data: true,
            sack,
            echo: Some(Time::from_micros(3)),
            one_way,
            ..plain
        };
        for ack in [plain, counted, stamped] {
            assert_eq!(read_ack(store_ack(8, &ack).as_slice()), Some((8, ack)));
        }
        let segment = TcpSegment {
            seq: 1 << 40,
            len: 1_460,
            sent: Time::from_micros(123),
            syn: false,
            fin: true,
            reset: true,
            cwr: true,
            ecn_capable: false,
            retransmission: false,
            size: 0,
        };
        assert_eq!(read_segment(store_segment(9, &segment).as_slice()), Some((9, segment)));
        assert_eq!((read_segment(&[1, 2, 3]), read_ack(&[0; 12])), (None, None));
    }
}
