//! Compares this crate with `h3`: `bytes ours|varied|http|h3|floor REQUESTS`.
//!
//! A server and a client of `GET /bytes/1000` exchange requests on one connection over loopback, 32
//! at a time, in one thread. `ours` uses the fields as they are. In `varied`, a field of each request
//! and of each response differs from all before, so that no section repeats. `http` uses messages of the `http`
//! crate, like `h3`, and `floor` exchanges the same number of bytes on bare streams.
//!
//! To count instructions for each request, run with two numbers of requests under
//! `valgrind --tool=callgrind` and divide the difference.

#[path = "../common/quinn.rs"]
mod adapter;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use fathom_http3::{Config, client, server};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// Number of requests at a time.
const IN_FLIGHT: usize = 32;
static BODY: [u8; 1_000] = [0; 1_000];

const REQUEST: [(&str, &str); 5] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "localhost:4433"),
    (":path", "/bytes/1000"),
    ("user-agent", "fathom-load/0.1.0"),
];

const RESPONSE: [(&str, &str); 5] = [
    (":status", "200"),
    ("content-type", "application/octet-stream"),
    ("content-length", "1000"),
    ("date", "Fri, 27 Nov 2026 08:00:00 GMT"),
    ("server", "fathom/0.1.0"),
];

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let requests: usize = arguments.next().ok_or("the number of requests is missing")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (server, client) = connect().await?;
        let stats = client.clone();
        match &*kind {
            "ours" => {
                tokio::spawn(serve_ours(server, Fields::Same));
                request_ours(client, requests, Fields::Same).await?;
            }
            "varied" => {
                tokio::spawn(serve_ours(server, Fields::Varied));
                request_ours(client, requests, Fields::Varied).await?;
            }
            "http" => {
                tokio::spawn(serve_ours(server, Fields::Http));
                request_ours(client, requests, Fields::Http).await?;
            }
            "h3" => {
                tokio::spawn(serve_h3(server));
                request_h3(client, requests).await?;
            }
            "floor" => {
                tokio::spawn(serve_floor(server));
                request_floor(client, requests).await?;
            }
            _ => return Err("the first argument is one of ours, varied, http, h3, floor".into()),
        }
        let stats = stats.stats();
        println!("{} datagrams sent, {} received", stats.udp_tx.datagrams, stats.udp_rx.datagrams);
        Ok(())
    })
}

/// Connects two endpoints over loopback. The endpoints live as long as their connections.
async fn connect() -> Result<(quinn::Connection, quinn::Connection), AnyError> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let mut server_tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    let mut client_tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    server_tls.alpn_protocols = vec![b"h3".to_vec()];
    client_tls.alpn_protocols = vec![b"h3".to_vec()];
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server_config =
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_tls)?));
    let server = quinn::Endpoint::server(server_config, any_port)?;
    let mut client = quinn::Endpoint::client(any_port)?;
    client.set_default_client_config(quinn::ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(client_tls)?,
    )));
    let accepted = tokio::spawn({
        let server = server.clone();
        async move { server.accept().await.ok_or("no connection")?.await.map_err(AnyError::from) }
    });
    let client = client.connect(server.local_addr()?, "localhost")?.await?;
    Ok((accepted.await??, client))
}

