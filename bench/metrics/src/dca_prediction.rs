//! Predicts the effect of TCP/DCA on a connection that ran without it: the throughput analysis of
//! DCA §3.3.
//!
//! [`replay`] runs the detector over the connection's tcpRTT series. It counts the reactions and
//! the losses that these reactions would have avoided. [`predict`] puts the counts into the model
//! of [`SendRate`].
//!
//! # Departures
//! - **Baseline**: as in the controller (`fathom_cc::dca`), an epoch begins with the reaction to a
//!   delay event. The epoch ends when sampledRTT(x) is not above windowAVG(w), either the current
//!   average ([`Epoch::Average`]) or the average at the reaction ([`Epoch::Start`]).
//! - **Time of a loss**: a loss has the time of the sample after which the packet was sent. "Within
//!   one RTT" of a reaction means within the round trip of the sample that caused the reaction.
//!   Every loss in this period counts as avoided.
//! - **Avoided losses** are of two kinds: losses within one RTT of a reaction, and losses whose own
//!   sample is a delay event, inside or outside an epoch. The paper makes a congestion decision
//!   before every loss. Each loss counts once. [`Replay::avoided_by_reaction`] counts only the
//!   first kind.
//! - **Bursts**: as in the paper, a loss event may cover several packets, while retransmissions are
//!   counted one by one. The number of avoided losses never exceeds the number of retransmissions.

use std::time::Duration;

use fathom_cc::Time;
use fathom_cc::dca::Epoch;
use serde::{Deserialize, Serialize};

use super::latency::{round, significant};
use super::loss_delay::DelayEvent;
use super::pftk::{SendRate, Timeouts};
use super::rtt_series::RttSample;

/// Counts of the detector's decisions on a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Loss events of the series.
    pub losses: u64,
    /// Reactions, at most one per congestion epoch.
    pub reactions: u64,
    /// Losses that were within one RTT of a reaction or whose own sample is a delay event.
    pub avoided: u64,
    /// Losses within one RTT of a reaction.
    pub avoided_by_reaction: u64,
}

/// Runs the detector over a series and returns its counts.
pub fn replay(samples: &[RttSample], event: DelayEvent, epoch: Epoch) -> Replay {
    let mut counts = Replay::default();
    // windowAVG(w) at the start of the current epoch; `None` outside epochs.
    let mut began = None;
    let mut reaction: Option<(Time, Duration)> = None;
    for (index, sample) in samples.iter().enumerate() {
        let mut decided = false;
        if let Some(compared) = event.at(samples, index) {
            decided = compared.is_event();
            let baseline = match epoch {
                Epoch::Average => compared.window,
                Epoch::Start => began.unwrap_or(compared.window),
            };
            let sampled = compared.sampled;
            if sampled.total * u128::from(baseline.count)
                <= baseline.total * u128::from(sampled.count)
            {
                began = None;
            }
            if decided && began.is_none() {
                began = Some(compared.window);
                reaction = Some((sample.at, sample.rtt));
                counts.reactions += 1;
            }
        }
        if sample.loss_follows {
            let near = reaction.is_some_and(|(at, rtt)| sample.at.since(at) <= rtt);
            counts.losses += 1;
            counts.avoided += u64::from(near || decided);
            counts.avoided_by_reaction += u64::from(near);
        }
    }
    counts
}

/// Counts on which the prediction is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets sent (packetsSent in DCA §3.3).
    pub sent: u64,
    /// Retransmissions (numberRetransmits); for QUIC, packets declared lost.
    pub retransmits: u64,
    /// Reactions to delay events (congestionReactionCount).
    pub reactions: u64,
    /// Losses avoided (lossAvoidedCount).
    pub avoided: u64,
}

/// Predicted send rates without and with DCA. Numbers are rounded to six significant digits,
/// percentages to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Loss rate without DCA (p-loss).
    pub p_loss: f64,
    /// Rate of remaining losses and reactions with DCA (p-TD).
    pub p_td: f64,
    /// Rate of remaining losses with DCA (p-timeout).
    pub p_timeout: f64,
    /// Packets per second at p-loss, by the full model.
    pub reno: f64,
    /// Packets per second at p-TD and p-timeout, by the full model.
    pub dca: f64,
    /// Relative change of the rate, B(p-TD, p-timeout) / B(p-loss) - 1, in percent; negative if DCA
    /// is slower.
    pub degradation_percent: f64,
    /// Relative change of the rate by the approximate model, in percent.
    pub approximate_percent: f64,
}

