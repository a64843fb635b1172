//! Receivers that misreport time so that senders send more than their share. These receivers know
//! the queue of the bottleneck. Real receivers do not know it, so they cannot misreport more
//! effectively.

use fathom_cc::Invalid;

/// Function that returns the time, in nanoseconds, on a misreporting receiver's clock. Its
/// arguments are in nanoseconds: the time since the connection began, and the queueing delay that a
/// packet would find at the bottleneck now.
pub type ClockMisreport = fn(since_start: u64, queueing: u64) -> u64;

const SECOND: u64 = 1_000_000_000;

/// All ways to misreport, with their names in scenarios.
pub const MISREPORTS: [(&str, ClockMisreport); 8] = [
    // The clock pretends that the queue is empty.
    ("empty-queue", |t, q| t.saturating_sub(q)),
    // The clock pretends that the queue shrinks while it grows.
    ("opposite-queue", |t, q| t.saturating_sub(2 * q)),
    // The clock pretends that the queue shrinks most of the time.
    ("falling-queue", |t, q| t.saturating_sub(q) + (SECOND / 2 - t % (SECOND / 2)) / 25),
    // The clocks run slow by 500 us/s and by 10 ms/s.
    ("slow-clock", |t, _| t - t / 2_000),
    ("very-slow-clock", |t, _| t - t / 100),
    // The clock stands still.
    ("stopped-clock", |_, _| SECOND),
    // The clock is set back by 30 ms every 2 s.
    ("clock-set-back", |t, _| t.saturating_sub(t / (2 * SECOND) * 30_000_000)),
    // The clock shows random times.
    ("random-clock", |t, _| t.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
];

/// Returns the misreport with this name.
///
/// # Errors
/// Returns an error that lists all known names if this name is unknown.
pub(crate) fn misreport(name: &str) -> Result<ClockMisreport, Invalid> {
    let found = MISREPORTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, misreport)| *misreport).ok_or_else(|| {
        let known = MISREPORTS.map(|(known, _)| known).join(", ");
        Invalid::value(name, "is not a misreport").hint(format!("write one of {known}"))
    })
}
