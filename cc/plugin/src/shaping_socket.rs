//! Shaping socket, which applies the controller's datagram size and send delay on stacks that
//! support neither.
//!
//! A shaping socket wraps an endpoint's socket (`ShapingSocket` in the plug-ins). A 1-RTT key
//! reserves more room than the authentication tag needs, seals a shorter packet, and writes a
//! trailer behind it, in the clear:
//!
//! ```text
//! | packet, sealed | junk | bytes to trim: 2 | release in ns: 8 | connection: 8 | token: 8 |
//! ```
//!
//! The socket recognises the token, trims the datagram, delays it until its release time (0 for no
//! delay), and sends it. The trailer thus never leaves the host. Packets on the wire are ordinary,
//! so the peer does not notice the shaping. The token is random per shaping socket, and the
//! connection number is random per connection. The probability that another packet ends in both
//! numbers is negligible (2^-128).
//!
//! # Limits
//! - Only 1-RTT packets are trimmed, and only after the peer has acknowledged one. Path challenges,
//!   path responses and MTU probes are not delayed. They keep their size, because they are filled
//!   with PADDING (RFC 9000 §8.2.1, RFC 9000 §14.4).
//! - Stacks build their loss probes in datagrams of 1200 bytes, and write ACK frames whether or not
//!   they fit. A packet is therefore never trimmed by more than 1200 bytes less the room that its
//!   headers and the largest ACK frame may take. Usually, this allows trimming from 1200 bytes to
//!   250, and from 1452 bytes to about 420. While the peer's packets arrive with many gaps, packets
//!   can be trimmed less.
//! - A packet keeps four bytes of payload, so that header protection finds its sample
//!   (RFC 9001 §5.4.2).
//! - The stack counts a trimmed packet with its untrimmed size. [`crate::ControllerDriver`]
//!   converts windows, acknowledged bytes and bytes in flight between the two sizes. The stack's
//!   own statistics, however, remain too large.
//! - All paths of a connection are trimmed by the same number of bytes, at the request of the path
//!   that needs the smallest packets.
//! - Trimming would change the size of the largest datagram for applications that send DATAGRAM
//!   frames (RFC 9221). Plug-ins for such applications refuse controllers that set the packet
//!   size, and always reserve the trailer's room.
//! - Packets of a path keep their order. A packet that is not ack-eliciting therefore waits for the
//!   delayed packets before it. Only CONNECTION_CLOSE leaves at once.
//! - The stack's RTT and its probe timeout both contain the send delay. A send delay near the idle
//!   timeout ends the connection.
//! - One shaping socket delays at most 64 MiB of datagrams ([`DelayLine::LIMIT`]). Further
//!   datagrams leave at once.
//! - If an endpoint does not send through its shaping socket, each connection loses a few packets
//!   and then stops trimming permanently.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const TOKEN: usize = 8;
const WRITER_ID: usize = 8;
/// Length of a trailer in bytes.
pub(crate) const TRAILER: usize = 2 + 8 + WRITER_ID + TOKEN;
/// Maximum number of trailers of one connection that were written but not yet seen by the socket.
/// With more, the endpoint is assumed not to send through the socket. Stacks pass each packet to
/// the socket before they build the next one, and keep at most one packet that the socket did not
/// accept.
const UNSEEN: u64 = 4;

/// State shared by keys and socket of a shaping socket. Several endpoints may share one registry.
#[derive(Debug)]
pub struct TrailerRegistry {
    token: [u8; TOKEN],
    epoch: Instant,
    writers: Mutex<HashMap<u64, Arc<Counts>>>,
}

/// Counts of one connection's trailers.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    seen: AtomicU64,
    broken: AtomicBool,
}

/// Part of a datagram to send, and the time to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed<'a> {
    /// Bytes to send.
    pub datagram: &'a [u8],
    /// Time to send the bytes; `None` for at once.
    pub release: Option<Instant>,
}

