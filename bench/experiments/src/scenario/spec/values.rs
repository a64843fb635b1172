//! Values of a scenario's fields: ends, mixes, loads, times.

use std::time::Duration;

use fathom_cc::units::{parse_duration, parse_whole};
use serde::de::DeserializeOwned;

use super::super::{PlanError, Stop};
use crate::stack::{Controller, Stack};

/// Parses `250000 responses`.
pub(crate) fn parse_responses(s: &str) -> Result<u64, String> {
    let n = s
        .strip_suffix(" responses")
        .ok_or_else(|| format!("'{s}' is no number of responses; write 10000 responses"))?;
    Ok(parse_whole(n, 1..=10_000_000)?)
}

pub(super) fn parse_stop(s: &str) -> Result<Stop, String> {
    let help = || {
        format!("'{s}' does not say when to stop; write 250000 responses, or a time such as 100s")
    };
    if s.ends_with(" responses") {
        return parse_responses(s).map(Stop::Responses);
    }
    let at = parse_duration(s).map_err(|_| help())?;
    if at.is_zero() { Err(help()) } else { Ok(Stop::At(at)) }
}

/// Parses `reno`, or `20% sync + 80% reno`.
pub(super) fn parse_mix(s: &str, stack: Stack) -> Result<Vec<(f64, Controller)>, String> {
    let help = || format!("'{s}' is not a mix; write a controller, or 20% sync + 80% reno");
    if !s.contains('%') {
        return Ok(vec![(1.0, Controller::read(s, stack)?)]);
    }
    let mut mix: Vec<(f64, Controller)> = Vec::new();
    for piece in s.split(" + ") {
        let (part, spec) = piece.trim().split_once("% ").ok_or_else(help)?;
        let part: f64 = part.parse().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(help)?;
        let controller = Controller::read(spec, stack)?;
        if mix.iter().any(|(_, c)| c.spec() == controller.spec()) {
            return Err(format!("'{}' is named twice; name it once", controller.spec()));
        }
        if part > 0.0 {
            mix.push((part / 100.0, controller));
        }
    }
    let sum: f64 = mix.iter().map(|(part, _)| part).sum();
    if (sum - 1.0).abs() < 1e-6 {
        Ok(mix)
    } else {
        Err(format!("'{s}': the parts make {}%, not 100%", sum * 100.0))
    }
}

/// Old and new names of renamed fields of scenarios and studies.
const RENAMED: &[(&str, &str)] =
    &[("world", "backend"), ("worlds", "backends"), ("outlet", "shaping")];

/// Returns a message of the TOML reader in one line. For a field in [`RENAMED`], the message contains
/// the new name.
pub(crate) fn toml_message(message: &str) -> String {
    let old = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    match RENAMED.iter().find(|(name, _)| Some(*name) == old) {
        Some((old, new)) => format!("the field '{old}' is now called '{new}'; write {new}"),
        None => message.replace('\n', "; "),
    }
}

/// Parses TOML. An error is one line with the line number in the text.
pub(super) fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| 1 + text[..s.start].matches('\n').count());
        PlanError(format!("line {line}: {}", toml_message(e.message())))
    })
}

/// Parses `90%` or, below 1, `0.9`. Accepts up to 200%, because a group may offer more than a link
/// carries.
pub(crate) fn parse_load(s: &str) -> Result<f64, String> {
    let help = || {
        format!("'{s}' is not a load; write a percentage of the link from 1% to 200%, such as 90%")
    };
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let load = match s.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        // A bare 1 could mean 1% or 100%.
        None => number(s).filter(|part| *part < 1.0),
    };
    load.filter(|load| (0.01..=2.0).contains(load)).ok_or_else(help)
}

/// Parses the time that a user waits: `10s`, or `none`.
pub(super) fn parse_patience(s: &str) -> Result<Option<Duration>, String> {
    if s == "none" {
        return Ok(None);
    }
    let patience = parse_duration(s)?;
    if patience.is_zero() {
        Err("write a time such as 10s, or none".into())
    } else {
        Ok(Some(patience))
    }
}

/// Parses an idle timeout. It must be shorter than the 300 s after which the number of a closed
/// flow is reused, so that no endpoint still uses the number.
pub(super) fn parse_idle(s: &str) -> Result<Duration, String> {
    let idle = parse_duration(s)?;
    let range = Duration::from_secs(1)..=Duration::from_secs(240);
    if range.contains(&idle) {
        Ok(idle)
    } else {
        Err(format!("'{s}' is out of range; write 1s to 240s"))
    }
}
