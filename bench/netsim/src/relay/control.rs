//! Changes of a relay's path while the relay runs, by one-line commands, as `fathom link --control`
//! takes them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fathom_units::{Invalid, Time, parse_nonzero_duration};

use super::command::{CommandError, Control, Reply, Request};
use super::forwarder::{Relay, Waiting};
use super::line::Line;
use super::passage::Towards;
use crate::link::{Capacity, HasNoRate};
use crate::path::{DirectedPath, PathEvent, PathSpec};

/// Options that a command can change.
const OPTIONS: [&str; 9] =
    ["rate", "delay", "loss", "jitter", "reorder", "duplicate", "corrupt", "policer", "ecn"];
/// Largest number of events in a direction. It includes the events of the path, and events of
/// commands that are not over.
const MOST_EVENTS: usize = 64;
/// Largest number of commands that are handled before the next datagrams.
const AT_ONCE: usize = 16;
/// Length of the longest blackout or hold.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Relay {
    /// Makes the relay handle commands from now on. `path` is the relay's path as written, with its
    /// preset expanded.
    #[must_use]
    pub fn controlled(mut self, path: &PathSpec, requests: Receiver<Request>) -> Self {
        let up = |(name, _): (&'static str, &str)| name.strip_prefix("up-").map(str::to_owned);
        self.control = Some(Control { requests, only_up: path.said().filter_map(up).collect() });
        self
    }

    /// Handles the commands that have arrived so far.
    pub(super) fn obey(&mut self, now: Duration) {
        for _ in 0..AT_ONCE {
            let Some(Ok(request)) =
                self.control.as_ref().map(|control| control.requests.try_recv())
            else {
                return;
            };
            let answer = self.command(&request.command, now);
            // The sender of the command may no longer exist.
            let _ = request.reply.send(answer);
        }
    }

    /// Handles one command.
    pub(super) fn command(&mut self, line: &str, now: Duration) -> Result<Reply, CommandError> {
        let line = line.trim();
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim();
        match name {
            "status" | "help" | "rebind" if !value.is_empty() => Err(CommandError::TakesNoValue(
                ["status", "help", "rebind"].into_iter().find(|n| *n == name).unwrap_or("help"),
            )),
            "status" => Ok(Reply::Status(Box::new(self.stats()))),
            "help" => Ok(Reply::Help),
            "rebind" => {
                self.rebind();
                Ok(Reply::Done)
            }
            "blackout" => self.event(
                PathEvent::Blackout { at: now, lasts: time("blackout", "3s", value)?, every: None },
                now,
            ),
            "hold" => self.event(
                PathEvent::Hold { at: now, lasts: time("hold", "200ms", value)?, every: None },
                now,
            ),
            "mtu" if value.is_empty() => Err(CommandError::NoValue("mtu", "1250")),
            "mtu" => {
                let text = format!("mtu:{value}@0s");
                let Ok(PathEvent::Mtu { payload, .. }) = text.parse() else {
                    return Err(CommandError::Value(
                        Invalid::value(value, "is not an MTU from 500 to 9000 bytes")
                            .hint("write a command such as mtu 1250")
                            .in_field("mtu"),
                    ));
                };
                self.event(PathEvent::Mtu { at: now, payload }, now)
            }
            _ => self.set(name, value, now),
        }
    }

    /// Adds an event to both directions.
    fn event(&mut self, event: PathEvent, now: Duration) -> Result<Reply, CommandError> {
        let is_over = |old: &PathEvent| match *old {
            PathEvent::Blackout { at, lasts, every: None }
            | PathEvent::Hold { at, lasts, every: None } => at + lasts < now,
            // Only the newest MTU event applies.
            PathEvent::Mtu { at, .. } => matches!(event, PathEvent::Mtu { .. }) && at <= now,
            _ => false,
        };
        for line in [&mut self.down, &mut self.up] {
            line.impairer.change(|spec, _| spec.events.retain(|old| !is_over(old)));
            if line.impairer.events() >= MOST_EVENTS {
                return Err(CommandError::TooMany(MOST_EVENTS));
            }
        }
        for line in [&mut self.down, &mut self.up] {
            line.impairer.change(|spec, _| spec.events.push(event));
        }
        Ok(Reply::Done)
    }

    /// Changes an option.
    fn set(&mut self, name: &str, value: &str, now: Duration) -> Result<Reply, CommandError> {
        let (up_only, base) = name.strip_prefix("up-").map_or((false, name), |base| (true, base));
        let shown = || name.chars().take(40).collect::<String>().escape_debug().to_string();
        let known =
            OPTIONS.into_iter().find(|option| *option == base && PathSpec::OPTIONS.contains(&name));
        let known = known.or((name == "rtt").then_some("rtt"));
        let Some(base) = known else {
            let fixed = PathSpec::OPTIONS.contains(&name);
            return Err(if fixed {
                CommandError::Fixed(shown())
            } else {
                CommandError::Unknown(shown())
            });
        };
        if value.is_empty() {
            return Err(CommandError::NoValue(base, example(base)));
        }
        let mut spec = PathSpec::default();
        if value != "none" {
            if let Some(field) = spec.field(name) {
                *field = Some(value.to_owned());
            }
        } else if base == "rate" {
            return Err(CommandError::NoValue("rate", example("rate")));
        }
        let path = spec.check().map_err(CommandError::Value)?;
        if path.rtt.0 != path.rtt.1 {
            return Err(CommandError::Value(
                Invalid::because("the relay gives all clients the same RTT")
                    .hint("write one time, such as 30ms")
                    .in_field("rtt"),
            ));
        }
        let said_up = self
            .control
            .as_ref()
            .is_some_and(|control| control.only_up.iter().any(|option| option == base));
        let directions = [
            (Towards::Client, &path.down, !up_only),
            (Towards::Server, &path.up, up_only || !said_up),
        ];
        let directions = directions.into_iter().filter(|(.., applies)| *applies);
        if base == "rate" {
            let lines: Vec<_> = directions.map(|(towards, path, _)| (towards, path)).collect();
            self.set_rates(&lines, name, now)?;
        } else {
            for (towards, path, _) in directions {
                change(self.line(towards), base, path, now);
            }
        }
        if let Some(control) = self.control.as_mut().filter(|_| up_only) {
            control.only_up.push(base.to_owned());
            control.only_up.dedup();
        }
        Ok(Reply::Done)
    }

    /// Changes the rates of all these lines, or of none of them if one has no rate.
    fn set_rates(
        &mut self,
        lines: &[(Towards, &DirectedPath)],
        name: &str,
        now: Duration,
    ) -> Result<(), CommandError> {
        let shown = || name.to_owned();
        for (towards, _) in lines {
            match &self.line(*towards).link {
                None => return Err(CommandError::NoLink(shown())),
                Some(link) if !link.has_rate() => {
                    return Err(CommandError::NoRate(shown(), HasNoRate));
                }
                Some(_) => {}
            }
        }
        for (towards, path) in lines {
            let Some((Capacity::Fixed(rate), _)) = path.link else { continue };
            let now = Time::ZERO + now;
            let line = self.line(*towards);
            let Some(link) = &mut line.link else { continue };
            let moved = link.set_rate(now, rate).map_err(|e| CommandError::NoRate(shown(), e))?;
            if let Some(free) = &mut line.free {
                *free = moved.first().map_or(*free, |(_, new)| *new);
            }
            self.reschedule(*towards, &moved);
        }
        Ok(())
    }

    /// Updates the departures of datagrams that have not left their link. The time that they take
    /// behind the link stays the same.
    fn reschedule(&mut self, towards: Towards, moved: &[(Time, Time)]) {
        let mut waiting = std::mem::take(&mut self.waiting).into_vec();
        let mut last = Time::ZERO;
        for Reverse(Waiting { at, out, .. }) in
            waiting.iter_mut().filter(|w| w.0.towards == towards)
        {
            if let Ok(found) = moved.binary_search_by_key(out, |(old, _)| *old) {
                let new = moved[found].1;
                (*at, *out) = (new + at.since(*out), new);
            }
            last = last.max(*at);
        }
        self.waiting = BinaryHeap::from(waiting);
        self.line(towards).impairer.set_last(last);
    }
}

