use super::*;

fn path(segments: u64, marks: &[i64], drops: &[(i64, u32)]) -> Path {
    let mut p =
        Path::new(reno(), TcpOptions { ecn: true, ..options(LossRecovery::NewReno) }, 1, drops);
    p.s.offer(segments * u64::from(MSS));
    p.marks = marks.to_vec();
    p.run(3_000);
    assert!(p.s.is_done());
    p
}

fn with_cwr(p: &Path) -> usize {
    p.segments.iter().filter(|s| s.cwr).count()
}

/// RFC 3168 §6.1.2: one reduction per round trip for any number of marks; the next new segment
/// carries CWR.
#[test]
fn ecn_marks_in_one_window_reduce_the_window_once() {
    let p = path(60, &[2, 3, 7], &[]);
    assert_eq!((p.events(), with_cwr(&p)), (vec![(200, "mark")], 1));
}

/// RFC 3168 §6.1.2: marks of the next window reduce it again.
#[test]
fn ecn_marks_in_the_next_window_reduce_the_window_again() {
    let p = path(100, &[2, 20], &[]);
    assert_eq!((p.events().len(), p.s.metrics().reductions, with_cwr(&p)), (2, 2, 2));
}

/// RFC 3168 §6.1.1, RFC 3168 §6.1.4 and RFC 3168 §6.1.5: only new data are ECN-capable. CWR follows
/// a loss too (RFC 3168 §6.1.2).
#[test]
fn only_new_data_segments_are_ecn_capable() {
    let p = path(40, &[], &[(3, 1)]);
    assert!(p.segments.iter().all(|s| s.ecn_capable == (s.len > 0 && !s.retransmission)));
    assert_eq!((p.s.counts().retransmitted, with_cwr(&p)), (1, 1));
}

/// RFC 3168 §6.1.2: a loss and a mark in one window are one reduction.
#[test]
fn loss_and_mark_in_one_window_reduce_the_window_once() {
    let p = path(60, &[5], &[(3, 1)]);
    assert_eq!(p.s.metrics().reductions, 1);
}

/// Accurate ECN: every ACK that reports marks is a separate event with the number of marks. Without
/// marks there is no event.
#[test]
fn accurate_ecn_reports_every_ack_that_carries_marks() {
    let o = TcpOptions { ecn: true, accurate_ecn: true, ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[]);
    p.s.offer(60 * u64::from(MSS));
    p.marks = vec![2, 3, 7];
    p.run(3_000);
    assert!(p.s.is_done());
    // The controller treats the three events of one round trip as one, as with QUIC.
    assert_eq!((p.events(), p.s.metrics().reductions), (vec![(200, "mark"); 3], 1));
    assert_eq!((p.r.ack(at(3_000)).marks, p.s.marks), (Some((60, 3)), (57, 3)));
}

/// Retransmissions are ECN-capable, as in ns-2, if the option is set.
#[test]
fn retransmissions_can_be_ecn_capable() {
    let o = TcpOptions { ecn: true, ecn_retransmissions: true, ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[(3, 1)]);
    p.s.offer(40 * u64::from(MSS));
    p.run(3_000);
    assert!(p.s.is_done() && p.s.counts().retransmitted == 1);
    assert!(p.segments.iter().all(|s| s.ecn_capable == (s.len > 0)));
}

/// With `least_window`, a mark at a window of two or three segments leaves one segment, as in ns-2;
/// without it, two segments.
#[test]
fn marks_reduce_the_window_to_the_least_window() {
    let window_after_marks = |least_window| {
        let o = TcpOptions { ecn: true, least_window, ..options(LossRecovery::NewReno) };
        let mut p = Path::new(reno(), o, 1, &[]);
        p.s.offer(200 * u64::from(MSS));
        p.marks = (0..60).collect();
        let mut least = u64::MAX;
        for time in (0..1_500).step_by(10) {
            p.run(time);
            least = least.min(p.s.window());
        }
        least / u64::from(MSS)
    };
    assert_eq!([2, 1].map(window_after_marks), [2, 1]);
}

/// With `least_window` 0, a sender whose window falls below one segment waits for the timer and
/// continues with one segment, as in ns-2.
#[test]
fn window_below_a_segment_waits_for_the_timer() {
    let o = TcpOptions { ecn: true, least_window: 0, ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[]);
    p.s.offer(60 * u64::from(MSS));
    p.marks = (0..40).collect();
    assert!(p.run(60_000));
    let counts = p.s.counts();
    assert!(counts.timeouts >= 1 && counts.retransmitted == 0, "{counts:?}");
    // While it waits, nothing leaves for at least the shortest timeout.
    let gap = p.sent.windows(2).map(|pair| pair[1].0 - pair[0].0).max();
    assert!(gap.is_some_and(|ms| ms >= 200), "{gap:?}");
}
