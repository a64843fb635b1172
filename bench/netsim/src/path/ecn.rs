//! Changes of ECN fields by a path.

use fathom_units::Invalid;

use crate::ecn::Ecn;

/// Changes that a path makes to ECN fields. C. Sander et al., "ECN with QUIC: Challenges in the
/// Wild", IMC 2023, found bleaching and remarking on the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnField {
    /// ECN fields stay unchanged.
    #[default]
    Pass,
    /// ECN fields are cleared, so packets are no longer ECN-capable.
    Bleach,
    /// ECT(0) becomes ECT(1).
    Remark,
    /// ECT(0) and ECT(1) become CE.
    Ce,
    /// Marks of the queue disappear behind the link: the exit of a tunnel that ignores the outer
    /// header's mark (RFC 6040 §3.2), or a receiver that does not report marks. Marks with which
    /// packets came in stay.
    Hide,
}

impl std::str::FromStr for EcnField {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        match s {
            "pass" => Ok(Self::Pass),
            "bleach" => Ok(Self::Bleach),
            "remark" => Ok(Self::Remark),
            "ce" => Ok(Self::Ce),
            "hide" => Ok(Self::Hide),
            _ => Err(Invalid::value(s, "is not a valid treatment of ECN marks").hint(
                "write pass, bleach (clear the ECN field), remark (change ECT(0) to ECT(1)), \
                    ce (mark all packets) or hide (undo the marks of the queue)",
            )),
        }
    }
}

impl Ecn {
    /// Returns the two bits of the IP header (RFC 3168 §5).
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Returns the codepoint of these two bits; `None` if the bits say that the sender does not use
    /// ECN.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 0b11 {
            0b01 => Some(Self::Ect1),
            0b10 => Some(Self::Ect0),
            0b11 => Some(Self::Ce),
            _ => None,
        }
    }
}
