//! The backends by name: virtual time, the kernel's loopback, or the kernel's own links.

use fathom_units::Invalid;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Backend of a run, which provides the clock and carries the packets.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = unknown)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Backend {
    /// Virtual time and simulated links. The same plan gives the same bytes.
    #[default]
    Virtual,
    /// Real time and simulated links. Every datagram crosses the kernel's loopback on its way in
    /// and out.
    Loopback,
    /// Real time and the kernel's own links, made of network namespaces and tc.
    Netem,
}

impl Backend {
    /// Every backend.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns whether runs are in virtual time.
    pub fn is_virtual(&self) -> bool {
        *self == Self::Virtual
    }
}

fn unknown(s: &str) -> Invalid {
    if s == "relay" {
        return Invalid::because("the backend 'relay' is now called 'loopback'")
            .hint("write loopback");
    }
    Invalid::value(s, "is not a backend").hint("write virtual, loopback or netem")
}

impl TryFrom<String> for Backend {
    type Error = Invalid;
    fn try_from(s: String) -> Result<Self, Invalid> {
        s.parse()
    }
}
