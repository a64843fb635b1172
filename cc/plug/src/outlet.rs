//! The outlet: what a stack without a datagram size or a hold of the controller's choice is given instead.
//!
//! An endpoint's socket is wrapped (the plugs' `Outlet`). A 1-RTT key asks the stack for more room than the tag needs, seals a
//! shorter packet, and writes a trailer behind it, in the clear:
//!
//! ```text
//! | packet, sealed | junk | bytes to cut: 2 | hold in ns: 8 | token: 16 |
//! ```
//!
//! The socket recognises the token, cuts, keeps the datagram back for the hold, and sends it. So the trailer never leaves the host,
//! packets on the wire are ordinary, and the peer knows nothing. The token is random per outlet: a packet that happens to end in it
//! does not occur (2^-128).
//!
//! # Limits
//! - Only 1-RTT packets are cut, and only after the peer has acknowledged one. Path challenges and responses, and MTU probes, keep
//!   their size: they are filled with PADDING (RFC 9000 §8.2.1, RFC 9000 §14.4).
//! - A packet keeps four bytes of payload, so that header protection finds its sample (RFC 9001 §5.4.2).
//! - The stack counts a cut packet at the size it had before. [`crate::Flow`] turns windows, acknowledged bytes and bytes in flight
//!   into real ones and back.
//! - Applications that send DATAGRAM frames (RFC 9221) would see their largest size change: such plugs refuse controllers that steer
//!   the packet size.
//! - Only packets that ask for an acknowledgement are held back; they keep their order.
//! - At most [`DelayLine::LIMIT`] bytes are held in one outlet; beyond that datagrams leave at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

const TOKEN: usize = 16;
/// Bytes of the trailer.
pub(crate) const TRAILER: usize = 2 + 8 + TOKEN;
/// Trailers written and not yet seen by the socket, before the outlet counts as not wired: more than the stacks ever hold unsent.
const UNSEEN: u64 = 4_096;

/// What keys and socket of an outlet share.
#[derive(Debug)]
pub struct Gate {
    token: [u8; TOKEN],
    written: AtomicU64,
    seen: AtomicU64,
    broken: AtomicBool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate with a token of its own.
    pub fn new() -> Self {
        let mut token = [0; TOKEN];
        // Without randomness the gate stays shut: nothing is ever cut.
        let broken = SystemRandom::new().fill(&mut token).is_err();
        Self { token, written: AtomicU64::new(0), seen: AtomicU64::new(0), broken: AtomicBool::new(broken) }
    }

    /// What to send of `datagram`, and after which delay. `None`: all of it, at once.
    pub fn read<'a>(&self, datagram: &'a [u8]) -> Option<(&'a [u8], Duration)> {
        let (body, trailer) = datagram.split_last_chunk::<TRAILER>()?;
        let (&cut, rest) = trailer.split_first_chunk::<2>()?;
        let (&hold, token) = rest.split_first_chunk::<8>()?;
        if *token != self.token {
            return None;
        }
        self.seen.fetch_add(1, Ordering::Relaxed);
        let junk = usize::from(u16::from_be_bytes(cut)).checked_sub(TRAILER)?;
        let len = body.len().checked_sub(junk)?;
        Some((&body[..len], Duration::from_nanos(u64::from_be_bytes(hold))))
    }

    /// Fills the last bytes of a datagram: `tail` is what the socket cuts, at least [`TRAILER`] bytes.
    pub(crate) fn write(&self, tail: &mut [u8], hold: Duration) {
        let cut = u16::try_from(tail.len()).unwrap_or(u16::MAX);
        let Some((junk, trailer)) = tail.split_last_chunk_mut::<TRAILER>() else { return };
        junk.fill(0);
        trailer[..2].copy_from_slice(&cut.to_be_bytes());
        trailer[2..10].copy_from_slice(&u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
        trailer[10..].copy_from_slice(&self.token);
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Trailers are cut off as they should be. When the endpoint does not send through this outlet it says no, for good: the peer
    /// drops what was sent with a trailer, and the stack sends it again without.
    pub(crate) fn works(&self) -> bool {
        if self.broken.load(Ordering::Relaxed) {
            return false;
        }
        let unseen = self.written.load(Ordering::Relaxed).saturating_sub(self.seen.load(Ordering::Relaxed));
        if unseen > UNSEEN && !self.broken.swap(true, Ordering::Relaxed) {
            tracing::error!("the endpoint does not send through its outlet: packet size and hold are off");
        }
        unseen <= UNSEEN
    }
}

/// A datagram kept back.
#[derive(Debug)]
pub struct Held<T> {
    /// When it may leave.
    pub release: Instant,
    order: u64,
    /// The datagram.
    pub bytes: Vec<u8>,
    /// How to send it.
    pub how: T,
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.release, self.order) == (other.release, other.order)
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.release, self.order).cmp(&(other.release, other.order))
    }
}

