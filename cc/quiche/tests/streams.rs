//! The end of a stream reaches the peer, whatever happens to the frames that carry it.

use crate::common;

use common::{config, named, Action, Pair, MS};
use quiche::fathom::simulation;
use quiche::CongestionControlAlgorithm::{self, Bbr2Gcongestion, CUBIC};

/// Returns a pair whose client has all data of a response that the server has not ended. The
/// acknowledgement of the data is in flight.
fn answered(algorithm: CongestionControlAlgorithm) -> Pair {
    let mut pair =
        Pair::connected(&mut config(named("fathom:reno")), &mut config(algorithm), [20 * MS; 2]);
    pair.client.to_write.push((0, 100));
    assert!(pair.run(1_000, |pair| pair.server.read == 100));
    send(&mut pair, &[7; 500], false);
    assert!(pair.run(1_000, |pair| pair.client.read == 500));
    pair
}

fn send(pair: &mut Pair, data: &[u8], end: bool) {
    let server = &mut pair.server;
    simulation::run_at(pair.now, &mut server.rng, || server.conn.stream_send(0, data, end))
        .expect("room for it");
}

fn is_ended(pair: &Pair) -> bool {
    pair.client.conn.stream_finished(0)
}

#[test]
fn fin_written_before_its_data_are_acknowledged_is_sent() {
    for algorithm in [named("sync"), CUBIC, Bbr2Gcongestion] {
        let mut pair = answered(algorithm);
        send(&mut pair, b"", true);
        // All data are now acknowledged, and the end of the stream waits to be sent.
        pair.deliver_next();
        assert!(!is_ended(&pair));
        assert!(pair.run(1_000, is_ended), "{algorithm:?}: the client waits for the end");
    }
}

#[test]
fn lost_fin_is_retransmitted() {
    for algorithm in [named("sync"), CUBIC, Bbr2Gcongestion] {
        let mut pair = answered(algorithm);
        // The acknowledgement arrives.
        pair.run(500, |_| false);
        send(&mut pair, b"", true);
        let lost = pair.now - pair.start;
        pair.filter =
            Box::new(
                move |d| {
                    if d.from_client || d.at > lost {
                        Action::Pass(d.ecn)
                    } else {
                        Action::Drop
                    }
                },
            );
        assert!(pair.run(5_000, is_ended), "{algorithm:?}: the client waits for the end");
        assert!(pair.now - pair.start > lost + 40 * MS, "it was lost");
    }
}

#[test]
fn lost_fin_after_acknowledged_data_is_retransmitted() {
    for algorithm in [named("sync"), CUBIC, Bbr2Gcongestion] {
        let mut pair = answered(algorithm);
        // The end of the stream is sent while the acknowledgement is in flight, and is lost.
        let sent = pair.now - pair.start;
        pair.filter =
            Box::new(
                move |d| {
                    if d.from_client || d.at > sent {
                        Action::Pass(d.ecn)
                    } else {
                        Action::Drop
                    }
                },
            );
        send(&mut pair, b"", true);
        assert!(pair.run(5_000, is_ended), "{algorithm:?}: the client waits for the end");
        // When everything is acknowledged, nothing is kept and nothing more is sent.
        pair.run(500, |_| false);
        let packets = pair.wire.len();
        pair.run(5_000, |_| false);
        assert_eq!(pair.wire.len(), packets, "{algorithm:?}");
    }
}
