//! Clock and random numbers of the connections, which a simulation can set.
//!
//! quiche reads the clock and asks for random bytes in many places. In the derived crate, all of
//! them call this module. Outside of [`run_at`], this module returns the host's values. Inside, it
//! returns the given instant and values of the given generator, so that the same seed gives the
//! same packets. Keys and TLS randoms come from BoringSSL and stay random, but they never change a
//! size.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    static RNG: Cell<Option<ConnectionRng>> = const { Cell::new(None) };
}

/// Returns the time of the host, or of the simulation in which this thread runs.
#[inline]
#[allow(clippy::disallowed_methods)] // The one place where quiche's clock is read.
pub fn now() -> Instant {
    NOW.get().unwrap_or_else(Instant::now)
}

/// Random numbers of an endpoint: packet numbers to skip, GREASE, path challenges. Do not use them
/// for secrets.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRng(u64);

impl ConnectionRng {
    /// Creates a generator. The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 17).
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Runs `work` at this instant with this generator. During this call, quiche uses no other clock
/// and no other random numbers.
///
/// ```
/// use quiche::fathom::simulation::{ConnectionRng, now, run_at};
/// let start = now();
/// let mut rng = ConnectionRng::new(7);
/// assert_eq!(run_at(start, &mut rng, now), start);
/// ```
pub fn run_at<T>(now: Instant, rng: &mut ConnectionRng, work: impl FnOnce() -> T) -> T {
    /// Restores clock and generator, even if `work` panics.
    struct Back<'a>(Option<Instant>, Option<ConnectionRng>, &'a mut ConnectionRng);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            NOW.set(self.0);
            if let Some(rolled) = RNG.replace(self.1) {
                *self.2 = rolled;
            }
        }
    }
    let _back = Back(NOW.replace(Some(now)), RNG.replace(Some(*rng)), rng);
    work()
}

/// Fills `bytes` from the simulation's generator. Returns false outside of a simulation.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    let Some(mut rng) = RNG.get() else { return false };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
    RNG.set(Some(rng));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> [u8; 11] {
        let mut bytes = [0; 11];
        crate::rand::rand_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn simulated_random_bytes_repeat_by_seed() {
        let start = now();
        let (mut a, mut b, mut c) =
            (ConnectionRng::new(1), ConnectionRng::new(1), ConnectionRng::new(2));
        let first = run_at(start, &mut a, bytes);
        assert_eq!(run_at(start, &mut b, bytes), first);
        assert_ne!(run_at(start, &mut c, bytes), first);
        assert_ne!(run_at(start, &mut a, bytes), first, "the generator advances");
        assert_ne!(bytes(), bytes(), "outside, the host's");
    }

    #[test]
    fn clock_is_simulated_only_inside_a_simulation() {
        let later = now() + std::time::Duration::from_secs(86_400);
        let mut rng = ConnectionRng::new(0);
        assert_eq!(run_at(later, &mut rng, now), later);
        assert!(now() < later);
        let panicked = std::panic::catch_unwind(|| {
            run_at(later, &mut ConnectionRng::new(0), || panic!("in there"))
        });
        assert!(panicked.is_err() && now() < later, "set back");
    }
}
