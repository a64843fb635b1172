//! The one place where the seeds of a run's parts come from.

use fathom_netsim::hash::mix;

/// How the seeds of a run's parts are derived from the run's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seeding {
    /// Every part has a seed of its own, mixed from the run's.
    #[default]
    Mixed,
    /// Neighbours share a pair, as the results of comparisons have had it from the start. Endpoints are distinguished by a byte: for at most
    /// 256 groups with one controller each.
    Paired,
}

/// What the random numbers of a run are derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    pub(super) seeding: Seeding,
    pub(super) seed: u64,
}

/// What the random numbers of a group of traffic are derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupSeeds {
    of: Seeds,
    number: u64,
    /// Of the requests, and of which controller and clock each connection gets.
    pub(super) requests: u64,
}

impl Seeding {
    /// Of the requests of the group with this number, in a run with this seed.
    pub(crate) fn requests(self, seed: u64, number: u64) -> u64 {
        match self {
            Self::Mixed => mix(&[seed, 3, number]),
            Self::Paired => pair(seed, number),
        }
    }
}

impl Seeds {
    /// Of the queue of the link with this number.
    pub(super) fn queue(self, number: u64) -> u64 {
        match self.seeding {
            Seeding::Mixed => mix(&[self.seed, 1, number]),
            Seeding::Paired => pair(self.seed, number),
        }
    }

    /// Of what the link with this number does to packets beside queueing them.
    pub(super) fn impairments(self, number: u64) -> u64 {
        mix(&[self.seed, 5, number])
    }

    /// Of all background traffic.
    pub(super) fn background(self) -> u64 {
        mix(&[self.seed, 4])
    }

    /// Of the group with this number.
    pub(super) fn group(self, number: u64) -> GroupSeeds {
        GroupSeeds { of: self, number, requests: self.seeding.requests(self.seed, number) }
    }
}

impl GroupSeeds {
    /// Of the delays of the group's hosts.
    pub(super) fn hosts(self) -> u64 {
        mix(&[self.requests, 2])
    }

    /// Of the endpoints of the controller in this place, with clocks of this number.
    pub(super) fn endpoints(self, place: usize, clock: usize) -> [u8; 32] {
        let mut bytes = [0; 32];
        let seed = match self.of.seeding {
            Seeding::Mixed => mix(&[self.requests, place as u64, clock as u64]),
            Seeding::Paired => {
                bytes[8] = self.number as u8;
                self.of.seed
            }
        };
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes
    }
}

const fn pair(seed: u64, number: u64) -> u64 {
    seed.wrapping_mul(2).wrapping_add(number)
}
