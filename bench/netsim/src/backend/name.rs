//! Where a run takes place: in simulated time, over the kernel's loopback, or over the kernel's own links.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which clock a run uses, and what carries its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Backend {
    /// Virtual time and simulated links: the same plan gives the same bytes.
    #[default]
    Virtual,
    /// Real time and simulated links; every datagram crosses the kernel's loopback on its way in and out.
    Loopback,
    /// Real time and the kernel's links: network namespaces and tc.
    Netem,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 3] = [Self::Virtual, Self::Loopback, Self::Netem];

    /// Its name on the command line and in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Loopback => "loopback",
            Self::Netem => "netem",
        }
    }

    /// Runs in virtual time.
    pub fn is_virtual(&self) -> bool {
        *self == Self::Virtual
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if s == "relay" {
            return Err("the backend 'relay' is now called 'loopback'; write loopback".to_owned());
        }
        let found = Self::ALL.into_iter().find(|backend| backend.name() == s);
        found.ok_or_else(|| format!("'{}' is not a backend; write virtual, loopback or netem", s.escape_debug()))
    }
}

impl TryFrom<String> for Backend {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl From<Backend> for &'static str {
    fn from(backend: Backend) -> Self {
        backend.name()
    }
}
