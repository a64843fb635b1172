//! Limits of senders over time, as their stacks report them: the time under each limit, window
//! reductions that were undone, the first window, pacing rates and round-trip times.
//!
//! A sender has one limit at a time, as in Linux's `tcp_info` (`busy`, `rwnd_limited`). While
//! packets in flight fill the window, the limit is the congestion window. Otherwise, the limit
//! follows from the stack's report. If the stack has data that it may not send yet, the limit is
//! its pacing. If the stack has nothing to send, the limit is the application, or flow control if
//! the application has more data than the stack accepts.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::{AckEvent, CongestionEvent, ControllerMetrics, OneWayDelay, Rate, Sent, Time};
use fathom_metrics::WindowTrace;
use fathom_plugin::Observer;
use parking_lot::Mutex;

/// Counts of one sender, or sums over several senders.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SenderTimes {
    /// Observed senders.
    pub(super) senders: u64,
    pub(super) handshake: Duration,
    /// Time with a full congestion window: before the first congestion event, and after it.
    pub(super) slow_start: Duration,
    pub(super) congestion_window: Duration,
    pub(super) pacing: Duration,
    pub(super) flow_control: Duration,
    /// Time in which packets were in flight and nothing was left to send.
    pub(super) application: Duration,
    /// Time in which nothing was in flight.
    pub(super) idle: Duration,
    /// Window reductions that were undone in one step.
    pub(super) undone: u64,
    /// Sum of the senders' first windows in bytes.
    pub(super) first_windows: u64,
    /// Bytes declared lost in the first ten round trips.
    pub(super) lost_early: u64,
    /// Number and sum of the round-trip times.
    pub(super) samples: u64,
    pub(super) round_trips: Duration,
    /// Number, sum and last value of the pacing rates in bits per second.
    pub(super) paces: u64,
    pub(super) pace_sum: f64,
    pub(super) last_pace: f64,
}

impl SenderTimes {
    /// Returns the counts between `before` and `self`. The number of senders, their first windows
    /// and early losses, and the last pacing rate are the values in `self`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            handshake: self.handshake.saturating_sub(before.handshake),
            slow_start: self.slow_start.saturating_sub(before.slow_start),
            congestion_window: self.congestion_window.saturating_sub(before.congestion_window),
            pacing: self.pacing.saturating_sub(before.pacing),
            flow_control: self.flow_control.saturating_sub(before.flow_control),
            application: self.application.saturating_sub(before.application),
            idle: self.idle.saturating_sub(before.idle),
            undone: self.undone - before.undone,
            samples: self.samples - before.samples,
            round_trips: self.round_trips.saturating_sub(before.round_trips),
            paces: self.paces - before.paces,
            pace_sum: self.pace_sum - before.pace_sum,
            ..*self
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let Self {
            senders,
            handshake,
            slow_start,
            congestion_window,
            pacing,
            flow_control,
            application,
            idle,
            ..
        } = other;
        self.senders += senders;
        for (sum, time) in [
            (&mut self.handshake, handshake),
            (&mut self.slow_start, slow_start),
            (&mut self.congestion_window, congestion_window),
            (&mut self.pacing, pacing),
            (&mut self.flow_control, flow_control),
            (&mut self.application, application),
            (&mut self.idle, idle),
            (&mut self.round_trips, &other.round_trips),
        ] {
            *sum += *time;
        }
        self.undone += other.undone;
        self.first_windows += other.first_windows;
        self.lost_early += other.lost_early;
        self.samples += other.samples;
        self.paces += other.paces;
        self.pace_sum += other.pace_sum;
        if other.paces > 0 {
            self.last_pace = other.last_pace;
        }
    }
}

/// Number of round trips in which losses count as early.
const FIRST_ROUND_TRIPS: u32 = 10;
/// Largest size of one packet in bytes. Larger reports are several packets that leave at once.
const LARGEST_PACKET: u64 = 1_500;

/// Assumed size of the next packet in bytes if no packet size is reported, as by quiche's own
/// controllers. Every path carries this size (RFC 9000 §14).
const SMALLEST_PACKET: u64 = 1_200;

