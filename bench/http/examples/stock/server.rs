// The minimal servers on quinn and on noq, which have the same API. Each example names its stack and
// includes this file.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use stack::crypto::rustls::QuicServerConfig;
use stack::{Endpoint, Incoming, ServerConfig};

type LoadReport<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes handed to a stream at once, as in `fathom serve`.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

#[tokio::main]
async fn main() -> LoadReport<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let endpoint = Endpoint::server(config()?, address.parse()?)?;
    eprintln!("serving https://{}/", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming));
    }
    Ok(())
}

async fn serve(incoming: Incoming) -> LoadReport<()> {
    let connection = h3_stack::Connection::new(incoming.await?);
    let mut http = h3::server::Connection::<_, Bytes>::new(connection).await?;
    while let Some(resolver) = http.accept().await? {
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            let size = request.uri().path().strip_prefix("/bytes/").and_then(|n| n.parse().ok());
            let Some(mut left) = size else {
                stream.send_response(Response::builder().status(404).body(())?).await?;
                stream.finish().await?;
                return LoadReport::Ok(());
            };
            stream
                .send_response(Response::builder().header("content-length", left).body(())?)
                .await?;
            while left > 0 {
                let piece = CHUNK.min(left);
                stream.send_data(Bytes::from_static(&ZEROS[..piece])).await?;
                left -= piece;
            }
            stream.finish().await?;
            // A client's FIN may come after its request. A stream dropped before the FIN is stopped
            // with an error.
            while stream.recv_data().await?.is_some() {}
            LoadReport::Ok(())
        });
    }
    Ok(())
}

/// Returns the stack's default configuration. The controller is CUBIC, the default on both sides of the
/// measurement.
fn config() -> LoadReport<ServerConfig> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])?
    .with_no_client_auth()
    .with_single_cert(vec![signed.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
}
