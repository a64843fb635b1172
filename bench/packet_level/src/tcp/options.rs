//! Options of a TCP sender.

use std::time::Duration;

use super::receiver::TcpReceiverOptions;
use super::rto::RtoOptions;
use super::segment::{TCP_HEADER, TIMESTAMPS_OPTION};
use crate::receiver::AckOptions;

/// Method of finding and repairing losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossRecovery {
    /// Duplicate ACKs. The first new ACK ends recovery, so a second loss in the window waits for
    /// the timeout (RFC 5681 §3.2). As in ns-2, a window has at most one fast retransmit.
    Reno,
    /// Duplicate and partial ACKs, one segment per round trip (RFC 6582), in its impatient variant.
    #[default]
    NewReno,
    /// SACK blocks (RFC 6675); the receiver must send them.
    Sack,
    /// SACK blocks, the send times of segments and probes of the tail (RACK-TLP, RFC 8985), and a
    /// window that shrinks as segments are delivered (RFC 6937), as in Linux. The receiver must
    /// send SACK blocks.
    Rack,
}

/// Window at the start of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InitialWindow {
    /// Two to four segments, depending on their size: the upper bound of RFC 5681 §3.1.
    #[default]
    Rfc5681,
    /// This number of segments: 1 or 2 in the papers' time, 10 today (RFC 6928 §2). The
    /// controller's own initial window is an upper bound.
    Segments(u32),
}

impl InitialWindow {
    /// Returns the window in bytes for segments of `smss` bytes.
    pub const fn bytes(self, smss: u16) -> u64 {
        let segments = match self {
            Self::Segments(n) => n,
            Self::Rfc5681 if smss > 2_190 => 2,
            Self::Rfc5681 if smss > 1_095 => 3,
            Self::Rfc5681 => 4,
        };
        segments as u64 * smss as u64
    }
}

/// Amount of growth that an ACK counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GrowthCounting {
    /// At most one segment per ACK, in slow start and in congestion avoidance (RFC 5681 §3.1,
    /// equations 2 and 3; ns-2). Delayed ACKs then halve the growth.
    #[default]
    Acks,
    /// The bytes that the ACK acknowledges, as in RFC 9002 §7.3; one segment during the recovery
    /// from a timeout (RFC 3465 §2.3).
    Bytes,
}

/// QUIC's probe timeout instead of TCP's retransmission timeout (RFC 9002 §6.2). The option
/// isolates the effect of the probe timeout on QUIC's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probes {
    /// Segments sent per timeout, one or two (RFC 9002 §6.2.4).
    pub count: u32,
    /// Maximum delay of the peer's acknowledgements, which is added to the timeout.
    pub ack_delay: Duration,
}