/// Observer of one connection's sender.
pub(super) struct SenderWatch {
    state: Mutex<State>,
    /// Maximum number of bytes that the receiver accepts; `None` if the observer does not know the
    /// stack's flow control. It knows TCP's.
    receive_window: Option<u64>,
    /// Trace that also receives the window; `None` if there is no trace.
    trace: Option<Arc<WindowTrace>>,
}

/// A window reduction that may be undone: the windows before and after the reduction.
type Cut = (u64, u64);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Time up to which time has been attributed to limits; `None` before the first event.
    since: Option<Time>,
    begun: Option<Time>,
    established: bool,
    in_flight: u64,
    window: u64,
    packet: u64,
    /// Number of bodies that the application is handing over.
    writing: u32,
    /// Whether the stack itself reports that it has more to send ([`Observer::on_send_state`]).
    tells: bool,
    /// Whether there was a loss, a mark or an early reduction.
    congested: bool,
    reductions: u64,
    cut: Option<Cut>,
    smallest_rtt: Option<Duration>,
    // Time since the last acknowledgement. The limit during this time is known only at the next
    // acknowledgement.
    full: Duration,
    receiver: Duration,
    open: Duration,
    open_writing: Duration,
    times: SenderTimes,
}

impl State {
    /// Accounts for the time up to `now`.
    fn advance(&mut self, now: Time, receive_window: Option<u64>) {
        let Some(since) = self.since.replace(now.max(self.since.unwrap_or(now))) else {
            self.begun = Some(now);
            self.times.senders = 1;
            return;
        };
        let elapsed = now.since(since);
        let next = self.in_flight + self.packet.max(SMALLEST_PACKET);
        if !self.established {
            self.times.handshake += elapsed;
        } else if self.window > 0 && next > self.window {
            self.full += elapsed;
        } else if receive_window.is_some_and(|window| next > window) {
            self.receiver += elapsed;
        } else if self.writing > 0 {
            self.open_writing += elapsed;
        } else if self.in_flight > 0 {
            self.open += elapsed;
        } else {
            self.times.idle += elapsed;
        }
    }

    /// Attributes the time since the last acknowledgement to limits. `more` tells whether the stack
    /// had more to send.
    fn settle(&mut self, more: bool) {
        let [full, receiver, open, writing] =
            [&mut self.full, &mut self.receiver, &mut self.open, &mut self.open_writing]
                .map(std::mem::take);
        let times = &mut self.times;
        *if self.congested { &mut times.congestion_window } else { &mut times.slow_start } += full;
        times.flow_control += receiver;
        if more {
            times.pacing += open + writing;
        } else {
            times.application += open;
            times.flow_control += writing;
        }
    }

    fn on_metrics(&mut self, metrics: &ControllerMetrics) {
        let (before, after) = (std::mem::replace(&mut self.window, metrics.window), metrics.window);
        if before == 0 {
            self.times.first_windows += after;
        }
        let cut = metrics.reductions > self.reductions;
        self.reductions = metrics.reductions;
        self.congested |= metrics.reductions > 0 || metrics.early_reductions > 0;
        if cut && after < before {
            self.cut = Some((before, after));
            return;
        }
        let Some((high, low)) = self.cut.filter(|(high, _)| after >= *high) else { return };
        self.cut = None;
        // The reduction was undone in one step rather than grown back: one event raised the window
        // from the lower half of the reduction to the whole previous window. Reductions by one or
        // two packets, for example near the smallest window, do not count, because they also grow
        // back in one event.
        let large = high - low > 2 * self.packet.max(SMALLEST_PACKET);
        self.times.undone += u64::from(large && before <= low + (high - low) / 2);
    }

    fn on_loss(&mut self, now: Time, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let first = self
            .begun
            .zip(self.smallest_rtt)
            .is_none_or(|(begun, rtt)| now.since(begun) <= rtt * FIRST_ROUND_TRIPS);
        if first {
            self.times.lost_early += bytes;
        }
    }
}