impl TrailerRegistry {
    /// Creates a registry with its own token. `now` is the time of the endpoint's runtime.
    pub fn new(now: Instant) -> Self {
        Self { token: random(), epoch: now, writers: Mutex::default() }
    }

    /// Returns the part of `datagram` to send, and the time to send it. Returns `None` if the whole
    /// datagram is to be sent at once.
    pub fn read<'a>(&self, datagram: &'a [u8]) -> Option<Trimmed<'a>> {
        let (body, trailer) = datagram.split_last_chunk::<TRAILER>()?;
        let (&trim, rest) = trailer.split_first_chunk::<2>()?;
        let (&release, rest) = rest.split_first_chunk::<8>()?;
        let (&writer, token) = rest.split_first_chunk::<WRITER_ID>()?;
        if *token != self.token {
            return None;
        }
        self.writers.lock().get(&u64::from_be_bytes(writer))?.seen.fetch_add(1, Ordering::Relaxed);
        let junk = usize::from(u16::from_be_bytes(trim)).checked_sub(TRAILER)?;
        let len = body.len().checked_sub(junk)?;
        let release = match u64::from_be_bytes(release) {
            0 => None,
            nanos => self.epoch.checked_add(Duration::from_nanos(nanos)),
        };
        Some(Trimmed { datagram: &body[..len], release })
    }
}

/// Returns random bytes. Even if the token were all zeros, connections would still differ in their
/// numbers.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        tracing::error!("the operating system provides no random numbers for a shaping socket");
    }
    bytes
}

/// Writer of one connection's trailers.
#[derive(Debug)]
pub(crate) struct TrailerWriter {
    registry: Arc<TrailerRegistry>,
    id: u64,
    counts: Arc<Counts>,
}

impl TrailerWriter {
    pub(crate) fn new(registry: &Arc<TrailerRegistry>) -> Self {
        let (id, counts) = (u64::from_be_bytes(random()), Arc::new(Counts::default()));
        registry.writers.lock().insert(id, Arc::clone(&counts));
        Self { registry: Arc::clone(registry), id, counts }
    }

    /// Fills `tail` with a trailer. `tail` is the last part of a datagram, which the socket trims
    /// off. Does nothing if `tail` is shorter than [`TRAILER`].
    pub(crate) fn write(&self, tail: &mut [u8], release: Option<Instant>) {
        let trim = u16::try_from(tail.len()).unwrap_or(u16::MAX);
        let Some((junk, trailer)) = tail.split_last_chunk_mut::<TRAILER>() else { return };
        junk.fill(0);
        let nanos = release.map_or(0, |at| {
            let nanos = at.saturating_duration_since(self.registry.epoch).as_nanos();
            u64::try_from(nanos).unwrap_or(u64::MAX).max(1)
        });
        trailer[..2].copy_from_slice(&trim.to_be_bytes());
        trailer[2..10].copy_from_slice(&nanos.to_be_bytes());
        trailer[10..18].copy_from_slice(&self.id.to_be_bytes());
        trailer[18..].copy_from_slice(&self.registry.token);
        self.counts.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the socket trims the trailers off. If the endpoint does not send through the
    /// shaping socket, the result becomes false permanently. The peer drops the packets that were
    /// sent with a trailer, and the stack retransmits their content without one.
    pub(crate) fn is_wired(&self) -> bool {
        let counts = &self.counts;
        if counts.broken.load(Ordering::Relaxed) {
            return false;
        }
        let unseen = counts
            .written
            .load(Ordering::Relaxed)
            .saturating_sub(counts.seen.load(Ordering::Relaxed));
        if unseen > UNSEEN && !counts.broken.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the endpoint does not send through its shaping socket, so the controller can set \
                 neither packet size nor send delay"
            );
        }
        unseen <= UNSEEN
    }
}

impl Drop for TrailerWriter {
    fn drop(&mut self) {
        self.registry.writers.lock().remove(&self.id);
    }
}

