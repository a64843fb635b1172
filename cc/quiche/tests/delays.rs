//! Tests that one-way delays are exact in both modes, and absent if they are not negotiated.
//! Algorithms of stock quiche stay unchanged.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::{config, events, named, recorded, Pair, SimulatedClock, MS};
use fathom_cc::testing::{Event, Log};
use quiche::fathom::{
    ConnectionConfig, EnableTimestamp, Extension, InUse, Offer, ReceiveTimestamps, Report,
};
use quiche::{Config, CongestionControlAlgorithm};

const DELAYS: [Duration; 2] = [Duration::from_micros(7_123), Duration::from_micros(31_457)];

fn offering(algorithm: CongestionControlAlgorithm, offer: Option<Offer>, clock: u64) -> Config {
    extended(algorithm, Extension { offer, ..Extension::OFF }, clock)
}

/// Extension of a peer from another project.
const TIMESTAMP: Extension = Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF };

/// An extension with receive timestamps in ACK frames only.
const RECEIVE: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 32, exponent: 3 }),
    ..Extension::OFF
};

fn extended(algorithm: CongestionControlAlgorithm, extension: Extension, clock: u64) -> Config {
    let mut config = config(algorithm);
    config.set_fathom(ConnectionConfig {
        extension,
        clock: Arc::new(SimulatedClock(clock)),
        ..ConnectionConfig::default()
    });
    config
}

fn report(side: &common::Side) -> Report {
    side.conn.fathom().expect("the extension is in use").report()
}

/// Sends 300 kB from the client. Returns the pair and both sides' reports.
fn transfer(client: &mut Config, server: &mut Config) -> (Pair, [Report; 2]) {
    let mut pair = Pair::connected(client, server, DELAYS);
    pair.client.to_write.push((0, 300_000));
    assert!(pair.run(10_000, |pair| pair.server.read == 300_000), "{:?}", pair.server.error);
    pair.run(200, |_| false);
    assert_eq!((pair.client.error, pair.server.error), (None, None));
    let reports = [report(&pair.client), report(&pair.server)];
    (pair, reports)
}

/// Increases both directions' delays by `grown` in the middle of a connection. Returns the change
/// of the delay that each side reports, in nanoseconds.
fn change(client: &mut Config, server: &mut Config, grown: [Duration; 2]) -> [i64; 2] {
    let (mut pair, before) = transfer(client, server);
    for (delay, grown) in pair.delays.iter_mut().zip(grown) {
        *delay += grown;
    }
    pair.client.to_write.push((4, 40_000));
    pair.server.to_write.push((1, 40_000));
    assert!(pair.run(5_000, |pair| pair.server.read == 340_000 && pair.client.read == 40_000));
    pair.run(200, |_| false);
    let delay = |report: &Report| report.one_way.expect("a delay").as_nanos();
    let after = [report(&pair.client), report(&pair.server)];
    [delay(&after[0]) - delay(&before[0]), delay(&after[1]) - delay(&before[1])]
}

/// Stamps are in microseconds, ACK delays in units of 8 us (RFC 9000 §18.2: exponent 3). The
/// baseline adapts a little meanwhile.
fn is_close(found: i64, grown: Duration) {
    assert!(
        (found - grown.as_nanos() as i64).abs() <= 50_000,
        "found {found} ns, the path grew by {grown:?}"
    );
}

#[test]
fn sync_timestamps_measure_each_direction_in_all_modes() {
    let grown = [Duration::from_micros(9_321), Duration::from_micros(4_567)];
    let modes = [Offer::Lean, Offer::Paper];
    for (ours, theirs) in modes.into_iter().flat_map(|a| modes.map(|b| (a, b))) {
        let mut client = offering(named("fathom:reno"), Some(ours), 5_000_000_000);
        let mut server = offering(named("fathom:reno"), Some(theirs), 123_456_000);
        let found = change(&mut client, &mut server, grown);
        is_close(found[0], grown[0]);
        is_close(found[1], grown[1]);
    }
}

#[test]
fn timestamp_frames_measure_each_direction() {
    let grown = [Duration::from_micros(9_321), Duration::from_micros(4_567)];
    for (here, there) in [(3, 3), (0, 5), (5, 1)] {
        // The server supports both frames. The client supports only TIMESTAMP, like a peer from
        // another project.
        let mut client = extended(named("fathom:reno"), TIMESTAMP, 5_000_000_000);
        let mut server = extended(named("fathom:reno"), Extension::default(), 123_456_000);
        client.set_ack_delay_exponent(here);
        server.set_ack_delay_exponent(there);
        let found = change(&mut client, &mut server, grown);
        is_close(found[0], grown[0]);
        is_close(found[1], grown[1]);
    }
}

