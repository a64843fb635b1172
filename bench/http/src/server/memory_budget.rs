//! Memory for responses: limits the data of the whole server that were handed to QUIC but are not
//! acknowledged.
//!
//! A connection may hold the smallest of these three amounts:
//!
//! - [`Limits::send_buffer`];
//! - twice the bytes that its client acknowledges in a second, but at least [`START`], so that a
//!   slow client does not occupy memory that a fast client could use;
//! - the free part of the budget.
//!
//! The last amount is the dynamic threshold of Choudhury and Hahne (1998) for buffers that queues
//! share: if n connections all want more memory, each gets an equal part, and one such part stays
//! free for the next connection. A connection may always hold [`FLOOR`] bytes, so every connection
//! makes progress. While a fourth of the budget is free, each response of a connection may also
//! hold [`FLOOR`] bytes. A response that the client does not read for a while, which is common for
//! media players, then does not block other responses.
//!
//! Slow readers are dropped. See [`ConnectionBudget::check`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::Limits;
use crate::metrics::{ResponseMemoryMetrics, SlowReader};

/// Number of bytes that a connection may always hold.
pub(super) const FLOOR: u64 = 16 << 10;
/// Number of bytes that a response may hold beyond its connection's part while memory is not short,
/// so that the upstream server can finish the response. Most pages and images are smaller.
pub(super) const AHEAD: u64 = 64 << 10;
/// Number of bytes that a connection may hold before its client's rate is known.
const START: u64 = 256 << 10;
/// Interval over which a client's rate is averaged, because acknowledgements come in bursts.
const SAMPLE: Duration = Duration::from_millis(10);
/// Smallest size in bytes of a piece of a body, except the last one. Each piece is an allocation,
/// and noq copies pieces that are smaller than a packet.
const PIECE: u64 = 4 << 10;
/// Assumed memory in bytes of a response in addition to its body: header, trailers and a stream.
pub(super) const OVERHEAD: u64 = 256;
/// Minimum rate in bytes per second at which a client must acknowledge the bytes that it holds.
const LEAST_RATE: f64 = 500.0;
/// Divisor for the bytes that a client must acknowledge under memory pressure: one part in this
/// many of the bytes that it held at the start of the period.
const TURNOVER: u64 = 4;

/// The budget of all connections of a server.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    total: u64,
    /// Limit of one connection.
    each: u64,
    stall: Duration,
    window: Duration,
    metrics: ResponseMemoryMetrics,
}

impl MemoryBudget {
    pub(super) fn new(limits: &Limits, metrics: ResponseMemoryMetrics) -> Arc<Self> {
        metrics.set_limit(limits.unacknowledged);
        let Limits { unacknowledged: total, send_buffer: each, stall_timeout: stall, .. } = *limits;
        Arc::new(Self { total, each, stall, window: limits.pressure_timeout, metrics })
    }

    fn free(&self) -> u64 {
        self.total.saturating_sub(self.metrics.used())
    }

    /// Returns whether more than half of the budget is in use.
    fn is_under_pressure(&self) -> bool {
        self.metrics.used() > self.total / 2
    }

    /// Returns the budget of a new connection.
    pub(super) fn connection(self: &Arc<Self>) -> Arc<ConnectionBudget> {
        let now = Instant::now();
        Arc::new(ConnectionBudget {
            budget: Arc::clone(self),
            held: AtomicU64::new(0),
            fixed: AtomicU64::new(0),
            released: AtomicU64::new(0),
            freed: Notify::new(),
            rate: Mutex::new(Rate { since: now, released: 0, rate: 0.0 }),
            windows: Mutex::new([Window::new(now); 2]),
            evicted: AtomicBool::new(false),
        })
    }
}

/// Part of the budget that a connection holds.
#[derive(Debug)]
pub(super) struct ConnectionBudget {
    budget: Arc<MemoryBudget>,
    /// Number of bytes of bodies.
    held: AtomicU64,
    /// Number of bytes other than bodies.
    fixed: AtomicU64,
    /// Number of bytes that were acknowledged or given up so far.
    released: AtomicU64,
    freed: Notify,
    rate: Mutex<Rate>,
    /// Windows for stalls and for pressure.
    windows: Mutex<[Window; 2]>,
    /// Whether the connection was evicted because other connections need the memory.
    evicted: AtomicBool,
}

