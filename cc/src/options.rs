//! Options of controllers, and the values that a user chose.
//!
//! Each option is declared once, as a field of `options!` or `rule_options!`, with its name,
//! default, values and help text. If the option is a choice, its words come from an enum declared
//! with `option_values!`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ControllerConfig;
use crate::units::{Ratio, duration_text, parse_duration};

/// One option of a controller.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name, as users type it.
    pub name: &'static str,
    /// Value if the option is not given.
    pub default: &'static str,
    /// Values that the option accepts.
    pub values: Values,
    /// Help text in one line.
    pub about: &'static str,
}

/// Values that an option accepts.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A duration with its unit, from `min` to `max` inclusive.
    Duration {
        /// Smallest duration.
        min: Duration,
        /// Largest duration.
        max: Duration,
    },
    /// A whole number from `min` to `max` inclusive.
    Integer {
        /// Smallest number.
        min: u32,
        /// Largest number.
        max: u32,
    },
    /// A decimal fraction such as `0.875`, from `min` to `max` inclusive.
    Fraction {
        /// Smallest fraction.
        min: Ratio,
        /// Largest fraction.
        max: Ratio,
    },
}

impl Values {
    /// Returns whether `text` is one of these values.
    pub fn allow(&self, text: &str) -> bool {
        match self {
            Self::Choice(words) => words.contains(&text),
            Self::Duration { min, max } => {
                parse_duration(text).is_ok_and(|d| (*min..=*max).contains(&d))
            }
            Self::Integer { min, max } => {
                parse_integer(text).is_some_and(|n| (*min..=*max).contains(&n))
            }
            Self::Fraction { min, max } => Ratio::from_decimal(text)
                .is_some_and(|r| min.compare(r).is_le() && r.compare(*max).is_le()),
        }
    }

    /// Returns whether two allowed texts stand for the same value.
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
            Self::Duration { min, max } => {
                write!(f, "{} to {}", duration_text(*min), duration_text(*max))
            }
            Self::Integer { min, max } => write!(f, "whole numbers, {min} to {max}"),
            Self::Fraction { min, max } => {
                write!(f, "numbers, {} to {}", min.decimal(), max.decimal())
            }
        }
    }
}

/// The options that a user gave for one controller, with names and values checked. Options not
/// given have their defaults.
#[derive(Debug, Default)]
pub struct ParsedOptions<'a> {
    pub(crate) given: Vec<(&'static OptionInfo, &'a str)>,
    pub(crate) inner: Option<Arc<dyn ControllerConfig>>,
}

impl ParsedOptions<'_> {
    /// Returns the text that the user gave for `option`, for defaults that depend on another
    /// option.
    pub fn given(&self, option: &OptionInfo) -> Option<&str> {
        self.given.iter().find(|(given, _)| given.name == option.name).map(|(_, text)| *text)
    }

    /// Returns the configuration that a wrapper wraps.
    ///
    /// # Panics
    /// Panics if the controller is not a wrapper.
    pub fn inner(&self) -> Arc<dyn ControllerConfig> {
        self.inner.clone().expect("wrappers are always given one")
    }
}

