//! The host as a simulation sees it. The clock stands still and random bytes come from a seed, for
//! code that takes neither as an argument.
//!
//! Stock quiche asks the C library for the time and BoringSSL for random bytes. This module defines
//! both functions. The linker prefers a program's own definition to that of the C library, and to a
//! member of a static library that nothing else references. Outside of [`within`], they behave like
//! the real functions, on this and every other thread.

// Two C functions are defined here, which is `unsafe` because the linker cannot check their types.
// The types are those of libc and BoringSSL, and the bodies write only to memory that the caller
// provided for this.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

use libc::{c_int, c_void, clockid_t, size_t, timespec};

thread_local! {
    static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static CLOCK_READS: Cell<u64> = const { Cell::new(0) };
    static RANDOM_READS: Cell<u64> = const { Cell::new(0) };
}

/// Random numbers of an endpoint.
pub(crate) struct ConnectionRng(pub u64);

/// Runs `work` at this time after an arbitrary start, with this generator.
pub(crate) fn within<T>(now: Duration, rng: &mut ConnectionRng, work: impl FnOnce() -> T) -> T {
    /// Restores the host, even if `work` panics.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            NOW.set(None);
            SEED.set(None);
        }
    }
    let _back = Back;
    NOW.set(Some(now));
    SEED.set(Some(rng.0));
    let done = work();
    rng.0 = SEED.get().expect("set above");
    done
}

/// Returns the simulation's time; `None` outside of [`within`].
pub(crate) fn now() -> Option<Duration> {
    NOW.get()
}

/// How often this thread read the clock and asked for random bytes.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) clock: u64,
    pub(crate) random: u64,
}

pub(crate) fn reads() -> Reads {
    Reads { clock: CLOCK_READS.get(), random: RANDOM_READS.get() }
}

/// Time since boot. Any time after the first day is valid, because quiche subtracts a day from the
/// time.
const BOOTED: Duration = Duration::from_secs(30 * 86_400);

#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    CLOCK_READS.set(CLOCK_READS.get() + 1);
    let Some(now) = NOW.get() else {
        // SAFETY: the real function, with the caller's arguments.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
    };
    let now = BOOTED + now;
    // SAFETY: the caller of clock_gettime provides memory for one timespec.
    unsafe {
        time.write(timespec { tv_sec: now.as_secs() as _, tv_nsec: now.subsec_nanos() as _ })
    };
    0
}

#[unsafe(no_mangle)]
extern "C" fn RAND_bytes(to: *mut u8, len: size_t) -> c_int {
    RANDOM_READS.set(RANDOM_READS.get() + 1);
    let mut done = 0;
    while done < len {
        let Some(seed) = SEED.get() else {
            // SAFETY: the caller of RAND_bytes provides `len` bytes, so `to + done` has room for
            // the rest.
            let got = unsafe { libc::getrandom(to.add(done).cast::<c_void>(), len - done, 0) };
            done += usize::try_from(got).unwrap_or(0);
            continue;
        };
        let (seed, word) = split_mix(seed);
        SEED.set(Some(seed));
        let n = (len - done).min(8);
        // SAFETY: at most `len` bytes are written to the memory that the caller provides.
        unsafe { to.add(done).copy_from_nonoverlapping(word.to_le_bytes().as_ptr(), n) };
        done += n;
    }
    1
}

/// Returns the next state and number of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 17).
pub(crate) fn split_mix(seed: u64) -> (u64, u64) {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (seed, z ^ (z >> 31))
}
