//! RACK-TLP (RFC 8985) and PRR (RFC 6937), by the same packetdrill scripts as in `linux.rs`. Here the
//! sender does what Linux does, unless a comment names a difference.

use super::linux::{Script, numbers};
use super::*;

fn script(round_trip: u64) -> Script {
    Script::new(LossRecovery::Rack, round_trip)
}

/// tcp/fast_recovery/prr-ss-10pkt-lost-1: as with RFC 6675.
#[test]
fn rack_repairs_one_loss_while_the_window_stays_full() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(110);
    let left = [2, 3, 4].map(|end| s.ack(0, &[(1, end)]));
    assert_eq!((left, s.window()), ([vec![], vec![], vec![0]], 7));
    assert_eq!(s.after(10).write(7), []);
    let left = [5, 6, 7, 8, 9, 10].map(|end| s.after(10).ack(0, &[(1, end)]));
    assert_eq!(left, [10, 11, 12, 13, 14, 15].map(|n| vec![n]));
    assert_eq!((s.after(20).ack(10, &[]), s.window()), (vec![16], 7));
    assert_eq!(s.s.recovery, Recovery::Open);
}

/// tcp/fast_recovery/prr-ss-30pkt-lost1_4: one hole per ACK.
#[test]
fn rate_reduction_sends_one_hole_per_ack() {
    let mut s = script(10);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(10);
    let left = [5, 6, 7, 8, 9, 10].map(|end| s.ack(0, &[(4, end)]));
    assert_eq!(left, [vec![], vec![], vec![0], vec![1], vec![2], vec![3]]);
    s.after(10);
    let left = [1, 2, 3].map(|next| s.ack(next, &[(4, 10)]));
    assert_eq!((left, s.ack(10, &[])), ([const { vec![] }; 3], vec![]));
    assert_eq!(s.after(10).write(10), numbers(10..17));
}

/// tcp/fast_recovery/prr-ss-30pkt-lost-1_4-11_16: the retransmission of 1 is lost, too, and the
/// block from 2 on shows it, since 2 was retransmitted after 1.
#[test]
fn rack_sends_a_lost_retransmission_again() {
    let mut s = script(10);
    assert_eq!(s.write(20), numbers(0..10));
    s.after(10);
    let left: Vec<u64> =
        [5, 6, 7, 8, 9, 10].iter().flat_map(|end| s.after(2).ack(0, &[(4, *end)])).collect();
    assert_eq!(left[..4], [10, 11, 0, 1], "limited transmit, then the holes");
    s.after(10).ack(1, &[(4, 12)]);
    assert!(s.after(2).ack(1, &[(2, 12)]).contains(&1), "{:?}", s.s);
    assert_eq!(s.s.counts().timeouts, 0);
}

/// tcp/sack/sack-shift-sacked-2-6-8-3-9-nofack: three SACKed segments end the tolerance for
/// reordering, so all holes below 8 are lost.
#[test]
fn three_sacked_segments_make_all_holes_before_them_lost() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(100);
    assert_eq!(s.ack(0, &[(2, 3)]), []);
    assert_eq!(s.after(1).ack(0, &[(2, 3), (6, 7)]), []);
    assert_eq!(s.after(1).ack(0, &[(2, 3), (6, 7), (8, 9)]), [0]);
    assert_eq!(s.after(7).ack(0, &[(2, 4), (6, 7), (8, 9)]), [1]);
}

/// tcp/sack/sack-route-refresh-ip-tos.
#[test]
fn rack_sends_all_holes_that_one_ack_reveals() {
    let mut s = script(10);
    assert_eq!(s.write(10), numbers(0..10));
    assert_eq!(s.after(10).ack(1, &[(3, 4), (6, 10)]), [1, 2, 4, 5]);
    assert_eq!((s.after(10).ack(10, &[]), s.s.is_done(), s.s.counts().timeouts), (vec![], true, 0));
}

/// tcp/fast_recovery/prr-ss-ack-below-snd_una-cubic: the ACK of 4 delivers 0 and 3, and nothing new is
/// lost, so it releases three segments. After the next block, the lost 7 and a new segment leave.
#[test]
fn rate_reduction_sends_what_was_delivered() {
    let mut s = script(10);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(10);
    assert_eq!((s.ack(0, &[(1, 2)]), s.ack(0, &[(1, 3)])), (vec![], vec![]));
    assert_eq!(s.ack(0, &[(1, 3), (8, 9)]), [0]);
    assert_eq!(s.after(12).ack(4, &[(8, 9)]), [4, 5, 6]);
    assert_eq!(s.write(10), []);
    assert_eq!(s.after(2).ack(3, &[(5, 7)]), [7, 10]);
}

