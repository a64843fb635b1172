//! Receivers that misreport time so that they are sent more than is due. They know what no receiver knows, the queue of the bottleneck, so
//! they are as good at it as anyone can be.

/// What a lying receiver's clock shows, in nanoseconds: of the time since its connection began, and of the delay that a packet which enters the
/// bottleneck now would find there.
pub type ClockMisreport = fn(since_start: u64, queueing: u64) -> u64;

const SECOND: u64 = 1_000_000_000;

/// Every way to misreport, by the name that scenarios have for it.
pub const MISREPORTS: [(&str, ClockMisreport); 8] = [
    // The queue is empty.
    ("empty-queue", |t, q| t.saturating_sub(q)),
    // The queue falls when it rises.
    ("opposite-queue", |t, q| t.saturating_sub(2 * q)),
    // The queue falls most of the time.
    ("falling-queue", |t, q| t.saturating_sub(q) + (SECOND / 2 - t % (SECOND / 2)) / 25),
    // The clock runs slow by 500 us/s, and by 10 ms/s.
    ("slow-clock", |t, _| t - t / 2_000),
    ("very-slow-clock", |t, _| t - t / 100),
    // It stands still.
    ("stopped-clock", |_, _| SECOND),
    // It is set back by 30 ms every 2 s.
    ("clock-set-back", |t, _| t.saturating_sub(t / (2 * SECOND) * 30_000_000)),
    // Any time at all.
    ("random-clock", |t, _| t.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
];

/// The misreport of this name.
///
/// # Errors
/// One line that lists them.
pub(crate) fn misreport(name: &str) -> Result<ClockMisreport, String> {
    let found = MISREPORTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, misreport)| *misreport).ok_or_else(|| {
        let known: Vec<&str> = MISREPORTS.iter().map(|(known, _)| *known).collect();
        format!(
            "'{}' is no way to misreport; write one of {}",
            name.escape_debug(),
            known.join(", ")
        )
    })
}
