//! Explicit congestion notification (RFC 3168).

/// ECN codepoint of an ECN-capable packet (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion Experienced (CE).
    Ce,
}
