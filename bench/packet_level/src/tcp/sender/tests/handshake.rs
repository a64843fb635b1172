use super::*;

/// RFC 9293 §3.5: SYN, SYN-ACK and ACK of 40 bytes each, then data.
#[test]
fn tcp_data_wait_for_the_handshake() {
    let mut p = Path::reno(LossRecovery::NewReno, 3, &[]);
    assert!(p.run(1_000));
    let first: Vec<_> = p.segments.iter().take(3).map(|s| (s.syn, s.len, s.size)).collect();
    assert_eq!(first, [(true, 0, 40), (false, 0, 40), (false, 1_000, 1_040)]);
    assert_eq!((p.at(0), p.at(100)), (vec![-1], vec![0, 1, 2]));
    let mut s = TcpSender::new(reno(), options(LossRecovery::NewReno));
    assert_eq!((s.poll_send(at(0)), s.timeout()), (None, None), "nothing to send, no connection");
}

/// RFC 6298 §5, rules 5.4 to 5.6: SYNs leave at 0, 1, 3 and 7 s. Rule 5.7: data then begin with a
/// timeout of 3 s and with one segment (RFC 5681 §3.1).
#[test]
fn lost_syns_are_retransmitted() {
    let mut p = Path::reno(LossRecovery::NewReno, 3, &[(-1, 1), (-1, 2), (-1, 3)]);
    p.run(7_150);
    assert_eq!(p.times_of(-1), [0, 1_000, 3_000, 7_000]);
    assert_eq!(p.at(7_100), [0], "one segment after a lost SYN");
    assert_eq!((p.s.timeout(), p.s.counts().syn_timeouts), (Some(at(10_100)), 3));
    assert!(p.run(20_000));
    assert_eq!(p.events(), [], "no window to reduce");
}

/// RFC 6298 §5: a lost SYN-ACK is sent again.
#[test]
fn lost_syn_ack_is_retransmitted() {
    let mut p = Path::reno(LossRecovery::NewReno, 3, &[]);
    p.run(60);
    p.acks.clear();
    p.run(3_000);
    assert_eq!(p.times_of(-1), [0, 1_000]);
    assert_eq!(p.at(1_100), [0], "one segment");
    assert!(p.s.is_done());
}
