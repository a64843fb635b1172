//! Responses in the order that the client asks for (RFC 9218), on every stack.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Running, start, within};
use fathom_http::limits::Limits;
use fathom_http3::qpack::encode;
use fathom_stacks::Stack;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use tokio::net::UdpSocket;

/// Size of both responses in bytes.
const SIZE: usize = 1_000_000;

/// Starts a path of about 4 MB/s to a server, so that responses wait at the server. The rate of
/// the network decides what is sent: flow control would stop all streams alike.
async fn slow_path(server: SocketAddr) -> SocketAddr {
    let client_side = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let server_side = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    server_side.connect(server).await.unwrap();
    let address = client_side.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut packet, mut answer) = ([0; 2_000], [0; 2_000]);
        let (mut client, mut sent) = (address, 0);
        loop {
            tokio::select! {
                received = client_side.recv_from(&mut packet) => {
                    let (length, from) = received.unwrap();
                    client = from;
                    let _ = server_side.send(&packet[..length]).await;
                }
                received = server_side.recv(&mut answer) => {
                    let Ok(length) = received else { continue };
                    let _ = client_side.send_to(&answer[..length], client).await;
                    sent += length;
                    if sent > 8_000 {
                        sent = 0;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        }
    });
    address
}

/// Opens a connection with a control stream over a slow path.
async fn connect(running: &Running) -> (Connection, SendStream) {
    let address = slow_path(running.address).await;
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(running.client.clone(), address, "localhost").unwrap();
    let connection = within(connecting).await.unwrap();
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(b"\0\x04\0").await.unwrap();
    (connection, control)
}

/// Requests a response with this `priority` field.
async fn ask(connection: &Connection, priority: Option<&str>) -> RecvStream {
    let path = format!("/bytes/{SIZE}");
    let mut fields = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path.as_str()),
    ];
    fields.extend(priority.map(|priority| ("priority", priority)));
    let mut section = Vec::new();
    encode(&fields[..], &mut section);
    let frame = [&[1, u8::try_from(section.len()).unwrap()], &section[..]].concat();
    let (mut send, receive) = connection.open_bi().await.unwrap();
    send.write_all(&frame).await.unwrap();
    send.finish().unwrap();
    receive
}

/// Returns a PRIORITY_UPDATE frame for a request stream (RFC 9218 §7.2).
fn update(stream: u8, priority: &str) -> Vec<u8> {
    let payload = [&[stream], priority.as_bytes()].concat();
    [b"\x80\x0f\x07\x00", &[u8::try_from(payload.len()).unwrap()][..], &payload].concat()
}

/// Reads two responses at a time. Returns how much of the first one has arrived when the second one
/// is complete.
async fn race(first: RecvStream, mut second: RecvStream) -> f64 {
    let read = Arc::new(AtomicUsize::new(0));
    let reading = Arc::clone(&read);
    let reader = tokio::spawn(async move {
        let mut first = first;
        while let Some(chunk) = first.read_chunk(16 << 10, true).await.unwrap() {
            reading.fetch_add(chunk.bytes.len(), Ordering::Relaxed);
        }
    });
    let mut whole = 0;
    while let Some(chunk) = within(second.read_chunk(16 << 10, true)).await.unwrap() {
        whole += chunk.bytes.len();
    }
    assert!(whole > SIZE, "{whole}");
    let share = read.load(Ordering::Relaxed) as f64 / SIZE as f64;
    within(reader).await.unwrap();
    assert!(read.load(Ordering::Relaxed) > SIZE);
    share
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urgent_response_precedes_another_that_began_before() {
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, _control) = connect(&running).await;
        let first = ask(&connection, Some("u=5")).await;
        let second = ask(&connection, Some("u=1, i")).await;
        let share = race(first, second).await;
        assert!(share < 0.5, "{stack}: {share}");
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_update_changes_the_order_of_responses() {
    // A response that becomes less urgent, because quinn and noq apply a raised priority of a
    // waiting stream only when the stream's turn comes.
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, mut control) = connect(&running).await;
        let first = ask(&connection, Some("u=2")).await;
        let second = ask(&connection, Some("u=4")).await;
        control.write_all(&update(0, "u=6")).await.unwrap();
        let share = race(first, second).await;
        assert!(share < 0.5, "{stack}: {share}");
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_without_priorities_share_the_connection() {
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, _control) = connect(&running).await;
        let first = ask(&connection, None).await;
        let second = ask(&connection, None).await;
        let share = race(first, second).await;
        assert!(share > 0.6, "{stack}: {share}");
        running.end().await;
    }
}
