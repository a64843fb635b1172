//! Tests of one-way delays with real quinn, TLS and frames, over emulated links whose true delay is
//! known.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::catalogue;
use fathom_cc::testing::{Event, Log, RecordingConfig};
use fathom_cc::{OneWayDelay, Rate, Time};
use fathom_experiments::http::Identity;
use fathom_experiments::stack::HostClock;
use fathom_netsim::link::Link;
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::sim::{
    Executor, Group, GroupId, Hop, LinkId, Path, SimHandle, SimSocket, server_address,
};
use fathom_quinn::{
    ClientPlugin, EnableTimestamp, Extension, InUse, Offer, Plugin, ReceiveTimestamps, Report,
    ServerPlugin,
};
use parking_lot::Mutex;
use quinn::{ConnectionError, Endpoint, EndpointConfig, TransportConfig, VarInt};

const LEAN: Extension = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
const PAPER: Extension = Extension { offer: Some(Offer::Paper), ..Extension::OFF };
/// A peer of another project, which supports only the `TIMESTAMP` frame.
const TIMESTAMP: Extension = Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF };

/// Extensions with receive timestamps in ACK frames only. `RECEIVE` reports one packet per frame,
/// which is usual, and `RECEIVE_ALL` reports all packets.
const RECEIVE: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 1, exponent: 3 }),
    ..Extension::OFF
};
const RECEIVE_ALL: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }),
    ..Extension::OFF
};

/// Parameters of a test.
#[derive(Clone)]
struct Setup {
    offer: Extension,
    client_offer: Extension,
    /// Raw bytes that the client sends in place of its frames.
    client_stamp: Option<&'static [u8]>,
    server: &'static str,
    client: &'static str,
    client_clock: (u64, i64),
    /// Number of chunks that the server sends, the size of a chunk in bytes, and the gap between
    /// chunks.
    chunks: (u32, usize, Duration),
    /// Receive window of the client in bytes. It bounds the queue, so that no packet is lost.
    window: u32,
    /// Size in bytes of competing bursts, one of which is sent every second.
    burst: usize,
    /// Time at which the reverse path becomes longer, and the added delay.
    longer_back: Option<(Time, Duration)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            offer: LEAN,
            client_offer: LEAN,
            client_stamp: None,
            server: "sync:signal=either",
            client: "reno",
            client_clock: (0, 0),
            chunks: (1, 2_000_000, Duration::ZERO),
            window: 60_000,
            burst: 0,
            longer_back: None,
        }
    }
}

/// A sample as the controller received it.
#[derive(Clone, Copy, Debug)]
struct Reported {
    /// Arrival time of the ACK frame.
    at: Time,
    /// Departure time of the acknowledged packet.
    sent: Time,
    /// Index of the packet among the packets that left at that instant.
    index: usize,
    rtt: Duration,
    one_way: OneWayDelay,
}

struct Outcome {
    reported: Vec<Reported>,
    /// True delays of the packets that entered the link at a time, in order.
    truth: HashMap<Time, Vec<Duration>>,
    report: Option<Report>,
    client: Result<usize, ConnectionError>,
    server: Option<ConnectionError>,
}

const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
const ONE_WAY: Duration = Duration::from_millis(20);

fn endpoint(
    sim: &SimHandle,
    socket: SimSocket,
    server: Option<&ServerPlugin>,
    seed: u8,
) -> Endpoint {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[seed; 32]);
    let mut config = EndpointConfig::new(Arc::new(key));
    config.rng_seed(Some([seed; 32]));
    let server = server.map(ServerPlugin::config);
    Endpoint::new_with_abstract_socket(config, server, Arc::new(socket), Arc::new(sim.clone()))
        .expect("an endpoint")
}

fn transport(window: u32) -> TransportConfig {
    let mut t = TransportConfig::default();
    t.initial_mtu(1392).mtu_discovery_config(None).stream_receive_window(VarInt::from_u32(window));
    t
}

fn group(
    client: fathom_netsim::sim::SocketId,
    server: fathom_netsim::sim::SocketId,
    link: LinkId,
    back: Duration,
) -> Group {
    Group {
        client,
        server,
        down: Path { hops: vec![Hop { delay: Duration::ZERO, link }], tail: ONE_WAY },
        up: Path { hops: Vec::new(), tail: back },
    }
}

