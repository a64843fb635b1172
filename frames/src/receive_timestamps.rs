//! The ACK_RECEIVE_TIMESTAMPS frame of draft-ietf-quic-receive-ts-02: an ACK frame that also
//! reports when packets arrived.
//!
//! ```text
//! ACK_RECEIVE_TIMESTAMPS Frame {
//!   Type (i) = 0x03178307..0x03178308,   83 17 83 07; with ECN counts 83 17 83 08
//!   (an ACK frame's fields, from Largest Acknowledged to the ECN counts)
//!   Timestamp Range Count (i),
//!   Timestamp Range (..) ...,   { Delta Largest Acknowledged (i),
//! }                               Timestamp Count (i), Timestamp Delta (i) ... }
//! ```
//!
//! The first packet of a range is Delta Largest Acknowledged below the largest acknowledged. Each
//! further packet has a packet number one below the previous packet's. Times count from an epoch
//! that the receiver of the packets chooses and does not report, in units of
//! 2^receive_timestamps_exponent microseconds. The first delta of the frame is the time since the
//! epoch. Every later delta, also in further ranges, is the time by which that packet arrived
//! before the previous one in the frame. Times therefore never rise, and packets that were
//! overtaken have their own ranges or are omitted.
//!
//! Each endpoint announces what it wants to read: max_receive_timestamps_per_ack and
//! receive_timestamps_exponent are the reader's. Both code points have the form 31N + 27, so a peer
//! that greases may send any value for them. A value that is not an integer therefore counts as
//! absent.

use std::ops::Range;

use crate::ack::Ack;
use crate::codepoints;
use crate::cursor::{Cursor, FrameError};
use crate::enable_timestamp::Timestamps;
use crate::parameter::{Negotiated, ParameterError, append, value};
use crate::varint;

/// Length of the frame type in bytes.
const TYPE_LEN: usize = 4;
/// Number of bytes by which the type is longer than that of an ACK frame.
const TYPE_GROWTH: usize = TYPE_LEN - 1;
/// Frame types of ACK, without and with ECN counts (RFC 9000 §19.3).
const ACK: u8 = 0x02;
const ACK_ECN: u8 = 0x03;
/// Largest allowed receive_timestamps_exponent.
const MAX_EXPONENT: u64 = 20;
/// Largest number of ranges in a frame written here, and of timestamps in a range. The count must
/// fit into one byte.
const MOST: usize = 63;

/// An endpoint's request: the timestamps that it wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveTimestamps {
    /// Largest number of timestamps in a frame, which is not 0.
    pub max_per_ack: u64,
    /// Exponent of the time unit, which is 2^exponent microseconds; at most 20.
    pub exponent: u8,
}

impl Default for ReceiveTimestamps {
    /// Returns the default: one timestamp per frame in units of 8 us.
    ///
    /// The timestamp is that of the newest packet, because each frame gives one sample. The unit of
    /// 8 us is the usual unit of the ACK delay. It is far less than the time between the arrival of
    /// a packet and its reading by a host. In this unit, a time takes four bytes for 2.4 hours. In
    /// microseconds, it would take four bytes for only 18 min.
    fn default() -> Self {
        Self { max_per_ack: 1, exponent: 3 }
    }
}

impl ReceiveTimestamps {
    /// Largest number of timestamps that is written into a frame, whatever the peer requests. An
    /// endpoint here also requests and reads no more. A stack that empties its socket at once
    /// acknowledges some tens of packets together.
    pub const MOST: u64 = 32;

    /// Returns the request with at most [`ReceiveTimestamps::MOST`] timestamps, as an endpoint here
    /// may send it. Returns `None` if the request is invalid.
    pub fn bounded(self) -> Option<Self> {
        let valid = self.max_per_ack > 0 && u64::from(self.exponent) <= MAX_EXPONENT;
        valid.then(|| Self { max_per_ack: self.max_per_ack.min(Self::MOST), ..self })
    }

    /// Appends the parameters (id, length, value) to encoded transport parameters that do not
    /// contain them yet.
    pub fn append(self, parameters: &mut Vec<u8>) {
        append(
            parameters,
            codepoints::MAX_RECEIVE_TIMESTAMPS_PARAMETER,
            self.max_per_ack.min(varint::MAX),
        );
        if self.exponent > 0 {
            append(
                parameters,
                codepoints::RECEIVE_TIMESTAMPS_EXPONENT_PARAMETER,
                self.exponent.into(),
            );
        }
    }

