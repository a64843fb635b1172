//! Well-behaved servers and clients.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fathom_http3::datagram::Datagram;
use fathom_http3::error::{Code, Kind};
use fathom_http3::message::MessageLimits;
use fathom_http3::priority::Priority;
use fathom_http3::qpack::Limits;
use fathom_http3::transport::{Connection as _, ReceiveStream as _, SendStream as _};
use fathom_http3::{Config, Error, client, server};

use super::memory::{self, Connection};

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
const OK: [(&str, &str); 2] = [(":status", "200"), ("server", "fathom")];

type Server = server::Connection<Connection>;
type Request = server::RequestStream<Connection>;
type Sender = client::RequestSender<Connection>;

/// Starts a client, which is driven in a task.
fn start_client(connection: &Connection) -> Sender {
    let (mut driver, sender) = client::Connection::new(connection.clone(), Config::default());
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    sender
}

/// Starts a server that handles each request in a task.
fn start_server<F: Future<Output = ()> + Send + 'static>(
    connection: &Connection,
    config: Config,
    handle: impl Fn(Request) -> F + Send + 'static,
) {
    let mut server = Server::new(connection.clone(), config);
    tokio::spawn(async move {
        while let Ok(Some(request)) = server.accept().await {
            tokio::spawn(handle(request));
        }
    });
}

async fn body(stream: &mut client::RequestStream<Connection>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(data) = stream.data().await? {
        body.extend_from_slice(&data);
    }
    Ok(body)
}

/// Lets other tasks run until nothing changes.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn bodies_and_trailers_go_both_ways() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        let mut received = Vec::new();
        while let Some(data) = request.receiver().data().await.unwrap() {
            received.extend_from_slice(&data);
        }
        assert_eq!(request.receiver().trailers().get(b"sum"), Some(&b"6"[..]));
        let interim = http::Response::builder().status(103).body(()).unwrap();
        request.sender().send_head(&interim).await.unwrap();
        request.sender().send_head(&OK).await.unwrap();
        for part in received.chunks(2) {
            request.sender().send_data(Bytes::copy_from_slice(part)).await.unwrap();
        }
        request.sender().send_trailers(&[("sum", "7")]).await.unwrap();
        request.sender().finish().await.unwrap();
    });
    let mut sender = start_client(&client);
    let head =
        http::Request::post("https://a.test/x").header("content-length", 6).body(()).unwrap();
    let mut stream = sender.open(&head).await.unwrap();
    stream.sender().send_data(Bytes::from_static(b"abc")).await.unwrap();
    stream.sender().send_data(Bytes::from_static(b"def")).await.unwrap();
    stream.sender().send_trailers(&[("sum", "6")]).await.unwrap();
    stream.sender().finish().await.unwrap();
    assert_eq!(stream.head().await.unwrap().status, 200);
    assert_eq!(stream.response().unwrap().headers()["server"], "fathom");
    assert_eq!(body(&mut stream).await.unwrap(), b"abcdef");
    assert_eq!(stream.receiver().trailers().get(b"sum"), Some(&b"7"[..]));
    assert!(stream.receiver().is_ended());
}

#[tokio::test]
async fn small_messages_take_one_write_each() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        assert_eq!(request.request().unwrap().uri(), "https://a.test/");
        request.respond(&OK, Bytes::from_static(b"body")).await.unwrap();
    });
    let mut sender = start_client(&client);
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    stream.head().await.unwrap();
    assert_eq!(body(&mut stream).await.unwrap(), b"body");
    assert_eq!(client.inspect(0, |pipe| (pipe.writes, pipe.finished)), (1, true));
    assert_eq!(server.inspect(0, |pipe| (pipe.writes, pipe.finished)), (1, true));
}

#[tokio::test]
async fn peers_without_stream_credit_get_answers() {
    let (server, client) = memory::pair();
    server.permit_unidirectional(0);
    client.permit_unidirectional(0);
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        request.respond(&OK, Bytes::new()).await.unwrap();
    });
    let mut sender = start_client(&client);
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    assert_eq!(stream.head().await.unwrap().status, 200);
    assert!(sender.peer_settings().is_none());
    server.permit_unidirectional(1);
    settle().await;
    let settings = sender.peer_settings().unwrap();
    assert_eq!(settings.max_field_section_size, Some(Limits::default().bytes));
}

#[tokio::test]
async fn slow_heads_do_not_block_others() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        if request.head().await.is_ok() {
            request.respond(&OK, Bytes::new()).await.unwrap();
        }
    });
    let (mut slow, _) = client.open().await;
    slow.write(b"\x01\x20\0\0");
    let mut sender = start_client(&client);
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    assert_eq!(stream.head().await.unwrap().status, 200);
}

