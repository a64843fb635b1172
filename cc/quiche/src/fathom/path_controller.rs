//! Adapter from quiche's `Congestion` to one of our controllers. There is one adapter per network
//! path.
//!
//! quiche calls the functions of [`OPS`] like those of Reno and CUBIC. `LegacyRecovery` calls
//! [`PathController`] directly for events that these functions do not report: losses of bare ACKs,
//! probe timeouts, persistent congestion, and the number of spurious losses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_cc::{Cause, Rate};
use fathom_plugin::{AckBatch, ControllerDriver};

use crate::recovery::congestion::recovery::Acked;
use crate::recovery::congestion::{Congestion, CongestionControlOps};
use crate::recovery::rtt::RttStats;
use crate::recovery::Sent;

/// kPersistentCongestionThreshold (RFC 9002 §7.6.1).
const PERSISTENT: u32 = 3;
/// Maximum time that a sender may catch up after it woke up late. The timers of runtimes are this
/// coarse (tokio's: 1 ms).
const CATCH_UP: Duration = Duration::from_millis(2);
/// Minimum size of a datagram with stream data. Header, timestamp frame, tag and the header of a
/// STREAM frame take up to 70 bytes, so smaller datagrams might never carry data.
const MIN_DATAGRAM: usize = 128;
/// Number of consecutive probe timeouts after which a path that has acknowledged no packet is
/// assumed to drop marked packets (RFC 9000 §13.4.2).
const DROPS_MARKED: u32 = 3;
/// Maximum time that a packet waits, whatever the pace is. The idle timeout handles longer waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub(crate) static OPS: CongestionControlOps = CongestionControlOps {
    on_init: |_| {},
    on_packet_sent,
    on_packets_acked,
    congestion_event,
    checkpoint: |_| {},
    rollback,
    #[cfg(feature = "qlog")]
    state_str: |congestion, _| {
        congestion.fathom.as_ref().map_or("", |s| s.driver.metrics().phase.name())
    },
    debug_fmt: |congestion, f| match &congestion.fathom {
        Some(path_controller) => write!(f, "{:?} ", path_controller.driver.metrics()),
        None => Ok(()),
    },
};

/// A path's controller, and the state needed to feed it.
pub(crate) struct PathController {
    driver: ControllerDriver,
    /// Largest 1-RTT packet number acknowledged so far; `None` unless the current ACK frame is for
    /// 1-RTT packets.
    largest: Option<u64>,
    /// Number of packets that the current frame newly acknowledged, and the time at which the
    /// newest of them left.
    acked: u64,
    newest: Option<Instant>,
    /// Time of the first RTT sample. Persistent congestion cannot have begun earlier.
    sampled: Option<Instant>,
    /// Whether the losses that quiche is about to report establish persistent congestion.
    persistent: bool,
    /// Time at which the controller learned of the first loss of the last episode. The other values
    /// count the packets in flight that were lost in this episode, and those of them that arrived
    /// after all.
    congestion_event: Option<Instant>,
    lost: usize,
    spurious: usize,
    /// Due time and size in bytes of the last packet. The next packet is due when these bytes have
    /// been sent at the pace.
    due: Option<(Instant, u64)>,
    /// Whether the last attempt to send was refused because the packet was too early.
    kept_back: AtomicBool,
    /// Whether the path seems to drop all marked packets.
    drops_marked: bool,
}

impl PathController {
    pub(crate) fn new(driver: ControllerDriver) -> Self {
        Self {
            driver,
            largest: None,
            acked: 0,
            newest: None,
            sampled: None,
            persistent: false,
            congestion_event: None,
            lost: 0,
            spurious: 0,
            due: None,
            kept_back: AtomicBool::new(false),
            drops_marked: false,
        }
    }

    pub(crate) fn window(&self) -> usize {
        usize::try_from(self.driver.send_params().window).unwrap_or(usize::MAX)
    }

    /// Returns the size in bytes of datagrams with stream data; `None` unless the controller sets
    /// it.
    pub(crate) fn datagram(&self) -> Option<usize> {
        self.driver.send_params().datagram.map(|bytes| usize::from(bytes).max(MIN_DATAGRAM))
    }

    /// Returns whether packets leave at a pace rather than in bursts of a window.
    pub(crate) fn is_paced(&self) -> bool {
        self.driver.pacing_rate().is_some()
    }

    /// Returns whether it is too early for the next packet. Called before each attempt to send.
    pub(crate) fn keeps_back(&self, now: Instant) -> bool {
        let early = self.release().is_some_and(|at| at > now);
        self.kept_back.store(early, Ordering::Relaxed);
        early
    }

    /// Returns the time at which the packet that was kept back may leave.
    pub(crate) fn kept_back(&self) -> Option<Instant> {
        self.release().filter(|_| self.kept_back.load(Ordering::Relaxed))
    }

