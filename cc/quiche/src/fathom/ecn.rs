//! ECN counts of received packets, and the decision whether to mark sent packets.

use crate::frame::EcnCounts;

/// Values of ECT(0) and ECT(1) in the IP header.
const ECT0: u8 = 2;
const ECT1: u8 = 1;

/// Counts of the marks on packets received in one packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

impl Received {
    /// Counts a packet whose IP header had this ECN field.
    pub(crate) fn count(&mut self, codepoint: u8) {
        match codepoint & 3 {
            ECT1 => self.ect1 += 1,
            ECT0 => self.ect0 += 1,
            3 => self.ce += 1,
            _ => {}
        }
    }

    /// Returns the counts for an ACK frame; `None` if no packet was marked (RFC 9000 §13.4.1).
    pub(crate) fn counts(&self) -> Option<EcnCounts> {
        let Self { ect0, ect1, ce } = *self;
        (ect0 + ect1 + ce > 0).then(|| EcnCounts::of(ect0, ect1, ce))
    }
}

/// Marking of sent packets. It is on until the path or the peer proves unable to carry marks
/// (RFC 9000 §13.4.2). It uses only the application's packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marking {
    /// Whether packets leave as ECT(1) instead of ECT(0).
    l4s: bool,
    failed: bool,
    largest: Option<u64>,
    /// Packets that the peer reported with the codepoint of our packets.
    ect: u64,
    ce: u64,
}

impl Marking {
    /// Sets whether packets leave as ECT(1). If the application chooses another controller after
    /// packets of its number space have left, validation may fail, which ends the marking.
    pub(crate) fn set_l4s(&mut self, l4s: bool) {
        self.l4s = l4s;
    }

    /// Returns the ECN field for the next datagram.
    pub(crate) const fn codepoint(&self) -> u8 {
        match (self.failed, self.l4s) {
            (true, _) => 0,
            (false, true) => ECT1,
            (false, false) => ECT0,
        }
    }

    /// Processes an ACK frame that newly acknowledged `packets` of our packets, up to `largest`.
    /// Returns whether the frame reports new CE marks.
    ///
    /// Validation by RFC 9000 §13.4.2.1: the frame must have counts, the counts must have grown
    /// by at least the number of newly acknowledged packets, and no count may be for the codepoint
    /// that we do not send. Frames that arrive out of order are ignored.
    pub(crate) fn acknowledged(
        &mut self,
        packets: u64,
        largest: u64,
        counts: Option<&EcnCounts>,
    ) -> bool {
        if self.failed || packets == 0 || self.largest.is_some_and(|last| largest <= last) {
            return false;
        }
        self.largest = Some(largest);
        let (ect0, ect1, ce) = counts.map_or((0, 0, 0), EcnCounts::values);
        let (ect, other) = if self.l4s { (ect1, ect0) } else { (ect0, ect1) };
        let grown = ect.checked_sub(self.ect).zip(ce.checked_sub(self.ce));
        match grown {
            Some((new_ect, new_ce)) if other == 0 && new_ect.saturating_add(new_ce) >= packets => {
                (self.ect, self.ce) = (ect, ce);
                new_ce > 0
            }
            _ => {
                self.failed = true;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_counts(
        marking: &mut Marking,
        packets: u64,
        largest: u64,
        counts: (u64, u64, u64),
    ) -> bool {
        marking.acknowledged(packets, largest, Some(&EcnCounts::of(counts.0, counts.1, counts.2)))
    }

    #[test]
    fn packets_are_counted_by_ecn_codepoint() {
        let mut received = Received::default();
        received.count(0);
        assert!(received.counts().is_none());
        for codepoint in [2, 2, 3, 1, 0] {
            received.count(codepoint);
        }
        assert_eq!(received.counts().map(|c| c.values()), Some((2, 1, 1)));
    }

    #[test]
    fn increased_ce_count_is_reported_once() {
        let mut marking = Marking::default();
        assert!(!on_counts(&mut marking, 2, 1, (2, 0, 0)));
        assert!(on_counts(&mut marking, 2, 3, (3, 0, 1)));
        assert!(!on_counts(&mut marking, 1, 3, (3, 0, 9)), "nothing larger is acknowledged");
        assert!(!on_counts(&mut marking, 1, 4, (4, 0, 1)));
        assert_eq!(marking.codepoint(), 2);
    }

    #[test]
    fn l4s_packets_are_validated_as_ect1() {
        let mut marking = Marking::default();
        marking.set_l4s(true);
        assert_eq!(marking.codepoint(), 1);
        assert!(!on_counts(&mut marking, 2, 1, (0, 2, 0)));
        assert!(on_counts(&mut marking, 2, 3, (0, 3, 1)));
        assert_eq!(marking.codepoint(), 1);
        assert!(!on_counts(&mut marking, 1, 4, (1, 3, 1)), "changed to ECT(0) on the path");
        assert_eq!(marking.codepoint(), 0);
    }

    #[test]
    fn quiche_stops_sending_ect_if_marks_are_cleared_or_changed() {
        let broken: [&dyn Fn(&mut Marking) -> bool; 4] = [
            &|m| m.acknowledged(1, 4, None),
            &|m| on_counts(m, 3, 4, (4, 0, 0)),
            &|m| on_counts(m, 1, 4, (3, 1, 0)),
            &|m| on_counts(m, 1, 4, (1, 0, 3)),
        ];
        for (case, act) in broken.iter().enumerate() {
            let mut marking = Marking::default();
            assert!(!on_counts(&mut marking, 2, 1, (2, 0, 0)));
            assert!(!act(&mut marking), "case {case}");
            assert_eq!(marking.codepoint(), 0, "case {case}");
            assert!(!on_counts(&mut marking, 1, 9, (9, 0, 9)), "for good");
        }
    }
}