/// A delayed datagram.
#[derive(Debug)]
pub struct DelayedDatagram<T> {
    release: Instant,
    order: u64,
    /// The datagram.
    pub bytes: Vec<u8>,
    /// Information on how to send the datagram.
    pub meta: T,
}

impl<T> PartialEq for DelayedDatagram<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.release, self.order) == (other.release, other.order)
    }
}

impl<T> Eq for DelayedDatagram<T> {}

impl<T> PartialOrd for DelayedDatagram<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for DelayedDatagram<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.release, self.order).cmp(&(other.release, other.order))
    }
}

/// Datagrams that are delayed until their release time, in order. `T` describes how to send a
/// datagram.
#[derive(Debug)]
struct DelayLine<T> {
    held: BinaryHeap<Reverse<DelayedDatagram<T>>>,
    bytes: usize,
    order: u64,
    /// Reusable buffers of datagrams that have left.
    spare: Vec<Vec<u8>>,
}

impl<T> Default for DelayLine<T> {
    fn default() -> Self {
        Self { held: BinaryHeap::new(), bytes: 0, order: 0, spare: Vec::new() }
    }
}

impl<T> DelayLine<T> {
    /// Maximum number of bytes of memory held at a time.
    const LIMIT: usize = 64 << 20;
    /// Maximum number of buffers kept for reuse.
    const SPARE: usize = 1_024;

    /// Returns the memory in bytes that one datagram takes. A reused buffer may be larger than its
    /// content.
    fn cost(buffer: &Vec<u8>) -> usize {
        buffer.capacity() + size_of::<DelayedDatagram<T>>()
    }

    /// Delays a datagram until `release`. Returns false if the line is full.
    fn push(&mut self, release: Instant, datagram: &[u8], meta: T) -> bool {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        if self.bytes + Self::cost(&bytes) > Self::LIMIT {
            self.recycle(bytes);
            return false;
        }
        self.bytes += Self::cost(&bytes);
        self.order += 1;
        self.held.push(Reverse(DelayedDatagram { release, order: self.order, bytes, meta }));
        true
    }

    /// Returns the release time of the next datagram.
    fn next(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.release)
    }

    /// Removes the next datagram if its time has come.
    fn pop_due(&mut self, now: Instant) -> Option<DelayedDatagram<T>> {
        if self.next()? > now {
            return None;
        }
        let Reverse(held) = self.held.pop()?;
        self.bytes -= Self::cost(&held.bytes);
        Some(held)
    }

    /// Puts back a datagram that could not be sent yet. It stays first in the line.
    fn put_back(&mut self, held: DelayedDatagram<T>) {
        self.bytes += Self::cost(&held.bytes);
        self.held.push(Reverse(held));
    }

    /// Returns a buffer for reuse.
    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < Self::SPARE {
            self.spare.push(buffer);
        }
    }

    /// Returns whether no datagram is delayed.
    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// Queue between the senders that delay datagrams and the task that sends them. Each clone is a
/// sender. After the last sender is dropped, the remaining datagrams leave at their release times,
/// and then the task ends.
#[derive(Debug)]
pub struct DelayQueue<T>(Arc<Mutex<QueueState<T>>>);

#[derive(Debug)]
struct QueueState<T> {
    line: DelayLine<T>,
    senders: usize,
    waker: Option<Waker>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue and its [`DelayedSends`] end.
    pub fn new() -> (Self, DelayedSends<T>) {
        let state = Arc::new(Mutex::new(QueueState {
            line: DelayLine::default(),
            senders: 1,
            waker: None,
        }));
        (Self(Arc::clone(&state)), DelayedSends(state))
    }

    /// Delays a datagram until `release`. Returns false if there is no room.
    pub fn push(&self, release: Instant, datagram: &[u8], meta: T) -> bool {
        let mut state = self.0.lock();
        let first = state.line.next().is_none_or(|next| release < next);
        let kept = state.line.push(release, datagram, meta);
        let waker = state.waker.take_if(|_| first && kept);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        kept
    }
}

