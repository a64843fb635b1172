//! Parser of a queue's options as users write them: `name:option=value,...`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, parse_duration};

use super::discipline::Kind;

/// Reason why an option was rejected.
pub(crate) enum OptionError {
    /// No option has this name.
    Name,
    /// The option does not accept this value.
    Value,
}

impl Kind {
    /// Refuses the options `s`. `problem` continues a sentence about the queue.
    pub(super) fn error(&self, s: &str, problem: impl Into<Cow<'static, str>>) -> Invalid {
        let Self { name: kind, example, .. } = self;
        Invalid::value(&format!("{kind}{s}"), problem)
            .hint(format!("write {kind}, or {kind}: followed by any of the options {example}"))
    }

    /// Parses the text after the kind: nothing, or `:name=value,...`. `set` is called with each
    /// name and value.
    pub(super) fn read(
        &self,
        s: &str,
        mut set: impl FnMut(&str, &str) -> Result<(), OptionError>,
    ) -> Result<(), Invalid> {
        let options = match s.strip_prefix(':') {
            Some(options) => options,
            None if s.is_empty() => return Ok(()),
            None => return Err(self.error(s, "is not a queue")),
        };
        let mut seen = Vec::new();
        for option in options.split(',') {
            let (name, value) = option.trim().split_once('=').ok_or_else(|| {
                self.error(s, format!("has the option '{option}' without a value"))
            })?;
            if seen.contains(&name) {
                return Err(self.error(s, format!("has '{name}' twice")));
            }
            seen.push(name);
            set(name, value).map_err(|error| match error {
                OptionError::Name => self.error(s, format!("has no option '{name}'")),
                OptionError::Value => {
                    self.error(s, format!("has an invalid value '{value}' for the option '{name}'"))
                }
            })?;
        }
        Ok(())
    }
}

/// Parses packets, possibly fractional: `5p`, `6.25p`.
pub(super) fn packets(value: &str) -> Result<f64, OptionError> {
    number(value.strip_suffix('p').ok_or(OptionError::Value)?)
}

/// Parses a whole number of packets: `100p`.
pub(super) fn whole_packets(value: &str) -> Result<usize, OptionError> {
    value.strip_suffix('p').and_then(|digits| digits.parse().ok()).ok_or(OptionError::Value)
}

/// Parses a plain number: `0.002`.
pub(super) fn number(value: &str) -> Result<f64, OptionError> {
    value.parse().map_err(|_| OptionError::Value)
}

/// Parses `on` or `off`.
pub(super) fn switch(value: &str) -> Result<bool, OptionError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(OptionError::Value),
    }
}

/// Parses a duration: `5ms`.
pub(super) fn duration(value: &str) -> Result<Duration, OptionError> {
    parse_duration(value).map_err(|_| OptionError::Value)
}

/// Parses bytes: `1420B`, `190kB`, `2MB`.
pub(crate) fn bytes(value: &str) -> Result<u64, OptionError> {
    let unit = value.find(|c: char| !c.is_ascii_digit()).ok_or(OptionError::Value)?;
    let scale = match &value[unit..] {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        _ => return Err(OptionError::Value),
    };
    value[..unit].parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or(OptionError::Value)
}

/// Formats a switch as [`switch`] reads it.
pub(super) const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Writes `,name=value` and the unit if the option was given.
pub(super) fn write_given(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: Option<impl fmt::Display>,
    unit: &str,
) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, ",{name}={value}{unit}"))
}

/// Checks the bounds shared by all kinds that use CoDel's control law: target, interval and limit
/// in packets.
pub(super) fn check_codel(
    target: Duration,
    interval: Duration,
    limit: usize,
) -> Result<(), &'static str> {
    if target < Duration::from_micros(1) || target > interval {
        return Err("needs 1us <= target <= interval");
    }
    if interval > Duration::from_secs(100) {
        return Err("needs an interval of at most 100s");
    }
    if !(2..=1_000_000).contains(&limit) {
        return Err("needs a limit from 2p to 1000000p");
    }
    Ok(())
}
