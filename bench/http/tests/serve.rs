//! The server on real sockets, with requests from stock quinn under h3.

use crate::common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use common::{request, settings, start, start_logging, within};
use fathom_http::limits::Limits;
use fathom_http::server::{Scrape, Server};
use fathom_qlog::{LogFolder, LoggedEvent, ParsedEvent};
use fathom_stacks::{ControllerSpec, Stack};
use http::{Method, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bodies_and_files_arrive_complete_on_every_stack() {
    let root = tempfile::tempdir().unwrap();
    let page: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(root.path().join("index.html"), &page).unwrap();
    for stack in Stack::ALL {
        let running = start(*stack, "sync:signal=either", Some(root.path()), Limits::default());
        let (status, _, body) = running.get("/bytes/500000").await;
        assert_eq!(
            (status, body.len(), body.iter().all(|b| *b == 0)),
            (StatusCode::OK, 500_000, true),
            "{stack}"
        );
        let (status, content_type, body) = running.get("/").await;
        assert_eq!((status, content_type.as_str()), (StatusCode::OK, "text/html"), "{stack}");
        assert!(body == page, "{stack}: another page");
        assert_eq!(running.get("/nothing").await.0, StatusCode::NOT_FOUND);
        assert_eq!(running.get("/bytes/0").await.2.len(), 0);
        running.end().await;
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods)]
async fn server_waits_the_requested_delay_and_reuses_connections() {
    for stack in Stack::ALL {
        let running = start(*stack, "reno", None, Limits::default());
        let connection = running.connect().await.unwrap();
        let started = Instant::now();
        let (status, _, body) =
            request(&connection, Method::GET, "/delay/300/bytes/10").await.unwrap();
        assert_eq!((status, body.len()), (StatusCode::OK, 10));
        assert!(started.elapsed() >= Duration::from_millis(300));
        let head = running.connect().await.unwrap();
        let (status, _, body) = request(&head, Method::HEAD, "/bytes/1000").await.unwrap();
        assert_eq!((status, body.len()), (StatusCode::OK, 0));
        running.end().await;
    }
}

#[tokio::test]
async fn metrics_show_connections_divided_among_controllers() {
    for stack in Stack::ALL {
        let running = start(*stack, "reno=1,native:cubic=1", None, Limits::default());
        for _ in 0..40 {
            running.get("/bytes/1000").await;
        }
        // The last response is counted when its acknowledgement arrives, which is after the client
        // has the response.
        scraped(
            &running,
            &format!("fathom_connections_open{{stack=\"{stack}\",controller=\"reno\"}} 0\n"),
        )
        .await;
        scraped(
            &running,
            &format!(
                "fathom_connections_open{{stack=\"{stack}\",controller=\"native:cubic\"}} 0\n"
            ),
        )
        .await;
        let scrape = Scrape::bind("127.0.0.1:0".parse().unwrap(), Arc::clone(&running.metrics))
            .await
            .unwrap();
        let at = scrape.address().unwrap();
        tokio::spawn(scrape.serve());
        let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let count = |controller: &str| -> u64 {
            let name = format!(
                "fathom_responses_total{{stack=\"{stack}\",controller=\"{controller}\",status=\"200\"}} "
            );
            let line = text
                .lines()
                .find(|line| line.starts_with(&name))
                .unwrap_or_else(|| panic!("no {name} in\n{text}"));
            line[name.len()..].parse().unwrap()
        };
        let (reno, cubic) = (count("reno"), count("native:cubic"));
        // All 40 under one controller happens once in 2^39 runs.
        assert!(reno + cubic == 40 && reno > 0 && cubic > 0, "{reno} {cubic}");
        running.end().await;
    }
}

/// Returns the contents of a log: its events by name, the responses' bytes, and the bytes sent.
fn logged(folder: &Path) -> (Vec<String>, Vec<f64>, f64) {
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let (mut names, mut bodies, mut sent) = (Vec::new(), Vec::new(), 0.0);
    let summary = fathom_qlog::read(&files[0], &mut |_| {}, &mut |event: &LoggedEvent<'_>| {
        names.push(format!("{}:{}", event.category, event.name));
        match ParsedEvent::parse(event) {
            ParsedEvent::Response(response) => bodies.push(response.bytes),
            ParsedEvent::Metrics(metrics) => sent = metrics.bytes_sent.unwrap_or(sent),
            _ => {}
        }
    });
    let summary = summary.unwrap();
    assert!(
        summary.malformed.is_none() && summary.cut_off.is_none() && summary.connections == 1,
        "{summary:?}"
    );
    (names, bodies, sent)
}

