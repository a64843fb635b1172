//! The `--timestamps` option: which timestamp extension to negotiate.

use std::fmt;
use std::str::FromStr;

use fathom_plugin::{EnableTimestamp, Extension, Offer};

/// How one-way delays are exchanged with the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Beside acknowledgements: in SYNC_TIMESTAMP frames, and in TIMESTAMP frames with others that have only those.
    #[default]
    Any,
    /// Beside acknowledgements, in SYNC_TIMESTAMP frames only.
    Lean,
    /// On every packet, in SYNC_TIMESTAMP frames, as Sync-TCP §3.2 has it.
    Paper,
    /// Beside acknowledgements, in TIMESTAMP frames only.
    Timestamp,
    /// Not at all.
    Off,
}

impl Timestamps {
    const ALL: [(&'static str, Self); 5] = [
        ("any", Self::Any),
        ("lean", Self::Lean),
        ("paper", Self::Paper),
        ("timestamp", Self::Timestamp),
        ("off", Self::Off),
    ];

    /// What the transport parameters say.
    pub(crate) fn extension(self) -> Extension {
        match self {
            Self::Any => Extension::default(),
            Self::Lean => Extension { offer: Some(Offer::Lean), ..Extension::OFF },
            Self::Paper => Extension { offer: Some(Offer::Paper), ..Extension::OFF },
            Self::Timestamp => Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF },
            Self::Off => Extension::OFF,
        }
    }
}

impl fmt::Display for Timestamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, mode)| mode == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

impl FromStr for Timestamps {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == s).map(|(_, mode)| *mode);
        found.ok_or_else(|| {
            let s = s.escape_debug();
            format!("'{s}' is no way to exchange timestamps; write any, lean, paper, timestamp or off")
        })
    }
}
