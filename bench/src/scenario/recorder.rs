//! Around a group's controllers: what their stack tells them is counted, and packets may get a fixed size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::{
    Acks, Advice, Controller, Missing, PathChange, Phase, Recipe, Sent, Setback, Signals, Snapshot, Start, Time,
};

/// Samples of a tcpRTT series kept at most: 500 seconds of a fast path have some 50,000.
const SAMPLES: usize = 1_000_000;

/// What the controllers of a group were told.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Probe timeouts that the stack told of.
    told: AtomicU64,
    /// Those that silences betray.
    inferred: AtomicU64,
    /// The tcpRTT series of the first connection, where it is wanted: when, and the round-trip time.
    rtt: Option<Mutex<Vec<(Time, Duration)>>>,
    connections: AtomicU64,
}

impl Record {
    pub(super) fn new(rtt: bool) -> Self {
        Self { rtt: rtt.then(Mutex::default), ..Self::default() }
    }

    /// Probe timeouts that silences betray, whether the stack tells of any or not.
    pub(super) fn silences(&self) -> u64 {
        self.inferred.load(Ordering::Relaxed)
    }

    /// Probe timeouts: as told, where the stack tells of them.
    pub(super) fn probe_timeouts(&self) -> u64 {
        match self.told.load(Ordering::Relaxed) {
            0 => self.inferred.load(Ordering::Relaxed),
            told => told,
        }
    }

    pub(super) fn rtt(&self) -> Option<Vec<(Time, Duration)>> {
        self.rtt.as_ref().map(|samples| samples.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A recipe whose controllers are recorded, and told that datagrams have the given size if one is given.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) inner: Arc<dyn Recipe>,
    pub(super) record: Arc<Record>,
    /// Stacks send no less than 1200 bytes by themselves: smaller datagrams are advice.
    pub(super) datagram: Option<u16>,
}

impl Recorded {
    fn more(&self, signals: Signals) -> Signals {
        Signals { datagram: signals.datagram || self.datagram.is_some(), ..signals }
    }
}

impl Recipe for Recorded {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn spec(&self) -> String {
        self.inner.spec()
    }

    fn needs(&self) -> Signals {
        self.more(self.inner.needs())
    }

    fn wants(&self) -> Signals {
        self.more(self.inner.wants())
    }

    fn mend(&self) -> &'static str {
        self.inner.mend()
    }

    fn check(&self, offers: Signals) -> Result<(), Missing> {
        self.inner.check(offers)
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
    /// Its round-trip times are kept.
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

    fn on_acks(&mut self, acks: &Acks<'_>) {
        self.timer.on_acks(acks);
        // DCA §3.1: only acknowledgements of more than one packet, none during recovery.
        if self.samples && acks.packets.len() > 1 && self.inner.snapshot().phase != Phase::Recovery {
            if let Some(samples) = &self.record.rtt {
                let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                if samples.len() < SAMPLES {
                    samples.push((acks.now, acks.rtt.latest));
                }
            }
        }
        self.inner.on_acks(acks);
    }

    fn on_setback(&mut self, setback: &Setback) {
        self.timer.heard = Some(setback.now);
        self.inner.on_setback(setback);
    }

    fn on_undo(&mut self, now: Time) {
        self.inner.on_undo(now);
    }

    fn on_probe_timeout(&mut self, now: Time, count: u32) {
        self.record.told.fetch_add(1, Ordering::Relaxed);
        self.inner.on_probe_timeout(now, count);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        self.inner.on_path(now, change);
    }

    fn advice(&self) -> Advice {
        let advice = self.inner.advice();
        Advice { datagram: self.datagram.or(advice.datagram), ..advice }
    }

    fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
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

/// Notices probe timeouts (RFC 9002 §6.2) of stacks that do not tell of them.
///
/// While packets are in flight, a sender that neither sends nor hears anything for a probe timeout must send a probe. So a packet that
/// leaves after such a silence, at an instant at which no acknowledgement came and no loss was noticed, is one.
#[derive(Clone, Debug, Default)]
struct ProbeTimer {
    last_sent: Option<Time>,
    /// When the last acknowledgement or loss was heard of.
    heard: Option<Time>,
    in_flight: u64,
    smoothed: Duration,
    /// Mean deviation of the round-trip times (RFC 9002 §5.3).
    deviation: Duration,
    /// Probe timeouts in a row.
    count: u32,
    /// The last probe: its second packet is no timeout of its own.
    probed: Option<Time>,
}

/// What a peer may wait before it acknowledges (RFC 9000 §18.2, the default).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// The probe timeout before there is a round-trip time: 333 ms and four times half of it (RFC 9002 §6.2.2).
const INITIAL_TIMEOUT: Duration = Duration::from_millis(999);
/// A silence may be this much shorter than reckoned: the stack's own deviation leaves the acknowledgement delay out.
const TOLERANCE: f64 = 0.8;

impl ProbeTimer {
    /// A packet leaves; whether it is a probe.
    fn on_sent(&mut self, now: Time, bytes: u64) -> bool {
        let silent_since = self.last_sent.max(self.probed);
        let probe = self.in_flight > 0
            && self.heard != Some(now)
            && silent_since.is_some_and(|last| now.since(last) >= self.timeout().mul_f64(TOLERANCE));
        if probe {
            self.count += 1;
            self.probed = Some(now);
        }
        self.last_sent = Some(now);
        self.in_flight = self.in_flight.saturating_add(bytes);
        probe
    }

    fn on_acks(&mut self, acks: &Acks<'_>) {
        let latest = acks.rtt.latest;
        let off = self.smoothed.abs_diff(latest);
        self.deviation = if self.smoothed.is_zero() { latest / 2 } else { (self.deviation * 3 + off) / 4 };
        self.smoothed = acks.rtt.smoothed;
        self.in_flight = acks.in_flight;
        self.heard = Some(acks.now);
        self.count = 0;
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

    fn acked(timer: &mut ProbeTimer, now: u64, in_flight: u64) {
        let rtt = Duration::from_millis(50);
        let packets = [Acked { sent: ms(now - 50), bytes: 1_200 }];
        timer.on_acks(&Acks {
            now: ms(now),
            packets: &packets,
            in_flight,
            rtt: Rtt { latest: rtt, smoothed: rtt, min: rtt },
            one_way: None,
            ecn: None,
            app_limited: false,
        });
    }

    #[test]
    fn a_packet_after_a_silence_with_packets_in_flight_is_a_probe() {
        let mut timer = ProbeTimer::default();
        assert!(!timer.on_sent(ms(0), 1_200));
        acked(&mut timer, 50, 0);
        // Smoothed 50 ms, deviation 25 ms: 50 + 100 + 25 ms.
        assert!(!timer.on_sent(ms(50), 1_200));
        assert!(timer.on_sent(ms(50 + 175), 1_200), "the silence was a probe timeout long");
        assert!(!timer.on_sent(ms(50 + 175), 1_200), "its second packet");
        assert!(!timer.on_sent(ms(50 + 175 + 200), 1_200), "the second timeout is twice as long");
        assert!(timer.on_sent(ms(50 + 175 + 200 + 350), 1_200));
    }

    #[test]
    fn a_packet_after_an_idle_time_is_none_nor_is_one_that_an_acknowledgement_released() {
        let mut timer = ProbeTimer::default();
        timer.on_sent(ms(0), 1_200);
        acked(&mut timer, 50, 0);
        assert!(!timer.on_sent(ms(5_000), 1_200), "nothing was in flight");
        acked(&mut timer, 5_400, 1_200);
        assert!(!timer.on_sent(ms(5_400), 1_200), "an acknowledgement came");
    }
}
