//! Reordering: packets skip the propagation delay, or wait until a number of later packets have
//! passed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_units::{Invalid, Time, duration_text, parse_duration, parse_part, parse_whole};

use super::departure::{Departure, Leaving};

/// Default of `within=`, the longest time that a packet waits for later packets. Our choice: it
/// covers several packets at rates above 1 Mbps and is shorter than a probe timeout.
const WITHIN: Duration = Duration::from_millis(50);
/// Largest distance in packets, and largest number of packets that wait at the same time
/// (`MOST_WAITING`). Both limit memory. When they are reached, further packets are not moved back.
const FARTHEST: u64 = 1_000;
const MOST_WAITING: usize = 4_096;

/// Reordering as users write it: `1%`, or by distance `1%,distance=3` and
/// `1%,distance=3,within=20ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reorder {
    /// Fraction of packets that are chosen.
    pub part: f64,
    /// Distance by which chosen packets are moved back. `None` if chosen packets skip the
    /// propagation delay and thus arrive before other packets.
    pub distance: Option<Distance>,
}

/// Distance by which packets are moved back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Number of later packets of the same connection that pass the chosen packet.
    pub packets: u32,
    /// Longest time that the chosen packet waits for later packets.
    pub within: Duration,
}

impl Reorder {
    /// Returns reordering in which this fraction of packets skips the propagation delay.
    pub const fn early(part: f64) -> Self {
        Self { part, distance: None }
    }

    /// Returns whether no packet is ever reordered.
    pub fn is_none(&self) -> bool {
        self.part == 0.0
    }
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.part * 100.0)?;
        match self.distance {
            None => Ok(()),
            Some(Distance { packets, within }) => {
                write!(f, ",distance={packets},within={}", duration_text(within))
            }
        }
    }
}

impl FromStr for Reorder {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let help = |why: &str| {
            Invalid::value(s, format!("is not a valid reordering ({why})")).hint(
                "write 1%, or with a distance in packets 1%,distance=3 or \
                    1%,distance=3,within=20ms",
            )
        };
        let mut options = s.trim().split(',');
        let part = options.next().unwrap_or_default();
        let part = parse_part(part)?;
        let (mut packets, mut within) = (None, None);
        for option in options {
            match option.trim().split_once('=') {
                Some(("distance", value)) if packets.is_none() => {
                    packets = Some(
                        parse_whole(value, 1..=FARTHEST)
                            .map_err(|e| help(&format!("distance: {e}")))?,
                    );
                }
                Some(("within", value)) if within.is_none() => {
                    let time = parse_duration(value).map_err(|e| help(&format!("within: {e}")))?;
                    if time.is_zero() || time > Duration::from_secs(60) {
                        return Err(help("within: write a time above 0 and up to 60s"));
                    }
                    within = Some(time);
                }
                _ => {
                    return Err(help(&format!(
                        "'{}' is not an option of reorder, or is written twice",
                        option.escape_debug()
                    )));
                }
            }
        }
        let distance = match (packets, within) {
            (None, None) => None,
            (None, Some(_)) => return Err(help("within needs a distance")),
            (Some(packets), within) => {
                Some(Distance { packets: packets as u32, within: within.unwrap_or(WITHIN) })
            }
        };
        Ok(Self { part, distance })
    }
}

/// A packet that waits until later packets have passed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: Leaving,
    departure: Departure,
    /// Number of later packets that still have to pass.
    left: u32,
    /// Time at which the packet leaves even if too few packets have passed.
    until: Time,
}

/// Packets that wait until later packets have passed.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingForOthers {
    packets: Vec<Waiting>,
}

impl WaitingForOthers {
    /// Returns whether one more packet may wait.
    pub(super) fn has_room(&self) -> bool {
        self.packets.len() < MOST_WAITING
    }

    /// Adds a packet that has to wait. Without the wait, it would have arrived as in `departure`.
    pub(super) fn add(
        &mut self,
        packet: Leaving,
        departure: Departure,
        distance: Distance,
        until: Time,
    ) {
        self.packets.push(Waiting { packet, departure, left: distance.packets, until });
    }

    /// Records that a packet of this flow passes and arrives at `at`.
    pub(super) fn passed(&mut self, flow: u64, at: Time) {
        for waiting in self
            .packets
            .iter_mut()
            .filter(|waiting| waiting.packet.flow == flow && waiting.left > 0)
        {
            waiting.left -= 1;
            waiting.departure.at = waiting.departure.at.max(at).min(waiting.until);
        }
    }

    /// Takes a packet that may leave, because enough later packets have passed or because its time
    /// is over at `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<(Leaving, Departure)> {
        let number =
            self.packets.iter().position(|waiting| waiting.left == 0 || waiting.until <= now)?;
        let Waiting { packet, departure, left, until } = self.packets.remove(number);
        Some((packet, Departure { at: if left == 0 { departure.at } else { until }, ..departure }))
    }

    /// Returns the earliest time at which the time of a waiting packet is over.
    pub(super) fn next(&self) -> Option<Time> {
        self.packets.iter().map(|waiting| waiting.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reorder_option_round_trips_through_text() {
        for (text, distance) in [
            ("5%", None),
            ("5%,distance=3", Some((3, 50))),
            ("5%,distance=3,within=20ms", Some((3, 20))),
            ("0.05,within=20ms,distance=3", Some((3, 20))),
        ] {
            let read: Reorder = text.parse().unwrap();
            let expected = distance
                .map(|(packets, ms)| Distance { packets, within: Duration::from_millis(ms) });
            assert_eq!(read, Reorder { part: 0.05, distance: expected }, "{text}");
            assert_eq!(read.to_string().parse::<Reorder>().unwrap(), read);
        }
        for text in [
            "",
            "2",
            "5%,distance=0",
            "5%,distance=2000",
            "5%,distance=3,distance=4",
            "5%,within=5ms",
            "5%,distance=3,within=0ms",
            "5%,distance=3,within=2min3",
            "5%,gap=3",
            "5%,,",
        ] {
            let error = text.parse::<Reorder>().unwrap_err().to_string();
            assert!(error.contains("; write ") && !error.contains('\n'), "{text}: {error}");
        }
    }
}