    /// Returns the peer's request from its raw transport parameters; `None` if the peer requests no
    /// timestamps.
    ///
    /// # Errors
    /// Returns a [`ParameterError`] if a parameter is repeated, if the exponent is above 20, or if
    /// the parameters end too early.
    pub fn find(parameters: &[u8]) -> Result<Option<Self>, ParameterError> {
        let one = |id| Ok(value(parameters, id)?.and_then(whole));
        let max_per_ack = one(codepoints::MAX_RECEIVE_TIMESTAMPS_PARAMETER)?.unwrap_or(0);
        let exponent = one(codepoints::RECEIVE_TIMESTAMPS_EXPONENT_PARAMETER)?.unwrap_or(0);
        if max_per_ack == 0 {
            return Ok(None);
        }
        match u8::try_from(exponent) {
            Ok(exponent) if u64::from(exponent) <= MAX_EXPONENT => {
                Ok(Some(Self { max_per_ack, exponent }))
            }
            _ => Err(ParameterError::Value),
        }
    }
}

/// Result of negotiating the parameters of both endpoints on one connection.
///
/// The parameters announce only what an endpoint wants to read. No parameter announces what an
/// endpoint writes. A peer that wants to read is assumed to write as well, so its frames are
/// expected. Frames of a peer that wants none are still read if they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NegotiatedReceiveTimestamps {
    /// Content of our frames. If `None`, our ACK frames stay unchanged.
    pub sends: Option<ReceiveTimestamps>,
    /// Exponent of the time unit in the peer's frames; `None` unless this endpoint learns its
    /// forward delay from them.
    pub reads: Option<u8>,
    /// Whether this endpoint expects the peer to send such frames.
    pub expects: bool,
    /// Whether the peer may send such frames, even if they are not read. If not, close the
    /// connection with PROTOCOL_VIOLATION.
    pub accepts: bool,
}

impl NegotiatedReceiveTimestamps {
    /// Returns the result of our parameters and the peer's.
    ///
    /// If one of the other two frames was negotiated, it has priority and this frame is not used.
    /// The other frames take 6 to 16 bytes, but this frame grows with every packet.
    pub fn between(
        ours: Option<ReceiveTimestamps>,
        peers: Option<ReceiveTimestamps>,
        sync: &Negotiated,
        timestamps: &Timestamps,
    ) -> Self {
        let Some(ours) = ours else { return Self::default() };
        if *sync != Negotiated::default() || timestamps.sends || timestamps.reads {
            return Self { accepts: true, ..Self::default() };
        }
        let sends = peers.map(|peers| ReceiveTimestamps {
            max_per_ack: peers.max_per_ack.min(ReceiveTimestamps::MOST),
            exponent: peers.exponent,
        });
        Self { sends, reads: Some(ours.exponent), expects: peers.is_some(), accepts: true }
    }
}

/// Returns the value of a varint with no bytes after it.
fn whole(raw: &[u8]) -> Option<u64> {
    varint::decode(raw).filter(|(_, len)| *len == raw.len()).map(|(value, _)| value)
}

/// A packet and its arrival time, in microseconds since the epoch of the endpoint that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Packet number.
    pub packet: u64,
    /// Arrival time in microseconds since the epoch.
    pub micros: u64,
}

/// An ACK_RECEIVE_TIMESTAMPS frame whose content has been checked: its packet numbers are inside
/// the packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckReceiveTimestamps<'a> {
    /// Content of the ACK frame.
    pub ack: Ack<'a>,
    /// Number of timestamps in the frame.
    pub count: u64,
    /// Length of the ACK frame's fields in bytes.
    ack_fields: usize,
    ranges: u64,
    bytes: &'a [u8],
}

impl<'a> AckReceiveTimestamps<'a> {
    /// Decodes the frame at the start of `bytes` and returns it with its length.
    ///
    /// # Errors
    /// Returns an error if `bytes` starts with another frame, ends too early, or names packets
    /// outside the packet number space.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), FrameError> {
        let mut cursor = Cursor::new(bytes);
        let ty = cursor.int()?;
        let known = matches!(
            ty,
            codepoints::ACK_RECEIVE_TIMESTAMPS | codepoints::ACK_RECEIVE_TIMESTAMPS_ECN
        );
        if !known || bytes.len() - cursor.rest().len() != TYPE_LEN {
            return Err(FrameError::Type(ty));
        }
        let frame = Self::read(&mut cursor, ty == codepoints::ACK_RECEIVE_TIMESTAMPS_ECN)?;
        Ok((frame, bytes.len() - cursor.rest().len()))
    }

    /// Reads the part of the frame after its type. Every timestamp takes at least one byte, so even
    /// a hostile count ends with the payload.
    pub(crate) fn read(cursor: &mut Cursor<'a>, ecn: bool) -> Result<Self, FrameError> {
        let len = cursor.rest().len();
        let ack = Ack::read(cursor, ecn)?;
        let ack_fields = len - cursor.rest().len();
        let ranges = cursor.int()?;
        let start = cursor.rest();
        let mut count = 0u64;
        for _ in 0..ranges {
            let (below, stamps) = (cursor.int()?, cursor.int()?);
            let first = ack.largest.checked_sub(below).ok_or(FrameError::Value)?;
            // The last of n packets has a number n - 1 below that of the first.
            if stamps > first.saturating_add(1) {
                return Err(FrameError::Value);
            }
            for _ in 0..stamps {
                cursor.int()?;
            }
            count = count.saturating_add(stamps);
        }
        let bytes = &start[..start.len() - cursor.rest().len()];
        Ok(Self { ack, count, ack_fields, ranges, bytes })
    }

    /// Returns the arrival times in the order of the frame. `exponent` is the exponent that the
    /// frame's reader requested.
    ///
    /// The iterator ends at a time that is before the epoch or that does not fit into 64 bits,
    /// because such a time is impossible.
    pub fn receipts(&self, exponent: u8) -> Receipts<'a> {
        Receipts {
            cursor: Cursor::new(self.bytes),
            largest: self.ack.largest,
            ranges: self.ranges,
            left: 0,
            next: 0,
            before: None,
            exponent,
        }
    }
}