/// tcp/fast_retransmit/fr-4pkt-fack-last-mss: segments may be late by a quarter of the round trip.
#[test]
fn segments_before_one_sacked_segment_are_lost_after_a_quarter_of_a_round_trip() {
    let mut s = script(100);
    assert_eq!(s.write(4), numbers(0..4));
    assert_eq!(s.after(100).ack(0, &[(3, 4)]), []);
    assert_eq!(s.silence(26).first(), Some(&(25, 0)));
}

/// tcp/fast_retransmit/fr-4pkt-fack-last-byte: the last segment is sent again two round trips after
/// the first transmission; the timeout follows the probe.
#[test]
fn silence_is_probed_with_the_last_segment_before_the_timeout() {
    let mut s = script(100);
    assert_eq!(s.write(4), numbers(0..4));
    assert_eq!(s.silence(510), [(202, 3), (502, 0)]);
    assert_eq!(s.s.counts().timeouts, 1);
}

/// tcp/user_timeout/user_timeout: the probe of a lone segment waits for a delayed ACK, here as long
/// as for the timeout, which then begins.
#[test]
fn timeouts_after_the_probe_of_a_lone_segment_double() {
    let mut s = script(100);
    s.s.finish();
    assert_eq!(s.leaves(), [0]);
    assert_eq!(s.silence(1_300), [(300, 0), (600, 0), (1_200, 0)]);
}

/// RFC 8985 §7.4: the ACK of data beyond the probe shows that the probe repaired a loss, which
/// reduces the window; a duplicate ACK shows that it did not.
#[test]
fn window_is_reduced_if_a_probe_repaired_a_loss() {
    for (repaired, window) in [(true, 7), (false, 10)] {
        let mut s = script(100);
        assert_eq!(s.write(4), numbers(0..4));
        s.after(100).ack(3, &[]);
        let probes: Vec<u64> = s.silence(450).iter().map(|sent| sent.1).collect();
        assert_eq!(probes, [3]);
        if !repaired {
            // The original's ACK was late; the probe's is a duplicate.
            s.ack(4, &[]);
            s.ack(4, &[]);
        } else {
            s.ack(4, &[]);
        }
        assert_eq!(s.write(2), numbers(4..6));
        s.after(100).ack(6, &[]);
        assert_eq!(s.window(), window, "repaired: {repaired}");
    }
}

/// RFC 8985 §6.2: once a segment arrived late, three later ones are no loss yet.
#[test]
fn rack_tolerates_reordering_that_it_has_seen() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(100).ack(0, &[(1, 2)]);
    s.after(1).ack(2, &[]);
    assert!(s.rack_has_seen_reordering());
    assert_eq!(s.s.counts().retransmitted, 0);
    for end in [4, 5, 6, 7] {
        s.after(1).ack(2, &[(3, end)]);
    }
    assert_eq!(s.s.counts().retransmitted, 0, "{:?}", s.s);
    assert_eq!(s.silence(30).first().map(|sent| sent.1), Some(2));
}

/// RFC 8985 §6.2, step 4, and Linux's tcp_try_undo_dsack: a DSACK for the only retransmission
/// restores the window, and segments may then be late by half a round trip instead of a quarter.
#[test]
fn unnecessary_retransmission_is_undone_and_widens_the_tolerance() {
    let mut s = script(100);
    assert_eq!(s.write(30), numbers(0..10));
    s.after(100).ack(1, &[]);
    s.ack(1, &[(2, 3)]);
    // The first of 26 ms is the tolerance.
    assert_eq!(s.silence(30), [(25, 1)]);
    assert_eq!((s.s.counts().fast_recoveries, s.window()), (1, 7));
    let recover = s.s.board.high() / u64::from(MSS);
    s.after(70).ack(recover, &[(1, 2)]);
    assert_eq!((s.s.recovery, s.window() >= 10), (Recovery::Open, true), "{:?}", s.s);
    let late = s.s.counts().retransmitted;
    let left = s.after(100).ack(recover, &[(recover + 1, recover + 2)]);
    assert!(!left.contains(&recover), "{left:?}");
    let lost = s.silence(60);
    assert_eq!((s.s.counts().retransmitted, lost[0]), (late + 1, (50, recover)), "{lost:?}");
}

