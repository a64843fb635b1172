//! Counts of packet-level traffic.

use std::time::Duration;

use fathom_cc::Time;

/// Counts of all flows so far.
#[derive(Clone, Debug, Default)]
pub struct PacketLevelReport {
    /// Reliable flows, in the order in which they were added.
    pub tcp: Vec<TcpReport>,
    /// UDP flows, in the order in which they were added.
    pub udp: Vec<UdpReport>,
}

impl PacketLevelReport {
    /// Returns the sums over all reliable flows. The flow number and the controller are those of
    /// the first flow, and `last_done` is the latest of all flows.
    pub fn tcp_total(&self) -> TcpReport {
        let mut total = self.tcp.first().map_or_else(TcpReport::default, |first| TcpReport {
            flow: first.flow,
            controller: first.controller,
            last_done: first.last_done,
            ..TcpReport::default()
        });
        for flow in &self.tcp {
            total.add(flow);
        }
        total
    }
}

/// Counts of a reliable flow so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpReport {
    /// Number of the flow in the network.
    pub flow: u32,
    /// Name of the flow's controller.
    pub controller: &'static str,
    /// Data packets sent.
    pub sent: u64,
    /// Data packets declared lost.
    pub lost: u64,
    /// Probe timeouts that expired. For TCP, these are retransmission timeouts, which also count as
    /// `persistent`.
    pub probe_timeouts: u64,
    /// Number of times that persistent congestion was detected.
    pub persistent: u64,
    /// Stream bytes acknowledged.
    pub delivered: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Packets that arrived after their connection had ended.
    pub stale: u64,
    /// Transfers begun.
    pub started: u64,
    /// Transfers of which every byte was acknowledged.
    pub done: u64,
    /// Stream bytes of the transfers begun.
    pub offered: u64,
    /// Total duration of the finished transfers, each from the first packet to the last
    /// acknowledgement.
    pub busy: Duration,
    /// Number of idle times drawn.
    pub idles: u64,
    /// Sum of the idle times drawn.
    pub idle: Duration,
    /// Window reductions after a loss or a mark.
    pub reductions: u64,
    /// Early window reductions, caused by delay.
    pub early_reductions: u64,
    /// End of the last finished transfer; `None` if no transfer has finished.
    pub last_done: Option<Time>,
}

impl TcpReport {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.probe_timeouts += other.probe_timeouts;
        self.persistent += other.persistent;
        self.delivered += other.delivered;
        self.acks += other.acks;
        self.stale += other.stale;
        self.started += other.started;
        self.done += other.done;
        self.offered += other.offered;
        self.busy += other.busy;
        self.idles += other.idles;
        self.idle += other.idle;
        self.reductions += other.reductions;
        self.early_reductions += other.early_reductions;
        self.last_done = self.last_done.max(other.last_done);
    }
}

/// Counts of a UDP flow so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdpReport {
    /// Number of the flow in the network.
    pub flow: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Bytes sent, including headers.
    pub wire_bytes: u64,
    /// Sum of the on times drawn.
    pub on: Duration,
    /// Sum of the off times drawn.
    pub off: Duration,
}