#[test]
fn receive_timestamps_measure_each_direction() {
    let grown = [Duration::from_micros(9_321), Duration::from_micros(4_567)];
    for (here, there) in [((32, 0), (32, 0)), ((1, 3), (9, 5)), ((1_000_000, 4), (2, 1))] {
        let side = |(max_per_ack, exponent), others, clock| {
            let receive_timestamps = Some(ReceiveTimestamps { max_per_ack, exponent });
            extended(named("fathom:reno"), Extension { receive_timestamps, ..others }, clock)
        };
        // The server supports all three frames, the client only this one.
        let mut client = side(here, Extension::OFF, 5_000_000_000);
        let mut server = side(there, Extension::default(), 123_456_000);
        let found = change(&mut client, &mut server, grown);
        is_close(found[0], grown[0]);
        is_close(found[1], grown[1]);
    }
}

#[test]
fn timestamps_are_sent_with_acks_and_sync_is_preferred() {
    let both = Extension::default();
    let every = Extension { receive_timestamps: RECEIVE.receive_timestamps, ..both };
    for (client, server, in_use) in [
        (TIMESTAMP, both, InUse::Timestamp),
        (both, TIMESTAMP, InUse::Timestamp),
        (both, both, InUse::Sync),
        (TIMESTAMP, Extension { timestamp: None, ..both }, InUse::None),
        (RECEIVE, RECEIVE, InUse::Receive),
        (RECEIVE, every, InUse::Receive),
        (every, TIMESTAMP, InUse::Timestamp),
        (every, every, InUse::Sync),
        (RECEIVE, both, InUse::None),
    ] {
        let (mut client, mut server) =
            (extended(named("sync"), client, 0), extended(named("sync"), server, 0));
        let (pair, [client, server]) = transfer(&mut client, &mut server);
        assert_eq!((client.in_use, server.in_use), (in_use, in_use));
        assert_eq!(
            (client.stamps_received, server.stamps_received),
            (server.stamps_sent, client.stamps_sent)
        );
        let (up, down) = (
            pair.shorts(Duration::ZERO).count() as u64,
            pair.wire.iter().filter(|d| !d.from_client).count() as u64,
        );
        let negotiated = in_use != InUse::None;
        assert_eq!((client.negotiated, server.negotiated), (negotiated, negotiated));
        assert!(
            client.stamps_sent < up / 10,
            "{} stamps in {up} packets: data carries none",
            client.stamps_sent
        );
        assert!(
            server.stamps_sent <= down && (server.stamps_sent > 50) == negotiated,
            "{} of {down}",
            server.stamps_sent
        );
        assert_eq!(
            (client.samples.samples > 50, client.samples.dropped_bound, client.samples.steps),
            (negotiated, 0, 0)
        );
    }
}

#[test]
fn timestamps_of_a_send_only_peer_are_read_and_not_answered() {
    // Like lsquic, and like picoquic's answer to a peer that only reads.
    let sends = Extension { timestamp: Some(EnableTimestamp::Sends), ..Extension::OFF };
    let mut client = config(named("sync"));
    let mut server = extended(CongestionControlAlgorithm::CUBIC, sends, 0);
    let (_, [client, server]) = transfer(&mut client, &mut server);
    assert!(server.stamps_sent > 50 && server.controller.is_none(), "{server:?}");
    assert_eq!((server.stamps_received, client.stamps_sent), (0, 0));
    assert!(client.samples.samples > 50 && !server.negotiated, "{client:?}");
}

/// Checks that no one-way delay given to a controller exceeds what the round trip allows; `stamp`
/// is the frame that the peer wrote.
fn assert_within_round_trips(log: &Log, stamp: &[u8]) {
    let mut least = Duration::MAX;
    for event in events(log) {
        let Event::AckEvent { one_way, rtt, .. } = event else { continue };
        least = least.min(rtt.latest);
        let Some(one_way) = one_way else { continue };
        // The bound includes queueing in both directions, the error of each sample, and undetected
        // clock drift.
        let room = (rtt.latest - least).as_nanos() as i64 + 5_000_000;
        assert!(one_way.as_nanos() <= room, "{one_way:?} of {room} ns for {stamp:x?}");
    }
}

