//! The stacks by name, with their capabilities and their own controllers.

use std::fmt;
use std::str::FromStr;

use fathom_cc::{Capabilities, Invalid};
use fathom_plugin::with_shaping_socket;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// A stack. Code that runs stacks implements [`UseOfStack`](crate::UseOfStack) and calls
/// [`Stack::with`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray,
)]
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
    /// No QUIC but packet-level TCP under our controllers, only in the laboratory. All stacks
    /// before this one run everywhere.
    Tcp,
}

/// Properties of a stack.
struct Properties {
    name: &'static str,
    /// The crates that make up the stack, with their versions.
    crates: &'static str,
    /// Capabilities that the stack provides to our controllers.
    provided: Capabilities,
    natives: &'static [&'static str],
    /// The stack's own controllers that draw random numbers from the operating system and cannot be
    /// given a seed.
    unseeded: &'static [&'static str],
    on_rustls: bool,
    /// Whether `serve`, `load` and interop run the stack. Other stacks run only in the laboratory.
    everywhere: bool,
    /// Whether the stack needs MTU discovery to find smaller packets after a path's MTU has become
    /// smaller. Other stacks detect such black holes without MTU discovery.
    needs_mtu_discovery: bool,
}

/// Stacks behind a feature of the same name, with the build tools that each needs.
const OPTIONAL: &[(&str, &str)] = &[("quiche", "cmake and libclang-dev")];

impl Stack {
    /// Every built-in stack.
    pub const BUILT_IN: &'static [Self] = Self::VARIANTS;

    /// Stacks that run everywhere, which users call `all`. TCP runs only in the laboratory.
    pub const ALL: &'static [Self] = Self::BUILT_IN.split_at(Self::Tcp as usize).0;

    const fn properties(self) -> &'static Properties {
        match self {
            Self::Quinn => &Properties {
                name: "quinn",
                crates: env!("FATHOM_CRATES_QUINN"),
                provided: fathom_quinn::PROVIDED,
                natives: &["new-reno", "cubic", "bbr"],
                // quinn-proto 0.11.19 draws the first phase of the gain cycle.
                unseeded: &["bbr"],
                on_rustls: true,
                everywhere: true,
                needs_mtu_discovery: false,
            },
            Self::Noq => &Properties {
                name: "noq",
                crates: env!("FATHOM_CRATES_NOQ"),
                provided: fathom_noq::PROVIDED,
                natives: &["new-reno", "cubic", "bbr3"],
                // noq-proto 1.4.0 draws the time between two probes. `Bbr3Config` has a seed, but
                // no setter for it.
                unseeded: &["bbr3"],
                on_rustls: true,
                everywhere: true,
                needs_mtu_discovery: false,
            },
            #[cfg(feature = "quiche")]
            Self::Quiche => &Properties {
                name: "quiche",
                crates: env!("FATHOM_CRATES_QUICHE"),
                provided: ::quiche::fathom::PROVIDED,
                natives: &["reno", "cubic", "bbr2"],
                unseeded: &[],
                on_rustls: false,
                everywhere: true,
                needs_mtu_discovery: true,
            },
            Self::Tcp => &Properties {
                name: "tcp",
                crates: concat!("fathom ", env!("CARGO_PKG_VERSION")),
                // Provides ECN counts if a scenario requests accurate ECN.
                provided: Capabilities::ALL,
                natives: &[],
                unseeded: &[],
                on_rustls: false,
                everywhere: false,
                needs_mtu_discovery: false,
            },
        }
    }

    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Returns the crates that make up the stack, with their versions:
    /// `quinn 0.11.9, quinn-proto 0.11.13`.
    pub const fn crates(self) -> &'static str {
        self.properties().crates
    }

    /// Returns whether the stack runs everywhere, not only in the laboratory.
    pub const fn is_everywhere(self) -> bool {
        self.properties().everywhere
    }

    /// Returns the capabilities without a shaping socket: signals that the stack delivers to a
    /// controller and send parameters that it honours.
    pub const fn provided(self) -> Capabilities {
        self.properties().provided
    }

    /// Returns the capabilities of an endpoint that sends through a shaping socket, which trims and
    /// delays datagrams.
    pub const fn provided_with_shaping(self) -> Capabilities {
        with_shaping_socket(self.provided())
    }

    /// Returns the names of the stack's own controllers, as in `native:NAME`.
    pub const fn natives(self) -> &'static [&'static str] {
        self.properties().natives
    }

    /// Returns whether the stack's own controller `native` draws random numbers that no seed
    /// determines. Two runs of the same scenario with the same seed then differ.
    pub fn is_unseeded(self, native: &str) -> bool {
        self.properties().unseeded.contains(&native)
    }

    /// Returns whether the stack's TLS is rustls.
    pub const fn on_rustls(self) -> bool {
        self.properties().on_rustls
    }

    /// Returns whether the stack needs MTU discovery to find smaller packets after a path's MTU has
    /// become smaller.
    pub const fn needs_mtu_discovery(self) -> bool {
        self.properties().needs_mtu_discovery
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
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let names = Self::names(|_| true);
        if let Some(stack) = Self::BUILT_IN.iter().copied().find(|stack| stack.name() == s) {
            return Ok(stack);
        }
        Err(match OPTIONAL.iter().find(|(name, _)| *name == s) {
            Some((name, tools)) => Invalid::because(format!("this build has no {name}"))
                .hint(format!("build with --features {name} (needs {tools}), or write {names}")),
            None => Invalid::value(s, "is not a stack").hint(format!("write {names}")),
        })
    }
}

impl TryFrom<String> for Stack {
    type Error = Invalid;

    fn try_from(s: String) -> Result<Self, Invalid> {
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
    fn properties_of_every_stack_are_consistent() {
        for stack in Stack::BUILT_IN {
            assert_eq!(stack.name().parse(), Ok(*stack));
            assert_eq!(stack.is_everywhere(), Stack::ALL.contains(stack));
            let properties = stack.properties();
            let natives = properties.natives;
            assert!(properties.unseeded.iter().all(|native| natives.contains(native)));
        }
    }

    #[test]
    fn versions_of_stack_crates_are_found() {
        let (quinn, noq) = (Stack::Quinn.crates(), Stack::Noq.crates());
        assert!(quinn.starts_with("quinn 0.11.") && quinn.contains("quinn-proto 0.11."), "{quinn}");
        assert!(noq.starts_with("noq 1."), "{noq}");
        assert!(Stack::Tcp.crates().starts_with("fathom "));
    }
}
