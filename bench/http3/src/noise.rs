//! Repeatable random input for tests.

/// Generator of repeatable random numbers (xorshift64*).
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize) % limit
    }

    /// Returns up to `most` random bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    /// Returns up to `most` bytes of text, which Huffman codes well.
    pub(crate) fn text(&mut self, most: usize) -> Vec<u8> {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-_./";
        (0..self.below(most + 1)).map(|_| LETTERS[self.below(LETTERS.len())]).collect()
    }

    /// Cuts `input` into chunks of random length, some of them empty.
    pub(crate) fn cut<'a>(&mut self, mut input: &'a [u8]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        while !input.is_empty() {
            let (chunk, rest) = input.split_at(self.below(9).min(input.len()));
            chunks.push(chunk);
            input = rest;
        }
        chunks
    }
}

/// Returns the number of cases for each test with random input: `FATHOM_FUZZ_CASES`, or 256.
pub(crate) fn cases() -> usize {
    let cases = std::env::var("FATHOM_FUZZ_CASES").ok();
    cases.map_or(256, |cases| cases.parse().expect("FATHOM_FUZZ_CASES is a number of cases"))
}