fn run(setup: &Setup) -> Outcome {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let identity = Identity::generate().expect("an identity");
    let log = Log::new(1_000_000);
    let recorded =
        RecordingConfig::new(catalogue::parse(setup.server).expect("a controller"), log.clone());
    let plugin = |p: Plugin, extension| p.with_extension(extension).expect("a plug-in");
    let server = plugin(
        Plugin::new(Arc::new(recorded)).expect("a plug-in").with_clock(Arc::new(HostClock {
            sim: sim.clone(),
            offset: 0,
            drift: 0,
        })),
        setup.offer,
    )
    .server(identity.server)
    .expect("a server");
    let (offset, ppm) = setup.client_clock;
    let clock = Arc::new(HostClock { sim: sim.clone(), offset, drift: ppm });
    let client = plugin(
        Plugin::named(setup.client).expect("a plug-in").with_clock(clock),
        setup.client_offer,
    );
    let client = match setup.client_stamp {
        Some(bytes) => client.with_raw_stamp(bytes),
        None => client,
    };
    let client = client.client(identity.client).expect("a client");

    let (client_socket, server_socket) = (sim.client_socket(), sim.server_socket());
    let (client_id, server_id) = (client_socket.id(), server_socket.id());
    let link = sim
        .add_link(Link::new(RATE, QueueSpec::droptail_packets(10_000).build(RATE, 0)).with_log());
    let group_id = sim.add_group(group(client_id, server_id, link, ONE_WAY));
    if let Some((at, more)) = setup.longer_back {
        let (w, longer) = (sim.clone(), group(client_id, server_id, link, ONE_WAY + more));
        sim.spawn(async move {
            w.sleep_until(at).await;
            w.set_group(group_id, longer);
        });
    }
    let ends =
        (endpoint(&sim, client_socket, None, 1), endpoint(&sim, server_socket, Some(&server), 2));
    let accepted = Arc::new(Mutex::new(None));
    let served = Arc::new(Mutex::new((None, None)));
    sim.spawn(serve(
        sim.clone(),
        ends.1,
        server,
        setup.clone(),
        Arc::clone(&accepted),
        Arc::clone(&served),
    ));
    let result = Arc::new(Mutex::new(None));
    sim.spawn(fetch(sim.clone(), ends.0, client, setup.clone(), group_id, Arc::clone(&result)));
    executor.run(Time::from_millis(200_000));

    let start = accepted.lock().unwrap_or(Time::ZERO);
    let mut truth: HashMap<Time, Vec<Duration>> = HashMap::new();
    for fathom_netsim::link::Logged { arrived: at, delay, .. } in sim.link_log(link) {
        truth.entry(at).or_default().push(delay);
    }
    let client = result.lock().take().expect("the client ended");
    let (report, server) = served.lock().clone();
    Outcome { reported: reported(&log, start), truth, report, client, server }
}

type Served = Arc<Mutex<(Option<Report>, Option<ConnectionError>)>>;

/// Serves the one connection: sends chunks on a stream, and bursts on streams of their own.
async fn serve(
    sim: SimHandle,
    endpoint: Endpoint,
    plugin: ServerPlugin,
    setup: Setup,
    accepted: Arc<Mutex<Option<Time>>>,
    served: Served,
) {
    let incoming = endpoint.accept().await.expect("a client");
    *accepted.lock() = Some(sim.time());
    let wired = match plugin.accept(incoming, transport(setup.window)) {
        Ok((connecting, probe)) => connecting.await.map(|connection| (connection, probe)),
        Err(e) => Err(e),
    };
    let (connection, probe) = match wired {
        Ok(wired) => wired,
        Err(e) => {
            served.lock().1 = Some(e);
            return;
        }
    };
    let (count, bytes, gap) = setup.chunks;
    let bursts = sim.clone();
    if setup.burst > 0 {
        let connection = connection.clone();
        sim.spawn(async move {
            // Each burst has a stream of its own in the same connection. The queue rises and falls
            // as far as the window allows.
            while let Ok(mut stream) = connection.open_uni().await {
                if stream.write_all(&vec![1; setup.burst]).await.is_err() {
                    return;
                }
                let _ = stream.finish();
                bursts.sleep_until(bursts.time() + Duration::from_secs(1)).await;
            }
        });
    }
    let (mut send, _recv) = connection.accept_bi().await.expect("a stream");
    for _ in 0..count {
        send.write_all(&vec![0; bytes]).await.expect("written");
        sim.sleep_until(sim.time() + gap).await;
    }
    send.finish().expect("open");
    connection.closed().await;
    served.lock().0 = Some(probe.report());
    drop(endpoint);
}

