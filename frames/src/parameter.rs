//! The transport parameter sync_timestamp: which endpoint sends timestamps, which one reads them,
//! and in which mode.
//!
//! ```text
//! sync_timestamp (0x3dcf82ec) {
//!   Bits (i),      one varint, nothing after it
//! }
//! 1  I read timestamps: you may send them
//! 2  I send timestamps, if you read them
//! 4  please echo: report the transit time of my packets (`paper` mode)
//! ```
//!
//! An absent parameter means off. An echo needs timestamps in both directions, so 4 is only valid
//! together with 1 and 2. An endpoint that announces 1 and 2 must echo on request. The valid values
//! are therefore 1, 2, 3 and 7. Any other value, trailing bytes, or a repeated parameter is a
//! TRANSPORT_PARAMETER_ERROR.
//!
//! Each endpoint chooses the mode in which it learns *its own* forward delay, so the two directions
//! may differ:
//! - `lean` (3): timestamps are sent only next to ACK frames. The endpoint that wants the delay
//!   computes the transit time as timestamp - ACK delay - its own send time.
//! - `paper` (7): the endpoint that wants the delay timestamps every packet. The peer echoes the
//!   timestamp and the transit time next to its ACK frames (Sync-TCP §3.2).
//!
//! The parameter is **never remembered for 0-RTT** (RFC 9000 §7.4.1), because the frame needs 1-RTT
//! keys and the parameters of the current handshake.

use std::fmt;
use std::time::Duration;

use crate::codepoints::SYNC_TIMESTAMP_PARAMETER;
use crate::sync_timestamp::SyncTimestamp;
use crate::varint;

const READS: u64 = 1;
const SENDS: u64 = 2;
const ECHO: u64 = 4;

/// The transport parameters ack_delay_exponent and max_ack_delay (RFC 9000 §18.2).
const ACK_DELAY_EXPONENT: u64 = 0x0a;
const MAX_ACK_DELAY: u64 = 0x0b;

/// An endpoint's offer in the transport parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// The endpoint reads the peer's timestamps and sends none.
    Reads,
    /// The endpoint sends timestamps for the peer and reads none.
    Sends,
    /// The endpoint sends and reads timestamps next to ACK frames.
    #[default]
    Lean,
    /// The endpoint sends a timestamp with every packet and asks for echoes.
    Paper,
}

/// Error in transport parameters. The caller closes the connection with TRANSPORT_PARAMETER_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterError {
    /// The bytes end inside a parameter.
    Truncated,
    /// The parameter appears twice.
    Duplicate,
    /// The parameter does not allow this value, or the value has trailing bytes.
    Value,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the transport parameters end in the middle of a parameter",
            Self::Duplicate => "a transport parameter appears twice",
            Self::Value => "a transport parameter has a value that is not allowed",
        })
    }
}

impl std::error::Error for ParameterError {}

impl Offer {
    const ALL: [Self; 4] = [Self::Reads, Self::Sends, Self::Lean, Self::Paper];

    const fn bits(self) -> u64 {
        match self {
            Self::Reads => READS,
            Self::Sends => SENDS,
            Self::Lean => READS | SENDS,
            Self::Paper => READS | SENDS | ECHO,
        }
    }

    const fn says(self, bits: u64) -> bool {
        self.bits() & bits == bits
    }

    /// Appends the parameter (id, length, value) to encoded transport parameters that do not
    /// contain it yet.
    pub fn append(self, parameters: &mut Vec<u8>) {
        append(parameters, SYNC_TIMESTAMP_PARAMETER, self.bits());
    }

    /// Returns the peer's offer from its raw transport parameters; `None` if there is none.
    ///
    /// # Errors
    /// Returns a [`ParameterError`] if the parameter's value is malformed or repeated, or if the
    /// parameters end too early.
    pub fn find(parameters: &[u8]) -> Result<Option<Self>, ParameterError> {
        let Some(bits) = integer(parameters, SYNC_TIMESTAMP_PARAMETER)? else { return Ok(None) };
        Self::ALL.into_iter().find(|o| o.bits() == bits).map(Some).ok_or(ParameterError::Value)
    }
}

/// Packets into which an endpoint writes its timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// No packets.
    #[default]
    Never,
    /// Packets that carry an ACK frame.
    BesideAcks,
    /// Every 1-RTT packet.
    EveryPacket,
}

/// Result of negotiating two offers on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Packets into which this endpoint writes its timestamps.
    pub place: Placement,
    /// Whether this endpoint's timestamps next to ACK frames echo the peer's timestamps.
    pub echoes: bool,
    /// Whether the peer may send timestamps. This endpoint learns its forward delay from those next
    /// to ACK frames.
    pub reads: bool,
    /// Whether the peer echoes this endpoint's timestamps. This endpoint learns its forward delay
    /// from the transit field of the echoes.
    pub reads_echoes: bool,
}

