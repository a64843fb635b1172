//! s2n-quic with rustls as a client and a server for the interop tests.

use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, KeyLogFile, RootCertStore, ServerConfig};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const UNSUPPORTED: i32 = 127;
const ALPN: &[u8] = b"hq-interop";
/// Longest request line that is read, in bytes.
const LONGEST_REQUEST: usize = 4096;
const CLIENT_TESTS: &str = "handshake transfer longrtt retry multiconnect ecn chacha20 goodput crosstraffic";
const SERVER_TESTS: &str = "handshake transfer longrtt retry multiconnect keyupdate ecn chacha20 goodput crosstraffic";

fn env(name: &str, without: &str) -> String {
    std::env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| without.to_owned())
}

fn provider(test: &str) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = if test == "chacha20" {
        vec![aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256]
    } else {
        vec![
            aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
            aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
            aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ]
    };
    provider
}

/// Connection limiter. If true, every client gets a Retry first.
struct Retry(bool);

impl Limiter for Retry {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt) -> Outcome {
        if self.0 { Outcome::retry() } else { Outcome::allow() }
    }
}

async fn server(test: &str, certs: &Path) -> Result<()> {
    let chain = CertificateDer::pem_file_iter(certs.join("cert.pem"))?.collect::<std::result::Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(certs.join("priv.key"))?;
    let mut config = ServerConfig::builder_with_provider(provider(test).into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.key_log = Arc::new(KeyLogFile::new());
    let at = SocketAddr::new(env("IP", "::").parse::<IpAddr>()?, env("PORT", "443").parse()?);
    let mut server = Server::builder()
        .with_tls(tls::Server::from(config))?
        .with_endpoint_limits(Retry(test == "retry"))?
        .with_io(at)?
        .start()?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let root = Arc::new(PathBuf::from(env("WWW", "/www")).canonicalize()?);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            Some(mut connection) = server.accept() => {
                let root = Arc::clone(&root);
                tokio::spawn(async move {
                    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                        tokio::spawn(serve(stream, Arc::clone(&root)));
                    }
                });
            }
        }
    }
}

/// Reads a line with GET and a path, then sends the file or resets the stream.
async fn serve(mut stream: BidirectionalStream, root: Arc<PathBuf>) {
    let mut line = Vec::new();
    while let Ok(Some(bytes)) = stream.receive().await {
        line.extend_from_slice(&bytes);
        if line.ends_with(b"\n") || line.len() > LONGEST_REQUEST {
            break;
        }
    }
    let path = std::str::from_utf8(&line).ok().and_then(|line| line.trim_end().strip_prefix("GET /"));
    let file = path.and_then(|path| root.join(path).canonicalize().ok()).filter(|file| file.starts_with(&*root));
    match file.and_then(|file| std::fs::read(file).ok()) {
        Some(body) => {
            let sent = stream.send(body.into()).await;
            if sent.is_ok() {
                let _ = stream.close().await;
            }
        }
        None => {
            let _ = stream.reset(1u32.into());
        }
    }
}

struct Request {
    port: u16,
    path: String,
    file: PathBuf,
}

fn requests() -> Result<Vec<Request>> {
    let downloads = PathBuf::from(env("DOWNLOADS", "/downloads"));
    let all = env("REQUESTS", "");
    let parse = |url: &str| {
        let (host, path) = url.strip_prefix("https://")?.split_once('/')?;
        let port = host.rsplit_once(':').map_or(Some(443), |(_, port)| port.parse().ok())?;
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("index.html");
        Some(Request { port, path: format!("/{path}"), file: downloads.join(name) })
    };
    let all: Option<Vec<_>> = all.split_whitespace().map(parse).collect();
    all.filter(|all| !all.is_empty())
        .ok_or_else(|| "REQUESTS names no URL, or a URL other than https://HOST:PORT/PATH".into())
}

async fn client(test: &str, certs: &Path) -> Result<()> {
    let requests = requests()?;
    let connections: Vec<_> = match test {
        "multiconnect" => requests.into_iter().map(|request| vec![request]).collect(),
        _ => vec![requests],
    };
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(certs.join("ca.pem"))? {
        roots.add(root?)?;
    }
    let mut config = ClientConfig::builder_with_provider(provider(test).into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.key_log = Arc::new(KeyLogFile::new());
    let client = Client::builder().with_tls(tls::Client::from(config))?.with_io("0.0.0.0:0")?.start()?;
    let address: IpAddr = env("FATHOM_ADDRESS", "127.0.0.1").parse()?;
    for each in connections {
        let to = Connect::new(SocketAddr::new(address, each[0].port)).with_server_name("localhost");
        let connection = client.connect(to).await?;
        fetch(connection, each).await?;
    }
    // Wait until the close of the last connection has reached the server.
    let _ = tokio::time::timeout(Duration::from_secs(1), async { client.clone().wait_idle().await }).await;
    Ok(())
}

/// Fetches all files of one connection concurrently.
async fn fetch(connection: Connection, requests: Vec<Request>) -> Result<()> {
    let handle = connection.handle();
    let tasks: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let mut handle = handle.clone();
            tokio::spawn(async move {
                let mut stream = handle.open_bidirectional_stream().await?;
                stream.send(format!("GET {}\r\n", request.path).into_bytes().into()).await?;
                stream.finish()?;
                let mut file = std::fs::File::create(&request.file)?;
                while let Some(bytes) = stream.receive().await? {
                    file.write_all(&bytes)?;
                }
                Result::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    connection.close(0u32.into());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (role, test) = (env("ROLE", ""), env("TESTCASE", ""));
    let tests = match role.as_str() {
        "client" => CLIENT_TESTS,
        "server" => SERVER_TESTS,
        _ => "",
    };
    if !tests.split(' ').any(|each| each == test) {
        eprintln!("s2n-quic: no {role} of test {test:?}");
        std::process::exit(UNSUPPORTED);
    }
    let certs = PathBuf::from(env("CERTS", "/certs"));
    let done = if role == "client" { client(&test, &certs).await } else { server(&test, &certs).await };
    if let Err(error) = done {
        eprintln!("s2n-quic: {error}");
        std::process::exit(1);
    }
}
