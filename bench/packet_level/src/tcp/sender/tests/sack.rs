use super::*;

/// RFC 6675 §5: the third duplicate ACK retransmits the lost segment; new data follow as the pipe
/// has room.
#[test]
fn sack_repairs_one_loss_within_a_round_trip() {
    let mut p = Path::reno(LossRecovery::Sack, 100, &[(0, 1)]);
    p.run(250);
    // Two duplicates take two segments out of the pipe: 10 and 11 leave (step 3). With the third,
    // the window is 5, and the pipe holds 4 to 11 and 0. With the eighth, the pipe is down to 4.
    assert_eq!(p.at(200), [10, 11, 0, 12, 13]);
    assert_eq!(p.events(), [(200, "loss")]);
    p.run(350);
    assert_eq!(
        (p.s.recovery, p.s.window(), p.s.counts().retransmitted),
        (Recovery::Open, 5_000, 1)
    );
}

/// RFC 6675 §5: all holes of a window are repaired in one round trip, with one reduction for all of
/// them, if half the window is larger than the holes.
#[test]
fn sack_repairs_several_losses_within_a_round_trip() {
    let mut p = Path::reno(LossRecovery::Sack, 100, &[(11, 1), (13, 1), (15, 1)]);
    p.run(700);
    assert_eq!([11, 13, 15].map(|n| p.times_of(n)), [[200, 300], [200, 300], [200, 300]]);
    assert_eq!(p.events(), [(300, "loss")]);
    assert_eq!(
        (p.s.counts().fast_recoveries, p.s.counts().timeouts, p.s.counts().retransmitted),
        (1, 0, 3)
    );
}

/// RFC 6675 §5, step 1: a single ACK whose block shows the loss begins recovery.
#[test]
fn sack_detects_a_loss_although_acks_are_lost() {
    let mut p = Path::reno(LossRecovery::Sack, 10, &[(0, 1)]);
    p.run(199);
    assert_eq!(p.acks.len(), 9);
    p.acks.drain(..8);
    p.run(250);
    assert_eq!((p.at(200), p.s.counts().fast_recoveries), (vec![0], 1));
}

/// RFC 6675 §4, NextSeg rule 4, and §5, step 4.3: the last segment is retransmitted once, when
/// nothing else can be sent and more than the first retransmission was acknowledged.
#[test]
fn lost_last_segment_is_repaired_by_rescue_retransmission() {
    // Nothing above 9 is SACKed.
    let mut p = Path::reno(LossRecovery::Sack, 10, &[(3, 1), (9, 1)]);
    assert!(p.run(2_000));
    assert_eq!(
        (p.times_of(3), p.times_of(9), p.s.counts().timeouts),
        (vec![100, 200], vec![100, 300], 0)
    );
}

/// RFC 6675 §5.1 and RFC 6582 §3.2: a lost retransmission waits for the timeout.
#[test]
fn lost_retransmission_is_repaired_by_a_timeout() {
    for recovery in [LossRecovery::NewReno, LossRecovery::Sack] {
        let mut p = Path::reno(recovery, 100, &[(0, 1), (0, 2)]);
        p.run(5_000);
        // The timeout after the handshake is 100 ms plus four times 50 ms, so 300 ms. The timer
        // runs from 100 ms on, and no ACK of new data restarts it.
        assert_eq!(p.times_of(0), [100, 200, 400], "{recovery:?}");
        assert_eq!(p.events(), [(200, "loss"), (400, "persistent")], "{recovery:?}");
        assert!(p.s.is_done() && p.s.counts().timeouts == 1, "{recovery:?}");
    }
}

/// RFC 2018 §8: a timeout clears the SACKed marks; later ACKs report the segments again.
#[test]
fn timeout_discards_information_on_sacked_segments() {
    let mut p = Path::reno(LossRecovery::Sack, 10, &[(0, 1), (0, 2), (1, 1)]);
    p.run(420);
    assert_eq!((p.at(400), p.s.in_flight()), (vec![0], 1_000));
    assert!(p.run(5_000));
    assert_eq!(p.r.received(), 10_000);
}

/// RFC 6675 §2: an ACK without new SACK information is not a duplicate ACK.
#[test]
fn acks_without_new_sack_information_are_not_duplicates() {
    let mut p = Path::reno(LossRecovery::Sack, 10, &[]);
    p.run(120);
    for _ in 0..5 {
        p.s.on_ack(at(120), &ack_of(0, &[]));
    }
    assert_eq!((p.s.duplicates, p.s.counts().fast_recoveries), (0, 0));
}

/// RFC 6675 §5: an ACK that advances resets the count of duplicates. An ACK that also has a new
/// block counts as a duplicate (RFC 6675 §2), so the count restarts at one.
#[test]
fn advancing_ack_with_a_block_is_the_first_duplicate() {
    let mut p = Path::reno(LossRecovery::Sack, 10, &[]);
    p.run(120);
    p.s.offer(10_000);
    let ack = |ack: u64, block: (u64, u64)| TcpAck {
        ece: ack == 1,
        ..ack_of(1_000 * ack, &[(1_000 * block.0, 1_000 * block.1)])
    };
    p.s.options.ecn = true;
    p.s.on_ack(at(120), &ack(0, (1, 2)));
    p.s.on_ack(at(120), &ack(2, (3, 4)));
    assert_eq!((p.s.duplicates, p.s.counts().fast_recoveries), (1, 0));
    // An old ACK with a new block is the second duplicate. Its echo of a mark is old as well and is
    // ignored.
    p.s.on_ack(at(120), &ack(1, (5, 6)));
    assert_eq!((p.s.duplicates, p.events()), (2, vec![]));
    p.s.on_ack(at(120), &ack(2, (7, 8)));
    assert_eq!((p.s.counts().fast_recoveries, p.events()), (1, vec![(120, "loss")]));
    // The ACK that ends recovery still belongs to it: 2, 4, 6 are retransmitted, then 10 and 11.
    p.s.on_ack(at(120), &ack(2, (7, 10)));
    p.run(120);
    p.s.on_ack(at(130), &ack(10, (11, 12)));
    assert_eq!((p.s.recovery, p.s.duplicates), (Recovery::Open, 0));
}
