//! Driver of one path's controller: turns a stack's calls into batches.
//!
//! Stacks report one packet at a time and then the end of the batch. Our controllers receive one
//! batch per ACK frame.
//!
//! For each event of the controller, the driver locks the [`ConnectionState`] once. Under the lock,
//! the driver takes the signals of the ACK frame, and the controller processes the event. The
//! driver then passes on the controller's shaping request and records the controller's state for
//! the report. The observer is called afterwards, without the lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::{
    AckEvent, Acked, Cause, CongestionEvent, Controller, ControllerMetrics, OneWayDelay, Pacing,
    PathChange, Rate, Rtt, SendParams, Sent, Start, Time,
};

use crate::connection_state::{ConnectionState, LockedState};
use crate::monitor::ConnectionMonitor;
use crate::path_signals::AckSignals;
use crate::report::Observer;
use crate::shaping::ShapingRequest;
use crate::trim::TrimAccounting;

/// A controller and the state needed to feed it.
#[derive(Debug)]
pub struct ControllerDriver {
    registration: Arc<FlowRegistration>,
    shaped: ShapedController,
    initial_window: u64,
    /// Packets acknowledged by the ACK frame that the stack is processing.
    batch: Vec<Acked>,
    smoothed: Option<Duration>,
    /// Part of the stack's smoothed RTT that the shaping socket's send delay causes. It is averaged
    /// like the RTT (RFC 9002 §5.3).
    smoothed_send_delay: Duration,
    min_rtt: Option<Duration>,
    /// Smoothed RTT. After the first batch, it is the RTT sample of this batch.
    round_trip: Option<Duration>,
    /// Whether the last congestion event was a loss.
    lost: bool,
    /// Whether the ACK frame that the stack is processing produced a batch.
    batch_reported: bool,
    /// Send time of the newest packet that a mark concerns; `None` unless the mark came with an ACK
    /// frame without a batch.
    early_mark: Option<Time>,
}

/// A controller, with the changes that the shaping socket makes to the packets that the controller
/// counts.
#[derive(Debug)]
struct ShapedController {
    controller: Box<dyn Controller>,
    path: Option<u32>,
    /// Largest datagram of the path, in bytes.
    mtu: u16,
    /// Bytes by which current and earlier packets are trimmed.
    trim: TrimAccounting,
}

impl Clone for ShapedController {
    fn clone(&self) -> Self {
        Self { controller: self.controller.boxed(), ..*self }
    }
}

impl ShapedController {
    /// Passes the controller's request to the shaping socket, if there is one, and updates the trim
    /// accounting.
    fn request_shaping(&mut self, id: u64, state: &mut LockedState<'_>) {
        if state.has_shaping_socket() {
            let params = self.controller.send_params();
            let send_delay = match params.pacing {
                Pacing::Delay(send_delay) => send_delay,
                Pacing::Window | Pacing::Rate(_) => Duration::ZERO,
            };
            let shrink =
                params.datagram.map_or(0, |size| usize::from(self.mtu.saturating_sub(size)));
            state.request_shaping(
                id,
                ShapingRequest { path: self.path, mtu: self.mtu, shrink, send_delay },
            );
        }
        self.update_trim(state.trim());
    }

    /// Updates the accounting: since `since`, packets are trimmed by `trim` bytes.
    fn update_trim(&mut self, (since, trim): (Time, usize)) {
        self.trim.change(since, self.mtu, trim);
    }

    /// Ends an event that the controller has processed. Returns the controller's state and the
    /// newest one-way delay.
    fn end_event(
        &mut self,
        id: u64,
        mut state: LockedState<'_>,
    ) -> (ControllerMetrics, Option<OneWayDelay>) {
        self.request_shaping(id, &mut state);
        let metrics = self.controller.metrics();
        (metrics, state.record_metrics(metrics))
    }
}

/// Registration of a controller with its connection. Clones of the driver share it.
#[derive(Debug)]
struct FlowRegistration {
    state: Arc<ConnectionState>,
    /// Number of this controller within its connection.
    id: u64,
}

impl Drop for FlowRegistration {
    fn drop(&mut self) {
        self.state.remove_controller(self.id);
    }
}