/// Rate at which a client acknowledges bytes. It is the best recent rate, which decays by half each
/// second.
#[derive(Debug)]
struct Rate {
    since: Instant,
    released: u64,
    rate: f64,
}

/// Start of a client's observation window, and the client's state at this time.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    released: u64,
    held: u64,
}

impl Window {
    const fn new(since: Instant) -> Self {
        Self { since, released: 0, held: 0 }
    }
}

/// Locks a mutex whose data stay consistent if a thread panics.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

impl ConnectionBudget {
    /// Returns the number of body bytes that the connection may hold.
    fn allowance(&self, now: Instant) -> u64 {
        let mut rate = lock(&self.rate);
        let passed = now.saturating_duration_since(rate.since);
        if passed >= SAMPLE {
            let released = self.released.load(Ordering::Relaxed);
            let (recent, seconds) = (released - rate.released, passed.as_secs_f64());
            let rate_now = (recent as f64 / seconds).max(rate.rate * (-seconds).exp2());
            *rate = Rate { since: now, released, rate: rate_now };
        }
        let by_rate = ((2.0 * rate.rate) as u64).max(START);
        by_rate.min(self.budget.each).min(self.budget.free()).max(FLOOR)
    }

    /// Returns the budget of a response that takes this many bytes in addition to its body:
    /// [`OVERHEAD`], or 0 while these bytes are limited elsewhere.
    pub(super) fn response(self: &Arc<Self>, beside: u64) -> Arc<ResponseBudget> {
        self.fixed.fetch_add(beside, Ordering::Relaxed);
        self.budget.metrics.hold(beside);
        Arc::new(ResponseBudget { connection: Arc::clone(self), beside, held: AtomicU64::new(0) })
    }

    fn release(&self, of: &AtomicU64, bytes: u64) {
        self.released.fetch_add(bytes, Ordering::Relaxed);
        of.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.metrics.release(bytes);
    }

    /// Checks whether the client reads too slowly and must be dropped. Call this regularly while
    /// the connection holds memory.
    ///
    /// In each [`Limits::stall_timeout`], the client must acknowledge the bytes held at the
    /// beginning of that period, or 500 bytes per second if that is less. While more than half of
    /// the budget is in use, another rule applies in each [`Limits::pressure_timeout`]. A client
    /// that held more than [`FLOOR`] bytes at the beginning of that period must acknowledge a
    /// fourth of these bytes. The periods always run, so that a client that acknowledges nothing is
    /// found as soon as memory is short.
    pub(super) fn check(&self, now: Instant) -> Result<(), SlowReader> {
        if self.evicted.load(Ordering::Relaxed) {
            return Err(SlowReader::Pressure);
        }
        let held = self.held.load(Ordering::Relaxed) + self.fixed.load(Ordering::Relaxed);
        let released = self.released.load(Ordering::Relaxed);
        let mut windows = lock(&self.windows);
        let [stall, pressure] = &mut *windows;
        let over = |window: &mut Window, lasts: Duration| {
            let begun = *window;
            let fresh = Window { since: now, released, held };
            // The period does not advance while there is nothing to acknowledge.
            let passed = if begun.held > 0 {
                now.saturating_duration_since(begun.since)
            } else {
                Duration::ZERO
            };
            let over = passed >= lasts;
            if over || begun.held == 0 {
                *window = fresh;
            }
            over.then_some((released - begun.released, begun.held, passed))
        };
        if let Some((taken, held, _)) = over(pressure, self.budget.window)
            && held > FLOOR
            && taken < held / TURNOVER
            && self.budget.is_under_pressure()
        {
            self.evicted.store(true, Ordering::Relaxed);
            self.budget.metrics.aborted(SlowReader::Pressure);
            return Err(SlowReader::Pressure);
        }
        if let Some((taken, held, passed)) = over(stall, self.budget.stall)
            && (taken as f64) < (held as f64).min(LEAST_RATE * passed.as_secs_f64())
        {
            self.budget.metrics.aborted(SlowReader::Stall);
            return Err(SlowReader::Stall);
        }
        Ok(())
    }

