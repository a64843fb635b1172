//! Where a run happens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a run happens: which clock it goes by, and what its packets travel through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// Virtual time, the lab's links: the same plan gives the same bytes.
    #[default]
    Virtual,
    /// Real time, the lab's links; every datagram crosses the kernel's loopback on its way in and out.
    Relay,
    /// Real time, the kernel's links: network namespaces and tc.
    Netem,
}

impl Ground {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Virtual, Self::Relay, Self::Netem];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Relay => "relay",
            Self::Netem => "netem",
        }
    }

    /// It is virtual.
    pub fn is_virtual(&self) -> bool {
        *self == Self::Virtual
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ground {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|ground| ground.name() == s);
        found.ok_or_else(|| format!("'{}' is not a world; write virtual, relay or netem", s.escape_debug()))
    }
}