/// Segments arrive in any order within a fifth of a round trip. RFC 6675 takes more for lost
/// than RACK, and leaves the window reduced.
#[test]
fn rack_sends_fewer_segments_twice_on_a_path_that_reorders() {
    let runs = [LossRecovery::Sack, LossRecovery::Rack].map(|recovery| {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut path = Path::reno(recovery, 2_000, &[]);
        while !path.s.is_done() {
            assert!(path.now < 600_000, "{:?}", path.s);
            path.send();
            for packet in &mut path.data {
                if packet.0 == path.now + ONE_WAY {
                    packet.0 += rng.random_range(0..20);
                }
            }
            path.data.make_contiguous().sort_by_key(|packet| packet.0);
            let next = path.next().expect("an event");
            path.run(next);
        }
        (path.s.counts().retransmitted, path.now)
    });
    assert!(2 * runs[1].0 < runs[0].0 && 2 * runs[1].1 < runs[0].1, "{runs:?}");
}

/// Segments that are lost when a recovery ends begin the next one, instead of waiting for the
/// timeout.
#[test]
fn losses_that_outlive_a_recovery_begin_another() {
    let mut s = script(100);
    assert_eq!(s.write(40), numbers(0..10));
    s.after(100);
    let left: Vec<u64> = (2..=10).flat_map(|end| s.ack(0, &[(1, end)])).collect();
    assert_eq!(left, [10, 11, 0, 12, 13, 14, 15]);
    // The retransmission and 10 to 14 are lost.
    assert_eq!(s.after(110).ack(0, &[(1, 10), (15, 16)]), [0, 10, 11]);
    assert_eq!(s.s.board.next_lost().map(|index| s.s.board.get(index).seq), Some(12_000));
    let left = s.after(100).ack(12, &[(15, 16)]);
    assert!(left.contains(&12), "{left:?}");
    assert_eq!((s.s.counts().fast_recoveries, s.s.counts().timeouts), (2, 0));
}

/// RFC 8985 §7.1: a recovery ends the episode of the probe that began it, so one lost tail reduces
/// the window once.
#[test]
fn lost_tail_reduces_the_window_once() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(100).ack(8, &[]);
    assert_eq!(s.silence(210).iter().map(|sent| sent.1).collect::<Vec<_>>(), [9]);
    let left: Vec<u64> = s.after(110).ack(8, &[(9, 10)]);
    let more = s.silence(60);
    assert!(left.contains(&8) || more.iter().any(|sent| sent.1 == 8), "{left:?} {more:?}");
    s.after(60).ack(10, &[]);
    let window = s.window();
    assert_eq!(s.write(2), numbers(10..12));
    s.after(100).ack(12, &[]);
    assert!(s.window() >= window, "{} after {window}", s.window());
    assert_eq!(s.s.counts().fast_recoveries, 1);
}

/// The DSACK of a tail's probe says nothing about the retransmissions of the recovery that follows.
#[test]
fn dsack_of_a_probe_does_not_undo_a_true_loss() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    assert_eq!(s.silence(210).iter().map(|sent| sent.1).collect::<Vec<_>>(), [9]);
    // The round trip has become longer; 0 is lost.
    for end in 2..=10 {
        s.after(1).ack(0, &[(1, end)]);
    }
    assert_eq!(s.s.counts().fast_recoveries, 1);
    s.after(100).ack(0, &[(9, 10), (1, 10)]);
    assert_eq!(s.window(), 7);
}

/// The last retransmission of a response proves unnecessary after everything is acknowledged.
#[test]
fn reduction_is_undone_by_a_dsack_that_arrives_last() {
    let mut s = script(100);
    assert_eq!(s.write(10), numbers(0..10));
    s.after(100);
    for end in 2..=4 {
        s.ack(0, &[(1, end)]);
    }
    assert_eq!((s.window(), s.s.counts().retransmitted), (7, 1));
    s.after(10).ack(10, &[]);
    s.after(90).ack(10, &[(0, 1)]);
    assert!(s.window() >= 10, "{}", s.window());
}
