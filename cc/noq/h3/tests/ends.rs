//! Tests of requests and connections that end abnormally: codes, shutdowns, timeouts, cancelled
//! sends.
#![allow(
    clippy::unneeded_struct_pattern,
    reason = "needed unless h3's features for back ends are on"
)]

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use common::clock::ManualClock;
use common::{
    body, fetch, get, loopback, noq_client_on, noq_server_on, open, pair, pair_on, pair_with,
    request,
};
use common::{serve, tls, within};
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{ConnectionErrorIncoming, StreamId};
use h3::server::RequestStream;
use h3_noq::{BidiStream, Connection, NotReady};
use http::{Method, Request, Response, StatusCode};
use noq::TransportConfig;

type Server = h3::server::Connection<Connection, Bytes>;

async fn server(connection: &noq::Connection) -> Server {
    h3::server::builder().build(Connection::new(connection.clone())).await.expect("HTTP")
}

async fn accept(server: &mut Server) -> (Request<()>, RequestStream<BidiStream<Bytes>, Bytes>) {
    let resolver = server.accept().await.expect("a connection").expect("a request");
    resolver.resolve_request().await.expect("a head")
}

fn ok() -> Response<()> {
    Response::new(())
}

#[track_caller]
fn terminated(error: StreamError, expected: Code) {
    let StreamError::RemoteTerminate { code, .. } = error else { panic!("{error:?}") };
    assert_eq!(code, expected);
}

#[track_caller]
fn closed(error: &ConnectionError, expected: u64) {
    let ConnectionError::Remote {
        0: ConnectionErrorIncoming::ApplicationClose { error_code }, ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*error_code, expected);
}

#[track_caller]
fn lost(error: StreamError) -> ConnectionError {
    let StreamError::ConnectionError { 0: error, .. } = error else { panic!("{error:?}") };
    error
}

fn window(bytes: u16) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(bytes.into());
    transport
}

#[tokio::test]
async fn server_sees_the_code_of_a_request_reset_mid_body() {
    within(async {
        let pair = pair().await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut upload = requests.send_request(request(Method::POST, "/")).await.expect("a stream");
        upload.send_data(body(500)).await.expect("sent");
        let (_, mut stream) = accept(&mut server).await;
        let first = stream.recv_data().await.expect("data").expect("data");
        assert_eq!(first.remaining(), 500);
        drop(first);
        upload.stop_stream(Code::H3_REQUEST_CANCELLED);
        terminated(stream.recv_data().await.err().expect("a reset"), Code::H3_REQUEST_CANCELLED);
    })
    .await;
}

