//! Tests of the plug-in over real sockets on loopback: a few whole connections, with tokio as quinn
//! users have it.

use std::sync::Arc;
use std::time::Duration;

use fathom_quinn::{
    ClientPlugin, Extension, InUse, Plugin, ReceiveTimestamps, Report, ServerPlugin,
};
use quinn::{Endpoint, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const BYTES: usize = 2_000_000;
const ALPN: &[u8] = b"fathom-test";

fn tls() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
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
    server.alpn_protocols = vec![ALPN.to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_vec()];
    (Arc::new(server), Arc::new(client))
}

/// Returns a body in which every byte depends on its position.
fn body() -> Vec<u8> {
    (0..BYTES).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn plugin(spec: &str, extension: Extension) -> Plugin {
    Plugin::named(spec).expect("a plug-in").with_extension(extension).expect("an extension")
}

/// Accepts one connection, echoes a body and returns the monitor's last report.
async fn echo(endpoint: Endpoint, plugin: ServerPlugin) -> Report {
    let incoming = endpoint.accept().await.expect("a client");
    let (connecting, monitor) =
        plugin.accept(incoming, TransportConfig::default()).expect("accepted");
    let connection = connecting.await.expect("a handshake");
    let (mut send, mut recv) = connection.accept_bi().await.expect("a stream");
    let got = recv.read_to_end(2 * BYTES).await.expect("read");
    send.write_all(&got).await.expect("written");
    send.finish().expect("open");
    connection.closed().await;
    monitor.report()
}

async fn send_and_compare(plugin: &ClientPlugin, to: std::net::SocketAddr) -> Report {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a client");
    let (connecting, monitor) = plugin
        .connect(&endpoint, TransportConfig::default(), to, "localhost")
        .expect("a connection begun");
    let connection = connecting.await.expect("a handshake");
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    let sent = body();
    let write = async {
        send.write_all(&sent).await.expect("written");
        send.finish().expect("open");
    };
    let (got, ()) = tokio::join!(recv.read_to_end(2 * BYTES), write);
    assert!(got.expect("read") == sent, "the body came back changed");
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    monitor.report()
}

/// Transfers 2 MB each way. Returns the reports of client and server.
async fn transfer(server: Plugin, client: Plugin) -> (Report, Report) {
    let (server_tls, client_tls) = tls();
    let server = server.server(server_tls).expect("a server");
    let endpoint = Endpoint::server(server.config(), "127.0.0.1:0".parse().expect("an address"))
        .expect("an endpoint");
    let to = endpoint.local_addr().expect("bound");
    let serving = tokio::spawn(echo(endpoint, server));
    let client = client.client(client_tls).expect("a client");
    let run = async {
        (send_and_compare(&client, to).await, serving.await.expect("the server ended well"))
    };
    // Only a hanging test takes so long.
    tokio::time::timeout(Duration::from_secs(120), run).await.expect("done in time")
}

#[tokio::test]
async fn sync_uses_one_way_delays_between_real_sockets() {
    let sync = || plugin("sync", Extension::default());
    let (client, server) = transfer(sync(), sync()).await;
    for report in [client, server] {
        assert!(report.negotiated && report.in_use == InUse::Sync, "{report:?}");
        assert!(report.stamps_received > 10 && report.stamps_sent > 10, "{report:?}");
        assert!(report.samples.samples > 10 && report.one_way.is_some(), "{report:?}");
        assert!(report.controller.is_some_and(|c| c.window > 0), "{report:?}");
    }
}

#[tokio::test]
async fn sync_uses_timestamp_frames_if_the_peer_supports_no_other() {
    let other = Extension { offer: None, ..Extension::default() };
    for (server, client) in [(Extension::default(), other), (other, Extension::default())] {
        let (client, server) = transfer(plugin("sync", server), plugin("sync", client)).await;
        for report in [client, server] {
            assert!(report.negotiated && report.in_use == InUse::Timestamp, "{report:?}");
            assert!(report.stamps_received > 10 && report.stamps_sent > 10, "{report:?}");
            assert!(report.samples.samples > 10 && report.one_way.is_some(), "{report:?}");
        }
    }
}

#[tokio::test]
async fn sync_works_with_receive_timestamps_alone() {
    let receive =
        Extension { receive_timestamps: Some(ReceiveTimestamps::default()), ..Extension::OFF };
    let (client, server) = transfer(plugin("sync", receive), plugin("sync", receive)).await;
    for report in [client, server] {
        assert!(report.negotiated && report.in_use == InUse::Receive, "{report:?}");
        assert!(report.stamps_received > 10 && report.stamps_sent > 10, "{report:?}");
        assert!(report.samples.samples > 10 && report.one_way.is_some(), "{report:?}");
    }
}

#[tokio::test]
async fn peer_without_the_extension_never_receives_its_frames() {
    let off = Extension::OFF;
    for (server, client) in [(Extension::default(), off), (off, Extension::default())] {
        let (client, server) = transfer(plugin("reno", server), plugin("reno", client)).await;
        for report in [client, server] {
            assert!(
                !report.negotiated && report.stamps_sent == 0 && report.stamps_received == 0,
                "{report:?}"
            );
        }
    }
}

#[tokio::test]
async fn reserved_room_is_constant_with_application_datagrams() {
    let constant = Extension { datagrams: true, ..Extension::default() };
    let (client, _) = transfer(plugin("sync", constant), plugin("sync", constant)).await;
    assert!(client.negotiated && client.stamps_sent > 100, "every packet is stamped: {client:?}");
}
