//! What TCP segments carry. They count full-size on the wire and store a few bytes.

use std::ops::Range;

use fathom_cc::{OneWayDelay, Time};

/// Bytes of IPv4 and TCP header without options (RFC 791 §3.1, RFC 9293 §3.1).
pub const TCP_HEADER: u16 = 40;
/// Bytes of the timestamps option with its padding (RFC 7323 §A).
pub const TIMESTAMPS_OPTION: u16 = 12;
/// SACK blocks of an acknowledgement at most, without timestamps; with them there is room for one less (RFC 2018 §3).
pub const MAX_SACK_BLOCKS: usize = 4;
/// Bytes of a SACK option without blocks, with its padding, and of a block (RFC 2018 §3).
const SACK_OPTION: u16 = 4;
const SACK_BLOCK: u16 = 8;

/// A segment of the sender: SYN, the handshake's ACK, or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment {
    /// First sequence number in bytes; the first data byte is 0.
    pub seq: u64,
    /// Data bytes.
    pub len: u16,
    /// When it left; what the timestamps option carries.
    pub sent: Time,
    /// It opens the connection.
    pub syn: bool,
    /// The window was reduced (RFC 3168 §6.1.2).
    pub cwr: bool,
    /// It leaves as ECN-capable. Neither SYN nor ACK nor a retransmission is (RFC 3168 §6.1.1, RFC 3168 §6.1.4, RFC 3168 §6.1.5).
    pub ecn_capable: bool,
    /// It was sent before.
    pub retransmission: bool,
    /// IP packet in bytes, headers included.
    pub size: u16,
}

/// SACK blocks, the newest first (RFC 2018 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    list: [(u64, u64); MAX_SACK_BLOCKS],
    len: usize,
}

impl SackBlocks {
    /// From first bytes and first bytes behind, newest first; those beyond [`MAX_SACK_BLOCKS`] are left out.
    pub fn from_slice(blocks: &[(u64, u64)]) -> Self {
        let mut all = Self::default();
        for block in blocks.iter().take(MAX_SACK_BLOCKS) {
            all.list[all.len] = *block;
            all.len += 1;
        }
        all
    }

    /// First byte of each block, and the first behind it.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.list[..self.len]
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.as_slice().iter().map(|(first, end)| *first..*end)
    }
}

/// An acknowledgement, or the handshake's SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// The next byte expected: all before it arrived.
    pub ack: u64,
    /// It answers the SYN.
    pub syn: bool,
    /// A mark was seen, and no CWR since (RFC 3168 §6.1.3).
    pub ece: bool,
    /// What arrived behind a gap, where SACK is used.
    pub sack: SackBlocks,
    /// With the timestamps option: when the segment left that made this ACK due (RFC 7323 §4.3).
    pub echo: Option<Time>,
    /// With the timestamps option: how long the newest segment was on its way.
    pub one_way: Option<OneWayDelay>,
}

impl TcpAck {
    /// IP packet in bytes, headers included.
    pub const fn size(&self) -> u16 {
        let timestamps = if self.echo.is_some() { TIMESTAMPS_OPTION } else { 0 };
        let sack = if self.sack.len > 0 { SACK_OPTION + SACK_BLOCK * self.sack.len as u16 } else { 0 };
        TCP_HEADER + timestamps + sack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2018 §3 and RFC 7323 §A.
    #[test]
    fn options_make_an_ack_larger() {
        let sack = SackBlocks::from_slice(&[(10, 20), (30, 40), (50, 60), (70, 80), (90, 99)]);
        assert_eq!(sack.as_slice().len(), 4);
        let ack = TcpAck { ack: 5, syn: false, ece: false, sack: SackBlocks::default(), echo: None, one_way: None };
        assert_eq!(ack.size(), 40);
        assert_eq!(TcpAck { sack, ..ack }.size(), 40 + 36);
        assert_eq!(TcpAck { echo: Some(Time::ZERO), ..ack }.size(), 52);
    }
}