impl Negotiated {
    /// Returns the result for our offer and the peer's offer. Without one of them, there are no
    /// timestamps.
    pub fn between(ours: Option<Offer>, peers: Option<Offer>) -> Self {
        let (Some(ours), Some(peers)) = (ours, peers) else { return Self::default() };
        let sends = ours.says(SENDS) && peers.says(READS);
        let reads = ours.says(READS) && peers.says(SENDS);
        let reads_echoes = sends && reads && ours.says(ECHO);
        let place = match (sends, reads_echoes) {
            (false, _) => Placement::Never,
            (true, false) => Placement::BesideAcks,
            (true, true) => Placement::EveryPacket,
        };
        Self { place, echoes: sends && reads && peers.says(ECHO), reads, reads_echoes }
    }

    /// Returns the length of our frame in bytes in a packet that carries an ACK frame; 0 if we send
    /// none.
    pub const fn frame_len(&self) -> usize {
        match (self.place, self.echoes) {
            (Placement::Never, _) => 0,
            (_, false) => SyncTimestamp::LEN,
            (_, true) => SyncTimestamp::LEN_ECHO,
        }
    }

    /// Returns whether the peer may send this frame. If not, close the connection with
    /// PROTOCOL_VIOLATION.
    pub const fn accepts(&self, frame: &SyncTimestamp) -> bool {
        if frame.echo.is_some() { self.reads_echoes } else { self.reads }
    }
}

/// Returns the ack_delay_exponent from an endpoint's raw transport parameters (RFC 9000 §18.2). It
/// scales the delays in the ACK frames that this endpoint sends, so use the peer's exponent for the
/// peer's frames.
///
/// # Errors
/// Returns a [`ParameterError`] if the value is malformed, repeated or too large (above 20), or if
/// the parameters end too early.
pub fn ack_delay_exponent(parameters: &[u8]) -> Result<u8, ParameterError> {
    match integer(parameters, ACK_DELAY_EXPONENT)? {
        None => Ok(3),
        Some(exponent @ 0..=20) => Ok(exponent as u8),
        Some(_) => Err(ParameterError::Value),
    }
}

/// Returns the max_ack_delay from an endpoint's raw transport parameters: the time for which this
/// endpoint may delay an ACK (RFC 9000 §18.2). The default is 25 ms. An invalid value also gives
/// the default, because the stack closes such a connection.
pub fn max_ack_delay(parameters: &[u8]) -> Duration {
    match integer(parameters, MAX_ACK_DELAY) {
        Ok(Some(millis @ 0..0x4000)) => Duration::from_millis(millis),
        _ => Duration::from_millis(25),
    }
}

/// Appends an integer parameter: its id, length and value (RFC 9000 §18).
pub(crate) fn append(parameters: &mut Vec<u8>, id: u64, value: u64) {
    let len = varint::len(value).unwrap_or(8) as u64;
    for field in [id, len, value] {
        let mut buf = [0; 8];
        let len = varint::encode(field, &mut buf).expect("constants below 2^62");
        parameters.extend_from_slice(&buf[..len]);
    }
}

/// Returns the value of the integer parameter `id` in encoded transport parameters (RFC 9000 §18).
pub(crate) fn integer(parameters: &[u8], id: u64) -> Result<Option<u64>, ParameterError> {
    let Some(raw) = value(parameters, id)? else { return Ok(None) };
    match varint::decode(raw) {
        Some((integer, len)) if len == raw.len() => Ok(Some(integer)),
        _ => Err(ParameterError::Value),
    }
}

/// Returns whether encoded transport parameters contain the parameter `id`.
pub fn has(parameters: &[u8], id: u64) -> bool {
    matches!(value(parameters, id), Ok(Some(_)) | Err(ParameterError::Duplicate))
}

/// Returns the raw value of a parameter.
pub(crate) fn value(mut parameters: &[u8], id: u64) -> Result<Option<&[u8]>, ParameterError> {
    let mut found = None;
    while !parameters.is_empty() {
        let (this, value, rest) = split(parameters).ok_or(ParameterError::Truncated)?;
        parameters = rest;
        if this != id {
            continue;
        }
        if found.is_some() {
            return Err(ParameterError::Duplicate);
        }
        found = Some(value);
    }
    Ok(found)
}

