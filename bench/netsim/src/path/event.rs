//! Events. An event changes a path at a set time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text, parse_duration, parse_nonzero_duration};

/// An event as users write it: `blackout:2s@10s`, `blackout:100ms@5s every 15s`, `hold:200ms@10s`,
/// `mtu:1250@20s`, `rate:5Mbps@10s`, `up-rate:1Mbps@10s`, `rtt:100ms@10s`; in the relay also
/// `rebind@30s` and `rebind@handshake`. Times count from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// No packet passes for a while, in either direction.
    Blackout {
        /// Time at which the blackout begins.
        at: Duration,
        /// Length of the blackout.
        lasts: Duration,
        /// Period of repetition, counted from the beginning of each blackout; `None` for a single
        /// blackout.
        every: Option<Duration>,
    },
    /// Packets that would arrive during the hold arrive together at its end, in both directions. A
    /// scheduler's gap or a scan for other stations causes such a hold.
    Hold {
        /// Time at which the hold begins.
        at: Duration,
        /// Length of the hold.
        lasts: Duration,
        /// Period of repetition, counted from the beginning of each hold; `None` for a single hold.
        every: Option<Duration>,
    },
    /// From this time on, datagrams above this MTU are dropped. Their size is counted in bytes of
    /// UDP payload.
    Mtu {
        /// Time at which the MTU begins to apply.
        at: Duration,
        /// Largest UDP payload that passes, in bytes.
        payload: u16,
    },
    /// From this time on, the link from server to client has this rate. The opposite link has the
    /// same rate unless `up-rate`, `up-trace` or an `up-rate` event sets another one.
    Rate {
        /// Time of the change.
        at: Duration,
        /// New rate.
        rate: Rate,
    },
    /// From this time on, the link from client to server has this rate.
    UpRate {
        /// Time of the change.
        at: Duration,
        /// New rate.
        rate: Rate,
    },
    /// From this time on, the propagation delay in each direction is half of this RTT. It replaces
    /// the previous propagation delay.
    Rtt {
        /// Time of the change.
        at: Duration,
        /// New base RTT.
        rtt: Duration,
    },
    /// The server sees every client at a new port, as after a NAT has forgotten its mappings.
    Rebind {
        /// Time of the change.
        at: Duration,
    },
    /// Each client gets a new port right after its own handshake. Packets in flight to the old port
    /// are lost.
    RebindAfterHandshake,
}

impl fmt::Display for PathEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, at) = match self {
            Self::Blackout { at, lasts, .. } => (format!("blackout:{}", duration_text(*lasts)), at),
            Self::Hold { at, lasts, .. } => (format!("hold:{}", duration_text(*lasts)), at),
            Self::Mtu { at, payload } => (format!("mtu:{payload}"), at),
            Self::Rate { at, rate } => (format!("rate:{rate}"), at),
            Self::UpRate { at, rate } => (format!("up-rate:{rate}"), at),
            Self::Rtt { at, rtt } => (format!("rtt:{}", duration_text(*rtt)), at),
            Self::Rebind { at } => ("rebind".to_owned(), at),
            Self::RebindAfterHandshake => return f.write_str("rebind@handshake"),
        };
        write!(f, "{what}@{}", duration_text(*at))?;
        if let Self::Blackout { every: Some(every), .. } | Self::Hold { every: Some(every), .. } =
            self
        {
            write!(f, " every {}", duration_text(*every))?;
        }
        Ok(())
    }
}

impl FromStr for PathEvent {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let help = || {
            Invalid::value(s, "is not an event").hint(
                "write blackout:2s@10s, 'blackout:100ms@5s every 15s', hold:200ms@10s, \
                 mtu:1250@20s, rate:5Mbps@10s, up-rate:1Mbps@10s, rtt:100ms@10s, rebind@30s or \
                 rebind@handshake",
            )
        };
        if s == "rebind@handshake" {
            return Ok(Self::RebindAfterHandshake);
        }
        let (what, at) = s.split_once('@').ok_or_else(help)?;
        let (at, every) =
            at.split_once(" every ").map_or((at, None), |(at, every)| (at, Some(every)));
        let at = parse_duration(at)?;
        let every = every.map(parse_nonzero_duration).transpose()?;
        let event = match what.split_once(':').unwrap_or((what, "")) {
            (name @ ("blackout" | "hold"), lasts) => {
                let lasts = parse_duration(lasts)?;
                if every.is_some_and(|every| every <= lasts) {
                    return Err(Invalid::value(s, "never ends").hint(format!(
                        "make the interval longer than the event, as in '{name}:100ms@5s every 15s'"
                    )));
                }
                return Ok(match name {
                    "hold" => Self::Hold { at, lasts, every },
                    _ => Self::Blackout { at, lasts, every },
                });
            }
            ("mtu", payload) => {
                let payload =
                    payload.parse().ok().filter(|p| (500..=9_000).contains(p)).ok_or_else(
                        || {
                            Invalid::because("an MTU is a UDP payload of 500 to 9000 bytes")
                                .hint("write mtu:1250@20s")
                                .in_field(format!("'{}'", s.escape_debug()))
                        },
                    )?;
                Self::Mtu { at, payload }
            }
            ("rate", rate) => Self::Rate { at, rate: parse_rate(rate)? },
            ("up-rate", rate) => Self::UpRate { at, rate: parse_rate(rate)? },
            ("rtt", rtt) => Self::Rtt { at, rtt: parse_duration(rtt)? },
            ("rebind", "") => Self::Rebind { at },
            _ => return Err(help()),
        };
        if every.is_some() {
            Err(Invalid::because("only blackouts and holds can repeat")
                .hint("leave out 'every'")
                .in_field(format!("'{}'", s.escape_debug())))
        } else {
            Ok(event)
        }
    }
}

