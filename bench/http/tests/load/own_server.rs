//! Tests of loads on the server of this crate.

use super::*;

/// `fathom load` runs on quinn and noq; a server runs on quiche too.
#[tokio::test(flavor = "multi_thread")]
async fn receive_timestamps_measure_delays_between_all_stacks() {
    for server_stack in Stack::ALL.iter().copied() {
        for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
            let limits = Limits::default();
            let dir = tempfile::tempdir().unwrap();
            let folder = Arc::new(LogFolder::open(dir.path()).unwrap());
            let server = serve_offering(
                Timestamps::Receive,
                (Identity::self_signed(&[]).unwrap(), server_stack, "sync"),
                limits,
                Site::new(None, limits).unwrap(),
                Some(&folder),
            );
            let traffic = closed(server.address, 3, 4, &["/bytes/1000", "/bytes/200000"]);
            let timestamps = Timestamps::Receive;
            let outcome = run(LoadConfig {
                stack,
                timestamps,
                requests: Some(100),
                ..config(server.address, traffic)
            })
            .await;
            let outcome = outcome.unwrap();
            assert_eq!(
                (outcome.counts.completed, outcome.counts.failed()),
                (100, 0),
                "{stack} of {server_stack}"
            );
            let connections = &outcome.connections;
            let found =
                (connections.one_way, connections.by_receive_timestamps, connections.by_timestamp);
            assert_eq!(found, (3, 3, 0), "{stack} of {server_stack}");
            assert!(
                connections.queueing.count() > 0,
                "{stack} of {server_stack}: the server's frames gave no delay"
            );
            // Connections are counted when they end.
            let end = async {
                while !server.metrics.text().contains("extension=\"receive\"") {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, end).await.expect("counted");
            server.stop.send(true).unwrap();
            tokio::time::timeout(PATIENCE, server.task).await.expect("ended").unwrap();
            folder.finish();
            let files = std::fs::read_dir(dir.path()).unwrap();
            let logs: Vec<_> =
                files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
            let event = "\"fathom:timestamps_negotiated\",\"data\":{\"frame\":\"receive\"}";
            assert!(
                logs.iter().all(|log| log.matches(event).count() == 1),
                "{stack} of {server_stack}: {logs:?}"
            );
            // A connection may be established too late to carry requests.
            assert!(
                logs.iter().any(|log| log.contains("fathom:one_way_delay")),
                "{stack} of {server_stack}: {logs:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_loop_load_counts_each_request_once() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for timestamps in [
            Timestamps::Any,
            Timestamps::Lean,
            Timestamps::Paper,
            Timestamps::Timestamp,
            Timestamps::Receive,
            Timestamps::Off,
        ] {
            let server = serve(stack, "sync:signal=either", Limits::default());
            let traffic =
                closed(server.address, 3, 4, &["/bytes/1000", "/bytes/20000", "/nothing"]);
            let outcome = run(LoadConfig {
                stack,
                timestamps,
                requests: Some(300),
                ..config(server.address, traffic)
            })
            .await;
            let outcome = outcome.unwrap();
            let counts = &outcome.counts;
            assert_eq!(
                (counts.started, counts.completed, counts.failed(), counts.unfinished),
                (300, 200, 100, 0)
            );
            assert_eq!(
                counts.statuses.iter().map(|(s, n)| (*s, *n)).collect::<Vec<_>>(),
                [(200, 200), (404, 100)]
            );
            assert_eq!(failures(&outcome, FailureKind::Status), 100);
            assert_eq!((counts.bytes_in_time, outcome.phases.service.count()), (2_100_000, 200));
            assert_eq!((outcome.connections.opened, outcome.phases.connect.count()), (3, 3));
            // By default a server offers no receive timestamps.
            let none = [Timestamps::Off, Timestamps::Receive].contains(&timestamps);
            let expected = if none { 0 } else { 3 };
            assert_eq!(outcome.connections.one_way, expected, "{stack} {timestamps}");
            assert!(
                outcome.connections.queueing.count() == expected || timestamps != Timestamps::Paper
            );
            let by_timestamp = if timestamps == Timestamps::Timestamp { 3 } else { 0 };
            assert_eq!(outcome.connections.by_timestamp, by_timestamp, "{stack} {timestamps}");
            let text = server.metrics.text();
            let used = match timestamps {
                _ if none => "none",
                Timestamps::Timestamp => "timestamp",
                _ => "sync",
            };
            // Connections are counted when they end.
            let end = async {
                while !server.metrics.text().contains(&format!("extension=\"{used}\"")) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, end).await.expect(&text);
            assert!(
                outcome.rate() > 0.0 && outcome.connections.rtt.count() == 3 && !outcome.open_loop
            );
            server.stop.send(true).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_connections_all_get_responses() {
    const MANY: usize = 2_000;
    for stack in Stack::ALL.iter().copied() {
        // The timeout is long enough for a slow machine.
        let slow = Duration::from_secs(600);
        let server =
            serve(stack, "sync:signal=either", Limits { idle_timeout: slow, ..Limits::default() });
        let traffic = closed(server.address, MANY, 1, &["/bytes/10000"]);
        let stack = if stack.on_rustls() { stack } else { Stack::Quinn };
        let config = LoadConfig {
            stack,
            timeout: slow,
            requests: Some(2 * MANY as u64),
            ..config(server.address, traffic)
        };
        let outcome = run(config).await.unwrap();
        let counts = &outcome.counts;
        assert_eq!(
            (counts.completed, counts.failed(), counts.unfinished),
            (2 * MANY as u64, 0, 0),
            "{counts:?}"
        );
        // There are fewer connections if all requests are completed before the last handshakes.
        assert!(outcome.connections.opened <= MANY as u64);
        server.stop.send(true).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn servers_request_large_socket_buffers() {
    let bound = |name: &str| -> usize {
        std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    // The last ones use a shaping socket, because the stacks cannot do this themselves.
    let all = Stack::ALL.iter().map(|stack| (*stack, "reno"));
    for (stack, controller) in all.chain([(Stack::Quinn, "sdc"), (Stack::Noq, "packet-size")]) {
        let settings = settings(stack, controller, None, Limits::default());
        let buffers = Server::bind(settings).unwrap().buffers();
        assert!(
            buffers.receive >= udp::BUFFER_SIZE.min(bound("rmem_max")),
            "{stack} {controller}: {buffers:?}"
        );
        assert!(
            buffers.send >= udp::BUFFER_SIZE.min(bound("wmem_max")),
            "{stack} {controller}: {buffers:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn load_client_verifies_bodies_by_digest() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.path().join("file"), &bytes).unwrap();
    for stack in Stack::ALL.iter().copied() {
        let limits = Limits::default();
        let site = Site::new(Some(folder.path()), limits).unwrap();
        let server = serve_site(
            Identity::self_signed(&[]).unwrap(),
            stack,
            "sync:signal=either",
            limits,
            site,
        );
        let traffic =
            closed(server.address, 2, 2, &["/file", "/bytes/100000", "/bytes/0", "/nothing"]);
        // The load generator does not run on quiche.
        let stack = if stack.on_rustls() { stack } else { Stack::Quinn };
        let config = LoadConfig {
            stack,
            check_digests: true,
            requests: Some(80),
            ..config(server.address, traffic)
        };
        let outcome = run(config).await.unwrap();
        assert_eq!(
            (outcome.counts.completed, failures(&outcome, FailureKind::Status)),
            (60, 20),
            "{:?}",
            outcome.counts
        );
        assert_eq!(failures(&outcome, FailureKind::Digest), 0);
        server.stop.send(true).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_loop_load_keeps_its_schedule_on_all_connections() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    for (stack, kept) in [
        (Stack::Quinn, None),
        (Stack::Noq, None),
        (Stack::Quinn, Some(PoolSize { connections: 4, streams: 1 })),
        (Stack::Noq, Some(PoolSize { connections: 2, streams: 8 })),
    ] {
        let traffic = at_rate(server.address, 100.0, "/bytes/500", kept);
        let (warm_up, duration) = (Duration::from_millis(200), Some(Duration::from_millis(400)));
        let outcome =
            run(LoadConfig { stack, warm_up, duration, ..config(server.address, traffic) })
                .await
                .unwrap();
        let counts = &outcome.counts;
        assert_eq!((counts.started, counts.completed), (40, 40), "{stack} {kept:?}: {counts:?}");
        let made = outcome.connections.opened;
        // Includes connections of the warm-up.
        assert!(
            kept.map_or(made == 59, |kept| made <= kept.connections as u64),
            "{stack} {kept:?}: {made}"
        );
        assert!(outcome.open_loop && outcome.phases.lag.count() == 40);
        // On a busy machine, some connections end too late to be counted.
        assert!(
            counts.in_time <= 40 && (outcome.rate() - counts.in_time as f64 / 0.4).abs() < 1e-6,
            "{counts:?}"
        );
        assert_eq!(outcome.window, Duration::from_millis(400));
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_by_flow_control_windows_is_counted() {
    let server = serve(Stack::Quinn, "cubic", Limits::default());
    for (stream_window, path, blocked) in
        [(16 << 10, "/bytes/4000000", 2), (STREAM_WINDOW, "/bytes/1000", 0)]
    {
        let traffic = closed(server.address, 2, 1, &[path]);
        let config =
            LoadConfig { requests: Some(4), stream_window, ..config(server.address, traffic) };
        let outcome = run(config).await.unwrap();
        assert_eq!(
            (outcome.counts.completed, outcome.connections.server_blocked),
            (4, blocked),
            "{path}"
        );
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn response_time_includes_the_wait_for_a_connection() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let kept = Some(PoolSize { connections: 1, streams: 1 });
    let traffic = at_rate(server.address, 50.0, "/delay/100/bytes/1", kept);
    let outcome =
        run(LoadConfig { requests: Some(10), ..config(server.address, traffic) }).await.unwrap();
    let (service, response) = (&outcome.phases.service, &outcome.phases.response);
    // In sequence, the requests take 1 s, although they were scheduled within 200 ms.
    assert!(response.max().unwrap() >= Duration::from_millis(750), "{:?}", response.max());
    // Waiting is not part of the service time. If requests wait for each other, the sum of all
    // service times is at most the longest wait plus one service time.
    let (service, longest) = (service.quantile(0.5).unwrap(), response.max().unwrap());
    assert!(service < longest / 2, "{service:?} of {longest:?}");
    // Requests arrive every 20 ms, or late and in bursts, and take 100 ms each.
    assert!(outcome.counts.waited >= 5, "{:?}", outcome.counts);
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_and_interval_log_are_written_during_the_run() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let url = |path: &str| origin(server.address).url(path).unwrap();
    let at = Duration::from_millis;
    let arrivals = [(0, "/bytes/10"), (400, "/bytes/7?a=1,2"), (1_300, "/nothing")]
        .map(|(ms, path)| Arrival { at: at(ms), url: url(path) });
    let traffic = Traffic::Open(Box::new(arrivals.into_iter()), None);
    let (rows, intervals) = (Memory::default(), Memory::default());
    let outputs = Outputs {
        rows: Some(Box::new(rows.clone())),
        intervals: Some(Box::new(intervals.clone())),
    };
    let (_stop, stopped) = watch::channel(false);
    let mut seen = Vec::new();
    let outcome =
        load::run(config(server.address, traffic), outputs, stopped, |p: &Progress| seen.push(*p))
            .await
            .unwrap();
    assert_eq!(outcome.rows_lost, 0);
    let text = rows.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(10, ',').collect()).collect();
    assert_eq!((lines.len(), lines[0].join(",")), (4, load::COLUMNS.to_owned()), "{text}");
    assert_eq!(
        (lines[1][0], lines[1][6], lines[1][7], lines[1][9]),
        ("0.000000", "10", "200", "/bytes/10")
    );
    assert_eq!((lines[2][0], lines[2][9]), ("0.400000", "\"/bytes/7?a=1,2\""));
    assert_eq!((lines[3][7], lines[3][8] != lines[1][8]), ("status", true));
    let number = |row: usize, column: usize| lines[row][column].parse::<f64>().unwrap();
    for row in 1..4 {
        let [connect, first, service, response] = [2, 3, 4, 5].map(|column| number(row, column));
        assert!(
            0.0 < connect && connect < first && first <= service && service <= response,
            "{text}"
        );
        assert!(number(row, 0) <= number(row, 1));
    }
    let log = intervals.text();
    assert!(log.lines().filter(|l| l.starts_with("Tag=response,")).count() >= 2, "{log}");
    assert!(
        log.starts_with("#[Histogram log format version 1.3]") && log.contains("#[StartTime: ")
    );
    assert!(
        seen.len() >= 2 && seen.last().unwrap().done == 3 && seen.last().unwrap().failed == 1,
        "{seen:?}"
    );
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_are_counted_by_kind_of_failure() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    // The handshake must complete within this time.
    let timeout = Duration::from_secs(2);
    let traffic = closed(server.address, 1, 2, &["/delay/60000/bytes/1"]);
    let outcome = run(LoadConfig { requests: Some(4), timeout, ..config(server.address, traffic) })
        .await
        .unwrap();
    assert_eq!(
        (failures(&outcome, FailureKind::Timeout), outcome.counts.completed),
        (4, 0),
        "{:?}",
        outcome.counts
    );
    // The server stops in the middle of the run.
    let traffic =
        at_rate(server.address, 20.0, "/bytes/10", Some(PoolSize { connections: 1, streams: 1 }));
    let config = LoadConfig {
        timeout,
        duration: Some(Duration::from_secs(2)),
        ..config(server.address, traffic)
    };
    let (_stop, stopped) = watch::channel(false);
    let gone = |progress: &Progress| {
        if progress.done >= 5 {
            server.stop.send_replace(true);
        }
    };
    let outcome = load::run(config, Outputs::default(), stopped, gone).await.unwrap();
    server.task.await.unwrap();
    let failed = [FailureKind::Connect, FailureKind::Reset].map(|kind| failures(&outcome, kind));
    assert!(outcome.counts.completed >= 5 && failed[0] >= 1, "{:?}", outcome.counts);
    assert_eq!(outcome.counts.completed + outcome.counts.failed(), 39);
    assert!(outcome.counts.failures[0].1.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_load_run_reports_its_results() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    for (traffic, done) in [
        // Four of the eight requests are answered, and the other four occupy all streams.
        (closed(server.address, 2, 2, &["/bytes/100", "/delay/60000/bytes/1"]), 4),
        (at_rate(server.address, 100.0, "/delay/60000/bytes/1", None), 0),
    ] {
        let (stop, stopped) = watch::channel(false);
        let config = LoadConfig {
            duration: Some(Duration::from_secs(600)),
            ..config(server.address, traffic)
        };
        let end = |progress: &Progress| {
            if progress.open >= 4 && progress.done == done {
                stop.send_replace(true);
            }
        };
        let outcome = load::run(config, Outputs::default(), stopped, end).await.unwrap();
        let counts = &outcome.counts;
        assert!(counts.unfinished >= 4 && counts.completed == done, "{counts:?}");
        assert!(
            outcome.window < Duration::from_secs(300) && !outcome.window.is_zero(),
            "{:?}",
            outcome.window
        );
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_an_unreachable_server_names_the_address() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = nobody.local_addr().unwrap();
    let traffic = closed(at, 1, 1, &["/"]);
    let error = run(LoadConfig { timeout: Duration::from_millis(200), ..config(at, traffic) })
        .await
        .unwrap_err();
    let line = error.to_string();
    assert!(
        matches!(error, LoadError::Unreachable(..)) && line.contains(&at.to_string()),
        "{line}"
    );
    // A certificate that no trusted root has signed.
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(roots.path(), other.cert.pem()).unwrap();
    let trust = Trust::File(roots.path().to_owned());
    let line =
        run(LoadConfig { trust, ..config(server.address, closed(server.address, 1, 1, &["/"])) })
            .await;
    let error = line.unwrap_err();
    let line = error.to_string();
    assert!(line.contains("certificate") && !line.contains('\n'), "{line}");
    assert!(
        matches!(&error, LoadError::Unreachable(_, why) if why.is_untrusted_certificate()),
        "{error:?}"
    );
    let trust = Trust::File("/nowhere.pem".into());
    let line =
        run(LoadConfig { trust, ..config(server.address, closed(server.address, 1, 1, &["/"])) })
            .await;
    assert!(line.unwrap_err().to_string().contains("/nowhere.pem"));
    let zero_rtt = run(LoadConfig {
        zero_rtt: true,
        ..config(server.address, closed(server.address, 1, 1, &["/"]))
    })
    .await;
    assert!(zero_rtt.unwrap_err().to_string().contains("--connections fresh"));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_certificate_is_checked_against_the_given_roots() {
    let folder = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let server =
        serve_as(Identity::read(&cert, &key).unwrap(), Stack::Noq, "reno", Limits::default());
    let (traffic, trust) = (closed(server.address, 1, 1, &["/bytes/3"]), Trust::File(cert));
    let outcome = run(LoadConfig { trust, requests: Some(2), ..config(server.address, traffic) })
        .await
        .unwrap();
    assert_eq!(outcome.counts.completed, 2);
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_zero_rtt_saves_a_round_trip() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for (serving, controller) in
            [(Stack::Quinn, "sync:signal=either"), (Stack::Noq, "native:cubic")]
        {
            let server =
                serve(serving, controller, Limits { early_data: true, ..Limits::default() });
            let traffic = at_rate(server.address, 50.0, "/bytes/5000", None);
            let config = LoadConfig {
                stack,
                zero_rtt: true,
                requests: Some(50),
                ..config(server.address, traffic)
            };
            let outcome = run(config).await.unwrap();
            assert_eq!(outcome.counts.completed, 50, "{stack} at {serving}: {:?}", outcome.counts);
            let of = &outcome.connections;
            // On a busy machine, a ticket may arrive too late.
            assert_eq!(
                (of.early_accepted + of.early_without, of.early_rejected),
                (50, 0),
                "{stack} at {serving}"
            );
            assert!(of.early_accepted > 0, "{stack} at {serving}: {of:?}");
            assert!(
                server.metrics.text().contains("status=\"200\"} 50"),
                "{}",
                server.metrics.text()
            );
            server.stop.send(true).unwrap();
        }
    }
    // A server that accepts no 0-RTT.
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let traffic = at_rate(server.address, 50.0, "/bytes/5000", None);
    let config =
        LoadConfig { zero_rtt: true, requests: Some(10), ..config(server.address, traffic) };
    let outcome = run(config).await.unwrap();
    assert_eq!((outcome.counts.completed, outcome.connections.early_without), (10, 10));
    server.stop.send(true).unwrap();
}

#[cfg(feature = "quiche")]
#[tokio::test]
async fn load_rejects_quiche_as_client_stack() {
    let address = "127.0.0.1:9".parse().unwrap();
    let config =
        LoadConfig { stack: Stack::Quiche, ..config(address, closed(address, 1, 1, &["/"])) };
    assert!(run(config).await.unwrap_err().to_string().contains("quinn or noq"));
}
