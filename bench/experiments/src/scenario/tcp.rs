//! TCP settings as written in TOML, and their checks.

use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::{parse_duration, parse_whole};
use fathom_packet_level::{
    AckOptions, GrowthCounting, InitialWindow, LossRecovery, Probes, RtoOptions, TCP_HEADER,
    TcpOptions,
};
use serde::{Deserialize, Serialize};

use super::error::InField;
use crate::tcp::TcpSettings;

/// TCP settings as written in a scenario or in a group of its traffic. The group's settings take
/// precedence. Settings that neither the group nor the scenario gives are those of current Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpSpec {
    /// Detection and repair of losses: `rack` (RFC 8985 and RFC 6937, the default), `sack`
    /// (RFC 6675; the default with `probes`), `newreno` (RFC 6582) or `reno` (RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Segments of the first window, such as `2p`; `10p` by default (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<String>,
    /// Shortest retransmission timeout; `200ms` by default, 1 s in RFC 6298 and in ns-2 before
    /// 2004. With `rack`, the least time that is added to the smoothed round trip, as in Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<String>,
    /// Retransmission timeout before the first round-trip time; `1s` by default (RFC 6298), 3 s in
    /// RFC 2988.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<String>,
    /// Number of segments per acknowledgement; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// Longest delay of an acknowledgement; `40ms` by default, `100ms` in ns-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<String>,
    /// Whether each of the first two duplicate acknowledgements releases a segment (RFC 3042);
    /// `true` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// Whether data are ECN-capable (RFC 3168); `false` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Whether ACKs count marked packets (draft-ietf-tcpm-accurate-ecn); `false` by default.
    /// Implies ECN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accurate_ecn: Option<bool>,
    /// Whether retransmissions are ECN-capable, as in ns-2; `false` by default. RFC 3168 §6.1.5
    /// forbids ECN-capable retransmissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_retransmissions: Option<bool>,
    /// Smallest window after a mark of classic ECN, in segments: 2 by default. With 0, as in ns-2,
    /// the window may fall below one segment; the sender then waits for a retransmission timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_window: Option<u32>,
    /// Number of probes, 1 or 2, if QUIC's probe timeout replaces the retransmission timeout
    /// (RFC 9002 §6.2). Requires `sack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u32>,
    /// Size on the wire of each packet of the handshake, in bytes; 40 by default, 1228 in QUIC
    /// (RFC 9000 §14.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<u16>,
    /// Idle timeout, if connections close as in QUIC: by one packet that is not retransmitted, or
    /// after this time without a packet (RFC 9000 §10). By default, connections end with FINs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Growth of the window: by the acknowledged bytes (`bytes`, the default), or by at most one
    /// segment per acknowledgement (`acks`, RFC 5681).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counting: Option<String>,
    /// Whether a segment that is not full waits until everything before it is acknowledged (Nagle's
    /// algorithm); `false` by default, `true` in ns-2's full TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<bool>,
    /// Whether a delayed acknowledgement leaves at the next multiple of `delayed-ack`, as in ns-2's
    /// full TCP; `false` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_ticks: Option<bool>,
}

