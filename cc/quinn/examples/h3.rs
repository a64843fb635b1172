//! An HTTP/3 server that adopts a delay-based controller, and a client without one. The code
//! between the marks is what Fathom adds to an h3 program. The comments show the code that it
//! replaces.
//!
//! `cargo run -p fathom-quinn --example h3-on-quinn`

use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::{Request, Response};
use quinn::Endpoint;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of bytes in the response.
const BODY: usize = 50_000;

pub(crate) fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Outcome<()> {
    let (server_tls, client_tls) = tls()?;

    // >>> Fathom: before, ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_tls)?))
    let server_config =
        fathom_quinn::Plugin::named("sync:signal=either")?.server(server_tls)?.config();
    // <<<
    let listening = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let to = listening.local_addr()?;

    let serving = tokio::spawn(async move {
        let incoming = listening.accept().await.ok_or("the endpoint is closed")?;
        let connection = incoming.await?;
        // >>> Fathom: how the connection stands, at any time.
        let monitor = fathom_quinn::monitor(&connection).ok_or("a controller of another's")?;
        // <<<
        let mut http =
            h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await?;
        while let Ok(Some(resolver)) = http.accept().await {
            let (_request, mut stream) = resolver.resolve_request().await?;
            stream.send_response(Response::new(())).await?;
            stream.send_data(vec![7; BODY].into()).await?;
            stream.finish().await?;
        }
        Outcome::Ok(monitor.report())
    });

    assert_eq!(fetch(client_tls, to).await?, BODY);
    let controller = serving.await??.controller.ok_or("the controller never acted")?;
    println!("server: window {} bytes, {} reductions", controller.window, controller.reductions);
    Ok(())
}

/// Sends one request with an unmodified client. Returns the number of bytes in the response.
async fn fetch(tls: Arc<ClientConfig>, to: SocketAddr) -> Outcome<usize> {
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = endpoint.connect_with(config, to, "localhost")?.await?;
    let (mut driver, mut sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let request = async {
        let mut stream = sender.send_request(Request::get("https://localhost/").body(())?).await?;
        stream.finish().await?;
        stream.recv_response().await?;
        let mut bytes = 0;
        while let Some(data) = stream.recv_data().await? {
            bytes += data.remaining();
        }
        // Dropping the last sender closes the connection.
        drop(sender);
        Outcome::Ok(bytes)
    };
    let (_closed, bytes) = tokio::join!(poll_fn(|cx| driver.poll_close(cx)), request);
    drop(driver);
    endpoint.wait_idle().await;
    bytes
}

/// Returns the TLS configurations of a server with a certificate for localhost and of a client that
/// trusts it.
fn tls() -> Outcome<(Arc<ServerConfig>, Arc<ClientConfig>)> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    server.alpn_protocols = vec![b"h3".to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];
    Ok((Arc::new(server), Arc::new(client)))
}
