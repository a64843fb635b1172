//! The `--timestamps` option: which timestamp extension to negotiate.

use fathom_cc::Invalid;
use fathom_plugin::{EnableTimestamp, Extension, Offer, ReceiveTimestamps};

/// Exchange of one-way delays with the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = unknown)]
pub enum Timestamps {
    /// Timestamps next to acknowledgements, in SYNC_TIMESTAMP frames, or in TIMESTAMP frames with
    /// peers that support only those.
    #[default]
    Any,
    /// Timestamps next to acknowledgements, only in SYNC_TIMESTAMP frames.
    Lean,
    /// Timestamps on every packet, in SYNC_TIMESTAMP frames, as described in Sync-TCP §3.2.
    Paper,
    /// Timestamps next to acknowledgements, only in TIMESTAMP frames.
    Timestamp,
    /// Arrival times of packets in acknowledgements, only in ACK_RECEIVE_TIMESTAMPS frames.
    Receive,
    /// No exchange of one-way delays.
    Off,
}

impl Timestamps {
    /// Returns the transport parameters for this choice.
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

fn unknown(s: &str) -> Invalid {
    Invalid::value(s, "is not a timestamp mode")
        .hint("write any, lean, paper, timestamp, receive or off")
}
