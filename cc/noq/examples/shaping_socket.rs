//! An echo server whose packets shrink when its window is small. Its controller sets the datagram
//! size, which noq itself does not support. The code between the marks is what the shaping socket
//! adds to `adopt.rs`.
//!
//! `cargo run -p fathom-noq --example shaping-socket-noq`

use std::error::Error;
use std::sync::Arc;

use noq::{Endpoint, EndpointConfig, Runtime, TokioRuntime, TransportConfig};
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

    // >>> Fathom: a shaping socket, and a plug-in for endpoints that send through it.
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
    let socket = fathom_noq::ShapingSocket::bind("127.0.0.1:0".parse()?, &runtime)?;
    let server =
        fathom_noq::Plugin::named_with_shaping(socket.registry(), "packet-size:packets=64")?
            .server(server_tls)?;
    // <<<
    // >>> Fathom: before, Endpoint::server(server.config(), ...)
    let config = EndpointConfig::default();
    let listening = Endpoint::new_with_abstract_socket(
        config,
        Some(server.config()),
        socket.socket(),
        runtime,
    )?;
    // <<<
    let to = listening.local_addr()?;

    let serving = tokio::spawn(async move {
        let incoming = listening.accept().await.ok_or("the endpoint is closed")?;
        // >>> Fathom: packets shrink below a size that stays.
        let mut transport = TransportConfig::default();
        transport.mtu_discovery_config(None);
        let (connecting, monitor) = server.accept(incoming, transport)?;
        // <<<
        let connection = connecting.await?;
        let (mut send, mut recv) = connection.accept_bi().await?;
        send.write_all(&recv.read_to_end(BODY).await?).await?;
        send.finish()?;
        connection.closed().await;
        Outcome::Ok(monitor.report())
    });

    let client = fathom_noq::Plugin::named("reno")?.client(client_tls)?;
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let (connecting, _monitor) =
        client.connect(&endpoint, TransportConfig::default(), to, "localhost")?;
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

    let controller = serving.await??.controller.ok_or("the controller never acted")?;
    let datagram = controller.datagram.ok_or("the controller steers no size")?;
    println!("server: window {} bytes, datagrams of {datagram} bytes", controller.window);
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