#[tokio::test]
async fn every_connection_is_logged_with_any_controller() {
    for stack in Stack::ALL {
        for controller in ["reno", "sync:signal=either", "native:cubic"] {
            let dir = tempfile::tempdir().unwrap();
            let folder = Arc::new(LogFolder::open(dir.path()).unwrap());
            let running = start_logging(*stack, controller, None, Limits::default(), Some(&folder));
            let connection = running.connect().await.unwrap();
            let (_, _, body) =
                request(&connection, Method::GET, "/delay/250/bytes/400000").await.unwrap();
            assert_eq!(body.len(), 400_000);
            running.end().await;
            let counts = folder.finish();
            assert_eq!(
                (counts.files, counts.dropped, counts.failed),
                (1, 0, 0),
                "{stack} {controller}"
            );
            let (names, bodies, sent) = logged(dir.path());
            assert_eq!(bodies, [400_000.0], "{stack} {controller}");
            let metrics = names.iter().filter(|n| *n == "quic:recovery_metrics_updated").count();
            assert!(
                metrics >= 3 && sent >= 400_000.0,
                "{stack} {controller}: {metrics} metrics, {sent} bytes"
            );
            let phases = names.iter().filter(|n| *n == "quic:congestion_state_updated").count();
            assert_eq!(
                phases > 0,
                !ControllerSpec::from(controller).is_native(),
                "{stack} {controller}"
            );
            assert!(
                names.iter().all(|name| name != "fathom:timestamps_negotiated"),
                "a client of quinn as it comes"
            );
        }
    }
}

#[tokio::test]
async fn shutdown_finishes_open_requests_and_refuses_new_ones() {
    for stack in Stack::ALL {
        let running = start(*stack, "reno", None, Limits::default());
        let connection = running.connect().await.unwrap();
        let (mut driver, mut sender) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        let get = |path: &str| Request::get(format!("https://localhost{path}")).body(()).unwrap();
        let mut open = sender.send_request(get("/bytes/2000000")).await.unwrap();
        open.finish().await.unwrap();
        assert_eq!(open.recv_response().await.unwrap().status(), StatusCode::OK);
        // Nothing was read before, so most of the body is still to be sent.
        running.stop.send(true).unwrap();
        let mut got = 0;
        while let Some(data) = open.recv_data().await.expect("the open response ends") {
            got += data.remaining();
        }
        assert_eq!(got, 2_000_000, "{stack}");
        // GOAWAY may still be in flight, so one more request may be answered. Later requests are
        // not answered.
        let begun = async {
            for _ in 0..3 {
                let Ok(mut late) = sender.send_request(get("/bytes/1")).await else { return false };
                let _ = late.finish().await;
                if late.recv_response().await.is_err() {
                    return false;
                }
            }
            true
        };
        assert!(!within(begun).await, "{stack}: three more were answered");
        within(running.task).await.unwrap();
    }
}

#[tokio::test]
async fn connections_above_the_limit_are_refused() {
    for stack in Stack::ALL {
        let limits = Limits { connections: 2, ..Limits::default() };
        let running = start(*stack, "reno", None, limits);
        let first = running.connect().await.unwrap();
        let second = running.connect().await.unwrap();
        assert!(running.connect().await.unwrap_err().to_string().contains("refused"), "a third");
        drop((first, second));
        assert!(running.metrics.text().contains("fathom_connections_refused_total 1"));
        running.end().await;
    }
}

#[tokio::test]
async fn too_many_handshakes_cause_retries() {
    for stack in Stack::ALL {
        let limits = Limits { handshakes: 0, ..Limits::default() };
        let running = start(*stack, "reno", None, limits);
        assert_eq!(running.get("/bytes/5").await.2.len(), 5);
        assert!(running.metrics.text().contains("fathom_retries_total 1"));
        running.end().await;
    }
}

