//! Options that scenarios set but that have no effect in any of them. Comparisons and studies
//! refuse such options, because a result that seems to obey an ignored option is misleading.
//!
//! | option | used by | not used by |
//! |---|---|---|
//! | `timestamps` other than `off` and the default | our controllers | native controllers: the stack is unmodified |
//! | `mtu-discovery`, `gso` | quinn, noq, quiche | TCP |
//! | `reorder` | a path with a delay that a packet can skip | a path without a delay |
//! | event `mtu:` below a full datagram | every group with larger datagrams | |
//! | event `mtu:` of a full datagram or more, `blackout:0s`, `hold:0s` | | any |
//! | a media deadline above the one-way delay | every path | |
//!
//! An event after the end of a run can be detected only after the run. Reports then name the event.

use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::duration_text;
use fathom_netsim::path::{DirectedPath, PathEvent};

use super::{Scenario, Timestamps, Traffic};
use crate::stack::{Controller, Stack};

/// An option that a scenario sets.
struct SetOption<'a> {
    option: Opt<'a>,
    /// Effect of the option: `Ok` if it has one in this scenario, otherwise the reason why not.
    effect: Result<(), NoEffect>,
}

/// Identity of an option across scenarios.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opt<'a> {
    /// A field.
    Field(&'static str),
    /// An event of the path.
    Event(PathEvent),
    /// The deadline of the media in the group with this name.
    Deadline(&'a str),
}

/// Reason why an option has no effect in a scenario.
#[derive(Clone, Copy)]
enum NoEffect {
    /// Native controllers run on unmodified stacks, which carry no one-way delays.
    OnlyNative(Timestamps),
    /// No stack of the scenario has the setting in this field.
    OnlyTcp(&'static str),
    /// Reordering in this field lets packets skip a delay, but the path has no delay.
    NothingToSkip(&'static str),
    /// Every datagram of the traffic passes after the event. The largest datagram has this many
    /// bytes.
    AllPass(PathEvent, u16),
    /// The event has a duration of zero.
    NoTime(PathEvent),
    /// The propagation delay is at least as long as the deadline of the media.
    AlwaysLate { deadline: Duration, delay: Duration },
}

impl NoEffect {
    /// Returns the error of an option without effect. `path` is the name of the path.
    fn error(self, path: &str) -> Invalid {
        match self {
            Self::OnlyNative(timestamps) => Invalid::because(format!(
                "native controllers run on the unmodified stack, so '{timestamps}' has no effect"
            ))
            .hint("leave it out, or compare a controller such as sync")
            .in_field("timestamps"),
            Self::OnlyTcp(field) => {
                let stacks: Vec<&str> = Stack::ALL.iter().map(|stack| stack.name()).collect();
                Invalid::because("none of these stacks supports this option")
                    .hint(format!("leave it out, or add one of the stacks {}", stacks.join(", ")))
                    .in_field(field)
            }
            Self::NothingToSkip(field) => Invalid::because(
                "a reordered packet skips the propagation delay, but this path has none",
            )
            .hint("add rtt, such as 30ms, or a distance, such as 1%,distance=3")
            .in_field(field)
            .in_table(path),
            Self::AllPass(event, datagram) => Invalid::because(format!(
                "'{event}' has no effect, because datagrams have at most {datagram} bytes"
            ))
            .hint("write a smaller MTU, such as mtu:1250@20s")
            .in_field("event")
            .in_table(path),
            Self::NoTime(event) => Invalid::value(&event.to_string(), "lasts no time")
                .hint("write a duration, such as blackout:2s@10s or hold:200ms@10s")
                .in_field("event")
                .in_table(path),
            Self::AlwaysLate { deadline, delay } => Invalid::because(format!(
                "a deadline of {} is not longer than the path's one-way delay of {}, so every \
                 frame would miss it",
                duration_text(deadline),
                duration_text(delay)
            ))
            .hint("write a longer deadline or a shorter RTT")
            .in_field("workload"),
        }
    }
}

/// Refuses an option if it has no effect in any of the scenarios that set it. `path` is the name of
/// the path in messages.
///
/// # Errors
/// Returns an error that names the first such option and what to write instead.
pub(crate) fn check_used(scenarios: &[&Scenario], path: &str) -> Result<(), Invalid> {
    let all: Vec<SetOption<'_>> = scenarios.iter().flat_map(|scenario| options(scenario)).collect();
    let mut used: Vec<Opt<'_>> = Vec::new();
    for set in all.iter().filter(|set| set.effect.is_ok()) {
        if !used.contains(&set.option) {
            used.push(set.option);
        }
    }
    let unused = all.iter().filter(|set| !used.contains(&set.option));
    match unused.filter_map(|set| set.effect.err()).next() {
        Some(reason) => Err(reason.error(path)),
        None => Ok(()),
    }
}

/// Returns the options that a scenario sets and whether they have an effect.
fn options(scenario: &Scenario) -> Vec<SetOption<'_>> {
    let mut all = vec![];
    if ![Timestamps::Off, Timestamps::default()].contains(&scenario.timestamps) {
        all.push(timestamps(scenario));
    }
    if scenario.mtu_discovery {
        all.push(quic_setting(scenario, "mtu-discovery"));
    }
    if scenario.gso.is_some() {
        all.push(quic_setting(scenario, "gso"));
    }
    if let Some(path) = scenario.chain.path.as_deref() {
        all.extend(reorder("reorder", &path.down));
        all.extend(reorder("up-reorder", &path.up));
        let events = &path.down.impairments.events;
        all.extend(events.iter().filter_map(|of| event(*of, largest_datagram(scenario))));
    }
    all.extend(scenario.traffic.iter().filter_map(|traffic| deadline(scenario, traffic)));
    all
}

/// Returns `Ok` if the option has an effect, and otherwise the reason.
fn effect(has_effect: bool, otherwise: NoEffect) -> Result<(), NoEffect> {
    if has_effect { Ok(()) } else { Err(otherwise) }
}

/// Checks the encoding of one-way delays. It is used unless every controller is a stack's own.
fn timestamps(scenario: &Scenario) -> SetOption<'_> {
    let mut controllers = scenario.traffic.iter().flat_map(|traffic| &traffic.mix);
    let any_ours = controllers.any(|(_, c)| !matches!(c, Controller::Native(_)));
    let effect = effect(any_ours, NoEffect::OnlyNative(scenario.timestamps));
    SetOption { option: Opt::Field("timestamps"), effect }
}

/// Checks a setting of QUIC stacks. It is used unless only TCP runs.
fn quic_setting<'a>(scenario: &'a Scenario, field: &'static str) -> SetOption<'a> {
    let any_quic = scenario.traffic.iter().any(|traffic| traffic.stack != Stack::Tcp);
    SetOption { option: Opt::Field(field), effect: effect(any_quic, NoEffect::OnlyTcp(field)) }
}

/// Returns the largest UDP payload of the traffic, in bytes.
fn largest_datagram(scenario: &Scenario) -> u16 {
    let traffic = scenario.traffic.iter().map(|traffic| traffic.datagram);
    let background = scenario.background.iter().map(|background| background.datagram);
    traffic.chain(background).max().unwrap_or_default()
}

/// Checks reordering. It has an effect if packets can skip a delay, or if it is given as a
/// distance.
fn reorder<'a>(field: &'static str, way: &DirectedPath) -> Option<SetOption<'a>> {
    let reorder = way.impairments.reorder;
    let reorders = reorder.distance.is_some() || !way.delay.is_zero();
    let effect = effect(reorders, NoEffect::NothingToSkip(field));
    (reorder.part > 0.0).then_some(SetOption { option: Opt::Field(field), effect })
}