/// Runs `request` this many times, [`IN_FLIGHT`] at a time.
async fn repeat<F>(
    requests: usize,
    mut worker: impl FnMut(usize, usize) -> F,
) -> Result<(), AnyError>
where
    F: Future<Output = Result<(), AnyError>> + Send + 'static,
{
    let workers: Vec<_> = (0..IN_FLIGHT)
        .map(|number| {
            let share = requests / IN_FLIGHT + usize::from(number < requests % IN_FLIGHT);
            tokio::spawn(worker(number, share))
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

fn check(status: u16, bytes: usize) -> Result<(), AnyError> {
    if (status, bytes) == (200, BODY.len()) { Ok(()) } else { Err("a wrong response".into()) }
}

fn path_length(path: &str) -> Option<usize> {
    path.strip_prefix("/bytes/")?.parse().ok()
}

/// Fields of requests and responses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// The same in each message.
    Same,
    /// One differs in each message.
    Varied,
    /// As a message of the `http` crate.
    Http,
}

async fn serve_ours(connection: quinn::Connection, fields: Fields) -> Result<(), AnyError> {
    let mut connection =
        server::Connection::new(adapter::Connection(connection), Config::default());
    while let Some(mut request) = connection.accept().await? {
        tokio::spawn(async move {
            request.head().await?;
            if fields == Fields::Http {
                let message = request.request()?;
                let length = path_length(message.uri().path()).ok_or("a wrong path")?;
                while request.receiver().data().await?.is_some() {}
                request.respond(&response(), Bytes::from_static(&BODY[..length])).await?;
            } else {
                let path = request.fields().get(b":path").unwrap_or_default();
                let path = std::str::from_utf8(path)?.split('?').next().unwrap_or_default();
                let length = path_length(path).ok_or("a wrong path")?;
                while request.receiver().data().await?.is_some() {}
                let mut response = RESPONSE;
                let date = (fields == Fields::Varied).then(|| varied(request.id(), " GMT"));
                if let Some(date) = &date {
                    response[3].1 = date;
                }
                request.respond(&response, Bytes::from_static(&BODY[..length])).await?;
            }
            Ok::<_, AnyError>(())
        });
    }
    Ok(())
}

/// Returns a text that depends on the stream, as long as a date or a path.
fn varied(stream: u64, end: &str) -> String {
    format!("{stream:025}{end}")
}

fn response() -> http::Response<()> {
    let mut response = http::Response::builder();
    for (name, value) in &RESPONSE[1..] {
        response = response.header(*name, *value);
    }
    response.body(()).expect("valid fields")
}

fn request() -> http::Request<()> {
    http::Request::get("https://localhost:4433/bytes/1000")
        .header("user-agent", "fathom-load/0.1.0")
        .body(())
        .expect("valid fields")
}

async fn request_ours(
    connection: quinn::Connection,
    requests: usize,
    fields: Fields,
) -> Result<(), AnyError> {
    let connection = adapter::Connection(connection);
    let (mut connection, sender) = client::Connection::new(connection, Config::default());
    tokio::spawn(async move { std::future::poll_fn(|cx| connection.poll_close(cx)).await });
    repeat(requests, |number, share| {
        let mut sender = sender.clone();
        async move {
            for sent in 0..share {
                let mut stream = match fields {
                    Fields::Same => sender.send(&REQUEST, Bytes::new()).await?,
                    Fields::Http => sender.send(&request(), Bytes::new()).await?,
                    Fields::Varied => {
                        let path = format!("/bytes/1000?{:09}", number << 24 | sent);
                        let mut request = REQUEST;
                        request[3].1 = &path;
                        sender.send(&request, Bytes::new()).await?
                    }
                };
                let head = stream.head().await?;
                let status = match fields {
                    Fields::Http => stream.response()?.status().as_u16(),
                    _ => head.status,
                };
                let mut bytes = 0;
                while let Some(data) = stream.data().await? {
                    bytes += data.len();
                }
                check(status, bytes)?;
            }
            Ok(())
        }
    })
    .await
}

async fn serve_h3(connection: quinn::Connection) -> Result<(), AnyError> {
    let connection = h3_quinn::Connection::new(connection);
    let mut connection =
        h3::server::builder().send_grease(false).build::<_, Bytes>(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            let length = path_length(request.uri().path()).ok_or("a wrong path")?;
            while stream.recv_data().await?.is_some() {}
            stream.send_response(response()).await?;
            stream.send_data(Bytes::from_static(&BODY[..length])).await?;
            stream.finish().await?;
            Ok::<_, AnyError>(())
        });
    }
    Ok(())
}

async fn request_h3(connection: quinn::Connection, requests: usize) -> Result<(), AnyError> {
    let connection = h3_quinn::Connection::new(connection);
    let (mut connection, sender) =
        h3::client::builder().send_grease(false).build::<_, _, Bytes>(connection).await?;
    tokio::spawn(async move { std::future::poll_fn(|cx| connection.poll_close(cx)).await });
    repeat(requests, |_, share| {
        let mut sender = sender.clone();
        async move {
            for _ in 0..share {
                let mut stream = sender.send_request(request()).await?;
                stream.finish().await?;
                let head = stream.recv_response().await?;
                let mut bytes = 0;
                while let Some(data) = stream.recv_data().await? {
                    bytes += data.remaining();
                }
                check(head.status().as_u16(), bytes)?;
            }
            Ok(())
        }
    })
    .await
}

/// Bytes that stand for a header: as many as the frames of this crate take.
static HEADER: [u8; 90] = [0; 90];
const REQUEST_HEADER: usize = 44;
const RESPONSE_HEADER: usize = 67;

async fn serve_floor(connection: quinn::Connection) -> Result<(), AnyError> {
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        tokio::spawn(async move {
            while receive.read_chunk(usize::MAX, true).await?.is_some() {}
            let mut chunks =
                [Bytes::from_static(&HEADER[..RESPONSE_HEADER]), Bytes::from_static(&BODY)];
            send.write_all_chunks(&mut chunks).await?;
            send.finish()?;
            Ok::<_, AnyError>(())
        });
    }
}

async fn request_floor(connection: quinn::Connection, requests: usize) -> Result<(), AnyError> {
    repeat(requests, |_, share| {
        let connection = connection.clone();
        async move {
            for _ in 0..share {
                let (mut send, mut receive) = connection.open_bi().await?;
                send.write_chunk(Bytes::from_static(&HEADER[..REQUEST_HEADER])).await?;
                send.finish()?;
                let mut bytes = 0;
                while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
                    bytes += chunk.bytes.len();
                }
                check(200, bytes - RESPONSE_HEADER)?;
            }
            Ok(())
        }
    })
    .await
}