#[tokio::test]
async fn fields_that_are_too_large_can_be_answered() {
    let (server, client) = memory::pair();
    let section = Limits { bytes: 300, fields: 10 };
    let message = MessageLimits { section, ..MessageLimits::default() };
    let mut config = Config::default();
    config.message = message;
    start_server(&server, config, |mut request| async move {
        let error = request.head().await.unwrap_err();
        assert_eq!(error.protocol().unwrap().kind, Kind::FieldsTooLarge);
        request.respond(&[(":status", "431")], Bytes::new()).await.unwrap();
    });
    let mut sender = start_client(&client);
    let value = "y".repeat(300);
    let large = [&GET[..], &[("x", &value)]].concat();
    let mut stream = sender.open(&large[..]).await.unwrap();
    assert_eq!(stream.head().await.unwrap().status, 431);
    assert_eq!(client.stop_code(0), Some(Code::H3_EXCESSIVE_LOAD.0));
    assert_eq!(client.close_code(), None);
}

#[tokio::test]
async fn dropped_streams_are_reset_and_never_look_complete() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        let path = match request.head().await {
            Ok(_) => request.fields().get(b":path").unwrap().to_vec(),
            // Dropped without a response.
            Err(_) => return,
        };
        request.sender().send_head(&OK).await.unwrap();
        request.sender().send_data(Bytes::from_static(b"half")).await.unwrap();
        if path == b"/panic" {
            std::panic::panic_any("on purpose");
        }
    });
    let mut sender = start_client(&client);
    for (path, code) in [("/drop", Code::H3_REQUEST_CANCELLED), ("/panic", Code::H3_INTERNAL_ERROR)]
    {
        let fields = [GET[0], GET[1], GET[2], (":path", path)];
        let mut stream = sender.send(&fields, Bytes::new()).await.unwrap();
        let error = match stream.head().await {
            Ok(_) => body(&mut stream).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Peer(found) if found == code), "{path}: {error}");
    }
    // A malformed request is reset with its code, and one that was cut off, too.
    let mut stream = sender.send(&[(":method", "GET")], Bytes::new()).await.unwrap();
    let error = stream.head().await.unwrap_err();
    assert!(matches!(error, Error::Peer(Code::H3_MESSAGE_ERROR)), "{error}");
    let (mut cut, _receive) = client.open().await;
    cut.finish().unwrap();
    settle().await;
    assert_eq!(client.inspect(12, |pipe| pipe.reset), Some(Code::H3_REQUEST_INCOMPLETE.0));
    assert_eq!(client.close_code(), None);
}

#[tokio::test]
async fn request_whose_end_has_arrived_is_not_stopped() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        request.respond(&OK, Bytes::new()).await.unwrap();
    });
    let mut sender = start_client(&client);
    let mut whole = sender.send(&GET, Bytes::new()).await.unwrap();
    let mut open = sender.open(&GET).await.unwrap();
    let mut unread = sender.send(&GET, Bytes::from_static(b"body")).await.unwrap();
    for stream in [&mut whole, &mut open, &mut unread] {
        assert_eq!(stream.head().await.unwrap().status, 200);
    }
    settle().await;
    assert_eq!(client.stop_code(0), None);
    assert_eq!(client.stop_code(4), Some(Code::H3_NO_ERROR.0));
    assert_eq!(client.stop_code(8), Some(Code::H3_NO_ERROR.0));
}

#[tokio::test]
async fn client_that_drops_a_request_cancels_it() {
    let (server, client) = memory::pair();
    let mut sender = start_client(&client);
    drop(sender.open(&GET).await.unwrap());
    assert_eq!(server.inspect(0, |pipe| pipe.reset), Some(Code::H3_REQUEST_CANCELLED.0));
    assert_eq!(server.stop_code(0), Some(Code::H3_REQUEST_CANCELLED.0));
}

#[tokio::test]
async fn requests_after_goaway_fail_and_are_not_processed() {
    let (transport, client) = memory::pair();
    let mut sender = start_client(&client);
    let mut server = Server::new(transport, Config::default());
    let mut first = sender.send(&GET, Bytes::new()).await.unwrap();
    let mut request = server.accept().await.unwrap().unwrap();
    server.shutdown(1).unwrap();
    // Both requests are on their way when GOAWAY arrives; one of them is accepted.
    let mut second = sender.send(&GET, Bytes::new()).await.unwrap();
    let mut third = sender.send(&GET, Bytes::new()).await.unwrap();
    let mut accepted = server.accept().await.unwrap().unwrap();
    let serving = tokio::spawn(async move { server.accept().await.map(|_| ()) });
    for request in [&mut request, &mut accepted] {
        request.head().await.unwrap();
        request.respond(&OK, Bytes::new()).await.unwrap();
    }
    assert!(first.head().await.is_ok() && second.head().await.is_ok());
    let rejected = third.head().await.unwrap_err();
    assert!(matches!(rejected, Error::Peer(Code::H3_REQUEST_REJECTED)), "{rejected}");
    assert!(rejected.is_retryable());
    assert!(!sender.is_open());
    assert!(matches!(sender.send(&GET, Bytes::new()).await, Err(Error::GoAway)));
    drop(first);
    client.close(Code::H3_NO_ERROR.0, b"");
    assert!(serving.await.unwrap().is_ok(), "a graceful end is no error");
}

