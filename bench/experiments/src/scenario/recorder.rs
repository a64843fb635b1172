//! A wrapper around a group's controllers. It counts the events that the stack reports, and can set
//! a fixed packet size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathom_cc::{
    AckEvent, Capabilities, CongestionEvent, Controller, ControllerConfig, ControllerMetrics,
    Missing, PathChange, Phase, SendParams, Sent, Start, Time,
};
use parking_lot::Mutex;

/// Maximum number of samples of a tcpRTT series. A fast path gives about 50,000 samples in 500 s.
const SAMPLES: usize = 1_000_000;

/// Counts of the events that a group's controllers received.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Probe timeouts that the stack reported.
    reported: AtomicU64,
    /// Probe timeouts inferred from silence.
    inferred: AtomicU64,
    /// Number of completed backoffs, and their total duration in nanoseconds.
    backoffs: AtomicU64,
    backed_off: AtomicU64,
    /// The tcpRTT series of the first connection, if the scenario requests it: the time and the
    /// round-trip time of each sample.
    rtt: Option<Mutex<Vec<(Time, Duration)>>>,
    connections: AtomicU64,
}

/// Timeouts and backoffs of a group's senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timeouts {
    /// Probe timeouts that the stack reported.
    pub(super) reported: u64,
    /// Probe timeouts inferred from silence, whether or not the stack reports any.
    pub(super) inferred: u64,
    /// Number of completed backoffs. A backoff lasts from the last packet before a probe timeout to
    /// the first acknowledgement after it, with any number of probe timeouts in between.
    pub(super) backoffs: u64,
    /// Total duration of the completed backoffs.
    pub(super) backed_off: Duration,
}

impl Record {
    pub(super) fn new(rtt: bool) -> Self {
        Self { rtt: rtt.then(Mutex::default), ..Self::default() }
    }

    /// Returns the counts of timeouts and backoffs so far.
    pub(super) fn timeouts(&self) -> Timeouts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Timeouts {
            reported: of(&self.reported),
            inferred: of(&self.inferred),
            backoffs: of(&self.backoffs),
            backed_off: Duration::from_nanos(of(&self.backed_off)),
        }
    }

    fn backed_off(&self, time: Duration) {
        self.backoffs.fetch_add(1, Ordering::Relaxed);
        self.backed_off
            .fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn rtt(&self) -> Option<Vec<(Time, Duration)>> {
        self.rtt.as_ref().map(|samples| samples.lock().clone())
    }
}

/// A configuration whose controllers are recorded. `datagram` overrides the datagram size.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) inner: Arc<dyn ControllerConfig>,
    pub(super) record: Arc<Record>,
    /// Datagram size in bytes that the controller requests, if it is below the minimum that stacks
    /// choose by themselves (1200 bytes).
    pub(super) datagram: Option<u16>,
}

impl Recorded {
    fn more(&self, signals: Capabilities) -> Capabilities {
        Capabilities { datagram: signals.datagram || self.datagram.is_some(), ..signals }
    }
}

impl ControllerConfig for Recorded {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn spec(&self) -> String {
        self.inner.spec()
    }

    fn required(&self) -> Capabilities {
        self.more(self.inner.required())
    }

    fn optional(&self) -> Capabilities {
        self.more(self.inner.optional())
    }

    fn hint(&self) -> &'static str {
        self.inner.hint()
    }

    fn check(&self, provided: Capabilities) -> Result<(), Missing> {
        self.inner.check(provided)
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        let datagram = self.datagram.unwrap_or(start.datagram).min(start.datagram);
        let inner = self.inner.start(&Start { datagram, ..*start })?;
        let first = self.record.connections.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(Box::new(Recorder {
            inner,
            record: Arc::clone(&self.record),
            datagram: self.datagram,
            samples: first && self.record.rtt.is_some(),
            timer: ProbeTimer::default(),
        }))
    }
}

#[derive(Debug)]
struct Recorder {
    inner: Box<dyn Controller>,
    record: Arc<Record>,
    datagram: Option<u16>,
    /// Whether the round-trip times of this controller's connection are kept.
    samples: bool,
    timer: ProbeTimer,
}

