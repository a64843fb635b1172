//! What TCP segments carry. They count full-size on the wire and store a few bytes.

use std::ops::Range;

use fathom_cc::{OneWayDelay, Time};

use crate::packet::{Stored, take};

/// Bytes of IPv4 and TCP header without options (RFC 791 §3.1, RFC 9293 §3.1).
pub const TCP_HEADER: u16 = 40;
/// Bytes of the timestamps option with its padding (RFC 7323 §A).
pub const TIMESTAMPS_OPTION: u16 = 12;
/// SACK blocks of an acknowledgement at most, without timestamps; with them there is room for one less (RFC 2018 §3).
pub const MAX_SACK_BLOCKS: usize = 4;
/// Bytes of a SACK option without blocks, with its padding, and of a block (RFC 2018 §3).
const SACK_OPTION: u16 = 4;
const SACK_BLOCK: u16 = 8;

/// A segment of the sender: SYN, the handshake's ACK, data, or FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment {
    /// First sequence number in bytes; the first data byte is 0.
    pub seq: u64,
    /// Sequence numbers: data bytes, and one for a FIN.
    pub len: u16,
    /// When it left; what the timestamps option carries.
    pub sent: Time,
    /// It opens the connection.
    pub syn: bool,
    /// It ends the data: its last sequence number stands for that and is no byte (RFC 9293 §3.4).
    pub fin: bool,
    /// It closes the connection at once, and nothing of it is repeated.
    pub reset: bool,
    /// The window was reduced (RFC 3168 §6.1.2).
    pub cwr: bool,
    /// It leaves as ECN-capable. Neither SYN nor ACK nor a retransmission is (RFC 3168 §6.1.1, RFC 3168 §6.1.4, RFC 3168 §6.1.5).
    pub ecn_capable: bool,
    /// It was sent before.
    pub retransmission: bool,
    /// IP packet in bytes, headers included.
    pub size: u16,
}

impl TcpSegment {
    /// Nothing but a header.
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
    /// From first bytes and first bytes behind, newest first; those beyond [`MAX_SACK_BLOCKS`] are left out.
    pub fn from_slice(blocks: &[(u64, u64)]) -> Self {
        blocks.iter().copied().collect()
    }

    /// First byte of each block, and the first behind it.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.list[..self.len]
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.as_slice().iter().map(|(first, end)| *first..*end)
    }
}

/// An acknowledgement, or the handshake's SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// The next byte expected: all before it arrived.
    pub ack: u64,
    /// It answers the SYN.
    pub syn: bool,
    /// A mark was seen, and no CWR since (RFC 3168 §6.1.3).
    pub ece: bool,
    /// What arrived behind a gap, where SACK is used.
    pub sack: SackBlocks,
    /// With the timestamps option: when the segment left that made this ACK due (RFC 7323 §4.3).
    pub echo: Option<Time>,
    /// With the timestamps option: how long the newest segment was on its way.
    pub one_way: Option<OneWayDelay>,
    /// It came with data, and is no duplicate ACK therefore (RFC 5681 §2).
    pub with_data: bool,
    /// With accurate ECN: packets with data that arrived so far, and those among them that were marked. They take fields of the header.
    pub marks: Option<(u32, u32)>,
}

impl TcpAck {
    /// The same in the header of a segment, which has data or not. SACK blocks find no room beside data.
    pub(super) fn beside(self, data: bool) -> Self {
        let sack = if data { SackBlocks::default() } else { self.sack };
        Self { with_data: data, sack, ..self }
    }

    /// IP packet in bytes, headers included.
    pub const fn size(&self) -> u16 {
        let timestamps = if self.echo.is_some() { TIMESTAMPS_OPTION } else { 0 };
        let sack =
            if self.sack.len > 0 { SACK_OPTION + SACK_BLOCK * self.sack.len as u16 } else { 0 };
        TCP_HEADER + timestamps + sack
    }
}

const SYN: u8 = 1;
/// CWR of a segment, ECE of an ACK.
const CONGESTION: u8 = 2;
const TIMESTAMPS: u8 = 4;
const FIN: u8 = 8;
/// Of a segment.
const RESET: u8 = 64;
/// Of an ACK: a segment came before it.
const WITH_DATA: u8 = 16;
/// Of an ACK: counts of marks are there.
const MARKS: u8 = 32;

fn flags_of<const N: usize>(flags: [(bool, u8); N]) -> [u8; 1] {
    [flags.iter().map(|(set, flag)| u8::from(*set) * flag).sum()]
}

/// What is stored of a packet between two ends that both have data: epoch, whether there is a segment, the segment, the ACK.
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

/// Epoch, segment and ACK of a packet.
pub(super) fn read_packet(mut bytes: &[u8]) -> Option<(u32, Option<TcpSegment>, Option<TcpAck>)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    let [segment, ack] = take(&mut bytes)?;
    let segment = if segment == 0 { None } else { Some(take_segment(&mut bytes)?) };
    let ack = if ack == 0 { None } else { Some(take_ack(bytes)?) };
    Some((epoch, segment, ack))
}

/// Epoch 4, then the segment. The epoch tells a flow's connections apart.
pub(crate) fn store_segment(epoch: u32, segment: &TcpSegment) -> Stored {
    let mut s = Stored::new(epoch);
    put_segment(&mut s, segment);
    s
}

/// Flags 1, sequence number 8, length 2, time sent 8.
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

/// Epoch and segment, as far as a receiver reads it.
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

/// Epoch 4, then the ACK.
pub(crate) fn store_ack(epoch: u32, ack: &TcpAck) -> Stored {
    let mut s = Stored::new(epoch);
    put_ack(&mut s, ack);
    s
}

/// Flags 1, ACK number 8, with timestamps echo 8 and one-way delay 8, with counts of marks 8, then 16 for each block.
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

/// Epoch and acknowledgement.
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
    fn options_make_an_ack_larger() {
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
    fn segments_are_read_as_stored() {
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
