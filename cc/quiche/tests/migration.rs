//! Another network path gets a controller of its own, and the transfer goes on.

mod common;

use std::net::SocketAddr;

use common::{config, events, named, recorded, spare_ids, Fate, Rig, CLIENT, MS, SERVER};
use fathom_cc::testing::Event;
use quiche::fathom::simulation;
use quiche::CongestionControlAlgorithm::{Bbr2Gcongestion, CUBIC};

const NEW: &str = "10.0.0.7:7000";

#[test]
fn a_client_that_moves_starts_anew_and_finishes() {
    let (algorithm, log) = recorded("sync");
    let mut rig = Rig::connected(&mut config(algorithm), &mut config(named("sync")), [20 * MS; 2]);
    spare_ids(&mut rig);
    rig.client.to_write.push((0, 400_000));
    assert!(rig.run(5_000, |rig| rig.server.read > 150_000));
    let (new, server): (SocketAddr, SocketAddr) = (NEW.parse().unwrap(), SERVER.parse().unwrap());
    let now = rig.now;
    simulation::run_at(now, &mut rig.client.rng, || rig.client.conn.migrate(new, server)).expect("a spare id");
    let window = |rig: &Rig, local: SocketAddr| {
        rig.client.conn.path_stats().find(|p| p.local_addr == local).map(|p| p.cwnd).expect("a path")
    };
    let (old, fresh) = (window(&rig, CLIENT.parse().unwrap()), window(&rig, new));
    assert!(old > 2 * fresh, "the old path keeps its {old} bytes, the new one starts with {fresh}");
    // RFC 9002 §7.2: ten packets.
    assert!(fresh <= 14_720, "{fresh}");
    assert!(rig.run(20_000, |rig| rig.server.read == 400_000), "{:?} {:?}", rig.client.error, rig.server.error);
    assert!(window(&rig, new) > fresh, "it grows");
    let moved = rig.wire.iter().filter(|d| d.from_client && d.from == new).count();
    assert!(moved > 100, "{moved} packets on the new path");
    // Delays are measured again, from zero.
    let last = events(&log).into_iter().rev().find_map(|e| match e {
        Event::AckEvent { one_way: Some(delay), now, .. } => Some((delay, now)),
        _ => None,
    });
    let (delay, at) = last.expect("a delay");
    assert!(at.as_nanos() > (now - rig.start).as_nanos() as u64 && delay.as_nanos().abs() <= 50_000, "{delay:?}");
}

#[test]
fn a_server_follows_a_rebinding() {
    let (algorithm, log) = recorded("reno");
    let mut rig = Rig::connected(&mut config(named("fathom:reno")), &mut config(algorithm), [20 * MS; 2]);
    spare_ids(&mut rig);
    rig.server.to_write.push((1, 600_000));
    assert!(rig.run(5_000, |rig| rig.client.read > 200_000));
    let starts = |log: &fathom_cc::testing::Log| log.records().len();
    let before = starts(&log);
    // A NAT gives the client another port: the server sees it, the client does not.
    rig.rebind = Some((CLIENT.parse().unwrap(), NEW.parse().unwrap()));
    assert!(rig.run(20_000, |rig| rig.client.read == 600_000), "{} {:?}", rig.client.read, rig.server.error);
    assert!(starts(&log) > before);
    let to: SocketAddr = NEW.parse().unwrap();
    assert!(rig.wire.iter().filter(|d| !d.from_client && d.to == to).count() > 100);
}

#[test]
fn a_flight_to_the_old_port_is_sent_again() {
    for algorithm in [named("sync"), named("fathom:reno"), CUBIC, Bbr2Gcongestion] {
        let mut rig = Rig::connected(&mut config(named("fathom:reno")), &mut config(algorithm), [20 * MS; 2]);
        spare_ids(&mut rig);
        // One packet after the other.
        rig.rate = Some(1_250_000);
        rig.server.to_write.push((1, 400_000));
        // The first packets are acknowledged from another port, and all that follow them are lost: a NAT has forgotten the old one.
        assert!(rig.run(5_000, |rig| rig.client.read > 0), "{algorithm:?}");
        let (old, new): (SocketAddr, SocketAddr) = (CLIENT.parse().unwrap(), NEW.parse().unwrap());
        rig.rebind = Some((old, new));
        rig.lose_on_the_way_to(old);
        assert!(rig.run(20_000, |rig| rig.client.read == 400_000), "{algorithm:?}: {}", rig.client.read);
    }
}

#[test]
fn losses_on_the_old_path_are_its_own() {
    let (algorithm, _) = recorded("reno");
    let mut rig = Rig::connected(&mut config(algorithm), &mut config(named("fathom:reno")), [20 * MS; 2]);
    spare_ids(&mut rig);
    rig.client.to_write.push((0, 300_000));
    assert!(rig.run(5_000, |rig| rig.server.read > 100_000));
    let old: SocketAddr = CLIENT.parse().unwrap();
    // The old path dies with everything on it.
    rig.fate = Box::new(move |d| if d.from == old || d.to == old { Fate::Drop } else { Fate::Pass(d.ecn) });
    let (new, server): (SocketAddr, SocketAddr) = (NEW.parse().unwrap(), SERVER.parse().unwrap());
    let now = rig.now;
    simulation::run_at(now, &mut rig.client.rng, || rig.client.conn.migrate(new, server)).expect("a spare id");
    assert!(rig.run(30_000, |rig| rig.server.read == 300_000), "{}", rig.server.read);
    let stats: Vec<_> = rig.client.conn.path_stats().collect();
    let lost = |local| stats.iter().find(|p| p.local_addr == local).map(|p| p.lost);
    assert_eq!(lost(new), Some(0), "{stats:?}");
}
