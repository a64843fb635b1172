//! Bundles that have not left their senders yet (`bundles.rs`).

use std::time::Duration;

use fathom_units::Time;

/// All open bundles.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    /// Largest number of datagrams in a bundle. Below 2, there are no bundles.
    pub(super) most: usize,
    /// Longest wait of a bundle after its first datagram.
    pub(super) within: Duration,
    /// Open bundles by flow and sender.
    pub(super) open: Vec<Bundle>,
}

/// Datagrams of one sender that leave together.
#[derive(Clone, Debug, Default)]
pub(super) struct Bundle {
    pub(super) packets: Vec<u32>,
    /// Size of the bundle's datagrams. `opened` is the time of the first datagram.
    pub(super) size: usize,
    pub(super) opened: Time,
}
