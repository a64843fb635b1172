//! Tests of requests and responses over real sockets on loopback.

use crate::common;

use bytes::Bytes;
use common::{body, fetch, get, open, pair, pair_with, request, serve, within};
use h3_noq::Connection;
use http::{Method, StatusCode};

#[tokio::test]
async fn responses_of_any_length_arrive_whole() {
    within(async {
        let pair = pair().await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        for length in [0, 1, 1_000_000] {
            let (status, got) =
                fetch(&mut requests, get(&format!("/bytes/{length}")), Bytes::new()).await;
            assert_eq!(status, StatusCode::OK);
            assert!(got == body(length), "{length} bytes came as {}", got.len());
        }
    })
    .await;
}

#[tokio::test]
async fn request_body_arrives_whole() {
    within(async {
        let pair = pair().await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let (status, got) =
            fetch(&mut requests, request(Method::POST, "/echo"), body(700_000)).await;
        assert_eq!(status, StatusCode::CREATED);
        assert!(got == body(700_000));
    })
    .await;
}

#[tokio::test]
async fn fifty_requests_share_a_connection() {
    within(async {
        let pair = pair().await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let running: Vec<_> = (0..50)
            .map(|i| {
                let mut requests = requests.clone();
                let length = 1 + 701 * i;
                tokio::spawn(async move {
                    let got =
                        fetch(&mut requests, get(&format!("/bytes/{length}")), Bytes::new()).await;
                    assert!(got == (StatusCode::OK, body(length).to_vec()), "{length} bytes");
                })
            })
            .collect();
        for one in running {
            one.await.expect("a response");
        }
    })
    .await;
}

/// The server allows one request at a time, so 49 of 50 requests wait for their turn.
#[tokio::test]
async fn requests_wait_until_the_peer_allows_a_stream() {
    within(async {
        let mut one = noq::TransportConfig::default();
        one.max_concurrent_bidi_streams(1u8.into());
        let pair = pair_with(one, noq::TransportConfig::default()).await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let running: Vec<_> = (0..50)
            .map(|i| {
                let mut requests = requests.clone();
                tokio::spawn(async move {
                    fetch(&mut requests, get(&format!("/bytes/{i}")), Bytes::new()).await
                })
            })
            .collect();
        for (i, one) in running.into_iter().enumerate() {
            assert_eq!(one.await.expect("a response"), (StatusCode::OK, body(i).to_vec()));
        }
    })
    .await;
}

/// The windows hold a hundredth of the body, so writes and reads stop and resume many times.
#[tokio::test]
async fn bodies_larger_than_the_windows_arrive_whole() {
    within(async {
        let small = || {
            let mut small = noq::TransportConfig::default();
            small.stream_receive_window(3_000u16.into()).send_window(3_000);
            small
        };
        let pair = pair_with(small(), small()).await;
        tokio::spawn(serve(Connection::new(pair.server.clone())));
        let (mut requests, _driver) = open(Connection::new(pair.client.clone())).await;
        let (_, got) = fetch(&mut requests, request(Method::POST, "/echo"), body(300_000)).await;
        assert!(got == body(300_000));
    })
    .await;
}
