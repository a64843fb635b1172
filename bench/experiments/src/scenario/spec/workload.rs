//! Workloads: their syntax, and properties that follow from a workload.

use std::str::FromStr;
use std::time::Duration;

use fathom_cc::units::{parse_duration, parse_whole};
use fathom_netsim::path::parse_rate;
use fathom_traffic::pages::{IN_FLIGHT, MOST_OBJECTS, SIZE_QUANTILES, WAVES};
use fathom_traffic::{Arrivals, PageShape};

use super::super::{MediaTransport, Period, Resume, Resumption, WebLoad, Workload};
use super::values::parse_load;
use crate::stack::Stack;

impl Workload {
    /// Returns the number of flows, if the workload fixes it.
    pub const fn flows(&self) -> Option<u32> {
        match self {
            Self::Web { .. } | Self::Pages { .. } => None,
            Self::Bulk { flows: n, .. }
            | Self::Uploads { count: n, .. }
            | Self::Media { streams: n, .. } => Some(*n),
        }
    }

    /// Returns whether the number of requests is computed from a part of a link's rate.
    pub const fn has_computed_load(&self) -> bool {
        matches!(
            self,
            Self::Web { load: WebLoad::Computed { .. }, .. }
                | Self::Pages { load: WebLoad::Computed { .. }, .. }
        )
    }

    /// Returns the maximum number of responses, if the workload fixes it.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Self::Media { streams, .. } => Some(u64::from(*streams) * self.frames()?),
            _ => self.flows().map(u64::from),
        }
    }

    /// Returns the number of frames of a live stream, if the stream ends.
    pub fn frames(&self) -> Option<u64> {
        match self {
            Self::Media { fps, length, .. } => {
                length.map(|length| (length.as_secs_f64() * f64::from(*fps)) as u64)
            }
            _ => None,
        }
    }

    /// Returns how the connections resume TLS sessions.
    pub fn resumption(&self) -> Resumption {
        match self {
            Self::Web { resumption, .. } | Self::Pages { resumption, .. } => *resumption,
            _ => Resumption::default(),
        }
    }

    /// Checks whether this stack can run the workload.
    ///
    /// # Errors
    /// Returns an error that says what to write instead if the stack cannot run the workload.
    pub(crate) fn check_stack(&self, stack: Stack) -> Result<(), String> {
        if stack == Stack::Tcp && !matches!(self, Self::Web { .. } | Self::Bulk { .. }) {
            return Err(
                "TCP here has one request at a time and no uploads; use a stack of QUIC".into()
            );
        }
        let resume = self.resumption().resume;
        if resume != Resume::None && !stack.on_rustls() {
            return Err(format!(
                "resume={resume}: {stack} does not resume sessions here; use quinn or noq"
            ));
        }
        if matches!(self, Self::Media { transport: MediaTransport::Datagram, .. })
            && !stack.is_everywhere()
        {
            let others = Stack::names(Stack::is_everywhere);
            return Err(format!(
                "transport=datagram: {stack} sends no datagrams here; use {others}"
            ));
        }
        Ok(())
    }

    /// Sets an option, such as `resume=0rtt`.
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, self) {
            ("resume", Self::Web { resumption, .. } | Self::Pages { resumption, .. }) => {
                resumption.resume = value.parse().map_err(|e| format!("resume: {e}"))?;
            }
            ("tickets", Self::Web { resumption, .. } | Self::Pages { resumption, .. }) => {
                let part = value.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
                let part = part.filter(|percent| (0.0..=100.0).contains(percent));
                resumption.tickets = part.ok_or_else(|| {
                    let value = value.escape_debug();
                    format!("tickets: '{value}' is not a part of the connections; write a percentage such as 40%")
                })? / 100.0;
            }
            ("transport", Self::Media { transport, .. }) => {
                *transport = value.parse().map_err(|e| format!("transport: {e}"))?;
            }
            (_, Self::Media { .. }) => {
                return Err(format!(
                    "{}: not an option here; write transport",
                    name.escape_debug()
                ));
            }
            (_, Self::Web { .. } | Self::Pages { .. }) => {
                return Err(format!(
                    "{}: not an option here; write resume or tickets",
                    name.escape_debug()
                ));
            }
            _ => return Err(format!("{}: not an option here; leave it out", name.escape_debug())),
        }
        Ok(())
    }

    /// Returns whether bodies travel from clients to servers.
    pub const fn goes_up(&self) -> bool {
        matches!(self, Self::Uploads { .. })
    }

    /// Returns whether responses complete while the run goes on.
    pub const fn ends(&self) -> bool {
        !matches!(self, Self::Bulk { bytes: None, .. })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (words, options) = split_options(s);
        let mut workload = Self::read(words)?;
        options
            .into_iter()
            .try_for_each(|option| workload.set(option).map_err(|e| format!("{s}: {e}")))?;
        match workload.resumption() {
            Resumption { resume: Resume::None, tickets }
                if tickets != Resumption::default().tickets =>
            {
                Err(format!(
                    "{s}: tickets: nobody resumes with them; write resume=1rtt or resume=0rtt, too"
                ))
            }
            _ => Ok(workload),
        }
    }
}

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

