//! Bytes on a link by the purpose of their packets, and drops over time.

use fathom_units::Time;
use serde::{Deserialize, Serialize};

/// Purpose of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The purpose is unknown: the packet is not recognised, or the needs of its flow are not
    /// known.
    #[default]
    Other,
    /// A handshake: the datagram begins with a long header (RFC 9000 §17.2). Packets coalesced
    /// behind the first one are included.
    Handshake,
    /// Acknowledgements: the packet is too small for anything but acknowledgements and a few other
    /// frames.
    Acknowledgements,
    /// Data of a stream or datagram.
    Data {
        /// Number of the packet's bytes on the wire beyond the bytes that the flow needs to send
        /// once.
        duplicate: u32,
    },
    /// The client had closed the connection of this packet before the packet reached the link.
    AfterClose,
}

/// Bytes on the wire, headers included, by the purpose of their packets.
///
/// The purpose is inferred from outside, so this works on every stack. A datagram that begins with
/// a long header counts as a handshake, including packets coalesced behind it. A 1-RTT datagram of
/// at most 100 bytes counts as acknowledgements. Any other datagram carries data. Data count as
/// first-time data until the connection has sent as many bytes as its responses and requests need,
/// and as duplicates from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesByPurpose {
    /// Bytes of datagrams that begin with a long header.
    pub handshake: u64,
    /// Bytes of 1-RTT datagrams that are too small for data. They contain acknowledgements and
    /// pings.
    pub acknowledgements: u64,
    /// Bytes of data that a flow needs to send, counted once.
    pub first_time: u64,
    /// Bytes of data beyond the flow's needs: probes and retransmissions.
    pub duplicate: u64,
    /// Bytes of connections whose clients had closed them before the packet reached the link.
    pub after_close: u64,
    /// Bytes of flows whose needs are unknown.
    pub other: u64,
}

impl BytesByPurpose {
    pub(crate) fn add(&mut self, purpose: Purpose, wire: u32) {
        let bytes = u64::from(wire);
        match purpose {
            Purpose::Other => self.other += bytes,
            Purpose::Handshake => self.handshake += bytes,
            Purpose::Acknowledgements => self.acknowledgements += bytes,
            Purpose::AfterClose => self.after_close += bytes,
            Purpose::Data { duplicate } => {
                let duplicate = u64::from(duplicate).min(bytes);
                self.duplicate += duplicate;
                self.first_time += bytes - duplicate;
            }
        }
    }

    /// Returns the bytes counted since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            handshake: self.handshake - before.handshake,
            acknowledgements: self.acknowledgements - before.acknowledgements,
            first_time: self.first_time - before.first_time,
            duplicate: self.duplicate - before.duplicate,
            after_close: self.after_close - before.after_close,
            other: self.other - before.other,
        }
    }

    /// Returns the sum over all purposes.
    pub const fn total(&self) -> u64 {
        self.handshake
            + self.acknowledgements
            + self.first_time
            + self.duplicate
            + self.after_close
            + self.other
    }
}

/// Bytes that reached a link, and the bytes among them that the link's queue dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBytes {
    /// Bytes that arrived at the link.
    pub arrived: BytesByPurpose,
    /// Bytes that arrived at the link and were dropped.
    pub dropped: BytesByPurpose,
}

impl LinkBytes {
    /// Returns the bytes counted since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived.since(&before.arrived),
            dropped: self.dropped.since(&before.dropped),
        }
    }
}

/// Width of a bin of [`Drops`] in nanoseconds.
const BIN: u64 = 10_000_000_000;

/// Packets that arrived, and packets that were dropped, over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that arrived, and packets that were dropped, per bin.
    pub bins: Vec<(u64, u64)>,
}

impl Drops {
    /// Width of a bin in seconds.
    pub const WIDTH: f64 = BIN as f64 * 1e-9;

    pub(crate) fn add(&mut self, now: Time, dropped: bool) {
        let bin = (now.as_nanos() / BIN) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, (0, 0));
        }
        self.bins[bin].0 += 1;
        self.bins[bin].1 += u64::from(dropped);
    }

    /// Counts packets that arrived earlier and are dropped at `now`.
    pub(crate) fn add_dropped(&mut self, now: Time, dropped: u64) {
        let bin = (now.as_nanos() / BIN) as usize;
        if dropped > 0 {
            self.bins.resize(self.bins.len().max(bin + 1), (0, 0));
            self.bins[bin].1 += dropped;
        }
    }
}
