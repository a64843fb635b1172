//! The average share of packets with CE marks, as DCTCP computes it from ECN counts.

use crate::event::AckEvent;
use crate::units::Ratio;

/// Denominator of the fraction of the window that remains after a mark.
const PARTS: u32 = 1 << 20;

/// Average share of marked packets (alpha), updated once per round.
#[derive(Clone, Debug)]
pub(crate) struct MarkShare {
    /// Weight of the last round.
    gain: f64,
    alpha: f64,
    /// Packets with CE marks in this round.
    marked: u64,
    /// Packets with any ECN codepoint in this round.
    packets: u64,
}

impl MarkShare {
    /// Starts with a share of 1, as RFC 8257 §3.3 recommends. Each round without marks lowers it.
    pub(crate) fn new(gain: Ratio) -> Self {
        let gain = f64::from(gain.num()) / f64::from(gain.den());
        Self { gain, alpha: 1.0, marked: 0, packets: 0 }
    }

    /// Counts the packets of an ACK frame, if it comes with ECN counts. Returns the share of marked
    /// packets among them.
    pub(crate) fn on_ack(&mut self, acks: &AckEvent<'_>) -> f64 {
        let Some(ecn) = acks.ecn else { return 0.0 };
        self.marked = self.marked.saturating_add(ecn.ce);
        self.packets = self.packets.saturating_add(ecn.packets());
        ecn.marked()
    }

    /// Ends a round: alpha = (1 - gain) alpha + gain M, where M is the share of marked packets
    /// (RFC 8257 §3.3).
    pub(crate) fn end_round(&mut self) {
        if self.packets > 0 {
            let share = self.marked as f64 / self.packets as f64;
            self.alpha += self.gain * (share - self.alpha);
        }
        (self.marked, self.packets) = (0, 0);
    }

    /// Returns the fraction of the window that remains after a mark: 1 - alpha / 2
    /// (RFC 8257 §3.3).
    pub(crate) fn kept(&self) -> Ratio {
        let kept = (1.0 - self.alpha / 2.0).clamp(0.5, 1.0);
        Ratio::new((kept * f64::from(PARTS)).round() as u32, PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_averages_the_share_of_marked_packets() {
        let mut share = MarkShare::new(Ratio::new(1, 4));
        for (marked, packets, alpha) in [(0, 10, 0.75), (5, 10, 0.6875), (0, 0, 0.6875)] {
            (share.marked, share.packets) = (marked, packets);
            share.end_round();
            assert!((share.alpha - alpha).abs() < 1e-12, "{}", share.alpha);
        }
    }

    #[test]
    fn mark_reduces_the_window_by_half_of_alpha() {
        let kept = |alpha: f64| {
            MarkShare { alpha, ..MarkShare::new(Ratio::new(1, 16)) }.kept().of(1_000_000)
        };
        assert_eq!([kept(1.0), kept(0.5), kept(0.0)], [500_000, 750_000, 1_000_000]);
    }
}
