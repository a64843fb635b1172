//! A running server, and a client for this server that uses stock quinn under h3.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use fathom_http::identity::{ALPN, Identity};
use fathom_http::limits::Limits;
use fathom_http::metrics::Metrics;
use fathom_http::server::{Server, Settings};
use fathom_http::site::Site;
use fathom_http::timestamps::Timestamps;
use fathom_qlog::LogFolder;
use fathom_stacks::Stack;
use http::{Method, Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint};
use tokio::sync::watch;

/// Time limit that only a test that hangs reaches, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running server, and the means to stop it.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: Arc<Metrics>,
    pub client: quinn::ClientConfig,
    pub stop: watch::Sender<bool>,
    pub task: tokio::task::JoinHandle<()>,
}

/// Returns settings for a free port, with a generated certificate.
pub fn settings(stack: Stack, controller: &str, root: Option<&Path>, limits: Limits) -> Settings {
    Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        stack,
        threads: NonZeroU8::new(2).unwrap(),
        shares: controller.parse().unwrap(),
        identity: Identity::self_signed(&[]).unwrap(),
        site: Site::new(root, limits).unwrap(),
        limits,
        metrics: Arc::default(),
        timestamps: Timestamps::Any,
        tcp: None,
        sockets: None,
        logs: None,
        access_log: None,
    }
}

pub fn start(stack: Stack, controller: &str, root: Option<&Path>, limits: Limits) -> Running {
    start_logging(stack, controller, root, limits, None)
}

pub fn start_logging(
    stack: Stack,
    controller: &str,
    root: Option<&Path>,
    limits: Limits,
    logs: Option<&Arc<LogFolder>>,
) -> Running {
    let settings = Settings { logs: logs.cloned(), ..settings(stack, controller, root, limits) };
    start_with(settings, Duration::from_secs(5))
}

pub fn start_with(settings: Settings, grace: Duration) -> Running {
    let client = client(&settings.identity);
    let metrics = Arc::clone(&settings.metrics);
    let server = Server::bind(settings).unwrap();
    let (address, (stop, stopped)) = (server.address(), watch::channel(false));
    let task = tokio::spawn(server.serve(stopped, grace));
    Running { address, metrics, client, stop, task }
}

pub fn client(identity: &Identity) -> quinn::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate().unwrap().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// Waits for a future, with a time limit.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

impl Running {
    pub async fn connect(&self) -> Result<Connection, ConnectionError> {
        self.connect_from("127.0.0.1").await
    }

    /// Connects from this address of the host.
    pub async fn connect_from(&self, ip: &str) -> Result<Connection, ConnectionError> {
        let endpoint = Endpoint::client((ip.parse::<IpAddr>().unwrap(), 0).into()).unwrap();
        let connecting =
            endpoint.connect_with(self.client.clone(), self.address, "localhost").unwrap();
        connecting.await
    }

    pub async fn get(&self, path: &str) -> (StatusCode, String, Vec<u8>) {
        let connection = self.connect().await.expect("a connection");
        request(&connection, Method::GET, path).await.expect("an answer")
    }

    /// Stops the server, which must not wait for idle clients.
    pub async fn end(self) {
        self.stop.send(true).unwrap();
        within(self.task).await.unwrap();
    }
}

pub async fn request(
    connection: &Connection,
    method: Method,
    path: &str,
) -> Result<(StatusCode, String, Vec<u8>), Box<dyn std::error::Error + Send + Sync>> {
    let (mut driver, mut sender) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
    let drive = tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    let request =
        Request::builder().method(method).uri(format!("https://localhost{path}")).body(()).unwrap();
    let mut stream = sender.send_request(request).await?;
    // A server that has answered may refuse the rest of the request, even its end.
    let _ = stream.finish().await;
    let head = stream.recv_response().await?;
    let content_type = head.headers()["content-type"].to_str().unwrap().to_owned();
    let mut body = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        let bytes: Bytes = data.copy_to_bytes(data.remaining());
        body.extend_from_slice(&bytes);
    }
    drop(sender);
    drive.abort();
    Ok((head.status(), content_type, body))
}
