//! The one place where the seeds of a run's parts come from.

use fathom_netsim::hash::mix;

/// The seed of a run. Every part of the run derives a seed of its own from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds(pub(super) u64);

/// What the random numbers of a group of traffic are derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupSeeds {
    /// Seed of the requests, and of which controller and clock each connection gets.
    pub(super) requests: u64,
}

impl Seeds {
    /// Returns the seed of the queue of the link with this number.
    pub(super) fn queue(self, number: u64) -> u64 {
        mix(&[self.0, 1, number])
    }

    /// Returns the seed of what the link with this number does to packets besides queueing them.
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

    /// Returns the seed of the endpoints of the controller in this place, with clocks of this number.
    pub(super) fn endpoints(self, place: usize, clock: usize) -> [u8; 32] {
        let mut bytes = [0; 32];
        let seed = mix(&[self.requests, place as u64, clock as u64]);
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes
    }
}
