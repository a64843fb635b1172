//! Tests that packets with data leave at the pacing rate, and that nothing else is paced.

use crate::common;

use std::time::Duration;

use common::{config, named, record, Action, Datagram, Pair, MS};
use fathom_cc::testing::Fixed;
use fathom_cc::{Pacing, Rate, SendParams};
use quiche::fathom::simulation::ConnectionRng;

/// 1200 bytes every millisecond.
const RATE: u64 = 1_200_000;

fn paced(window: u64, rate: u64) -> Fixed {
    Fixed::new(SendParams {
        pacing: Pacing::Rate(Rate::from_bytes_per_sec(rate)),
        ..SendParams::window(window)
    })
}

fn pair(controller: Fixed) -> Pair {
    let mut client = config(record(std::sync::Arc::new(controller)).0);
    let mut server = config(named("fathom:reno"));
    Pair::connected(&mut client, &mut server, [20 * MS; 2])
}

fn bytes<'a>(packets: impl IntoIterator<Item = &'a Datagram>) -> u64 {
    packets.into_iter().map(|d| d.bytes.len() as u64).sum()
}

/// Checks that no interval of the client's packets exceeds the rate by more than `ahead` bytes.
fn never_ahead(pair: &Pair, from: Duration, ahead: u64) {
    let (mut most, mut floor, mut sum) = (0.0_f64, f64::MAX, 0);
    // Bare acknowledgements (for the server's PINGs) do not wait and are not counted.
    for packet in pair.shorts(from).filter(|d| d.bytes.len() > 100) {
        let due = RATE as f64 * packet.at.as_secs_f64();
        floor = floor.min(sum as f64 - due);
        sum += packet.bytes.len() as u64;
        most = most.max(sum as f64 - due - floor);
    }
    assert!(most <= ahead as f64, "{most} bytes at once");
}

#[test]
fn quiche_paces_packets_with_one_wake_up_each() {
    let mut pair = pair(paced(1 << 20, RATE));
    let from = pair.elapsed();
    let before = pair.client.wakeups;
    pair.client.to_write.push((0, 10_000_000));
    pair.run(2_000, |_| false);
    let sent = bytes(pair.shorts(from));
    assert!((2_376_000..=2_424_000).contains(&sent), "{sent} bytes in 2 s at 1.2 MB/s");
    // The sender may send at once the packet itself and the packets of 2 ms.
    never_ahead(&pair, from, 1_200 + 2 * 1_200 + 10);
    let (packets, wakeups) = (pair.shorts(from).count(), pair.client.wakeups - before);
    assert!(wakeups <= packets + 5, "{wakeups} wake-ups for {packets} packets");
}

#[test]
fn coarse_timers_keep_the_average_pacing_rate() {
    let mut pair = pair(paced(1 << 20, RATE));
    let from = pair.elapsed();
    pair.grain = Duration::from_micros(1_700);
    pair.client.to_write.push((0, 10_000_000));
    pair.run(2_000, |_| false);
    let sent = bytes(pair.shorts(from));
    assert!((2_376_000..=2_424_000).contains(&sent), "{sent} bytes in 2 s at 1.2 MB/s");
    never_ahead(&pair, from, 1_200 + 2 * 1_200 + 10);
}

#[test]
fn paced_packet_has_a_timer_even_when_overdue() {
    // In real time, some time passes between `send` and `timeout`.
    let mut pair = pair(paced(1 << 20, RATE));
    pair.client.to_write.push((0, 100_000));
    pair.flush();
    let later = pair.now + 10 * MS;
    let ask = |conn: &quiche::Connection, at| {
        quiche::fathom::simulation::run_at(at, &mut ConnectionRng::new(1), || conn.timeout())
    };
    assert!(ask(&pair.client.conn, pair.now)
        .is_some_and(|wait| wait > Duration::ZERO && wait <= 2 * MS));
    assert_eq!(ask(&pair.client.conn, later), Some(Duration::ZERO));
    // After the packet has left, its timer is gone.
    pair.now = later;
    pair.flush();
    assert!(ask(&pair.client.conn, later).is_some_and(|wait| wait > Duration::ZERO));
}

#[test]
fn data_waiting_for_pacing_are_bounded_by_the_window() {
    let window = 100_000;
    let mut pair = pair(paced(window, RATE));
    let from = pair.elapsed();
    pair.client.to_write.push((0, 10_000_000));
    let mut most = 0;
    pair.run(3_000, |pair| {
        let sent = bytes(pair.shorts(from)) as usize;
        most = most.max(pair.client.written().saturating_sub(sent));
        false
    });
    assert!(most as u64 <= window, "{most} bytes wait behind a window of {window}");
    // The window lasts for 83 ms at this rate, so the sender never ran out of data.
    let sent = bytes(pair.shorts(from));
    assert!((3_564_000..=3_636_000).contains(&sent), "{sent} bytes in 3 s at 1.2 MB/s");
}

#[test]
fn pacing_timer_stops_after_a_transfer() {
    let mut pair = pair(paced(60_000, RATE));
    pair.client.to_write.push((0, 600_000));
    // The transfer takes 500 ms at the rate, 20 ms for the path, and the time for headers.
    assert!(pair.run(560, |pair| pair.server.read == 600_000));
    pair.run(500, |_| false);
    let before = pair.client.wakeups;
    pair.run(5_000, |_| false);
    assert!(
        pair.client.wakeups - before <= 2,
        "{} wake-ups of an idle connection",
        pair.client.wakeups - before
    );
}