/// End of an ACK frame, as reported by a stack.
#[derive(Clone, Copy, Debug)]
pub struct AckBatch {
    /// Arrival time of the frame.
    pub now: Instant,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// Whether the application, rather than the window, limited sending.
    pub app_limited: bool,
    /// Largest packet number acknowledged so far in the packet number space.
    pub largest: Option<u64>,
}

impl ControllerDriver {
    /// Starts the controller of a new path. `datagram` is the largest UDP payload known to fit the
    /// path, in bytes. Stacks without multipath pass path number 0. If `path` is `None`, the first
    /// packet sent determines the path ([`ControllerDriver::on_packet_sent`]).
    ///
    /// # Panics
    /// Panics if the connection has no controllers of ours
    /// ([`ConnectionConfig::controller_config`](crate::ConnectionConfig)).
    pub fn start(
        state: Arc<ConnectionState>,
        path: Option<u32>,
        now: Instant,
        datagram: u16,
    ) -> Self {
        let start = Start { now: state.clock().time(now), datagram, provided: state.provided() };
        let controller = state
            .controller_config()
            .expect("the connection uses our controllers")
            .start(&start)
            // The requirements were checked against these capabilities before the connection began.
            .expect("requirements were checked when the plug-in was made");
        let mut driver = Self {
            initial_window: controller.send_params().window,
            shaped: ShapedController {
                controller,
                path,
                mtu: datagram,
                trim: TrimAccounting::new(datagram),
            },
            registration: Arc::new(FlowRegistration { id: state.next_controller_id(), state }),
            batch: Vec::with_capacity(16),
            smoothed: None,
            smoothed_send_delay: Duration::ZERO,
            min_rtt: None,
            round_trip: None,
            lost: false,
            batch_reported: false,
            early_mark: None,
        };
        driver.request_shaping();
        driver
    }

    fn state(&self) -> &ConnectionState {
        &self.registration.state
    }

    /// Returns a view of the connection, for the application.
    pub fn monitor(&self) -> ConnectionMonitor {
        self.registration.state.monitor()
    }

    fn time(&self, at: Instant) -> Time {
        self.state().clock().time(at)
    }

