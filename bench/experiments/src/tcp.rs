//! Settings of TCP, and counts of its senders.

use fathom_cc::{Capabilities, ControllerConfig};
use fathom_netsim::sim::WIRE_OVERHEAD;
use fathom_packet_level::{AckOptions, TCP_HEADER, TcpOptions};
use fathom_stacks::Stack;
use serde::{Deserialize, Serialize};

/// Checked TCP settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpSettings {
    pub(crate) options: TcpOptions,
    pub(crate) acks: AckOptions,
}

impl TcpSettings {
    /// Returns the options of a sender. Its IP packets have the size of QUIC packets with a UDP
    /// payload of `datagram` bytes. `max_window` is in packets. `l4s` is whether the controller
    /// needs packets marked ECT(1).
    pub(crate) fn sender(
        self,
        datagram: u16,
        max_window: Option<u32>,
        timestamps: bool,
        l4s: bool,
    ) -> TcpOptions {
        let mss = datagram + WIRE_OVERHEAD as u16 - TCP_HEADER;
        TcpOptions { mss, max_window, timestamps, ect1: l4s, ..self.options }
    }

    /// Returns whether segments carry timestamps under this controller. The option takes space in
    /// every segment, so segments carry it only under controllers that use one-way delays.
    pub(crate) fn stamps(config: &dyn ControllerConfig) -> bool {
        config.required().one_way || config.optional().one_way
    }

    /// Returns the signals that TCP with these settings delivers to a controller and the send
    /// parameters that it honours.
    pub(crate) const fn provided(self) -> Capabilities {
        let ecn = self.options.accurate_ecn;
        Capabilities { ecn, l4s: ecn, ..Stack::Tcp.provided() }
    }
}

/// Counts of TCP senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOutcome {
    /// Data segments retransmitted.
    pub retransmitted: u64,
    /// Number of fast recoveries.
    pub fast_recoveries: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Timeouts of SYNs.
    pub syn_timeouts: u64,
}

impl TcpOutcome {
    /// Returns the counts between `before` and `self`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            retransmitted: self.retransmitted - before.retransmitted,
            fast_recoveries: self.fast_recoveries - before.fast_recoveries,
            timeouts: self.timeouts - before.timeouts,
            syn_timeouts: self.syn_timeouts - before.syn_timeouts,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.retransmitted += other.retransmitted;
        self.fast_recoveries += other.fast_recoveries;
        self.timeouts += other.timeouts;
        self.syn_timeouts += other.syn_timeouts;
    }
}