/// Iterator over the timestamps of an [`AckReceiveTimestamps`].
#[derive(Clone, Debug)]
pub struct Receipts<'a> {
    cursor: Cursor<'a>,
    largest: u64,
    ranges: u64,
    /// Number of timestamps left in this range, and number of the next packet.
    left: u64,
    next: u64,
    /// Time of the previous packet in the frame.
    before: Option<u64>,
    exponent: u8,
}

impl Iterator for Receipts<'_> {
    type Item = Receipt;

    fn next(&mut self) -> Option<Receipt> {
        while self.left == 0 {
            self.ranges = self.ranges.checked_sub(1)?;
            let below = self.cursor.int().ok()?;
            self.left = self.cursor.int().ok()?;
            self.next = self.largest.checked_sub(below)?;
        }
        let delta = self.cursor.int().ok()?;
        let delta = delta.checked_mul(1u64.checked_shl(self.exponent.into())?);
        let micros = match (self.before, delta) {
            (None, Some(delta)) => Some(delta),
            (Some(before), Some(delta)) => before.checked_sub(delta),
            (_, None) => None,
        };
        let Some(micros) = micros else {
            (self.left, self.ranges) = (0, 0);
            return None;
        };
        self.before = Some(micros);
        let packet = self.next;
        self.left -= 1;
        self.next = self.next.wrapping_sub(1);
        Some(Receipt { packet, micros })
    }
}

/// Converts the ACK frame of `ack_len` bytes at the start of `bytes` into an ACK_RECEIVE_TIMESTAMPS
/// frame. The rest of `bytes` is free space, and unused space becomes PADDING. The arguments and
/// limits are those of [`encode_receipts`].
///
/// Returns the frame's length. Returns `None` if no timestamp fits or if the bytes are not an ACK
/// frame. In this case, the frame stays unchanged, with PADDING after it.
pub fn add_receipts(
    bytes: &mut [u8],
    ack_len: usize,
    receipts: &[Receipt],
    wanted: ReceiveTimestamps,
) -> Option<usize> {
    let tail = ack_len + TYPE_GROWTH;
    let encoded = largest_of(bytes.get(..ack_len).unwrap_or_default()).and_then(|largest| {
        let (len, written) = encode_receipts(largest, receipts, wanted, bytes.get_mut(tail..)?)?;
        (written > 0).then_some(len)
    });
    let Some(len) = encoded else {
        bytes.get_mut(ack_len..).unwrap_or_default().fill(0);
        return None;
    };
    become_receive_timestamps(bytes, ack_len);
    bytes[tail + len..].fill(0);
    Some(tail + len)
}

/// Does the same as [`add_receipts`], but writes `raw` instead of the timestamps, either completely
/// or not at all. With this function, tests send bytes that no honest endpoint sends.
#[doc(hidden)]
pub fn add_raw(bytes: &mut [u8], ack_len: usize, raw: &[u8]) -> Option<usize> {
    let tail = ack_len + TYPE_GROWTH;
    let is_ack = largest_of(bytes.get(..ack_len).unwrap_or_default()).is_some();
    let fits = is_ack && !raw.is_empty() && bytes.len() >= tail + raw.len();
    if !fits {
        bytes.get_mut(ack_len..).unwrap_or_default().fill(0);
        return None;
    }
    bytes[tail..tail + raw.len()].copy_from_slice(raw);
    bytes[tail + raw.len()..].fill(0);
    become_receive_timestamps(bytes, ack_len);
    Some(tail + raw.len())
}

