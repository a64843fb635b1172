//! The catalogue of all controllers by name, and the parser of specs such as
//! `name:option=value,...`.
//!
//! To add a controller, write one file in `algorithms/` with an [`Algorithm`], and add one line to
//! `algorithms/mod.rs`.

use std::iter;
use std::sync::{Arc, OnceLock};

pub use crate::algorithm::Algorithm;
use crate::algorithms;
use crate::config::ControllerConfig;
use crate::options::ParsedOptions;
pub use crate::options::{OptionInfo, Values};

/// Fathom's controllers, in the order in which users see them.
pub static CATALOGUE: &[Algorithm] = algorithms::ENTRIES;

/// Controllers added by [`extend`].
static ADDED: OnceLock<&'static [Algorithm]> = OnceLock::new();

/// Adds controllers to Fathom's own, for the whole process. A program calls this function once,
/// before any other function of the catalogue.
///
/// # Errors
/// Returns an [`ExtendError`] if a name is invalid or taken, or if the catalogue was already
/// extended. In this case, nothing is added.
pub fn extend(added: &'static [Algorithm]) -> Result<(), ExtendError> {
    let names = |algorithm: &'static Algorithm| {
        iter::once(algorithm.name).chain(algorithm.aliases.iter().copied())
    };
    let mut seen: Vec<&str> = CATALOGUE.iter().flat_map(names).collect();
    for name in added.iter().flat_map(names) {
        if !is_name(name) {
            return Err(ExtendError::NoName { given: name });
        }
        if seen.contains(&name) {
            return Err(ExtendError::Taken { name });
        }
        seen.push(name);
    }
    ADDED.set(added).map_err(|_| ExtendError::Again)
}

/// Returns every known controller: [`CATALOGUE`], then the controllers added by [`extend`].
pub fn all() -> impl Iterator<Item = &'static Algorithm> {
    CATALOGUE.iter().chain(ADDED.get().copied().unwrap_or_default())
}

/// Returns whether a spec names a controller that [`extend`] added, alone or in a wrapper.
pub fn is_added(spec: &str) -> bool {
    let added = ADDED.get().copied().unwrap_or_default();
    let name = |part: &str| part.split(':').next().unwrap_or_default().trim().to_owned();
    spec.split('/')
        .map(name)
        .any(|name| added.iter().any(|a| a.name == name || a.aliases.contains(&&*name)))
}

/// Returns whether `text` can be a name in specs and lists. A name consists of lower-case letters,
/// digits and hyphens, and begins with a letter.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Error of [`extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtendError {
    /// The name cannot be part of a spec.
    #[error(
        "'{given}' is not a valid name for a controller; use lower-case letters, digits and \
         hyphens, beginning with a letter"
    )]
    NoName {
        /// The invalid name.
        given: &'static str,
    },
    /// A controller has that name already.
    #[error("there is already a controller '{name}'; choose another name")]
    Taken {
        /// The name that is taken.
        name: &'static str,
    },
    /// The catalogue was already extended.
    #[error("the catalogue was extended already; add all controllers in one call")]
    Again,
}

/// Parses `name` or `name:option=value,option=value`. A wrapper's spec may continue with `/` and
/// the spec of the controller that it wraps.
///
/// # Errors
/// Returns a one-line error that says what is wrong and what to write instead.
pub fn parse(spec: &str) -> Result<Arc<dyn ControllerConfig>, SpecError> {
    let (spec, inner) = match spec.split_once('/') {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (spec, None),
    };
    let (name, options) = match spec.split_once(':') {
        Some((name, options)) => (name.trim(), Some(options)),
        None => (spec.trim(), None),
    };
    let algorithm = find(name)?;
    let inner = match inner.or(algorithm.wraps) {
        None => None,
        Some(_) if algorithm.wraps.is_none() => {
            return Err(SpecError::NoWrapper { controller: algorithm.name });
        }
        Some(inner) if inner.trim().split([':', '/']).next() == Some(algorithm.name) => {
            return Err(SpecError::WrapsItself { controller: algorithm.name });
        }
        Some(inner) => Some(parse(inner)?),
    };
    let mut parsed = ParsedOptions { given: Vec::new(), inner };
    for part in options.into_iter().flat_map(|options| options.split(',')) {
        let (info, value) = read_option(algorithm, part)?;
        if parsed.given.iter().any(|(given, _)| given.name == info.name) {
            return Err(SpecError::Duplicate { controller: algorithm.name, option: info.name });
        }
        parsed.given.push((info, value));
    }
    Ok((algorithm.build)(&parsed))
}

/// Splits a list such as `reno,sync:floor=1ms,signal=rtt` into controllers.
///
/// A piece is an option of the previous controller if it has `=`, has no `:`, and does not begin
/// with a controller's name. Use [`parse`] to read each controller.
pub fn split(list: &str) -> Vec<String> {
    let mut controllers: Vec<String> = Vec::new();
    for piece in list.split(',') {
        let name = piece.split(['=', '/']).next().unwrap_or_default();
        let option = piece.contains('=') && !piece.contains(':') && find(name.trim()).is_err();
        match controllers.last_mut() {
            Some(last) if option => {
                last.push(',');
                last.push_str(piece);
            }
            _ => controllers.push(piece.to_owned()),
        }
    }
    controllers
}

