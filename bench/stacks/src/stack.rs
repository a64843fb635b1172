//! The QUIC stacks by name, with their capabilities and their own controllers.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Capabilities;
use fathom_plugin::with_shaping_socket;
use serde::{Deserialize, Serialize};

/// A QUIC stack. Code that runs stacks has a match arm for each stack it supports and returns an
/// error for the others.
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
    /// No QUIC: packet-level TCP under our controllers, in the laboratory only.
    Tcp,
}

/// A stack's row in [`TABLE`].
struct Entry {
    stack: Stack,
    name: &'static str,
    /// Capabilities that the stack provides to our controllers.
    provided: Capabilities,
    natives: &'static [&'static str],
    /// The own controllers that take random numbers from the operating system, with no way to set
    /// a seed.
    unseeded: &'static [&'static str],
    on_rustls: bool,
    /// Whether `serve`, `load` and interop run the stack. Other stacks run only in the laboratory.
    everywhere: bool,
}

/// Every built-in stack, in the order of the enum. Stacks that run everywhere come first.
const TABLE: &[Entry] = &[
    Entry {
        stack: Stack::Quinn,
        name: "quinn",
        provided: fathom_quinn::PROVIDED,
        natives: &["new-reno", "cubic", "bbr"],
        // quinn-proto 0.11.19: the first phase of the gain cycle.
        unseeded: &["bbr"],
        on_rustls: true,
        everywhere: true,
    },
    Entry {
        stack: Stack::Noq,
        name: "noq",
        provided: fathom_noq::PROVIDED,
        natives: &["new-reno", "cubic", "bbr3"],
        // noq-proto 1.4.0: the time between two probes; `Bbr3Config` has a seed, but no setter.
        unseeded: &["bbr3"],
        on_rustls: true,
        everywhere: true,
    },
    #[cfg(feature = "quiche")]
    Entry {
        stack: Stack::Quiche,
        name: "quiche",
        provided: ::quiche::fathom::PROVIDED,
        natives: &["reno", "cubic", "bbr2"],
        unseeded: &[],
        on_rustls: false,
        everywhere: true,
    },
    Entry {
        stack: Stack::Tcp,
        name: "tcp",
        // ECN if a scenario requests accurate ECN.
        provided: Capabilities { one_way: true, ecn: true, pacing: true, datagram: true },
        natives: &[],
        unseeded: &[],
        on_rustls: false,
        everywhere: false,
    },
];

/// Stacks behind a feature of the same name, with the build tools that each needs.
const OPTIONAL: &[(&str, &str)] = &[("quiche", "cmake and libclang-dev")];

impl Stack {
    /// Every built-in stack.
    pub const BUILT_IN: &'static [Self] = &{
        let mut all = [Self::Quinn; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].stack;
            at += 1;
        }
        all
    };

    /// Stacks that run everywhere, which users call `all`. TCP runs only in the laboratory.
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

    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns whether the stack runs everywhere, not only in the laboratory.
    pub const fn is_everywhere(self) -> bool {
        self.entry().everywhere
    }

    /// Returns the capabilities without a shaping socket: signals that the stack delivers to a
    /// controller and send parameters that it honours.
    pub const fn provided(self) -> Capabilities {
        self.entry().provided
    }

    /// Returns the capabilities if the endpoint sends through a shaping socket, which trims and
    /// delays datagrams.
    pub const fn provided_with_shaping(self) -> Capabilities {
        with_shaping_socket(self.provided())
    }

    /// Returns the names of the stack's own controllers, as in `native:NAME`.
    pub const fn natives(self) -> &'static [&'static str] {
        self.entry().natives
    }

    /// Returns whether the stack's own controller `native` draws random numbers that no seed sets.
    /// Two runs of one scenario with one seed then differ.
    pub fn is_unseeded(self, native: &str) -> bool {
        self.entry().unseeded.contains(&native)
    }

    /// Returns whether the stack's TLS is rustls.
    pub const fn on_rustls(self) -> bool {
        self.entry().on_rustls
    }

    /// Returns the names of the stacks for which `choose` returns true, as a list for a sentence.
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
            let entry = stack.entry();
            assert!(entry.unseeded.iter().all(|native| entry.natives.contains(native)));
        }
    }
}