    /// Returns whether the connection was evicted. Its responses end at their next check, and the
    /// caller must close the connection.
    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Returns the interval at which [`ConnectionBudget::check`] is called.
    pub(super) fn tick(&self) -> Duration {
        (self.budget.window.min(self.budget.stall) / 4)
            .clamp(Duration::from_millis(20), Duration::from_secs(1))
    }
}

/// Part of its connection's budget that a response holds.
#[derive(Debug)]
pub(super) struct ResponseBudget {
    connection: Arc<ConnectionBudget>,
    /// Number of bytes other than the body.
    beside: u64,
    held: AtomicU64,
}

impl ResponseBudget {
    /// Charges `wanted` bytes. If fewer bytes are free, charges these, provided that they suffice
    /// for a piece. With `all`, charges `wanted` bytes or nothing.
    fn try_charge(
        self: &Arc<Self>,
        now: Instant,
        wanted: u64,
        all: bool,
        ahead: u64,
    ) -> Option<Charge> {
        let connection = &self.connection;
        let allowance = connection.allowance(now);
        let part = |held: u64| {
            let part = wanted.min(allowance.saturating_sub(held));
            if all { part == wanted } else { part >= wanted.min(PIECE) }.then_some(part)
        };
        let charged = connection
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held + part(held)?));
        let bytes = match charged {
            Ok(held) => part(held)?,
            Err(_) => {
                let budget = &connection.budget;
                let own = self.held.load(Ordering::Relaxed);
                let alone = if own == 0 && budget.free() > budget.total / 4 { FLOOR } else { 0 };
                let ahead = if budget.is_under_pressure() { 0 } else { ahead.saturating_sub(own) };
                let bytes = wanted.min(alone.max(ahead));
                if bytes == 0 || (all && bytes < wanted) {
                    return None;
                }
                connection.held.fetch_add(bytes, Ordering::Relaxed);
                bytes
            }
        };
        self.held.fetch_add(bytes, Ordering::Relaxed);
        connection.budget.metrics.hold(bytes);
        Some(Charge { response: Arc::clone(self), bytes })
    }

    /// Charges all of these bytes if there is room now.
    pub(super) fn charge_all(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        self.try_charge(Instant::now(), bytes, true, 0)
    }

    /// Charges at most `wanted` bytes, as soon as there is room.
    pub(super) async fn charge(self: &Arc<Self>, wanted: u64) -> Charge {
        self.charge_within(wanted, 0).await
    }

    /// Charges bytes like [`Self::charge`], for data from a source that a slow client would keep
    /// waiting. The response may hold [`AHEAD`] bytes unless more than half of the budget is in
    /// use.
    pub(super) async fn charge_ahead(self: &Arc<Self>, wanted: u64) -> Charge {
        self.charge_within(wanted, AHEAD).await
    }

    async fn charge_within(self: &Arc<Self>, wanted: u64, ahead: u64) -> Charge {
        loop {
            // Register before checking for room, so that memory freed in between is noticed.
            let freed = self.connection.freed.notified();
            if let Some(charge) = self.try_charge(Instant::now(), wanted, false, ahead) {
                return charge;
            }
            // Only memory freed by this connection wakes this task, so check for other memory from
            // time to time.
            let _ = tokio::time::timeout(self.connection.tick(), freed).await;
        }
    }
}

impl Drop for ResponseBudget {
    fn drop(&mut self) {
        self.connection.release(&self.connection.fixed, self.beside);
    }
}

/// Charge for bytes of a body. Dropping it releases the bytes.
#[derive(Debug)]
pub(super) struct Charge {
    response: Arc<ResponseBudget>,
    bytes: u64,
}

