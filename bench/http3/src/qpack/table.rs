//! The dynamic table (RFC 9204 §3.2).

use std::collections::VecDeque;

/// Bytes that each entry counts besides its name and value (RFC 9204 §3.2.1).
const OVERHEAD: usize = 32;

/// Lengths of an entry's name and value.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    name: usize,
    value: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.name + self.value + OVERHEAD
    }
}

/// A dynamic table. Its memory is at most about three times its capacity.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Names and values of the entries, oldest first, after those of evicted entries.
    text: Vec<u8>,
    entries: VecDeque<Entry>,
    /// Size of all entries (RFC 9204 §3.2.1).
    size: usize,
    capacity: usize,
    /// Number of entries ever evicted.
    evicted: u64,
}

impl Table {
    /// Returns the number of entries ever inserted.
    pub(super) fn inserted(&self) -> u64 {
        self.evicted + self.entries.len() as u64
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the capacity and evicts entries that no longer fit.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict(capacity);
    }

    /// Returns the entry with this absolute index (RFC 9204 §3.2.4), unless it was evicted or not
    /// yet inserted.
    pub(super) fn get(&self, absolute: u64) -> Option<(&[u8], &[u8])> {
        let index = usize::try_from(absolute.checked_sub(self.evicted)?).ok()?;
        let entry = self.entries.get(index)?;
        Some(self.text[entry.start..][..entry.name + entry.value].split_at(entry.name))
    }

    /// Inserts an entry. Returns `false` if it is larger than the capacity.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) -> bool {
        let size = name.len() + value.len() + OVERHEAD;
        let Some(most) = self.capacity.checked_sub(size) else { return false };
        self.evict(most);
        let free = self.entries.front().map_or(self.text.len(), |entry| entry.start);
        if free > self.capacity {
            self.text.drain(..free);
            for entry in &mut self.entries {
                entry.start -= free;
            }
        }
        let start = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.entries.push_back(Entry { start, name: name.len(), value: value.len() });
        self.size += size;
        true
    }

    /// Evicts the oldest entries until the size is at most `most`.
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
            self.evicted += 1;
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn table_behaves_like_a_list_and_stays_within_its_memory() {
        let mut noise = Noise::new(11);
        let (mut table, mut list) = (Table::default(), Vec::<(Vec<u8>, Vec<u8>)>::new());
        let (mut oldest, mut forgotten) = (0, 0);
        for _ in 0..cases() * 4 {
            if noise.below(20) == 0 {
                table.set_capacity(noise.below(400));
            }
            let (name, value) = (noise.bytes(40), noise.bytes(80));
            if table.insert(&name, &value) {
                list.push((name, value));
            } else {
                assert!(name.len() + value.len() + 32 > table.capacity());
            }
            let size = |from: usize| -> usize {
                list[from..].iter().map(|(name, value)| name.len() + value.len() + 32).sum()
            };
            while size(oldest) > table.capacity() {
                oldest += 1;
            }
            let inserted = (forgotten + list.len()) as u64;
            assert_eq!(table.inserted(), inserted);
            for (index, (name, value)) in list.iter().enumerate().skip(oldest.saturating_sub(3)) {
                let wanted = (index >= oldest).then_some((&name[..], &value[..]));
                assert_eq!(table.get((forgotten + index) as u64), wanted);
            }
            assert_eq!(table.get(inserted), None);
            // Long runs take no more memory than short ones.
            if oldest > 1_000 {
                forgotten += oldest - 3;
                list.drain(..oldest - 3);
                oldest = 3;
            }
            assert!(table.text.len() <= 400 + 2 * 400);
        }
    }
}
