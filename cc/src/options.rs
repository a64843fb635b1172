//! A controller's entry: what it is, where it comes from, its options, and the values a user chose.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Capabilities, ControllerConfig};
use crate::units::{Ratio, duration_text, parse_duration};

/// One controller of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Name, as users type it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Citation of its source.
    pub source: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Signals it needs with all options at their defaults.
    pub required: Capabilities,
    /// Makes the configuration from options that are already checked.
    pub build: fn(&ParsedOptions<'_>) -> Arc<dyn ControllerConfig>,
}

/// One option of a controller.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name, as users type it.
    pub name: &'static str,
    /// Value when it is not given.
    pub default: &'static str,
    /// Values it takes.
    pub values: Values,
    /// What it does, in one line.
    pub about: &'static str,
}

/// Values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A duration with its unit, between these two, both included.
    Duration {
        /// Smallest.
        min: Duration,
        /// Largest.
        max: Duration,
    },
    /// A whole number between these two, both included.
    Integer {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// A decimal fraction such as `0.875` between these two, both included.
    Fraction {
        /// Smallest.
        min: Ratio,
        /// Largest.
        max: Ratio,
    },
}

impl Values {
    /// Whether `text` is one of these values.
    pub fn allow(&self, text: &str) -> bool {
        match self {
            Self::Choice(words) => words.contains(&text),
            Self::Duration { min, max } => parse_duration(text).is_ok_and(|d| (*min..=*max).contains(&d)),
            Self::Integer { min, max } => parse_integer(text).is_some_and(|n| (*min..=*max).contains(&n)),
            Self::Fraction { min, max } => {
                Ratio::from_decimal(text).is_some_and(|r| min.compare(r).is_le() && r.compare(*max).is_le())
            }
        }
    }

    /// Whether `a` and `b`, both allowed, mean the same.
    fn same(&self, a: &str, b: &str) -> bool {
        match self {
            Self::Choice(_) => a == b,
            Self::Duration { .. } => parse_duration(a) == parse_duration(b),
            Self::Integer { .. } => parse_integer(a) == parse_integer(b),
            Self::Fraction { .. } => match (Ratio::from_decimal(a), Ratio::from_decimal(b)) {
                (Some(a), Some(b)) => a.compare(b).is_eq(),
                (a, b) => a == b,
            },
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(words) => f.write_str(&words.join(" | ")),
            Self::Duration { min, max } => write!(f, "{} to {}", duration_text(*min), duration_text(*max)),
            Self::Integer { min, max } => write!(f, "whole numbers, {min} to {max}"),
            Self::Fraction { min, max } => write!(f, "numbers, {} to {}", min.decimal(), max.decimal()),
        }
    }
}

/// The options a user chose for one controller, names and values checked; the rest are at their defaults.
#[derive(Debug)]
pub struct ParsedOptions<'a> {
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) given: Vec<(&'static OptionInfo, &'a str)>,
    pub(crate) inner: Option<Arc<dyn ControllerConfig>>,
}

impl ParsedOptions<'_> {
    /// The value of `option`, given or default.
    ///
    /// # Panics
    /// If the entry does not list `option`: an error in the controller's file.
    pub fn text(&self, option: &str) -> &str {
        let info = info(self.algorithm, option);
        self.given.iter().find(|(given, _)| given.name == option).map_or(info.default, |(_, text)| text)
    }

    /// Whether the user gave `option`: for defaults that hang on another option.
    pub fn is_given(&self, option: &str) -> bool {
        self.given.iter().any(|(given, _)| given.name == option)
    }

    /// The value of a [`Values::Choice`], of which `all` lists the meanings in the same order.
    ///
    /// # Panics
    /// If the entry's words and `all` do not match: an error in the controller's file.
    pub fn choice<T: Copy>(&self, option: &str, all: &[T]) -> T {
        let Values::Choice(words) = info(self.algorithm, option).values else {
            panic!("option '{option}' of '{}' is not a choice", self.algorithm.name)
        };
        let text = self.text(option);
        let at = words.iter().position(|word| *word == text).expect("the value was checked");
        all[at]
    }

    /// The value of a [`Values::Duration`].
    ///
    /// # Panics
    /// If the option is something else: an error in the controller's file.
    pub fn duration(&self, option: &str) -> Duration {
        parse_duration(self.text(option)).expect("the value was checked")
    }

    /// The value of a [`Values::Integer`].
    ///
    /// # Panics
    /// If the option is something else: an error in the controller's file.
    pub fn integer(&self, option: &str) -> u32 {
        parse_integer(self.text(option)).expect("the value was checked")
    }

    /// The value of a [`Values::Fraction`].
    ///
    /// # Panics
    /// If the option is something else: an error in the controller's file.
    pub fn fraction(&self, option: &str) -> Ratio {
        Ratio::from_decimal(self.text(option)).expect("the value was checked")
    }

    /// The configuration that a wrapper is put around; only entries that wrap have one.
    ///
    /// # Panics
    /// In the file of a controller that wraps nothing.
    pub fn inner(&self) -> Arc<dyn ControllerConfig> {
        self.inner.clone().expect("wrappers are always given one")
    }
}

/// Digits only: no sign, no blanks.
fn parse_integer(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn info(algorithm: &Algorithm, option: &str) -> &'static OptionInfo {
    algorithm
        .options
        .iter()
        .find(|info| info.name == option)
        .unwrap_or_else(|| panic!("'{}' lists no option '{option}'", algorithm.name))
}

/// Writes a spec: the name, and those of `values` (every option of the entry) that differ from their defaults.
pub fn spec_text(algorithm: &Algorithm, values: &[(&str, String)]) -> String {
    let mut text = algorithm.name.to_owned();
    let mut separator = ':';
    for (option, value) in values {
        let info = info(algorithm, option);
        if !info.values.same(info.default, value) {
            text.push(separator);
            text.push_str(&format!("{option}={value}"));
            separator = ',';
        }
    }
    text
}

/// An option's enum together with the words users type: `ALL` and `NAMES` in the same order, and `name()`.
macro_rules! choices {
    (
        $(#[$meta:meta])* pub enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Their words, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The word users type.
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}
pub(crate) use choices;
