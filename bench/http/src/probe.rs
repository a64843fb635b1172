//! Probes one server: does HTTP/3 work with our transport parameters, which timestamp extension does it support, how does it acknowledge?
//!
//! Polite: one connection at a time, a few requests one after the other, bodies cut short. Where a connection with our parameters fails, one
//! without them tells whether they are to blame.

use std::fmt;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Buf;
use fathom_plugin::{EcnCounts, EnableTimestamp, Extension, InUse, Offer};
use fathom_stacks::quinn::{Connecting, Connection, Endpoint};
use fathom_stacks::{
    Connection as _, Controller, Endpoint as _, EndpointSettings, Monitor, Stack, Tls,
    TransportSettings,
};
use http::{Request, Uri};
use rustls::ClientConfig;

use crate::http3::{self, Closer};
use crate::load::{LoadError, Origin, Trust, wildcard_address};
use crate::server::NO_ERROR;

/// How long to wait for a closed connection to drain.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of a probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Which certificates to accept.
    pub trust: Trust,
    /// Requests, one after the other.
    pub requests: u32,
    /// How long a connection and all its requests may take.
    pub timeout: Duration,
    /// Bytes of a body after which the rest is not read.
    pub max_body_bytes: u64,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            requests: 3,
            timeout: Duration::from_secs(10),
            max_body_bytes: 256 << 10,
        }
    }
}

/// How a server reacts to the timestamp transport parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionSupport {
    /// It supports this frame, which is in use.
    Speaks(InUse),
    /// It goes on as if they were not there, as RFC 9000 §7.4.2 asks.
    Ignores,
    /// It serves only without them. This is why with them it did not.
    Refuses(String),
    /// It does not serve with them or without.
    Unreachable(String),
}

impl fmt::Display for ExtensionSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speaks(InUse::Sync) => f.write_str("speaks SYNC_TIMESTAMP"),
            Self::Speaks(InUse::Receive) => f.write_str("speaks ACK_RECEIVE_TIMESTAMPS"),
            Self::Speaks(_) => f.write_str("speaks TIMESTAMP"),
            Self::Ignores => f.write_str("ignores them"),
            Self::Refuses(_) => f.write_str("REFUSES them"),
            Self::Unreachable(_) => f.write_str("not reached"),
        }
    }
}

/// Result of a probe.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    /// How it reacts to the parameters.
    pub verdict: ExtensionSupport,
    /// The connection that served; `None` where none did.
    pub visit: Option<ConnectionReport>,
}

/// A connection that served.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// From the first packet to the end of the handshake.
    pub handshake: Duration,
    /// Smoothed round-trip time in the end.
    pub rtt: Duration,
    /// Status of the last response.
    pub status: u16,
    /// Bytes of its body, as far as they were wanted.
    pub bytes: u64,
    /// The field `server` of the response.
    pub server: Option<String>,
    /// Number of the cipher suite (RFC 8446 §B.4).
    pub suite: Option<u16>,
    /// Its parameter sync_timestamp.
    pub sync_timestamp: Option<Offer>,
    /// Its parameter enable_timestamp (draft-huitema-quic-ts).
    pub enable_timestamp: Option<EnableTimestamp>,
    /// Stamps that came.
    pub stamps: u64,
    /// ECN counts of its last ACK frame that had any; `None`: it tells none, or the path takes the marks off.
    pub ecn: Option<EcnCounts>,
    /// Its ACK frames in 1-RTT packets.
    pub acks: u64,
    /// The longest time for which it says that it held one back.
    pub longest_ack_delay: Duration,
    /// Our packets, and those of them that were lost.
    pub sent: u64,
    /// See `sent`.
    pub lost: u64,
}

/// Probes a server.
///
/// # Errors
/// The client cannot be set up: nothing is said of the server.
pub async fn probe(
    origin: &Origin,
    url: &Uri,
    options: &ProbeOptions,
) -> Result<ProbeReport, LoadError> {
    let tls = options
        .trust
        .tls_config(crate::identity::ALPN, Arc::new(rustls::crypto::ring::default_provider()))?;
    let tls = Arc::new(tls);
    let with = visit(origin, url, &tls, Extension::default(), options).await?;
    let why = match with {
        Ok((visit, InUse::None)) => {
            return Ok(ProbeReport { verdict: ExtensionSupport::Ignores, visit: Some(visit) });
        }
        Ok((visit, in_use)) => {
            return Ok(ProbeReport {
                verdict: ExtensionSupport::Speaks(in_use),
                visit: Some(visit),
            });
        }
        Err(why) => why,
    };
    Ok(match visit(origin, url, &tls, Extension::OFF, options).await? {
        Ok((visit, _)) => {
            ProbeReport { verdict: ExtensionSupport::Refuses(why), visit: Some(visit) }
        }
        Err(without) => {
            ProbeReport { verdict: ExtensionSupport::Unreachable(without), visit: None }
        }
    })
}

