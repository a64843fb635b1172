//! Hash functions whose values are stable across processes and machines.

/// A stable hash: it has the same value in every process, on every machine and with every compiler.
/// The function is FNV-1a over 64-bit words.
///
/// The standard library's hashers are not guaranteed to be stable across releases. Use this hash to
/// tell runs apart, not for security.
#[derive(Clone, Copy, Debug)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl StableHash {
    /// Adds a word.
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }

    /// Adds bytes, a word for each.
    pub fn add_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        bytes.as_ref().iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    /// Returns the hash of the words added so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Mixes words into one word that looks random (the finaliser of SplitMix64; Steele, Lea, Flood:
/// OOPSLA 2014).
pub fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let x = hash.wrapping_add(*word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}
