//! salvo, a web framework that accepts connections itself, over HTTP/3 with one of Fathom's
//! controllers. Prints its address.

use std::net::UdpSocket;
use std::sync::Arc;

use salvo::conn::quinn::QuinnListener;
use salvo::prelude::*;

#[handler]
async fn text() -> String {
    "7".repeat(100_000)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let own = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut tls =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.into()], key.into())?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    // Without Fathom: QuinnListener::new(RustlsConfig::new(...).build_quinn_config()?, ...)
    let config = fathom_quinn::Plugin::named("sync:signal=either")?.server(Arc::new(tls))?.config();
    let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let acceptor = QuinnListener::new(config, address).bind().await;
    println!("{address}");
    Server::new(acceptor).serve(Router::with_path("body").get(text)).await;
    Ok(())
}