type ConnectionOutcome = Result<(ConnectionReport, InUse), String>;

async fn visit(
    origin: &Origin,
    url: &Uri,
    tls: &Arc<ClientConfig>,
    extension: Extension,
    options: &ProbeOptions,
) -> Result<ConnectionOutcome, LoadError> {
    let setup = |e: &dyn fmt::Display| LoadError::Setup(e.to_string());
    let controller = Controller::read("cubic", Stack::Quinn).map_err(|e| setup(&e))?;
    let settings = EndpointSettings {
        extension,
        monitor_acks: true,
        transport: TransportSettings {
            uni_streams: Some(8),
            bidi_streams: Some(0),
            ..TransportSettings::default()
        },
        ..EndpointSettings::new(Tls::Client(Arc::clone(tls)), vec![controller])
    };
    let socket = UdpSocket::bind(wildcard_address(origin.address())).map_err(|e| setup(&e))?;
    let endpoint = Endpoint::on_tokio(socket, settings).map_err(|e| setup(&e))?;
    let connecting = endpoint
        .connect(origin.address(), origin.server_name(), None, None)
        .map_err(|e| setup(&e))?;
    let visited =
        match tokio::time::timeout(options.timeout, run_requests(connecting, url, options)).await {
            Ok(visited) => visited,
            Err(_) => Err(format!("no answer within {} s", options.timeout.as_secs_f64())),
        };
    endpoint.close(NO_ERROR);
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
    Ok(visited)
}

// How long things take is real time.
#[allow(clippy::disallowed_methods)]
async fn run_requests(
    connecting: Connecting,
    url: &Uri,
    options: &ProbeOptions,
) -> ConnectionOutcome {
    let started = Instant::now();
    let connection = connecting.await.map_err(|close| close.text)?;
    let handshake = started.elapsed();
    let begun = http3::client(connection.h3(), Closer::new(&connection)).await;
    let (mut driver, mut sender) = begun.map_err(|e| e.to_string())?;
    let responses = async {
        let mut got = get(&mut sender, url, options.max_body_bytes).await?;
        for _ in 1..options.requests {
            got = get(&mut sender, url, options.max_body_bytes).await?;
        }
        Ok::<_, String>(got)
    };
    // What the server sends by itself is taken meanwhile; where that ends first, so does the connection.
    let (status, bytes, server) = tokio::select! {
        responses = responses => responses?,
        closed = std::future::poll_fn(|cx| driver.poll_close(cx)) => return Err(closed.to_string()),
    };
    let report = connection.monitor().and_then(Monitor::report).ok_or("no plug-in")?;
    let stats = connection.stats();
    let visit = ConnectionReport {
        handshake,
        rtt: stats.rtt.unwrap_or_default(),
        status,
        bytes,
        server,
        suite: report.handshake.map(|handshake| handshake.suite),
        sync_timestamp: report.peers,
        enable_timestamp: report.peer_enable_timestamp,
        stamps: report.stamps_received,
        ecn: report.ecn,
        acks: report.acks,
        longest_ack_delay: report.longest_ack_delay,
        sent: stats.sent,
        lost: stats.lost,
    };
    Ok((visit, report.in_use))
}

/// A response's status, the bytes of its body, and who says to have sent it.
async fn get(
    sender: &mut http3::RequestSender<<Connection as fathom_stacks::Connection>::H3Opener>,
    url: &Uri,
    max_body_bytes: u64,
) -> Result<(u16, u64, Option<String>), String> {
    let said = |e: h3::error::StreamError| e.to_string();
    let request =
        Request::get(url.clone()).header(http::header::USER_AGENT, "fathom-probe").body(());
    let mut stream =
        sender.send_request(request.map_err(|e| e.to_string())?).await.map_err(said)?;
    // A server that has read enough may stop the rest (RFC 9114 §4.1); what else went wrong, the response tells.
    let _ = stream.finish().await;
    let head = stream.recv_response().await.map_err(said)?;
    let mut bytes = 0;
    while let Some(data) = stream.recv_data().await.map_err(said)? {
        bytes += data.remaining() as u64;
        if bytes >= max_body_bytes {
            // Dropping the stream stops it.
            break;
        }
    }
    // Printed on a terminal: nothing but letters that show.
    let text = |value: &http::HeaderValue| {
        let shown = value.to_str().unwrap_or_default().chars().filter(|c| !c.is_control());
        shown.take(60).collect::<String>()
    };
    Ok((head.status().as_u16(), bytes, head.headers().get(http::header::SERVER).map(text)))
}
