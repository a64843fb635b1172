//! Derives the seeds of a run's parts from the seed of the run.

use fathom_netsim::hash::mix;

/// Seed of a run, from which every part of the run derives its own seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds(pub(super) u64);

/// Seeds of a group of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupSeeds {
    /// Seed of the requests, and of each connection's controller, clock and session ticket.
    pub(super) requests: u64,
}

impl Seeds {
    /// Returns the seed of the queue of the link with this number.
    pub(super) fn queue(self, number: u64) -> u64 {
        mix(&[self.0, 1, number])
    }

    /// Returns the seed of the capacity or of the impairments of a link. `number` is twice the
    /// number of the link for its capacity, and one more for its impairments.
    pub(super) fn impairments(self, number: u64) -> u64 {
        mix(&[self.0, 5, number])
    }

    /// Returns the seed of all background traffic.
    pub(super) fn background(self) -> u64 {
        mix(&[self.0, 4])
    }

    /// Returns the seeds of the group with this number.
    pub(super) fn group(self, number: u64) -> GroupSeeds {
        GroupSeeds { requests: mix(&[self.0, 3, number]) }
    }
}

impl GroupSeeds {
    /// Returns the seed of the delays of the group's hosts.
    pub(super) fn hosts(self) -> u64 {
        mix(&[self.requests, 2])
    }

    /// Returns the seed of the endpoints for this position of the controller in the mix and this
    /// clock number.
    pub(super) fn endpoints(self, place: usize, clock: usize) -> [u8; 32] {
        let mut bytes = [0; 32];
        let seed = mix(&[self.requests, place as u64, clock as u64]);
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes
    }
}
