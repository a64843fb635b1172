//! Events that a stack reports to a controller. Each event is a struct with named fields; unknown
//! values are `None`.

use std::time::Duration;

use crate::units::{OneWayDelay, Time};

/// The state of a path when a controller starts on it.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Time when the path came into use.
    pub now: Time,
    /// Largest datagram that the path is known to carry now, in bytes of UDP payload.
    pub datagram: u16,
    /// Signals that the stack can deliver and parameters that it honours.
    pub provided: crate::capabilities::Capabilities,
}

/// Bytes handed to the network.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of sending.
    pub now: Time,
    /// Bytes that count towards the window.
    pub bytes: u64,
}

/// A newly acknowledged packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Time when the packet was sent.
    pub sent: Time,
    /// Size of the packet in bytes, as counted in flight.
    pub bytes: u64,
}

/// Round-trip times as measured by the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// RTT of the newest packet of this batch, after subtraction of `ack_delay`.
    pub latest: Duration,
    /// The stack's smoothed estimate (RFC 9002 §5.3).
    pub smoothed: Duration,
    /// Smallest RTT of this path so far, without subtracting any acknowledgement delay
    /// (RFC 9002 §5.2).
    pub min: Duration,
    /// Delay that was subtracted from `latest`, because the peer reported that it delayed the
    /// acknowledgement by this time.
    pub ack_delay: Duration,
}

impl Rtt {
    /// Returns the RTTs after the first sample, which is `latest`.
    pub const fn first(latest: Duration) -> Self {
        Self { latest, smoothed: latest, min: latest, ack_delay: Duration::ZERO }
    }

    /// Returns these RTTs with a new `sample`, which is the time between sending a packet and
    /// receiving its acknowledgement. `smoothed` is not changed.
    ///
    /// The peer reports that it delayed the acknowledgement by `reported`. At most `longest` (its
    /// max_ack_delay) of that delay counts. Subtracting the delay never makes the sample smaller
    /// than the smallest RTT (RFC 9002 §5.3).
    ///
    /// RFC 9002 §5.3 subtracts either the whole delay or nothing. This function subtracts as much
    /// as the limit allows. A sample therefore does not jump if a delay is one microsecond too
    /// long.
    #[must_use]
    pub fn with_sample(self, sample: Duration, reported: Duration, longest: Duration) -> Self {
        let min = self.min.min(sample);
        let ack_delay = reported.min(longest).min(sample - min);
        Self { latest: sample - ack_delay, min, ack_delay, ..self }
    }
}

/// Increases of the ECN counts (RFC 9000 §19.3.2) from the previous ACK frame to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnDelta {
    /// Packets newly reported as ECT(0).
    pub ect0: u64,
    /// Packets newly reported as ECT(1).
    pub ect1: u64,
    /// Packets newly reported as congestion experienced.
    pub ce: u64,
}

impl EcnDelta {
    /// Returns the number of packets with any ECN codepoint.
    pub const fn packets(&self) -> u64 {
        self.ce.saturating_add(self.ect0).saturating_add(self.ect1)
    }

    /// Returns the fraction of these packets that were marked; 0 without packets.
    pub fn marked(&self) -> f64 {
        self.ce as f64 / self.packets().max(1) as f64
    }
}

/// The packets that one ACK frame newly acknowledges. This is the smallest event that every stack
/// can report.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// Time when the frame arrived.
    pub now: Time,
    /// The packets, oldest first; never empty.
    pub packets: &'a [Acked],
    /// Bytes in flight without these packets.
    pub in_flight: u64,
    /// Round-trip times. `latest` and `min` include this batch. `smoothed` is the stack's value,
    /// which usually does not include it.
    pub rtt: Rtt,
    /// Forward one-way delay of the newest packet, if the peer reported one in this batch.
    pub one_way: Option<OneWayDelay>,
    /// Increases of the ECN counts, if the stack passes them on.
    pub ecn: Option<EcnDelta>,
    /// Whether the application, rather than the window, limited sending while these packets were in
    /// flight.
    pub app_limited: bool,
}

impl AckEvent<'_> {
    /// Returns the number of newly acknowledged bytes.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().fold(0, |sum, p| sum.saturating_add(p.bytes))
    }

    /// Returns the time when the newest packet of the batch was sent.
    pub fn newest_sent(&self) -> Option<Time> {
        self.packets.iter().map(|p| p.sent).max()
    }
}

/// Cause of a [`CongestionEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets were declared lost.
    Loss {
        /// Number of bytes lost.
        bytes: u64,
        /// Whether all packets of a persistent-congestion period were lost (RFC 9002 §7.6).
        persistent: bool,
    },
    /// The peer reported new congestion-experienced marks.
    Mark,
}

/// A loss or a mark, reported after the acknowledgements of the same instant.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// Time when the stack noticed the event.
    pub now: Time,
    /// Time when the newest packet concerned was sent.
    pub sent: Time,
    /// Cause of the event.
    pub cause: Cause,
}

impl CongestionEvent {
    /// Returns whether packets were lost. A loss may prove spurious, but a mark never does.
    pub const fn is_loss(&self) -> bool {
        matches!(self.cause, Cause::Loss { .. })
    }

    /// Returns whether all packets of a persistent-congestion period were lost (RFC 9002 §7.6).
    pub const fn is_persistent(&self) -> bool {
        matches!(self.cause, Cause::Loss { persistent: true, .. })
    }
}

/// A change of the path under the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// A new largest datagram size in bytes, after MTU discovery or a black hole.
    Datagram(u16),
    /// A change to another network path, for which the delays seen so far have no meaning.
    Moved,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_delay_is_subtracted_down_to_the_minimum_rtt() {
        let ms = Duration::from_millis;
        let after = |sample, reported| {
            let rtt = Rtt::first(ms(10)).with_sample(ms(sample), ms(reported), ms(25));
            [rtt.latest, rtt.min, rtt.ack_delay].map(|d| d.as_millis())
        };
        assert_eq!(after(35, 25), [10, 10, 25]);
        assert_eq!(after(50, 20), [30, 10, 20]);
        assert_eq!(after(50, 9_000), [25, 10, 25], "no more than the peer may hold it");
        assert_eq!(after(30, 25), [10, 10, 20], "no less than the smallest RTT");
        assert_eq!(after(8, 25), [8, 8, 0], "nor the first of a new smallest");
        assert_eq!(after(30, 0), [30, 10, 0]);
    }
}
