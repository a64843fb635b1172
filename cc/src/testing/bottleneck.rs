//! A path with one bottleneck and one sender, which suffices to draw a controller's window. It is
//! deterministic and uses no random numbers.
//!
//! The sender always has data and sends whenever the window has room. It paces only if the
//! controller asks for [`Pacing::Rate`] or [`Pacing::Delay`]. The link has a drop-tail queue. The
//! receiver acknowledges every `per_ack` packets, or after 25 ms. Packets keep their order, so the
//! sender notices a lost packet with the first ACK of a later packet. If no later packet arrives,
//! the sender notices the loss by the timeout (three smoothed RTTs).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use crate::controller::{Controller, Pacing};
use crate::event::{AckEvent, Acked, Cause, CongestionEvent, Rtt, Sent};
use crate::units::{OneWayDelay, Rate, Time};

/// Longest time for which the receiver delays an acknowledgement (RFC 9000 §18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// A path with one bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// Rate of the link.
    pub rate: Rate,
    /// Propagation delay from sender to receiver.
    pub forward: Duration,
    /// Propagation delay from receiver to sender.
    pub reverse: Duration,
    /// Capacity of the queue in bytes.
    pub queue: u64,
    /// Size of every packet in bytes.
    pub datagram: u16,
    /// Number of packets per acknowledgement.
    pub per_ack: usize,
    /// Receiver's clock minus sender's clock, in nanoseconds. The sender does not know it.
    pub clock_offset: i64,
}

/// The state after one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Time when the ACK arrived.
    pub at: Time,
    /// Window after the ACK, in bytes.
    pub window: u64,
    /// Time for which the newest acknowledged packet waited in the queue.
    pub queued: Duration,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// One point per ACK.
    pub points: Vec<Point>,
    /// Number of bytes acknowledged.
    pub delivered: u64,
    /// Number of packets lost.
    pub lost: u64,
}

#[derive(Clone, Copy)]
struct Packet {
    sent: Time,
    /// Waiting time in the queue and arrival time at the receiver; `None` if the queue was full.
    arrival: Option<(Duration, Time)>,
}

impl Bottleneck {
    /// Runs `controller` over the path for `length`; the sender sends as much as the controller
    /// allows.
    pub fn run(&self, controller: &mut dyn Controller, length: Duration) -> Curve {
        let mut run = Run {
            path: *self,
            controller,
            now: Time::ZERO,
            link_free: Time::ZERO,
            flight: VecDeque::new(),
            rtt: None,
            next_send: Time::ZERO,
            curve: Curve::default(),
        };
        loop {
            let paced = run.send();
            if run.now >= Time::ZERO + length {
                return run.curve;
            }
            match (run.next_ack(), paced) {
                (ack, Some(at)) if ack.is_none_or(|(_, ack)| at < ack) => run.now = at,
                (Some((count, at)), _) => run.acknowledge(count, at),
                (None, _) => run.time_out(),
            }
        }
    }
}

struct Run<'a> {
    path: Bottleneck,
    controller: &'a mut dyn Controller,
    now: Time,
    link_free: Time,
    flight: VecDeque<Packet>,
    rtt: Option<Rtt>,
    /// Earliest time at which a paced sender may send again.
    next_send: Time,
    curve: Curve,
}