#[tokio::test]
async fn client_that_stops_reading_is_dropped() {
    for stack in Stack::ALL {
        let limits = Limits {
            stall_timeout: Duration::from_millis(500),
            send_buffer: 100_000,
            ..Limits::default()
        };
        let running = start(*stack, "reno", None, limits);
        let connection = running.connect().await.unwrap();
        let (mut driver, mut sender) =
            h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        let mut stream = sender
            .send_request(Request::get("https://localhost/bytes/100000000").body(()).unwrap())
            .await
            .unwrap();
        stream.finish().await.unwrap();
        // Nothing is read, so the flow control window fills.
        let gave_up = async {
            while !running.metrics.text().contains(&format!(
                "fathom_responses_abandoned_total{{stack=\"{stack}\",controller=\"reno\"}} 1"
            )) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        within(gave_up).await;
        drop(stream);
        running.end().await;
    }
}

/// Requests a path on a connection and reads nothing of the response. Returns the stream, and
/// objects that must stay alive for it.
async fn unread(
    connection: quinn::Connection,
    path: &str,
) -> (h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>, impl Sized) {
    let (mut driver, mut sender) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
    let drive = tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    let request = Request::get(format!("https://localhost{path}")).body(()).unwrap();
    let mut stream = sender.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    (stream, (sender, drive))
}

/// Waits until the metrics contain this line, for as long as a busy machine may need.
async fn scraped(running: &common::Running, line: &str) {
    let is_there = async {
        while !running.metrics.text().contains(line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(120), is_there).await;
    assert!(in_time.is_ok(), "no '{line}' in\n{}", running.metrics.text());
}

#[tokio::test]
async fn unacknowledged_response_counts_as_abandoned() {
    for stack in Stack::ALL {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(LogFolder::open(dir.path()).unwrap());
        let running = start_logging(*stack, "reno", None, Limits::default(), Some(&folder));
        let connection = running.connect().await.unwrap();
        // The body is larger than a stream's window, and smaller than the amount that QUIC accepts
        // at once.
        let (mut stream, others) = unread(connection.clone(), "/bytes/3000000").await;
        // The response has begun.
        within(stream.recv_response()).await.unwrap();
        connection.close(0x100u32.into(), b"");
        drop((stream, others));
        scraped(
            &running,
            &format!("fathom_responses_abandoned_total{{stack=\"{stack}\",controller=\"reno\"}} 1"),
        )
        .await;
        scraped(&running, "fathom_unacknowledged_bytes 0\n").await;
        assert!(!running.metrics.text().contains("fathom_responses_total{"), "{stack}");
        running.end().await;
        folder.finish();
        let (names, bodies, _) = logged(dir.path());
        assert!(
            bodies.is_empty() && names.iter().any(|name| name == "fathom:response_abandoned"),
            "{stack}: {names:?}"
        );
    }
}

#[tokio::test]
async fn requested_delay_ends_when_its_stream_or_connection_ends() {
    for stack in Stack::ALL {
        let running = start(*stack, "reno", None, Limits::default());
        let connection = running.connect().await.unwrap();
        let (mut stream, others) = unread(connection.clone(), "/delay/60000/bytes/10").await;
        stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        let abandoned = |n| {
            format!("fathom_responses_abandoned_total{{stack=\"{stack}\",controller=\"reno\"}} {n}")
        };
        scraped(&running, &abandoned(1)).await;
        let connection = running.connect().await.unwrap();
        let (_stream, _others) = unread(connection.clone(), "/delay/60000/bytes/10").await;
        scraped(
            &running,
            &format!("fathom_connections_total{{stack=\"{stack}\",controller=\"reno\"}} 2"),
        )
        .await;
        connection.close(0x100u32.into(), b"");
        // The memory is freed long before the requested delay of a minute, whether or not the
        // request arrived before the close.
        scraped(&running, "fathom_unacknowledged_bytes 0\n").await;
        drop((stream, others));
        running.end().await;
    }
}

#[tokio::test]
async fn stalled_readers_do_not_starve_other_clients() {
    for stack in Stack::ALL {
        // Each connection holds 64 KiB for which its client grants no credit. Together they hold
        // more than half of the budget.
        let limits = Limits {
            unacknowledged: 600 << 10,
            pressure_timeout: Duration::from_secs(2),
            ..Limits::default()
        };
        let running = start(*stack, "reno", None, limits);
        let mut stalled = Vec::new();
        for _ in 0..8 {
            let connection = running.connect().await.unwrap();
            let streams = [unread(connection.clone(), "/bytes/100000000").await];
            stalled.push((connection, streams));
        }
        // The connections hold most of the budget, and another client is still served.
        assert_eq!(running.get("/bytes/2000000").await.2.len(), 2_000_000, "{stack}");
        scraped(&running, "fathom_clients_given_up_total{reason=\"pressure\"}").await;
        let closed = one_is_given_up(&stalled);
        tokio::time::timeout(Duration::from_secs(120), closed)
            .await
            .expect("one of them is given up");
        assert_eq!(running.get("/bytes/2000000").await.2.len(), 2_000_000, "{stack}");
        drop(stalled);
        running.end().await;
    }
}

/// Waits until one of these connections is closed because it holds too much memory.
async fn one_is_given_up<T>(stalled: &[(quinn::Connection, T)]) {
    loop {
        for (connection, _) in stalled {
            if let Some(quinn::ConnectionError::ApplicationClosed(why)) = connection.close_reason()
            {
                assert_eq!(why.error_code, 0x107u32.into(), "H3_EXCESSIVE_LOAD");
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(not(feature = "quiche"))]
#[test]
fn error_for_a_missing_stack_says_how_to_build_it() {
    let error = "quiche".parse::<Stack>().unwrap_err().to_string();
    assert!(error.contains("--features quiche") && !error.contains('\n'), "{error}");
}

#[cfg(feature = "quiche")]
#[tokio::test]
async fn quiche_serves_native_controllers_and_refuses_0rtt() {
    for controller in ["native:reno", "native:cubic", "native:bbr2", "sdc", "packet-size"] {
        let running = start(Stack::Quiche, controller, None, Limits::default());
        assert_eq!(running.get("/bytes/3000000").await.2.len(), 3_000_000, "{controller}");
        running.end().await;
    }
    let limits = Limits { early_data: true, ..Limits::default() };
    let error = Server::bind(settings(Stack::Quiche, "reno", None, limits))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("0-RTT") && error.contains("quinn"), "{error}");
}

#[tokio::test]
async fn requests_of_a_connection_are_served_concurrently() {
    for stack in Stack::ALL {
        let limits = Limits { send_buffer: 300_000, ..Limits::default() };
        let running = start(*stack, "reno", None, limits);
        let connection = running.connect().await.unwrap();
        let (mut driver, sender) =
            h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        let mut asking = tokio::task::JoinSet::new();
        for n in 0..250usize {
            let mut sender = sender.clone();
            asking.spawn(async move {
                let uri = format!("https://localhost/bytes/{}", n * 1_000);
                let mut stream =
                    sender.send_request(Request::get(uri).body(()).unwrap()).await.unwrap();
                // Half of the requests have a body that nobody reads. It may be stopped, but the
                // response still arrives.
                if n % 2 == 0 {
                    let _ = stream.send_data(Bytes::from_static(b"hello")).await;
                }
                let _ = stream.finish().await;
                let head = stream.recv_response().await.unwrap();
                let mut got = 0;
                while let Some(data) = stream.recv_data().await.unwrap() {
                    got += data.remaining();
                }
                assert_eq!((head.status(), got), (StatusCode::OK, n * 1_000));
            });
        }
        while let Some(done) = asking.join_next().await {
            done.unwrap();
        }
        running.end().await;
    }
}

#[tokio::test]
async fn junk_datagrams_do_not_disturb_connections() {
    for stack in Stack::ALL {
        let running = start(*stack, "reno", None, Limits::default());
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for length in [0, 1, 5, 6, 20, 100, 1_199, 1_200, 1_400] {
            for first in [0x00, 0x40, 0x80, 0xc0, 0xd0, 0xe0, 0xf0, 0xff] {
                for version in [0u32, 1, 2, 0x0a0a_0a0a] {
                    for id in [0, 7, 8, 20, 255] {
                        let mut packet = vec![id; length];
                        let begin = [&[first][..], &version.to_be_bytes(), &[id]].concat();
                        let n = begin.len().min(length);
                        packet[..n].copy_from_slice(&begin[..n]);
                        socket.send_to(&packet, running.address).await.unwrap();
                    }
                }
            }
        }
        assert_eq!(running.get("/bytes/1000").await.2.len(), 1_000, "{stack}");
        running.end().await;
    }
}

#[tokio::test]
async fn errors_of_invalid_server_settings_have_one_line() {
    let of = |controller: &str, stack| {
        Server::bind(settings(stack, controller, None, Limits::default())).map(drop)
    };
    for (controller, hint) in
        [("snyc", "snyc"), ("native:bbr3", "native:bbr"), ("sync:flor=1ms", "floor")]
    {
        let error = of(controller, Stack::Quinn).unwrap_err().to_string();
        assert!(error.contains(hint) && !error.contains('\n'), "{controller}: {error}");
    }
    #[cfg(feature = "quiche")]
    for (controller, hint) in
        [("snyc", "snyc"), ("native:bbr3", "native:bbr2"), ("sync:flor=1ms", "floor")]
    {
        let error = of(controller, Stack::Quiche).unwrap_err().to_string();
        assert!(error.contains(hint) && !error.contains('\n'), "{controller}: {error}");
    }
    #[cfg(feature = "quiche")]
    of("packet-size,sdc,native:bbr2", Stack::Quiche).unwrap();
    // A shaping socket provides the capabilities that the stack lacks.
    of("sdc", Stack::Quinn).unwrap();
    of("packet-size,sdc,native:bbr3", Stack::Noq).unwrap();
}