/// The server neither resets nor answers the rejected requests, which wait when GOAWAY arrives.
#[tokio::test]
async fn waiting_requests_fail_when_goaway_rejects_them() {
    let (server, client) = memory::pair();
    client.set_capacity(50);
    let mut sender = start_client(&client);
    let mut control = server.open_unidirectional().await;
    control.write(b"\0\x04\0");
    let wait = |mut stream: client::RequestStream<Connection>| {
        tokio::spawn(async move { stream.head().await.map(|_| ()) })
    };
    let accepted = wait(sender.send(&GET, Bytes::new()).await.unwrap());
    let rejected = wait(sender.send(&GET, Bytes::new()).await.unwrap());
    // The body of this one is larger than the stream permits.
    let mut sending = sender.open(&GET).await.unwrap();
    let sending =
        tokio::spawn(
            async move { sending.sender().send_data(Bytes::from_static(&[0; 1_000])).await },
        );
    settle().await;
    assert!(!rejected.is_finished() && !sending.is_finished());
    // The ID of the first GOAWAY is above all requests.
    control.write(b"\x07\x01\x10");
    settle().await;
    assert!(!rejected.is_finished() && !sending.is_finished());
    control.write(b"\x07\x01\x04");
    for failed in [rejected.await.unwrap(), sending.await.unwrap()] {
        assert!(matches!(&failed, Err(Error::GoAway)), "{failed:?}");
        assert!(failed.unwrap_err().is_retryable());
    }
    for (stream, code) in [(4, None), (8, Some(Code::H3_REQUEST_CANCELLED.0))] {
        assert_eq!(server.stop_code(stream), Some(Code::H3_REQUEST_CANCELLED.0));
        assert_eq!(server.inspect(stream, |pipe| pipe.reset), code);
    }
    let (mut send, _receive) = server.accept().await;
    send.write(b"\x01\x03\0\0\xd9");
    drop(send);
    assert!(accepted.await.unwrap().is_ok(), "requests below the ID go on");
    assert_eq!(server.close_code(), None);
}

#[tokio::test]
async fn halves_are_reset_with_the_code_of_a_malformed_message() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |request| async move {
        let (send, mut receive) = request.split();
        let read = tokio::spawn(async move {
            let head = receive.head().await;
            while head.is_ok() && matches!(receive.data().await, Ok(Some(_))) {}
        });
        read.await.unwrap();
        drop(send);
    });
    let mut sender = start_client(&client);
    let short = [&GET[..], &[("content-length", "9")]].concat();
    let upper = [&GET[..], &[("Upper", "a")]].concat();
    for (fields, code) in [
        (&upper[..], Code::H3_MESSAGE_ERROR),
        (&short, Code::H3_MESSAGE_ERROR),
        // It was read, so the client must not send it again.
        (&GET, Code::H3_REQUEST_CANCELLED),
    ] {
        let mut stream = sender.send(fields, Bytes::from_static(b"body")).await.unwrap();
        let error = stream.head().await.unwrap_err();
        assert!(matches!(error, Error::Peer(found) if found == code), "{fields:?}: {error}");
    }
    assert_eq!(client.close_code(), None);
}

#[tokio::test]
async fn priorities_arrive_as_events() {
    let (transport, client) = memory::pair();
    let (mut driver, mut sender) = client::Connection::new(client, Config::default());
    let mut server = Server::new(transport.clone(), Config::default());
    let priority = Priority { urgency: 1, incremental: true };
    let stream = sender.send(&GET, Bytes::new()).await.unwrap();
    driver.update_priority(0, Priority::default()).unwrap();
    driver.update_priority(0, priority).unwrap();
    let event = poll_fn(|cx| server.poll_event(cx)).await.unwrap().unwrap();
    let server::Event::PriorityUpdate { stream: 0, priority: found } = event else {
        panic!("no priority update")
    };
    assert_eq!(found, priority);
    let mut request = server.accept().await.unwrap().unwrap();
    request.sender().set_priority(found);
    assert_eq!(stream.id(), 0);
}

#[tokio::test]
async fn datagrams_belong_to_their_request() {
    let (transport, client) = memory::pair();
    let mut server = Server::new(transport, Config::default());
    let datagram = Datagram { stream: 8, payload: Bytes::from_static(b"x") };
    client.send_datagram(datagram.write()).unwrap();
    assert_eq!(poll_fn(|cx| server.poll_datagram(cx)).await.unwrap(), datagram);
    client.send_datagram(Bytes::new()).unwrap();
    assert!(poll_fn(|cx| server.poll_datagram(cx)).await.is_err());
    assert_eq!(client.close_code(), Some(Code::H3_DATAGRAM_ERROR.0));
}

