//! Checks of the fields of a group of traffic.

use fathom_traffic::Arrivals;
use fathom_traffic::pages::IN_FLIGHT;

use super::super::error::field;
use super::super::workload::OwnFields;
use super::super::{Chain, Connections, PlanError, SMALLEST_STOCK_DATAGRAM, Traffic, Workload};
use super::values::{parse_idle, parse_mix, parse_patience};
use super::{ScenarioSpec, TrafficSpec, ends, is_idle, provided};
use crate::stack::{Controller, Stack, misreport};

impl TrafficSpec {
    pub(super) fn check(
        &self,
        chain: &Chain,
        scenario: &ScenarioSpec,
    ) -> Result<Traffic, PlanError> {
        let stack = self.stack.unwrap_or(scenario.stack);
        let at = |name: &str| format!("traffic '{}': {name}", self.name.escape_debug());
        if self.name.is_empty() || self.name.contains('/') {
            return Err(PlanError(at("a name is a word without '/'")));
        }
        let (from, to) = ends(chain, &self.from, &self.to).map_err(|e| PlanError(at(&e)))?;
        // Every path for QUIC carries IP packets of 1228 bytes. For smaller packets, the sender's
        // shaping socket trims the datagrams, down to 250 bytes.
        if !(278..=1_500).contains(&self.packet) {
            return Err(PlanError(at(&format!(
                "packet: {} is out of range; write 278 to 1500 bytes",
                self.packet
            ))));
        }
        let mut workload: Workload = field(&at("workload"), self.workload.parse())?;
        self.check_own_fields(&workload, stack).map_err(|e| PlanError(at(&e)))?;
        workload.model_mut().take(&OwnFields {
            server_delay: self.server_delay,
            arrivals: self.arrivals,
            priorities: self.priorities,
            in_flight: self.in_flight,
        });
        if self.load_stack.is_some() && !workload.has_computed_load() {
            return Err(PlanError(at(
                "load-stack: only a load such as web:90% of 10Mbps has one; leave it out",
            )));
        }
        let mix = field(&at("controller"), parse_mix(&self.controller, stack))?;
        let tcp = self.tcp.check(&scenario.tcp).map_err(|PlanError(e)| PlanError(at(&e)))?;
        for (_, controller) in &mix {
            if let Controller::Fathom(controller_config) = controller {
                let provided = provided(stack, scenario.timestamps, scenario.shaping, &tcp);
                field(
                    &at("controller"),
                    controller_config.check(provided).map_err(|e| e.to_string()),
                )?;
            } else if self.datagram() < SMALLEST_STOCK_DATAGRAM {
                return Err(PlanError(at(&format!(
                    "packet: a stack's own controller cannot send packets of {} bytes; write 1228 or more, or use one of ours",
                    self.packet
                ))));
            }
        }
        // By default, an HTTP/3 server lets a client have 100 open requests.
        if self.streams.is_some_and(|n| !(1..=100).contains(&n)) {
            return Err(PlanError(at("streams: write 1 to 100")));
        }
        if !(0..=10_000).contains(&self.drift) {
            return Err(PlanError(at("drift: write 0 to 10000 microseconds per second")));
        }
        if self.misreport.is_some() && self.drift != 0 {
            return Err(PlanError(at(
                "misreport: what such a clock shows has no drift besides; leave out drift",
            )));
        }
        if stack == Stack::Tcp {
            let several = self.streams.is_some_and(|n| n > 1);
            let only_quic = [
                ("drift", self.drift != 0),
                ("streams", several),
                ("idle-timeout", !is_idle(&self.idle_timeout)),
                ("misreport", self.misreport.is_some()),
            ];
            if let Some((name, _)) = only_quic.iter().find(|(_, set)| *set) {
                return Err(PlanError(at(&format!(
                    "{name}: TCP has none here; leave it out, or use a stack of QUIC"
                ))));
            }
        }
        Ok(Traffic {
            name: self.name.clone(),
            stack,
            load_stack: self.load_stack.unwrap_or(stack),
            tcp,
            from,
            to,
            access: self
                .access
                .check(&chain.access, workload.flows())
                .map_err(|PlanError(e)| PlanError(at(&e)))?,
            mix,
            acks_queue: self.acks_queue,
            workload,
            connections: self.connections,
            datagram: self.datagram(),
            max_window: field(&at("max-window"), self.max_window.parse())?,
            drift: self.drift,
            misreport: field(
                &at("misreport"),
                self.misreport.as_deref().map(misreport).transpose(),
            )?,
            streams: self.streams.unwrap_or(1),
            patience: field(&at("patience"), parse_patience(&self.patience))?,
            idle: field(&at("idle-timeout"), parse_idle(&self.idle_timeout))?,
            counted: self.counted,
        })
    }

    /// Checks the fields that only some workloads have.
    fn check_own_fields(&self, workload: &Workload, stack: Stack) -> Result<(), String> {
        let has = workload.model().own_fields();
        let refuse = |fields: &[(&str, bool, &str)]| {
            let lacks = |(name, is_set, _): &&(&str, bool, &str)| *is_set && !has.contains(name);
            fields
                .iter()
                .find(lacks)
                .map_or(Ok(()), |(name, _, who)| Err(format!("{name}: only {who}; leave it out")))
        };
        refuse(&[
            ("server-delay", self.server_delay, "servers of web traffic have one"),
            ("arrivals", self.arrivals != Arrivals::default(), "web traffic has them"),
            ("priorities", self.priorities.is_some(), "pages have them"),
            ("in-flight", self.in_flight.is_some(), "pages have it"),
        ])?;
        if self.in_flight.is_some_and(|n| !(1..=IN_FLIGHT).contains(&n)) {
            return Err(format!("in-flight: write 1 to {IN_FLIGHT}, what servers grant"));
        }
        workload.check_stack(stack).map_err(|e| format!("workload: {e}"))?;
        let chooses = self.connections != Connections::default();
        let several = self.streams.is_some_and(|n| n > 1);
        refuse(&[
            ("connections", chooses, "web traffic, flows and uploads choose"),
            ("streams", several, "bodies of web traffic and flows travel over several"),
        ])
    }

    fn datagram(&self) -> u16 {
        self.packet - fathom_netsim::sim::WIRE_OVERHEAD as u16
    }
}
