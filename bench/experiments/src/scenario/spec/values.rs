//! Values of a scenario's fields: ends, mixes, loads, times.

use std::ops::Range;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::{parse_duration, parse_whole};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::super::Stop;
use crate::stack::{Controller, Stack};

/// Parses `250000 responses`.
pub(crate) fn parse_responses(s: &str) -> Result<u64, Invalid> {
    let n = s.strip_suffix(" responses").ok_or_else(|| {
        Invalid::value(s, "is not a number of responses").hint("write 10000 responses")
    })?;
    parse_whole(n, 1..=10_000_000)
}

pub(super) fn parse_stop(s: &str) -> Result<Stop, Invalid> {
    if s.ends_with(" responses") {
        return parse_responses(s).map(Stop::Responses);
    }
    match parse_duration(s) {
        Ok(at) if !at.is_zero() => Ok(Stop::At(at)),
        _ => Err(Invalid::value(s, "is neither a number of responses nor a time")
            .hint("write 250000 responses, or a time such as 100s")),
    }
}

/// Parses `reno`, or `20% sync + 80% reno`.
pub(super) fn parse_mix(s: &str, stack: Stack) -> Result<Vec<(f64, Controller)>, Invalid> {
    let help = || {
        Invalid::value(s, "is not a mix")
            .hint("write a controller, or a mix such as 20% sync + 80% reno")
    };
    if !s.contains('%') {
        return Ok(vec![(1.0, Controller::read(s, stack)?)]);
    }
    let mut mix: Vec<(f64, Controller)> = Vec::new();
    for piece in s.split(" + ") {
        let (part, spec) = piece.trim().split_once("% ").ok_or_else(help)?;
        let part: f64 = part.parse().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(help)?;
        let controller = Controller::read(spec, stack)?;
        let spec = controller.spec();
        if mix.iter().any(|(_, c)| c.spec() == spec) {
            return Err(Invalid::value(&spec, "is named twice").hint("name it once"));
        }
        if part > 0.0 {
            mix.push((part / 100.0, controller));
        }
    }
    let sum: f64 = mix.iter().map(|(part, _)| part).sum();
    if (sum - 1.0).abs() < 1e-6 {
        Ok(mix)
    } else {
        Err(Invalid::value(s, format!("adds up to {}%, not 100%", sum * 100.0)))
    }
}

/// Old and new names of renamed fields of scenarios.
const RENAMED: [(&str, &str); 3] =
    [("world", "backend"), ("worlds", "backends"), ("outlet", "shaping")];

/// Returns the first field of a scenario that has an old name: its position in the text, and the
/// error.
pub(crate) fn renamed_field(table: &DeTable<'_>) -> Option<(Range<usize>, Invalid)> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        match RENAMED.iter().find(|(old, _)| *old == name) {
            Some((old, new)) => {
                let renamed = format!("the field '{old}' is now called '{new}'");
                Some((key.span(), Invalid::because(renamed).hint(format!("write {new}"))))
            }
            None => in_value(value.get_ref()),
        }
    })
}

/// Returns the first field with an old name inside a value.
fn in_value(value: &DeValue<'_>) -> Option<(Range<usize>, Invalid)> {
    match value {
        DeValue::Table(table) => renamed_field(table),
        DeValue::Array(items) => items.iter().find_map(|item| in_value(item.get_ref())),
        _ => None,
    }
}

/// Parses a scenario in TOML. An error is one line with the line number in the text.
pub(super) fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, Invalid> {
    let at = |span: Range<usize>, error: Invalid| {
        let line = 1 + text[..span.start].matches('\n').count();
        error.in_field(format!("line {line}"))
    };
    let toml = |e: toml::de::Error| {
        at(e.span().unwrap_or(0..0), Invalid::because(e.message().replace('\n', "; ")))
    };
    let table: Spanned<DeTable<'_>> = DeTable::parse(text).map_err(toml)?;
    if let Some((span, error)) = renamed_field(table.get_ref()) {
        return Err(at(span, error));
    }
    T::deserialize(Deserializer::from(table)).map_err(toml)
}

/// Parses `90%` or, below 1, `0.9`. Accepts up to 200%, because a group may offer more than a link
/// carries.
pub(crate) fn parse_load(s: &str) -> Result<f64, Invalid> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let load = match s.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        // A bare 1 could mean 1% or 100%.
        None => number(s).filter(|part| *part < 1.0),
    };
    load.filter(|load| (0.01..=2.0).contains(load)).ok_or_else(|| {
        Invalid::value(s, "is not a load")
            .hint("write a percentage of the link from 1% to 200%, such as 90%")
    })
}

/// Parses the time that a user waits: `10s`, or `none`.
pub(super) fn parse_patience(s: &str) -> Result<Option<Duration>, Invalid> {
    if s == "none" {
        return Ok(None);
    }
    match parse_duration(s)? {
        Duration::ZERO => Err(Invalid::because("write a time such as 10s, or none")),
        patience => Ok(Some(patience)),
    }
}

/// Parses an idle timeout. The timeout must be shorter than 300 s. After 300 s, the number of a
/// closed flow is reused, and no endpoint may still use this number.
pub(super) fn parse_idle(s: &str) -> Result<Duration, Invalid> {
    let idle = parse_duration(s)?;
    let range = Duration::from_secs(1)..=Duration::from_secs(240);
    if range.contains(&idle) {
        Ok(idle)
    } else {
        Err(Invalid::value(s, "is out of range").hint("write 1s to 240s"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ScenarioSpec;

    #[test]
    fn old_scenario_field_is_reported_with_its_new_name() {
        for (text, line) in [
            ("stop = \"1s\"\nworld = \"virtual\"", "line 2: the field 'world' is now called"),
            ("[[traffic]]\noutlet = \"off\"", "line 2: the field 'outlet' is now called"),
        ] {
            let error = ScenarioSpec::from_toml(text).unwrap_err().to_string();
            assert!(error.starts_with(line) && error.contains("; write "), "{error}");
        }
        let error = ScenarioSpec::from_toml("stop = world").unwrap_err().to_string();
        assert!(!error.contains("is now called"), "{error}");
    }
}