impl Workload {
    /// Parses a workload without options.
    fn read(s: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "'{s}' is not a workload; write web:90% of 10Mbps, web:95% of 10Mbps from 200s to 400s, flows:100, flows:100@2s, flows:4x10MB, flows:1 after 20s, pages:2/s, pages:60% of 10Mbps, uploads:4x10MB@1s or media:4 at 2Mbps 30fps deadline 100ms"
            )
        };
        if let Some(rest) = s.strip_prefix("web:") {
            let (rest, period) = parse_period(s, rest)?;
            let (load, of) = rest.split_once(" of ").ok_or_else(help)?;
            let load =
                WebLoad::Computed { part: parse_load(load.trim())?, of: parse_rate(of.trim())? };
            return Ok(Self::Web {
                load,
                server_delay: false,
                arrivals: Arrivals::Packmime,
                period,
                resumption: Resumption::default(),
            });
        }
        if let Some(rest) = s.strip_prefix("pages:") {
            return parse_pages(s, rest);
        }
        if let Some(rest) = s.strip_prefix("media:") {
            return parse_media(s, rest);
        }
        if let Some(rest) = s.strip_prefix("uploads:") {
            return match parse_bulk(s, rest, "uploads")? {
                Self::Bulk { flows: count, bytes: Some(bytes), spread, .. } => {
                    Ok(Self::Uploads { count, bytes, spread })
                }
                _ => Err(help()),
            };
        }
        if let Some(rest) = s.strip_prefix("bulk:") {
            return parse_bulk(s, rest, "bulk");
        }
        let rest = s.strip_prefix("flows:").ok_or_else(help)?;
        let (rest, after) = rest.split_once(" after ").unwrap_or((rest, "0s"));
        let (rest, spread) = rest.split_once('@').unwrap_or((rest, "0s"));
        let (count, size) =
            rest.split_once('x').map_or((rest, None), |(count, size)| (count, Some(size)));
        let flows = parse_whole(count, 1..=10_000).map_err(|e| format!("{s}: flows: {e}"))? as u32;
        let bytes = size.map(|size| parse_bytes(size).ok_or_else(help)).transpose()?;
        Ok(Self::Bulk {
            flows,
            bytes,
            spread: parse_duration(spread)?,
            after: parse_duration(after)?,
        })
    }
}

/// Splits ` from 200s to 400s` off the end of a workload, if present.
fn parse_period<'a>(whole: &str, rest: &'a str) -> Result<(&'a str, Period), String> {
    let (rest, until) =
        rest.split_once(" to ").map_or((rest, None), |(rest, until)| (rest, Some(until)));
    let (rest, from) = rest.split_once(" from ").unwrap_or((rest, "0s"));
    let until = until.map(parse_duration).transpose()?;
    let period = Period { from: parse_duration(from)?, until };
    if until.is_some_and(|until| until <= period.from) {
        let kind = whole.split(':').next().unwrap_or("web");
        return Err(format!(
            "'{whole}' ends before it begins; write {kind}:95% of 10Mbps from 200s to 400s"
        ));
    }
    Ok((rest, period))
}

/// Parses `2/s` or `60% of 10Mbps`, optionally with the objects of the pages:
/// `2/s with 20kB,4x50kB,20x30kB`.
fn parse_pages(whole: &str, rest: &str) -> Result<Workload, String> {
    let help = || {
        format!(
            "'{whole}' is not a workload; write pages:2/s (page views), pages:60% of 10Mbps, pages:2/s with 20kB,4x50kB,20x30kB (objects of each wave, 4 waves at most), or pages:2/s with 3.5x1kB..4kB..9kB..40kB..200kB..2MB (objects of a page on average, and their size's 5th, 25th, 50th, 75th, 90th and 99th percentile)"
        )
    };
    let (rest, period) = parse_period(whole, rest)?;
    let (rest, shape) = match rest.split_once(" with ") {
        None => (rest, PageShape::Archive),
        Some((rest, sizes)) if sizes.contains("..") => (rest, parse_sizes(sizes).ok_or_else(help)?),
        Some((rest, waves)) => (rest, parse_waves(waves).ok_or_else(help)?),
    };
    let load = match rest.split_once(" of ") {
        Some((load, of)) => {
            WebLoad::Computed { part: parse_load(load.trim())?, of: parse_rate(of.trim())? }
        }
        None => {
            let views =
                rest.trim().strip_suffix("/s").and_then(|views| views.trim().parse::<f64>().ok());
            WebLoad::Connections(
                views.filter(|views| (0.001..=10_000.0).contains(views)).ok_or_else(help)?,
            )
        }
    };
    let resumption = Resumption::default();
    Ok(Workload::Pages { load, shape, period, priorities: true, in_flight: IN_FLIGHT, resumption })
}

