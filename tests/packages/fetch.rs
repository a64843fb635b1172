//! A client that uses the packaged plug-in. Fetches a file over HTTP/0.9, as the stacks' own
//! example servers provide it, and prints the negotiated extension. Usage:
//! `fetch ADDRESS CERTIFICATE.der PATH`

use std::sync::Arc;

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let [address, certificate, path] = std::env::args().skip(1).collect::<Vec<_>>().try_into().expect("three arguments");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(std::fs::read(certificate)?.into())?;
    // Uses the provider that the workspace's features select.
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"hq-29".to_vec()];
    let plugin = fathom_quinn::Plugin::named("sync")?.client(Arc::new(tls))?;
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(plugin.shared_config(quinn::TransportConfig::default()));

    let connection = endpoint.connect(address.parse()?, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(format!("GET {path}\r\n").as_bytes()).await?;
    send.finish()?;
    let body = recv.read_to_end(1 << 30).await?;
    let report = fathom_quinn::monitor(&connection).context("a controller of ours")?.report();
    println!("{} bytes, digest {}, one-way delays: {:?}", body.len(), digest(&body), report.in_use);
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// Returns the digest of the received body; the test computes that of the sent one.
fn digest(body: &[u8]) -> u64 {
    body.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}
