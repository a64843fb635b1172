//! Bytes on a link by what their packets are for, and drops over time.

use serde::{Deserialize, Serialize};

/// What a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It says nothing that is understood here, or belongs to a flow whose needs nobody gave.
    #[default]
    Other,
    /// A datagram that begins with a long header (RFC 9000 §17.2): what is coalesced behind it counts with it.
    Handshake,
    /// Too small for anything but acknowledgements and a few other frames.
    Acknowledgements,
    /// It carries data. So many of its bytes on the wire are more than the flow needs once.
    Data {
        /// Bytes of it beyond what its flow needs.
        duplicate: u32,
    },
    /// It reaches the link after its flow's client has closed the connection.
    AfterClose,
}

/// Bytes on the wire, headers included, by what their packets are for.
///
/// It is seen from outside and works on every stack. A datagram that begins with a long header is of the handshake, with what is coalesced
/// behind it; one of at most 100 bytes carries acknowledgements only. The others carry data, for the first time until the connection has
/// sent what its responses and requests need, and again from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesByPurpose {
    /// Datagrams that begin with a long header.
    pub handshake: u64,
    /// 1-RTT datagrams too small for data: acknowledgements, and pings.
    pub acknowledgements: u64,
    /// Data, as often as a flow needs it: once.
    pub first_time: u64,
    /// Data beyond that: probes and retransmissions.
    pub duplicate: u64,
    /// Of connections that their clients had closed when the packet reached the link.
    pub after_close: u64,
    /// Of flows whose needs are unknown.
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

    /// What came since `before`.
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

    /// All of them.
    pub const fn total(&self) -> u64 {
        self.handshake
            + self.acknowledgements
            + self.first_time
            + self.duplicate
            + self.after_close
            + self.other
    }
}

/// Bytes that reached a link, and those of them that its queue dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBytes {
    /// Bytes that arrived.
    pub arrived: BytesByPurpose,
    /// Bytes of them that were dropped.
    pub dropped: BytesByPurpose,
}

impl LinkBytes {
    /// What came since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived.since(&before.arrived),
            dropped: self.dropped.since(&before.dropped),
        }
    }
}

/// Nanoseconds of a bin of [`Drops`].
const BIN: u64 = 10_000_000_000;

/// Packets that arrived and were dropped over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that arrived, and those of them that were dropped, per bin.
    pub bins: Vec<(u64, u64)>,
}

impl Drops {
    /// Width of a bin in seconds.
    pub const WIDTH: f64 = BIN as f64 * 1e-9;

    pub(crate) fn add(&mut self, now: u64, dropped: bool) {
        let bin = (now / BIN) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, (0, 0));
        }
        self.bins[bin].0 += 1;
        self.bins[bin].1 += u64::from(dropped);
    }

    /// Packets that arrived before are dropped now.
    pub(crate) fn add_dropped(&mut self, now: u64, dropped: u64) {
        let bin = (now / BIN) as usize;
        if dropped > 0 {
            self.bins.resize(self.bins.len().max(bin + 1), (0, 0));
            self.bins[bin].1 += dropped;
        }
    }
}