/// Options of a TCP sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpOptions {
    /// Data bytes of a full segment without options; 1460 by default. TCP options reduce it
    /// (RFC 9293 §3.7.1).
    pub mss: u16,
    /// Window at the start of a connection.
    pub initial_window: InitialWindow,
    /// Method of repairing losses.
    pub recovery: LossRecovery,
    /// Whether the first two duplicate ACKs release a new segment each (RFC 3042 §2). With SACK,
    /// RFC 6675 §5, step 3, recommends it.
    pub limited_transmit: bool,
    /// Whether to use the timestamps option. With it, retransmissions also give RTT samples
    /// (RFC 7323 §4), and the controller gets one-way delays (Sync-TCP §3.2).
    pub timestamps: bool,
    /// Whether data are ECN-capable and marks are reported to the controller (RFC 3168 §6.1).
    pub ecn: bool,
    /// With ECN: whether data leave as ECT(1) instead of ECT(0) (L4S, RFC 9331 §4.1).
    pub ect1: bool,
    /// With ECN: whether ACKs carry the number of marked packets, so that every ACK with marks is
    /// reported to the controller instead of one per window (draft-ietf-tcpm-accurate-ecn).
    pub accurate_ecn: bool,
    /// With ECN: whether retransmissions are ECN-capable as well, as in ns-2; RFC 3168 §6.1.5
    /// forbids it.
    pub ecn_retransmissions: bool,
    /// With classic ECN: smallest window after a mark in segments, 0 to 2; 2 by default, the
    /// controller's minimum (RFC 9002 §7.2). With 0 or 1, ACKs that echo a mark do not increase this
    /// window. With 0, as in ns-2 (`slowdown` in tcp.cc), the window is halved exactly, and a sender
    /// whose window is below one segment waits for the retransmission timeout (RFC 3168 §6.1.2 has
    /// this wait for a window of one segment).
    pub least_window: u32,
    /// Bounds of the retransmission timeout.
    pub rto: RtoOptions,
    /// QUIC's probe timeout: a timeout, also of a SYN, sends probes and leaves the window
    /// unchanged. Requires [`LossRecovery::Sack`].
    pub probes: Option<Probes>,
    /// Bytes of a handshake packet on the wire; 40 by default, 1228 in QUIC (RFC 9000 §14.1).
    pub handshake: u16,
    /// Closing as in QUIC (RFC 9000 §10) instead of with FINs: the client sends one packet, never
    /// repeats it and forgets the connection. An end that receives nothing for this long also
    /// forgets the connection. `None`: FINs.
    pub idle: Option<Duration>,
    /// Amount of window growth per ACK.
    pub counting: GrowthCounting,
    /// Whether a segment that is not full waits until all data before it are acknowledged (Nagle's
    /// algorithm, RFC 9293 §3.7.4). A FIN in this segment waits, too, as in ns-2.
    pub nagle: bool,
    /// Whether a delayed ACK leaves at the next multiple of the longest delay, as with the timer of
    /// BSD and of ns-2's full TCP, instead of after the longest delay.
    pub ack_ticks: bool,
    /// Receiver's window in full segments: no data are sent further than this beyond the first
    /// unacknowledged byte.
    pub max_window: Option<u32>,
    /// Whether the window is at most the initial window after an idle time longer than the timeout
    /// (RFC 5681 §4.1).
    pub restart_idle: bool,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            mss: 1_460,
            initial_window: InitialWindow::default(),
            recovery: LossRecovery::default(),
            limited_transmit: true,
            timestamps: false,
            ecn: false,
            ect1: false,
            accurate_ecn: false,
            ecn_retransmissions: false,
            least_window: 2,
            rto: RtoOptions::default(),
            probes: None,
            handshake: TCP_HEADER,
            idle: None,
            counting: GrowthCounting::default(),
            nagle: false,
            ack_ticks: false,
            max_window: None,
            restart_idle: true,
        }
    }
}

impl TcpOptions {
    /// Returns SMSS, the data bytes of a full segment (RFC 5681 §2). A controller gets it as its
    /// datagram size.
    pub const fn smss(&self) -> u16 {
        if self.timestamps { self.mss.saturating_sub(TIMESTAMPS_OPTION) } else { self.mss }
    }

    /// Returns whether losses are found by SACK.
    pub fn has_sack(&self) -> bool {
        matches!(self.recovery, LossRecovery::Sack | LossRecovery::Rack)
    }

    /// Returns the options of the receiver that matches this sender; `acks` is the frequency of its
    /// acknowledgements.
    pub fn receiver(&self, acks: AckOptions) -> TcpReceiverOptions {
        TcpReceiverOptions {
            every: acks.every,
            max_delay: acks.max_delay,
            ticks: self.ack_ticks,
            sack: self.has_sack(),
            dsack: self.recovery == LossRecovery::Rack,
            timestamps: self.timestamps,
            accurate_ecn: self.accurate_ecn,
            rto: self.rto,
        }
    }

    pub(super) const fn header(&self) -> u16 {
        if self.timestamps { TCP_HEADER + TIMESTAMPS_OPTION } else { TCP_HEADER }
    }
}
