//! Cross traffic of a comparison: other flows that use the path in every run.

use fathom_cc::{Invalid, Rate, catalogue};
use fathom_netsim::path::parse_rate;
use fathom_netsim::sim::WIRE_OVERHEAD;

use crate::scenario::{
    BackgroundSpec, InField, Shaping, TcpSettings, Timestamps, TrafficSpec, provided,
};
use crate::stack::{Controller, ControllerSpec, DATAGRAM, Stack};

/// Cross traffic as written: `cubic:2` (two bulk flows with Fathom's CUBIC on the stack under
/// test), `native:bbr` (one flow with the stack's own BBR), `tcp` or `tcp-reno:3` (packet-level
/// TCP), `udp:2Mbps`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Beside {
    /// Bulk flows that last as long as the run.
    Flows {
        /// Whether the flows use packet-level TCP instead of the stack under test.
        tcp: bool,
        /// Controller of the flows.
        controller: String,
        /// Number of flows.
        count: u32,
    },
    /// One UDP source at this rate.
    Udp(Rate),
}

/// Beginning of the names of cross traffic in results.
const PREFIX: &str = "beside ";
/// Maximum number of flows in one item.
const MOST: u64 = 1_000;

impl Beside {
    pub(crate) fn read(text: &str) -> Result<Self, Invalid> {
        let wrong = |why: String| {
            Invalid::because(format!(
                "'{}' {why}; write a controller and its number of flows, such as cubic:2 or \
                 native:bbr:1, packet-level TCP such as tcp:2 or tcp-reno:1, or a UDP source such \
                 as udp:2Mbps",
                text.escape_debug()
            ))
            .in_field("beside")
        };
        if let Some(rate) = text.strip_prefix("udp:") {
            return parse_rate(rate)
                .map(Self::Udp)
                .map_err(|e| wrong(format!("has no rate ({e})")));
        }
        let (name, count) = match text.rsplit_once(':') {
            Some((name, count))
                if count.bytes().all(|b| b.is_ascii_digit()) && !count.is_empty() =>
            {
                let count = fathom_cc::units::parse_whole(count, 1..=MOST)
                    .map_err(|e| wrong(format!("has an invalid number of flows ({e})")))?;
                (name, count as u32)
            }
            _ => (text, 1),
        };
        if name == "udp" {
            return Err(wrong("has no rate".into()));
        }
        let (tcp, controller) = match name {
            "tcp" => (true, "cubic"),
            name => {
                name.strip_prefix("tcp-").map_or((false, name), |controller| (true, controller))
            }
        };
        if let ControllerSpec::Fathom(spec) = ControllerSpec::from(controller) {
            catalogue::parse(&spec)
                .map_err(|e| wrong(format!("is not valid cross traffic ({e})")))?;
        }
        Ok(Self::Flows { tcp, controller: controller.to_owned(), count })
    }

    /// Checks that the stack that runs this cross traffic supports its controller. `stack` is the
    /// stack under test.
    pub(crate) fn check(
        &self,
        stack: Stack,
        timestamps: Timestamps,
        shaping: Shaping,
    ) -> Result<(), Invalid> {
        let Self::Flows { tcp, controller, .. } = self else { return Ok(()) };
        let stack = if *tcp { Stack::Tcp } else { stack };
        let read = Controller::read(controller, stack).in_field("beside")?;
        match read {
            Controller::Fathom(config) => config
                .check(provided(stack, timestamps, shaping, &TcpSettings::default()))
                .map_err(|e| Invalid::because(e.to_string()).in_field("beside")),
            Controller::Native(_) => Ok(()),
        }
    }

    /// Returns the spec of the controller, and whether the flows use packet-level TCP; `None` for
    /// UDP.
    pub(crate) fn controller(&self) -> Option<(&str, bool)> {
        match self {
            Self::Flows { tcp, controller, .. } => Some((controller, *tcp)),
            Self::Udp(_) => None,
        }
    }

    /// Returns the name in results.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Flows { tcp, controller, .. } => {
                let tcp = if *tcp { "tcp " } else { "" };
                format!("{PREFIX}{tcp}{}", controller.replace('/', " in "))
            }
            Self::Udp(rate) => format!("{PREFIX}udp {rate}"),
        }
    }

    /// Returns this cross traffic as a group with the ends and the settings of `like`; `None` for
    /// UDP.
    pub(crate) fn traffic(&self, like: &TrafficSpec) -> Option<TrafficSpec> {
        let Self::Flows { tcp, controller, count } = self else { return None };
        Some(TrafficSpec {
            name: self.name(),
            stack: tcp.then_some(Stack::Tcp),
            load_stack: None,
            controller: controller.clone(),
            workload: format!("flows:{count}@100ms"),
            server_delay: false,
            counted: false,
            ..like.clone()
        })
    }

    /// Returns this cross traffic as a packet-level source from `from` to `to`; `None` unless it is
    /// UDP.
    pub(crate) fn background(&self, (from, to): (&str, &str)) -> Option<BackgroundSpec> {
        let Self::Udp(rate) = self else { return None };
        Some(BackgroundSpec {
            name: self.name(),
            from: from.to_owned(),
            to: to.to_owned(),
            // The source is on for longer than any run.
            workload: format!("udp:1 at {rate} on 10000000s off 1ms"),
            controller: "reno".to_owned(),
            packet: DATAGRAM + WIRE_OVERHEAD as u16,
            max_window: "none".to_owned(),
            rtt: "0s".to_owned(),
        })
    }
}

/// Converts a group to the cross traffic of a plan; `None` if the group is not cross traffic.
pub(super) fn of_traffic(group: &TrafficSpec) -> Option<String> {
    group.name.strip_prefix(PREFIX)?;
    let count = group.workload.strip_prefix("flows:")?.split('@').next()?;
    let tcp = if group.stack == Some(Stack::Tcp) { "tcp-" } else { "" };
    Some(format!("{tcp}{}:{count}", group.controller))
}

/// Converts background traffic to the UDP source of a plan.
pub(super) fn of_background(source: &BackgroundSpec) -> Option<String> {
    let rate = source.name.strip_prefix(PREFIX)?.strip_prefix("udp ")?;
    Some(format!("udp:{rate}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_traffic_option_parses_as_controller_and_flow_count() {
        let flows = |tcp, controller: &str, count| Beside::Flows {
            tcp,
            controller: controller.into(),
            count,
        };
        for (text, wanted) in [
            ("cubic:2", flows(false, "cubic", 2)),
            ("native:bbr", flows(false, "native:bbr", 1)),
            ("native:bbr:3", flows(false, "native:bbr", 3)),
            ("sync:floor=1ms", flows(false, "sync:floor=1ms", 1)),
            ("tcp", flows(true, "cubic", 1)),
            ("tcp-reno:4", flows(true, "reno", 4)),
            ("udp:2Mbps", Beside::Udp(Rate::from_bits_per_sec(2_000_000))),
        ] {
            assert_eq!(Beside::read(text).unwrap(), wanted, "{text}");
        }
        for text in ["", "cubic:0", "cubic:5000", "nothing:2", "udp:fast", "tcp-vegasx"] {
            let error = Beside::read(text).unwrap_err().to_string();
            assert!(
                error.starts_with("beside: ") && error.contains("such as cubic:2"),
                "{text}: {error}"
            );
        }
    }
}
