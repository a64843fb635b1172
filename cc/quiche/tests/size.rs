//! Tests that packets with stream data have the size that a controller requests, that no other
//! packets are trimmed, and that no data starve.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::{config, named, record, Action, Pair, SimulatedClock, MS, MTU};
use fathom_cc::testing::Fixed;
use fathom_cc::SendParams;
use quiche::fathom::{ConnectionConfig, Extension, Offer};
use quiche::CongestionControlAlgorithm;

fn sized(size: u16) -> CongestionControlAlgorithm {
    record(Arc::new(Fixed::new(SendParams { datagram: Some(size), ..SendParams::window(60_000) })))
        .0
}

fn fixed(window: u64) -> CongestionControlAlgorithm {
    record(Arc::new(Fixed::new(SendParams::window(window)))).0
}

#[test]
fn data_packets_have_the_requested_size_and_handshakes_do_not() {
    for size in [256, 301, 576, 1_000, 1_200] {
        let mut pair = Pair::connected(
            &mut config(sized(size)),
            &mut config(named("fathom:reno")),
            [10 * MS; 2],
        );
        let first = &pair.wire[0];
        assert_eq!((first.from_client, first.bytes.len()), (true, MTU), "RFC 9000 §14.1");
        let from = pair.elapsed();
        pair.client.to_write.push((0, 200_000));
        assert!(
            pair.run(20_000, |pair| pair.server.read == 200_000),
            "{size}: {}",
            pair.server.read
        );
        let sizes: Vec<usize> = pair.shorts(from).map(|d| d.bytes.len()).collect();
        assert!(sizes.iter().all(|s| *s <= usize::from(size)), "{size}: {:?}", sizes.iter().max());
        let full = sizes.iter().filter(|s| **s == usize::from(size)).count();
        assert!(full * 10 > sizes.len() * 8, "{size}: only {full} of {} are full", sizes.len());
    }
}

#[test]
fn requested_size_too_small_for_data_is_raised() {
    let mut pair =
        Pair::connected(&mut config(sized(20)), &mut config(named("fathom:reno")), [10 * MS; 2]);
    let from = pair.elapsed();
    pair.client.to_write.push((0, 5_000));
    assert!(pair.run(5_000, |pair| pair.server.read == 5_000), "{}", pair.server.read);
    assert!(pair.shorts(from).all(|d| d.bytes.len() <= 128));
}

#[test]
fn requested_sizes_hold_in_both_directions_in_paper_mode() {
    let mut configs = [sized(200), sized(150)].map(|algorithm| {
        let mut config = config(algorithm);
        let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
        config.set_fathom(ConnectionConfig {
            extension,
            clock: Arc::new(SimulatedClock(0)),
            ..ConnectionConfig::default()
        });
        config
    });
    let [client, server] = &mut configs;
    let mut pair = Pair::connected(client, server, [10 * MS; 2]);
    pair.client.to_write.push((0, 100_000));
    pair.server.to_write.push((1, 100_000));
    let from = pair.elapsed();
    assert!(pair.run(20_000, |pair| pair.server.read == 100_000 && pair.client.read == 100_000));
    let most = |client: bool| {
        pair.wire
            .iter()
            .filter(|d| d.from_client == client && d.at >= from)
            .map(|d| d.bytes.len())
            .max()
    };
    assert!(most(true) <= Some(200) && most(false) <= Some(150), "{:?}", (most(true), most(false)));
}

/// Downloads while a third of the server's packets are lost, so that ACK frames have as many ranges
/// as quiche keeps and exceed 128 bytes. Returns the size of the client's largest packet.
fn lossy_download(pair: &mut Pair, upload: usize) -> usize {
    pair.filter = Box::new(|d| {
        if !d.from_client && d.is_short() && d.number % 3 == 0 {
            Action::Drop
        } else {
            Action::Pass(0)
        }
    });
    let from = pair.elapsed();
    pair.server.to_write.push((1, 2_000_000));
    // By then, the client has sent dozens of bare ACKs and owes the server a PING.
    pair.run(100, |_| false);
    pair.client.to_write.push((0, upload));
    let done = pair.run(60_000, |pair| pair.client.read == 2_000_000 && pair.server.read == upload);
    assert!(done, "{} and {}", pair.client.read, pair.server.read);
    let sizes = pair.shorts(from).map(|d| d.bytes.len()).max().unwrap_or(0);
    sizes
}

#[test]
fn acks_larger_than_the_requested_size_are_sent_without_looping() {
    // `flush` panics if one call of the application sends 20,000 packets.
    for upload in [10, 100_000] {
        let mut pair =
            Pair::connected(&mut config(sized(128)), &mut config(fixed(400_000)), [10 * MS; 2]);
        let largest = lossy_download(&mut pair, upload);
        assert!(largest > 128, "no ACK frame outgrew the size: {largest}");
    }
}

#[test]
fn window_without_room_for_a_stamped_ping_causes_no_loop() {
    let paper = |algorithm| {
        let mut config = config(algorithm);
        let extension = Extension { offer: Some(Offer::Paper), ..Extension::default() };
        config.set_fathom(ConnectionConfig {
            extension,
            clock: Arc::new(SimulatedClock(0)),
            ..ConnectionConfig::default()
        });
        config
    };
    for spare in 0..60 {
        let mut client = paper(fixed(3 * MTU as u64 + spare));
        let mut pair = Pair::connected(&mut client, &mut paper(fixed(200_000)), [10 * MS; 2]);
        // The client's window is full while it acknowledges 80 packets individually.
        pair.filter = Box::new(|d| {
            if d.from_client && d.bytes.len() > 200 {
                Action::Late(60 * MS)
            } else {
                Action::Pass(0)
            }
        });
        pair.client.to_write.push((0, 20_000));
        pair.server.to_write.push((1, 100_000));
        assert!(
            pair.run(10_000, |pair| pair.client.read == 100_000 && pair.server.read == 20_000),
            "{spare}"
        );
    }
}

#[test]
fn path_challenges_keep_their_full_size() {
    let mut pair = Pair::connected(&mut config(sized(256)), &mut config(sized(256)), [10 * MS; 2]);
    common::spare_ids(&mut pair);
    let from = pair.elapsed();
    let (here, there) = ("10.0.0.9:9".parse().unwrap(), common::SERVER.parse().unwrap());
    let now = pair.now;
    quiche::fathom::simulation::run_at(now, &mut pair.client.rng, || {
        pair.client.conn.probe_path(here, there)
    })
    .expect("a path");
    assert!(pair.run(1_000, |pair| pair.client.conn.is_path_validated(here, there) == Ok(true)));
    let probe = pair.shorts(from).find(|d| d.from == here).expect("a probe");
    assert!(probe.bytes.len() >= MTU, "RFC 9000 §8.2.1: {}", probe.bytes.len());
    let answer = pair.wire.iter().find(|d| d.at >= from && d.to == here).expect("an answer");
    assert!(answer.bytes.len() >= MTU, "RFC 9000 §8.2.2: {}", answer.bytes.len());
    pair.client.to_write.push((0, 50_000));
    assert!(pair.run(Duration::from_secs(10).as_millis() as u64, |pair| pair.server.read == 50_000));
}
