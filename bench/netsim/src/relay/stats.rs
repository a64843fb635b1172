//! Counts of a relay.

use super::line::LineStats;
use super::timing::{LineTiming, RelayLimit, RelayLoad, limits};

/// Counts of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Server to client.
    pub down: LineStats,
    /// Client to server.
    pub up: LineStats,
    /// Datagrams dropped by events in either direction: blackouts, a smaller MTU, rebindings.
    pub cut_off: u64,
    /// Datagrams dropped because too many bytes were in transit, or because the kernel accepted no
    /// more or had no socket left.
    pub overrun: u64,
    /// Clients that kept their port at a rebinding because the kernel had no socket left.
    pub not_rebound: u64,
    /// Clients seen; a rebinding does not add to them.
    pub clients: u64,
    /// Times of the datagrams that left, server to client.
    pub down_timing: LineTiming,
    /// Times of the datagrams that left, client to server.
    pub up_timing: LineTiming,
    /// Resources of the machine that the relay needed.
    pub load: RelayLoad,
}

impl RelayStats {
    /// Returns the reasons why the relay or the machine, instead of the path, determined rates and
    /// delays. Empty if there are none.
    pub fn limits(&self) -> Vec<RelayLimit> {
        limits([self.down_timing, self.up_timing], &self.load, self.overrun)
    }
}
