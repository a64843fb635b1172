use super::*;

/// RFC 5681 §3.2 and RFC 6582 §3.2: the third duplicate ACK retransmits the lost segment,
/// duplicates beyond half the window release new segments, and the full ACK continues with
/// FlightSize plus one segment.
#[test]
fn newreno_repairs_one_loss_within_a_round_trip() {
    let mut p = Path::reno(LossRecovery::NewReno, 100, &[(0, 1)]);
    p.run(250);
    assert_eq!(p.at(100), (0..10).collect::<Vec<_>>());
    // Nine duplicates. Two release a new segment each (RFC 3042 §2). With the third the window is
    // 5 + 3, with the eighth 5 + 8: then there is room for a 13th segment, and for another with the
    // ninth.
    assert_eq!(p.at(200), [10, 11, 0, 12, 13]);
    assert_eq!(p.events(), [(200, "loss")]);
    p.run(350);
    // Segments 10 and 11 cause two more duplicates. Then 0 fills the gap up to 12: four segments
    // are outstanding and the window is 5. ACKs of 12 and 13 follow.
    assert_eq!(p.at(300), [14, 15, 16, 17, 18]);
    assert_eq!((p.s.window(), p.s.recovery), (5_000, Recovery::Open));
    assert_eq!((p.s.counts().fast_recoveries, p.s.counts().timeouts), (1, 0));
}

/// RFC 5681 §3.2: two duplicate ACKs do not mean a loss.
#[test]
fn two_duplicate_acks_trigger_no_retransmission() {
    let mut p = Path::reno(LossRecovery::NewReno, 3, &[(0, 1)]);
    p.run(290);
    assert_eq!((p.s.duplicates, p.times_of(0)), (2, vec![100]));
}

/// RFC 3042 §2 and RFC 6675 §5, step 3: after two losses among four segments, only two duplicate
/// ACKs arrive. The two ACKs release two new segments, which cause the third duplicate ACK.
#[test]
fn limited_transmit_is_configurable() {
    for recovery in [LossRecovery::NewReno, LossRecovery::Sack] {
        for (limited_transmit, expected) in
            [(true, vec![(200, 4), (200, 5), (300, 0)]), (false, vec![(1_100, 0)])]
        {
            let (initial_window, rto) = (InitialWindow::Segments(4), RtoOptions::default());
            let o = TcpOptions { limited_transmit, initial_window, rto, ..options(recovery) };
            let mut p = Path::new(reno(), o, 1, &[(0, 1), (1, 1)]);
            p.s.offer(100_000);
            p.run(1_150);
            let after: Vec<_> =
                p.sent.iter().copied().filter(|(t, _)| *t > 100).take(expected.len()).collect();
            assert_eq!(after, expected, "{recovery:?}");
            assert_eq!(p.s.counts().timeouts, u64::from(!limited_transmit));
        }
    }
}

/// RFC 6582 §3.2: one hole is repaired per round trip, with one reduction for all holes.
#[test]
fn newreno_repairs_one_loss_per_round_trip() {
    let o = TcpOptions { rto: RtoOptions::default(), ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[(1, 1), (3, 1), (5, 1)]);
    p.s.offer(100_000);
    p.run(700);
    assert_eq!([1, 3, 5].map(|n| p.times_of(n)), [[100, 200], [100, 300], [100, 400]]);
    assert_eq!(p.events(), [(200, "loss")]);
    assert_eq!(
        (p.s.counts().fast_recoveries, p.s.counts().timeouts, p.s.counts().retransmitted),
        (1, 0, 3)
    );
}

/// RFC 6582 §3.2, step 3: a partial ACK deflates the window by the bytes it acknowledges, minus one
/// segment.
#[test]
fn partial_ack_deflates_the_window() {
    let mut p = Path::reno(LossRecovery::NewReno, 100, &[(0, 1), (4, 1)]);
    p.run(250);
    // Eight duplicates arrive, so the window is inflated by 3 + 5 segments.
    assert_eq!((p.s.inflation, p.at(200)), (8_000, vec![10, 11, 0, 12]));
    p.run(310);
    // Segments 10 and 11 cause two duplicates, then come a partial ACK of four and a duplicate from
    // 12: 8 + 2 - 4 + 1 + 1.
    assert_eq!((p.s.inflation, p.at(300)), (8_000, vec![13, 14, 4, 15, 16]));
}

/// RFC 6582 §3.2, step 3: only the first partial ACK restarts the timer.
#[test]
fn later_partial_acks_do_not_restart_the_timer() {
    let mut p = Path::reno(LossRecovery::NewReno, 100, &[(0, 1), (2, 1), (4, 1), (6, 1)]);
    p.run(310);
    assert_eq!((p.s.timeout(), p.s.recovery), (Some(at(600)), Recovery::Fast(true)));
    p.run(410);
    assert_eq!((p.s.timeout(), p.s.board.una()), (Some(at(600)), 4_000));
}

