//! What goes wrong at a set time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_units::{duration_text, parse_duration};

/// A fault as users write it: `blackout:2s@10s`, `mtu:1250@20s`, `rebind@30s`, `rebind@handshake`. Times count from the relay's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing passes for a while, in neither direction.
    Blackout {
        /// When it begins.
        at: Duration,
        /// How long it lasts.
        lasts: Duration,
    },
    /// From now on, larger datagrams vanish. Bytes of UDP payload.
    Mtu {
        /// When it begins.
        at: Duration,
        /// The largest that passes.
        payload: u16,
    },
    /// The server sees every client at a new port, as after a NAT has forgotten them.
    Rebind {
        /// When.
        at: Duration,
    },
    /// The same for each client by itself, right after its handshake, and what is on its way to the old port is lost.
    RebindAfterHandshake,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blackout { at, lasts } => write!(f, "blackout:{}@{}", duration_text(*lasts), duration_text(*at)),
            Self::Mtu { at, payload } => write!(f, "mtu:{payload}@{}", duration_text(*at)),
            Self::Rebind { at } => write!(f, "rebind@{}", duration_text(*at)),
            Self::RebindAfterHandshake => write!(f, "rebind@handshake"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let help =
            || format!("'{s}' is not a fault; write blackout:2s@10s, mtu:1250@20s, rebind@30s or rebind@handshake");
        if s == "rebind@handshake" {
            return Ok(Self::RebindAfterHandshake);
        }
        let (what, at) = s.split_once('@').ok_or_else(help)?;
        let at = parse_duration(at)?;
        match what.split_once(':').unwrap_or((what, "")) {
            ("blackout", lasts) => Ok(Self::Blackout { at, lasts: parse_duration(lasts)? }),
            ("mtu", payload) => {
                let payload =
                    payload.parse().ok().filter(|p| (500..=9_000).contains(p)).ok_or_else(|| {
                        format!("'{s}': an MTU is a payload of 500 to 9000 bytes; write mtu:1250@20s")
                    })?;
                Ok(Self::Mtu { at, payload })
            }
            ("rebind", "") => Ok(Self::Rebind { at }),
            _ => Err(help()),
        }
    }
}

/// Faults in force.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    rebound: u32,
}

impl Faults {
    /// These faults, none of which has happened yet.
    pub const fn new(faults: Vec<Fault>) -> Self {
        Self { faults, rebound: 0 }
    }

    /// A datagram of this size passes now.
    pub fn let_pass(&self, now: Duration, payload: usize) -> bool {
        self.faults.iter().all(|fault| match *fault {
            Fault::Blackout { at, lasts } => now < at || now >= at + lasts,
            Fault::Mtu { at, payload: most } => now < at || payload <= usize::from(most),
            Fault::Rebind { .. } | Fault::RebindAfterHandshake => true,
        })
    }

    /// A rebinding is due that has not been reported.
    pub fn rebind(&mut self, now: Duration) -> bool {
        let due = self.faults.iter().filter(|fault| matches!(fault, Fault::Rebind { at } if *at <= now)).count() as u32;
        let new = due > self.rebound;
        self.rebound = due;
        new
    }

    /// Clients are rebound when their handshake is over.
    pub fn rebinds_after_handshake(&self) -> bool {
        self.faults.contains(&Fault::RebindAfterHandshake)
    }

    /// When the next rebinding is due after `now`.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let times = self.faults.iter().filter_map(|fault| match fault {
            Fault::Rebind { at } if *at > now => Some(*at),
            _ => None,
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["blackout:2s@10s", "mtu:1250@20s", "rebind@30s", "rebind@handshake", "blackout:500ms@1s"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in
            ["", "blackout", "blackout@2s", "blackout:2s", "mtu:70000@1s", "mtu:12@1s", "rebind:1s@2s", "flood@1s"]
        {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_blackout_ends_and_a_small_mtu_stays() {
        let faults = Faults::new(vec!["blackout:2s@10s".parse().unwrap(), "mtu:1250@20s".parse().unwrap()]);
        let pass = |at, bytes| faults.let_pass(s(at), bytes);
        assert_eq!((pass(9.9, 1_400), pass(10.0, 1), pass(11.9, 1), pass(12.0, 1_400)), (true, false, false, true));
        assert_eq!((pass(20.0, 1_251), pass(99.0, 1_250)), (false, true));
    }

    #[test]
    fn a_rebinding_is_reported_once() {
        let mut faults = Faults::new(vec!["rebind@1s".parse().unwrap(), "rebind@3s".parse().unwrap()]);
        assert_eq!((faults.rebind(s(0.5)), faults.next(s(0.5))), (false, Some(s(1.0))));
        assert_eq!((faults.rebind(s(1.0)), faults.rebind(s(1.5)), faults.next(s(1.5))), (true, false, Some(s(3.0))));
        assert_eq!((faults.rebind(s(9.0)), faults.rebind(s(9.0)), faults.next(s(9.0))), (true, false, None));
    }
}