impl<T> Clone for DelayQueue<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for DelayQueue<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Receiving end of a [`DelayQueue`], at which datagrams leave.
#[derive(Debug)]
pub struct DelayedSends<T>(Arc<Mutex<QueueState<T>>>);

impl<T> DelayedSends<T> {
    /// Sends the datagrams that are due. `now` reads the clock, and `wait` polls a timer that is
    /// set to the given time. `send` returns `Pending` while the socket does not accept the
    /// datagram. Returns `Ready` when no datagram is left and no sender remains.
    pub fn poll(
        &self,
        cx: &mut Context<'_>,
        now: impl Fn() -> Instant,
        mut wait: impl FnMut(Instant, &mut Context<'_>) -> Poll<()>,
        mut send: impl FnMut(&DelayedDatagram<T>, &mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        loop {
            let due = {
                let mut state = self.0.lock();
                match state.line.pop_due(now()) {
                    Some(held) => Ok(held),
                    None if state.senders == 0 && state.line.is_empty() => return Poll::Ready(()),
                    None => {
                        state.waker = Some(cx.waker().clone());
                        Err(state.line.next())
                    }
                }
            };
            match due {
                Ok(held) if send(&held, cx).is_pending() => {
                    self.0.lock().line.put_back(held);
                    return Poll::Pending;
                }
                Ok(held) => self.0.lock().line.recycle(held.bytes),
                Err(Some(next)) if wait(next, cx).is_ready() => {}
                Err(_) => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock as _, SystemClock};

    fn registry() -> Arc<TrailerRegistry> {
        Arc::new(TrailerRegistry::new(SystemClock.now()))
    }

    #[test]
    fn only_datagrams_with_a_written_trailer_are_trimmed() {
        let registry = registry();
        let writer = TrailerWriter::new(&registry);
        let release = registry.epoch + Duration::from_micros(1_234);
        for trim in [TRAILER, TRAILER + 1, 950] {
            let mut datagram: Vec<u8> = (0..1_200).map(|n| n as u8).collect();
            writer.write(&mut datagram[1_200 - trim..], Some(release));
            let kept = registry.read(&datagram).expect("its own trailer");
            assert_eq!(kept.datagram.len(), 1_200 - trim);
            assert!(kept.datagram.iter().enumerate().all(|(n, b)| *b == n as u8));
            assert_eq!(kept.release, Some(release));
            assert!(
                super::TrailerRegistry::new(registry.epoch).read(&datagram).is_none(),
                "another registry's token"
            );
            assert!(registry.read(&datagram[..1_199]).is_none());
            writer.write(&mut datagram[1_200 - trim..], None);
            assert_eq!(registry.read(&datagram).map(|trim| trim.release), Some(None));
            // A release time before the registry's creation means as soon as possible, but in
            // order.
            writer.write(
                &mut datagram[1_200 - trim..],
                registry.epoch.checked_sub(Duration::from_millis(1)),
            );
            assert!(registry.read(&datagram).is_some_and(|trim| trim.release.is_some()));
        }
        assert!(registry.read(&[0; 1_200]).is_none());
        assert!(registry.read(&[]).is_none());
    }

    #[test]
    fn trim_longer_than_the_datagram_is_refused() {
        let registry = registry();
        let writer = TrailerWriter::new(&registry);
        let mut tail = vec![0; 100];
        writer.write(&mut tail, None);
        assert!(registry.read(&tail).is_some_and(|trim| trim.datagram.is_empty()));
        assert!(registry.read(&tail[1..]).is_none());
    }

    #[test]
    fn unread_trailers_disable_shaping_permanently() {
        let registry = registry();
        let (wired, lost) = (TrailerWriter::new(&registry), TrailerWriter::new(&registry));
        let mut tail = [0; TRAILER];
        for _ in 0..=UNSEEN {
            assert!(lost.is_wired());
            lost.write(&mut tail, None);
        }
        assert!(!lost.is_wired());
        for _ in 0..UNSEEN {
            registry.read(&tail);
        }
        assert!(!lost.is_wired());
        // Other connections are not affected, even if their last trailers were never read.
        for _ in 0..10_000 {
            TrailerWriter::new(&registry).write(&mut tail, None);
            assert!(wired.is_wired());
            wired.write(&mut tail, None);
            assert!(registry.read(&tail).is_some());
        }
        assert!(wired.is_wired());
        drop((wired, lost));
        assert!(registry.writers.lock().is_empty(), "connections leave nothing behind");
    }

    #[test]
    fn delayed_datagrams_are_ordered_by_time_and_bounded() {
        let start = SystemClock.now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut line = DelayLine::default();
        for (ms, name) in [(20, 'c'), (10, 'a'), (10, 'b')] {
            assert!(line.push(at(ms), &[0; 10], name));
        }
        assert_eq!(line.next(), Some(at(10)));
        assert!(line.pop_due(at(9)).is_none());
        let first = line.pop_due(at(10)).expect("due");
        assert_eq!(first.meta, 'a');
        line.put_back(first);
        let order: Vec<char> =
            std::iter::from_fn(|| line.pop_due(at(30))).map(|held| held.meta).collect();
        assert_eq!(order, ['a', 'b', 'c']);
        assert!(line.is_empty());
        // Small datagrams in large buffers count with the memory they take.
        let mut pushed = 0;
        while line.push(at(1), &[0; 1_500], 'x') {
            pushed += 1;
        }
        assert!((40_000..=64 * 1024 * 1024 / 1_500).contains(&pushed), "{pushed}");
        for _ in 0..1_000 {
            let held = line.pop_due(at(1)).expect("due");
            line.recycle(held.bytes);
        }
        let small = std::iter::from_fn(|| line.push(at(1), &[0; 30], 'y').then_some(())).count();
        assert!((1_000..1_100).contains(&small), "{small}");
    }

    /// Counter of wake-ups.
    #[derive(Default)]
    struct Wakes(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn delayed_datagrams_are_sent_after_the_last_sender_is_dropped() {
        let start = SystemClock.now();
        let at = |ms| start + Duration::from_millis(ms);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let (delaying, delayed_sends) = DelayQueue::new();
        let mut sent = Vec::new();
        let mut poll = |now: u64, blocked: bool| {
            let poll = delayed_sends.poll(
                &mut Context::from_waker(&waker),
                || at(now),
                |until, _| if until <= at(now) { Poll::Ready(()) } else { Poll::Pending },
                |held: &DelayedDatagram<u8>, _| {
                    if blocked {
                        return Poll::Pending;
                    }
                    sent.push((held.meta, held.bytes.clone()));
                    Poll::Ready(())
                },
            );
            (poll, sent.len())
        };
        let other = delaying.clone();
        assert_eq!(poll(0, false), (Poll::Pending, 0));
        assert!(delaying.push(at(20), &[2], 2));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the first one sets the timer");
        assert!(other.push(at(20), &[3], 3));
        assert_eq!(poll(19, false), (Poll::Pending, 0));
        assert!(other.push(at(10), &[1], 1));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2, "an earlier one sets it anew");
        assert_eq!(poll(19, false), (Poll::Pending, 1));
        drop((delaying, other));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 3, "the last sender wakes the task");
        assert_eq!(poll(19, false), (Poll::Pending, 1));
        assert_eq!(poll(20, true), (Poll::Pending, 1), "the socket does not take it");
        assert_eq!(poll(20, false), (Poll::Ready(()), 3));
        assert_eq!(sent, [(1, vec![1]), (2, vec![2]), (3, vec![3])]);
    }
}