/// Splits off the first parameter: its id, its value and the rest of `parameters`.
fn split(parameters: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (id, at) = varint::decode(parameters)?;
    let rest = &parameters[at..];
    let (len, at) = varint::decode(rest)?;
    let (value, rest) = rest[at..].split_at_checked(usize::try_from(len).ok()?)?;
    Some((id, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// max_idle_timeout = 30 s, ack_delay_exponent = 10, max_ack_delay = 200 ms, an empty unknown
    /// parameter.
    const OTHERS: [u8; 16] = [
        0x01, 0x04, 0x80, 0x00, 0x75, 0x30, 0x0a, 0x01, 0x0a, 0x0b, 0x02, 0x40, 0xc8, 0x40, 0x7b,
        0x00,
    ];

    fn with(value: &[u8]) -> Vec<u8> {
        [&OTHERS, &[0xbd, 0xcf, 0x82, 0xec, value.len() as u8][..], value].concat()
    }

    #[test]
    fn sync_timestamp_offers_encode_to_the_expected_bytes() {
        for (offer, value) in Offer::ALL.into_iter().zip([1, 2, 3, 7]) {
            let mut parameters = OTHERS.to_vec();
            offer.append(&mut parameters);
            assert_eq!(parameters, with(&[value]));
            assert_eq!(Offer::find(&parameters), Ok(Some(offer)));
        }
        assert_eq!(Offer::find(&OTHERS), Ok(None));
        assert_eq!(Offer::find(&[]), Ok(None));
    }

    #[test]
    fn malformed_sync_timestamp_offers_are_errors() {
        for value in [&[0][..], &[4], &[5], &[6], &[8], &[], &[3, 0], &[0x40], &[0xff; 8]] {
            assert_eq!(Offer::find(&with(value)), Err(ParameterError::Value), "{value:x?}");
        }
        let mut twice = with(&[3]);
        Offer::Lean.append(&mut twice);
        assert_eq!(Offer::find(&twice), Err(ParameterError::Duplicate));
        let one = with(&[3]);
        assert_eq!(Offer::find(&one[..one.len() - 1]), Err(ParameterError::Truncated));
        assert_eq!(
            Offer::find(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(ParameterError::Truncated)
        );
    }

    #[test]
    fn ack_delay_parameters_are_read_or_have_defaults() {
        assert_eq!(ack_delay_exponent(&OTHERS), Ok(10));
        assert_eq!(max_ack_delay(&OTHERS), Duration::from_millis(200));
        assert_eq!(ack_delay_exponent(&[]), Ok(3));
        assert_eq!(max_ack_delay(&[]), Duration::from_millis(25));
        assert_eq!(ack_delay_exponent(&[0x0a, 0x01, 20]), Ok(20));
        assert_eq!(ack_delay_exponent(&[0x0a, 0x01, 21]), Err(ParameterError::Value));
        assert_eq!(max_ack_delay(&[0x0b, 0x04, 0x80, 0x00, 0x40, 0x00]), Duration::from_millis(25));
    }

    #[test]
    fn two_lean_endpoints_stamp_only_packets_with_acks() {
        let lean = Negotiated::between(Some(Offer::Lean), Some(Offer::Lean));
        let expected = Negotiated {
            place: Placement::BesideAcks,
            echoes: false,
            reads: true,
            reads_echoes: false,
        };
        assert_eq!(lean, expected);
        assert_eq!(lean.frame_len(), 8);
    }

    #[test]
    fn only_the_side_that_requests_echoes_stamps_every_packet() {
        let asker = Negotiated::between(Some(Offer::Paper), Some(Offer::Lean));
        let expected = Negotiated {
            place: Placement::EveryPacket,
            echoes: false,
            reads: true,
            reads_echoes: true,
        };
        assert_eq!(asker, expected);
        assert_eq!(asker.frame_len(), 8);
        let answerer = Negotiated::between(Some(Offer::Lean), Some(Offer::Paper));
        let expected = Negotiated {
            place: Placement::BesideAcks,
            echoes: true,
            reads: true,
            reads_echoes: false,
        };
        assert_eq!(answerer, expected);
        assert_eq!(answerer.frame_len(), 16);
    }

    #[test]
    fn both_sides_agree_on_frames_and_echoes() {
        let options = || std::iter::once(None).chain(Offer::ALL.map(Some));
        for (a, b) in options().flat_map(|a| options().map(move |b| (a, b))) {
            let (here, there) = (Negotiated::between(a, b), Negotiated::between(b, a));
            assert_eq!(here.place != Placement::Never, there.reads, "{a:?} {b:?}");
            assert_eq!(here.echoes, there.reads_echoes, "{a:?} {b:?}");
            let echo = Some(crate::Echo { sent: 0, transit: 0 });
            assert_eq!(there.accepts(&SyncTimestamp { sent: 0, echo: None }), here.frame_len() > 0);
            assert_eq!(there.accepts(&SyncTimestamp { sent: 0, echo }), here.frame_len() == 16);
        }
    }
}
