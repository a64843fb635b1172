//! Checks of the fields of a group of traffic.

use fathom_cc::Invalid;
use fathom_traffic::Arrivals;
use fathom_traffic::pages::IN_FLIGHT;

use super::super::error::InField;
use super::super::workload::OwnFields;
use super::super::{Chain, Connections, SMALLEST_STOCK_DATAGRAM, TcpSettings, Traffic, Workload};
use super::values::{parse_idle, parse_mix, parse_patience};
use super::{ScenarioSpec, TrafficSpec, check_name, check_packet, ends, is_idle, provided};
use crate::stack::{Controller, Stack, misreport};

/// A field that only some groups have: its name, whether it is set, and which groups have the
/// field.
type OwnField = (&'static str, bool, &'static str);

impl TrafficSpec {
    /// Checks every field.
    pub(super) fn check(&self, chain: &Chain, scenario: &ScenarioSpec) -> Result<Traffic, Invalid> {
        let stack = self.stack.unwrap_or(scenario.stack);
        check_name(&self.name)?;
        let (from, to) = ends(chain, &self.from, &self.to)?;
        // Every path for QUIC carries IP packets of 1228 bytes. For smaller packets, the sender's
        // shaping socket trims the datagrams, down to 250 bytes.
        check_packet(self.packet, 278)?;
        let workload = self.workload(stack)?;
        let mix = parse_mix(&self.controller, stack).in_field("controller")?;
        let tcp = self.tcp.check(&scenario.tcp)?;
        for (_, controller) in &mix {
            self.check_controller(controller, stack, scenario, &tcp)?;
        }
        self.check_numbers()?;
        if stack == Stack::Tcp {
            self.refuse_quic_fields()?;
        }
        let misreport = self.misreport.as_deref().map(misreport).transpose();
        Ok(Traffic {
            name: self.name.clone(),
            stack,
            load_stack: self.load_stack.unwrap_or(stack),
            tcp,
            from,
            to,
            access: self.access.check(&chain.access, workload.flows())?,
            mix,
            acks_queue: self.acks_queue,
            workload,
            connections: self.connections,
            datagram: self.datagram(),
            max_window: self.max_window.parse().in_field("max-window")?,
            drift: self.drift,
            misreport: misreport.in_field("misreport")?,
            streams: self.streams.unwrap_or(1),
            patience: parse_patience(&self.patience).in_field("patience")?,
            idle: parse_idle(&self.idle_timeout).in_field("idle-timeout")?,
            counted: self.counted,
        })
    }

    /// Returns the workload with the fields that it takes from the group.
    fn workload(&self, stack: Stack) -> Result<Workload, Invalid> {
        let mut workload: Workload = self.workload.parse().in_field("workload")?;
        self.check_own_fields(&workload, stack)?;
        workload.model_mut().take(&OwnFields {
            server_delay: self.server_delay,
            arrivals: self.arrivals,
            priorities: self.priorities,
            in_flight: self.in_flight,
        });
        if self.load_stack.is_some() && !workload.has_computed_load() {
            return Err(Invalid::because(
                "only a load in percent, such as web:90% of 10Mbps, has a load-stack",
            )
            .hint("leave it out")
            .in_field("load-stack"));
        }
        Ok(workload)
    }

    /// Checks that the controller can work on this stack with packets of this size.
    fn check_controller(
        &self,
        controller: &Controller,
        stack: Stack,
        scenario: &ScenarioSpec,
        tcp: &TcpSettings,
    ) -> Result<(), Invalid> {
        match controller {
            Controller::Fathom(config) => config
                .check(provided(stack, scenario.timestamps, scenario.shaping, tcp))
                .map_err(|missing| Invalid::because(missing.to_string()).in_field("controller")),
            Controller::Native(_) if self.datagram() < SMALLEST_STOCK_DATAGRAM => {
                Err(Invalid::because(format!(
                    "native controllers cannot send packets of {} bytes",
                    self.packet
                ))
                .hint("write 1228 or more, or use one of fathom's controllers")
                .in_field("packet"))
            }
            Controller::Native(_) => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Invalid> {
        // By default, an HTTP/3 server lets a client have 100 open requests.
        if self.streams.is_some_and(|n| !(1..=100).contains(&n)) {
            return Err(Invalid::because("write 1 to 100").in_field("streams"));
        }
        if self.drift > 10_000 {
            let hint = "write 0 to 10000 microseconds per second";
            return Err(Invalid::because(hint).in_field("drift"));
        }
        if self.misreport.is_some() && self.drift != 0 {
            return Err(Invalid::because("a group with misreport cannot also have drift")
                .hint("leave out drift")
                .in_field("misreport"));
        }
        Ok(())
    }

    /// Refuses fields that have no effect on TCP.
    fn refuse_quic_fields(&self) -> Result<(), Invalid> {
        let only_quic = [
            ("drift", self.drift != 0),
            ("streams", self.has_several_streams()),
            ("idle-timeout", !is_idle(&self.idle_timeout)),
            ("misreport", self.misreport.is_some()),
        ];
        match only_quic.into_iter().find(|(_, set)| *set) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Invalid::because("TCP in the laboratory does not support this field")
                    .hint("leave it out, or use a QUIC stack")
                    .in_field(name))
            }
        }
    }

    /// Checks the fields that only some workloads have.
    fn check_own_fields(&self, workload: &Workload, stack: Stack) -> Result<(), Invalid> {
        let has = workload.model().own_fields();
        let refuse = |fields: &[OwnField]| {
            let lacks = |(name, is_set, _): &&OwnField| *is_set && !has.contains(name);
            match fields.iter().find(lacks) {
                None => Ok(()),
                Some((name, _, who)) => Err(Invalid::because(format!("only {who}"))
                    .hint("leave it out")
                    .in_field(*name)),
            }
        };
        refuse(&[
            ("server-delay", self.server_delay, "servers of web traffic have this field"),
            ("arrivals", self.arrivals != Arrivals::default(), "web traffic has this field"),
            ("priorities", self.priorities.is_some(), "pages have this field"),
            ("in-flight", self.in_flight.is_some(), "pages have this field"),
        ])?;
        if self.in_flight.is_some_and(|n| !(1..=IN_FLIGHT).contains(&n)) {
            let hint = format!("write 1 to {IN_FLIGHT}, the number of requests that servers allow");
            return Err(Invalid::because(hint).in_field("in-flight"));
        }
        workload.check_stack(stack).in_field("workload")?;
        let chooses = self.connections != Connections::default();
        let several = self.has_several_streams();
        refuse(&[
            ("connections", chooses, "web traffic, flows and uploads have this field"),
            ("streams", several, "bodies of web traffic and flows can use several streams"),
        ])
    }

    fn has_several_streams(&self) -> bool {
        self.streams.is_some_and(|n| n > 1)
    }

    fn datagram(&self) -> u16 {
        self.packet - fathom_netsim::sim::WIRE_OVERHEAD as u16
    }
}
