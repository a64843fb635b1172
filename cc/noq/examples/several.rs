//! A server that divides its connections between two controllers, starting from certificates, and
//! watches the queue in front of each client. The code between the marks is what Fathom adds to a
//! noq program. The comments show the code that it replaces.
//!
//! `cargo run -p fathom-noq --example several-noq`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use noq::{Connection, Endpoint, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of bytes on a stream.
const PIECE: usize = 20_000;
/// Number of streams to each client, one after the other.
const PIECES: usize = 20;
/// Number of clients, one after the other.
const CLIENTS: u64 = 4;

pub(crate) fn main() -> Outcome<()> {
    // >>> rustls: one provider for the whole program, where two are compiled in. An error: somebody chose before.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    // <<<
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

/// Returns a certificate for localhost, and its key.
fn certificate() -> Outcome<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    Ok((vec![signed.cert.der().clone()], key))
}

fn server_tls(
    certs: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Outcome<Arc<ServerConfig>> {
    // >>> From certificates: before, noq::ServerConfig::with_single_cert(certs, key)?
    let mut tls =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certs, key)?;
    // The name of your protocol: h3 for HTTP/3. with_single_cert has none.
    tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    let tls = Arc::new(tls);
    // <<<
    Ok(tls)
}

async fn run() -> Outcome<()> {
    let (certs, key) = certificate()?;
    let mut roots = RootCertStore::empty();
    roots.add(certs[0].clone())?;
    let mut client_tls =
        ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    client_tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    let tls = server_tls(certs, key)?;

    // >>> Fathom: two controllers under one endpoint.
    let cubic = fathom_noq::Plugin::named("cubic")?.server(Arc::clone(&tls))?;
    let sync = fathom_noq::Plugin::named("sync:signal=either")?.server(tls)?;
    let listening = Endpoint::server(cubic.config(), "127.0.0.1:0".parse()?)?;
    // <<<
    let to = listening.local_addr()?;
    let clients = tokio::spawn(fetch_all(Arc::new(client_tls), to));

    let (mut number, mut serving) = (0_u64, Vec::new());
    while number < CLIENTS {
        let incoming = listening.accept().await.ok_or("the endpoint is closed")?;
        // >>> Fathom: connections alternate between both controllers; before, incoming.accept()?
        number += 1;
        let server = if number.is_multiple_of(2) { &sync } else { &cubic };
        let Ok((connecting, monitor)) = server.accept(incoming, TransportConfig::default()) else {
            continue;
        };
        // <<<
        serving.push(tokio::spawn(serve(connecting.await?, monitor)));
    }
    clients.await??;
    for served in serving {
        served.await??;
    }
    Ok(())
}

/// Sends the pieces, and reads the queueing delay each time the client has acknowledged one.
async fn serve(connection: Connection, monitor: fathom_noq::ConnectionMonitor) -> Outcome<()> {
    let mut least = None;
    for _ in 0..PIECES {
        let mut send = connection.open_uni().await?;
        send.write_all(&[7; PIECE]).await?;
        send.finish()?;
        send.stopped().await?;
        // >>> Fathom: queueing delay is the height of the newest one-way delay above the least of this connection.
        if let Some(delay) = monitor.report().one_way {
            let base = least.map_or(delay, |least| delay.min(least));
            least = Some(base);
            println!("queueing towards the peer: {:.1} ms", delay.above(base).as_secs_f64() * 1e3);
        }
        // <<<
    }
    connection.close(0u32.into(), b"");
    Ok(())
}

/// Runs the clients, which report one-way delays.
async fn fetch_all(tls: Arc<ClientConfig>, to: SocketAddr) -> Outcome<()> {
    let client = fathom_noq::Plugin::named("cubic")?.client(tls)?;
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    for _ in 0..CLIENTS {
        let (connecting, _) =
            client.connect(&endpoint, TransportConfig::default(), to, "localhost")?;
        let connection = connecting.await?;
        for _ in 0..PIECES {
            let mut recv = connection.accept_uni().await?;
            assert_eq!(recv.read_to_end(PIECE).await?.len(), PIECE);
        }
        connection.closed().await;
    }
    endpoint.wait_idle().await;
    Ok(())
}
