//! Options that scenarios set and that have no effect in any of them. Comparisons and studies refuse
//! such options: a result that looks as if an option had been obeyed misleads.
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
//! An event that comes after the end of a run is known only after the run; reports name it.

use std::collections::HashSet;
use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_netsim::path::{DirectedPath, PathEvent};

use super::{PlanError, Scenario, Timestamps, Traffic};
use crate::stack::{Controller, Stack};

/// An option that a scenario sets: its name with its value, and why it has no effect there.
type Set = (String, Result<(), String>);

/// Refuses options that have no effect in any of these scenarios that sets them. `path` is the name
/// of the path in messages.
///
/// # Errors
/// Returns an error that names the first such option and what to write instead.
pub(crate) fn check_used(scenarios: &[&Scenario], path: &str) -> Result<(), PlanError> {
    let all: Vec<Set> = scenarios.iter().flat_map(|scenario| options(scenario, path)).collect();
    let used: HashSet<&String> =
        all.iter().filter(|(_, effect)| effect.is_ok()).map(|(name, _)| name).collect();
    let mut unused = all.iter().filter(|(name, _)| !used.contains(name));
    unused.find_map(|(_, effect)| effect.clone().err()).map_or(Ok(()), |why| Err(PlanError(why)))
}

/// Returns the options that a scenario sets and whether they have an effect.
fn options(scenario: &Scenario, path: &str) -> Vec<Set> {
    let mut all = vec![];
    if ![Timestamps::Off, Timestamps::default()].contains(&scenario.timestamps) {
        all.push(("timestamps".to_owned(), timestamps(scenario)));
    }
    if scenario.mtu_discovery {
        all.push(("mtu-discovery".to_owned(), of_quic(scenario, "mtu-discovery")));
    }
    if scenario.gso.is_some() {
        all.push(("gso".to_owned(), of_quic(scenario, "gso")));
    }
    if let Some(of) = scenario.chain.path.as_deref() {
        let ways = [("reorder", &of.down), ("up-reorder", &of.up)];
        all.extend(ways.iter().filter_map(|(name, way)| reorder(name, way, path)));
        let events = &of.down.impairments.events;
        all.extend(events.iter().filter_map(|of| event(of, largest_datagram(scenario), path)));
    }
    all.extend(scenario.traffic.iter().filter_map(|traffic| deadline(scenario, traffic)));
    all
}

/// An encoding of one-way delays is used unless every controller is a stack's own.
fn timestamps(scenario: &Scenario) -> Result<(), String> {
    let is_ours = |traffic: &Traffic| {
        traffic.mix.iter().any(|(_, controller)| !matches!(controller, Controller::Native(_)))
    };
    if scenario.traffic.iter().any(is_ours) {
        return Ok(());
    }
    Err(format!(
        "timestamps: native controllers run on the stack as it comes, without '{}'; leave it out, or compare a controller such as sync",
        scenario.timestamps
    ))
}

/// Settings of QUIC stacks are used unless only TCP runs.
fn of_quic(scenario: &Scenario, name: &str) -> Result<(), String> {
    if scenario.traffic.iter().any(|traffic| traffic.stack != Stack::Tcp) {
        return Ok(());
    }
    Err(format!(
        "{name}: none of these stacks does it; leave it out, or add one of {}",
        Stack::ALL.iter().map(|stack| stack.name()).collect::<Vec<_>>().join(", ")
    ))
}

/// Returns the largest UDP payload of the traffic, in bytes.
fn largest_datagram(scenario: &Scenario) -> u16 {
    let traffic = scenario.traffic.iter().map(|traffic| traffic.datagram);
    let background = scenario.background.iter().map(|background| background.datagram);
    traffic.chain(background).max().unwrap_or_default()
}

/// Reordering is used if there is a delay that a packet can skip, or a distance.
fn reorder(name: &str, way: &DirectedPath, path: &str) -> Option<Set> {
    let reorder = way.impairments.reorder;
    (reorder.part > 0.0).then(|| {
        let effect = if reorder.distance.is_some() || !way.delay.is_zero() {
            Ok(())
        } else {
            Err(format!(
                "{path}.{name}: a packet skips the propagation delay, and there is none; add rtt, such as 30ms, or a distance, such as 1%,distance=3"
            ))
        };
        (name.to_owned(), effect)
    })
}

/// Events that may touch no packet.
fn event(event: &PathEvent, datagram: u16, path: &str) -> Option<Set> {
    let effect = match event {
        PathEvent::Mtu { payload, .. } if *payload >= datagram => Err(format!(
            "{path}.event: '{event}': datagrams have {datagram} bytes at most, and all pass; write less, such as mtu:1250@20s"
        )),
        PathEvent::Blackout { lasts, .. } | PathEvent::Hold { lasts, .. } if lasts.is_zero() => {
            Err(format!(
                "{path}.event: '{event}' lasts no time; write such as blackout:2s@10s or hold:200ms@10s"
            ))
        }
        PathEvent::Mtu { .. } => Ok(()),
        _ => return None,
    };
    Some((format!("event {event}"), effect))
}

/// A deadline of media can be met if it is above the propagation delay from servers to clients.
fn deadline(scenario: &Scenario, traffic: &Traffic) -> Option<Set> {
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
    let effect = if deadline > delay {
        Ok(())
    } else {
        Err(format!(
            "workload: a deadline of {} is not above the path's one-way delay of {}: every frame would miss it; write a longer deadline or a shorter RTT",
            duration_text(deadline),
            duration_text(delay)
        ))
    };
    Some((format!("deadline of {}", traffic.name), effect))
}
