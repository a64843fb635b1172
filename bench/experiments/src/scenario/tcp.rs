//! How TCP sends and acknowledges, where a scenario's stack is `tcp`.

use std::time::Duration;

use fathom_cc::units::{parse_duration, parse_whole};
use fathom_cc::{Capabilities, ControllerConfig};
use fathom_netsim::sim::WIRE_OVERHEAD;
use fathom_packet_level::{
    AckOptions, GrowthCounting, InitialWindow, LossRecovery, Probes, RtoOptions, TCP_HEADER,
    TcpOptions,
};
use serde::{Deserialize, Serialize};

use super::PlanError;
use super::spec::field;
use crate::stack::Stack;

/// TCP as written in a scenario, or in a group of its traffic, which goes before it; what both leave out is as Linux has it today.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpSpec {
    /// How losses are found and repaired: `sack` (RFC 6675), where it is left out, `newreno` (RFC 6582) or `reno` (RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Segments of the first window, such as `2p`; `10p` where it is left out (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<String>,
    /// Shortest retransmission timeout; `200ms` where it is left out, 1 s in RFC 6298 and in ns-2 before 2004.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<String>,
    /// Timeout before there is a round-trip time; `1s` where it is left out (RFC 6298), 3 s in RFC 2988.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<String>,
    /// An acknowledgement comes every so many segments; 2 where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// An acknowledgement comes after so much time at the latest; `40ms` where it is left out, `100ms` in ns-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<String>,
    /// The first two duplicate acknowledgements release a segment each (RFC 3042), where it is not `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// Data are ECN-capable (RFC 3168), where it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// ACKs say how many packets were marked (draft-ietf-tcpm-accurate-ecn), where it is `true`; it means ECN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accurate_ecn: Option<bool>,
    /// Retransmissions are ECN-capable as well, as in ns-2, where it is `true`; RFC 3168 §6.1.5 forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_retransmissions: Option<bool>,
    /// In the place of the retransmission timeout QUIC's probe timeout with so many probes, 1 or 2 (RFC 9002 §6.2); it takes `sack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u32>,
    /// Bytes of a handshake's packets on the wire; 40 where it is left out, 1228 in QUIC (RFC 9000 §14.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<u16>,
    /// Connections close as QUIC's do, by one packet that nobody repeats, and are given up after this time without a packet (RFC 9000 §10);
    /// left out they end with FINs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// The window grows by what is acknowledged (`bytes`), where it is left out, or by one segment per acknowledgement at most (`acks`,
    /// RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counting: Option<String>,
}

/// The same, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpSettings {
    pub(crate) options: TcpOptions,
    pub(crate) acks: AckOptions,
}

impl TcpSettings {
    /// The sender, for packets that have so many bytes beside UDP's and IP's headers, or as many in TCP, and windows of so many packets.
    pub(crate) fn sender(
        self,
        datagram: u16,
        max_window: Option<u32>,
        timestamps: bool,
    ) -> TcpOptions {
        let mss = datagram + WIRE_OVERHEAD as u16 - TCP_HEADER;
        TcpOptions { mss, max_window, timestamps, ..self.options }
    }

    /// Whether segments carry timestamps under this controller. The option takes room in every segment: it is there for controllers that
    /// read one-way delays.
    pub(crate) fn stamps(config: &dyn ControllerConfig) -> bool {
        config.required().one_way || config.optional().one_way
    }

    /// What TCP with these settings delivers to a controller and honours.
    pub(crate) const fn provided(self) -> Capabilities {
        Capabilities { ecn: self.options.accurate_ecn, ..Stack::Tcp.provided() }
    }
}

impl TcpSpec {
    /// What this one leaves out as `other` has it.
    fn or(&self, other: &Self) -> Self {
        let text =
            |of: fn(&Self) -> &Option<String>| of(self).clone().or_else(|| of(other).clone());
        Self {
            recovery: text(|s| &s.recovery),
            initial_window: text(|s| &s.initial_window),
            min_rto: text(|s| &s.min_rto),
            initial_rto: text(|s| &s.initial_rto),
            ack_every: self.ack_every.or(other.ack_every),
            delayed_ack: text(|s| &s.delayed_ack),
            limited_transmit: self.limited_transmit.or(other.limited_transmit),
            ecn: self.ecn.or(other.ecn),
            accurate_ecn: self.accurate_ecn.or(other.accurate_ecn),
            ecn_retransmissions: self.ecn_retransmissions.or(other.ecn_retransmissions),
            probes: self.probes.or(other.probes),
            handshake: self.handshake.or(other.handshake),
            idle: text(|s| &s.idle),
            counting: text(|s| &s.counting),
        }
    }

