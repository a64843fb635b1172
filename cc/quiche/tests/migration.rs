//! A new network path gets its own controller, and the transfer continues.

use crate::common;

use std::net::SocketAddr;

use common::{config, events, named, recorded, spare_ids, Action, Pair, CLIENT, MS, SERVER};
use fathom_cc::testing::Event;
use quiche::fathom::simulation;
use quiche::CongestionControlAlgorithm::{Bbr2Gcongestion, CUBIC};

const NEW: &str = "10.0.0.7:7000";

#[test]
fn migrated_client_restarts_its_controller_and_finishes() {
    let (algorithm, log) = recorded("sync");
    let mut pair =
        Pair::connected(&mut config(algorithm), &mut config(named("sync")), [20 * MS; 2]);
    spare_ids(&mut pair);
    pair.client.to_write.push((0, 400_000));
    assert!(pair.run(5_000, |pair| pair.server.read > 150_000));
    let (new, server): (SocketAddr, SocketAddr) = (NEW.parse().unwrap(), SERVER.parse().unwrap());
    let now = pair.now;
    simulation::run_at(now, &mut pair.client.rng, || pair.client.conn.migrate(new, server))
        .expect("a spare id");
    let window = |pair: &Pair, local: SocketAddr| {
        pair.client
            .conn
            .path_stats()
            .find(|p| p.local_addr == local)
            .map(|p| p.cwnd)
            .expect("a path")
    };
    let (old, fresh) = (window(&pair, CLIENT.parse().unwrap()), window(&pair, new));
    assert!(old > 2 * fresh, "the old path keeps its {old} bytes, the new one starts with {fresh}");
    // RFC 9002 §7.2: ten packets.
    assert!(fresh <= 14_720, "{fresh}");
    assert!(
        pair.run(20_000, |pair| pair.server.read == 400_000),
        "{:?} {:?}",
        pair.client.error,
        pair.server.error
    );
    assert!(window(&pair, new) > fresh, "it grows");
    let moved = pair.wire.iter().filter(|d| d.from_client && d.from == new).count();
    assert!(moved > 100, "{moved} packets on the new path");
    // Delays are measured again, from zero.
    let last = events(&log).into_iter().rev().find_map(|e| match e {
        Event::AckEvent { one_way: Some(delay), now, .. } => Some((delay, now)),
        _ => None,
    });
    let (delay, at) = last.expect("a delay");
    assert!(
        at.as_nanos() > (now - pair.start).as_nanos() as u64 && delay.as_nanos().abs() <= 50_000,
        "{delay:?}"
    );
}

#[test]
fn server_follows_a_nat_rebinding() {
    let (algorithm, log) = recorded("reno");
    let mut pair =
        Pair::connected(&mut config(named("fathom:reno")), &mut config(algorithm), [20 * MS; 2]);
    spare_ids(&mut pair);
    pair.server.to_write.push((1, 600_000));
    assert!(pair.run(5_000, |pair| pair.client.read > 200_000));
    let starts = |log: &fathom_cc::testing::Log| log.records().len();
    let before = starts(&log);
    // A NAT gives the client another port. Only the server sees it.
    pair.rebind = Some((CLIENT.parse().unwrap(), NEW.parse().unwrap()));
    assert!(
        pair.run(20_000, |pair| pair.client.read == 600_000),
        "{} {:?}",
        pair.client.read,
        pair.server.error
    );
    assert!(starts(&log) > before);
    let to: SocketAddr = NEW.parse().unwrap();
    assert!(pair.wire.iter().filter(|d| !d.from_client && d.to == to).count() > 100);
}

#[test]
fn data_sent_to_the_old_port_are_retransmitted() {
    for algorithm in [named("sync"), named("fathom:reno"), CUBIC, Bbr2Gcongestion] {
        let mut pair = Pair::connected(
            &mut config(named("fathom:reno")),
            &mut config(algorithm),
            [20 * MS; 2],
        );
        spare_ids(&mut pair);
        // Send one packet after the other.
        pair.rate = Some(1_250_000);
        pair.server.to_write.push((1, 400_000));
        // The first packets are acknowledged from another port, and all that follow them are lost,
        // because a NAT has forgotten the old port.
        assert!(pair.run(5_000, |pair| pair.client.read > 0), "{algorithm:?}");
        let (old, new): (SocketAddr, SocketAddr) = (CLIENT.parse().unwrap(), NEW.parse().unwrap());
        pair.rebind = Some((old, new));
        pair.lose_on_the_way_to(old);
        assert!(
            pair.run(20_000, |pair| pair.client.read == 400_000),
            "{algorithm:?}: {}",
            pair.client.read
        );
    }
}

#[test]
fn losses_on_the_old_path_do_not_affect_the_new_path() {
    let (algorithm, _) = recorded("reno");
    let mut pair =
        Pair::connected(&mut config(algorithm), &mut config(named("fathom:reno")), [20 * MS; 2]);
    spare_ids(&mut pair);
    pair.client.to_write.push((0, 300_000));
    assert!(pair.run(5_000, |pair| pair.server.read > 100_000));
    let old: SocketAddr = CLIENT.parse().unwrap();
    // The old path fails, with everything on it.
    pair.filter =
        Box::new(
            move |d| if d.from == old || d.to == old { Action::Drop } else { Action::Pass(d.ecn) },
        );
    let (new, server): (SocketAddr, SocketAddr) = (NEW.parse().unwrap(), SERVER.parse().unwrap());
    let now = pair.now;
    simulation::run_at(now, &mut pair.client.rng, || pair.client.conn.migrate(new, server))
        .expect("a spare id");
    assert!(pair.run(30_000, |pair| pair.server.read == 300_000), "{}", pair.server.read);
    let stats: Vec<_> = pair.client.conn.path_stats().collect();
    let lost = |local| stats.iter().find(|p| p.local_addr == local).map(|p| p.lost);
    assert_eq!(lost(new), Some(0), "{stats:?}");
}
