//! What a path does to ECN fields.

use crate::sim::Ecn;

/// What becomes of ECN fields. C. Sander et al., "ECN with QUIC: Challenges in the Wild", IMC 2023, found the first two changes on the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnField {
    /// They stay.
    #[default]
    Pass,
    /// They are cleared: packets look not ECN-capable from here on.
    Bleach,
    /// ECT(0) becomes ECT(1).
    Remark,
    /// ECT(0) and ECT(1) become CE.
    Ce,
}

impl std::str::FromStr for EcnField {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "pass" => Ok(Self::Pass),
            "bleach" => Ok(Self::Bleach),
            "remark" => Ok(Self::Remark),
            "ce" => Ok(Self::Ce),
            _ => Err(format!(
                "'{}' is nothing that becomes of ECN; write pass, bleach (clear it), remark (ECT(0) to ECT(1)) or ce (mark all)",
                s.escape_debug()
            )),
        }
    }
}

impl Ecn {
    /// The two bits of the IP header (RFC 3168 §5).
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}