/// Predicts the cost of DCA. Returns `None` if a loss rate is undefined because no packets were
/// sent. Also returns `None` if the model has no rate: all packets were lost, or there is neither a
/// loss nor a maximum window.
pub fn predict(path: &SendRate, counts: Counts, timeouts: Timeouts) -> Option<Prediction> {
    let left = counts.retransmits.saturating_sub(counts.avoided);
    // The loss rate is not a number if no packets were sent. The model then has no rate.
    let of_sent = |packets: u64| packets as f64 / counts.sent as f64;
    let (p_loss, p_td) =
        (of_sent(counts.retransmits), of_sent(left.saturating_add(counts.reactions)));
    let p_timeout = of_sent(left);
    let (reno, dca) = (path.full(p_loss)?, path.full_of_two(p_td, p_timeout, timeouts)?);
    let approximate = path.approximate_of_two(p_td, p_timeout)? / path.approximate(p_loss)?;
    let percent = |ratio: f64| round((ratio - 1.0) * 100.0, 3);
    Some(Prediction {
        p_loss: significant(p_loss, 6),
        p_td: significant(p_td, 6),
        p_timeout: significant(p_timeout, 6),
        reno: significant(reno, 6),
        dca: significant(dca, 6),
        degradation_percent: percent(dca / reno),
        approximate_percent: percent(approximate),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::loss_delay::tests::series;
    use super::*;

    const PATH: SendRate = SendRate {
        rtt: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        packets_per_ack: 2.0,
        max_window: None,
    };

    fn run(rtts: &[u64], losses: &[usize], epoch: Epoch) -> Replay {
        replay(&series(rtts.iter().copied(), losses), DelayEvent::new(1, 4).unwrap(), epoch)
    }

    #[test]
    fn dca_replay_reacts_once_per_epoch() {
        // x 1, w 4. Sample 4: 20 against mean 12.5 and deviation 4.3, a reaction. Sample 5: 30
        // against 17.5 + 8.3, an event, but the epoch lasts. Samples 6 and 7: 30 against 22.5 and
        // 27.5, epoch not over. Sample 8: 30 against 30, epoch over. Sample 9: 40 against 32.5 +
        // 4.3, the second reaction.
        let rtts = [10, 10, 10, 10, 20, 30, 30, 30, 30, 40];
        let counts = run(&rtts, &[], Epoch::Average);
        assert_eq!((counts.reactions, counts.losses, counts.avoided), (2, 0, 0));
        // With the baseline fixed at 12.5, the epoch outlasts the series.
        assert_eq!(run(&rtts, &[], Epoch::Start).reactions, 1);
        // Back below 12.5 and up again gives two reactions. 12 against 12.5, then 40 against 28 +
        // 10.7 (30 30 12 40).
        let rtts = [10, 10, 10, 10, 20, 30, 30, 12, 40];
        assert_eq!(run(&rtts, &[], Epoch::Start).reactions, 2);
    }

    #[test]
    fn losses_within_an_rtt_after_a_dca_reaction_count_as_avoided() {
        // The reaction is at sample 4, at 40 ms, with a round trip of 20 ms: 60 ms is within it, 70
        // ms is not. Samples come every 10 ms.
        let rtts = [10, 10, 10, 10, 20, 20, 20, 20, 20];
        let avoided = |losses: &[usize]| {
            let counts = run(&rtts, losses, Epoch::Average);
            assert_eq!((counts.reactions, counts.losses), (1, losses.len() as u64));
            (counts.avoided, counts.avoided_by_reaction)
        };
        assert_eq!(avoided(&[3]), (0, 0), "before");
        assert_eq!(avoided(&[4]), (1, 1), "the reaction's own");
        assert_eq!(avoided(&[4, 5, 6]), (3, 3));
        assert_eq!(avoided(&[7, 8]), (0, 0));
    }

    #[test]
    fn loss_with_its_own_delay_event_counts_as_avoided_only_once() {
        // The reaction is at sample 4, at 40 ms, with a round trip of 30 ms, so 70 ms is near.
        // Sample 6 is near and an event (60 against 35 + 18.0). Sample 8 is an event (90 against
        // 66.25 + 18.5) but too late to be near. Sample 9 is neither (85 against 77.5 + 11.5).
        let counts = run(&[10, 10, 10, 10, 30, 40, 60, 75, 90, 85], &[6, 8, 9], Epoch::Start);
        assert_eq!((counts.reactions, counts.losses), (1, 3));
        assert_eq!((counts.avoided, counts.avoided_by_reaction), (2, 1));
    }

    #[test]
    fn short_rtt_series_have_no_dca_reactions() {
        assert_eq!(replay(&[], DelayEvent::default(), Epoch::Average), Replay::default());
        let counts = replay(&series(1..20, &[18]), DelayEvent::default(), Epoch::Average);
        assert_eq!(counts, Replay { losses: 1, ..Replay::default() });
    }

    #[test]
    fn dca_throughput_prediction_matches_hand_calculation() {
        // p-loss 0.01, p-TD (100 + 350 - 50) / 10000 = 0.04, p-timeout 0.005. The rates are those
        // of the model's own tests: 69.52446 and 38.15849 packets per second, or 25.19363 if every
        // indication may time out. The approximate model gives 70.65442 and 41.64358.
        let counts = Counts { sent: 10_000, retransmits: 100, reactions: 350, avoided: 50 };
        let p = predict(&PATH, counts, Timeouts::OfLosses).unwrap();
        assert_eq!((p.p_loss, p.p_td, p.p_timeout), (0.01, 0.04, 0.005));
        assert_eq!((p.reno, p.dca), (69.5245, 38.1585));
        assert_eq!((p.degradation_percent, p.approximate_percent), (-45.115, -41.06));
        let literal = predict(&PATH, counts, Timeouts::OfIndications).unwrap();
        assert_eq!(literal.degradation_percent, -63.763);
        let text = serde_json::to_string(&p).unwrap();
        assert_eq!(serde_json::from_str::<Prediction>(&text).unwrap(), p);
    }

    #[test]
    fn missing_data_give_no_throughput_prediction() {
        let counts = Counts { sent: 100, retransmits: 0, reactions: 0, avoided: 0 };
        assert_eq!(predict(&PATH, counts, Timeouts::OfLosses), None, "no loss, no limit");
        let limited = SendRate { max_window: Some(12.0), ..PATH };
        assert_eq!(predict(&limited, counts, Timeouts::OfLosses).unwrap().degradation_percent, 0.0);
        assert_eq!(
            predict(&limited, Counts { sent: 0, ..counts }, Timeouts::OfLosses),
            None,
            "nothing sent"
        );
        assert_eq!(
            predict(&limited, Counts { retransmits: 100, ..counts }, Timeouts::OfLosses),
            None,
            "all lost"
        );
        let more = Counts { retransmits: 2, reactions: 1, avoided: 3, ..counts };
        assert_eq!(
            predict(&limited, more, Timeouts::OfLosses).unwrap().p_timeout,
            0.0,
            "never less than none"
        );
    }

    proptest! {
        #[test]
        fn counts_of_dca_replay_stay_within_bounds(rtts in prop::collection::vec(20_u64..60, 0..200), step in 1_usize..5, start in any::<bool>()) {
            let lost: Vec<usize> = (0..rtts.len()).step_by(step).collect();
            let epoch = if start { Epoch::Start } else { Epoch::Average };
            let s = series(rtts, &lost);
            let event = DelayEvent::new(2, 5).unwrap();
            let counts = replay(&s, event, epoch);
            prop_assert_eq!(counts.losses, lost.len() as u64);
            prop_assert!(counts.avoided_by_reaction <= counts.avoided && counts.avoided <= counts.losses);
            // An epoch begins with an event.
            let events = (0..s.len()).filter_map(|n| event.at(&s, n)).filter(|c| c.is_event()).count() as u64;
            prop_assert!(counts.reactions <= events && (counts.reactions > 0) == (events > 0));
        }
    }
}
