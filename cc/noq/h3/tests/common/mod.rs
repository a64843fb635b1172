//! Endpoints on loopback, and an HTTP server and client for any QUIC stack that h3 can use.
#![allow(dead_code, reason = "every test file takes what it needs")]

pub(crate) mod clock;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::quic;
use h3::server::RequestResolver;
use http::{Method, Request, Response, StatusCode};
use noq::{Runtime, TokioRuntime};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::task::JoinHandle;

/// Longer than any test takes on a busy machine; only a hanging test reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test with a time limit.
pub(crate) async fn within<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(LIMIT, test).await.expect("done in time")
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

pub(crate) struct Tls {
    pub(crate) server: Arc<rustls::ServerConfig>,
    pub(crate) client: Arc<rustls::ClientConfig>,
}

pub(crate) fn tls() -> Tls {
    let signed =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let certificate: CertificateDer<'static> = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a server");
    server.alpn_protocols = vec![b"h3".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];
    Tls { server: Arc::new(server), client: Arc::new(client) }
}

pub(crate) fn noq_server(tls: &Tls, transport: noq::TransportConfig) -> noq::Endpoint {
    noq_server_on(tls, transport, Arc::new(TokioRuntime))
}

pub(crate) fn noq_server_on(
    tls: &Tls,
    transport: noq::TransportConfig,
    runtime: Arc<dyn Runtime>,
) -> noq::Endpoint {
    let crypto = noq::crypto::rustls::QuicServerConfig::try_from(Arc::clone(&tls.server))
        .expect("TLS 1.3 suites");
    let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    endpoint(Some(config), runtime)
}

fn endpoint(server: Option<noq::ServerConfig>, runtime: Arc<dyn Runtime>) -> noq::Endpoint {
    let socket = std::net::UdpSocket::bind(loopback()).expect("a socket");
    noq::Endpoint::new(noq::EndpointConfig::default(), server, socket, runtime)
        .expect("an endpoint")
}

pub(crate) fn noq_client(tls: &Tls, transport: noq::TransportConfig) -> noq::Endpoint {
    noq_client_on(tls, transport, Arc::new(TokioRuntime))
}

pub(crate) fn noq_client_on(
    tls: &Tls,
    transport: noq::TransportConfig,
    runtime: Arc<dyn Runtime>,
) -> noq::Endpoint {
    let crypto = noq::crypto::rustls::QuicClientConfig::try_from(Arc::clone(&tls.client))
        .expect("TLS 1.3 suites");
    let mut config = noq::ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let endpoint = endpoint(None, runtime);
    endpoint.set_default_client_config(config);
    endpoint
}

/// Two ends of one connection, with the endpoints that carry them.
pub(crate) struct Pair {
    pub(crate) server: noq::Connection,
    pub(crate) client: noq::Connection,
    pub(crate) server_endpoint: noq::Endpoint,
    client_endpoint: noq::Endpoint,
}

/// Connects two endpoints on loopback and completes the handshake.
pub(crate) async fn pair_with(server: noq::TransportConfig, client: noq::TransportConfig) -> Pair {
    pair_on(server, client, Arc::new(TokioRuntime)).await
}

/// Connects two endpoints as `pair_with` does, with another clock.
pub(crate) async fn pair_on(
    server: noq::TransportConfig,
    client: noq::TransportConfig,
    runtime: Arc<dyn Runtime>,
) -> Pair {
    let tls = tls();
    let (server, client) =
        (noq_server_on(&tls, server, Arc::clone(&runtime)), noq_client_on(&tls, client, runtime));
    let to = server.local_addr().expect("bound");
    let accept = async { server.accept().await.expect("a client").await.expect("a handshake") };
    let connect =
        async { client.connect(to, "localhost").expect("begun").await.expect("a handshake") };
    let (server_end, client_end) = tokio::join!(accept, connect);
    Pair {
        server: server_end,
        client: client_end,
        server_endpoint: server,
        client_endpoint: client,
    }
}

pub(crate) async fn pair() -> Pair {
    pair_with(noq::TransportConfig::default(), noq::TransportConfig::default()).await
}

/// Returns a body in which every byte depends on its position.
pub(crate) fn body(length: usize) -> Bytes {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<_>>().into()
}

/// Answers every request until the connection ends: `GET /bytes/N` with N bytes, and `POST /echo`
/// with the request's body.
pub(crate) async fn serve<C>(connection: C) -> h3::error::ConnectionError
where
    C: quic::Connection<Bytes> + 'static,
    C::BidiStream: Send,
    RequestResolver<C, Bytes>: Send,
{
    let mut http = match h3::server::builder().build::<C, Bytes>(connection).await {
        Ok(http) => http,
        Err(error) => return error,
    };
    loop {
        match http.accept().await {
            Ok(Some(request)) => drop(tokio::spawn(answer(request))),
            // The client sent GOAWAY. Its close ends the next iteration.
            Ok(None) => {}
            Err(error) => return error,
        }
    }
}

async fn answer<C>(resolver: RequestResolver<C, Bytes>)
where
    C: quic::Connection<Bytes>,
{
    let (request, mut stream) = resolver.resolve_request().await.expect("a request");
    let mut got = Vec::new();
    while let Some(mut data) = stream.recv_data().await.expect("the request's body") {
        got.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    let (status, body) = match request.uri().path().strip_prefix("/bytes/") {
        Some(length) => (StatusCode::OK, body(length.parse().expect("a length"))),
        None if request.uri().path() == "/echo" => (StatusCode::CREATED, got.into()),
        None => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    stream
        .send_response(Response::builder().status(status).body(()).expect("a response"))
        .await
        .expect("the head");
    if !body.is_empty() {
        stream.send_data(body).await.expect("the body");
    }
    stream.finish().await.expect("the end");
}

/// Opens the client's end of HTTP, and runs its driver in a separate task.
pub(crate) async fn open<C>(
    connection: C,
) -> (SendRequest<C::OpenStreams, Bytes>, JoinHandle<h3::error::ConnectionError>)
where
    C: quic::Connection<Bytes> + Send + 'static,
    C::OpenStreams: Send,
    C::SendStream: Send,
    C::RecvStream: Send,
{
    let (mut driver, requests) =
        h3::client::builder().build::<C, C::OpenStreams, Bytes>(connection).await.expect("HTTP");
    (requests, tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await }))
}

pub(crate) fn get(path: &str) -> Request<()> {
    request(Method::GET, path)
}

pub(crate) fn request(method: Method, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .body(())
        .expect("a request")
}

/// Sends one request and reads the whole response.
pub(crate) async fn fetch<O>(
    requests: &mut SendRequest<O, Bytes>,
    request: Request<()>,
    body: Bytes,
) -> (StatusCode, Vec<u8>)
where
    O: quic::OpenStreams<Bytes>,
{
    let mut stream = requests.send_request(request).await.expect("a stream");
    if !body.is_empty() {
        stream.send_data(body).await.expect("the request's body");
    }
    stream.finish().await.expect("the request's end");
    let response = stream.recv_response().await.expect("a response");
    let mut got = Vec::new();
    while let Some(mut data) = stream.recv_data().await.expect("the response's body") {
        got.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    (response.status(), got)
}
