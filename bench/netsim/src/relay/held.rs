//! Datagrams that wait in a line until the line's queue chooses them, or until later datagrams have
//! passed.

use super::passage::{Passage, Place, Towards};

/// A datagram that waits in a line.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) passage: Passage,
    pub(super) contents: Vec<u8>,
    /// Whether the datagram is lost. A lost datagram leaves the queue as usual, but does not
    /// arrive.
    pub(super) lost: bool,
}

/// Waiting datagrams by number.
#[derive(Debug, Default)]
pub(super) struct Held {
    datagrams: Vec<Waits>,
    free: Vec<u32>,
}

impl Held {
    /// Returns the number that the next stored datagram will get.
    pub(super) fn next_number(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.datagrams.len() as u32)
    }

    /// Stores a datagram and returns its number.
    pub(super) fn keep(&mut self, passage: Passage, contents: &[u8]) -> u32 {
        if let Some(number) = self.free.pop() {
            let kept = &mut self.datagrams[number as usize];
            (kept.passage, kept.lost) = (passage, false);
            kept.contents.extend_from_slice(contents);
            return number;
        }
        self.datagrams.push(Waits { passage, contents: contents.to_vec(), lost: false });
        self.datagrams.len() as u32 - 1
    }

    /// Removes and returns a datagram. The caller must give its storage back by [`Held::store`].
    pub(super) fn take(&mut self, number: u32) -> Waits {
        self.free.push(number);
        let kept = &mut self.datagrams[number as usize];
        Waits { contents: std::mem::take(&mut kept.contents), ..*kept }
    }

    /// Takes back the storage of a datagram that [`Held::take`] returned.
    pub(super) fn store(&mut self, number: u32, mut contents: Vec<u8>) {
        contents.clear();
        self.datagrams[number as usize].contents = contents;
    }

    /// Marks all datagrams in transit to this client as lost.
    pub(super) fn lose_those_to(&mut self, client: Place) {
        // Free numbers are marked, too. The mark is reset when a number is reused.
        for kept in &mut self.datagrams {
            kept.lost |= kept.passage.towards == Towards::Client && kept.passage.client == client;
        }
    }
}
