//! A reliable flow as the caller describes it, with the options of its endpoints.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::{Capabilities, Controller, ControllerConfig, Invalid, Missing, Start, Time};
use fathom_netsim::sim::GroupId;

use super::packet::HEADER;
use super::receiver::{AckOptions, Receiver};
use super::sender::SenderOptions;
use super::tcp::{TcpOptions, TcpReceiverOptions};
use super::web_user::WebUser;

/// Data that a reliable flow has to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// A single transfer. With [`u64::MAX`] bytes, the transfer never ends.
    Bulk {
        /// Stream bytes.
        bytes: u64,
    },
    /// Transfers of a web user, separated by idle times. An idle time comes first.
    WebUser(WebUser),
}

/// A reliable flow. Data go from the group's server to its client, and acknowledgements go the
/// other way. For the opposite direction, use a group with swapped paths.
#[derive(Clone, Debug)]
pub struct PacketLevelFlow {
    /// Controller of the flow.
    pub controller_config: Arc<dyn ControllerConfig>,
    /// Path of the flow.
    pub group: GroupId,
    /// Data to send.
    pub workload: Workload,
    /// UDP payload of a full packet in bytes; 1472 by default, 1500 on the wire.
    pub packet: u16,
    /// Maximum number of packets in flight; `None` for no limit.
    pub max_window: Option<u32>,
    /// Start time of the flow.
    pub start: Time,
    /// Round-trip delay of this flow in addition to the delay of the path.
    pub rtt: Duration,
    /// Whether each connection starts with the exchange of a packet without data. The exchange
    /// takes one more round trip and gives an RTT sample before any data are in flight. A
    /// controller that uses the minimum RTT (Vegas) depends on this option and on the size of this
    /// packet.
    pub handshake: bool,
    /// Whether data packets are ECN-capable.
    pub ecn: bool,
    /// Frequency of the receiver's acknowledgements.
    pub acks: AckOptions,
    /// Options of TCP; `None` for a QUIC-like flow. With these options, `packet` and `handshake`
    /// are ignored. `ecn`, and `max_window` if it is set, override the values in these options.
    pub tcp: Option<TcpOptions>,
}

impl PacketLevelFlow {
    /// Returns a flow with the defaults: full packets of 1500 bytes on the wire, no window limit, a
    /// start at time zero, no handshake, no ECN.
    pub fn new(
        controller_config: Arc<dyn ControllerConfig>,
        group: GroupId,
        workload: Workload,
    ) -> Self {
        Self {
            controller_config,
            group,
            workload,
            packet: 1_472,
            max_window: None,
            start: Time::ZERO,
            rtt: Duration::ZERO,
            handshake: false,
            ecn: false,
            acks: AckOptions::default(),
            tcp: None,
        }
    }

    /// Turns the flow into TCP, with ACKs delayed by at most 100 ms (see
    /// [`TcpReceiverOptions::max_delay`]).
    #[must_use]
    pub fn over_tcp(self, options: TcpOptions) -> Self {
        let TcpReceiverOptions { every, max_delay, .. } = TcpReceiverOptions::default();
        Self { tcp: Some(options), acks: AckOptions { every, max_delay }, ..self }
    }

    /// Checks that the numbers of the flow are in range.
    pub(super) fn check(&self) -> Result<(), PacketLevelError> {
        let refuse = |field, value: u16, problem| {
            Err(Invalid::value(&value.to_string(), problem).in_field(field).into())
        };
        match (&self.workload, self.tcp) {
            (_, Some(tcp)) if tcp.smss() == 0 => {
                refuse("mss", 0, "leaves no room for data in a packet")
            }
            (_, None) if self.packet <= HEADER => {
                refuse("packet", self.packet, "leaves no room for data in a packet")
            }
            _ if self.max_window == Some(0) => refuse("max_window", 0, "is less than 1"),
            _ if self.acks.every == 0 => refuse("acks", 0, "is less than 1"),
            (Workload::Bulk { .. }, _) => Ok(()),
            (Workload::WebUser(user), _) => Ok(user.check()?),
        }
    }

    /// Returns the capabilities that this sender provides to a controller.
    const fn provided(&self) -> Capabilities {
        match self.tcp {
            None => Capabilities { ecn: self.ecn, l4s: false, ..Capabilities::ALL },
            // Classic ECN echoes marks without counting them.
            Some(tcp) => Capabilities {
                one_way: tcp.timestamps,
                ecn: tcp.accurate_ecn,
                l4s: tcp.ect1,
                ..Capabilities::ALL
            },
        }
    }

    /// Starts a controller for a connection that begins at `now`.
    pub(super) fn controller(&self, now: Time) -> Result<Box<dyn Controller>, Missing> {
        let datagram = self.tcp.map_or(self.packet, |tcp| tcp.smss());
        self.controller_config.start(&Start { now, datagram, provided: self.provided() })
    }

    pub(super) const fn receiver(&self) -> Receiver {
        let receiver = Receiver::new(self.acks);
        if self.handshake { receiver.with_handshake() } else { receiver }
    }

    /// Returns the options of both endpoints if the flow is TCP.
    pub(super) fn tcp_options(&self) -> Option<(TcpOptions, TcpReceiverOptions)> {
        let tcp = self.tcp?;
        Some((
            TcpOptions { ecn: self.ecn, max_window: self.max_window.or(tcp.max_window), ..tcp },
            tcp.receiver(self.acks),
        ))
    }

    pub(super) const fn sender_options(&self) -> SenderOptions {
        SenderOptions {
            packet: self.packet,
            max_window: self.max_window,
            max_ack_delay: self.acks.max_delay,
            handshake: self.handshake,
            ecn: self.ecn,
        }
    }

    /// Returns the stream bytes of a full packet.
    pub(super) fn payload(&self) -> u16 {
        self.tcp.map_or_else(|| self.packet - HEADER, |tcp| tcp.smss())
    }
}

/// Reason why a flow cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum PacketLevelError {
    /// The controller requires a capability that packet-level senders do not provide.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A number is out of range.
    #[error("packet-level flow: {0}")]
    Flow(#[from] Invalid),
}
