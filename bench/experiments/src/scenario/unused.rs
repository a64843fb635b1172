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

use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_netsim::path::{DirectedPath, Path, PathEvent};

use super::{PlanError, Scenario, Timestamps, Traffic, Workload};
use crate::stack::{Controller, Stack};

/// Refuses options that have no effect in any of these scenarios. `path` is the name of the path in
/// messages.
///
/// # Errors
/// Returns an error that names the first such option and what to write instead.
pub(crate) fn check_used(scenarios: &[&Scenario], path: &str) -> Result<(), PlanError> {
    check_timestamps(scenarios)?;
    check_of_quic(scenarios)?;
    for scenario in scenarios {
        if let Some(of) = scenario.chain.path.as_deref() {
            let datagram = scenario.traffic.iter().map(|traffic| traffic.datagram).max();
            check_path(of, datagram.unwrap_or_default())
                .map_err(|e| PlanError(format!("{path}.{e}")))?;
        }
        scenario.traffic.iter().try_for_each(|traffic| check_deadline(scenario, traffic))?;
    }
    Ok(())
}

/// Refuses an encoding of one-way delays if every controller is a stack's own.
fn check_timestamps(scenarios: &[&Scenario]) -> Result<(), PlanError> {
    let is_set = |timestamps| ![Timestamps::Off, Timestamps::default()].contains(&timestamps);
    let set: Vec<_> = scenarios.iter().filter(|scenario| is_set(scenario.timestamps)).collect();
    let is_ours = |traffic: &Traffic| {
        traffic.mix.iter().any(|(_, controller)| !matches!(controller, Controller::Native(_)))
    };
    match set.first() {
        Some(first) if !set.iter().any(|scenario| scenario.traffic.iter().any(is_ours)) => {
            Err(PlanError(format!(
                "timestamps: native controllers run on the stack as it comes, without '{}'; leave it out, or compare a controller such as sync",
                first.timestamps
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses settings of QUIC stacks if only TCP runs.
fn check_of_quic(scenarios: &[&Scenario]) -> Result<(), PlanError> {
    let any = |is: fn(&Scenario) -> bool| scenarios.iter().any(|scenario| is(scenario));
    let unused = [
        ("mtu-discovery", any(|of| of.mtu_discovery), any(|of| of.mtu_discovery && of.has_quic())),
        ("gso", any(|of| of.gso.is_some()), any(|of| of.gso.is_some() && of.has_quic())),
    ];
    match unused.into_iter().find(|(_, is_set, is_used)| *is_set && !is_used) {
        Some((name, ..)) => Err(PlanError(format!(
            "{name}: none of these stacks does it; leave it out, or add one of {}",
            Stack::ALL.iter().map(|stack| stack.name()).collect::<Vec<_>>().join(", ")
        ))),
        None => Ok(()),
    }
}

/// Refuses impairments and events of a path that change no packet of at most `datagram` bytes.
fn check_path(path: &Path, datagram: u16) -> Result<(), String> {
    let ways = [("reorder", &path.down), ("up-reorder", &path.up)];
    let skips_nothing = |way: &DirectedPath| {
        let reorder = way.impairments.reorder;
        reorder.part > 0.0 && reorder.distance.is_none() && way.delay.is_zero()
    };
    if let Some((name, _)) = ways.iter().find(|(_, way)| skips_nothing(way)) {
        return Err(format!(
            "{name}: a packet skips the propagation delay, and there is none; add rtt, such as 30ms, or a distance, such as 1%,distance=3"
        ));
    }
    for event in &path.down.impairments.events {
        match event {
            PathEvent::Mtu { payload, .. } if *payload >= datagram => {
                return Err(format!(
                    "event: '{event}': datagrams have {datagram} bytes at most, and all pass; write less, such as mtu:1250@20s"
                ));
            }
            PathEvent::Blackout { lasts, .. } | PathEvent::Hold { lasts, .. }
                if lasts.is_zero() =>
            {
                return Err(format!(
                    "event: '{event}' lasts no time; write such as blackout:2s@10s or hold:200ms@10s"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a deadline of media that no frame can meet: one that is not above the propagation delay
/// from servers to clients.
fn check_deadline(scenario: &Scenario, traffic: &Traffic) -> Result<(), PlanError> {
    let Workload::Media { deadline, .. } = traffic.workload else { return Ok(()) };
    let chain = &scenario.chain;
    let delay = match chain.path.as_deref() {
        Some(path) => {
            let is_step = |event: &PathEvent| matches!(event, PathEvent::Rtt { .. });
            if path.down.impairments.events.iter().any(is_step) {
                return Ok(());
            }
            path.down.delay
        }
        None => {
            let between = traffic.from.min(traffic.to)..traffic.from.max(traffic.to);
            let links: Duration = chain.links[between].iter().map(|link| link.delay).sum();
            links + 2 * traffic.access.delay.0
        }
    };
    if deadline > delay {
        return Ok(());
    }
    Err(PlanError(format!(
        "workload: a deadline of {} is not above the path's one-way delay of {}: every frame would miss it; write a longer deadline or a shorter RTT",
        duration_text(deadline),
        duration_text(delay)
    )))
}