impl Charge {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases bytes that are not needed.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        if back > 0 {
            self.bytes = bytes;
            self.give_back(back);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.response.held.fetch_sub(bytes, Ordering::Relaxed);
        let connection = &self.response.connection;
        connection.release(&connection.held, bytes);
        connection.freed.notify_waiters();
    }

    /// Returns these bytes with the charge attached. The bytes count until a stack drops the last
    /// of them, which happens when they are acknowledged or when their stream or connection is
    /// over.
    pub(super) fn of(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ChargedBytes { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

struct ChargedBytes {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn budget(total: u64) -> Arc<MemoryBudget> {
        MemoryBudget::new(
            &Limits { unacknowledged: total, ..Limits::default() },
            ResponseMemoryMetrics::default(),
        )
    }

    /// Returns the charges of a response that always wants more, in pieces of 64 KiB.
    fn all_it_gets(connection: &Arc<ConnectionBudget>, now: Instant) -> Vec<Charge> {
        let response = connection.response(OVERHEAD);
        std::iter::from_fn(|| response.try_charge(now, 64 << 10, false, 0)).collect()
    }

    fn bytes(charges: &[Charge]) -> u64 {
        charges.iter().map(Charge::bytes).sum()
    }

    #[test]
    fn thousand_stalled_clients_leave_memory_for_another() {
        let (budget, now) = (budget(64 * MB), Instant::now());
        let accounts: Vec<_> = (0..1_000).map(|_| budget.connection()).collect();
        let held: Vec<_> = accounts.iter().map(|connection| all_it_gets(connection, now)).collect();
        let each: Vec<u64> = held.iter().map(|charges| bytes(charges)).collect();
        // The first connections get the initial allowance, and the last connections get the floor.
        assert_eq!((each[0], each[999]), (START, FLOOR));
        assert!(each.iter().all(|bytes| *bytes >= FLOOR));
        let over = 1_000 * (FLOOR + OVERHEAD);
        assert!(budget.metrics.used() <= 64 * MB + over, "{}", budget.metrics.used());
        let newcomer = budget.connection();
        assert_eq!(bytes(&all_it_gets(&newcomer, now)), FLOOR);
        drop(held);
        assert_eq!(budget.metrics.used(), 0);
    }

    #[test]
    fn greedy_clients_get_equal_shares_of_memory() {
        let (budget, mut now) = (budget(16 * MB), Instant::now());
        let accounts: Vec<_> = (0..7).map(|_| budget.connection()).collect();
        let mut held: Vec<Vec<Charge>> = accounts.iter().map(|_| Vec::new()).collect();
        // All clients are fast. In turn, each gives some pieces back and takes all it gets.
        for _ in 0..2_000 {
            now += SAMPLE;
            for (connection, held) in accounts.iter().zip(&mut held) {
                held.drain(..held.len().min(4));
                held.extend(all_it_gets(connection, now));
            }
        }
        // The budget has seven used parts and a free part, of 2 MB each.
        for charges in &held {
            assert!((MB..3 * MB).contains(&bytes(charges)), "{}", bytes(charges));
        }
        assert!(budget.free() > MB);
    }

    #[test]
    fn fast_client_may_hold_more_memory_than_a_slow_client() {
        let (budget, start) = (budget(128 * MB), Instant::now());
        for (rate, wanted) in [(10_000, START), (1_000_000, 2_000_000), (100_000_000, 8 * MB)] {
            let connection = budget.connection();
            connection.released.store(rate / 100, Ordering::Relaxed);
            let allowance = connection.allowance(start + SAMPLE * 2);
            assert!(allowance <= wanted && allowance >= wanted / 3, "{rate}: {allowance}");
        }
    }

    /// Holds `holding` bytes and releases `per_second` bytes in each second, for two minutes.
    /// Returns the second in which the client is dropped, and the reason.
    fn taking(
        budget: &Arc<MemoryBudget>,
        holding: u64,
        per_second: u64,
    ) -> Option<(u64, SlowReader)> {
        let (connection, start) = (budget.connection(), Instant::now());
        let response = connection.response(OVERHEAD);
        let hold = |bytes: u64| {
            connection.held.fetch_add(bytes, Ordering::Relaxed);
            response.held.fetch_add(bytes, Ordering::Relaxed);
            budget.metrics.hold(bytes);
            Charge { response: Arc::clone(&response), bytes }
        };
        let _most = hold(holding - per_second);
        let mut piece = Some(hold(per_second));
        for second in 0..120 {
            if let Err(why) = connection.check(start + Duration::from_secs(second)) {
                return Some((second, why));
            }
            piece.take();
            piece = Some(hold(per_second));
        }
        None
    }

    #[test]
    fn client_that_reads_too_slowly_is_dropped() {
        let budget = budget(128 * MB);
        // A client that reads 65,536 or 1,000 bytes per second is kept. A client that reads
        // 100 bytes per second or nothing is dropped.
        assert_eq!(taking(&budget, 200_000, 65_536), None);
        assert_eq!(taking(&budget, 200_000, 1_000), None);
        assert_eq!(taking(&budget, 200_000, 100), Some((30, SlowReader::Stall)));
        assert_eq!(taking(&budget, 200_000, 0), Some((30, SlowReader::Stall)));
    }

    #[test]
    fn clients_that_hold_much_memory_must_read_under_pressure() {
        let budget = budget(MB);
        budget.metrics.hold(MB * 3 / 4);
        // A client must read a fourth of its bytes in five seconds.
        assert_eq!(taking(&budget, 200_000, 11_000), None);
        assert_eq!(taking(&budget, 200_000, 9_000), Some((5, SlowReader::Pressure)));
        // The floor is always permitted.
        assert_eq!(taking(&budget, FLOOR - OVERHEAD, 1_000), None);
    }

    #[test]
    fn idle_time_between_responses_does_not_count_as_stall() {
        let (budget, start) = (budget(MB), Instant::now());
        budget.metrics.hold(MB);
        let connection = budget.connection();
        let hour = Duration::from_secs(3_600);
        let piece = all_it_gets(&connection, start);
        assert_eq!(connection.check(start), Ok(()));
        drop(piece);
        assert_eq!(connection.check(start + hour), Ok(()));
        let _piece = all_it_gets(&connection, start);
        assert_eq!(connection.check(start + hour * 2), Ok(()));
        assert_eq!(connection.check(start + hour * 2 + Duration::from_secs(4)), Ok(()));
    }

    #[tokio::test]
    async fn small_bodies_are_buffered_without_waiting_for_the_client() {
        let budget = budget(128 * MB);
        let connection = budget.connection();
        let _unread = all_it_gets(&connection, Instant::now());
        // A hundred responses on the same connection, none of which the client reads.
        let mut held = Vec::new();
        for _ in 0..100 {
            let response = connection.response(0);
            let mut left = AHEAD;
            while left > 0 {
                let charge = response.charge_ahead(left).await;
                left -= charge.bytes();
                held.push(charge);
            }
            let mut more = std::pin::pin!(response.charge_ahead(1));
            let now =
                more.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(now.is_pending(), "no more than that");
        }
        // While memory is short, each response waits for its client.
        budget.metrics.hold(128 * MB);
        let response = connection.response(0);
        let mut ahead = std::pin::pin!(response.charge_ahead(AHEAD));
        assert!(
            ahead
                .as_mut()
                .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
                .is_pending()
        );
    }

    #[tokio::test]
    async fn unread_response_does_not_block_other_responses() {
        let budget = budget(128 * MB);
        let connection = budget.connection();
        let _unread = all_it_gets(&connection, Instant::now());
        let response = connection.response(OVERHEAD);
        let piece = response.charge(64 << 10).await;
        assert_eq!(piece.bytes(), FLOOR);
        // The next piece waits until the first one is acknowledged.
        tokio::select! {
            biased;
            _ = response.charge(64 << 10) => panic!("a second piece beside the first"),
            () = std::future::ready(()) => {}
        }
        let body = piece.of(Bytes::from_static(b"body"));
        let (next, ()) = tokio::join!(response.charge(64 << 10), async { drop(body) });
        assert_eq!(next.bytes(), FLOOR);
    }
}