/// Parses digits only: no sign and no blanks.
fn parse_integer(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A type of option values.
pub trait OptionValue: Sized {
    /// Parses a value as users type it; `None` if it is invalid.
    fn parse(text: &str) -> Option<Self>;

    /// Returns the value as users type it.
    fn text(&self) -> String;

    /// Returns the nearest value that `values` allows.
    #[must_use]
    fn within(self, _values: &Values) -> Self {
        self
    }

    /// Returns the value of `option`, given or default.
    ///
    /// # Panics
    /// Panics if the entry's default is not a value of the option, which is an error in the
    /// controller's file.
    fn read(parsed: &ParsedOptions<'_>, option: &OptionInfo) -> Self {
        Self::parse(parsed.given(option).unwrap_or(option.default))
            .expect("values are checked before they are read")
    }

    /// Returns the value as users type it, or `None` if it is the default.
    fn given(&self, option: &OptionInfo) -> Option<String> {
        Some(self.text()).filter(|text| !option.values.same(option.default, text))
    }
}

impl OptionValue for u32 {
    fn parse(text: &str) -> Option<Self> {
        parse_integer(text)
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn within(self, values: &Values) -> Self {
        if let Values::Integer { min, max } = values { self.clamp(*min, *max) } else { self }
    }
}

impl OptionValue for Duration {
    fn parse(text: &str) -> Option<Self> {
        parse_duration(text).ok()
    }

    fn text(&self) -> String {
        duration_text(*self)
    }

    fn within(self, values: &Values) -> Self {
        if let Values::Duration { min, max } = values { self.clamp(*min, *max) } else { self }
    }
}

impl OptionValue for Ratio {
    fn parse(text: &str) -> Option<Self> {
        Self::from_decimal(text)
    }

    fn text(&self) -> String {
        self.decimal()
    }

    fn within(self, values: &Values) -> Self {
        match values {
            Values::Fraction { min, .. } if self.compare(*min).is_lt() => *min,
            Values::Fraction { max, .. } if self.compare(*max).is_gt() => *max,
            _ => self,
        }
    }
}

/// An option whose default depends on another option: `None` unless it is given.
impl<T: OptionValue> OptionValue for Option<T> {
    fn parse(text: &str) -> Option<Self> {
        T::parse(text).map(Some)
    }

    fn text(&self) -> String {
        self.as_ref().map(T::text).unwrap_or_default()
    }

    fn within(self, values: &Values) -> Self {
        self.map(|value| value.within(values))
    }

    fn read(parsed: &ParsedOptions<'_>, option: &OptionInfo) -> Self {
        parsed.given(option).and_then(T::parse)
    }

    fn given(&self, _option: &OptionInfo) -> Option<String> {
        self.as_ref().map(T::text)
    }
}

/// The options of one configuration; `options!` implements this trait.
pub trait Options: fmt::Debug + Copy + Send + Sync + 'static {
    /// The options as shown to users.
    const OPTIONS: &'static [OptionInfo];

    /// Reads every option, given or default.
    fn read(parsed: &ParsedOptions<'_>) -> Self;

    /// Returns the values as users type them, `None` for defaults, in the order of
    /// [`Options::OPTIONS`].
    fn given(&self) -> Vec<Option<String>>;

    /// Returns the spec of controller `name` with these options: the name and each option that
    /// differs from its default.
    fn spec_of(&self, name: &str) -> String {
        let mut text = name.to_owned();
        let mut separator = ':';
        for (option, value) in Self::OPTIONS.iter().zip(self.given()) {
            if let Some(value) = value {
                text.push_str(&format!("{separator}{}={value}", option.name));
                separator = ',';
            }
        }
        text
    }
}

/// Converts the name of a field to the name that users type, with `-` for `_`.
#[doc(hidden)]
pub const fn option_name<const N: usize>(field: &str) -> [u8; N] {
    let (mut name, mut at) = ([0; N], 0);
    while at < N {
        name[at] = if field.as_bytes()[at] == b'_' { b'-' } else { field.as_bytes()[at] };
        at += 1;
    }
    name
}

/// Declares a struct of options: each field is an option, and its doc comment is the help text.
///
/// If the type of a field is an enum of [`option_values!`], the words of the enum are the values
/// and the first word is the default. Otherwise `= default in values` gives both. The macro
/// generates the struct, its `Default` and a setter for each field.
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $about:literal])+ $vis:vis $field:ident: $type:ty $(= $default:literal in $values:expr)?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $about])+ $vis $field: $type,)+
        }

        impl $name {
            $(
                #[doc = "Sets the option:"]
                $(#[doc = $about])+
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    let option = $crate::options::options!(@info $field, $type, [$($about),+] $($default, $values)?);
                    self.$field = $crate::options::OptionValue::within($field, &option.values);
                    self
                }
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::options::Options>::read(&Default::default())
            }
        }

        impl $crate::options::Options for $name {
            const OPTIONS: &'static [$crate::options::OptionInfo] =
                &[$($crate::options::options!(@info $field, $type, [$($about),+] $($default, $values)?)),+];

            fn read(parsed: &$crate::options::ParsedOptions<'_>) -> Self {
                let mut options = Self::OPTIONS.iter();
                let mut next = || options.next().expect("one for each field");
                Self { $($field: $crate::options::OptionValue::read(parsed, next()),)+ }
            }

            fn given(&self) -> Vec<Option<String>> {
                let mut options = Self::OPTIONS.iter();
                let mut next = || options.next().expect("one for each field");
                vec![$($crate::options::OptionValue::given(&self.$field, next())),+]
            }
        }
    };
    (@info $field:ident, $type:ty, [$($about:literal),+]) => {
        $crate::options::options!(@info $field, $type, [$($about),+]
            <$type>::NAMES[0], $crate::options::Values::Choice(<$type>::NAMES))
    };
    (@info $field:ident, $type:ty, [$($about:literal),+] $default:expr, $values:expr) => {
        $crate::options::OptionInfo {
            name: {
                const NAME: [u8; stringify!($field).len()] = $crate::options::option_name(stringify!($field));
                match std::str::from_utf8(&NAME) {
                    Ok(name) => name,
                    Err(_) => panic!("a field's name"),
                }
            },
            default: $default,
            values: $values,
            about: concat!($($about),+).trim_ascii_start(),
        }
    };
}
#[doc(inline)]
pub use options;

/// Declares an option's enum with the words that users type, the default first. Generates `ALL` and
/// `NAMES`, in the same order, and `name()`.
#[macro_export]
macro_rules! option_values {
    (
        $(#[$meta:meta])* pub enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$about])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The words of the choices, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// Returns the word that users type.
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl $crate::options::OptionValue for $name {
            fn parse(text: &str) -> Option<Self> {
                Self::NAMES.iter().position(|name| *name == text).map(|at| Self::ALL[at])
            }

            fn text(&self) -> String {
                self.name().to_owned()
            }
        }
    };
}
#[doc(inline)]
pub use option_values;
