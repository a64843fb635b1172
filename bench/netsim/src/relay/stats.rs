//! Counts of a relay.

use super::line::LineStats;
use super::timing::{LineTiming, RelayLimit, RelayLoad, limits};

/// Counts of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Counts of the direction from server to client.
    pub down: LineStats,
    /// Counts of the direction from client to server.
    pub up: LineStats,
    /// Datagrams dropped because of events in either direction: blackouts, a smaller MTU,
    /// rebindings.
    pub cut_off: u64,
    /// Datagrams dropped because too many bytes were in transit, because the kernel accepted no
    /// more datagrams, or because it had no socket left.
    pub overrun: u64,
    /// Clients that kept their port at a rebinding because the kernel had no socket left.
    pub not_rebound: u64,
    /// Number of clients seen. A rebinding does not add a client.
    pub clients: u64,
    /// Times of the datagrams that left from server to client.
    pub down_timing: LineTiming,
    /// Times of the datagrams that left from client to server.
    pub up_timing: LineTiming,
    /// Resources of the machine that the relay used.
    pub load: RelayLoad,
}

impl RelayStats {
    /// Returns the reasons why the relay or the machine, rather than the path, determined rates and
    /// delays. The result is empty if there are no such reasons.
    pub fn limits(&self) -> Vec<RelayLimit> {
        limits([self.down_timing, self.up_timing], &self.load, self.overrun)
    }
}