    /// Returns the time at which the next packet may leave; `None` for at once.
    fn release(&self) -> Option<Instant> {
        // Use the current pace, so that a short period of slow pacing does not delay later packets.
        Some(after(self.due?, self.driver.pacing_rate()?))
    }

    /// Returns whether the path seems to drop marked packets, because it has acknowledged no packet
    /// since it came into use.
    pub(crate) fn drops_marked(&self) -> bool {
        self.drops_marked
    }

    /// Returns the time at which the controller learned of the first loss of the last episode.
    pub(crate) fn episode(&self) -> Option<Instant> {
        self.congestion_event
    }

    /// Begins an ACK frame. `largest` is the largest 1-RTT packet number acknowledged so far, if
    /// the frame is for 1-RTT packets.
    pub(crate) fn begin_acks(&mut self, largest: Option<u64>) {
        self.largest = largest;
        (self.acked, self.newest) = (0, None);
    }

    /// Returns the number of packets that the ACK frame newly acknowledged, and the time at which
    /// the newest of them left.
    pub(crate) fn acked(&self) -> (u64, Option<Instant>) {
        (self.acked, self.newest)
    }

    /// Handles marks that came with the ACK frame.
    pub(crate) fn on_mark(&mut self, now: Instant, sent: Instant) {
        self.driver.on_congestion_event(now, sent, Cause::Mark);
    }

    /// Handles the `count`th consecutive probe timeout.
    pub(crate) fn on_probe_timeout(&mut self, now: Instant, count: u32) {
        self.drops_marked |= count >= DROPS_MARKED && self.sampled.is_none();
        self.driver.on_probe_timeout(now, count);
    }

    /// Sets the path's largest datagram, in bytes.
    pub(crate) fn on_datagram_size(&mut self, bytes: usize) {
        self.driver.on_datagram_size(u16::try_from(bytes).unwrap_or(u16::MAX));
    }

    /// Records that `count` packets in flight were just found to be lost. The newest of them left
    /// at `newest_sent`. `sent` has the packets of their packet number space, and `max_ack_delay`
    /// is the peer's.
    pub(crate) fn on_lost(
        &mut self,
        count: usize,
        newest_sent: Instant,
        now: Instant,
        sent: &VecDeque<Sent>,
        rtt: &RttStats,
        max_ack_delay: Duration,
    ) {
        if self.congestion_event.is_none_or(|at| newest_sent > at) {
            // A new episode begins, so the losses of the previous one were real.
            (self.lost, self.spurious) = (0, 0);
            self.congestion_event = Some(now);
        }
        self.lost += count;
        let period = (rtt.rtt() + (rtt.rttvar() * 4).max(Duration::from_millis(1)) + max_ack_delay)
            * PERSISTENT;
        self.persistent = self.sampled.is_some_and(|since| is_persistent(sent, since, now, period));
    }

    /// Records that `count` packets in flight that were lost since [`PathController::episode`] were
    /// acknowledged after all. If all packets lost since then were acknowledged, the episode was
    /// spurious.
    pub(crate) fn on_spurious(&mut self, count: usize) {
        self.spurious += count;
    }
}

/// Returns whether packets lost at `now`, together with those around them, span more than `period`
/// (RFC 9002 §7.6.2). The span is between two ack-eliciting packets that were sent after the
/// first RTT sample, without an acknowledged packet between them. The loss of an MTU probe does not
/// indicate congestion (RFC 9000 §14.4).
fn is_persistent(sent: &VecDeque<Sent>, since: Instant, now: Instant, period: Duration) -> bool {
    let mut first: Option<Instant> = None;
    for packet in sent {
        if packet.time_acked.is_some() {
            first = None;
        } else if packet.time_lost.is_some()
            && packet.ack_eliciting
            && !packet.is_pmtud_probe
            && packet.time_sent >= since
        {
            let start = *first.get_or_insert(packet.time_sent);
            if packet.time_lost == Some(now)
                && packet.time_sent.saturating_duration_since(start) > period
            {
                return true;
            }
        }
    }
    false
}

/// Returns the time at which the bytes that were due have been sent at `rate`.
fn after((due, bytes): (Instant, u64), rate: Rate) -> Instant {
    due + rate.time_for(bytes).min(LONGEST_WAIT)
}

/// Applies the controller's send parameters.
pub(crate) fn apply_send_params(congestion: &mut Congestion) {
    if let Some(path_controller) = &congestion.fathom {
        congestion.congestion_window = path_controller.window();
        if let Some(burst) = path_controller.driver.send_params().burst {
            congestion.set_send_quantum(usize::try_from(burst).unwrap_or(usize::MAX));
        }
    }
}

fn on_packet_sent(congestion: &mut Congestion, bytes: usize, _in_flight: usize, now: Instant) {
    let Some(path_controller) = &mut congestion.fathom else { return };
    path_controller.driver.on_sent(now, bytes as u64);
    path_controller.due = path_controller.driver.pacing_rate().map(|rate| {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let latest = now + LONGEST_WAIT;
        // A packet that did not wait for its time (a probe, the handshake) delays the following
        // packets.
        (
            path_controller.due.map_or(now, |last| after(last, rate).clamp(earliest, latest)),
            bytes as u64,
        )
    });
    apply_send_params(congestion);
}

