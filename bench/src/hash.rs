//! A hash that is the same in every process, on every machine, under every compiler: FNV-1a over 64-bit words. (The standard
//! library's hashers promise no stability across releases.) For telling runs apart, not for security.

#[derive(Clone, Copy, Debug)]
pub(crate) struct StableHash(u64);

impl Default for StableHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl StableHash {
    pub(crate) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
