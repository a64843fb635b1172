//! A packet at the end of a link: before the impairments, when its last bit leaves the link, and
//! after them.

use fathom_units::Time;

use crate::ecn::Ecn;

/// A packet whose last bit leaves the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Time at which the last bit leaves the link.
    pub out: Time,
    /// UDP payload in bytes.
    pub payload: u32,
    /// Connection or client of the packet.
    pub flow: u64,
    /// ECN field of the packet behind the link.
    pub ecn: Option<Ecn>,
    /// The caller's number for the packet, which identifies it when it is returned after a wait.
    pub number: u32,
}

/// A packet behind the link and the impairments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Time at which the packet arrives at the far end of the link, propagation delay included.
    pub at: Time,
    /// Number of the payload bit that an impairment changes; `None` for an intact packet.
    pub flip: Option<u32>,
    /// Whether the packet arrives twice.
    pub duplicated: bool,
}