/// Returns the largest packet number of an ACK frame.
fn largest_of(ack: &[u8]) -> Option<u64> {
    let (ty, fields) = ack.split_first()?;
    matches!(*ty, ACK | ACK_ECN).then(|| varint::decode(fields).map(|(largest, _)| largest))?
}

/// Changes the type of the ACK frame at the start of `bytes`.
fn become_receive_timestamps(bytes: &mut [u8], ack_len: usize) {
    let ty = if bytes[0] == ACK {
        codepoints::ACK_RECEIVE_TIMESTAMPS
    } else {
        codepoints::ACK_RECEIVE_TIMESTAMPS_ECN
    };
    bytes.copy_within(1..ack_len, TYPE_LEN);
    varint::encode(ty, &mut bytes[..TYPE_LEN]);
}

/// Returns the number of bytes by which an ACK frame grows if its receipts take `len` bytes.
pub const fn growth(len: usize) -> usize {
    TYPE_GROWTH + len
}

/// Converts the ACK_RECEIVE_TIMESTAMPS frame at `range` back into an ACK frame with the same end.
/// Returns the number of leading bytes that the caller must drop. If the frame comes first, this is
/// the number of bytes by which it became shorter. Otherwise, it is 0, and PADDING precedes the ACK
/// frame.
///
/// If there is no such frame at `range`, nothing changes.
pub fn restore_ack(payload: &mut [u8], range: Range<usize>) -> usize {
    let start = range.start;
    let Some(bytes) = payload.get_mut(range) else { return 0 };
    let Ok((frame, len)) = AckReceiveTimestamps::decode(bytes) else { return 0 };
    if len != bytes.len() {
        return 0;
    }
    let (fields, ecn) = (frame.ack_fields, frame.ack.ecn.is_some());
    let ack = len - fields - 1;
    bytes.copy_within(TYPE_LEN..TYPE_LEN + fields, ack + 1);
    bytes[ack] = if ecn { ACK_ECN } else { ACK };
    bytes[..ack].fill(0);
    if start == 0 { ack } else { 0 }
}

/// Writes the part of the frame after the ACK fields to the start of `out`: the ranges of as many
/// `receipts` as fit into `out` and into `wanted`, the peer's request.
///
/// `receipts` must be ordered newest first, with times that never rise and packet numbers of at
/// most `largest`. The output ends before the first receipt that violates these rules. Returns the
/// length and the number of receipts written. Returns `None` if `out` is empty.
pub fn encode_receipts(
    largest: u64,
    receipts: &[Receipt],
    wanted: ReceiveTimestamps,
    out: &mut [u8],
) -> Option<(usize, usize)> {
    let (count, rest) = out.split_first_mut()?;
    let mut writer = Writer { out: rest, at: 0 };
    let most = usize::try_from(wanted.max_per_ack).unwrap_or(usize::MAX);
    let (mut ranges, mut written) = (0u8, 0);
    // Time of the previous receipt, as the reader of the frame will compute it.
    let mut before: Option<u64> = None;
    while usize::from(ranges) < MOST && written < most.min(receipts.len()) {
        let begin = writer.at;
        let first = receipts[written].packet;
        let Some(below) = largest.checked_sub(first) else { break };
        if writer.int(below).is_none() || writer.int(0).is_none() {
            writer.at = begin;
            break;
        }
        let stamps = writer.at - 1;
        let mut n = 0;
        while n < MOST && written < most.min(receipts.len()) {
            let receipt = receipts[written];
            if first.checked_sub(n as u64) != Some(receipt.packet) {
                break;
            }
            let Some((delta, known)) = delta(before, receipt.micros, wanted.exponent) else {
                break;
            };
            if writer.int(delta).is_none() {
                break;
            }
            (before, n, written) = (Some(known), n + 1, written + 1);
        }
        if n == 0 {
            writer.at = begin;
            break;
        }
        writer.out[stamps] = n as u8;
        ranges += 1;
    }
    *count = ranges;
    Some((1 + writer.at, written))
}

/// Returns the delta for a packet that arrived at `micros`, and the arrival time that the reader of
/// the frame will compute.
///
/// The first time is rounded up, so that no later entry has a larger time. Later deltas are rounded
/// down. These rounding errors do not add up, because the next delta counts from the computed time.
fn delta(before: Option<u64>, micros: u64, exponent: u8) -> Option<(u64, u64)> {
    let unit = 1u64.checked_shl(exponent.into())?;
    match before {
        None => {
            let delta = micros.div_ceil(unit);
            Some((delta, delta.checked_mul(unit)?))
        }
        Some(before) => {
            let delta = before.checked_sub(micros)? / unit;
            Some((delta, before - delta * unit))
        }
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn int(&mut self, value: u64) -> Option<()> {
        self.at += varint::encode(value, self.out.get_mut(self.at..)?)?;
        Some(())
    }
}

#[cfg(test)]
mod tests;
