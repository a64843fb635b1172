//! The host as a simulation sees it: a clock that stands still and random bytes from a seed, for code that cannot be given.
//!
//! Stock quiche asks the C library for the time and BoringSSL for random bytes. Both functions are defined here; the linker prefers a
//! program's own definition to the C library's, and to a member of a static library that nothing else asks for. Outside of [`within`]
//! they do what the real ones do, on this and every other thread.

// Two C functions are defined, which is `unsafe` because the linker cannot check that their types are right. They are libc's and BoringSSL's
// own; the bodies write only to what the caller handed over for that.
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

/// An endpoint's randomness.
pub(crate) struct ConnectionRng(pub u64);

/// Runs `work` at that time after an arbitrary start, with these dice.
pub(crate) fn within<T>(now: Duration, rng: &mut ConnectionRng, work: impl FnOnce() -> T) -> T {
    /// Sets the host back, also when `work` panics.
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

/// The simulation's time, inside of [`within`].
pub(crate) fn now() -> Option<Duration> {
    NOW.get()
}

/// How often this thread read them.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) clock: u64,
    pub(crate) random: u64,
}

pub(crate) fn reads() -> Reads {
    Reads { clock: CLOCK_READS.get(), random: RANDOM_READS.get() }
}

/// Any day will do, as long as it is not the first: quiche subtracts a day from the time.
const BOOTED: Duration = Duration::from_secs(30 * 86_400);

#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    CLOCK_READS.set(CLOCK_READS.get() + 1);
    let Some(now) = NOW.get() else {
        // SAFETY: the real function, with the caller's arguments.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
    };
    let now = BOOTED + now;
    // SAFETY: the caller of clock_gettime gives a place to write one timespec to.
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
            // SAFETY: `to + done` has room for the rest, as the caller of RAND_bytes says.
            let got = unsafe { libc::getrandom(to.add(done).cast::<c_void>(), len - done, 0) };
            done += usize::try_from(got).unwrap_or(0);
            continue;
        };
        let (seed, word) = split_mix(seed);
        SEED.set(Some(seed));
        let n = (len - done).min(8);
        // SAFETY: at most `len` bytes are written to where the caller wants them.
        unsafe { to.add(done).copy_from_nonoverlapping(word.to_le_bytes().as_ptr(), n) };
        done += n;
    }
    1
}

/// The next state and number of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 17).
pub(crate) fn split_mix(seed: u64) -> (u64, u64) {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (seed, z ^ (z >> 31))
}
