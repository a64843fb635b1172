//! The stacks by name.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Capabilities;
use fathom_plugin::with_shaping_socket;
use serde::{Deserialize, Serialize};

/// A QUIC stack. Whoever runs stacks has an arm for each that it runs, and says of the others that it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum Stack {
    /// quinn 0.11 with rustls.
    #[default]
    Quinn,
    /// noq 1.4 with rustls.
    Noq,
    /// quiche 0.30 with BoringSSL.
    #[cfg(feature = "quiche")]
    Quiche,
    /// No QUIC: TCP at packet level under our controllers, in the laboratory only.
    Tcp,
}

/// What is known of a stack.
struct Entry {
    stack: Stack,
    name: &'static str,
    /// Capabilities that the stack delivers to our controllers.
    provided: Capabilities,
    natives: &'static [&'static str],
    on_rustls: bool,
    /// It runs everywhere: `serve`, `load` and interop have it. The others run in the laboratory.
    everywhere: bool,
}

/// Every stack that is built in, in the order of the enum: first those that run everywhere.
const TABLE: &[Entry] = &[
    Entry {
        stack: Stack::Quinn,
        name: "quinn",
        provided: fathom_quinn::PROVIDED,
        natives: &["new-reno", "cubic", "bbr"],
        on_rustls: true,
        everywhere: true,
    },
    Entry {
        stack: Stack::Noq,
        name: "noq",
        provided: fathom_noq::PROVIDED,
        natives: &["new-reno", "cubic", "bbr3"],
        on_rustls: true,
        everywhere: true,
    },
    #[cfg(feature = "quiche")]
    Entry {
        stack: Stack::Quiche,
        name: "quiche",
        provided: ::quiche::fathom::PROVIDED,
        natives: &["reno", "cubic", "bbr2"],
        on_rustls: false,
        everywhere: true,
    },
    Entry {
        stack: Stack::Tcp,
        name: "tcp",
        // ECN where a scenario asks for the accurate one.
        provided: Capabilities { one_way: true, ecn: true, pacing: true, datagram: true },
        natives: &[],
        on_rustls: false,
        everywhere: false,
    },
];

/// Stacks behind a feature of their name, and what building them takes.
const OPTIONAL: &[(&str, &str)] = &[("quiche", "cmake and libclang-dev")];

impl Stack {
    /// Every stack that is built in.
    pub const BUILT_IN: &'static [Self] = &{
        let mut all = [Self::Quinn; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].stack;
            at += 1;
        }
        all
    };

    /// Stacks that run everywhere: users call them `all`. TCP runs in the laboratory only.
    pub const ALL: &'static [Self] = {
        let mut count = 0;
        while count < TABLE.len() && TABLE[count].everywhere {
            count += 1;
        }
        Self::BUILT_IN.split_at(count).0
    };

    const fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name users type.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// It runs everywhere, not only in the laboratory.
    pub const fn is_everywhere(self) -> bool {
        self.entry().everywhere
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
        let chosen = Self::BUILT_IN.iter().copied().filter(|stack| choose(*stack));
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
        if let Some(stack) = Self::BUILT_IN.iter().copied().find(|stack| stack.name() == s) {
            return Ok(stack);
        }
        match OPTIONAL.iter().find(|(name, _)| *name == s) {
            Some((name, tools)) => Err(format!(
                "this build has no {name}; build with --features {name} (needs {tools}), or write {names}"
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
        for stack in Stack::BUILT_IN {
            assert_eq!(stack.entry().stack, *stack);
            assert_eq!(stack.name().parse(), Ok(*stack));
            assert_eq!(stack.is_everywhere(), Stack::ALL.contains(stack));
        }
    }
}
