//! The tcpRTT series of a connection (DCA §3.1): the round trips that the sender may use, each
//! with whether it preceded a loss.
//!
//! # Departures
//! - **Before**: a lost packet belongs to the last sample taken no later than the packet was sent.
//!   In a simulation, packets released by an ACK leave at exactly the time of the ACK's sample.
//!   These packets count as sent after the sample.
//! - **Newest packet only**: a frame gives no sample if its newest packet was sent before a packet
//!   that was acknowledged earlier. A TCP ACK is never such a frame.
//! - **Losses before the first sample** belong to no sample, so they are only included in the
//!   number of lost packets.
//! - **Spurious losses** count as losses, because the paper's traces cannot distinguish them
//!   either.

use std::time::Duration;

use fathom_cc::Time;
use serde::{Deserialize, Serialize};

/// Maximum number of samples kept, 8 MB. The paper's longest runs have about 14,000 packets.
/// Samples beyond the maximum are left out.
const SAMPLES: usize = 1 << 18;

/// One sample of the series. In JSON: `[at, rtt, loss_follows]`, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(f64, f64, bool)", from = "(f64, f64, bool)")]
pub struct RttSample {
    /// Time at which the ACK arrived.
    pub at: Time,
    /// Round-trip time.
    pub rtt: Duration,
    /// Whether a packet sent between this sample and the next one was lost. A burst of losses is
    /// one loss event.
    pub loss_follows: bool,
}

impl From<RttSample> for (f64, f64, bool) {
    fn from(s: RttSample) -> Self {
        (s.at.as_secs_f64(), s.rtt.as_secs_f64(), s.loss_follows)
    }
}

impl From<(f64, f64, bool)> for RttSample {
    fn from((at, rtt, loss_follows): (f64, f64, bool)) -> Self {
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        Self {
            at: Time::from_nanos(nanos(at)),
            rtt: Duration::from_nanos(nanos(rtt)),
            loss_follows,
        }
    }
}

/// Information of an ACK frame for the series.
#[derive(Clone, Copy, Debug)]
pub struct AckFrame {
    /// Arrival time of the frame.
    pub at: Time,
    /// Number of newly acknowledged packets.
    pub packets: usize,
    /// Round trip of the newest of these packets.
    pub rtt: Duration,
    /// Whether the sender is recovering from a loss.
    pub recovery: bool,
}

/// The RTT series of a connection and its packet counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RttSeries {
    /// Samples in order of time.
    pub samples: Vec<RttSample>,
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Time in seconds of the first sample that was not kept. The kept samples and their losses end
    /// before this time.
    pub cut_at: Option<f64>,
}

/// Collects the RTT samples of one connection.
#[derive(Clone, Debug, Default)]
pub struct RttSampler {
    series: RttSeries,
    /// Send time of the newest packet acknowledged so far.
    newest: Time,
    cut_at: Option<Time>,
}

impl RttSampler {
    /// Records that a packet is sent.
    pub const fn on_sent(&mut self) {
        self.series.sent += 1;
    }

    /// Processes an ACK frame that newly acknowledges at least one packet. Frames must be passed in
    /// order of time.
    ///
    /// Adds a sample if the frame acknowledges more than one packet and the sender is not in
    /// recovery (DCA §3.1). The first condition filters delayed acknowledgements.
    pub fn on_ack(&mut self, frame: AckFrame) {
        let sent =
            Time::from_nanos(frame.at.as_nanos().saturating_sub(frame.rtt.as_nanos() as u64));
        if frame.packets == 0 || sent < self.newest {
            return;
        }
        self.newest = sent;
        if frame.packets < 2 || frame.recovery {
            return;
        }
        if self.series.samples.len() == SAMPLES {
            self.cut_at.get_or_insert(frame.at);
            return;
        }
        self.series.samples.push(RttSample { at: frame.at, rtt: frame.rtt, loss_follows: false });
    }

    /// Records that a packet sent at `sent` is declared lost.
    pub fn on_lost(&mut self, sent: Time) {
        self.series.lost += 1;
        if self.cut_at.is_some_and(|cut| sent >= cut) {
            return;
        }
        let before = self.series.samples.partition_point(|sample| sample.at <= sent);
        if let Some(sample) =
            before.checked_sub(1).and_then(|last| self.series.samples.get_mut(last))
        {
            sample.loss_follows = true;
        }
    }