#[tokio::test]
async fn client_sees_the_code_of_a_response_reset_mid_body() {
    within(async {
        let pair = pair().await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut download = requests.send_request(get("/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        stream.send_data(body(500)).await.expect("sent");
        download.recv_response().await.expect("a head");
        assert_eq!(download.recv_data().await.expect("data").expect("data").remaining(), 500);
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
        terminated(download.recv_data().await.err().expect("a reset"), Code::H3_INTERNAL_ERROR);
    })
    .await;
}

#[tokio::test]
async fn client_sees_the_code_with_which_server_stops_a_request() {
    within(async {
        let pair = pair_with(window(1_000), TransportConfig::default()).await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut upload = requests.send_request(request(Method::POST, "/")).await.expect("a stream");
        let stop = async {
            let (_, mut stream) = accept(&mut server).await;
            stream.stop_sending(Code::H3_EXCESSIVE_LOAD);
            stream
        };
        // The body exceeds the window, so the send still waits when the stop arrives.
        let (sent, _stream) = tokio::join!(upload.send_data(body(100_000)), stop);
        terminated(sent.expect_err("stopped"), Code::H3_EXCESSIVE_LOAD);
        terminated(upload.finish().await.expect_err("stopped"), Code::H3_EXCESSIVE_LOAD);
    })
    .await;
}

/// RFC 9114 §4.1: a server that needs no more of a request sends H3_NO_ERROR. RFC 9114 §4.1.1: a
/// client that cancels sends H3_REQUEST_CANCELLED.
#[tokio::test]
async fn unread_streams_are_stopped_with_the_code_of_rfc_9114() {
    within(async {
        let pair = pair_with(window(1_000), window(1_000)).await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut upload = requests.send_request(request(Method::POST, "/")).await.expect("a stream");
        let respond = async {
            let (_, mut stream) = accept(&mut server).await;
            stream.send_response(ok()).await.expect("sent");
            stream.finish().await.expect("sent");
        };
        let (sent, ()) = tokio::join!(upload.send_data(body(100_000)), respond);
        terminated(sent.expect_err("stopped"), Code::H3_NO_ERROR);
        assert_eq!(
            upload.recv_response().await.expect("a response in spite of it").status(),
            StatusCode::OK
        );

        let download = requests.send_request(get("/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        drop(download);
        terminated(
            stream.send_data(body(100_000)).await.expect_err("stopped"),
            Code::H3_REQUEST_CANCELLED,
        );
    })
    .await;
}

#[tokio::test]
async fn stopping_a_body_fails_the_stream_but_not_the_connection() {
    within(async {
        let pair = pair_with(TransportConfig::default(), window(1_000)).await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut download = requests.send_request(get("/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        let stop = async {
            download.recv_response().await.expect("a head");
            download.stop_sending(Code::H3_REQUEST_CANCELLED);
            let after = download.recv_data().await.err().expect("no data after a stop");
            assert!(matches!(after, StreamError::Undefined { .. }), "{after:?}");
        };
        let (sent, ()) = tokio::join!(stream.send_data(body(100_000)), stop);
        terminated(sent.expect_err("stopped"), Code::H3_REQUEST_CANCELLED);

        let mut next = requests.send_request(get("/")).await.expect("the connection goes on");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        assert_eq!(next.recv_response().await.expect("a response").status(), StatusCode::OK);
    })
    .await;
}

/// A FIN in the middle of a frame would be taken for the end of the body, or would end the
/// connection.
#[tokio::test]
async fn response_dropped_in_the_middle_of_a_frame_is_reset() {
    within(async {
        let pair = pair_with(TransportConfig::default(), window(1_000)).await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut download = requests.send_request(get("/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        tokio::time::timeout(Duration::from_millis(20), stream.send_data(body(100_000)))
            .await
            .expect_err("no room");
        download.recv_response().await.expect("a head");
        drop(stream);
        let error = loop {
            match download.recv_data().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the body ended as if it were whole"),
                Err(error) => break error,
            }
        };
        terminated(error, Code::H3_REQUEST_CANCELLED);

        let mut next = requests.send_request(get("/")).await.expect("the connection goes on");
        let (_, mut stream) = accept(&mut server).await;
        stream.send_response(ok()).await.expect("sent");
        assert_eq!(next.recv_response().await.expect("a response").status(), StatusCode::OK);
    })
    .await;
}

#[tokio::test]
async fn cancelled_send_affects_only_its_stream() {
    within(async {
        let pair = pair_with(window(1_000), TransportConfig::default()).await;
        let mut server = server(&pair.server).await;
        let (mut driver, mut requests) = h3::client::builder()
            .send_grease(false)
            .build::<_, _, Bytes>(Connection::new(pair.client.clone()))
            .await
            .expect("HTTP");
        let driver = tokio::spawn(async move { driver.wait_idle().await });
        let mut upload = requests.send_request(request(Method::POST, "/")).await.expect("a stream");
        tokio::time::timeout(Duration::from_millis(20), upload.send_data(body(50_000)))
            .await
            .expect_err("no room");
        match upload.send_data(body(1)).await {
            Err(StreamError::Undefined { 0: error, .. }) => {
                assert_eq!(error.downcast_ref(), Some(&NotReady))
            }
            other => panic!("{other:?}"),
        }
        let read = async {
            let (_, mut stream) = accept(&mut server).await;
            let mut got = Vec::new();
            while let Some(mut data) = stream.recv_data().await.expect("data") {
                got.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
            got
        };
        let (finished, got) = tokio::join!(upload.finish(), read);
        finished.expect("finished");
        assert!(got == body(50_000), "{} bytes", got.len());
        assert!(!driver.is_finished());
    })
    .await;
}

#[tokio::test]
async fn close_codes_reach_the_peer() {
    within(async {
        // The client closes the noq connection. The server sees the code on a request, too.
        let pair = pair().await;
        let mut server_end = server(&pair.server).await;
        let (mut requests, driver) = open(Connection::new(pair.client.clone())).await;
        let _upload = requests.send_request(request(Method::POST, "/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server_end).await;
        pair.client.close(0x10f_u32.into(), b"because");
        closed(&lost(stream.recv_data().await.err().expect("closed")), 0x10f);
        closed(&server_end.accept().await.err().expect("closed"), 0x10f);
        // The client is told that it closed the connection itself.
        let own = driver.await.expect("no panic");
        let ConnectionError::Remote { 0: ConnectionErrorIncoming::Undefined(inner), .. } = own
        else {
            panic!("{own:?}")
        };
        assert_eq!(inner.downcast_ref(), Some(&noq::ConnectionError::LocallyClosed));

        // The server's h3 closes the connection.
        let pair = common::pair().await;
        let server_end = server(&pair.server).await;
        let (mut requests, driver) = open(Connection::new(pair.client.clone())).await;
        let mut download = requests.send_request(get("/")).await.expect("a stream");
        drop(server_end);
        closed(
            &lost(download.recv_response().await.expect_err("closed")),
            Code::H3_NO_ERROR.value(),
        );
        let error = driver.await.expect("no panic");
        closed(&error, Code::H3_NO_ERROR.value());
        assert!(error.is_h3_no_error());

        // The client's h3 closes the connection, because the last handle of the client is dropped.
        let pair = common::pair().await;
        let mut server_end = server(&pair.server).await;
        let (requests, driver) = open(Connection::new(pair.client.clone())).await;
        drop(requests);
        closed(&server_end.accept().await.err().expect("closed"), Code::H3_NO_ERROR.value());
        assert!(driver.await.expect("no panic").is_h3_no_error());
    })
    .await;
}

#[tokio::test]
async fn goaway_finishes_open_requests_and_refuses_new_ones() {
    within(async {
        let pair = pair().await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let mut running = requests.send_request(get("/")).await.expect("a stream");
        let (_, mut stream) = accept(&mut server).await;
        server.shutdown(0).await.expect("GOAWAY sent");
        while !matches!(
            requests.send_request(get("/late")).await,
            Err(StreamError::RemoteClosing { .. })
        ) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stream.send_response(ok()).await.expect("sent");
        stream.send_data(body(10_000)).await.expect("sent");
        stream.finish().await.expect("sent");
        assert_eq!(running.recv_response().await.expect("a response").status(), StatusCode::OK);
        let mut got = 0;
        while let Some(data) = running.recv_data().await.expect("data") {
            got += data.remaining();
        }
        assert_eq!(got, 10_000);
    })
    .await;
}

/// RFC 9114 §5.2: requests after the last one that GOAWAY permits are rejected.
#[tokio::test]
async fn request_sent_while_goaway_is_in_flight_is_rejected() {
    within(async {
        let pair = pair().await;
        let mut server = server(&pair.server).await;
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let _first = requests.send_request(get("/")).await.expect("a stream");
        let (_, stream) = accept(&mut server).await;
        assert_eq!(stream.id(), StreamId::try_from(0).expect("an id"));
        // The client sends this before its driver has read the GOAWAY.
        let mut late = requests.send_request(get("/late")).await.expect("a stream");
        server.shutdown(0).await.expect("GOAWAY sent");
        tokio::select! {
            response = late.recv_response() => {
                terminated(response.expect_err("rejected"), Code::H3_REQUEST_REJECTED);
            }
            _ = server.accept() => panic!("nothing to accept while the first request runs"),
        }
        drop(stream);
    })
    .await;
}

fn idle() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_millis(200).try_into().expect("a timeout")));
    transport
}

#[track_caller]
fn timed_out(error: &ConnectionError) {
    assert!(matches!(error, ConnectionError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn client_times_out_if_the_server_falls_silent() {
    within(async {
        let clock = ManualClock::new();
        let pair = pair_on(idle(), idle(), Arc::new(clock.clone())).await;
        let mut server = server(&pair.server).await;
        let (mut requests, driver) = open(Connection::new(pair.client.clone())).await;
        let mut unanswered = requests.send_request(get("/")).await.expect("a stream");
        let (_, _stream) = accept(&mut server).await;
        // From now on, the server sends from another address, which the client ignores. No time has
        // passed until then, so the server has not given up the connection and reset it.
        pair.server_endpoint
            .rebind(std::net::UdpSocket::bind(loopback()).expect("a socket"))
            .expect("rebound");
        timed_out(&lost(
            clock.go_until(unanswered.recv_response()).await.expect_err("nobody answers"),
        ));
        timed_out(&driver.await.expect("no panic"));
    })
    .await;
}

#[tokio::test]
async fn server_times_out_if_the_client_vanishes() {
    within(async {
        let (tls, clock) = (tls(), ManualClock::new());
        let endpoint = noq_server_on(&tls, idle(), Arc::new(clock.clone()));
        let to = endpoint.local_addr().expect("bound");
        let (vanish, reset) = tokio::sync::oneshot::channel();
        let client = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let left = runtime.block_on(async {
                let endpoint = noq_client_on(&tls, idle(), Arc::new(ManualClock::new()));
                let connection =
                    endpoint.connect(to, "localhost").expect("begun").await.expect("a handshake");
                let (mut requests, _driver) = open(Connection::new(connection)).await;
                let stream =
                    requests.send_request(request(Method::POST, "/")).await.expect("a stream");
                reset.await.expect("the request is there");
                (requests, stream)
            });
            // End the tasks first, so that no close is sent when the handles are dropped.
            drop(runtime);
            drop(left);
        });
        let connection = endpoint.accept().await.expect("a client").await.expect("a handshake");
        let mut server = server(&connection).await;
        let (_, mut stream) = accept(&mut server).await;
        vanish.send(()).expect("the client waits");
        client.join().expect("no panic");
        timed_out(&lost(clock.go_until(stream.recv_data()).await.err().expect("nobody sends")));
        timed_out(&server.accept().await.err().expect("nobody asks"));
    })
    .await;
}

/// The client breaks the HTTP/3 protocol directly on QUIC. h3's own error code must arrive at the
/// other end.
#[tokio::test]
async fn http_errors_close_the_connection_with_their_code() {
    within(async {
        let pair = pair().await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        // A control stream (type 0) whose first frame is GOAWAY (7), not SETTINGS:
        // H3_MISSING_SETTINGS.
        let mut control = pair.client.open_uni().await.expect("a stream");
        control.write_all(&[0, 7, 1, 0]).await.expect("written");
        let noq::ConnectionError::ApplicationClosed(close) = pair.client.closed().await else {
            panic!("not by h3")
        };
        assert_eq!(close.error_code.into_inner(), Code::H3_MISSING_SETTINGS.value());

        // The same stack works without the mistake, so the mistake caused the close.
        let pair = common::pair().await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        assert_eq!(
            fetch(&mut requests, get("/nowhere"), Bytes::new()).await.0,
            StatusCode::NOT_FOUND
        );
    })
    .await;
}
