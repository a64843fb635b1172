//! The `--timestamps` option: which timestamp extension to negotiate.

use fathom_plugin::{EnableTimestamp, Extension, Offer, ReceiveTimestamps};

/// How one-way delays are exchanged with the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown)]
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
    /// In acknowledgements, which say when packets arrived: in ACK_RECEIVE_TIMESTAMPS frames only.
    Receive,
    /// Not at all.
    Off,
}

impl Timestamps {
    /// What the transport parameters say.
    pub(crate) fn extension(self) -> Extension {
        match self {
            Self::Any => Extension::default(),
            Self::Lean => Extension { offer: Some(Offer::Lean), ..Extension::OFF },
            Self::Paper => Extension { offer: Some(Offer::Paper), ..Extension::OFF },
            Self::Timestamp => {
                Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF }
            }
            Self::Receive => Extension {
                receive_timestamps: Some(ReceiveTimestamps::default()),
                ..Extension::OFF
            },
            Self::Off => Extension::OFF,
        }
    }
}

fn unknown(s: &str) -> String {
    let s = s.escape_debug();
    format!(
        "'{s}' is no way to exchange timestamps; write any, lean, paper, timestamp, receive or off"
    )
}