/// Changes one option of a line to its value in `path`.
fn change(line: &mut Line, option: &str, path: &DirectedPath, now: Duration) {
    let new = &path.impairments;
    line.impairer.change(|spec, delay| match option {
        "rtt" | "delay" => {
            // Earlier RTT events would otherwise override the new delay.
            spec.events.retain(|event| !matches!(event, PathEvent::Rtt { at, .. } if *at <= now));
            *delay = path.delay;
        }
        "loss" => spec.loss = new.loss,
        "jitter" => spec.jitter = new.jitter,
        "reorder" => spec.reorder = new.reorder,
        "duplicate" => spec.duplicate = new.duplicate,
        "corrupt" => spec.corrupt = new.corrupt,
        "policer" => spec.policer = new.policer,
        "ecn" => spec.ecn = new.ecn,
        _ => {}
    });
}

fn time(name: &'static str, example: &'static str, value: &str) -> Result<Duration, CommandError> {
    if value.is_empty() {
        return Err(CommandError::NoValue(name, example));
    }
    let wrong = |error: Invalid| CommandError::Value(error.in_field(name));
    match parse_nonzero_duration(value).map_err(wrong)? {
        time if time > LONGEST => Err(wrong(
            Invalid::value(value, "is more than an hour")
                .hint(format!("write a command such as {name} {example}")),
        )),
        time => Ok(time),
    }
}

/// Returns an example value of an option.
fn example(option: &str) -> &'static str {
    match option {
        "rate" => "5Mbps",
        "rtt" => "80ms",
        "delay" => "40ms",
        "loss" => "2%",
        "jitter" => "5ms",
        "policer" => "10Mbps,burst=100kB",
        "ecn" => "bleach",
        _ => "1%",
    }
}

#[cfg(test)]
mod tests;