impl Run<'_> {
    fn datagram(&self) -> u64 {
        u64::from(self.path.datagram)
    }

    fn in_flight(&self) -> u64 {
        self.flight.len() as u64 * self.datagram()
    }

    /// Returns the time between two packets that the controller requests.
    fn gap(&self) -> Duration {
        let params = self.controller.send_params();
        match (params.pacing, self.rtt) {
            (Pacing::Window, _) | (Pacing::Delay(_), None) => Duration::ZERO,
            (Pacing::Rate(rate), _) => rate.time_for(self.datagram()),
            (Pacing::Delay(hold), Some(rtt)) => {
                (rtt.latest + hold).mul_f64(self.datagram() as f64 / params.window.max(1) as f64)
            }
        }
    }

    /// Sends as many packets as the window and pacing allow. If pacing rather than the window stops
    /// the sender, returns the time of the next packet.
    fn send(&mut self) -> Option<Time> {
        while self.in_flight() + self.datagram() <= self.controller.send_params().window {
            if self.now < self.next_send {
                return Some(self.next_send);
            }
            self.next_send = self.now + self.gap();
            let waiting = self.link_free.since(self.now);
            let serve = self.path.rate.time_for(self.datagram());
            let full =
                waiting > self.path.rate.time_for(self.path.queue.saturating_sub(self.datagram()));
            let arrival = (!full).then(|| {
                self.link_free = self.link_free.max(self.now) + serve;
                (waiting, self.link_free + self.path.forward)
            });
            self.flight.push_back(Packet { sent: self.now, arrival });
            self.controller.on_sent(&Sent { now: self.now, bytes: self.datagram() });
        }
        None
    }

    /// Returns the number of packets at the head of the flight that the next ACK covers, including
    /// lost packets between them. Also returns the arrival time of this ACK.
    fn next_ack(&self) -> Option<(usize, Time)> {
        let mut covered = 0;
        let mut due = None;
        let mut last = None;
        for (at, packet) in self.flight.iter().enumerate() {
            let Some((_, arrival)) = packet.arrival else { continue };
            let deadline = *due.get_or_insert(arrival + MAX_ACK_DELAY);
            if arrival > deadline {
                return last.map(|count| (count, deadline + self.path.reverse));
            }
            covered += 1;
            last = Some(at + 1);
            if covered == self.path.per_ack {
                return Some((at + 1, arrival + self.path.reverse));
            }
        }
        Some((last?, due? + self.path.reverse))
    }

    fn acknowledge(&mut self, count: usize, at: Time) {
        self.now = at;
        let covered: Vec<Packet> = self.flight.drain(..count).collect();
        let acked: Vec<Acked> = covered
            .iter()
            .filter(|p| p.arrival.is_some())
            .map(|p| Acked { sent: p.sent, bytes: self.datagram() })
            .collect();
        let Some((newest, (queued, arrival))) =
            covered.iter().rev().find_map(|p| Some((p.sent, p.arrival?)))
        else {
            return;
        };
        let missing: Vec<Packet> = covered.into_iter().filter(|p| p.arrival.is_none()).collect();
        let rtt = self.measure(at.since(newest));
        let transit = arrival.as_nanos() as i64 - newest.as_nanos() as i64;
        self.curve.delivered += acked.len() as u64 * self.datagram();
        self.controller.on_ack(&AckEvent {
            now: at,
            packets: &acked,
            in_flight: self.in_flight(),
            rtt,
            one_way: Some(OneWayDelay::from_nanos(transit + self.path.clock_offset)),
            ecn: None,
            app_limited: false,
        });
        if !missing.is_empty() {
            self.lose(&missing);
        }
        self.curve.points.push(Point { at, window: self.controller.send_params().window, queued });
    }

    fn measure(&mut self, latest: Duration) -> Rtt {
        let rtt = match self.rtt {
            None => Rtt::first(latest),
            Some(rtt) => Rtt {
                latest,
                smoothed: (rtt.smoothed * 7 + latest) / 8,
                min: rtt.min.min(latest),
                ..rtt
            },
        };
        self.rtt = Some(rtt);
        rtt
    }

    fn lose(&mut self, missing: &[Packet]) {
        let Some(newest) = missing.iter().map(|p| p.sent).max() else { return };
        self.curve.lost += missing.len() as u64;
        let bytes = missing.len() as u64 * self.datagram();
        let cause = Cause::Loss { bytes, persistent: false };
        self.controller.on_congestion_event(&CongestionEvent {
            now: self.now,
            sent: newest,
            cause,
        });
    }

    /// Waits for the timeout and declares all packets in flight lost, because all of them were
    /// dropped.
    fn time_out(&mut self) {
        let patience = self.rtt.map_or(Duration::from_secs(1), |rtt| rtt.smoothed * 3);
        self.now += patience;
        let missing: Vec<Packet> = self.flight.drain(..).collect();
        self.lose(&missing);
    }
}

impl Curve {
    /// Returns the points from `from` on.
    pub fn after(&self, from: Time) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |p| p.at >= from)
    }

    /// Returns the mean waiting time in the queue from `from` on, per ACK; zero if there are no
    /// points.
    pub fn mean_queued(&self, from: Time) -> Duration {
        let count = self.after(from).count().max(1);
        self.after(from).map(|p| p.queued).sum::<Duration>()
            / u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns the smallest and largest window from `from` on, in bytes; `None` if there are no
    /// points.
    pub fn window_range(&self, from: Time) -> Option<(u64, u64)> {
        let windows = || self.after(from).map(|p| p.window);
        Some((windows().min()?, windows().max()?))
    }

    /// Returns the points as CSV: seconds, bytes, milliseconds.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from("seconds,window_bytes,queued_ms\n");
        for p in &self.points {
            let _ = writeln!(
                csv,
                "{:.6},{},{:.3}",
                p.at.as_secs_f64(),
                p.window,
                p.queued.as_secs_f64() * 1e3
            );
        }
        csv
    }

    /// Draws the window over time in `width` columns and `height` rows of text.
    pub fn to_ascii(&self, width: usize, height: usize) -> String {
        let (Some(last), true) = (self.points.last(), width > 0 && height > 0) else {
            return String::new();
        };
        let end = last.at.as_nanos().max(1);
        let mut columns = vec![0_u64; width];
        for p in &self.points {
            let column =
                (u128::from(p.at.as_nanos()) * (width as u128 - 1) / u128::from(end)) as usize;
            columns[column] = columns[column].max(p.window);
        }
        let top = columns.iter().copied().max().unwrap_or(0).max(1);
        let mut drawing = String::new();
        for row in (0..height).rev() {
            let level = top * row as u64 / height as u64;
            let line: String = columns.iter().map(|w| if *w > level { '#' } else { ' ' }).collect();
            let _ = writeln!(drawing, "{level:>9} |{}", line.trim_end());
        }
        let _ = writeln!(
            drawing,
            "{:>9} +{} {:.1}s",
            "bytes",
            "-".repeat(width),
            last.at.as_secs_f64()
        );
        drawing
    }
}
