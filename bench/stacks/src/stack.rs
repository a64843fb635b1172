//! The stacks by name.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Capabilities;
use fathom_plugin::with_shaping_socket;
use serde::{Deserialize, Serialize};

/// A QUIC stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Stack {
    /// quinn 0.11 with rustls.
    #[default]
    Quinn,
    /// noq 1.4 with rustls.
    Noq,
    /// quiche 0.30 with BoringSSL.
    #[cfg(feature = "quiche")]
    Quiche,
}

/// What is known of a stack.
struct Entry {
    stack: Stack,
    name: &'static str,
    provided: Capabilities,
    natives: &'static [&'static str],
    on_rustls: bool,
}

/// Every stack that is built in, in the order of the enum.
const TABLE: &[Entry] = &[
    Entry {
        stack: Stack::Quinn,
        name: "quinn",
        provided: fathom_quinn::PROVIDED,
        natives: crate::quinn::NATIVES,
        on_rustls: true,
    },
    Entry {
        stack: Stack::Noq,
        name: "noq",
        provided: fathom_noq::PROVIDED,
        natives: crate::noq::NATIVES,
        on_rustls: true,
    },
    #[cfg(feature = "quiche")]
    Entry {
        stack: Stack::Quiche,
        name: "quiche",
        provided: ::quiche::fathom::PROVIDED,
        natives: crate::quiche::NATIVES,
        on_rustls: false,
    },
];

impl Stack {
    /// Every stack that is built in.
    pub const ALL: &'static [Self] = &{
        let mut all = [Self::Quinn; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].stack;
            at += 1;
        }
        all
    };

    const fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name users type.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// What the stack by itself delivers to a controller and honours of its advice.
    pub const fn provided(self) -> Capabilities {
        self.entry().provided
    }

    /// What it offers when its endpoint sends through a shaping socket, which cuts datagrams and keeps them back.
    pub const fn provided_with_shaping(self) -> Capabilities {
        with_shaping_socket(self.provided())
    }

    /// The stack's own controllers, as `native:NAME` has them.
    pub const fn natives(self) -> &'static [&'static str] {
        self.entry().natives
    }

    /// Its TLS is rustls.
    pub const fn on_rustls(self) -> bool {
        self.entry().on_rustls
    }

    /// The names of the stacks for which `choose` holds, as a list in a sentence.
    pub fn names(choose: impl Fn(Self) -> bool) -> String {
        let chosen = Self::ALL.iter().copied().filter(|stack| choose(*stack));
        chosen.map(Self::name).collect::<Vec<_>>().join(" or ")
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stack {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let names = Self::names(|_| true);
        match Self::ALL.iter().copied().find(|stack| stack.name() == s) {
            Some(stack) => Ok(stack),
            None if s == "quiche" => Err(format!(
                "this build has no quiche; build with --features quiche (needs cmake and libclang-dev), or write {names}"
            )),
            None => Err(format!("'{}' is not a stack; write {names}", s.escape_debug())),
        }
    }
}

impl TryFrom<String> for Stack {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl From<Stack> for &'static str {
    fn from(stack: Stack) -> Self {
        stack.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for stack in Stack::ALL {
            assert_eq!(stack.entry().stack, *stack);
            assert_eq!(stack.name().parse(), Ok(*stack));
        }
    }
}
