//! Helpers shared by the integration tests.

#![allow(dead_code, reason = "each test binary uses its part")]

use proptest::test_runner::{Config, FileFailurePersistence};

/// Returns the proptest configuration. The number of cases per property is `FATHOM_FUZZ_CASES`, or
/// 256 by default.
///
/// A failure prints the smallest failing input and saves its seed in a file under `tests/`. Later
/// runs try this seed first. To run a property again:
/// `cargo test -p fathom-frames <name of the property>`.
pub(crate) fn config() -> Config {
    let cases = std::env::var("FATHOM_FUZZ_CASES").ok();
    let cases = cases.map_or(256, |n| n.parse().expect("FATHOM_FUZZ_CASES is a number of cases"));
    let failure_persistence =
        Some(Box::new(FileFailurePersistence::WithSource("regressions")) as Box<_>);
    Config { cases, failure_persistence, ..Config::default() }
}

/// A small generator of repeatable noise (xorshift64*).
pub(crate) struct Noise(u64);

impl Noise {
    /// Creates a generator; `seed` must not be zero.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number that is uniformly distributed between 0 and `limit`.
    pub(crate) fn up_to(&mut self, limit: f64) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64 * limit
    }
}
