//! How a TCP sender sends.

use std::time::Duration;

use super::receiver::TcpReceiverOptions;
use super::rto::RtoOptions;
use super::segment::{TCP_HEADER, TIMESTAMPS_OPTION};
use crate::receiver::AckOptions;

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossRecovery {
    /// Duplicate ACKs; the first new ACK ends recovery, so that a second loss of the window waits for the timeout (RFC 5681 §3.2). As in
    /// ns-2, a window has one fast retransmit.
    Reno,
    /// Duplicate and partial ACKs, one segment per round trip (RFC 6582), its impatient variant.
    #[default]
    NewReno,
    /// SACK blocks (RFC 6675); the receiver must send them.
    Sack,
}

/// The window a connection begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InitialWindow {
    /// Two to four segments, by their size: the upper bound of RFC 5681 §3.1.
    #[default]
    Rfc5681,
    /// So many segments: 1 and 2 in the papers' time, 10 today (RFC 6928 §2). The controller's own initial window is the bound.
    Segments(u32),
}

impl InitialWindow {
    /// Bytes, with segments of so many.
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

/// For how much growth an ACK counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GrowthCounting {
    /// For one segment at most, in slow start and avoidance (RFC 5681 §3.1, equations 2 and 3; ns-2): half the growth with delayed ACKs.
    #[default]
    Acks,
    /// For the bytes it acknowledges, as RFC 9002 §7.3 has it; for one segment while a timeout is repaired (RFC 3465 §2.3).
    Bytes,
}

/// QUIC's probe timeout in the place of TCP's retransmission timeout (RFC 9002 §6.2): to tell what of QUIC's behaviour comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probes {
    /// Segments sent when it runs out, one or two (RFC 9002 §6.2.4).
    pub count: u32,
    /// How long the peer may hold acknowledgements back, which the timeout waits for.
    pub ack_delay: Duration,
}

/// How a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpOptions {
    /// Data bytes of a full segment without options; 1460 by default. Options take from it (RFC 9293 §3.7.1).
    pub mss: u16,
    /// The first window.
    pub initial_window: InitialWindow,
    /// How losses are repaired.
    pub recovery: LossRecovery,
    /// The first two duplicate ACKs release a new segment each (RFC 3042 §2). With SACK they always do (RFC 6675 §5, step 3).
    pub limited_transmit: bool,
    /// The timestamps option: RTT samples of retransmissions too (RFC 7323 §4), one-way delays for the controller (Sync-TCP §3.2).
    pub timestamps: bool,
    /// Data are ECN-capable, and marks are reported to the controller (RFC 3168 §6.1).
    pub ecn: bool,
    /// With ECN: ACKs say how many packets were marked, and the controller hears of every ACK that reports some (draft-ietf-tcpm-accurate-ecn),
    /// instead of once per window.
    pub accurate_ecn: bool,
    /// With ECN: retransmissions are ECN-capable as well, as in ns-2; RFC 3168 §6.1.5 forbids it.
    pub ecn_retransmissions: bool,
    /// Bounds of the retransmission timeout.
    pub rto: RtoOptions,
    /// Timeouts send probes, and leave the window alone; SYNs too. It takes SACK.
    pub probes: Option<Probes>,
    /// Bytes of the packets of a handshake on the wire; 40 by default, 1228 in QUIC (RFC 9000 §14.1).
    pub handshake: u16,
    /// The client closes with one packet that nobody repeats and forgets the connection; an end that hears nothing for this long does so too
    /// (RFC 9000 §10). `None`: FINs.
    pub idle: Option<Duration>,
    /// How ACKs make the window grow.
    pub counting: GrowthCounting,
    /// The receiver's window in full segments: no byte so far beyond the first one not acknowledged.
    pub max_window: Option<u32>,
    /// After an idle time of more than a timeout the window is at most the initial one (RFC 5681 §4.1).
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
            accurate_ecn: false,
            ecn_retransmissions: false,
            rto: RtoOptions::default(),
            probes: None,
            handshake: TCP_HEADER,
            idle: None,
            counting: GrowthCounting::default(),
            max_window: None,
            restart_idle: true,
        }
    }
}

impl TcpOptions {
    /// SMSS: data bytes of a full segment (RFC 5681 §2). A controller is started with it as its datagram size.
    pub const fn smss(&self) -> u16 {
        if self.timestamps { self.mss.saturating_sub(TIMESTAMPS_OPTION) } else { self.mss }
    }

    /// Losses are found by SACK.
    pub fn has_sack(&self) -> bool {
        self.recovery == LossRecovery::Sack
    }

    /// Options of the receiver that goes with this sender; `acks` says how often it acknowledges.
    pub fn receiver(&self, acks: AckOptions) -> TcpReceiverOptions {
        TcpReceiverOptions {
            every: acks.every,
            max_delay: acks.max_delay,
            sack: self.has_sack(),
            timestamps: self.timestamps,
            accurate_ecn: self.accurate_ecn,
            rto: self.rto,
        }
    }

    pub(super) const fn header(&self) -> u16 {
        if self.timestamps { TCP_HEADER + TIMESTAMPS_OPTION } else { TCP_HEADER }
    }
}