impl SenderWatch {
    pub(super) fn new(
        now: Time,
        receive_window: Option<u64>,
        trace: Option<Arc<WindowTrace>>,
    ) -> Self {
        let watch = Self { state: Mutex::default(), receive_window, trace };
        watch.state.lock().advance(now, receive_window);
        watch
    }

    /// Records that the handshake is complete.
    pub(super) fn established(&self, now: Time) {
        let mut state = self.state.lock();
        state.advance(now, self.receive_window);
        state.established = true;
    }

    /// Records that the application begins to hand over a body (`begins`), or has handed it over.
    pub(super) fn writing(&self, now: Time, begins: bool) {
        let mut state = self.state.lock();
        state.advance(now, self.receive_window);
        state.writing = if begins { state.writing + 1 } else { state.writing.saturating_sub(1) };
    }

    /// Returns the counts so far. The time since the last acknowledgement is included only if the
    /// congestion window or the receive window was full, because any other limit is not known
    /// before the next acknowledgement.
    pub(super) fn times(&self) -> SenderTimes {
        let mut state = *self.state.lock();
        (state.open, state.open_writing) = Default::default();
        state.settle(false);
        state.times
    }
}

impl Observer for SenderWatch {
    fn on_metrics(&self, now: Time, metrics: &ControllerMetrics, one_way: Option<OneWayDelay>) {
        self.state.lock().on_metrics(metrics);
        if let Some(trace) = &self.trace {
            trace.on_metrics(now, metrics, one_way);
        }
    }

    fn on_sent(&self, sent: &Sent) {
        let mut state = self.state.lock();
        state.advance(sent.now, self.receive_window);
        state.packet = state.packet.max(sent.bytes.min(LARGEST_PACKET));
        state.in_flight += sent.bytes;
    }

    fn on_ack(&self, acks: &AckEvent<'_>, pacing_rate: Option<Rate>) {
        let mut state = self.state.lock();
        state.advance(acks.now, self.receive_window);
        if !state.tells {
            state.settle(!acks.app_limited);
            state.in_flight = acks.in_flight;
        }
        state.smallest_rtt = Some(acks.rtt.min);
        state.times.samples += 1;
        state.times.round_trips += acks.rtt.latest;
        if let Some(rate) = pacing_rate {
            state.times.paces += 1;
            state.times.last_pace = rate.bits_per_sec() as f64;
            state.times.pace_sum += state.times.last_pace;
        }
    }

    fn on_congestion_event(&self, event: &CongestionEvent) {
        let mut state = self.state.lock();
        state.advance(event.now, self.receive_window);
        // Count the event in any case, because BBR may keep its window.
        state.congested = true;
        if let fathom_cc::Cause::Loss { bytes, .. } = event.cause {
            state.on_loss(event.now, bytes);
        }
    }

    fn on_send_state(&self, now: Time, in_flight: u64, more: bool) {
        let mut state = self.state.lock();
        (state.tells, state.in_flight) = (true, in_flight);
        state.advance(now, self.receive_window);
        state.settle(more);
    }
}

#[cfg(test)]
mod tests {
    use fathom_cc::{Acked, Cause, Phase, Rtt};

    use super::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn metrics(window: u64, reductions: u64) -> ControllerMetrics {
        ControllerMetrics {
            window,
            threshold: None,
            phase: Phase::SlowStart,
            queueing: None,
            hold: None,
            datagram: None,
            media_rate: None,
            reductions,
            early_reductions: 0,
        }
    }

    /// Returns a connection with a window of 12,000 bytes, open at 10 ms.
    fn watch() -> SenderWatch {
        let watch = SenderWatch::new(ms(0), None, None);
        watch.on_metrics(ms(0), &metrics(12_000, 0), None);
        watch.established(ms(10));
        watch
    }

    fn sent(watch: &SenderWatch, at: u64, packets: u64) {
        (0..packets).for_each(|_| watch.on_sent(&Sent { now: ms(at), bytes: 1_200 }));
    }

