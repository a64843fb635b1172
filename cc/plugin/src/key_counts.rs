//! Counters of a connection's packet keys.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::report::Handshake;

/// Counters of one connection's keys, updated without a lock.
#[derive(Default)]
pub(crate) struct KeyCounts {
    /// Numbers of key updates before the newest 1-RTT key that has sealed a packet, and before the
    /// newest 1-RTT key that has opened a packet.
    sealed_updates: AtomicU64,
    opened_updates: AtomicU64,
    /// Number of packets that could not be sealed. One such packet is enough to end the connection.
    unsealed: AtomicU64,
}

impl KeyCounts {
    /// Records that a packet was sealed with the key after `updates` key updates.
    pub(crate) fn on_sealed(&self, updates: u64) {
        self.sealed_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// Records that a packet was opened with the key after `updates` key updates.
    pub(crate) fn on_opened(&self, updates: u64) {
        self.opened_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// Records that a packet could not be sealed, so that junk leaves in its place. The connection
    /// must end.
    pub(crate) fn on_seal_failure(&self, what: &str) {
        if self.unsealed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "{what} failed, so an invalid packet is sent instead and the connection is closed"
            );
        }
    }

    /// Returns the number of packets that could not be sealed.
    #[inline]
    pub(crate) fn unsealed(&self) -> u64 {
        self.unsealed.load(Ordering::Relaxed)
    }

    /// Returns the handshake data with the key updates so far.
    pub(crate) fn complete(&self, handshake: Handshake) -> Handshake {
        Handshake {
            updates_sent: self.sealed_updates.load(Ordering::Relaxed),
            updates_received: self.opened_updates.load(Ordering::Relaxed),
            ..handshake
        }
    }
}