impl Controller for Recorder {
    fn on_sent(&mut self, sent: &Sent) {
        if self.timer.on_sent(sent.now, sent.bytes) {
            self.record.inferred.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        if let Some(time) = self.timer.on_ack(acks) {
            self.record.backed_off(time);
        }
        // DCA §3.1: take samples only from acknowledgements of more than one packet, and not
        // during recovery.
        if self.samples
            && acks.packets.len() > 1
            && self.inner.metrics().phase != Phase::Recovery
            && let Some(samples) = &self.record.rtt
        {
            let mut samples = samples.lock();
            if samples.len() < SAMPLES {
                samples.push((acks.now, acks.rtt.latest));
            }
        }
        self.inner.on_ack(acks);
    }

    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent) {
        self.timer.last_event = Some(congestion_event.now);
        self.inner.on_congestion_event(congestion_event);
    }

    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.inner.on_spurious_congestion_event(now);
    }

    fn on_probe_timeout(&mut self, now: Time, count: u32) {
        self.timer.reported(now);
        self.record.reported.fetch_add(1, Ordering::Relaxed);
        self.inner.on_probe_timeout(now, count);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        self.inner.on_path(now, change);
    }

    fn send_params(&self) -> SendParams {
        let mut params = self.inner.send_params();
        if self.datagram.is_some() {
            params.datagram = self.datagram;
        }
        params
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.boxed(),
            record: Arc::clone(&self.record),
            datagram: self.datagram,
            samples: self.samples,
            timer: self.timer.clone(),
        })
    }
}

/// Infers probe timeouts (RFC 9002 §6.2) on stacks that do not report them.
///
/// While packets are in flight, a sender that neither sends nor receives anything for a probe
/// timeout must send a probe. A packet counts as a probe if it leaves after such a silence, unless
/// an acknowledgement arrives or a loss is detected at the same time.
#[derive(Clone, Debug, Default)]
struct ProbeTimer {
    last_sent: Option<Time>,
    /// Time of the last reported acknowledgement or loss.
    last_event: Option<Time>,
    in_flight: u64,
    /// Smoothed round-trip time, and the part of this time for which a shaping socket delays
    /// packets (SDC).
    smoothed: Duration,
    hold: Duration,
    /// Mean deviation of the round-trip times (RFC 9002 §5.3).
    deviation: Duration,
    /// Number of probe timeouts since the last acknowledgement.
    count: u32,
    /// Time of the last probe. The second packet of a probe does not count as another timeout.
    probed: Option<Time>,
    /// Start of the current backoff, if any: the time of the last packet before the probe timeout.
    backing_off: Option<Time>,
}

/// Maximum acknowledgement delay of a peer (RFC 9000 §18.2, the default).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Probe timeout before the first round-trip time is measured: 333 ms plus four times half of 333
/// ms (RFC 9002 §6.2.2).
const INITIAL_TIMEOUT: Duration = Duration::from_millis(999);
/// Fraction of the computed timeout at which a silence counts as a timeout. The stack's timeout can
/// be shorter than the computed one, because the stack's deviation excludes the acknowledgement
/// delay.
const TOLERANCE: f64 = 0.8;

impl ProbeTimer {
    /// Records a packet that leaves. Returns whether the packet is a probe.
    fn on_sent(&mut self, now: Time, bytes: u64) -> bool {
        let silent_since = self.last_sent.max(self.probed);
        let probe = self.in_flight > 0
            && self.last_event != Some(now)
            && silent_since
                .is_some_and(|last| now.since(last) >= self.timeout().mul_f64(TOLERANCE));
        if probe {
            self.count += 1;
            self.probed = Some(now);
            self.backs_off(now);
        }
        self.last_sent = Some(now);
        self.in_flight = self.in_flight.saturating_add(bytes);
        probe
    }

    /// Records a probe timeout that the stack reports.
    fn reported(&mut self, now: Time) {
        self.backs_off(now);
    }

    fn backs_off(&mut self, now: Time) {
        let since = self.last_sent.unwrap_or(now);
        self.backing_off.get_or_insert(since);
    }

    /// Records an acknowledgement. Returns the duration of the backoff if the acknowledgement ends
    /// one.
    fn on_ack(&mut self, acks: &AckEvent<'_>) -> Option<Duration> {
        // Restore the stack's own sample. For the stack, a packet that a shaping socket delays is
        // already in flight, so the stack's timer includes this delay.
        let latest = acks.newest_sent().map_or(acks.rtt.latest, |sent| {
            // The stack also subtracts the acknowledgement delay.
            acks.now.since(sent).saturating_sub(acks.rtt.ack_delay)
        });
        let hold = latest.saturating_sub(acks.rtt.latest);
        let off = self.smoothed.abs_diff(latest);
        if self.smoothed.is_zero() {
            (self.deviation, self.hold) = (latest / 2, hold);
        } else {
            (self.deviation, self.hold) =
                ((self.deviation * 3 + off) / 4, (self.hold * 7 + hold) / 8);
        }
        self.smoothed = acks.rtt.smoothed + self.hold;
        self.in_flight = acks.in_flight;
        self.last_event = Some(acks.now);
        self.count = 0;
        self.backing_off.take().map(|since| acks.now.since(since))
    }

