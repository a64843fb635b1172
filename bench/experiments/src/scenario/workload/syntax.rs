//! Syntax that several workloads share: sizes, periods, transfers, options.

use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::{parse_duration, parse_whole};
use fathom_netsim::path::parse_rate;

use super::model::no_option;
use super::{Period, WebLoad, in_text};
use crate::scenario::{InField, Resumption, parse_load};

/// Splits options such as ` resume=0rtt tickets=40%` off the end of a workload.
pub(crate) fn split_options(s: &str) -> (&str, Vec<&str>) {
    let (mut words, mut options) = (s, Vec::new());
    while let Some((rest, option)) =
        words.rsplit_once(' ').filter(|(_, option)| option.contains('='))
    {
        options.insert(0, option);
        words = rest.trim_end();
    }
    (words, options)
}

/// Splits ` from 200s to 400s` off the end of a workload, if present.
pub(super) fn parse_period<'a>(whole: &str, rest: &'a str) -> Result<(&'a str, Period), Invalid> {
    let (rest, until) =
        rest.split_once(" to ").map_or((rest, None), |(rest, until)| (rest, Some(until)));
    let (rest, from) = rest.split_once(" from ").unwrap_or((rest, "0s"));
    let until = until.map(parse_duration).transpose()?;
    let period = Period { from: parse_duration(from)?, until };
    if until.is_some_and(|until| until <= period.from) {
        let kind = whole.split(':').next().unwrap_or("web");
        return Err(Invalid::value(whole, "ends before it begins")
            .hint(format!("write {kind}:95% of 10Mbps from 200s to 400s")));
    }
    Ok((rest, period))
}

/// Parses `60% of 10Mbps`; `None` if the text has no ` of `.
pub(super) fn parse_part(text: &str) -> Option<Result<WebLoad, Invalid>> {
    let (load, of) = text.split_once(" of ")?;
    let part = parse_load(load.trim());
    Some(part.and_then(|part| Ok(WebLoad::Computed { part, of: parse_rate(of.trim())? })))
}

/// Parses `2/s`; `None` if the text is not a rate between 0.001 and 10,000 per second.
pub(super) fn parse_per_second(text: &str) -> Option<WebLoad> {
    let rate = text.trim().strip_suffix("/s")?.trim().parse::<f64>().ok()?;
    (0.001..=10_000.0).contains(&rate).then_some(WebLoad::Connections(rate))
}

/// Sets an option of a workload whose connections can resume sessions.
pub(super) fn set_resumption(
    resumption: &mut Resumption,
    name: &str,
    value: &str,
) -> Result<(), Invalid> {
    match name {
        "resume" => resumption.resume = value.parse().in_field("resume")?,
        "tickets" => {
            let part = value.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
            let part = part.filter(|percent| (0.0..=100.0).contains(percent));
            resumption.tickets = part.ok_or_else(|| {
                Invalid::value(value, "is not a percentage of the connections")
                    .hint("write a percentage such as 40%")
                    .in_field("tickets")
            })? / 100.0;
        }
        _ => return Err(no_option(name, "write resume or tickets")),
    }
    Ok(())
}

/// Formats the resumption for the explanation of a study.
pub(super) fn resumes(Resumption { resume, tickets }: Resumption) -> String {
    match resume {
        crate::scenario::Resume::None => String::new(),
        resume => format!(", {}% of connections resume sessions ({resume})", tickets * 100.0),
    }
}

/// Transfers that start one after the other.
pub(super) struct Transfers {
    pub(super) count: u32,
    /// Size of each transfer in bytes.
    pub(super) bytes: u64,
    /// Time from the first start to the last.
    pub(super) spread: Duration,
}

/// Parses the `COUNTxSIZE@INTERVAL` of `bulk:COUNTxSIZE@INTERVAL` or `uploads:`.
pub(super) fn parse_transfers(whole: &str, rest: &str, kind: &str) -> Result<Transfers, Invalid> {
    let help = || {
        Invalid::value(whole, "is not a workload")
            .hint(format!("write {kind}:COUNTxSIZE@INTERVAL, such as {kind}:4x10MB@100ms (kB, MB)"))
    };
    let (rest, every) = rest.split_once('@').unwrap_or((rest, "0ms"));
    let (count, size) = rest.split_once('x').ok_or_else(help)?;
    let count = parse_whole(count, 1..=1_000_000).map_err(|e| {
        let hint = format!("{}, such as {kind}:4x10MB", e.hint);
        in_text(whole)(e.hint(hint).in_field("responses"))
    })? as u32;
    let every = parse_duration(every).map_err(|_| help())?;
    let bytes = parse_bytes(size).ok_or_else(help)?;
    Ok(Transfers { count, bytes, spread: every.saturating_mul(count - 1) })
}

/// Parses a size such as `10MB`.
pub(super) fn parse_bytes(s: &str) -> Option<u64> {
    let digits = s.find(|c: char| !c.is_ascii_digit())?;
    let scale = match &s[digits..] {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    let bytes = s[..digits].parse::<u64>().ok()?.checked_mul(scale)?;
    (1..=100_000_000_000).contains(&bytes).then_some(bytes)
}

/// Returns the plural ending.
pub(super) const fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Formats the time over which flows start for the explanation of a study.
pub(super) fn starts_over(spread: Duration) -> String {
    if spread.is_zero() { String::new() } else { format!(", starts over {spread:?}") }
}
