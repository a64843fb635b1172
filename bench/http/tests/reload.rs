//! Replacing a certificate while a server runs, on every stack and over TCP.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::{settings, within};
use fathom_http::identity::{ALPN, Identity, IdentityError};
use fathom_http::limits::Limits;
use fathom_http::served_identity::IdentityFiles;
use fathom_http::server::{Server, Settings, TcpSettings};
use fathom_stacks::Stack;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::sync::{Notify, watch};

fn tls(identities: &[Identity; 2], protocol: &[u8]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for identity in identities {
        roots.add(identity.certificate().unwrap().clone()).unwrap();
    }
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    tls.alpn_protocols = vec![protocol.to_vec()];
    // A resumed session shows no certificate.
    tls.resumption = rustls::client::Resumption::disabled();
    tls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloading_the_certificate_fails_no_handshake() {
    for stack in Stack::ALL.iter().copied() {
        let identities = [Identity::self_signed(&[]).unwrap(), Identity::self_signed(&[]).unwrap()];
        let tcp = Some(TcpSettings::default());
        let mut settings =
            Settings { tcp, ..settings(stack, "native:cubic", None, Limits::default()) };
        let client = quinn::ClientConfig::new(Arc::new(
            QuicClientConfig::try_from(tls(&identities, ALPN)).unwrap(),
        ));
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls(&identities, b"h2")));
        let leaves = identities.each_ref().map(|identity| identity.certificate().unwrap().clone());
        let [first, second] = identities;
        settings.identity = first;
        let server = Server::bind(settings).unwrap();
        let (address, served, (stop, stopped)) =
            (server.address(), server.identity(), watch::channel(false));
        let task = tokio::spawn(server.serve(stopped, Duration::from_secs(5)));
        let connect = async || -> CertificateDer<'static> {
            let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            let connection =
                within(endpoint.connect_with(client.clone(), address, "localhost").unwrap())
                    .await
                    .unwrap();
            let chain = connection
                .peer_identity()
                .unwrap()
                .downcast::<Vec<CertificateDer<'static>>>()
                .unwrap();
            chain[0].clone()
        };
        let over_tcp = async || -> CertificateDer<'static> {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let stream =
                within(connector.connect(ServerName::try_from("localhost").unwrap(), stream))
                    .await
                    .unwrap();
            stream.get_ref().1.peer_certificates().unwrap()[0].clone()
        };
        assert_eq!(
            (connect().await, over_tcp().await),
            (leaves[0].clone(), leaves[0].clone()),
            "{stack}"
        );
        let before = within(tokio::net::TcpStream::connect(address)).await.unwrap();
        // Perform handshakes over QUIC and over TCP during the replacement.
        let mut shown = Vec::new();
        for n in 0..20 {
            if n == 5 {
                served.replace(&second).unwrap();
            }
            let (quic, tcp) = tokio::join!(connect(), over_tcp());
            shown.push((quic, tcp));
        }
        for (n, (quic, tcp)) in shown.iter().enumerate() {
            let leaf = &leaves[usize::from(n >= 5)];
            assert!(quic == leaf && tcp == leaf, "{stack}: {n}");
        }
        // Complete a handshake on a connection that was opened before the replacement.
        within(connector.connect(ServerName::try_from("localhost").unwrap(), before))
            .await
            .unwrap();
        stop.send(true).unwrap();
        within(task).await.unwrap();
    }
}

/// A certificate on a stalled disk, simulated by a pipe that nobody writes to. Handshakes continue
/// with the previous certificate, the server still obeys a request to stop, and the file is loaded
/// once it can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_certificate_disturbs_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let (certificates, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let write = || {
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        std::fs::write(&certificates, signed.cert.pem()).unwrap();
    };
    write();
    for stack in Stack::ALL.iter().copied() {
        let identity = Identity::read(&certificates, &key).unwrap();
        let settings =
            Settings { identity, ..settings(stack, "native:cubic", None, Limits::default()) };
        let client = crate::common::client(&settings.identity);
        let server = Server::bind(settings).unwrap();
        let (address, served, (stop, stopped)) =
            (server.address(), server.identity(), watch::channel(false));
        let task = tokio::spawn(server.serve(stopped, Duration::from_secs(5)));
        let files = IdentityFiles::new(&certificates, &key);
        let (said, mut says) = tokio::sync::mpsc::unbounded_channel();
        let watching = tokio::spawn(async move {
            let report = |result: Result<(), _>| {
                drop(said.send(result.map_err(|e: IdentityError| e.to_string())))
            };
            files.watch(&served, &Notify::new(), report).await
        });
        std::fs::remove_file(&certificates).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &certificates,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let line = within(says.recv()).await.unwrap().unwrap_err();
        assert!(line.contains("not a regular file"), "{line}");
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        within(endpoint.connect_with(client.clone(), address, "localhost").unwrap()).await.unwrap();
        std::fs::remove_file(&certificates).unwrap();
        write();
        loop {
            // A check between the two writes finds a key of another certificate.
            if within(says.recv()).await.unwrap().is_ok() {
                break;
            }
        }
        stop.send(true).unwrap();
        within(task).await.unwrap();
        watching.abort();
    }
}