    /// Returns the series.
    pub fn finish(self) -> RttSeries {
        RttSeries { cut_at: self.cut_at.map(Time::as_secs_f64), ..self.series }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn ack(at: u64, packets: usize, rtt: u64) -> AckFrame {
        AckFrame { at: ms(at), packets, rtt: Duration::from_millis(rtt), recovery: false }
    }

    fn samples(series: &RttSeries) -> Vec<(u64, u128, bool)> {
        let tuple =
            |s: &RttSample| (s.at.as_nanos() / 1_000_000, s.rtt.as_millis(), s.loss_follows);
        series.samples.iter().map(tuple).collect()
    }

    #[test]
    fn ack_frames_with_several_new_packets_give_rtt_samples() {
        let mut s = RttSampler::default();
        s.on_ack(ack(100, 2, 50));
        s.on_ack(ack(110, 1, 50)); // one packet: possibly a delayed acknowledgement
        s.on_ack(AckFrame { recovery: true, ..ack(120, 3, 50) });
        s.on_ack(ack(130, 2, 81)); // sent at 49, older than the packet of 70
        s.on_ack(ack(140, 0, 10));
        s.on_ack(ack(150, 2, 80)); // also sent at 70, so not older
        assert_eq!(samples(&s.finish()), [(100, 50, false), (150, 80, false)]);
    }

    #[test]
    fn lost_packet_marks_the_rtt_sample_before_it() {
        let mut s = RttSampler::default();
        for at in [100, 110, 120] {
            s.on_sent();
            s.on_ack(ack(at, 2, 50));
        }
        s.on_lost(ms(99)); // before any sample
        s.on_lost(ms(110)); // released by the second ACK
        s.on_lost(ms(119)); // same burst
        let series = s.finish();
        assert_eq!(samples(&series), [(100, 50, false), (110, 50, true), (120, 50, false)]);
        assert_eq!((series.sent, series.lost, series.cut_at), (3, 3, None));
    }

    #[test]
    fn losses_before_the_first_rtt_sample_mark_nothing() {
        let mut s = RttSampler::default();
        s.on_lost(ms(5));
        assert_eq!(s.finish(), RttSeries { lost: 1, ..RttSeries::default() });
    }

    #[test]
    fn rtt_series_stops_growing_at_its_limit() {
        let mut s = RttSampler::default();
        for at in 0..SAMPLES as u64 + 5 {
            s.on_ack(ack(at, 2, 0));
        }
        s.on_lost(ms(SAMPLES as u64 + 3)); // after the cut: belongs to no kept sample
        let series = s.finish();
        assert_eq!(
            (series.samples.len(), series.samples[SAMPLES - 1].loss_follows),
            (SAMPLES, false)
        );
        assert_eq!(series.cut_at, Some(SAMPLES as f64 / 1e3));
    }

    proptest! {
        #[test]
        fn rtt_sample_json_keeps_every_nanosecond(at in 0_u64..100_000 * 1_000_000_000, rtt in 0_u64..10_000_000_000, loss in any::<bool>()) {
            let sample = RttSample { at: Time::from_nanos(at), rtt: Duration::from_nanos(rtt), loss_follows: loss };
            let text = serde_json::to_string(&sample).unwrap();
            prop_assert_eq!(serde_json::from_str::<RttSample>(&text).unwrap(), sample);
        }

        #[test]
        fn loss_marks_match_a_linear_search(
            mut acks in prop::collection::vec(0_u64..1_000, 0..40),
            losses in prop::collection::vec(0_u64..1_000, 0..40),
        ) {
            acks.sort_unstable();
            let mut s = RttSampler::default();
            acks.iter().for_each(|at| s.on_ack(ack(*at, 2, 0)));
            losses.iter().for_each(|at| s.on_lost(ms(*at)));
            let after = |n: usize| acks.get(n + 1).copied().unwrap_or(u64::MAX);
            let expected: Vec<bool> = (0..acks.len()).map(|n| losses.iter().any(|l| acks[n] <= *l && *l < after(n))).collect();
            prop_assert_eq!(s.finish().samples.iter().map(|s| s.loss_follows).collect::<Vec<_>>(), expected);
        }
    }
}