async fn fetch(
    sim: SimHandle,
    endpoint: Endpoint,
    plugin: ClientPlugin,
    setup: Setup,
    group: GroupId,
    result: Arc<Mutex<Option<Result<usize, ConnectionError>>>>,
) {
    let flow = sim.add_flow(group);
    let (connecting, _probe) = plugin
        .connect(&endpoint, transport(setup.window), server_address(flow), "lab.test")
        .expect("begun");
    let outcome = async {
        let connection = connecting.await?;
        let drain = connection.clone();
        sim.spawn(async move {
            while let Ok(mut stream) = drain.accept_uni().await {
                let _ = stream.read_to_end(usize::MAX).await;
            }
        });
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(b"go").await.map_err(|_| ConnectionError::Reset)?;
        let read = recv.read_to_end(usize::MAX).await;
        let error = connection.close_reason();
        connection.close(0u32.into(), b"");
        match read {
            Ok(bytes) => Ok(bytes.len()),
            Err(_) => Err(error.unwrap_or(ConnectionError::Reset)),
        }
    };
    let outcome = outcome.await;
    *result.lock() = Some(outcome);
}

/// Returns every sample that the controller received, in simulated time, with the index of its
/// packet among the packets that left at the same instant.
fn reported(log: &Log, start: Time) -> Vec<Reported> {
    let mut left: HashMap<Time, usize> = HashMap::new();
    let mut samples = Vec::new();
    for record in log.records() {
        let Event::AckEvent { now, packets, rtt, one_way, .. } = record.event else { continue };
        for p in &packets {
            *left.entry(p.sent).or_default() += 1;
        }
        let Some(sent) = packets.iter().map(|p| p.sent).max() else { continue };
        if let Some(one_way) = one_way {
            let sim = |t: Time| Time::from_nanos(start.as_nanos() + t.as_nanos());
            samples.push(Reported {
                at: sim(now),
                sent: sim(sent),
                index: left[&sent] - 1,
                rtt: rtt.latest,
                one_way,
            });
        }
    }
    samples
}

/// Returns the absolute errors, in microseconds, of the estimated queueing delay (height above the
/// smallest sample) against the link's true delay above its own minimum.
///
/// Controllers receive acknowledgements of data only. Occasionally the largest packet of an ACK
/// frame is a pure ACK that the sender sent later, and the delay is that of the pure ACK. Such a
/// sample is paired with the pure ACK. Few samples may be paired with a pure ACK.
fn errors(o: &Outcome, from: Time) -> Vec<f64> {
    let pairs: Vec<(Reported, Duration)> = o
        .reported
        .iter()
        .filter(|h| h.sent >= from)
        .filter_map(|h| Some((*h, *o.truth.get(&h.sent)?.get(h.index)?)))
        .collect();
    let base = pairs.iter().map(|p| p.0.one_way).min().expect("samples");
    let least = o.truth.values().flatten().min().expect("packets");
    let error = |reported: OneWayDelay, truth: Duration| {
        (reported.above(base).as_secs_f64() - truth.saturating_sub(*least).as_secs_f64()).abs()
            * 1e6
    };
    let mut of_pure_acks = 0;
    let errors = pairs
        .iter()
        .map(|(h, truth)| {
            let own = error(h.one_way, *truth);
            let later =
                o.truth.iter().filter(|(at, _)| **at > h.sent && **at + ONE_WAY * 2 <= h.at);
            let best = later
                .flat_map(|(_, delays)| delays)
                .map(|t| error(h.one_way, *t))
                .fold(own, f64::min);
            if own > 2_000.0 && best < 1_000.0 {
                of_pure_acks += 1;
                return best;
            }
            own
        })
        .collect();
    assert!(
        of_pure_acks * 25 < pairs.len(),
        "{of_pure_acks} of {} samples are of other packets",
        pairs.len()
    );
    errors
}

/// Prints the mean, 95th percentile and maximum, and returns them.
fn summary(name: impl Debug, mut errors: Vec<f64>) -> (f64, f64, f64) {
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let (p95, max) = (errors[errors.len() * 95 / 100], errors[errors.len() - 1]);
    println!(
        "{name:?}: {} samples, error mean {mean:.0} us, p95 {p95:.0} us, max {max:.0} us",
        errors.len()
    );
    (mean, p95, max)
}

