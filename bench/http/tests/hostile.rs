//! Tests with clients whose requests no browser sends, on real sockets. They use quinn, with
//! hand-written HTTP/3 if `h3` would not send it.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{PATIENCE, Running, start, within};
use fathom_http::limits::Limits;
use fathom_stacks::Stack;
use http::{Request, StatusCode};
use quinn::{Connection, VarInt, WriteError};

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x107);
/// `GET https://localhost/bytes/0` in a HEADERS frame: static fields 17 and 23 of QPACK, and two
/// fields with name references (RFC 9204 §4.5).
const GET_NOTHING: &[u8] = b"\x01\x19\x00\x00\xd1\xd7\x50\x09localhost\x51\x08/bytes/0";
/// The HEADERS frame of a request for `/delay/60000/bytes/1`.
const GET_LATER: &[u8] = b"\x01\x25\x00\x00\xd1\xd7\x50\x09localhost\x51\x14/delay/60000/bytes/1";
/// A frame length of 2^40 as a varint.
const ENDLESS: u64 = 0xc0 << 56 | 1 << 40;

/// Returns a connection whose control stream is open.
async fn greeted(running: &Running) -> (Connection, quinn::SendStream) {
    let connection = running.connect().await.expect("a connection");
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(b"\x00\x04\x00").await.unwrap();
    (connection, control)
}

/// Writes to a stream until it is stopped. Returns the number of bytes written, and the error.
async fn pour(stream: &mut quinn::SendStream) -> (usize, WriteError) {
    let (mut written, zeros) = (0, [0; 4096]);
    loop {
        match within(stream.write(&zeros)).await {
            Ok(n) => written += n,
            Err(e) => return (written, e),
        }
        assert!(written < 16 << 20, "nothing stops it");
    }
}

#[tokio::test]
async fn server_does_not_buffer_an_endless_frame_of_a_client() {
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, _control) = greeted(&running).await;
        // HEADERS and a reserved frame (RFC 9114 §7.2.8), each of 2^40 bytes.
        for kind in [b"\x01", b"\x21"] {
            let (mut request, _) = connection.open_bi().await.unwrap();
            request.write_all(kind).await.unwrap();
            request.write_all(&ENDLESS.to_be_bytes()).await.unwrap();
            let (written, why) = pour(&mut request).await;
            assert_eq!(why, WriteError::Stopped(EXCESSIVE_LOAD), "{stack}");
            // The limit, and the bytes that the stream's window permitted before the stop arrived.
            assert!(written < 128 << 10, "{stack}: {written}");
        }
        assert_eq!(running.get("/bytes/10").await.2.len(), 10);
        // Such a frame on the control stream ends the connection.
        let (connection, mut control) = greeted(&running).await;
        control.write_all(b"\x21").await.unwrap();
        control.write_all(&ENDLESS.to_be_bytes()).await.unwrap();
        let (written, _) = pour(&mut control).await;
        assert!(written < 2 << 20, "{stack}: {written}");
        within(connection.closed()).await;
        running.end().await;
    }
}

#[tokio::test]
async fn unread_request_bodies_are_flow_controlled() {
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, _control) = greeted(&running).await;
        let taken = Arc::new(AtomicUsize::new(0));
        let mut responses = Vec::new();
        for _ in 0..12 {
            let (mut request, response) = connection.open_bi().await.unwrap();
            responses.push(response);
            let taken = Arc::clone(&taken);
            tokio::spawn(async move {
                // A DATA frame without end.
                let begin = [GET_LATER, b"\x00", &ENDLESS.to_be_bytes()].concat();
                request.write_all(&begin).await.ok()?;
                taken.fetch_add(begin.len(), Ordering::Relaxed);
                loop {
                    taken.fetch_add(request.write(&[0; 4096]).await.ok()?, Ordering::Relaxed);
                }
                #[allow(unreachable_code)]
                Some(())
            });
        }
        // The server accepts 32 KiB of each stream and 256 KiB of the connection before it responds
        // after a minute.
        let taken = || taken.load(Ordering::Relaxed);
        within(async {
            while taken() < 200_000 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        // A server that accepted more would do so at once.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(taken() <= 256 << 10, "{stack}: {}", taken());
        connection.close(0u32.into(), b"");
        running.end().await;
    }
}

/// Number of panics of this process outside the tests.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[tokio::test]
async fn unfinished_request_is_answered_and_its_stream_stopped() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Ignore panics of the tests.
        if !info.location().is_some_and(|at| at.file().contains("tests/")) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(info);
    }));
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let (connection, _control) = greeted(&running).await;
        for _ in 0..20 {
            let (mut request, mut response) = connection.open_bi().await.unwrap();
            request.write_all(GET_NOTHING).await.unwrap();
            let answer = within(response.read_to_end(10_000)).await.expect("an answer that ends");
            assert_eq!(answer.first(), Some(&1), "a HEADERS frame");
            within(request.stopped()).await.expect("informed that no more is wanted");
        }
        running.end().await;
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn truncated_response_is_reset() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("shrinks");
    for stack in Stack::ALL {
        std::fs::write(&file, vec![7; 40 << 20]).unwrap();
        let running = start(*stack, "native:cubic", Some(root.path()), Limits::default());
        let connection = running.connect().await.expect("a connection");
        let (mut driver, mut sender) =
            h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
        let drive =
            tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        let request = Request::builder().uri("https://localhost/shrinks").body(()).unwrap();
        let mut stream = sender.send_request(request).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(within(stream.recv_response()).await.unwrap().status(), StatusCode::OK);
        within(stream.recv_data()).await.unwrap();
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(20).unwrap();
        let why = loop {
            match within(stream.recv_data()).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{stack}: it ended as if it were whole"),
                Err(e) => break e.to_string(),
            }
        };
        assert!(why.contains("H3_INTERNAL_ERROR"), "{stack}: {why}");
        assert!(
            connection.close_reason().is_none(),
            "{stack}: a failed response is no reason to close"
        );
        drop(sender);
        drive.abort();
        running.end().await;
    }
}

/// Some clients drop a stream when they have received enough of it.
#[tokio::test]
async fn stopped_streams_free_their_stream_credit() {
    for stack in Stack::ALL {
        let running = start(*stack, "native:cubic", None, Limits::default());
        let (connection, _control) = greeted(&running).await;
        for number in 0..300 {
            let opened = tokio::time::timeout(PATIENCE, connection.open_bi()).await;
            let (mut request, mut response) =
                opened.unwrap_or_else(|_| panic!("{stack}: no room for {number}")).unwrap();
            request.write_all(GET_NOTHING).await.unwrap();
            request.finish().unwrap();
            let begin = within(response.read_chunk(1, true)).await.unwrap();
            assert!(begin.is_some_and(|chunk| chunk.bytes.len() == 1), "{stack}");
            response.stop(VarInt::from_u32(0)).unwrap();
        }
        running.end().await;
    }
}

#[tokio::test]
async fn named_pipe_is_not_served() {
    let root = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for stack in Stack::ALL {
        let running = start(*stack, "native:cubic", Some(root.path()), Limits::default());
        assert_eq!(within(running.get("/pipe")).await.0, StatusCode::NOT_FOUND, "{stack}");
        running.end().await;
    }
}