/// RFC 6582 §3.2, step 2: duplicates of an ACK that covers no more than `recover` begin no
/// recovery. RFC 6675 §5 allows it.
#[test]
fn duplicate_acks_at_recovery_point_start_no_recovery() {
    for (recovery, recoveries) in [(LossRecovery::NewReno, 0), (LossRecovery::Sack, 1)] {
        let drops: Vec<(i64, u32)> = (0..10).map(|n| (n, 1)).collect();
        let mut p = Path::reno(recovery, 100, &drops);
        // The timeout comes at 400 ms. At 800 ms all ten segments are acknowledged, and new ones
        // are in flight.
        p.run(890);
        let una = p.s.board.una();
        assert_eq!((p.s.recovery, p.s.recover), (Recovery::Open, Some(10_000)));
        p.s.recover = Some(una);
        for n in 1..4 {
            p.s.on_ack(at(890), &ack_of(una, &[(una + 1_000, una + 1_000 * (n + 1))]));
        }
        assert_eq!(p.s.counts().fast_recoveries, recoveries, "{recovery:?}");
    }
}

/// RFC 6582 §3.2, step 3, first choice: with few segments outstanding, a full ACK does not cause a
/// burst of half the window.
#[test]
fn full_ack_causes_no_burst() {
    let mut p = Path::reno(LossRecovery::NewReno, 100, &[(0, 1)]);
    p.run(199);
    // Only three of nine duplicates arrive, so no new segments leave except the two of limited
    // transmit.
    p.acks.truncate(3);
    p.run(310);
    assert_eq!((p.at(200), p.at(300)), (vec![10, 11, 0], vec![12, 13]));
    assert_eq!(p.s.controller.send_params().window, 5_000);
}

/// RFC 5681 §3.2: the window does not grow in recovery. The acknowledgements are reported to the
/// controller as application-limited.
#[test]
fn window_does_not_grow_in_recovery() {
    let o = TcpOptions { rto: RtoOptions::default(), ..options(LossRecovery::NewReno) };
    let mut p = Path::new(reno(), o, 1, &[(1, 1), (3, 1), (5, 1)]);
    p.s.offer(100_000);
    p.run(490);
    let limited = |event| match event {
        Event::AckEvent { now, app_limited, .. } if now > at(200) => Some(app_limited),
        _ => None,
    };
    let limited: Vec<bool> = p.log.records().into_iter().filter_map(|r| limited(r.event)).collect();
    assert_eq!(limited, [true, true], "two partial ACKs");
    assert_eq!(p.s.controller.send_params().window, 5_500);
}

/// RFC 5681 §3.2 without RFC 6582: the partial ACK ends recovery at ssthresh, and the second loss
/// of the window waits for the timeout.
#[test]
fn reno_times_out_on_the_second_loss_of_a_window() {
    let mut p = Path::reno(LossRecovery::Reno, 100, &[(0, 1), (4, 1)]);
    p.run(310);
    assert_eq!((p.s.recovery, p.s.inflation, p.s.window()), (Recovery::Open, 0, 5_000));
    assert_eq!((p.times_of(0), p.times_of(4)), (vec![100, 200], vec![100]));
    p.run(2_000);
    let times = p.times_of(4);
    // The partial ACK came at 300 ms and restarted the timer of at least 200 ms.
    assert!(times.len() == 2 && times[1] >= 500, "{times:?}");
    assert_eq!((p.s.counts().fast_recoveries, p.s.counts().timeouts), (1, 1));
    // A single loss is repaired as in NewReno.
    let mut p = Path::reno(LossRecovery::Reno, 100, &[(0, 1)]);
    p.run(2_000);
    assert_eq!(
        (p.s.counts().fast_recoveries, p.s.counts().timeouts, p.s.counts().retransmitted),
        (1, 0, 1)
    );
}

/// RFC 9293 §3.7.4: with Nagle's algorithm, a small segment waits for the ACK of everything before
/// it, and a small segment with nothing before it leaves at once.
#[test]
fn nagle_delays_the_last_small_segment() {
    for (nagle, last) in [(false, 100), (true, 200)] {
        let o = TcpOptions { nagle, ..options(LossRecovery::NewReno) };
        let mut p = Path::new(reno(), o, 1, &[]);
        p.s.offer(2_500);
        p.run(1_000);
        assert_eq!(p.sent, [(0, -1), (100, 0), (100, 1), (last, 2)]);
        let mut p = Path::new(reno(), o, 1, &[]);
        p.s.offer(500);
        p.run(1_000);
        assert_eq!(p.sent, [(0, -1), (100, 0)]);
    }
}