/// Datagrams kept back until their time, in order; `T` is how to send one.
#[derive(Debug)]
pub struct DelayLine<T> {
    held: BinaryHeap<Reverse<Held<T>>>,
    bytes: usize,
    order: u64,
    /// Buffers of datagrams that have left.
    spare: Vec<Vec<u8>>,
}

impl<T> Default for DelayLine<T> {
    fn default() -> Self {
        Self { held: BinaryHeap::new(), bytes: 0, order: 0, spare: Vec::new() }
    }
}

impl<T> DelayLine<T> {
    /// Most bytes held at a time.
    pub const LIMIT: usize = 64 << 20;
    /// Most buffers kept for later.
    const SPARE: usize = 1_024;

    /// Keeps a datagram back until `release`; false when the line is full.
    pub fn push(&mut self, release: Instant, datagram: &[u8], how: T) -> bool {
        if self.bytes + datagram.len() > Self::LIMIT {
            return false;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        self.bytes += bytes.len();
        self.order += 1;
        self.held.push(Reverse(Held { release, order: self.order, bytes, how }));
        true
    }

    /// When the next one may leave.
    pub fn next(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.release)
    }

    /// Takes the next one if its time has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<Held<T>> {
        if self.next()? > now {
            return None;
        }
        let Reverse(held) = self.held.pop()?;
        self.bytes -= held.bytes.len();
        Some(held)
    }

    /// Puts one back that could not be sent yet; it stays first.
    pub fn put_back(&mut self, held: Held<T>) {
        self.bytes += held.bytes.len();
        self.held.push(Reverse(held));
    }

    /// Gives a buffer back for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < Self::SPARE {
            self.spare.push(buffer);
        }
    }

    /// Datagrams held now.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock as _, SystemClock};

    #[test]
    fn what_is_written_is_cut_and_nothing_else() {
        let gate = Gate::new();
        for cut in [TRAILER, TRAILER + 1, 950] {
            let mut datagram: Vec<u8> = (0..1_200).map(|n| n as u8).collect();
            gate.write(&mut datagram[1_200 - cut..], Duration::from_micros(1_234));
            let (kept, hold) = gate.read(&datagram).expect("its own trailer");
            assert_eq!(kept.len(), 1_200 - cut);
            assert!(kept.iter().enumerate().all(|(n, b)| *b == n as u8));
            assert_eq!(hold, Duration::from_micros(1_234));
            assert!(Gate::new().read(&datagram).is_none(), "another gate's token");
            assert!(gate.read(&datagram[..1_199]).is_none());
        }
        assert!(gate.read(&[0; 1_200]).is_none());
        assert!(gate.read(&[]).is_none());
    }

    #[test]
    fn a_cut_longer_than_the_datagram_is_refused() {
        let gate = Gate::new();
        let mut tail = vec![0; 100];
        gate.write(&mut tail, Duration::ZERO);
        assert!(gate.read(&tail).is_some_and(|(kept, _)| kept.is_empty()));
        assert!(gate.read(&tail[1..]).is_none());
    }

    #[test]
    fn a_gate_nobody_reads_shuts_for_good() {
        let gate = Gate::new();
        let mut tail = [0; TRAILER];
        for _ in 0..=UNSEEN {
            assert!(gate.works());
            gate.write(&mut tail, Duration::ZERO);
        }
        assert!(!gate.works());
        for _ in 0..UNSEEN {
            gate.read(&tail);
        }
        assert!(!gate.works());
    }

    #[test]
    fn datagrams_leave_in_order_of_time_then_of_arrival_and_the_line_is_bounded() {
        let start = SystemClock.now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut line = DelayLine::default();
        for (ms, name) in [(20, 'c'), (10, 'a'), (10, 'b')] {
            assert!(line.push(at(ms), &[0; 10], name));
        }
        assert_eq!(line.next(), Some(at(10)));
        assert!(line.pop_due(at(9)).is_none());
        let first = line.pop_due(at(10)).expect("due");
        assert_eq!(first.how, 'a');
        line.put_back(first);
        let order: Vec<char> = std::iter::from_fn(|| line.pop_due(at(30))).map(|held| held.how).collect();
        assert_eq!(order, ['a', 'b', 'c']);
        assert!(line.is_empty());
        let big = vec![0; DelayLine::<char>::LIMIT];
        assert!(line.push(at(1), &big, 'x'));
        assert!(!line.push(at(1), &[0], 'y'));
        line.pop_due(at(1));
        assert!(line.push(at(1), &[0], 'y'));
    }
}