/// Checks an event that may affect no packet.
fn event<'a>(event: PathEvent, datagram: u16) -> Option<SetOption<'a>> {
    let effect = match event {
        PathEvent::Mtu { payload, .. } => {
            effect(payload < datagram, NoEffect::AllPass(event, datagram))
        }
        PathEvent::Blackout { lasts, .. } | PathEvent::Hold { lasts, .. } if lasts.is_zero() => {
            Err(NoEffect::NoTime(event))
        }
        _ => return None,
    };
    Some(SetOption { option: Opt::Event(event), effect })
}

/// Checks a media deadline. It can be met if it is above the propagation delay from servers to
/// clients.
fn deadline<'a>(scenario: &Scenario, traffic: &'a Traffic) -> Option<SetOption<'a>> {
    let deadline = traffic.workload.model().deadline()?;
    let chain = &scenario.chain;
    let delay = match chain.path.as_deref() {
        Some(path) => {
            let is_step = |event: &PathEvent| matches!(event, PathEvent::Rtt { .. });
            if path.down.impairments.events.iter().any(is_step) {
                return None;
            }
            if traffic.from < traffic.to { path.down.delay } else { path.up.delay }
        }
        None => {
            let between = traffic.from.min(traffic.to)..traffic.from.max(traffic.to);
            let links: Duration = chain.links[between].iter().map(|link| link.delay).sum();
            links + 2 * traffic.access.delay.0
        }
    };
    let effect = effect(deadline > delay, NoEffect::AlwaysLate { deadline, delay });
    Some(SetOption { option: Opt::Deadline(&traffic.name), effect })
}
