//! Round trips derived from a connection's events, without its metrics.

use std::collections::{BTreeMap, VecDeque};

use crate::parsed_event::{Direction, Packet, PacketNumberSpace};

/// Maximum number of packets remembered per connection.
const PACKETS: usize = 1 << 13;
/// Maximum number of logged round trips compared with the times of sent packets.
const SAMPLES: usize = 64;

/// Minimum size, in bytes, of a packet that is certainly more than an ACK.
pub(super) const FULL: f64 = 400.0;

/// A round trip derived from events, and the round trip in the metrics. Both are in declared
/// milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) shown: f64,
    pub(super) logged: f64,
}

/// Evidence from a connection's events so far. Times are in declared milliseconds.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// Packets in flight, by space and number.
    pub(super) sent: BTreeMap<(u8, u64), f64>,
    pub(super) sent_times: VecDeque<f64>,
    pub(super) first_sent: Option<f64>,
    pub(super) first_received: Option<f64>,
    /// Newest round trip derived from an ACK frame; `None` once metrics have followed it.
    pub(super) shown: Option<f64>,
    pub(super) latest: Option<f64>,
    pub(super) metrics: bool,
    pub(super) answered: bool,
    in_flight: f64,
    /// Number of bytes sent since the last metrics, and whether metrics came too rarely to separate
    /// sent bytes from acknowledged bytes.
    sent_since: f64,
    mixed: bool,
    pub(super) lost: bool,
    /// Increases of the bytes in flight, minus the parts that later decreases have used up.
    increases: VecDeque<(f64, f64)>,
    /// Sent packets: the time of each, and the total number of bytes sent up to the end of the
    /// packet.
    ends: VecDeque<(f64, f64)>,
    sent_bytes: f64,
    full_bytes: f64,
    pub(super) lost_bytes: f64,
}

/// Number of hits for each unit. A hit is a packet that was sent exactly one logged round trip
/// before the logged time.
#[derive(Debug, Default)]
pub(super) struct Matches {
    samples: f64,
    /// Counts for each unit: hits, and hits at neighbouring times.
    units: [(f64, f64); FACTORS.len()],
    logged: Vec<f64>,
}

/// Possible ratios of a trace's actual unit to its declared unit. The declared unit comes first.
pub(super) const FACTORS: [f64; 5] = [1.0, 1e3, 1e-3, 1e6, 1e-6];
/// Neighbouring times, relative to the time one round trip ago. If these times have as many hits,
/// hits prove nothing.
const BESIDE: [f64; 4] = [0.83, 0.91, 1.09, 1.17];

impl Clues {
    pub(super) fn packet(&mut self, at: f64, packet: &Packet) {
        match packet.direction {
            Direction::Sent => {
                self.first_sent.get_or_insert(at);
                let bytes = packet.bytes.map_or(0.0, |bytes| bytes as f64);
                self.sent_bytes += bytes;
                self.sent_since += if bytes >= FULL { bytes } else { 0.0 };
                self.full_bytes += if bytes >= FULL { bytes } else { 0.0 };
                push(&mut self.sent_times, at);
                push(&mut self.ends, (at, self.sent_bytes));
                if let Some((space, number)) = packet.number {
                    self.sent.insert((space as u8, number), at);
                    while self.sent.len() > PACKETS {
                        self.sent.pop_first();
                    }
                }
            }
            Direction::Received => {
                let of_answer =
                    packet.number.is_none_or(|(space, _)| space != PacketNumberSpace::Initial);
                if self.first_sent.is_some() && (of_answer || self.first_received.is_none()) {
                    self.first_received.get_or_insert(at);
                }
                self.acked(at, packet);
            }
        }
    }

