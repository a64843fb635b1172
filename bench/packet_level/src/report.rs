//! Counts of packet-level traffic.

use std::time::Duration;

use fathom_cc::Time;

/// What all flows did so far.
#[derive(Clone, Debug, Default)]
pub struct PacketLevelReport {
    /// Reliable flows, in the order they were added.
    pub tcp: Vec<TcpReport>,
    /// UDP flows, in the order they were added.
    pub udp: Vec<UdpReport>,
}

impl PacketLevelReport {
    /// The sums over all reliable flows; flow number, controller and end are those of the first.
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

    /// The sums over all UDP flows; the flow number is that of the first.
    pub fn udp_total(&self) -> UdpReport {
        let mut total = UdpReport {
            flow: self.udp.first().map_or(0, |first| first.flow),
            ..UdpReport::default()
        };
        for flow in &self.udp {
            total.sent += flow.sent;
            total.arrived += flow.arrived;
            total.wire_bytes += flow.wire_bytes;
            total.on += flow.on;
            total.off += flow.off;
        }
        total
    }
}

/// What a reliable flow did so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpReport {
    /// Its number in the network.
    pub flow: u32,
    /// Name of its controller.
    pub controller: &'static str,
    /// Data packets sent.
    pub sent: u64,
    /// Data packets declared lost.
    pub lost: u64,
    /// Probe timeouts that ran out; of TCP retransmission timeouts, which are `persistent` as well.
    pub probe_timeouts: u64,
    /// Times of persistent congestion.
    pub persistent: u64,
    /// Stream bytes acknowledged.
    pub delivered: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Packets that came too late: their connection had ended.
    pub stale: u64,
    /// Transfers begun.
    pub started: u64,
    /// Transfers of which every byte was acknowledged.
    pub done: u64,
    /// Stream bytes of the transfers begun.
    pub offered: u64,
    /// Time that the finished transfers took, first packet to last acknowledgement.
    pub busy: Duration,
    /// Idle times drawn, and their sum.
    pub idles: u64,
    /// See `idles`.
    pub idle: Duration,
    /// Windows reduced after loss or mark.
    pub reductions: u64,
    /// Windows reduced early, by delay.
    pub early_reductions: u64,
    /// When the last transfer was finished, if one was.
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

/// What a UDP flow did so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdpReport {
    /// Its number in the network.
    pub flow: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Bytes sent, headers included.
    pub wire_bytes: u64,
    /// On times drawn.
    pub on: Duration,
    /// Off times drawn.
    pub off: Duration,
}
