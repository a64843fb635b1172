//! Failing crypto providers, and TLS configurations that cannot carry QUIC, on quinn and noq over
//! loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fathom_plugin_testing::{Identity, failing, identity, identity_with};
use parking_lot::Mutex;
use rustls::CipherSuite;
use tokio::net::UdpSocket;

const SUITES: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256];
/// Data that the application sends, recognised wherever it appears.
const SECRET: &[u8; 16] = b"nobody reads me!";
/// Time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Datagrams that passed the tap.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Forwards datagrams between one client and `to`, and records those of the client.
async fn tap(to: SocketAddr) -> (SocketAddr, Seen, tokio::task::JoinHandle<()>) {
    let [front, back] = ["127.0.0.1:0"; 2].map(UdpSocket::bind);
    let (front, back) = (front.await.expect("bound"), back.await.expect("bound"));
    let (at, seen) = (front.local_addr().expect("bound"), Seen::default());
    let recorded = Arc::clone(&seen);
    let task = tokio::spawn(async move {
        let (mut up, mut down) = ([0; 2_048], [0; 2_048]);
        let mut client = None;
        loop {
            tokio::select! {
                Ok((len, from)) = front.recv_from(&mut up) => {
                    client = Some(from);
                    recorded.lock().push(up[..len].to_vec());
                    let _ = back.send_to(&up[..len], to).await;
                }
                Ok((len, _)) = back.recv_from(&mut down) => {
                    if let Some(client) = client {
                        let _ = front.send_to(&down[..len], client).await;
                    }
                }
            }
        }
    });
    (at, seen, task)
}

macro_rules! fails_closed {
    ($name:ident, $stack:ident, $adjust:expr) => {
        mod $name {
            use super::*;
            use fathom_plugin::$stack::Plugin;
            use $stack::{ConnectionError, Endpoint, TransportConfig};

            /// Connects through a tap. The client's provider fails after the handshake. Returns how
            /// the client's connection ended.
            async fn run(suite: CipherSuite) -> (ConnectionError, u64, Seen) {
                let (provider, switch) = failing::provider(suite);
                let ring = Arc::new(rustls::crypto::ring::default_provider());
                let Identity { server, client } = identity_with(ring, provider);
                let adjust: fn(&mut TransportConfig) = $adjust;
                let transport = || {
                    let mut transport = TransportConfig::default();
                    adjust(&mut transport);
                    transport
                };
                let server =
                    Plugin::named("sync").expect("a plug-in").server(server).expect("a server");
                let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
                let endpoint = Endpoint::server(server.config(), any).expect("an endpoint");
                let (at, seen, tap) = tap(endpoint.local_addr().expect("bound")).await;
                let serving = tokio::spawn(async move {
                    let incoming = endpoint.accept().await.expect("a client");
                    let (connecting, _) =
                        server.accept(incoming, TransportConfig::default()).expect("accepted");
                    let connection = connecting.await.expect("a handshake");
                    // Keep sending, so that the client always has packets to open.
                    let mut stream = connection.open_uni().await.expect("a stream");
                    while stream.write_all(&[7; 100]).await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                });
                let client = Plugin::named("sync")
                    .expect("a plug-in")
                    .client_with_initial(client, failing::initial());
                let client = client.expect("a client");
                let endpoint = Endpoint::client(any).expect("a client");
                let (connecting, monitor) = client
                    .connect(&endpoint, transport(), at, "localhost")
                    .expect("a connection begun");
                let connection = connecting.await.expect("a handshake");
                switch.store(true, Ordering::Relaxed);
                let mut stream = connection.open_uni().await.expect("a stream");
                let _ = stream.write_all(&SECRET.repeat(1_000)).await;
                let ended = connection.closed().await;
                tap.abort();
                serving.abort();
                (ended, monitor.report().unsealed, seen)
            }

            #[tokio::test]
            async fn unsealable_packet_is_not_sent_and_closes_the_connection() {
                for suite in SUITES {
                    let (ended, unsealed, seen) =
                        tokio::time::timeout(PATIENCE, run(suite)).await.expect("it ends");
                    assert!(
                        matches!(ended, ConnectionError::TransportError(_)),
                        "{suite:?}: {ended}"
                    );
                    assert!(unsealed > 0, "{suite:?}");
                    let seen = seen.lock();
                    // Half of the secret is enough to recognise the secret.
                    let reads =
                        |datagram: &Vec<u8>| datagram.windows(8).any(|part| part == &SECRET[..8]);
                    assert!(!seen.iter().any(reads), "{suite:?}");
                }
            }

            #[test]
            fn tls_configuration_without_quic_is_refused_at_once() {
                let without = identity_with(failing::without_quic(), failing::without_quic());
                let plugin = Plugin::named("reno").expect("a plug-in");
                let wrong = plugin
                    .server_with_initial(without.server, failing::initial())
                    .err()
                    .expect("refused");
                assert!(wrong.to_string().contains("cannot carry QUIC"), "{wrong}");
                let wrong = plugin
                    .client_with_initial(without.client, failing::initial())
                    .err()
                    .expect("refused");
                assert!(wrong.to_string().contains("cannot carry QUIC"), "{wrong}");
                // The suite for Initial packets is of another kind.
                let good = identity();
                let (provider, _) = failing::provider(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
                let chacha = provider.cipher_suites[0]
                    .tls13()
                    .and_then(|s| s.quic_suite())
                    .expect("a suite");
                let wrong = plugin.server_with_initial(good.server, chacha).err().expect("refused");
                assert!(wrong.to_string().contains("TLS13_AES_128_GCM_SHA256"), "{wrong}");
                assert!(plugin.client_with_initial(good.client, chacha).is_err());
            }
        }
    };
}

fails_closed!(on_quinn, quinn, |_| ());
fails_closed!(on_noq, noq, |transport| {
    transport.max_concurrent_multipath_paths(4);
});

#[tokio::test]
async fn multipath_is_off_if_packets_of_second_paths_cannot_be_sealed() {
    let run = |sealed: bool| async move {
        let (failing, _) = failing::provider(SUITES[0]);
        let provider =
            if sealed { Arc::new(rustls::crypto::ring::default_provider()) } else { failing };
        let Identity { server, client } = identity_with(Arc::clone(&provider), provider);
        let plugin = fathom_plugin::noq::Plugin::named("reno").expect("a plug-in");
        let server = plugin.server(server).expect("a server");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let endpoint = noq::Endpoint::server(server.config(), any).expect("an endpoint");
        let to = endpoint.local_addr().expect("bound");
        let paths = || {
            let mut transport = noq::TransportConfig::default();
            transport.max_concurrent_multipath_paths(4);
            transport
        };
        let serving = tokio::spawn(async move {
            let incoming = endpoint.accept().await.expect("a client");
            let (connecting, _) = server.accept(incoming, paths()).expect("accepted");
            connecting.await.expect("a handshake").closed().await;
        });
        let client = plugin.client(client).expect("a client");
        let endpoint = noq::Endpoint::client(any).expect("a client");
        let (connecting, _) =
            client.connect(&endpoint, paths(), to, "localhost").expect("a connection begun");
        let connection = connecting.await.expect("a handshake");
        let multipath = connection.is_multipath_enabled();
        connection.close(0u32.into(), b"");
        serving.await.expect("the server ended well");
        multipath
    };
    assert!(tokio::time::timeout(PATIENCE, run(true)).await.expect("it ends"), "ring seals them");
    assert!(!tokio::time::timeout(PATIENCE, run(false)).await.expect("it ends"));
}
