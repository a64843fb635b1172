//! A reverse proxy on the open Internet is attacked in three ways at once. Four hosts request large
//! bodies and never read them, other clients cancel requests as soon as they are sent, and TCP
//! connections never begin TLS. Meanwhile other clients request pages as before and get all of
//! them, and the upstream server gets few additional connections. A short course runs with the
//! other tests; `make soak` runs half a minute on each stack.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{Endpoint, VarInt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::attack::{Done, client, request, request_for, scrape, serve_with, streams};

/// Slots of the server for proxied requests; the unread responses would fill them many times.
const SLOTS: &str = "64";
/// H3_REQUEST_CANCELLED (RFC 9114 §8.1).
const CANCELLED: VarInt = VarInt::from_u32(0x10c);

/// Runs an upstream server over HTTP/1.1: pages for the visitors, and 2 MB for any other path.
/// Counts connections.
async fn upstream(listener: TcpListener, connections: Arc<AtomicU64>) {
    let body: Arc<[u8]> = vec![7; 2_000_000].into();
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        connections.fetch_add(1, Ordering::Relaxed);
        let body = Arc::clone(&body);
        tokio::spawn(async move {
            let mut read = Vec::new();
            loop {
                while !read.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut read).await? == 0 {
                        return Ok::<(), std::io::Error>(());
                    }
                }
                let head = String::from_utf8_lossy(&read).into_owned();
                read.clear();
                let length = match head.split(' ').nth(1) {
                    Some("/page.html") => 10_000,
                    Some("/image.bin") => 200_000,
                    _ => body.len(),
                };
                stream
                    .write_all(
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").as_bytes(),
                    )
                    .await?;
                stream.write_all(&body[..length]).await?;
            }
        });
    }
}

/// Sends requests and cancels each one at once, on one connection after the other.
async fn cancel(server: SocketAddr, from: Ipv4Addr, cancelled: Arc<AtomicU64>) {
    let endpoint = Endpoint::client((from, 0).into()).expect("an endpoint");
    let head = request("/cancelled");
    loop {
        let connected =
            async { endpoint.connect_with(client(1 << 20), server, "localhost").ok()?.await.ok() };
        let Some(connection) = connected.await else {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        let storm = async {
            let mut control = connection.open_uni().await?;
            control.write_all(b"\x00\x04\x00").await?;
            loop {
                let (mut send, mut receive) = connection.open_bi().await?;
                send.write_all(&head).await?;
                send.finish()?;
                receive.stop(CANCELLED)?;
                cancelled.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _: Result<(), Box<dyn std::error::Error + Send + Sync>> = storm.await;
    }
}

/// Opens TCP connections that send nothing, or something that is not TLS.
async fn idle(server: SocketAddr, from: u8) {
    let mut held = Vec::new();
    loop {
        if let Ok(mut stream) = TcpStream::connect(server).await {
            if held.len() % 2 == usize::from(from % 2) {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
            }
            held.push(stream);
        }
        if held.len() > 300 {
            held.remove(0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn withstand(stack: &str, seconds: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a thread");
    let (connections, cancelled, done) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(Done::default()));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    runtime.spawn(upstream(listener, Arc::clone(&connections)));
    let server =
        serve_with(stack, &["--proxy", &url, "--proxy-requests", SLOTS, "--tcp"].map(OsStr::new));
    request_for(server.address, 1);
    let before = connections.load(Ordering::Relaxed);

    for host in 1..=4 {
        let from = Ipv4Addr::new(127, 0, 5, host);
        for _ in 0..3 {
            let large = request("/large");
            runtime.spawn(streams(
                server.address,
                from,
                client(100),
                large,
                Arc::clone(&done),
                |done| &done.stalled,
            ));
        }
        runtime.spawn(cancel(server.address, from, Arc::clone(&cancelled)));
        runtime.spawn(idle(server.address, host));
    }
    let served = request_for(server.address, seconds);
    let metrics = scrape(server.metrics);
    let made = connections.load(Ordering::Relaxed) - before;
    runtime.shutdown_background();

    let stalled = done.stalled.load(Ordering::Relaxed);
    let cancelled = cancelled.load(Ordering::Relaxed);
    println!(
        "{stack}, {seconds} s: {stalled} unread responses, {cancelled} cancelled requests, {made} connections to the upstream server"
    );
    for (served, name) in served.iter().zip(["fresh", "kept"]) {
        let (completed, failed, statuses) = (served.completed, served.failed, &served.statuses);
        println!(
            "  {name}: {completed} whole, {failed} failed, {statuses}, p99 {:.1} ms",
            served.p99 * 1e3
        );
        let all_ok = statuses.contains("\"200\"") && !statuses.contains(',');
        assert!(failed == 0 && all_ok, "{name}: {failed} failed, {statuses}; {}", served.failures);
    }
    assert!(metrics.is_some(), "/metrics fell silent");
    // Unread responses hold their upstream connections, and a response that gives way to others
    // closes one. There must be few new connections compared with the requests.
    assert!(cancelled > 0 && made < (cancelled + stalled) / 2, "{made} connections");
}

#[test]
fn proxy_survives_a_short_attack() {
    withstand("quinn", 8);
}

#[test]
#[ignore = "takes half a minute: make soak"]
fn proxy_on_quinn_survives_half_a_minute_of_attack() {
    withstand("quinn", 30);
}

#[test]
#[ignore = "takes half a minute: make soak"]
fn proxy_on_noq_survives_half_a_minute_of_attack() {
    withstand("noq", 30);
}

#[cfg(feature = "quiche")]
#[test]
#[ignore = "takes half a minute: make soak"]
fn proxy_on_quiche_survives_half_a_minute_of_attack() {
    withstand("quiche", 30);
}