#[test]
fn longer_reverse_path_changes_only_the_rtt() {
    for offer in [LEAN, PAPER, TIMESTAMP, RECEIVE] {
        let change = Time::from_millis(4_000);
        let o = run(&Setup {
            offer,
            client_offer: match offer {
                TIMESTAMP => Extension::default(),
                RECEIVE => Extension {
                    receive_timestamps: RECEIVE.receive_timestamps,
                    ..Extension::default()
                },
                _ => LEAN,
            },
            chunks: (160, 3_000, Duration::from_millis(50)),
            longer_back: Some((change, Duration::from_millis(50))),
            ..Setup::default()
        });
        assert_eq!(o.client.as_ref().ok(), Some(&480_000));
        // Half a second after the change, all packets in flight were sent after the change.
        let (before, after): (Vec<_>, Vec<_>) = (
            o.reported
                .iter()
                .filter(|h| h.sent > Time::from_millis(500) && h.sent < Time::from_millis(3_900))
                .collect(),
            o.reported.iter().filter(|h| h.sent > Time::from_millis(4_500)).collect(),
        );
        // A slow transfer earns about ten timestamps per second (`fathom_frames::StampBudget`).
        assert!(before.len() > 20 && after.len() > 20, "{} {}", before.len(), after.len());
        let least_rtt =
            |s: &[&Reported]| s.iter().map(|h| h.rtt).min().expect("samples").as_secs_f64() * 1e3;
        let least = |s: &[&Reported]| {
            s.iter().map(|h| h.one_way.as_nanos()).min().expect("samples") as f64 / 1e6
        };
        let rtt = least_rtt(&after) - least_rtt(&before);
        let one_way = least(&after) - least(&before);
        println!(
            "{offer:?}: 50 ms more on the reverse path: RTT {rtt:+.3} ms, forward one-way delay {one_way:+.3} ms"
        );
        assert!((rtt - 50.0).abs() < 1.0, "RTT moved by {rtt} ms");
        assert!(one_way.abs() < 1.0, "forward delay moved by {one_way} ms");
        // The largest sample must not move by a millisecond either.
        let above = after
            .iter()
            .map(|h| h.one_way.as_nanos() as f64 / 1e6 - least(&before))
            .fold(0.0, f64::max);
        let usual = before
            .iter()
            .map(|h| h.one_way.as_nanos() as f64 / 1e6 - least(&before))
            .fold(0.0, f64::max);
        assert!((above - usual).abs() < 1.0, "largest height {above} ms, before {usual} ms");
    }
}

#[test]
fn one_way_delay_estimate_tracks_the_queue() {
    let mut means = Vec::new();
    for offer in [LEAN, PAPER, TIMESTAMP, RECEIVE, RECEIVE_ALL] {
        let o = run(&Setup {
            offer,
            client_offer: if offer == PAPER { LEAN } else { offer },
            server: "reno",
            window: 120_000,
            burst: 80_000,
            chunks: (12, 1_000_000, Duration::from_millis(400)),
            ..Setup::default()
        });
        assert!(o.client.is_ok(), "{:?}", o.client);
        let deepest = o.truth.values().flatten().max().expect("packets");
        assert!(*deepest > Duration::from_millis(30), "the queue never grew: {deepest:?}");
        let (mean, p95, _) = summary(offer, errors(&o, Time::from_millis(500)));
        // Most of the error is constant: delays are relative to the smallest reported delay, which
        // is up to half a millisecond too small.
        assert!(mean < 700.0 && p95 < 1_000.0, "mean {mean} us, p95 {p95} us");
        means.push(mean);
    }
    assert!((means[0] - means[1]).abs() < 300.0, "lean and paper differ: {means:?}");
    assert!((means[0] - means[2]).abs() < 300.0, "lean and TIMESTAMP differ: {means:?}");
    assert!((means[0] - means[3]).abs() < 300.0, "lean and receive timestamps differ: {means:?}");
    assert!((means[0] - means[4]).abs() < 300.0, "lean and receive timestamps differ: {means:?}");
}