/// Polls a future once and drops it.
fn is_pending(future: impl Future) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test]
async fn cancelled_writes_lose_no_data() {
    let (server, client) = memory::pair();
    client.set_capacity(7);
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        // Every write is cancelled once it is pending.
        assert!(is_pending(request.sender().send_head(&OK)));
        for part in 0..10_u8 {
            let data = Bytes::from(vec![part; 20]);
            assert!(is_pending(request.sender().send_data(data)) || part == 0);
            // The next operation sends the rest first.
            poll_fn(|cx| request.sender().poll_flush(cx)).await.unwrap();
        }
        request.sender().finish().await.unwrap();
    });
    let mut sender = start_client(&client);
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    stream.head().await.unwrap();
    let received = body(&mut stream).await.unwrap();
    assert_eq!(received.len() % 20, 0);
    assert!(received.chunks(20).all(|part| part.iter().all(|byte| *byte == part[0])));
}

#[tokio::test]
async fn delivery_is_reported() {
    let (server, client) = memory::pair();
    start_server(&server, Config::default(), |mut request| async move {
        request.head().await.unwrap();
        request.respond(&OK, Bytes::from_static(b"a")).await.unwrap();
        let delivered = poll_fn(|cx| request.sender().poll_delivered(cx)).await;
        assert_eq!(delivered.unwrap(), None);
        assert!(request.sender().finish().await.is_err(), "the stream is finished");
    });
    let mut sender = start_client(&client);
    let mut stream = sender.send(&GET, Bytes::new()).await.unwrap();
    stream.head().await.unwrap();
    assert_eq!(body(&mut stream).await.unwrap(), b"a");
    settle().await;
}

#[tokio::test]
async fn sections_that_wait_fail_when_the_connection_ends() {
    let (transport, client) = memory::pair();
    let mut config = Config::default();
    (config.qpack_table_capacity, config.qpack_blocked_streams) = (4_096, 1);
    let mut server = Server::new(transport, config);
    let (mut send, _receive) = client.open().await;
    // It requires an entry that never arrives.
    send.write(b"\x01\x03\x02\0\x80");
    let mut request = server.accept().await.unwrap().unwrap();
    let waiting = tokio::spawn(async move { request.head().await.map(|_| ()) });
    let serving = tokio::spawn(async move { server.accept().await.map(|_| ()) });
    settle().await;
    assert!(!waiting.is_finished());
    client.close(Code::H3_NO_ERROR.0, b"");
    settle().await;
    assert!(serving.is_finished() && waiting.is_finished());
    assert!(matches!(waiting.await.unwrap(), Err(Error::Connection(_))));
}

#[tokio::test]
async fn sections_wait_for_the_dynamic_table() {
    let (server, client) = memory::pair();
    let mut config = Config::default();
    (config.qpack_table_capacity, config.qpack_blocked_streams) = (4_096, 1);
    start_server(&server, config, |mut request| async move {
        request.head().await.unwrap();
        assert_eq!(request.fields().get(b"a"), Some(&b"b"[..]));
        request.respond(&OK, Bytes::new()).await.unwrap();
    });
    let (mut send, mut receive) = client.open().await;
    // Three static fields, and entry 0 of the dynamic table, with a required insert count of 1.
    send.write(b"\x01\x09\x02\0\xd1\xd7\x50\x01a\xc1");
    send.write(b"\x80");
    drop(send);
    settle().await;
    assert_eq!(client.inspect(0, |pipe| pipe.writes), 0, "the request waits");
    let mut encoder = client.open_unidirectional().await;
    encoder.write(b"\x02\x3f\xbd\x01\x41a\x01b");
    settle().await;
    assert_eq!(client.close_code(), None);
    let response = poll_fn(|cx| receive.poll_chunk(cx)).await.unwrap().unwrap();
    assert_eq!(response[0], 1, "a HEADERS frame");
    // The decoder stream: an insert count increment, the acknowledgement of the section, and a
    // cancellation, because the server did not read the end of the request.
    let mut sent = Vec::new();
    for _ in 0..2 {
        let mut stream = client.accept_unidirectional().await;
        let mut bytes = Vec::new();
        while let Poll::Ready(Ok(Some(chunk))) =
            poll_fn(|cx| Poll::Ready(stream.poll_chunk(cx))).await
        {
            bytes.extend_from_slice(&chunk);
        }
        sent.push(bytes);
    }
    assert!(sent.contains(&vec![3, 0x01, 0x80, 0x40]), "{sent:?}");
}
