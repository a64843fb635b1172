//! An echo server and its client, both in this file, that adopt a delay-based controller. The code
//! between the marks is what Fathom adds to a noq program. The comments show the code that it
//! replaces.
//!
//! `cargo run -p fathom-noq --example adopt-noq`

use std::error::Error;
use std::sync::Arc;

use noq::{Endpoint, TransportConfig};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of bytes sent and echoed.
const BODY: usize = 50_000;

pub(crate) fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Outcome<()> {
    let (server_tls, client_tls) = tls()?;

    // >>> Fathom: a controller by name, under each TLS configuration.
    let plugin = fathom_noq::Plugin::named("sync:signal=either")?;
    let server = plugin.server(server_tls)?;
    let client = plugin.client(client_tls)?;
    // <<<

    // Before: Endpoint::server(
    //     ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_tls)?)), ...)
    let listening = Endpoint::server(server.config(), "127.0.0.1:0".parse()?)?;
    let to = listening.local_addr()?;

    let serving = tokio::spawn(async move {
        let incoming = listening.accept().await.ok_or("the endpoint is closed")?;
        // >>> Fathom: before, incoming.accept()?
        let (connecting, monitor) = server.accept(incoming, TransportConfig::default())?;
        // <<<
        let connection = connecting.await?;
        let (mut send, mut recv) = connection.accept_bi().await?;
        send.write_all(&recv.read_to_end(BODY).await?).await?;
        send.finish()?;
        connection.closed().await;
        Outcome::Ok(monitor.report())
    });

    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    // >>> Fathom: before, endpoint.connect_with(config, to, "localhost")?
    let (connecting, monitor) =
        client.connect(&endpoint, TransportConfig::default(), to, "localhost")?;
    // <<<
    let connection = connecting.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    let body = vec![7; BODY];
    let write = async {
        send.write_all(&body).await?;
        send.finish()?;
        Outcome::Ok(())
    };
    let (written, echoed) = tokio::join!(write, recv.read_to_end(BODY));
    written?;
    assert_eq!(echoed?, body);
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;

    for (side, report) in [("client", monitor.report()), ("server", serving.await??)] {
        let controller = report.controller.ok_or("the controller never acted")?;
        println!(
            "{side}: one-way delay negotiated: {}, {} samples, window {} bytes",
            report.negotiated, report.samples.samples, controller.window
        );
    }
    Ok(())
}

/// Returns the TLS configurations of a server with a certificate for localhost and of a client that
/// trusts it.
fn tls() -> Outcome<(Arc<ServerConfig>, Arc<ClientConfig>)> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}