/// Parses `20kB,4x50kB,20x30kB`. The first wave is the page itself, one object.
fn parse_waves(text: &str) -> Option<PageShape> {
    let mut waves = [(0, 0); WAVES];
    for (number, wave) in text.split(',').enumerate() {
        let (count, size) = wave.trim().split_once('x').unwrap_or(("1", wave.trim()));
        let count = count.parse::<u32>().ok().filter(|count| (1..=1_000).contains(count))?;
        *waves.get_mut(number)? =
            (count, parse_bytes(size).filter(|bytes| *bytes <= 1_000_000_000)?);
    }
    (waves[0].0 == 1).then_some(PageShape::Waves(waves))
}

/// Parses `3.5x1kB..4kB..9kB..40kB..200kB..2MB`: the mean number of objects, and quantiles of their
/// sizes in ascending order.
fn parse_sizes(text: &str) -> Option<PageShape> {
    let (mean, sizes) = text.trim().split_once('x')?;
    let mean = mean
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|mean| (1.0..=f64::from(MOST_OBJECTS)).contains(mean))?;
    let sizes = sizes
        .split("..")
        .map(|size| parse_bytes(size.trim()).filter(|bytes| *bytes <= 1_000_000_000));
    let bytes: [u64; SIZE_QUANTILES.len()] =
        sizes.collect::<Option<Vec<u64>>>()?.try_into().ok()?;
    bytes.is_sorted().then_some(PageShape::Sizes { objects: (1e3 * mean).round() as u32, bytes })
}

/// Parses `4 at 2Mbps 30fps deadline 100ms`, optionally with ` for 60s` if streams end.
fn parse_media(whole: &str, rest: &str) -> Result<Workload, String> {
    let help = || {
        format!(
            "'{whole}' is not a workload; write media:4 at 2Mbps 30fps deadline 100ms (1 to 240 fps), with ' for 60s' behind it where streams end"
        )
    };
    let (rest, length) =
        rest.split_once(" for ").map_or((rest, None), |(rest, length)| (rest, Some(length)));
    let (streams, rest) = rest.split_once(" at ").ok_or_else(help)?;
    let (rest, deadline) = rest.split_once(" deadline ").ok_or_else(help)?;
    let (rate, fps) = rest.trim().split_once(' ').ok_or_else(help)?;
    let streams = parse_whole(streams.trim(), 1..=10_000)
        .map_err(|e| format!("{whole}: streams: {e}"))? as u32;
    let fps = fps.trim().strip_suffix("fps").and_then(|fps| fps.trim().parse::<u32>().ok());
    let fps = fps.filter(|fps| (1..=240).contains(fps)).ok_or_else(help)?;
    let deadline = parse_duration(deadline.trim())?;
    let length = length.map(|length| parse_duration(length.trim())).transpose()?;
    let positive = |time: &Duration| !time.is_zero();
    if !positive(&deadline)
        || length.is_some_and(|length| length.as_secs_f64() * f64::from(fps) < 1.0)
    {
        return Err(help());
    }
    Ok(Workload::Media {
        streams,
        rate: parse_rate(rate)?,
        fps,
        deadline,
        length,
        transport: MediaTransport::default(),
    })
}

/// Parses the `COUNTxSIZE@INTERVAL` of `bulk:COUNTxSIZE@INTERVAL` or `uploads:`: transfers that
/// start one after the other.
fn parse_bulk(whole: &str, rest: &str, kind: &str) -> Result<Workload, String> {
    let help = || {
        format!(
            "'{whole}' is not a workload; write {kind}:COUNTxSIZE@INTERVAL such as {kind}:4x10MB@100ms (kB, MB)"
        )
    };
    let (rest, every) = rest.split_once('@').unwrap_or((rest, "0ms"));
    let (count, size) = rest.split_once('x').ok_or_else(help)?;
    let count = parse_whole(count, 1..=1_000_000);
    let flows =
        count.map_err(|e| format!("{whole}: responses: {e}, such as {kind}:4x10MB"))? as u32;
    let every = parse_duration(every).map_err(|_| help())?;
    let bytes = Some(parse_bytes(size).ok_or_else(help)?);
    Ok(Workload::Bulk {
        flows,
        bytes,
        spread: every.saturating_mul(flows - 1),
        after: Duration::ZERO,
    })
}

/// Parses a size such as `10MB`.
fn parse_bytes(s: &str) -> Option<u64> {
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
