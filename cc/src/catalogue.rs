//! Every controller by name: what it is, where it comes from, its options, and the reader of `name:option=value,...`.
//!
//! A new controller is one file with an [`Entry`] and one line in [`CATALOGUE`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::recipe::{Recipe, Signals};
use crate::units::{Ratio, duration_text, parse_duration};
use crate::{cubic, dca, dual, gentle, highspeed, packet_size, reno, sdc, sync, vegas};

/// Every controller, in the order users see them.
pub static CATALOGUE: &[Entry] = &[
    reno::ENTRY,
    cubic::ENTRY,
    sync::ENTRY,
    dca::ENTRY,
    vegas::ENTRY,
    dual::ENTRY,
    sdc::ENTRY,
    highspeed::ENTRY,
    gentle::ENTRY,
    packet_size::ENTRY,
];

/// What a wrapper such as `packet-size` is put around when its spec names nothing.
pub const DEFAULT_INNER: &str = reno::ENTRY.name;

/// One controller of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name, as users type it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Citation of its source.
    pub source: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Signals it needs with all options at their defaults.
    pub needs: Signals,
    /// Makes the recipe from options that are already checked.
    pub build: fn(&Chosen<'_>) -> Arc<dyn Recipe>,
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
pub struct Chosen<'a> {
    entry: &'a Entry,
    given: Vec<(&'static OptionInfo, &'a str)>,
    inner: Option<Arc<dyn Recipe>>,
}

impl Chosen<'_> {
    /// The value of `option`, given or default.
    ///
    /// # Panics
    /// If the entry does not list `option`: an error in the controller's file.
    pub fn text(&self, option: &str) -> &str {
        let info = info(self.entry, option);
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
        let Values::Choice(words) = info(self.entry, option).values else {
            panic!("option '{option}' of '{}' is not a choice", self.entry.name)
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

    /// The recipe that a wrapper is put around.
    pub fn inner(&self) -> Arc<dyn Recipe> {
        self.inner.clone().unwrap_or_else(|| recipe(DEFAULT_INNER).expect("the default is in the catalogue"))
    }
}

/// Digits only: no sign, no blanks.
fn parse_integer(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn info(entry: &Entry, option: &str) -> &'static OptionInfo {
    entry
        .options
        .iter()
        .find(|info| info.name == option)
        .unwrap_or_else(|| panic!("'{}' lists no option '{option}'", entry.name))
}

/// Reads `name` or `name:option=value,option=value`; a wrapper's spec may go on with `/` and the spec of what it is put around.
///
/// # Errors
/// One line that names what is wrong and what to write instead.
pub fn recipe(spec: &str) -> Result<Arc<dyn Recipe>, SpecError> {
    let (spec, inner) = match spec.split_once('/') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (spec, None),
    };
    let (name, options) = match spec.split_once(':') {
        Some((name, options)) => (name.trim(), Some(options)),
        None => (spec.trim(), None),
    };
    let entry = find(name)?;
    let wraps = entry.name == packet_size::ENTRY.name;
    let inner = match inner {
        None => None,
        Some(_) if !wraps => return Err(SpecError::NoWrapper { controller: entry.name }),
        Some(inner) if inner.trim().split([':', '/']).next() == Some(entry.name) => {
            return Err(SpecError::WrapsItself { controller: entry.name });
        }
        Some(inner) => Some(recipe(inner)?),
    };
    let mut chosen = Chosen { entry, given: Vec::new(), inner };
    for part in options.into_iter().flat_map(|options| options.split(',')) {
        let (info, value) = read_option(entry, part)?;
        if chosen.given.iter().any(|(given, _)| given.name == info.name) {
            return Err(SpecError::Duplicate { controller: entry.name, option: info.name });
        }
        chosen.given.push((info, value));
    }
    Ok((entry.build)(&chosen))
}

/// The entry of that name.
///
/// # Errors
/// [`SpecError::Empty`] or [`SpecError::UnknownController`].
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    if name.is_empty() {
        return Err(SpecError::Empty);
    }
    CATALOGUE
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| SpecError::UnknownController { given: name.to_owned() })
}

