//! A server with several event loops, each with a socket of its own at the same address.

use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Buf;
use fathom_http::identity::ALPN;
use fathom_http::limits::Limits;
use fathom_http::server::{Server, Settings};
use fathom_stacks::Stack;
use http::{Method, Request};
use quinn::Endpoint;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::common::{Running, request, settings, start_with, within};

/// Starts a server with this number of loops.
fn start(stack: Stack, loops: u8) -> Running {
    let threads = NonZeroU8::new(loops).unwrap();
    let settings = Settings { threads, ..settings(stack, "reno", None, Limits::default()) };
    start_with(settings, Duration::from_secs(5))
}

#[tokio::test]
async fn connection_survives_changes_of_the_clients_address() {
    for stack in Stack::ALL.iter().filter(|stack| stack.is_everywhere()) {
        let running = start(*stack, 3);
        for _ in 0..3 {
            let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let connection = endpoint
                .connect_with(running.client.clone(), running.address, "localhost")
                .unwrap();
            let connection = within(connection).await.unwrap();
            let (mut driver, mut sender) =
                h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
            tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
            // The kernel's choice by address would change with two of three ports. quiche 0.30 loses
            // a connection whose client moves five times.
            for turn in 0..4 {
                let moved = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                endpoint.rebind(moved).unwrap();
                let answered = async {
                    let request = Request::get("https://localhost/bytes/5000").body(()).unwrap();
                    let mut stream = sender.send_request(request).await.unwrap();
                    stream.finish().await.unwrap();
                    stream.recv_response().await.unwrap();
                    let mut bytes = 0;
                    while let Some(data) = stream.recv_data().await.unwrap() {
                        bytes += data.remaining();
                    }
                    bytes
                };
                assert_eq!(within(answered).await, 5000, "{stack}, move {turn}");
            }
        }
        running.end().await;
    }
}

/// Verifier that accepts every certificate, and counts them. A resumed session shows none.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl ServerCertVerifier for Counting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

#[tokio::test]
async fn session_of_one_loop_is_resumed_on_every_other() {
    for stack in Stack::ALL.iter().filter(|stack| stack.is_everywhere()) {
        let mut running = start(*stack, 3);
        let shown = Arc::new(Counting::default());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&shown) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        running.client =
            quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        // Each connection goes to a random loop.
        for _ in 0..12 {
            let connection = within(running.connect()).await.unwrap();
            within(request(&connection, Method::GET, "/bytes/10")).await.unwrap();
        }
        assert_eq!(shown.0.load(Ordering::Relaxed), 1, "{stack}");
        running.end().await;
    }
}

#[tokio::test]
async fn address_of_a_server_with_several_loops_is_taken() {
    for (loops, others) in [(3, 1), (3, 3), (1, 3)] {
        let running = start(Stack::Quinn, loops);
        let second = Settings {
            listen: running.address,
            threads: NonZeroU8::new(others).unwrap(),
            ..settings(Stack::Quinn, "reno", None, Limits::default())
        };
        let refused = Server::bind(second).map(drop).unwrap_err().to_string();
        assert!(refused.contains("cannot listen on"), "{loops} and {others}: {refused}");
        running.end().await;
    }
}

#[tokio::test]
async fn one_socket_serves_all_loops() {
    // sdc's shaping socket has one endpoint.
    let threads = NonZeroU8::new(3).unwrap();
    let settings = Settings { threads, ..settings(Stack::Quinn, "sdc", None, Limits::default()) };
    let running = start_with(settings, Duration::from_secs(5));
    for _ in 0..6 {
        let (_, _, body) = within(running.get("/bytes/5000")).await;
        assert_eq!(body.len(), 5000);
    }
    running.end().await;
}
