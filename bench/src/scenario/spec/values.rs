//! The words of a scenario: workloads, rates, ranges, ends, mixes.

use std::str::FromStr;
use std::time::Duration;

use fathom_cc::Rate;
use fathom_cc::units::{parse_duration, parse_whole};

use super::super::{Stop, Workload};
use crate::experiment::{parse_bytes, parse_load};
use crate::stack::{Control, Stack};

impl FromStr for Workload {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "'{s}' is not a workload; write web:90% of 10Mbps, flows:100, flows:100@2s, flows:4x10MB or flows:1 after 20s"
            )
        };
        if let Some(rest) = s.strip_prefix("web:") {
            let (load, of) = rest.split_once(" of ").ok_or_else(help)?;
            return Ok(Self::Web { load: parse_load(load.trim())?, of: parse_rate(of.trim())? });
        }
        let rest = s.strip_prefix("flows:").ok_or_else(help)?;
        let (rest, after) = rest.split_once(" after ").unwrap_or((rest, "0s"));
        let (rest, spread) = rest.split_once('@').unwrap_or((rest, "0s"));
        let (count, size) = rest.split_once('x').map_or((rest, None), |(count, size)| (count, Some(size)));
        let flows = parse_whole(count, 1..=10_000).map_err(|e| format!("{s}: flows: {e}"))? as u32;
        let bytes = size.map(|size| parse_bytes(size).ok_or_else(help)).transpose()?;
        Ok(Self::Bulk { flows, bytes, spread: parse_duration(spread)?, after: parse_duration(after)? })
    }
}

pub(super) fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse()?;
    if (10_000..=100_000_000_000).contains(&rate.bits_per_sec()) {
        Ok(rate)
    } else {
        Err(format!("'{text}' is out of range; write a rate from 10kbps to 100Gbps"))
    }
}

/// Reads `2ms`, or `1ms..2.5ms`.
pub(super) fn parse_range(text: &str) -> Result<(Duration, Duration), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (parse_duration(low)?, parse_duration(high)?);
    if low > high { Err(format!("'{text}' ends before it begins; write 1ms..2.5ms")) } else { Ok((low, high)) }
}

pub(super) fn parse_stop(s: &str) -> Result<Stop, String> {
    let help = || format!("'{s}' does not say when to stop; write 250000 responses, or a time such as 100s");
    if let Some(n) = s.strip_suffix(" responses") {
        return parse_whole(n, 1..=10_000_000).map(Stop::Responses);
    }
    let at = parse_duration(s).map_err(|_| help())?;
    if at.is_zero() { Err(help()) } else { Ok(Stop::At(at)) }
}

/// Reads `reno`, or `20% sync + 80% reno`.
pub(super) fn parse_mix(s: &str, stack: Stack) -> Result<Vec<(f64, Control)>, String> {
    let help = || format!("'{s}' is not a mix; write a controller, or 20% sync + 80% reno");
    if !s.contains('%') {
        return Ok(vec![(1.0, Control::read(s, stack)?)]);
    }
    let mut mix: Vec<(f64, Control)> = Vec::new();
    for piece in s.split(" + ") {
        let (part, spec) = piece.trim().split_once("% ").ok_or_else(help)?;
        let part: f64 = part.parse().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(help)?;
        let control = Control::read(spec, stack)?;
        if mix.iter().any(|(_, c)| c.spec() == control.spec()) {
            return Err(format!("'{}' is named twice; name it once", control.spec()));
        }
        if part > 0.0 {
            mix.push((part / 100.0, control));
        }
    }
    let sum: f64 = mix.iter().map(|(part, _)| part).sum();
    if (sum - 1.0).abs() < 1e-6 { Ok(mix) } else { Err(format!("'{s}': the parts make {}%, not 100%", sum * 100.0)) }
}