#[test]
fn clock_drift_and_offset_are_not_mistaken_for_queueing() {
    // The clock starts 20 s before it wraps at 2^32 us. It runs up to half a millisecond per second
    // fast or slow, the worst rate in Mills' survey (Sync-TCP §5.3).
    for (ppm, offer) in [
        (-500, LEAN),
        (0, LEAN),
        (500, LEAN),
        (-500, TIMESTAMP),
        (500, TIMESTAMP),
        (-500, RECEIVE),
        (500, RECEIVE),
    ] {
        let o = run(&Setup {
            offer,
            client_offer: offer,
            client_clock: ((1 << 32) * 1_000 - 20_000_000_000, ppm),
            chunks: (400, 40_000, Duration::from_millis(150)),
            ..Setup::default()
        });
        let span = o.reported.last().expect("samples").sent.since(Time::ZERO);
        assert!(span > Duration::from_secs(59), "{span:?}");
        let (mean, p95, _) = summary(ppm, errors(&o, Time::from_millis(2_000)));
        assert!(
            mean < 500.0 && p95 < 1_500.0,
            "{ppm} ppm: mean {mean} us, p95 {p95} us over {span:?}"
        );
    }
}

#[test]
fn sync_explains_refusal_of_peer_without_timestamps() {
    // The server needs one-way delay, but the client does not support the extension.
    let o = run(&Setup { server: "sync", client_offer: Extension::OFF, ..Setup::default() });
    let error = format!("{:?}", o.client.expect_err("refused"));
    assert!(
        error.contains("one-way delay")
            && error.contains("SYNC_TIMESTAMP")
            && error.contains("signal="),
        "{error}"
    );
    // Server and client support different frames.
    let o = run(&Setup { server: "sync", client_offer: TIMESTAMP, ..Setup::default() });
    assert!(format!("{:?}", o.client.expect_err("refused")).contains("SYNC_TIMESTAMP"));
    // The client needs one-way delay, but the server does not support the extension.
    let o = run(&Setup { client: "sync", offer: Extension::OFF, ..Setup::default() });
    let error = format!("{:?}", o.client.expect_err("refused"));
    assert!(error.contains("one-way delay") && error.contains("signal="), "{error}");
    assert!(o.server.is_some(), "the server saw no close");
}

#[test]
fn sync_uses_rtt_when_configured() {
    for server in ["sync:signal=rtt", "sync:signal=either", "reno"] {
        let chunks = (1, 300_000, Duration::ZERO);
        let o = run(&Setup { server, client_offer: Extension::OFF, chunks, ..Setup::default() });
        assert_eq!(o.client.ok(), Some(300_000), "{server}");
        let report = o.report.expect("a report");
        assert!(
            !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
            "{server}: {report:?}"
        );
        assert!(o.reported.is_empty(), "{server}: one-way delays out of nowhere");
    }
}

#[test]
fn sync_timestamp_frames_are_exchanged_at_low_cost() {
    let o = run(&Setup { server: "sync", ..Setup::default() });
    assert_eq!(o.client.ok(), Some(2_000_000));
    let report = o.report.expect("a report");
    // 2 MB are about 1,500 packets and half as many acknowledgements. The budget allows 512
    // timestamps, and about 1,000 bytes for further ones.
    assert!(report.negotiated && (512..700).contains(&report.stamps_received), "{report:?}");
    assert!(report.samples.samples > 500 && report.samples.steps == 0, "{report:?}");
    assert_eq!(report.samples.dropped_bound, 0, "{report:?}");
    // The bulk sender acknowledges only flow control frames, so few of its 1,500 packets carry a
    // timestamp.
    assert!(report.stamps_sent < 300, "{report:?}");
}

#[test]
fn timestamp_frames_are_exchanged_at_low_cost() {
    let any = Extension::default();
    for (offer, client_offer, in_use) in
        [(any, TIMESTAMP, InUse::Timestamp), (any, any, InUse::Sync)]
    {
        let o = run(&Setup { server: "sync", offer, client_offer, ..Setup::default() });
        assert_eq!(o.client.ok(), Some(2_000_000));
        let report = o.report.expect("a report");
        assert!(report.negotiated && report.in_use == in_use, "{report:?}");
        // As with Fathom's own frame, the budget allows 512 timestamps, and about 1,000 bytes for
        // further ones.
        assert!(
            (512..750).contains(&report.stamps_received) && report.stamps_sent < 300,
            "{report:?}"
        );
        assert!(report.samples.samples > 500, "{report:?}");
        assert_eq!((report.samples.dropped_bound, report.samples.steps), (0, 0), "{report:?}");
    }
}

