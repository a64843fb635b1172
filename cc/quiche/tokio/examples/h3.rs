//! HTTP/3 with unmodified tokio-quiche and a controller of Fathom's: a server, a client and a
//! download of several megabytes, all in this file. The code between the marks is what Fathom adds
//! to a tokio-quiche program.
//!
//! `cargo run --manifest-path cc/quiche/tokio/Cargo.toml --example h3-on-tokio-quiche`

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use quiche::fathom::{ConnectionMonitor, Report};
use quiche::h3::{Header, NameValue};
use tokio::net::UdpSocket;
use tokio_quiche::http3::driver::{ClientH3Event, H3Event, InboundFrame, IncomingH3Headers};
use tokio_quiche::http3::driver::{NewClientRequest, OutboundFrame, RequestSender, ServerH3Event};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::{QuicCommand, QuicheConnection, connect_with_config};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::{ClientH3Driver, ConnectionParams, ServerH3Driver, listen};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of bytes in the response.
const BODY: usize = 5_000_000;
const GONE: &str = "the connection is closed";
/// Number of bytes that the server passes on at a time.
const CHUNK: usize = 50_000;

pub(crate) fn main() -> Outcome<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Outcome<()> {
    // >>> Fathom: a controller by name. The default is "cubic".
    let mut settings = QuicSettings::default();
    settings.cc_algorithm = "sync:signal=either".into();
    // <<<

    let identity = tempfile::tempdir()?;
    certify(identity.path())?;
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let to = socket.local_addr()?;
    let serving = tokio::spawn(serve(socket, settings.clone(), identity.path().to_owned(), BODY));
    let (body, client) = get(to, settings).await?;
    let server = serving.await??;

    assert!(body == contents(BODY), "the response came as it was sent");
    print("client", client);
    print("server", server);
    Ok(())
}

// >>> Fathom: the connection lives in a task of tokio-quiche; a command for its driver gets there.
async fn monitor<C: From<QuicCommand>>(
    commands: RequestSender<C, QuicCommand>,
) -> Option<ConnectionMonitor> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let report = move |connection: &mut QuicheConnection| drop(sender.send(connection.fathom()));
    commands.send(QuicCommand::Custom(Box::new(report))).ok()?;
    receiver.await.ok()?
}
// <<<

/// Answers the requests of one connection, each with a body of `bytes` bytes. Returns the monitor's
/// report at the end.
pub(crate) async fn serve<P: AsRef<Path>>(
    socket: UdpSocket,
    settings: QuicSettings,
    identity: P,
    bytes: usize,
) -> Outcome<Option<Report>> {
    let path = |name: &str| identity.as_ref().join(name).to_string_lossy().into_owned();
    let (cert, private_key) = (path("cert.pem"), path("key.pem"));
    let tls =
        TlsCertificatePaths { cert: &cert, private_key: &private_key, kind: CertificateKind::X509 };
    let params = ConnectionParams::new_server(settings, tls, Hooks::default());
    let mut listeners = listen([socket], params, DefaultMetrics)?;
    let connection = listeners[0].next().await.ok_or("the listener is closed")??;
    let (driver, mut controller) = ServerH3Driver::new(Http3Settings::default());
    let _connection = connection.start(driver);

    let mut seen = None;
    while let Some(event) = controller.event_receiver_mut().recv().await {
        match event {
            ServerH3Event::Headers { incoming_headers, .. } => {
                tokio::spawn(respond(incoming_headers, bytes));
                // A monitor stays valid after the connection, so one is enough.
                seen = seen.or(monitor(controller.cmd_sender()).await);
            }
            ServerH3Event::Core(H3Event::ConnectionShutdown(_) | H3Event::ConnectionError(_)) => {
                break;
            }
            ServerH3Event::Core(_) => {}
        }
    }
    Ok(seen.map(|monitor| monitor.report()))
}

async fn respond(request: IncomingH3Headers, bytes: usize) -> Outcome<()> {
    let mut send = request.send;
    send.send(OutboundFrame::Headers(vec![Header::new(b":status", b"200")], None)).await?;
    let mut body = Bytes::from(contents(bytes));
    while !body.is_empty() {
        let chunk = body.split_to(CHUNK.min(body.len()));
        send.send(OutboundFrame::Body(chunk, body.is_empty())).await?;
    }
    Ok(())
}

/// Sends one request. Returns the body of its response, and the monitor's report.
pub(crate) async fn get(
    to: SocketAddr,
    settings: QuicSettings,
) -> Outcome<(Vec<u8>, Option<Report>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(to).await?;
    // The certificate is not verified, because tokio-quiche takes a custom trust store only through
    // a hook.
    let params = ConnectionParams::new_client(settings, None, Hooks::default());
    let (driver, mut controller) = ClientH3Driver::new(Http3Settings::default());
    let _connection =
        connect_with_config(socket.try_into()?, Some("localhost"), &params, driver).await?;
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
    let headers =
        fields.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect();
    controller
        .request_sender()
        .send(NewClientRequest { request_id: 0, headers, body_writer: None })
        .map_err(|_| GONE)?;
    let monitor = monitor(controller.cmd_sender()).await;

    let mut response = loop {
        match controller.event_receiver_mut().recv().await.ok_or(GONE)? {
            ClientH3Event::Core(H3Event::IncomingHeaders(response)) => break response,
            ClientH3Event::Core(H3Event::ConnectionError(e)) => return Err(e.into()),
            ClientH3Event::Core(H3Event::ConnectionShutdown(_)) => return Err(GONE.into()),
            _ => {}
        }
    };
    if !response.headers.iter().any(|h| h.name() == b":status" && h.value() == b"200") {
        return Err(format!("{:?}", response.headers).into());
    }
    let mut body = Vec::new();
    while let Some(frame) = response.recv.recv().await {
        if let InboundFrame::Body(bytes, last) = frame {
            body.extend_from_slice(&bytes);
            if last {
                break;
            }
        }
    }
    Ok((body, monitor.map(|monitor| monitor.report())))
}

/// Returns a body in which every byte depends on its position.
pub(crate) fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn print(who: &str, report: Option<Report>) {
    let Some(report) = report else {
        return println!("{who}: no controller of ours, no extension");
    };
    println!("{who}: one-way delays negotiated: {}", report.negotiated);
    println!("  stamps: {} sent, {} received", report.stamps_sent, report.stamps_received);
    println!("  delay samples: {}", report.samples.samples);
    if let Some(controller) = report.controller {
        let queueing = controller.queueing.unwrap_or(Duration::ZERO);
        println!(
            "  window {} bytes, queueing delay {queueing:?}, {:?}",
            controller.window, controller.phase
        );
    }
}

/// Writes a certificate and its key to files, from which tokio-quiche reads them.
pub(crate) fn certify(folder: &Path) -> Outcome<()> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    std::fs::write(folder.join("cert.pem"), signed.cert.pem())?;
    std::fs::write(folder.join("key.pem"), signed.signing_key.serialize_pem())?;
    Ok(())
}