    /// Handles `bytes` that were handed to the network. With a shaping socket, each call is for one
    /// datagram.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        let now = self.time(now);
        self.state().clock().compare(now);
        let sent = Sent { now, bytes: self.shaped.trim.sent(bytes) };
        self.shaped.controller.on_sent(&sent);
        if let Some(observer) = self.state().observer() {
            observer.on_sent(&sent);
        }
        // Another path's controller, or the packet itself, may have changed the trim.
        self.shaped.update_trim(self.registration.state.trim());
    }

    fn request_shaping(&mut self) {
        self.shaped.request_shaping(self.registration.id, &mut self.registration.state.lock());
    }

    /// Handles a packet of this path that was just sealed. A controller that does not know its path
    /// takes the path of `packet`.
    pub fn on_packet_sent(&mut self, packet: u64) {
        if self.shaped.path.is_none() {
            self.shaped.path = self.state().path_of(packet);
        }
    }

    /// Adds an acknowledged packet to the batch. `smoothed` is the stack's RTT estimate.
    pub fn on_ack(&mut self, sent: Instant, bytes: u64, smoothed: Duration) {
        let sent = self.time(sent);
        let bytes = self.shaped.trim.acked(sent, bytes);
        self.batch.push(Acked { sent, bytes });
        self.smoothed = Some(smoothed);
    }

    /// Ends the batch of an ACK frame and gives it to the controller.
    pub fn on_end_acks(&mut self, end: AckBatch) {
        let now = self.time(end.now);
        let newest = self.batch.iter().map(|p| p.sent).max();
        self.batch_reported = newest.is_some();
        let Some(newest) = newest else { return };
        let id = self.registration.id;
        let mut state = self.registration.state.lock();
        // For the stack, a packet that the shaping socket delayed was sent when it was sealed.
        let (send_delay, signals) = match self.shaped.path {
            Some(path) => {
                (state.send_delay_of(path, newest), state.take_signals(path, id, end.largest))
            }
            None => (Duration::ZERO, AckSignals::default()),
        };
        let sample = now.since(newest).saturating_sub(send_delay);
        let known = Rtt { min: self.min_rtt.unwrap_or(sample), ..Rtt::first(sample) };
        let rtt = known.with_sample(sample, signals.ack_delay, Duration::MAX);
        let latest = rtt.latest;
        // The stack's estimate does not include this sample yet. Before the first sample, it is
        // only a guess.
        let smoothed =
            self.smoothed.map_or(latest, |stack| stack.saturating_sub(self.smoothed_send_delay));
        self.smoothed_send_delay = match self.min_rtt {
            None => send_delay,
            Some(_) => (self.smoothed_send_delay * 7 + send_delay) / 8,
        };
        self.round_trip = Some(if self.min_rtt.is_none() { latest } else { smoothed });
        self.min_rtt = Some(rtt.min);
        let acks = AckEvent {
            now,
            packets: &self.batch,
            in_flight: self.shaped.trim.in_flight(end.in_flight),
            rtt: Rtt { smoothed, ..rtt },
            one_way: signals.one_way,
            ecn: signals.ecn,
            app_limited: end.app_limited,
        };
        self.shaped.controller.on_ack(&acks);
        let (metrics, one_way) = self.shaped.end_event(id, state);
        if let Some(observer) = self.state().observer() {
            observer.on_ack(&acks, self.pacing_rate());
            observer.on_metrics(now, &metrics, one_way);
        }
        self.batch.clear();
        if let Some(sent) = self.early_mark.take() {
            self.react_to_congestion(now, sent, Cause::Mark);
        }
    }

    /// Handles lost or marked packets. The newest of them was sent at `sent`.
    ///
    /// A mark on packets that are not congestion controlled (such as bare ACKs) comes with an ACK
    /// frame without a batch. Such a mark waits for the next batch, which carries its ECN counts.
    pub fn on_congestion_event(&mut self, now: Instant, sent: Instant, cause: Cause) {
        let (now, sent) = (self.time(now), self.time(sent));
        if cause == Cause::Mark && !self.batch_reported {
            self.early_mark = self.early_mark.max(Some(sent));
        } else {
            self.react_to_congestion(now, sent, cause);
        }
    }

    fn react_to_congestion(&mut self, now: Time, sent: Time, cause: Cause) {
        self.lost = matches!(cause, Cause::Loss { .. });
        let cause = match cause {
            Cause::Loss { bytes, persistent } => {
                Cause::Loss { bytes: self.shaped.trim.lost(bytes), persistent }
            }
            Cause::Mark => Cause::Mark,
        };
        let congestion_event = CongestionEvent { now, sent, cause };
        self.event(
            now,
            |controller| controller.on_congestion_event(&congestion_event),
            |observer| observer.on_congestion_event(&congestion_event),
        );
    }

    /// Handles packets that were declared lost but later acknowledged. Marks are not affected: if a
    /// mark has followed the loss, nothing is undone.
    pub fn on_spurious_loss(&mut self) {
        if std::mem::take(&mut self.lost) {
            let now = self.state().clock().now();
            self.event(now, |controller| controller.on_spurious_congestion_event(now), |_| {});
        }
    }

    /// Handles the `count`th consecutive probe timeout.
    pub fn on_probe_timeout(&mut self, now: Instant, count: u32) {
        let now = self.time(now);
        self.event(now, |controller| controller.on_probe_timeout(now, count), |_| {});
    }

    /// Gives the controller an event and handles the consequences. `observe` notifies the observer,
    /// if there is one.
    fn event(
        &mut self,
        now: Time,
        process: impl FnOnce(&mut dyn Controller),
        observe: impl FnOnce(&dyn Observer),
    ) {
        let state = self.registration.state.lock();
        process(&mut *self.shaped.controller);
        let (metrics, one_way) = self.shaped.end_event(self.registration.id, state);
        if let Some(observer) = self.state().observer() {
            observe(observer);
            observer.on_metrics(now, &metrics, one_way);
        }
    }

    /// Sets the path's largest datagram, in bytes.
    pub fn on_datagram_size(&mut self, datagram: u16) {
        if datagram == self.shaped.mtu {
            return;
        }
        self.shaped.mtu = datagram;
        self.shaped.controller.on_path(self.state().clock().now(), PathChange::Datagram(datagram));
        self.request_shaping();
    }

    /// Returns the current send parameters, with the window in bytes as the stack counts them.
    pub fn send_params(&self) -> SendParams {
        let params = self.shaped.controller.send_params();
        if self.state().sizes_packets() {
            return params;
        }
        SendParams { window: self.shaped.trim.window(params.window), ..params }
    }

    /// Returns the controller's internal state, for telemetry.
    pub fn metrics(&self) -> ControllerMetrics {
        self.shaped.controller.metrics()
    }

    /// Returns the initial window, in bytes.
    pub const fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// Returns the pacing rate for stacks that pace. `None` leaves the pacing of the window to the
    /// stack.
    ///
    /// [`Pacing::Delay`] becomes `window / (RTT + send_delay)`: the throughput of a sender that
    /// delays each packet by `send_delay`. The RTT is this path's smoothed RTT, which does not
    /// contain the send delay, because stacks count a packet as sent when it leaves. The result is
    /// `None` if the send delay is zero, if there is no RTT sample yet, or if a shaping socket
    /// itself delays packets.
    pub fn pacing_rate(&self) -> Option<Rate> {
        let params = self.shaped.controller.send_params();
        match params.pacing {
            Pacing::Window => None,
            Pacing::Rate(rate) => Some(rate),
            Pacing::Delay(send_delay)
                if send_delay.is_zero() || self.state().has_shaping_socket() =>
            {
                None
            }
            Pacing::Delay(send_delay) => {
                self.round_trip.map(|rtt| held(params.window, rtt.saturating_add(send_delay)))
            }
        }
    }
}