#[test]
fn receive_timestamps_are_exchanged_at_low_cost() {
    let every =
        Extension { receive_timestamps: RECEIVE.receive_timestamps, ..Extension::default() };
    for (offer, client_offer, in_use) in
        [(every, RECEIVE, InUse::Receive), (every, every, InUse::Sync)]
    {
        let o = run(&Setup { server: "sync", offer, client_offer, ..Setup::default() });
        assert_eq!(o.client.ok(), Some(2_000_000));
        let report = o.report.expect("a report");
        assert!(report.negotiated && report.in_use == in_use, "{report:?}");
        // The budget is the same, but a frame with two timestamps is longer than a
        // `SYNC_TIMESTAMP`.
        assert!(
            (400..750).contains(&report.stamps_received) && report.stamps_sent < 300,
            "{report:?}"
        );
        assert!(report.samples.samples > 350, "{report:?}");
        assert_eq!((report.samples.dropped_bound, report.samples.steps), (0, 0), "{report:?}");
        println!(
            "{in_use}: {} ACK frames, {} samples",
            report.stamps_received, report.samples.samples
        );
    }
}

/// The client announces that it stamps its packets, but stamps none.
#[test]
fn client_withholding_timestamps_is_served_as_with_reno() {
    let held = |server| run(&Setup { server, client_stamp: Some(&[]), ..Setup::default() });
    let (sync, reno) = (held("sync"), held("reno"));
    assert_eq!((sync.client.ok(), reno.client.ok()), (Some(2_000_000), Some(2_000_000)));
    let (sync_report, reno_report) =
        (sync.report.expect("a report"), reno.report.expect("a report"));
    assert!(
        sync_report.negotiated && sync_report.stamps_received == 0 && sync.reported.is_empty(),
        "{sync_report:?}"
    );
    let of = |r: &Report| {
        r.controller.map(|c| (c.window, c.early_reductions, c.reductions)).expect("a controller")
    };
    assert_eq!(of(&sync_report), of(&reno_report));
}

/// No reported delay may be below zero, or above what the round trip permits, by more than the
/// tolerance and the clock drift since the last sample. The transfer still completes.
#[test]
fn client_that_misreports_timestamps_gains_nothing() {
    let honest = run(&Setup {
        server: "sync",
        offer: TIMESTAMP,
        client_offer: TIMESTAMP,
        ..Setup::default()
    });
    let rtt_only =
        run(&Setup { server: "sync:signal=rtt", client_offer: Extension::OFF, ..Setup::default() });
    // The frames have one repeated value, as from a stopped clock, the largest value of four bytes,
    // and zero.
    for stamp in [
        &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24][..],
        &[0x42, 0xf5, 0xbf, 0xff, 0xff, 0xff],
        &[0x42, 0xf5, 0x00],
    ] {
        let o = run(&Setup {
            server: "sync",
            offer: Extension::default(),
            client_offer: TIMESTAMP,
            client_stamp: Some(stamp),
            ..Setup::default()
        });
        assert_eq!(o.client.ok(), Some(2_000_000), "{stamp:x?}");
        let report = o.report.expect("a report");
        assert!(
            report.stamps_received == 0 || report.samples.dropped_bound > 100,
            "{stamp:x?}: {report:?}"
        );
        let mut least = Duration::MAX;
        let mut last = Time::ZERO;
        for reported in &o.reported {
            least = least.min(reported.rtt);
            let tolerance =
                (least / 16).max(Duration::from_millis(1)) + reported.at.since(last) / 2_000;
            last = reported.at;
            let (room, tolerance) =
                ((reported.rtt - least).as_nanos() as i64, tolerance.as_nanos() as i64 + 2_000_000);
            let claimed = reported.one_way.as_nanos();
            assert!((-tolerance..=room + tolerance).contains(&claimed), "{stamp:x?}: {reported:?}");
        }
        let window = report.controller.expect("a controller").window;
        println!("{stamp:x?}: {} samples, window {window} at the end", report.samples.samples);
    }
    let window = |o: &Outcome| o.report.and_then(|r| r.controller).map(|c| c.window);
    println!("honest: {:?}; by the RTT: {:?}", window(&honest), window(&rtt_only));
}
