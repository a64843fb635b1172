//! An HTTP/3 server and its client, both on noq, in one process.
//!
//! ```text
//! cargo run -p h3-noq --example both
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::server::RequestResolver;
use h3_noq::Connection;
use http::{Method, Request, Response, StatusCode};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let loopback: SocketAddr = "127.0.0.1:0".parse()?;
    let (certificate, key) = certificate()?;
    let server = noq::Endpoint::server(server_config(certificate.clone(), key)?, loopback)?;
    let client = noq::Endpoint::client(loopback)?;
    client.set_default_client_config(client_config(certificate)?);

    let address = server.local_addr()?;
    println!("server on https://{address}");
    let serving = tokio::spawn(serve(server.clone()));

    let connection = client.connect(address, "localhost")?.await?;
    ask(connection).await?;

    // Wait until the close has reached the server.
    client.wait_idle().await;
    server.close(0u32.into(), b"");
    serving.await?;
    Ok(())
}

/// Runs the client: two requests on one connection.
async fn ask(connection: noq::Connection) -> Result<(), Error> {
    let (mut driver, mut requests) = h3::client::new(Connection::new(connection)).await?;
    let driving = tokio::spawn(async move { driver.wait_idle().await });

    let mut get = requests.send_request(Request::get("https://localhost/hello").body(())?).await?;
    get.finish().await?;
    let response = get.recv_response().await?;
    let mut length = 0;
    while let Some(data) = get.recv_data().await? {
        length += data.remaining();
    }
    println!("GET /hello: {}, {length} bytes", response.status());

    let mut post =
        requests.send_request(Request::post("https://localhost/upload").body(())?).await?;
    for _ in 0..10 {
        post.send_data(Bytes::from(vec![7; 100_000])).await?;
    }
    post.finish().await?;
    let response = post.recv_response().await?;
    let mut text = Vec::new();
    while let Some(mut data) = post.recv_data().await? {
        text.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    println!("POST /upload: {}, {}", response.status(), String::from_utf8_lossy(&text));

    // Dropping the last handle closes the connection with H3_NO_ERROR.
    drop(requests);
    println!("client: {}", driving.await?);
    Ok(())
}

/// Runs the server, with one task per connection and one per request.
async fn serve(endpoint: noq::Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            match connection(incoming).await {
                Ok(()) => println!("server: connection done"),
                Err(error) => println!("server: {error}"),
            }
        });
    }
}

async fn connection(incoming: noq::Incoming) -> Result<(), Error> {
    let mut http = h3::server::builder().build(Connection::new(incoming.await?)).await?;
    loop {
        match http.accept().await {
            Ok(Some(request)) => {
                tokio::spawn(async move {
                    if let Err(error) = answer(request).await {
                        println!("server: a request failed: {error}");
                    }
                });
            }
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn answer(request: RequestResolver<Connection, Bytes>) -> Result<(), Error> {
    let (request, mut stream) = request.resolve_request().await?;
    let mut length = 0;
    while let Some(data) = stream.recv_data().await? {
        length += data.remaining();
    }
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/hello") => (StatusCode::OK, Bytes::from_static(b"hello over noq\n")),
        (&Method::POST, "/upload") => {
            (StatusCode::CREATED, format!("{length} bytes received").into())
        }
        _ => (StatusCode::NOT_FOUND, Bytes::new()),
    };
    stream.send_response(Response::builder().status(status).body(())?).await?;
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    stream.finish().await?;
    Ok(())
}

fn certificate() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
    Ok((signed.cert.der().clone(), key.into()))
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<noq::ServerConfig, Error> {
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_no_client_auth()
    .with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(noq::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
}

fn client_config(certificate: CertificateDer<'static>) -> Result<noq::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_root_certificates(roots)
    .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(noq::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
}
