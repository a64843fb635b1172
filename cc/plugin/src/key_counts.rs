//! What a connection's packet keys count.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::report::Handshake;

/// Counts of one connection's keys, which change without a lock.
#[derive(Default)]
pub(crate) struct KeyCounts {
    /// Key updates before the newest 1-RTT key that has sealed a packet, and that has opened one.
    sealed_updates: AtomicU64,
    opened_updates: AtomicU64,
    /// Packets that could not be sealed. One is enough to end the connection.
    unsealed: AtomicU64,
}

impl KeyCounts {
    /// A packet was sealed with a key after so many updates.
    pub(crate) fn on_sealed(&self, updates: u64) {
        self.sealed_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet was opened with a key after so many updates.
    pub(crate) fn on_opened(&self, updates: u64) {
        self.opened_updates.fetch_max(updates, Ordering::Relaxed);
    }

    /// A packet could not be sealed, and junk leaves in its place: the connection is to end.
    pub(crate) fn on_seal_failure(&self, what: &str) {
        if self.unsealed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "{what} failed: junk is sent in its place, and the connection is closed"
            );
        }
    }

    /// Packets that could not be sealed.
    #[inline]
    pub(crate) fn unsealed(&self) -> u64 {
        self.unsealed.load(Ordering::Relaxed)
    }

    /// The handshake with the key updates since.
    pub(crate) fn complete(&self, handshake: Handshake) -> Handshake {
        Handshake {
            updates_sent: self.sealed_updates.load(Ordering::Relaxed),
            updates_received: self.opened_updates.load(Ordering::Relaxed),
            ..handshake
        }
    }
}