fn read_option<'a>(entry: &'static Entry, part: &'a str) -> Result<(&'static OptionInfo, &'a str), SpecError> {
    let controller = entry.name;
    let Some((name, value)) = part.split_once('=') else {
        return Err(SpecError::NoValue { controller, given: part.trim().to_owned() });
    };
    let (name, value) = (name.trim(), value.trim());
    let Some(info) = entry.options.iter().find(|info| info.name == name) else {
        return Err(SpecError::UnknownOption { controller, given: name.to_owned() });
    };
    if !info.values.allow(value) {
        return Err(SpecError::BadValue { controller, option: info.name, given: value.to_owned() });
    }
    Ok((info, value))
}

/// Writes a spec: the name, and those of `values` (every option of the entry) that differ from their defaults.
pub fn spec_text(entry: &Entry, values: &[(&str, String)]) -> String {
    let mut text = entry.name.to_owned();
    let mut separator = ':';
    for (option, value) in values {
        let info = info(entry, option);
        if !info.values.same(info.default, value) {
            text.push(separator);
            text.push_str(&format!("{option}={value}"));
            separator = ',';
        }
    }
    text
}

/// A spec that does not name a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No name was given.
    Empty,
    /// No controller of that name.
    UnknownController {
        /// What was given.
        given: String,
    },
    /// The controller has no option of that name.
    UnknownOption {
        /// The controller.
        controller: &'static str,
        /// What was given.
        given: String,
    },
    /// An option came without `=value`.
    NoValue {
        /// The controller.
        controller: &'static str,
        /// What was given.
        given: String,
    },
    /// The value is not one the option takes.
    BadValue {
        /// The controller.
        controller: &'static str,
        /// The option.
        option: &'static str,
        /// What was given.
        given: String,
    },
    /// `/` after a controller that is no wrapper.
    NoWrapper {
        /// The controller.
        controller: &'static str,
    },
    /// A wrapper around itself.
    WrapsItself {
        /// The wrapper.
        controller: &'static str,
    },
    /// An option came twice.
    Duplicate {
        /// The controller.
        controller: &'static str,
        /// The option.
        option: &'static str,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = || CATALOGUE.iter().map(|entry| entry.name);
        match self {
            Self::Empty => write!(f, "no controller named; choose one of: {}", list(names())),
            Self::UnknownController { given } => {
                let hint = hint(given, names());
                write!(f, "unknown controller '{}'{hint}; known: {}", shown(given), list(names()))
            }
            Self::UnknownOption { controller, given } => {
                let hint = hint(given, option_names(controller));
                write!(f, "'{controller}' has no option '{}'{hint}; {}", shown(given), options_text(controller))
            }
            Self::NoValue { controller, given } if given.is_empty() => {
                write!(
                    f,
                    "'{controller}' has an empty option; write {controller}:option=value, or leave ':' and ',' out"
                )
            }
            Self::NoValue { controller, given } => {
                write!(
                    f,
                    "option '{}' of '{controller}' has no value; write option=value; {}",
                    shown(given),
                    options_text(controller)
                )
            }
            Self::BadValue { controller, option, given } => {
                let values = option_values(controller, option);
                write!(f, "'{}' is no value for option '{option}' of '{controller}'; it takes {values}", shown(given))
            }
            Self::NoWrapper { controller } => {
                write!(f, "'{controller}' wraps no other controller; leave '/' out, or write packet-size/{controller}")
            }
            Self::WrapsItself { controller } => {
                write!(f, "'{controller}' is put around itself; name another controller after '/'")
            }
            Self::Duplicate { controller, option } => {
                write!(f, "option '{option}' of '{controller}' is given twice; keep one")
            }
        }
    }
}

impl std::error::Error for SpecError {}

fn option_names(controller: &str) -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().filter(move |e| e.name == controller).flat_map(|e| e.options).map(|info| info.name)
}

fn option_values(controller: &str, option: &str) -> String {
    let infos = CATALOGUE.iter().filter(|e| e.name == controller).flat_map(|e| e.options);
    infos.filter(|info| info.name == option).map(|info| info.values.to_string()).collect()
}

fn options_text(controller: &str) -> String {
    match list(option_names(controller)) {
        names if names.is_empty() => "it has none".to_owned(),
        names => format!("options: {names}"),
    }
}

fn list(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// User text on one line, whatever it holds.
fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}

/// ` (did you mean 'x'?)` when a name is near.
fn hint(given: &str, names: impl Iterator<Item = &'static str>) -> String {
    let near = names.map(|name| (distance(given, name), name.len().abs_diff(given.len()), name)).min();
    match near {
        Some((far, _, name)) if far <= 1 + name.len() / 3 => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}

/// Edit distance (Levenshtein) in characters; long input counts as far.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
