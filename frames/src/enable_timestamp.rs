//! The transport parameter enable_timestamp (draft-huitema-quic-ts-08): which endpoint sends
//! TIMESTAMP frames, and which one reads them.
//!
//! ```text
//! enable_timestamp (0x7158) {
//!   Bits (i),      one varint, nothing after it
//! }
//! 1  I want to receive TIMESTAMP frames
//! 2  I can send them
//! ```
//!
//! An absent parameter means off. The valid values are 1, 2 and 3. Any other value, trailing bytes,
//! or a repeated parameter is a TRANSPORT_PARAMETER_ERROR. An endpoint sends the frame if it
//! announces 2 and its peer announces 1.
//!
//! Our servers announce the same value to every client, because they write their parameters before
//! they read the client's. As a server, picoquic mirrors its client (3 to 3, 1 to 2, 2 to 1). As a
//! client, it accepts any value. lsquic always announces 2, so it only sends the frame.
//!
//! If SYNC_TIMESTAMP was negotiated, TIMESTAMP frames are neither sent nor read. If a peer sends
//! such frames nevertheless, they are accepted, because the parameter requested them. Like
//! sync_timestamp, this parameter is **never remembered for 0-RTT**.

use crate::codepoints::ENABLE_TIMESTAMP_PARAMETER;
use crate::parameter::{Negotiated, ParameterError, append, integer};

const READS: u64 = 1;
const SENDS: u64 = 2;

/// An endpoint's announcement about TIMESTAMP frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnableTimestamp {
    /// The endpoint reads the peer's frames and sends none.
    Reads,
    /// The endpoint sends frames for the peer and reads none.
    Sends,
    /// The endpoint sends and reads frames.
    #[default]
    Both,
}

impl EnableTimestamp {
    const ALL: [Self; 3] = [Self::Reads, Self::Sends, Self::Both];

    /// Returns the value of the parameter.
    pub const fn value(self) -> u64 {
        match self {
            Self::Reads => READS,
            Self::Sends => SENDS,
            Self::Both => READS | SENDS,
        }
    }

    const fn says(self, bit: u64) -> bool {
        self.value() & bit != 0
    }

    /// Appends the parameter (id, length, value) to encoded transport parameters that do not
    /// contain it yet.
    pub fn append(self, parameters: &mut Vec<u8>) {
        append(parameters, ENABLE_TIMESTAMP_PARAMETER, self.value());
    }

    /// Returns the peer's announcement from its raw transport parameters; `None` if there is none.
    ///
    /// # Errors
    /// Returns a [`ParameterError`] if the value is malformed or repeated, or if the parameters end
    /// too early.
    pub fn find(parameters: &[u8]) -> Result<Option<Self>, ParameterError> {
        let Some(bits) = integer(parameters, ENABLE_TIMESTAMP_PARAMETER)? else { return Ok(None) };
        Self::ALL.into_iter().find(|o| o.value() == bits).map(Some).ok_or(ParameterError::Value)
    }
}

/// Result of negotiating the parameters of both endpoints on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Whether this endpoint sends TIMESTAMP frames.
    pub sends: bool,
    /// Whether this endpoint learns its forward delay from the peer's frames.
    pub reads: bool,
    /// Whether the peer may send TIMESTAMP frames, even if they are not read. If not, close the
    /// connection with PROTOCOL_VIOLATION.
    pub accepts: bool,
}

impl Timestamps {
    /// Returns the result for our parameter and the peer's parameter. Without one of them, there
    /// are no timestamps. `sync` is the result for SYNC_TIMESTAMP, which has priority.
    pub fn between(
        ours: Option<EnableTimestamp>,
        peers: Option<EnableTimestamp>,
        sync: &Negotiated,
    ) -> Self {
        let (Some(ours), Some(peers)) = (ours, peers) else { return Self::default() };
        let accepts = ours.says(READS) && peers.says(SENDS);
        let instead = *sync == Negotiated::default();
        Self {
            sends: instead && ours.says(SENDS) && peers.says(READS),
            reads: instead && accepts,
            accepts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Offer;

    /// max_ack_delay = 200 ms.
    const OTHERS: [u8; 4] = [0x0b, 0x02, 0x40, 0xc8];

    fn with(value: &[u8]) -> Vec<u8> {
        [&OTHERS, &[0x80, 0x00, 0x71, 0x58, value.len() as u8][..], value].concat()
    }

    #[test]
    fn enable_timestamp_values_encode_to_the_expected_bytes() {
        for (says, value) in EnableTimestamp::ALL.into_iter().zip([1, 2, 3]) {
            let mut parameters = OTHERS.to_vec();
            says.append(&mut parameters);
            assert_eq!(parameters, with(&[value]));
            assert_eq!(EnableTimestamp::find(&parameters), Ok(Some(says)));
        }
        let mut both = Vec::new();
        EnableTimestamp::default().append(&mut both);
        assert_eq!(both, [0x80, 0x00, 0x71, 0x58, 0x01, 0x03]);
        assert_eq!(EnableTimestamp::find(&OTHERS), Ok(None));
    }

    #[test]
    fn malformed_enable_timestamp_values_are_errors() {
        for value in [&[0][..], &[4], &[7], &[], &[3, 0], &[0x40], &[0xff; 8]] {
            assert_eq!(
                EnableTimestamp::find(&with(value)),
                Err(ParameterError::Value),
                "{value:x?}"
            );
        }
        let twice = [with(&[3]), with(&[3])].concat();
        assert_eq!(EnableTimestamp::find(&twice), Err(ParameterError::Duplicate));
        let one = with(&[3]);
        assert_eq!(EnableTimestamp::find(&one[..one.len() - 1]), Err(ParameterError::Truncated));
    }

    #[test]
    fn enable_timestamp_of_both_sides_decides_who_sends_and_reads() {
        use EnableTimestamp::{Both, Reads, Sends};
        let between = |ours, peers| {
            let t = Timestamps::between(Some(ours), Some(peers), &Negotiated::default());
            assert_eq!(t.reads, t.accepts);
            (t.sends, t.reads)
        };
        assert_eq!(between(Both, Both), (true, true));
        // picoquic's answers to 3, 1 and 2, and lsquic's only answer.
        assert_eq!(between(Reads, Sends), (false, true));
        assert_eq!(between(Sends, Reads), (true, false));
        assert_eq!(between(Both, Sends), (false, true));
        assert_eq!(between(Sends, Sends), (false, false));
        assert_eq!(between(Reads, Reads), (false, false));
    }

    #[test]
    fn sync_timestamp_excludes_timestamp_on_both_sides() {
        let says = || std::iter::once(None).chain(EnableTimestamp::ALL.map(Some));
        let offers = || {
            [None, Some(Offer::Reads), Some(Offer::Sends), Some(Offer::Lean), Some(Offer::Paper)]
                .into_iter()
        };
        for (a, b) in says().flat_map(|a| says().map(move |b| (a, b))) {
            for (x, y) in offers().flat_map(|x| offers().map(move |y| (x, y))) {
                let (sync, back) = (Negotiated::between(x, y), Negotiated::between(y, x));
                let (here, there) =
                    (Timestamps::between(a, b, &sync), Timestamps::between(b, a, &back));
                assert_eq!(here.sends, there.reads, "{a:?} {b:?} {x:?} {y:?}");
                assert!(!here.sends || there.accepts);
                let ours = sync != Negotiated::default();
                assert!(!ours || !here.sends && !here.reads, "{a:?} {b:?} {x:?} {y:?}");
            }
        }
    }
}
