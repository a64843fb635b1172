use super::*;
use crate::Probes;

/// RFC 6298 §5, rules 5.4 to 5.6, and RFC 6298 §2, rule 2.5: timeouts of 1, 2, 4 s and so on up to
/// 64 s. Only the first is reported to the controller (RFC 5681 §3.1).
#[test]
fn timeout_backs_off_to_64_seconds() {
    let drops: Vec<(i64, u32)> =
        (0..10).map(|n| (n, 1)).chain((2..10).map(|copy| (0, copy))).collect();
    let o = TcpOptions { rto: RtoOptions::default(), ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &drops);
    p.s.offer(10_000);
    p.run(260_000);
    let times = p.times_of(0);
    let gaps: Vec<u64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    assert_eq!(gaps, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 64_000]);
    assert!(
        (1..10).all(|n| p.times_of(n).iter().all(|t| *t == 100 || *t > times[9])),
        "one segment at a time"
    );
    assert_eq!(p.events(), [(1_100, "persistent")]);
    assert!(p.s.is_done());
}

/// RFC 5681 §3.1: one segment after a timeout, then slow start up to half of the old window.
#[test]
fn timeout_reduces_the_window_to_one_segment() {
    let drops: Vec<(i64, u32)> = (0..10).map(|n| (n, 1)).collect();
    for recovery in [LossRecovery::NewReno, LossRecovery::Sack] {
        let mut p = Path::reno(recovery, 100, &drops);
        p.run(450);
        // The timeout is 100 ms plus four times 50 ms after 100 ms.
        assert_eq!((p.at(400), p.s.window()), (vec![0], 1_000), "{recovery:?}");
        assert_eq!(p.events(), [(400, "persistent")]);
        p.run(750);
        assert_eq!([500, 600].map(|t| p.at(t)), [vec![1, 2], vec![3, 4, 5, 6]], "{recovery:?}");
        // Slow start ends at five segments.
        assert_eq!(p.at(700), [7, 8, 9, 10, 11], "{recovery:?}");
    }
}

/// RFC 6298 §2, rule 2.4.
#[test]
fn timeout_floor_is_configurable() {
    for floor in [1_000, 200, 0] {
        let rto = RtoOptions { floor: ms(floor), ..RtoOptions::default() };
        let mut p =
            Path::new(fixed(4), TcpOptions { rto, ..options(LossRecovery::NewReno) }, 1, &[(4, 1)]);
        p.s.offer(5_000);
        p.run(2_000);
        // Five samples of 100 ms: the variation is 50 * 0.75^4 = 15.8 ms, the timeout 163.3 ms.
        assert_eq!(p.times_of(4), [200, 200 + floor.max(164)], "floor {floor}");
    }
}

/// Karn's algorithm, RFC 6298 §3: the timeout stays doubled until a segment that was sent only once
/// is acknowledged. With timestamps the copies can be told apart (RFC 7323 §4).
#[test]
fn retransmitted_segments_give_no_sample_without_timestamps() {
    for (timestamps, after) in [(false, 600), (true, 250)] {
        let initial_window = InitialWindow::Segments(1);
        let o = TcpOptions { timestamps, initial_window, ..options(LossRecovery::NewReno) };
        let mut p = Path::new(fixed(1), o, 1, &[(0, 1)]);
        p.s.offer(2 * u64::from(o.smss()));
        p.run(410);
        assert_eq!((p.times_of(0), p.s.rto.rto()), (vec![100, 400], ms(600)));
        p.run(510);
        assert_eq!((p.at(500), p.s.rto.rto()), (vec![1], ms(after)), "timestamps {timestamps}");
        p.run(610);
        assert!(p.s.is_done() && p.s.rto.rto() < ms(300));
    }
}

/// RFC 6298 §5, rules 5.2 and 5.3: an ACK of new data restarts the timer, and the last ACK stops
/// it.
#[test]
fn acks_of_new_data_restart_the_timer() {
    let mut p = Path::new(fixed(1), options(LossRecovery::NewReno), 1, &[]);
    p.s.offer(2_000);
    p.run(150);
    assert_eq!(p.s.timeout(), Some(at(400)));
    p.run(250);
    assert_eq!(p.s.timeout(), Some(at(450)), "100 ms and four times 37.5 ms");
    p.run(350);
    assert_eq!(p.s.timeout(), None);
}

/// RFC 5681 §4.2: the ACK of an odd segment is delayed by 100 ms.
#[test]
fn ack_of_the_last_odd_segment_is_delayed() {
    let mut p = Path::new(fixed(10), options(LossRecovery::NewReno), 2, &[]);
    p.s.offer(3_000);
    p.run(1_000);
    assert_eq!(p.acked, [(50, 0), (150, 2), (250, 3)]);
}

/// RFC 3465 §2.3: during the recovery from a timeout, an ACK counts for one segment, however many
/// it covers.
#[test]
fn ack_after_a_timeout_grows_window_as_for_one_segment() {
    let counting = GrowthCounting::Bytes;
    let o = TcpOptions { counting, limited_transmit: false, ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[(0, 1), (0, 2), (5, 1)]);
    p.s.offer(100_000);
    p.run(510);
    assert_eq!((p.at(500), p.events()), (vec![5, 6], vec![(200, "loss"), (400, "persistent")]));
    p.run(610);
    // Segment 5 fills the last gap, because all segments up to 18 had arrived. The window is 2, and
    // slow start ends at 2.5.
    assert_eq!(p.at(600), [19, 20]);
}

/// RFC 9002 §6.2.4 instead of RFC 6298: one or two of the oldest outstanding segments are sent
/// again, and the window is unchanged.
#[test]
fn tcp_loss_probes_do_not_change_the_window() {
    for count in [1, 2] {
        let probes = Some(Probes { count, ack_delay: ms(25) });
        let o = TcpOptions { probes, ..options(LossRecovery::Sack) };
        // All ten segments of the first window are lost once.
        let mut p = Path::new(reno(), o, 1, &(0..10).map(|n| (n, 1)).collect::<Vec<_>>());
        p.s.offer(u64::from(MSS) * 10);
        p.run(3_000);
        let again: Vec<u64> = [0, 1].map(|n| p.times_of(n)[1]).into();
        // With a round trip of 100 ms from the handshake, the timeout is 100 + 4 * 50 ms, plus 25
        // ms for the acknowledgement delay.
        assert_eq!(again[0], 100 + 325, "{count}");
        assert_eq!(again[1] == again[0], count == 2, "{again:?}");
        assert!(p.s.is_done() && p.s.counts().timeouts >= 1 && p.s.window() >= 2 * u64::from(MSS));
    }
}