fn on_packets_acked(
    congestion: &mut Congestion,
    in_flight: usize,
    packets: &mut Vec<Acked>,
    now: Instant,
    rtt: &RttStats,
) {
    let app_limited = congestion.app_limited;
    let Some(path_controller) = &mut congestion.fathom else { return packets.clear() };
    let mut bytes = 0;
    for packet in packets.drain(..) {
        path_controller.acked += 1;
        path_controller.newest = path_controller.newest.max(Some(packet.time_sent));
        // Bare ACKs are not congestion controlled, so they have size 0 here.
        if packet.size > 0 {
            bytes += packet.size;
            path_controller.driver.on_ack(packet.time_sent, packet.size as u64, rtt.rtt());
        }
    }
    if bytes > 0 {
        path_controller.sampled.get_or_insert(now);
    }
    // quiche subtracts the acknowledged bytes only afterwards.
    let in_flight = in_flight.saturating_sub(bytes) as u64;
    path_controller.driver.on_end_acks(AckBatch {
        now,
        in_flight,
        app_limited,
        largest: path_controller.largest,
    });
    apply_send_params(congestion);
}

fn congestion_event(
    congestion: &mut Congestion,
    _in_flight: usize,
    bytes: usize,
    largest_lost: &Sent,
    now: Instant,
) {
    let Some(path_controller) = &mut congestion.fathom else { return };
    let persistent = std::mem::take(&mut path_controller.persistent);
    let cause = Cause::Loss { bytes: bytes as u64, persistent };
    path_controller.driver.on_congestion_event(now, largest_lost.time_sent, cause);
    apply_send_params(congestion);
}

fn rollback(congestion: &mut Congestion) -> bool {
    let Some(path_controller) = &mut congestion.fathom else { return false };
    let whole = path_controller.lost > 0 && path_controller.spurious >= path_controller.lost;
    if whole {
        (path_controller.lost, path_controller.spurious) = (0, 0);
        path_controller.driver.on_spurious_loss();
        apply_send_params(congestion);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_utils::helper_packet_sent;

    const MS: Duration = Duration::from_millis(1);

    fn packet(number: u64, sent: Instant) -> Sent {
        Sent { in_flight: true, ..helper_packet_sent(number, sent, 1_200) }
    }

    /// Returns whether packets sent at these milliseconds establish persistent congestion over a
    /// period of 300 ms. All are lost at 10 s, except those acknowledged.
    fn spans_period(
        sent: &[(u32, bool)],
        change_algorithm: impl Fn(&mut VecDeque<Sent>),
        since: u32,
    ) -> bool {
        let start = crate::fathom::simulation::now();
        let now = start + 10_000 * MS;
        let mut packets: VecDeque<_> = sent
            .iter()
            .zip(0..)
            .map(|(&(at, acked), number)| {
                let (time_acked, time_lost) =
                    if acked { (Some(now), None) } else { (None, Some(now)) };
                Sent { time_acked, time_lost, ..packet(number, start + at * MS) }
            })
            .collect();
        change_algorithm(&mut packets);
        is_persistent(&packets, start + since * MS, now, 300 * MS)
    }

    #[test]
    fn persistent_congestion_needs_two_losses_far_apart() {
        let plain = |_: &mut VecDeque<Sent>| {};
        assert!(spans_period(&[(10, false), (100, false), (311, false)], plain, 0));
        assert!(
            !spans_period(&[(10, false), (310, false)], plain, 0),
            "RFC 9002 §7.6.2: it must exceed the period"
        );
        assert!(
            !spans_period(&[(10, false), (100, true), (311, false)], plain, 0),
            "one between was acknowledged"
        );
        assert!(
            !spans_period(&[(10, false), (311, false)], plain, 11),
            "sent before the first RTT sample"
        );
        assert!(!spans_period(&[(10, false), (311, false)], |p| p[1].ack_eliciting = false, 0));
        assert!(
            !spans_period(&[(10, false), (311, false)], |p| p[1].is_pmtud_probe = true, 0),
            "too large a probe"
        );
        assert!(
            !spans_period(&[(10, false), (311, false)], |p| p[1].time_lost = None, 0),
            "still in flight"
        );
    }

    #[test]
    fn next_packet_leaves_at_the_current_pacing_rate() {
        let start = crate::fathom::simulation::now();
        let rate = Rate::from_bytes_per_sec;
        assert_eq!(after((start, 1_200), rate(1_200_000)), start + MS);
        assert_eq!(after((start, 1_200), rate(12_000)), start + 100 * MS);
        assert_eq!(after((start, 1_200), rate(0)), start + LONGEST_WAIT);
    }
}
