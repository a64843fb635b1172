//! A load of ACK frames with two packets each, whose delays rise and fall. The cost of a controller
//! is measured under this load (`cargo bench --bench ack_cost`, `fathom judge --cpu`).

use std::hint::black_box;
use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::Controller;
use crate::event::{AckEvent, Acked, Cause, CongestionEvent, Rtt, Start};
use crate::units::{OneWayDelay, Time};

/// Number of ACK frames that [`acknowledge_all`] delivers.
pub const FRAMES: u64 = 1_000;
/// Size of a packet in bytes.
pub const MSS: u64 = 1_200;
/// Round-trip time with an empty queue.
pub const RTT: Duration = Duration::from_millis(40);
/// Time between two ACK frames: 10 Mbps in packets of [`MSS`] bytes, two per frame.
pub const GAP: Duration = Duration::from_micros(1_920);
/// Number of frames from one empty queue to the next.
pub const PERIOD: u64 = 400;

/// Returns the queueing delay of frame `n`: a triangle between 0 and 20 ms, so that every row of a
/// controller's tables is used.
pub fn queued(n: u64) -> Duration {
    let phase = n % PERIOD;
    Duration::from_micros(100 * phase.min(PERIOD - phase))
}

/// Starts a controller with every capability and ends its first slow start.
///
/// # Errors
/// Returns [`Missing`] if the controller needs a signal that no stack provides.
pub fn fresh(config: &dyn ControllerConfig) -> Result<Box<dyn Controller>, Missing> {
    let provided = Capabilities::ALL;
    let mut controller =
        config.start(&Start { now: Time::ZERO, datagram: MSS as u16, provided })?;
    controller.on_congestion_event(&CongestionEvent {
        now: Time::ZERO,
        sent: Time::ZERO,
        cause: Cause::Mark,
    });
    Ok(controller)
}

/// Delivers [`FRAMES`] ACK frames and one loss, and returns the window afterwards.
pub fn acknowledge_all(controller: &mut dyn Controller) -> u64 {
    let mut now = Time::from_millis(1_000);
    let mut smoothed = RTT;
    for n in 0..FRAMES {
        now += GAP;
        let latest = RTT + queued(n);
        smoothed = (smoothed * 7 + latest) / 8;
        acknowledge(controller, now, latest, smoothed);
        black_box(controller.send_params());
    }
    controller.on_congestion_event(&CongestionEvent {
        now,
        sent: now,
        cause: Cause::Loss { bytes: MSS, persistent: false },
    });
    controller.send_params().window
}

/// Delivers one ACK frame of two packets.
pub fn acknowledge(
    controller: &mut dyn Controller,
    now: Time,
    latest: Duration,
    smoothed: Duration,
) {
    let sent = now - latest;
    controller.on_ack(&AckEvent {
        now,
        packets: &[Acked { sent, bytes: MSS }, Acked { sent, bytes: MSS }],
        in_flight: 20 * MSS,
        rtt: Rtt { latest, smoothed, min: RTT, ack_delay: Duration::ZERO },
        one_way: Some(OneWayDelay::from_nanos((latest - RTT).as_nanos() as i64)),
        ecn: None,
        app_limited: false,
    });
}
