//! HTTP/3 between noq and quinn, the stack for which h3 was developed.

use crate::common;

use std::sync::Arc;

use bytes::Bytes;
use common::{
    Tls, body, fetch, get, loopback, noq_client, noq_server, open, request, serve, tls, within,
};
use h3::client::SendRequest;
use h3::quic;
use http::{Method, StatusCode};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

fn quinn_server(tls: &Tls) -> quinn::Endpoint {
    let crypto = QuicServerConfig::try_from(Arc::clone(&tls.server)).expect("TLS 1.3 suites");
    quinn::Endpoint::server(quinn::ServerConfig::with_crypto(Arc::new(crypto)), loopback())
        .expect("a server")
}

fn quinn_client(tls: &Tls) -> quinn::Endpoint {
    let crypto = QuicClientConfig::try_from(Arc::clone(&tls.client)).expect("TLS 1.3 suites");
    let mut endpoint = quinn::Endpoint::client(loopback()).expect("a client");
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    endpoint
}

async fn download_and_upload<O: quic::OpenStreams<Bytes>>(mut requests: SendRequest<O, Bytes>) {
    for length in [0, 1, 1_000_000] {
        let (status, got) =
            fetch(&mut requests, get(&format!("/bytes/{length}")), Bytes::new()).await;
        assert_eq!(status, StatusCode::OK);
        assert!(got == body(length), "{length} bytes came as {}", got.len());
    }
    let (status, got) = fetch(&mut requests, request(Method::POST, "/echo"), body(300_000)).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(got == body(300_000));
}

#[tokio::test]
async fn quinn_client_exchanges_requests_with_a_noq_server() {
    within(async {
        let tls = tls();
        let server = noq_server(&tls, noq::TransportConfig::default());
        let to = server.local_addr().expect("bound");
        let serving = tokio::spawn(async move {
            let connection = server.accept().await.expect("a client").await.expect("a handshake");
            serve(h3_noq::Connection::new(connection)).await
        });
        let client = quinn_client(&tls);
        let connection =
            client.connect(to, "localhost").expect("begun").await.expect("a handshake");
        let (requests, driver) = open(h3_quinn::Connection::new(connection)).await;
        download_and_upload(requests).await;
        assert!(driver.await.expect("no panic").is_h3_no_error());
        let end = serving.await.expect("no panic");
        assert!(end.is_h3_no_error(), "the close of quinn's client came as {end:?}");
    })
    .await;
}

#[tokio::test]
async fn noq_client_exchanges_requests_with_a_quinn_server() {
    within(async {
        let tls = tls();
        let server = quinn_server(&tls);
        let to = server.local_addr().expect("bound");
        let serving = tokio::spawn(async move {
            let connection = server.accept().await.expect("a client").await.expect("a handshake");
            serve(h3_quinn::Connection::new(connection)).await
        });
        let client = noq_client(&tls, noq::TransportConfig::default());
        let connection =
            client.connect(to, "localhost").expect("begun").await.expect("a handshake");
        let (requests, driver) = open(h3_noq::Connection::new(connection)).await;
        download_and_upload(requests).await;
        assert!(driver.await.expect("no panic").is_h3_no_error());
        let end = serving.await.expect("no panic");
        assert!(end.is_h3_no_error(), "the close of noq's client came as {end:?}");
    })
    .await;
}
