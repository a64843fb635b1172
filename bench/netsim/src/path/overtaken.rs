//! Counts overtaken packets, which arrive after a packet of the same flow that was sent later
//! (reordered packets of RFC 4737 §3).

use std::collections::VecDeque;

use fathom_units::Time;

/// Number of flows that are distinguished. Flows whose numbers are equal modulo this value count as
/// one flow.
const FLOWS: u64 = 1_024;

/// Arrival times of packets in flight, by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Overtaken {
    /// For each flow, the arrival times of packets that are in transit and were not overtaken. The
    /// order of sending is also the order of their arrival.
    flows: Vec<VecDeque<Time>>,
}

impl Overtaken {
    /// Records that the next packet of `flow`, in order of sending, leaves the link at `out` and
    /// arrives at `at`. Returns how many packets of the flow this packet overtakes, without packets
    /// that another packet has already overtaken.
    pub(super) fn add(&mut self, flow: u64, out: Time, at: Time) -> u64 {
        if self.flows.is_empty() {
            self.flows.resize_with(FLOWS as usize, VecDeque::new);
        }
        let pending = &mut self.flows[(flow % FLOWS) as usize];
        // No packet that leaves from now on can arrive before `out`.
        while pending.front().is_some_and(|first| *first <= out) {
            pending.pop_front();
        }
        let mut overtaken = 0;
        while pending.back().is_some_and(|last| *last > at) {
            pending.pop_back();
            overtaken += 1;
        }
        pending.push_back(at);
        overtaken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn nanos(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn packet_overtaken_by_several_packets_is_counted_once() {
        let mut overtaken = Overtaken::default();
        // Sent at 0, 1, 2, 3; arrive at 10, 5, 12, 4: the first, the second and the third arrive
        // after packets sent later.
        let counts = [(0, 10), (1, 5), (2, 12), (3, 4)]
            .map(|(out, at)| overtaken.add(7, nanos(out), nanos(at)));
        assert_eq!(counts, [0, 1, 0, 2]);
        // A packet of another flow overtakes no packet.
        assert_eq!(overtaken.add(8, nanos(3), nanos(4)), 0);
    }

    proptest! {
        /// The counts equal a count by RFC 4737's definition afterwards, for any delays and flows.
        #[test]
        fn counts_of_reordered_packets_match_rfc_4737(
            packets in prop::collection::vec((0_u64..10, 0_u64..60, 0_u64..3), 1..200),
        ) {
            let mut overtaken = Overtaken::default();
            let (mut out, mut counted, mut sent) = (0, 0, Vec::new());
            for (gap, delay, flow) in packets {
                out += gap;
                counted += overtaken.add(flow, nanos(out), nanos(out + delay));
                sent.push((flow, out + delay));
            }
            let later = |n: usize| sent[n + 1..].iter().any(|(flow, at)| *flow == sent[n].0 && *at < sent[n].1);
            prop_assert_eq!(counted, (0..sent.len()).filter(|n| later(*n)).count() as u64);
        }
    }
}