impl TcpSpec {
    /// Returns these settings, completed by those of `other`.
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
            least_window: self.least_window.or(other.least_window),
            probes: self.probes.or(other.probes),
            handshake: self.handshake.or(other.handshake),
            idle: text(|s| &s.idle),
            counting: text(|s| &s.counting),
            nagle: self.nagle.or(other.nagle),
            ack_ticks: self.ack_ticks.or(other.ack_ticks),
        }
    }

    /// Checks every field of `self`, completed by the fields of `scenario`.
    ///
    /// # Errors
    /// Returns an error for the first field that is wrong, and advice on how to fix it.
    pub fn check(&self, scenario: &Self) -> Result<TcpSettings, Invalid> {
        self.or(scenario).settings().map_err(|error| error.in_table("tcp"))
    }

    /// Checks every field. Fields that are left out have their defaults.
    fn settings(&self) -> Result<TcpSettings, Invalid> {
        let recovery = match self.recovery.as_deref() {
            // Probes as in QUIC replace those of RACK-TLP.
            None if self.probes.is_none() => LossRecovery::Rack,
            Some("rack") => LossRecovery::Rack,
            None | Some("sack") => LossRecovery::Sack,
            Some("newreno") => LossRecovery::NewReno,
            Some("reno") => LossRecovery::Reno,
            Some(other) => return Err(unknown("recovery", other, "rack, sack, newreno or reno")),
        };
        let counting = match self.counting.as_deref() {
            None | Some("bytes") => GrowthCounting::Bytes,
            Some("acks") => GrowthCounting::Acks,
            Some(other) => return Err(unknown("counting", other, "bytes or acks")),
        };
        let initial_window = InitialWindow::Segments(self.initial_segments()?);
        let every = self.ack_every.unwrap_or(2);
        if !(1..=100).contains(&every) {
            return Err(Invalid::because("write 1 to 100 segments").in_field("ack-every"));
        }
        let max_delay = time("delayed-ack", self.delayed_ack.as_deref(), "40ms")?;
        let probes = match self.probes {
            Some(count @ 1..=2) if recovery == LossRecovery::Sack => {
                Some(Probes { count, ack_delay: max_delay })
            }
            None => None,
            Some(_) => {
                let hint = "write 1 or 2 probes, with recovery = \"sack\"";
                return Err(Invalid::because(hint).in_field("probes"));
            }
        };
        let handshake = self.handshake.unwrap_or(TCP_HEADER);
        if !(TCP_HEADER..=1_500).contains(&handshake) {
            return Err(Invalid::because("write 40 to 1500 bytes").in_field("handshake"));
        }
        let idle = self.idle.as_deref().map(parse_duration).transpose().in_field("idle")?;
        let accurate_ecn = self.accurate_ecn.unwrap_or(false);
        let classic = self.ecn.unwrap_or(false) && !accurate_ecn;
        let least_window = match self.least_window {
            None | Some(2) => 2,
            Some(least @ 0..=1) if classic => least,
            Some(_) => {
                let hint = "write 0 to 2 segments; 0 and 1 need ecn = true without accurate-ecn";
                return Err(Invalid::because(hint).in_field("least-window"));
            }
        };
        let options = TcpOptions {
            initial_window,
            recovery,
            limited_transmit: self.limited_transmit.unwrap_or(true),
            ecn: self.ecn.unwrap_or(false) || accurate_ecn,
            accurate_ecn,
            probes,
            handshake,
            idle,
            ecn_retransmissions: self.ecn_retransmissions.unwrap_or(false),
            least_window,
            rto: RtoOptions {
                floor: time("min-rto", self.min_rto.as_deref(), "200ms")?,
                initial: time("initial-rto", self.initial_rto.as_deref(), "1s")?,
                above_rtt: recovery == LossRecovery::Rack,
                ..RtoOptions::default()
            },
            counting,
            nagle: self.nagle.unwrap_or(false),
            ack_ticks: self.ack_ticks.unwrap_or(false),
            ..TcpOptions::default()
        };
        Ok(TcpSettings { options, acks: AckOptions { every, max_delay } })
    }

    /// Parses the number of segments of the first window.
    fn initial_segments(&self) -> Result<u32, Invalid> {
        let window = self.initial_window.as_deref().unwrap_or("10p");
        let segments = window.strip_suffix('p').and_then(|n| parse_whole(n, 1..=1_000).ok());
        segments
            .map(|segments| segments as u32)
            .ok_or_else(|| unknown("initial-window", window, "1p to 1000p, such as 2p"))
    }
}

/// Parses the time in a field, or the field's default. Refuses times that no sender uses.
fn time(field: &'static str, text: Option<&str>, default: &str) -> Result<Duration, Invalid> {
    let text = text.unwrap_or(default);
    let time = parse_duration(text).in_field(field)?;
    if time.is_zero() || time > Duration::from_secs(60) {
        let refused = Invalid::value(text, "is out of range").hint("write a time up to 60s");
        return Err(refused.in_field(field));
    }
    Ok(time)
}

/// Returns the error of a field whose value has no meaning.
fn unknown(field: &'static str, text: &str, known: &str) -> Invalid {
    Invalid::value(text, "is not known").hint(format!("write {known}")).in_field(field)
}

impl Default for TcpSettings {
    fn default() -> Self {
        TcpSpec::default().check(&TcpSpec::default()).expect("the defaults are valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_defaults_match_linux() {
        let TcpSettings { options, acks } = TcpSettings::default();
        assert_eq!(
            (options.recovery, options.initial_window),
            (LossRecovery::Rack, InitialWindow::Segments(10))
        );
        assert_eq!((options.rto.floor.as_millis(), options.rto.initial.as_millis()), (200, 1_000));
        assert_eq!((acks.every, acks.max_delay.as_millis()), (2, 40));
        // Packets of 1420 bytes carry 1380 bytes of data, or 1368 bytes with timestamps.
        let settings = TcpSettings { options, acks };
        assert_eq!(settings.sender(1_392, None, false, false).smss(), 1_380);
        assert_eq!(settings.sender(1_392, Some(68), true, false).smss(), 1_368);
    }

    #[test]
    fn tcp_settings_of_a_group_override_those_of_the_scenario() {
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
    fn tcp_setting_errors_name_the_field_and_a_fix() {
        let wrong = |change: fn(&mut TcpSpec), expected: &str| {
            let mut spec = TcpSpec::default();
            change(&mut spec);
            let error = spec.check(&TcpSpec::default()).unwrap_err().to_string();
            assert!(error.starts_with("tcp.") && error.contains(expected), "{error}");
        };
        wrong(|s| s.recovery = Some("tahoe".into()), "write rack, sack, newreno or reno");
        wrong(|s| s.counting = Some("packets".into()), "write bytes or acks");
        wrong(|s| s.initial_window = Some("none".into()), "such as 2p");
        wrong(|s| s.min_rto = Some("0s".into()), "up to 60s");
        wrong(|s| s.delayed_ack = Some("soon".into()), "delayed-ack");
        wrong(|s| s.ack_every = Some(0), "1 to 100");
        wrong(|s| s.least_window = Some(1), "0 and 1 need ecn = true");
    }
}
