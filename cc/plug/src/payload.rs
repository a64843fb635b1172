//! The frames of an opened payload that matter here.

use std::ops::Range;
use std::time::Duration;

use fathom_frames::parameter::Negotiated;
use fathom_frames::walker::{Fault, Malformed};
use fathom_frames::{Ack, Content, EcnCounts, Frames, SyncTimestamp, varint};

/// Frames of ours taken out of one packet; a packet with more goes to the stack as it is, which closes the connection.
const MAX_FRAMES: usize = 4;
/// ACK frames read in one packet, one for each path at most; more are the stack's alone.
const MAX_ACKS: usize = 4;
/// PATH_ACK, without and with ECN counts (draft-ietf-quic-multipath-21 §4.1).
const PATH_ACK: u64 = 0x3e;
const PATH_ACK_ECN: u64 = 0x3f;

/// PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 §19.17, RFC 9000 §19.18).
const PATH_FRAMES: [u64; 2] = [0x1a, 0x1b];

/// PADDING and CONNECTION_CLOSE (RFC 9000 §19.1, RFC 9000 §19.19).
const PADDING: u64 = 0x00;
const CLOSES: [u64; 2] = [0x1c, 0x1d];

/// What matters of a payload that is about to be sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// It asks for an acknowledgement.
    pub(crate) ack_eliciting: bool,
    /// It probes the path, and its datagram's size is part of the probe; or nobody knows.
    pub(crate) probes_path: bool,
    /// It closes the connection.
    pub(crate) closes: bool,
    /// It says nothing.
    pub(crate) empty: bool,
    /// Paths of its ACK frames, and their lengths: the first `ack_count` entries.
    acks: [(u32, usize); MAX_ACKS],
    ack_count: usize,
}

impl Leaving {
    /// Reads our own stack's payload.
    pub(crate) fn read(payload: &[u8]) -> Self {
        let mut leaving = Self { empty: true, ..Self::default() };
        let mut start = 0;
        while let Some(malformed) = leaving.walk(payload, start) {
            let at = start + malformed.offset;
            let Fault::Type(PATH_ACK | PATH_ACK_ECN) = malformed.fault else { return leaving.unknown() };
            let Some((ack, len)) = AckSeen::path_ack(&payload[at..]) else { return leaving.unknown() };
            leaving.push(ack.path, len);
            start = at + len;
        }
        leaving
    }

    /// Paths of its ACK frames, and their lengths.
    pub(crate) fn acks(&self) -> &[(u32, usize)] {
        &self.acks[..self.ack_count]
    }

    /// Reads frames from `start` on, to the end or to one that cannot be read.
    fn walk(&mut self, payload: &[u8], start: usize) -> Option<Malformed> {
        for frame in Frames::new(&payload[start..]) {
            let frame = match frame {
                Ok(frame) => frame,
                Err(malformed) => return Some(malformed),
            };
            self.ack_eliciting |= frame.is_ack_eliciting();
            self.probes_path |= PATH_FRAMES.contains(&frame.ty);
            self.closes |= CLOSES.contains(&frame.ty);
            self.empty &= frame.ty == PADDING;
            if let Content::Ack(_) = frame.content {
                self.push(0, frame.range.len());
            }
        }
        None
    }

    /// A frame of an extension this crate does not know: the packet passes as it is.
    fn unknown(self) -> Self {
        Self { ack_eliciting: true, probes_path: true, empty: false, ..self }
    }

    fn push(&mut self, path: u32, bytes: usize) {
        self.empty = false;
        if let Some(slot) = self.acks.get_mut(self.ack_count) {
            *slot = (path, bytes);
            self.ack_count += 1;
        }
    }
}

/// What an ACK or PATH_ACK frame says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckSeen {
    pub(crate) path: u32,
    pub(crate) largest: u64,
    pub(crate) raw_delay: u64,
    pub(crate) ecn: Option<EcnCounts>,
}

impl AckSeen {
    fn of(ack: &Ack<'_>) -> Self {
        Self { path: 0, largest: ack.largest, raw_delay: ack.raw_delay, ecn: ack.ecn }
    }

    /// How long the peer held the acknowledgement back; `exponent` is the peer's (RFC 9000 §18.2).
    pub(crate) fn delay(&self, exponent: u8) -> Duration {
        let scale = 1u64.checked_shl(exponent.into()).unwrap_or(u64::MAX);
        Duration::from_micros(self.raw_delay.saturating_mul(scale))
    }

    /// The PATH_ACK frame at the start of `bytes`, and its length: an ACK frame with a path number behind its type.
    fn path_ack(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut rest = bytes;
        let mut int = || {
            let (value, len) = varint::decode(rest)?;
            rest = rest.get(len..)?;
            Some(value)
        };
        let ty = int()?;
        let path = u32::try_from(int()?).ok()?;
        let (largest, raw_delay, ranges, _first) = (int()?, int()?, int()?, int()?);
        // Every range takes at least two bytes, so a hostile count ends with the payload.
        for _ in 0..ranges {
            int()?;
            int()?;
        }
        let ecn = match ty {
            PATH_ACK_ECN => Some(EcnCounts { ect0: int()?, ect1: int()?, ce: int()? }),
            _ => None,
        };
        Some((Self { path, largest, raw_delay, ecn }, bytes.len() - rest.len()))
    }
}

/// What a payload holds for us.
#[derive(Default)]
pub(crate) struct Found {
    /// The first SYNC_TIMESTAMP frame.
    pub(crate) stamp: Option<SyncTimestamp>,
    pub(crate) ack_eliciting: bool,
    acks: [AckSeen; MAX_ACKS],
    ack_count: usize,
    /// Where our frames lie: the first `count` entries.
    at: [(usize, usize); MAX_FRAMES],
    count: usize,
}