/// Parses the rate of a link, from 10 kbps to 100 Gbps. The lowest rate carries a packet in about a
/// second.
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_rate(text: &str) -> Result<Rate, Invalid> {
    let rate: Rate = text.parse()?;
    if (10_000..=100_000_000_000).contains(&rate.bits_per_sec()) {
        Ok(rate)
    } else {
        Err(Invalid::value(text, "is out of range").hint("write a rate from 10kbps to 100Gbps"))
    }
}

impl PathEvent {
    /// Returns the time at which the event begins; `None` if it depends on the clients' handshakes.
    pub const fn at(&self) -> Option<Duration> {
        match *self {
            Self::Blackout { at, .. }
            | Self::Hold { at, .. }
            | Self::Mtu { at, .. }
            | Self::Rate { at, .. }
            | Self::UpRate { at, .. }
            | Self::Rtt { at, .. }
            | Self::Rebind { at } => Some(at),
            Self::RebindAfterHandshake => None,
        }
    }

    /// Returns whether the event affects packets outside the link, rather than the link's rate or a
    /// client's port.
    pub(super) const fn is_of_packets(&self) -> bool {
        matches!(
            self,
            Self::Blackout { .. } | Self::Hold { .. } | Self::Mtu { .. } | Self::Rtt { .. }
        )
    }

    /// Returns whether this event lets a datagram with `payload` bytes of UDP payload pass at
    /// `now`.
    pub fn lets_pass(&self, now: Time, payload: usize) -> bool {
        match *self {
            Self::Blackout { at, lasts, every } => left_of(now, at, lasts, every).is_none(),
            Self::Mtu { at, payload: most } => {
                now < Time::ZERO + at || payload <= usize::from(most)
            }
            _ => true,
        }
    }

    /// Returns the end of the hold in effect at `now`; `None` if this event holds no packets at
    /// `now`.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        match *self {
            Self::Hold { at, lasts, every } => {
                left_of(now, at, lasts, every).map(|left| now + left)
            }
            _ => None,
        }
    }
}

/// Returns how much time is left, at `now`, of a period that begins at `at`, lasts for `lasts`, and
/// may repeat. Returns `None` if the period is not in effect at `now`.
fn left_of(now: Time, at: Duration, lasts: Duration, every: Option<Duration>) -> Option<Duration> {
    let since = now.since(Time::ZERO).checked_sub(at)?;
    let into = every.map_or(since, |every| {
        Duration::from_nanos((since.as_nanos() % every.as_nanos().max(1)) as u64)
    });
    lasts.checked_sub(into).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn path_events_round_trip_through_text() {
        for text in [
            "blackout:2s@10s",
            "blackout:100ms@5s every 15s",
            "hold:166ms@2s",
            "hold:20ms@1s every 100ms",
            "mtu:1250@20s",
            "rate:5Mbps@10s",
            "up-rate:1Mbps@10s",
            "rtt:100ms@10s",
            "rebind@30s",
            "rebind@handshake",
            "blackout:500ms@1s",
        ] {
            assert_eq!(text.parse::<PathEvent>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "blackout",
            "blackout@2s",
            "blackout:2s",
            "blackout:2s@1s every 1s",
            "hold@2s",
            "hold:1s@1s every 500ms",
            "mtu:70000@1s",
            "mtu:12@1s",
            "mtu:1250@1s every 2s",
            "rate:1bps@1s",
            "rate:@1s",
            "rtt:5@1s",
            "rebind:1s@2s",
            "flood@1s",
        ] {
            assert!(text.parse::<PathEvent>().is_err(), "{text}");
        }
    }

    #[test]
    fn blackout_event_ends_and_repeats() {
        let once: PathEvent = "blackout:2s@10s".parse().unwrap();
        assert_eq!(
            [9.9, 10.0, 11.9, 12.0].map(|at| once.lets_pass(s(at), 1)),
            [true, false, false, true]
        );
        let again: PathEvent = "blackout:1s@5s every 15s".parse().unwrap();
        assert_eq!(
            [4.9, 5.5, 6.0, 20.5, 21.0].map(|at| again.lets_pass(s(at), 1)),
            [true, false, true, false, true]
        );
        let mtu: PathEvent = "mtu:1250@20s".parse().unwrap();
        assert_eq!((mtu.lets_pass(s(20.0), 1_251), mtu.lets_pass(s(99.0), 1_250)), (false, true));
    }
}