#[test]
fn bare_acks_are_not_paced() {
    // At its pace, the client sends one packet every 120 ms.
    let mut pair = pair(paced(1 << 20, 10_000));
    pair.client.to_write.push((0, 50_000));
    pair.server.to_write.push((1, 400_000));
    pair.run(50, |_| false);
    let from = pair.elapsed();
    assert!(pair.run(2_000, |pair| pair.client.read == 400_000), "{}", pair.client.read);
    // Reno's windows of 12 kB, 24 kB, 48 kB, ... need about six round trips of 40 ms. Delayed ACKs
    // would take seconds.
    assert!(pair.elapsed() - from < 400 * MS, "{:?}", pair.elapsed() - from);
}

#[test]
fn loss_probes_are_not_paced() {
    // The rate is 1200 bytes every 1.2 s.
    let mut pair = pair(paced(1 << 20, 1_000));
    pair.run(5_000, |_| false);
    pair.filter = Box::new(|d| if d.from_client { Action::Drop } else { Action::Pass(0) });
    let from = pair.elapsed();
    pair.client.to_write.push((0, 50_000));
    pair.run(1_000, |_| false);
    let times: Vec<_> = pair.shorts(from).map(|d| d.at - from).collect();
    // RFC 9002 §6.2.1: 40 ms + 4 * variation + 25 ms after the first packet, then twice that. There
    // are two probes each time except the first.
    assert!(times.len() >= 4 && times[1] < 200 * MS, "{times:?}");
}

#[test]
fn probe_sent_ahead_of_its_pace_delays_later_packets() {
    let mut pair = pair(paced(1 << 20, 12_000));
    let from = pair.elapsed();
    pair.filter = Box::new(move |d| {
        if d.from_client && d.at < from + 3_000 * MS {
            Action::Drop
        } else {
            Action::Pass(0)
        }
    });
    pair.client.to_write.push((0, 200_000));
    pair.run(10_000, |_| false);
    let sent = bytes(pair.shorts(from).filter(|d| d.bytes.len() > 100));
    // At most 10 s at 12 kB/s, plus one packet, may be sent. This bound includes the probes.
    assert!((118_800..=121_300).contains(&sent), "{sent}");
}

#[test]
fn connection_close_is_not_paced() {
    let mut pair = pair(paced(1 << 20, 1_000));
    pair.client.to_write.push((0, 50_000));
    pair.run(5, |_| false);
    let from = pair.elapsed();
    let now = pair.now;
    quiche::fathom::simulation::run_at(now, &mut pair.client.rng, || {
        pair.client.conn.close(true, 7, b"done")
    })
    .expect("closed");
    pair.run(30, |_| false);
    assert!(pair.shorts(from).next().is_some_and(|d| d.at == from));
    assert_eq!(pair.server.conn.peer_error().map(|e| e.error_code), Some(7));
}

#[test]
fn paced_control_frames_have_a_timer() {
    // A small packet takes about 100 ms at this pace, so the PING behind it waits beyond the
    // acknowledgement.
    let mut pair = pair(paced(1 << 20, 1_000));
    pair.run(5_000, |_| false);
    pair.client.to_write.push((0, 60));
    pair.flush();
    let (now, from) = (pair.now, pair.elapsed());
    quiche::fathom::simulation::run_at(now, &mut pair.client.rng, || {
        pair.client.conn.send_ack_eliciting()
    })
    .expect("established");
    pair.run(1_000, |pair| pair.shorts(from).count() == 2);
    let times: Vec<_> = pair.shorts(from).map(|d| (d.at - from, d.bytes.len())).collect();
    // The packet's bytes at one per millisecond, less the 2 ms that an idle sender may catch up.
    let due = Duration::from_millis(times[0].1 as u64 - 2);
    assert_eq!(times.get(1).map(|t| t.0), Some(due), "{times:?}");
}

#[test]
fn pacing_rate_of_zero_does_not_panic() {
    let mut client = config(record(std::sync::Arc::new(paced(1 << 20, 0))).0);
    let mut pair = Pair::new(&mut client, &mut config(named("fathom:reno")), [20 * MS; 2]);
    pair.run(2_000, |_| false);
    assert!(pair.client.conn.is_established(), "the handshake is not paced");
    let wakeups = pair.client.wakeups;
    pair.client.to_write.push((0, 100_000));
    pair.run(10_000, |_| false);
    assert!(pair.client.wakeups - wakeups < 20, "{}", pair.client.wakeups);
}

#[test]
fn send_delay_lengthens_the_round_trip() {
    // The sender sends 50 kB every 40 ms + 60 ms, which is 500 kB/s.
    let held =
        Fixed::new(SendParams { pacing: Pacing::Delay(60 * MS), ..SendParams::window(50_000) });
    let mut pair = pair(held);
    pair.client.to_write.push((0, 10_000_000));
    pair.run(1_000, |_| false);
    let from = pair.elapsed();
    pair.run(4_000, |_| false);
    let sent = bytes(pair.shorts(from));
    assert!((1_980_000..=2_020_000).contains(&sent), "{sent} bytes in 4 s at 500 kB/s");
}
