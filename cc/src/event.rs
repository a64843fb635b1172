//! What a stack reports to a controller. Events are structs with named fields; what is not known is `None`.

use std::time::Duration;

use crate::units::{OneWayDelay, Time};

/// How a connection begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The moment the path came into use.
    pub now: Time,
    /// Largest datagram the path is known to carry now, UDP payload in bytes.
    pub datagram: u16,
    /// What the stack can deliver and honour.
    pub provided: crate::capabilities::Capabilities,
}

/// Bytes were handed to the network.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Bytes that count towards the window.
    pub bytes: u64,
}

/// One packet newly acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When it was sent.
    pub sent: Time,
    /// Its size in bytes, as counted in flight.
    pub bytes: u64,
}

/// Round-trip times as the stack measured them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// From the newest packet of this batch, less `ack_delay`.
    pub latest: Duration,
    /// The stack's smoothed estimate (RFC 9002 §5.3).
    pub smoothed: Duration,
    /// Smallest so far on this path; no acknowledgement delay subtracted (RFC 9002 §5.2).
    pub min: Duration,
    /// What was taken off `latest` because the peer said that it held its acknowledgement back for so long.
    pub ack_delay: Duration,
}

impl Rtt {
    /// After one sample.
    pub const fn first(latest: Duration) -> Self {
        Self { latest, smoothed: latest, min: latest, ack_delay: Duration::ZERO }
    }

    /// With a new sample: from packet to acknowledgement it took `sample`, of which the peer says that it held the acknowledgement back
    /// for `reported`, or `longest` where it says more (its max_ack_delay). What it says never makes the sample smaller than the
    /// smallest RTT (RFC 9002 §5.3).
    ///
    /// Where RFC 9002 §5.3 takes off the whole delay or nothing, this takes off what it may: the sample never jumps because a delay is a
    /// microsecond too long.
    #[must_use]
    pub fn with_sample(self, sample: Duration, reported: Duration, longest: Duration) -> Self {
        let min = self.min.min(sample);
        let ack_delay = reported.min(longest).min(sample - min);
        Self { latest: sample - ack_delay, min, ack_delay, ..self }
    }
}

/// New ECN counts of one ACK frame (RFC 9000 §19.3.2), as differences from the frame before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnDelta {
    /// Packets newly reported as ECT(0).
    pub ect0: u64,
    /// Packets newly reported as ECT(1).
    pub ect1: u64,
    /// Packets newly reported as congestion experienced.
    pub ce: u64,
}

/// One ACK frame's worth of newly acknowledged packets: the smallest event every stack can give.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// When the frame arrived.
    pub now: Time,
    /// The packets, oldest first; never empty.
    pub packets: &'a [Acked],
    /// Bytes in flight after these packets were taken out.
    pub in_flight: u64,
    /// Round-trip times: `latest` and `min` with this batch, `smoothed` as the stack has it, mostly without.
    pub rtt: Rtt,
    /// Forward one-way delay of the newest packet, when the peer reported one in this batch.
    pub one_way: Option<OneWayDelay>,
    /// New ECN counts, when the stack passes them on.
    pub ecn: Option<EcnDelta>,
    /// The application, not the window, was the limit when these were in flight.
    pub app_limited: bool,
}

impl AckEvent<'_> {
    /// Bytes newly acknowledged.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().fold(0, |sum, p| sum.saturating_add(p.bytes))
    }

    /// When the newest packet of the batch was sent.
    pub fn newest_sent(&self) -> Option<Time> {
        self.packets.iter().map(|p| p.sent).max()
    }
}

/// Why a [`CongestionEvent`] happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets were declared lost.
    Loss {
        /// How many bytes.
        bytes: u64,
        /// All packets of a persistent-congestion period were lost (RFC 9002 §7.6).
        persistent: bool,
    },
    /// The peer reported new congestion-experienced marks.
    Mark,
}

/// Loss or mark, reported after the acknowledgements of the same instant.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// When it was noticed.
    pub now: Time,
    /// When the newest packet concerned was sent.
    pub sent: Time,
    /// What happened.
    pub cause: Cause,
}

impl CongestionEvent {
    /// Packets were lost, which may prove spurious; marks never do.
    pub const fn is_loss(&self) -> bool {
        matches!(self.cause, Cause::Loss { .. })
    }

    /// All packets of a persistent-congestion period were lost (RFC 9002 §7.6).
    pub const fn is_persistent(&self) -> bool {
        matches!(self.cause, Cause::Loss { persistent: true, .. })
    }
}

/// The path changed under the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// A new largest datagram size in bytes (MTU discovery, black hole).
    Datagram(u16),
    /// Another network path: delays seen before mean nothing now.
    Moved,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_delay_is_taken_off_down_to_the_smallest_rtt() {
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
