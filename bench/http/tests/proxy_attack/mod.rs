//! Tests of a reverse proxy between untrusted peers. Upstream servers contradict themselves, and
//! clients want more than their share.

mod clients;
mod upstreams;

use std::sync::Arc;

use fathom_http::identity::Identity;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::Running;

/// A server with TCP, and the client's TLS configuration for it.
struct Served {
    running: Running,
    tls: rustls::ClientConfig,
}

fn client_tls(identity: &Identity) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate().unwrap().clone()).unwrap();
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Served {
    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.running.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
    }
}