    /// Derives a round trip from an ACK. By RFC 9002 §5.1, a sample belongs to the largest newly
    /// acknowledged packet.
    fn acked(&mut self, at: f64, packet: &Packet) {
        let Some((space, _)) = packet.number else { return };
        let Some(largest) = packet.acked.iter().map(|(_, last)| *last).max() else { return };
        let space = space as u8;
        if let Some(sent) = self.sent.get(&(space, largest)) {
            self.shown = Some(at - sent);
        }
        for (first, last) in &packet.acked {
            let there: Vec<_> = self
                .sent
                .range((space, *first)..=(space, *last))
                .map(|(place, _)| *place)
                .collect();
            for place in there {
                self.sent.remove(&place);
            }
        }
    }

    /// Tracks the bytes in flight. Assumes that bytes leave the network in the order in which they
    /// were sent.
    pub(super) fn flight(&mut self, at: f64, bytes: Option<f64>) -> Option<f64> {
        let change = bytes? - std::mem::replace(&mut self.in_flight, bytes?);
        self.mixed |= std::mem::take(&mut self.sent_since) > 1.1 * change.max(0.0) + FULL;
        if self.mixed {
            return None;
        }
        if change > 0.0 {
            push(&mut self.increases, (at, change));
            return None;
        }
        let (mut left, mut sent) = (-change, None);
        while left > 0.0
            && let Some((time, bytes)) = self.increases.front_mut()
        {
            sent = Some(*time);
            if *bytes > left {
                *bytes -= left;
                break;
            }
            left -= *bytes;
            self.increases.pop_front();
        }
        sent.filter(|_| !self.lost).map(|sent| at - sent)
    }

    /// Returns the age of the newest packet that has left the network. Returns `None` unless nearly
    /// all packets are full-sized and none was lost.
    pub(super) fn delivered(&mut self, at: f64, in_flight: f64) -> Option<f64> {
        let delivered = self.sent_bytes - self.lost_bytes - in_flight;
        let mut newest = None;
        while let Some((time, end)) = self.ends.front()
            && *end <= delivered + 1.0
        {
            newest = Some(at - time);
            self.ends.pop_front();
        }
        newest.filter(|_| self.full_bytes >= 0.95 * self.sent_bytes && self.lost_bytes == 0.0)
    }
}

fn push<T>(to: &mut VecDeque<T>, item: T) {
    if to.len() >= PACKETS {
        to.pop_front();
    }
    to.push_back(item);
}

impl Matches {
    pub(super) fn take(&mut self, at: f64, logged: f64, sent: &VecDeque<f64>) {
        if sent.is_empty() || self.logged.len() >= SAMPLES {
            return;
        }
        self.logged.push(logged);
        self.samples += 1.0;
        let hits = |rtt: f64| {
            let (moment, near) = (at - rtt, 0.1 + rtt / 1e3);
            let after = sent.partition_point(|time| *time < moment - near);
            sent.get(after).is_some_and(|time| *time <= moment + near)
        };
        for (factor, (hit, beside)) in FACTORS.iter().zip(&mut self.units) {
            *hit += f64::from(u8::from(hits(logged * factor)));
            let others = BESIDE.iter().filter(|part| hits(logged * factor * **part)).count();
            *beside += others as f64 / BESIDE.len() as f64;
        }
    }

    /// Returns the round trip in the unit for which hits are nearly certain. Returns `None` if
    /// neighbouring times have as many hits.
    pub(super) fn best(&self) -> Option<Pair> {
        let part = |n: f64| n / self.samples;
        let fits = |(hit, beside): (f64, f64)| {
            self.samples >= 5.0 && part(hit) >= 0.8 && part(beside) <= 0.4
        };
        let logged = median(self.logged.clone())?;
        let shown = |factor: f64| Pair { shown: logged * factor, logged };
        // Prefer the declared unit, even if its hits may be due to chance.
        if part(self.units[0].0) >= 0.3 {
            return fits(self.units[0]).then(|| shown(1.0));
        }
        FACTORS
            .iter()
            .zip(self.units)
            .find(|(_, unit)| fits(*unit))
            .map(|(factor, _)| shown(*factor))
    }
}

/// Returns the median.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