impl Clone for ControllerDriver {
    fn clone(&self) -> Self {
        Self {
            registration: Arc::clone(&self.registration),
            shaped: self.shaped.clone(),
            initial_window: self.initial_window,
            batch: self.batch.clone(),
            smoothed: self.smoothed,
            smoothed_send_delay: self.smoothed_send_delay,
            min_rtt: self.min_rtt,
            round_trip: self.round_trip,
            lost: self.lost,
            batch_reported: self.batch_reported,
            early_mark: self.early_mark,
        }
    }
}

/// Returns the rate that corresponds to `window` bytes per `every`, which must not be zero.
fn held(window: u64, every: Duration) -> Rate {
    let bytes = u128::from(window) * 1_000_000_000 / every.as_nanos().max(1);
    Rate::from_bytes_per_sec(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use fathom_cc::testing::{Event, Fixed, Log, Recording};
    use fathom_cc::{Capabilities, ControllerConfig, Missing};

    use super::*;
    use crate::core::Core;
    use crate::{Clock, Extension};

    #[derive(Debug)]
    struct Configs(Pacing, Log);

    impl ControllerConfig for Configs {
        fn name(&self) -> &'static str {
            "fixed"
        }
        fn spec(&self) -> String {
            self.name().into()
        }
        fn required(&self) -> Capabilities {
            Capabilities::NONE
        }
        fn start(&self, _: &Start) -> Result<Box<dyn Controller>, Missing> {
            let params = SendParams { pacing: self.0, ..SendParams::window(100_000) };
            Ok(Box::new(Recording::new(Box::new(Fixed::new(params)), self.1.clone())))
        }
    }

    /// Clock that stands still.
    struct Still(Instant);

    impl Clock for Still {
        fn now(&self) -> Instant {
            self.0
        }
    }

    struct Fixture {
        start: Instant,
        driver: ControllerDriver,
        log: Log,
    }

    impl Fixture {
        fn new(pace: Pacing) -> Self {
            let start = crate::SystemClock.now();
            let log = Log::new(100);
            let core = Core {
                controller_config: Arc::new(Configs(pace, log.clone())),
                clock: Arc::new(Still(start)),
                extension: Extension::default(),
                parameter: None,
                stamp: None,
                monitors_acks: false,
                registry: None,
            };
            let state = Arc::new(core.connection(Capabilities::NONE, None));
            Self { start, driver: ControllerDriver::start(state, Some(0), start, 1_200), log }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        /// Acknowledges packets sent at these milliseconds at `now`, while the stack's RTT estimate
        /// is `smoothed`.
        fn acks(&mut self, now: u64, sent: &[u64], smoothed: u64) {
            for sent in sent {
                self.driver.on_ack(self.at(*sent), 1_200, Duration::from_millis(smoothed));
            }
            let now = self.at(now);
            self.driver.on_end_acks(AckBatch {
                now,
                in_flight: 2_400,
                app_limited: false,
                largest: Some(9),
            });
        }

        fn events(&self) -> Vec<Event> {
            self.log.records().into_iter().map(|r| r.event).collect()
        }
    }

    #[test]
    fn each_ack_frame_is_one_event_with_its_own_rtt() {
        let mut fixture = Fixture::new(Pacing::Window);
        fixture.acks(50, &[10, 20], 333);
        fixture.acks(60, &[], 40);
        fixture.acks(75, &[30], 40);
        let [
            Event::AckEvent { packets, rtt: first, in_flight, .. },
            Event::AckEvent { rtt: second, now, .. },
        ] = &fixture.events()[..]
        else {
            panic!("two batches: {:?}", fixture.events())
        };
        assert_eq!(packets.len(), 2);
        assert_eq!((*in_flight, *now), (2_400, Time::from_millis(75)));
        let millis = Duration::from_millis;
        assert_eq!(*first, Rtt { smoothed: millis(333), ..Rtt::first(millis(30)) });
        assert_eq!(
            *second,
            Rtt { latest: millis(45), smoothed: millis(40), ..Rtt::first(millis(30)) }
        );
    }

    #[test]
    fn send_delay_paces_one_window_per_rtt_plus_delay() {
        let mut fixture = Fixture::new(Pacing::Delay(Duration::from_millis(60)));
        assert_eq!(fixture.driver.pacing_rate(), None, "no round trip is known");
        // The stack's first estimate is a guess, so the sample is used: 100 kB in 20 + 60 ms.
        fixture.acks(20, &[0], 333);
        assert_eq!(fixture.driver.pacing_rate(), Some(Rate::from_bytes_per_sec(1_250_000)));
        // 100 kB in 40 + 60 ms.
        fixture.acks(80, &[40], 40);
        assert_eq!(fixture.driver.pacing_rate(), Some(Rate::from_bytes_per_sec(1_000_000)));
        let mut none = Fixture::new(Pacing::Delay(Duration::ZERO));
        none.acks(20, &[0], 333);
        assert_eq!(none.driver.pacing_rate(), None);
        let rate = Rate::from_bytes_per_sec(77);
        assert_eq!(Fixture::new(Pacing::Rate(rate)).driver.pacing_rate(), Some(rate));
        assert_eq!(Fixture::new(Pacing::Window).driver.pacing_rate(), None);
    }

    #[test]
    fn ecn_mark_is_reported_after_the_ack_with_its_counts() {
        let mut fixture = Fixture::new(Pacing::Window);
        fixture.acks(20, &[0], 20);
        fixture.acks(30, &[], 20);
        fixture.driver.on_congestion_event(fixture.at(30), fixture.at(10), Cause::Mark);
        fixture.acks(40, &[], 20);
        fixture.driver.on_congestion_event(fixture.at(40), fixture.at(12), Cause::Mark);
        fixture.acks(50, &[15], 20);
        fixture.acks(60, &[20], 20);
        fixture.driver.on_congestion_event(fixture.at(60), fixture.at(20), Cause::Mark);
        let kinds = fixture.events().into_iter().map(|e| match e {
            Event::AckEvent { now, .. } => ("acks", now),
            Event::CongestionEvent(s) => ("congestion_event", s.sent),
            _ => panic!("{e:?}"),
        });
        let millis = Time::from_millis;
        assert!(kinds.eq([
            ("acks", millis(20)),
            ("acks", millis(50)),
            ("congestion_event", millis(12)),
            ("acks", millis(60)),
            ("congestion_event", millis(20)),
        ]));
    }

    #[test]
    fn only_losses_are_undone_and_each_only_once() {
        let loss = Cause::Loss { bytes: 1_200, persistent: false };
        let undone = |causes: &[Cause], calls: usize| {
            let mut fixture = Fixture::new(Pacing::Window);
            fixture.acks(20, &[0], 20);
            for cause in causes {
                fixture.driver.on_congestion_event(fixture.at(20), fixture.at(10), *cause);
            }
            (0..calls).for_each(|_| fixture.driver.on_spurious_loss());
            fixture.events().iter().filter(|e| matches!(e, Event::Undo(_))).count()
        };
        assert_eq!(undone(&[], 1), 0);
        assert_eq!(undone(&[loss], 1), 1);
        assert_eq!(undone(&[loss], 2), 1);
        assert_eq!(undone(&[loss, Cause::Mark], 1), 0);
        assert_eq!(undone(&[Cause::Mark, loss], 1), 1);
    }
}