/// Returns the controller with that name or alias.
///
/// # Errors
/// Returns [`SpecError::Empty`] or [`SpecError::UnknownController`] if there is none.
pub fn find(name: &str) -> Result<&'static Algorithm, SpecError> {
    if name.is_empty() {
        return Err(SpecError::Empty);
    }
    all()
        .find(|algorithm| algorithm.name == name || algorithm.aliases.contains(&name))
        .ok_or_else(|| SpecError::UnknownController { given: name.to_owned() })
}

fn read_option<'a>(
    algorithm: &'static Algorithm,
    part: &'a str,
) -> Result<(&'static OptionInfo, &'a str), SpecError> {
    let controller = algorithm.name;
    let Some((name, value)) = part.split_once('=') else {
        return Err(SpecError::NoValue { controller, given: part.trim().to_owned() });
    };
    let (name, value) = (name.trim(), value.trim());
    let Some(info) = algorithm.options.iter().find(|info| info.name == name) else {
        return Err(SpecError::UnknownOption { controller, given: name.to_owned() });
    };
    if !info.values.allow(value) {
        let values = info.values.to_string();
        return Err(SpecError::BadValue {
            controller,
            option: info.name,
            values,
            given: value.to_owned(),
        });
    }
    Ok((info, value))
}

/// Error in a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No name was given.
    #[error("no controller is named; choose one of: {}", list(names()))]
    Empty,
    /// No controller has that name.
    #[error(
        "unknown controller '{}'{}; known: {}",
        shown(given),
        hint(given, names()),
        list(names())
    )]
    UnknownController {
        /// The text given as a name.
        given: String,
    },
    /// The controller has no option of that name.
    #[error(
        "'{controller}' has no option '{}'{}; {}",
        shown(given),
        hint(given, option_names(controller)),
        options_text(controller)
    )]
    UnknownOption {
        /// Name of the controller.
        controller: &'static str,
        /// The text given as an option.
        given: String,
    },
    /// An option was given without `=value`.
    #[error("{}", no_value(controller, given))]
    NoValue {
        /// Name of the controller.
        controller: &'static str,
        /// The text given as an option.
        given: String,
    },
    /// The option does not accept the value.
    #[error(
        "'{}' is not a value of option '{option}' of '{controller}'; the option takes {values}",
        shown(given)
    )]
    BadValue {
        /// Name of the controller.
        controller: &'static str,
        /// Name of the option.
        option: &'static str,
        /// Values that the option accepts.
        values: String,
        /// The value given.
        given: String,
    },
    /// `/` follows a controller that is not a wrapper.
    #[error(
        "'{controller}' wraps no other controller; leave '/' out, or write {}/{controller}",
        wrapper()
    )]
    NoWrapper {
        /// Name of the controller.
        controller: &'static str,
    },
    /// A wrapper wraps itself.
    #[error("'{controller}' cannot wrap itself; name another controller after '/'")]
    WrapsItself {
        /// Name of the wrapper.
        controller: &'static str,
    },
    /// An option was given twice.
    #[error("option '{option}' of '{controller}' is given twice; give it once")]
    Duplicate {
        /// Name of the controller.
        controller: &'static str,
        /// Name of the option.
        option: &'static str,
    },
}

fn no_value(controller: &str, given: &str) -> String {
    if given.is_empty() {
        return format!(
            "'{controller}' has an empty option; write {controller}:option=value, or leave ':' and ',' out"
        );
    }
    let options = options_text(controller);
    format!(
        "option '{}' of '{controller}' has no value; write option=value; {options}",
        shown(given)
    )
}

fn names() -> impl Iterator<Item = &'static str> {
    all().map(|algorithm| algorithm.name)
}

fn option_names(controller: &str) -> impl Iterator<Item = &'static str> {
    all()
        .filter(move |entry| entry.name == controller)
        .flat_map(|entry| entry.options)
        .map(|info| info.name)
}

fn options_text(controller: &str) -> String {
    match list(option_names(controller)) {
        names if names.is_empty() => "it has none".to_owned(),
        names => format!("options: {names}"),
    }
}

/// Returns the name of a controller that wraps others.
fn wrapper() -> &'static str {
    CATALOGUE
        .iter()
        .find(|algorithm| algorithm.wraps.is_some())
        .map_or("", |algorithm| algorithm.name)
}

fn list(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Escapes user text so that it stays on one line.
fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Length in bytes of the longest input that gets a hint.
const LONGEST_HINTED: usize = 64;

/// Returns ` (did you mean 'x'?)` if a known name is similar. Otherwise, returns an empty string.
pub fn hint(given: &str, names: impl Iterator<Item = &'static str>) -> String {
    let distance =
        |name: &str| (strsim::levenshtein(given, name), name.len().abs_diff(given.len()));
    match names.filter(|_| given.len() <= LONGEST_HINTED).map(|name| (distance(name), name)).min() {
        Some(((far, _), name)) if far <= 1 + name.len() / 3 => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}