    fn timeout(&self) -> Duration {
        let once = if self.smoothed.is_zero() {
            INITIAL_TIMEOUT
        } else {
            self.smoothed + (self.deviation * 4).max(Duration::from_millis(1)) + MAX_ACK_DELAY
        };
        once * 2u32.saturating_pow(self.count.min(16))
    }
}

#[cfg(test)]
mod tests {
    use fathom_cc::{Acked, Rtt};

    use super::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn acked(timer: &mut ProbeTimer, now: u64, in_flight: u64) -> Option<Duration> {
        acked_after(timer, now, in_flight, 0)
    }

    /// Acknowledges a packet that was delayed by `hold` ms and then took 50 ms.
    fn acked_after(
        timer: &mut ProbeTimer,
        now: u64,
        in_flight: u64,
        hold: u64,
    ) -> Option<Duration> {
        let rtt = Duration::from_millis(50);
        let packets = [Acked { sent: ms(now - 50 - hold), bytes: 1_200 }];
        timer.on_ack(&AckEvent {
            now: ms(now),
            packets: &packets,
            in_flight,
            rtt: Rtt::first(rtt),
            one_way: None,
            ecn: None,
            app_limited: false,
        })
    }

    #[test]
    fn packet_after_silence_with_data_in_flight_counts_as_probe() {
        let mut timer = ProbeTimer::default();
        assert!(!timer.on_sent(ms(0), 1_200));
        acked(&mut timer, 50, 0);
        // Smoothed RTT 50 ms, deviation 25 ms: 50 + 100 + 25 ms.
        assert!(!timer.on_sent(ms(50), 1_200));
        assert!(timer.on_sent(ms(50 + 175), 1_200), "the silence was a probe timeout long");
        assert!(!timer.on_sent(ms(50 + 175), 1_200), "its second packet");
        assert!(!timer.on_sent(ms(50 + 175 + 200), 1_200), "the second timeout is twice as long");
        assert!(timer.on_sent(ms(50 + 175 + 200 + 350), 1_200));
    }

    #[test]
    fn packet_after_idle_time_or_ack_does_not_count_as_probe() {
        let mut timer = ProbeTimer::default();
        timer.on_sent(ms(0), 1_200);
        acked(&mut timer, 50, 0);
        assert!(!timer.on_sent(ms(5_000), 1_200), "nothing was in flight");
        acked(&mut timer, 5_400, 1_200);
        assert!(!timer.on_sent(ms(5_400), 1_200), "an acknowledgement came");
    }

    #[test]
    fn send_delay_lengthens_the_inferred_probe_timeout() {
        let mut timer = ProbeTimer::default();
        timer.on_sent(ms(0), 1_200);
        acked_after(&mut timer, 550, 1_200, 500);
        timer.on_sent(ms(550), 1_200);
        // Smoothed RTT 550 ms, deviation 275 ms: 550 + 1100 + 25 ms, times the tolerance about 1340
        // ms.
        assert!(!timer.on_sent(ms(550 + 1_300), 1_200));
        assert!(timer.on_sent(ms(550 + 1_300 + 1_350), 1_200));
    }

    #[test]
    fn backoff_time_includes_probes_and_ends_with_an_ack() {
        let mut timer = ProbeTimer::default();
        timer.on_sent(ms(0), 1_200);
        assert_eq!(acked(&mut timer, 50, 0), None);
        timer.on_sent(ms(50), 1_200);
        timer.on_sent(ms(60), 1_200);
        assert!(timer.on_sent(ms(60 + 175), 1_200) && timer.on_sent(ms(60 + 175 + 350), 1_200));
        assert_eq!(acked(&mut timer, 635, 0), Some(Duration::from_millis(635 - 60)));
        assert_eq!(acked(&mut timer, 640, 0), None, "it is over");
        // The result is the same for a stack that reports probe timeouts itself.
        let mut timer = ProbeTimer::default();
        timer.on_sent(ms(10), 1_200);
        timer.reported(ms(100));
        timer.on_sent(ms(100), 1_200);
        timer.reported(ms(300));
        assert_eq!(acked(&mut timer, 350, 0), Some(Duration::from_millis(340)));
    }
}