impl Found {
    /// `None` when the payload must go to the stack as it is, because it holds a frame of ours that it must not hold.
    ///
    /// Behind a frame that cannot be read nothing is looked for; our own goes first, so it is found before. The stack knows the
    /// unreadable frame or closes the connection.
    pub(crate) fn in_payload(payload: &[u8], negotiated: &Negotiated) -> Option<Self> {
        let mut found = Self::default();
        let mut start = 0;
        while start < payload.len() {
            start = match found.walk(payload, start, negotiated)? {
                None => break,
                Some(Malformed { offset, fault: Fault::Type(PATH_ACK | PATH_ACK_ECN) }) => {
                    let Some((ack, len)) = AckSeen::path_ack(&payload[start + offset..]) else { break };
                    found.push(ack);
                    start + offset + len
                }
                Some(_) => {
                    // Unknown frames ask for an acknowledgement as a rule.
                    found.ack_eliciting = true;
                    break;
                }
            };
        }
        Some(found)
    }

    /// Where our frames lie.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        self.at.into_iter().take(self.count).map(|(start, end)| start..end)
    }

    /// The ACK frames, in order.
    pub(crate) fn acks(&self) -> &[AckSeen] {
        &self.acks[..self.ack_count]
    }

    /// Reads frames from `start` on, to the end or to one that cannot be read. `None` as in [`Found::in_payload`].
    fn walk(&mut self, payload: &[u8], start: usize, negotiated: &Negotiated) -> Option<Option<Malformed>> {
        for frame in Frames::new(&payload[start..]) {
            let frame = match frame {
                Ok(frame) => frame,
                Err(malformed) => return Some(Some(malformed)),
            };
            self.ack_eliciting |= frame.is_ack_eliciting();
            match frame.content {
                Content::Ack(ack) => self.push(AckSeen::of(&ack)),
                Content::SyncTimestamp(stamp) => {
                    if !negotiated.accepts(&stamp) {
                        return None;
                    }
                    *self.at.get_mut(self.count)? = (start + frame.range.start, start + frame.range.end);
                    self.count += 1;
                    self.stamp.get_or_insert(stamp);
                }
                Content::Other => {}
            }
        }
        Some(None)
    }

    fn push(&mut self, ack: AckSeen) {
        if let Some(slot) = self.acks.get_mut(self.ack_count) {
            *slot = ack;
            self.ack_count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
    const LEAN: Negotiated = Negotiated {
        place: fathom_frames::parameter::Placement::BesideAcks,
        echoes: false,
        reads: true,
        reads_echoes: false,
    };

    fn found(payload: &[u8]) -> Found {
        Found::in_payload(payload, &LEAN).expect("ours to read")
    }

    #[test]
    fn path_acks_are_read_between_other_frames() {
        // PATH_ACK of path 5, largest 100, delay 32, ranges 96..=100 and 87..=91; PATH_ACK_ECN of path 0, largest 7; a PING.
        let payload = [
            &OURS[..],
            &[0x3e, 0x05, 0x40, 0x64, 0x20, 0x01, 0x04, 0x03, 0x04],
            &[0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02],
            &[0x01],
        ]
        .concat();
        let found = found(&payload);
        let first = AckSeen { path: 5, largest: 100, raw_delay: 32, ecn: None };
        let counts = EcnCounts { ect0: 6, ect1: 0, ce: 2 };
        assert_eq!(found.acks(), [first, AckSeen { path: 0, largest: 7, raw_delay: 1, ecn: Some(counts) }]);
        assert!(found.ack_eliciting);
        assert!(found.ranges().eq(std::iter::once(0..8)));
        assert_eq!(found.stamp.map(|s| s.sent), Some(9));
    }

    #[test]
    fn a_frame_nobody_knows_ends_the_walk_but_ours_before_it_counts() {
        let unknown = [&OURS[..], &[0x02, 9, 0, 0, 0], &[0x40, 0x7b, 1, 2, 3], &OURS[..]].concat();
        let found = found(&unknown);
        assert!(found.ranges().eq(std::iter::once(0..8)));
        assert_eq!(found.acks().len(), 1);
        assert!(found.ack_eliciting);
    }

    #[test]
    fn cut_path_acks_end_the_walk() {
        let whole = [0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02];
        assert_eq!(found(&whole).acks().len(), 1);
        for cut in 1..whole.len() {
            assert!(found(&whole[..cut]).acks().is_empty(), "cut to {cut}");
        }
        // A range count far beyond the payload.
        assert!(found(&[0x3e, 0, 7, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]).acks().is_empty());
    }

    #[test]
    fn a_frame_of_ours_that_was_not_agreed_goes_to_the_stack() {
        assert!(Found::in_payload(&OURS, &Negotiated::default()).is_none());
        assert!(Found::in_payload(&OURS.repeat(5), &LEAN).is_none());
        assert!(Found::in_payload(&OURS.repeat(4), &LEAN).is_some());
    }

    #[test]
    fn ack_delay_is_scaled_by_the_exponent_and_saturates() {
        let ack = |raw_delay| AckSeen { raw_delay, ..AckSeen::default() };
        assert_eq!(ack(125).delay(3), Duration::from_millis(1));
        assert_eq!(ack(u64::MAX).delay(20), Duration::from_micros(u64::MAX));
        assert_eq!(ack(2).delay(255), Duration::from_micros(u64::MAX));
    }
}