#[test]
fn impossible_timestamps_never_give_a_delay_above_the_rtt() {
    // The frames have the largest value that fits into the room, the smallest value, and the same
    // value repeatedly.
    let absurd: [&[u8]; 3] = [
        &[0x42, 0xf5, 0xbf, 0xff, 0xff, 0xff],
        &[0x42, 0xf5, 0x00],
        &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24],
    ];
    for stamp in absurd {
        let mut liar = config(named("fathom:reno"));
        let clock = Arc::new(SimulatedClock(0));
        liar.set_fathom(ConnectionConfig {
            stamp: Some(stamp.into()),
            extension: TIMESTAMP,
            clock,
            ..ConnectionConfig::default()
        });
        let (algorithm, log) = recorded("sync");
        let (_, [client, _]) = transfer(&mut config(algorithm), &mut liar);
        assert_eq!(client.stamps_received > 50, stamp.len() > 3, "{client:?}");
        assert_within_round_trips(&log, stamp);
    }
}

#[test]
fn impossible_receive_times_never_give_a_delay_above_the_rtt() {
    // The frames have the same time repeatedly, the largest time, a time close to the epoch, or no
    // time. All times are for the largest packet.
    let absurd: [&[u8]; 4] = [
        &[1, 0, 1, 0x80, 0x00, 0xf4, 0x24],
        &[1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[1, 0, 1, 0x3f],
        &[0],
    ];
    for stamp in absurd {
        let mut liar = config(named("fathom:reno"));
        let clock = Arc::new(SimulatedClock(0));
        let (raw, extension) = (Some(stamp.into()), RECEIVE);
        liar.set_fathom(ConnectionConfig {
            stamp: raw,
            extension,
            clock,
            ..ConnectionConfig::default()
        });
        let (algorithm, log) = recorded("sync");
        let (_, [client, _]) = transfer(&mut extended(algorithm, RECEIVE, 0), &mut liar);
        assert!(client.samples.samples + client.samples.dropped_bound <= client.acks, "{client:?}");
        assert_within_round_trips(&log, stamp);
    }
}

#[test]
fn lean_mode_stamps_only_packets_with_acks() {
    let (mut client, mut server) = (config(named("sync")), config(named("sync")));
    let (pair, [client, server]) = transfer(&mut client, &mut server);
    let (up, down) = (
        pair.shorts(Duration::ZERO).count() as u64,
        pair.wire.iter().filter(|d| !d.from_client).count() as u64,
    );
    assert!(up > 250, "300 kB take 250 packets of 1200 bytes at least: {up}");
    assert!(
        client.stamps_sent < up / 10,
        "{} stamps in {up} packets: data carries none",
        client.stamps_sent
    );
    assert!(
        server.stamps_sent > 50 && server.stamps_sent <= down,
        "{} of {down}",
        server.stamps_sent
    );
    assert_eq!(
        (client.stamps_received, server.stamps_received),
        (server.stamps_sent, client.stamps_sent)
    );
}

#[test]
fn paper_mode_stamps_and_echoes_every_packet() {
    let mut client = offering(named("sync"), Some(Offer::Paper), 0);
    let mut server = offering(named("sync"), Some(Offer::Paper), 0);
    let (pair, [client, server]) = transfer(&mut client, &mut server);
    let shorts = pair.shorts(Duration::ZERO).count() as u64;
    // Handshake datagrams may also have carried a 1-RTT packet behind other packets.
    assert!(
        (shorts..shorts + 4).contains(&client.stamps_sent),
        "{} stamps in {shorts} packets",
        client.stamps_sent
    );
    assert_eq!(
        (client.stamps_received, server.stamps_received),
        (server.stamps_sent, client.stamps_sent)
    );
}

#[test]
fn one_way_delays_reach_the_controller_with_their_ack() {
    let (algorithm, log) = recorded("sync");
    let mut client = config(algorithm);
    let mut server = config(named("sync"));
    transfer(&mut client, &mut server);
    let delays: Vec<_> = events(&log)
        .into_iter()
        .filter_map(|e| if let Event::AckEvent { one_way, .. } = e { one_way } else { None })
        .collect();
    assert!(delays.len() > 50, "{}", delays.len());
    // Without a queue, and with clocks that differ only by when each connection began, all delays
    // are equal.
    let (least, most) =
        (delays.iter().min().unwrap().as_nanos(), delays.iter().max().unwrap().as_nanos());
    assert!(most - least <= 10_000, "{least}..{most} ns on a path without a queue");
}

#[test]
fn stock_algorithms_do_not_use_the_extension() {
    let mut server = config(CongestionControlAlgorithm::CUBIC);
    server.enable_track_unknown_transport_parameters(1_000);
    for (algorithm, offers) in [(CongestionControlAlgorithm::Reno, 0), (named("fathom:reno"), 2)] {
        let mut client = config(algorithm);
        let mut pair = Pair::connected(&mut client, &mut server, DELAYS);
        pair.client.to_write.push((0, 100_000));
        assert!(pair.run(5_000, |pair| pair.server.read == 100_000));
        assert!(pair.server.conn.fathom().is_none());
        let unknown =
            pair.server.conn.peer_transport_params().expect("they came").unknown_params.clone();
        let ours = unknown
            .expect("tracked")
            .into_iter()
            .filter(|p| [0x3dcf_82ec, 0x7158].contains(&p.id))
            .count();
        assert_eq!(ours, offers, "{algorithm:?}");
        if let Some(probe) = pair.client.conn.fathom() {
            let report = probe.report();
            assert_eq!(
                (report.negotiated, report.stamps_sent, report.stamps_received),
                (false, 0, 0)
            );
        }
    }
}

#[test]
fn stock_algorithms_send_timestamps_if_configured() {
    let mut client = config(named("sync"));
    let mut server = offering(CongestionControlAlgorithm::CUBIC, Some(Offer::Sends), 0);
    let (_, [client, server]) = transfer(&mut client, &mut server);
    assert!(server.stamps_sent > 50 && server.controller.is_none(), "{server:?}");
    assert_eq!((server.stamps_received, client.stamps_sent), (0, 0));
    assert!(client.samples.samples > 50, "{client:?}");
}

#[test]
fn malformed_extension_parameter_fails_the_handshake() {
    let parameters: [&[u8]; 9] = [
        // This parameter has an exponent of 21 beside a maximum of 9.
        &[0x80, 0x04, 0xac, 0x07, 1, 9, 0x80, 0x04, 0xac, 0x26, 1, 21],
        &[0xbd, 0xcf, 0x82, 0xec, 1, 9],
        &[0xbd, 0xcf, 0x82, 0xec, 2, 3, 0],
        &[0xbd, 0xcf, 0x82, 0xec, 0],
        &[0xbd, 0xcf, 0x82, 0xec, 1, 0x40],
        &[0x80, 0x00, 0x71, 0x58, 1, 0],
        &[0x80, 0x00, 0x71, 0x58, 1, 4],
        &[0x80, 0x00, 0x71, 0x58, 2, 3, 0],
        &[0x80, 0x00, 0x71, 0x58, 0],
    ];
    let every =
        Extension { receive_timestamps: RECEIVE.receive_timestamps, ..Extension::default() };
    for raw in parameters {
        let mut client = config(named("sync"));
        client.set_fathom(ConnectionConfig {
            parameter: Some(raw.into()),
            clock: Arc::new(SimulatedClock(0)),
            ..ConnectionConfig::default()
        });
        let mut pair = Pair::new(&mut client, &mut extended(named("sync"), every, 0), [5 * MS; 2]);
        pair.run(2_000, |_| false);
        assert!(!pair.server.conn.is_established(), "{raw:?}");
        let error = pair.server.conn.local_error().map(|e| (e.is_app, e.error_code));
        assert_eq!(error, Some((false, 8)), "TRANSPORT_PARAMETER_ERROR for {raw:?}");
    }
}

#[test]
fn peer_without_the_extension_is_served() {
    let mut server = config(CongestionControlAlgorithm::CUBIC);
    let mut pair = Pair::connected(&mut config(named("sync")), &mut server, DELAYS);
    pair.client.to_write.push((0, 300_000));
    assert!(pair.run(10_000, |pair| pair.server.read == 300_000), "{:?}", pair.client.error);
    let report = report(&pair.client);
    assert!(
        !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
        "{report:?}"
    );
    assert!(report.one_way.is_none() && pair.server.conn.fathom().is_none());
}