    /// Checks every field of this one and, where it leaves something out, of `scenario`.
    ///
    /// # Errors
    /// The first field that is wrong, and how to fix it.
    pub fn check(&self, scenario: &Self) -> Result<TcpSettings, PlanError> {
        let spec = self.or(scenario);
        let written = |of: Option<&String>, left_out: &str| {
            of.map_or_else(|| left_out.to_owned(), Clone::clone)
        };
        let time = |name: &str, of: Option<&String>, left_out: &str| {
            let text = written(of, left_out);
            let time = field(&format!("tcp.{name}"), parse_duration(&text))?;
            if time.is_zero() || time > Duration::from_secs(60) {
                return Err(PlanError(format!(
                    "tcp.{name}: '{text}' is out of range; write a time up to 60s"
                )));
            }
            Ok(time)
        };
        let wrong = |name: &str, text: &str, known: &str| {
            Err(PlanError(format!(
                "tcp.{name}: '{}' is not known; write {known}",
                text.escape_debug()
            )))
        };
        let recovery = match spec.recovery.as_deref() {
            None | Some("sack") => LossRecovery::Sack,
            Some("newreno") => LossRecovery::NewReno,
            Some("reno") => LossRecovery::Reno,
            Some(other) => return wrong("recovery", other, "sack, newreno or reno"),
        };
        let counting = match spec.counting.as_deref() {
            None | Some("bytes") => GrowthCounting::Bytes,
            Some("acks") => GrowthCounting::Acks,
            Some(other) => return wrong("counting", other, "bytes or acks"),
        };
        let window = written(spec.initial_window.as_ref(), "10p");
        let segments = window.strip_suffix('p').and_then(|n| parse_whole(n, 1..=1_000).ok());
        let Some(segments) = segments.and_then(|n| u32::try_from(n).ok()) else {
            return wrong("initial-window", &window, "1p to 1000p, such as 2p");
        };
        let every = spec.ack_every.unwrap_or(2);
        if !(1..=100).contains(&every) {
            return Err(PlanError("tcp.ack-every: write 1 to 100 segments".into()));
        }
        let ack_delay = time("delayed-ack", spec.delayed_ack.as_ref(), "40ms")?;
        let probes = match spec.probes {
            None => None,
            Some(count @ 1..=2) if recovery == LossRecovery::Sack => {
                Some(Probes { count, ack_delay })
            }
            Some(_) => {
                return Err(PlanError("tcp.probes: write 1 or 2, with recovery = \"sack\"".into()));
            }
        };
        let handshake = spec.handshake.unwrap_or(TCP_HEADER);
        if !(TCP_HEADER..=1_500).contains(&handshake) {
            return Err(PlanError("tcp.handshake: write 40 to 1500 bytes".into()));
        }
        let idle =
            spec.idle.as_ref().map(|text| field("tcp.idle", parse_duration(text))).transpose()?;
        let accurate_ecn = spec.accurate_ecn.unwrap_or(false);
        let floor = time("min-rto", spec.min_rto.as_ref(), "200ms")?;
        let initial = time("initial-rto", spec.initial_rto.as_ref(), "1s")?;
        Ok(TcpSettings {
            options: TcpOptions {
                initial_window: InitialWindow::Segments(segments),
                recovery,
                limited_transmit: spec.limited_transmit.unwrap_or(true),
                ecn: spec.ecn.unwrap_or(false) || accurate_ecn,
                accurate_ecn,
                probes,
                handshake,
                idle,
                ecn_retransmissions: spec.ecn_retransmissions.unwrap_or(false),
                rto: RtoOptions { initial, floor, ..RtoOptions::default() },
                counting,
                ..TcpOptions::default()
            },
            acks: AckOptions { every, max_delay: ack_delay },
        })
    }
}

impl Default for TcpSettings {
    fn default() -> Self {
        TcpSpec::default().check(&TcpSpec::default()).expect("what is left out is right")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_it_is_as_linux_has_it() {
        let TcpSettings { options, acks } = TcpSettings::default();
        assert_eq!(
            (options.recovery, options.initial_window),
            (LossRecovery::Sack, InitialWindow::Segments(10))
        );
        assert_eq!((options.rto.floor.as_millis(), options.rto.initial.as_millis()), (200, 1_000));
        assert_eq!((acks.every, acks.max_delay.as_millis()), (2, 40));
        // Packets of 1420 bytes: 1380 of data, 12 less with timestamps.
        let settings = TcpSettings { options, acks };
        assert_eq!(settings.sender(1_392, None, false).smss(), 1_380);
        assert_eq!(settings.sender(1_392, Some(68), true).smss(), 1_368);
    }

    #[test]
    fn a_group_goes_before_the_scenario() {
        let some = |text: &str| Some(text.to_owned());
        let scenario =
            TcpSpec { recovery: some("reno"), min_rto: some("1s"), ..TcpSpec::default() };
        let group = TcpSpec { recovery: some("newreno"), ecn: Some(true), ..TcpSpec::default() };
        let TcpSettings { options, .. } = group.check(&scenario).unwrap();
        assert_eq!(
            (options.recovery, options.rto.floor.as_millis(), options.ecn),
            (LossRecovery::NewReno, 1_000, true)
        );
    }

    #[test]
    fn each_wrong_field_is_named_with_its_mend() {
        let wrong = |change: fn(&mut TcpSpec), expected: &str| {
            let mut spec = TcpSpec::default();
            change(&mut spec);
            let PlanError(error) = spec.check(&TcpSpec::default()).unwrap_err();
            assert!(error.starts_with("tcp.") && error.contains(expected), "{error}");
        };
        wrong(|s| s.recovery = Some("tahoe".into()), "write sack, newreno or reno");
        wrong(|s| s.counting = Some("packets".into()), "write bytes or acks");
        wrong(|s| s.initial_window = Some("none".into()), "such as 2p");
        wrong(|s| s.min_rto = Some("0s".into()), "up to 60s");
        wrong(|s| s.delayed_ack = Some("soon".into()), "delayed-ack");
        wrong(|s| s.ack_every = Some(0), "1 to 100");
    }
}