    fn acked(watch: &SenderWatch, at: u64, in_flight: u64, app_limited: bool) {
        let packets = [Acked { sent: ms(at.saturating_sub(10)), bytes: 1_200 }];
        let rtt = Rtt::first(Duration::from_millis(10));
        let acks = AckEvent {
            now: ms(at),
            packets: &packets,
            in_flight,
            rtt,
            one_way: None,
            ecn: None,
            app_limited,
        };
        watch.on_ack(&acks, None);
    }

    fn millis(time: Duration) -> u128 {
        time.as_millis()
    }

    #[test]
    fn sending_time_is_attributed_to_the_limit_in_effect() {
        let watch = watch();
        watch.writing(ms(10), true);
        sent(&watch, 10, 10);
        // Until 20 ms, the full window limits sending, in slow start. Then flow control limits
        // sending, because the stack has nothing to send although the application has more data.
        acked(&watch, 20, 2_400, false);
        acked(&watch, 27, 1_200, true);
        watch.writing(ms(27), false);
        // For 3 ms there is nothing left to send, for 5 ms pacing limits sending, and then nothing
        // is in flight.
        acked(&watch, 30, 1_200, true);
        acked(&watch, 35, 0, false);
        sent(&watch, 100, 10);
        watch.on_congestion_event(&CongestionEvent {
            now: ms(104),
            sent: ms(100),
            cause: Cause::Mark,
        });
        watch.on_metrics(ms(104), &metrics(12_000, 1), None);
        acked(&watch, 106, 0, false);
        let times = watch.times();
        assert_eq!(millis(times.handshake), 10);
        assert_eq!((millis(times.slow_start), millis(times.congestion_window)), (10, 6));
        assert_eq!((millis(times.flow_control), millis(times.application)), (7, 3));
        assert_eq!((millis(times.pacing), millis(times.idle)), (5, 65));
        assert_eq!((times.first_windows, times.senders, times.samples), (12_000, 1, 5));
    }

    #[test]
    fn full_receive_window_is_attributed_to_flow_control() {
        let watch = SenderWatch::new(ms(0), Some(6_000), None);
        watch.on_metrics(ms(0), &metrics(12_000, 0), None);
        watch.established(ms(0));
        sent(&watch, 0, 5);
        acked(&watch, 8, 4_800, true);
        acked(&watch, 10, 0, true);
        let times = watch.times();
        assert_eq!((millis(times.flow_control), millis(times.application)), (8, 2));
    }

    #[test]
    fn limits_reported_by_the_stack_take_precedence() {
        let watch = watch();
        sent(&watch, 10, 2);
        watch.on_send_state(ms(15), 2_400, true);
        acked(&watch, 18, 0, true);
        watch.on_send_state(ms(20), 1_200, false);
        let times = watch.times();
        assert_eq!((millis(times.pacing), millis(times.application)), (5, 5));
    }

    #[test]
    fn only_immediate_undo_of_a_window_reduction_is_counted() {
        let watch = watch();
        let window =
            |bytes, reductions| watch.on_metrics(ms(20), &metrics(bytes, reductions), None);
        window(8_400, 1);
        window(8_500, 1);
        window(12_000, 1);
        assert_eq!(watch.times().undone, 1);
        window(8_400, 2);
        (9..=12).for_each(|thousand| window(thousand * 1_000, 2));
        // A window that falls without a congestion event, as BBR's does, does not count as a
        // reduction that can be undone.
        window(5_000, 2);
        window(12_000, 2);
        assert_eq!(watch.times().undone, 1);
    }

    #[test]
    fn losses_in_the_first_ten_round_trips_count_as_early() {
        let watch = watch();
        let lost = |at: u64| {
            let cause = Cause::Loss { bytes: 1_200, persistent: false };
            watch.on_congestion_event(&CongestionEvent { now: ms(at), sent: ms(at), cause });
        };
        sent(&watch, 10, 4);
        acked(&watch, 20, 3_600, false);
        lost(100);
        lost(101);
        assert_eq!(watch.times().lost_early, 1_200);
    }
}
