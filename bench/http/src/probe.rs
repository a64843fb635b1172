//! Probes a single server: whether HTTP/3 works with our transport parameters, which timestamp
//! extension the server supports, and how the server acknowledges packets.
//!
//! The probe puts little load on the server: one connection at a time, a few requests in sequence,
//! and truncated bodies. If a connection with our parameters fails, a connection without them shows
//! whether the parameters are the cause.

use std::fmt;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_cc::Invalid;
use fathom_http3::client;
use fathom_plugin::{EcnCounts, EnableTimestamp, Extension, InUse, Offer};
use fathom_stacks::quinn::{Connecting, Connection, Endpoint};
use fathom_stacks::{
    Connection as _, Controller, Endpoint as _, EndpointSettings, Monitor, ReadOrder, SetupError,
    Stack, Tls, TransportSettings,
};
use http::{Request, Uri};
use rustls::ClientConfig;

use crate::handshake_error::HandshakeError;
use crate::http3::{self, NO_ERROR};
use crate::limits::RESPONSE_BYTES;
use crate::load::{LoadError, Origin, wildcard_address};
use crate::trust::Trust;

/// Time to wait for a closed connection to drain.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of a probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Certificates to accept.
    pub trust: Trust,
    /// Number of requests, sent in sequence.
    pub requests: u32,
    /// Time limit for a connection and all its requests.
    pub timeout: Duration,
    /// Number of body bytes that are read; the rest of a body is not read.
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

/// Reason why a connection to a server failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The server's name has no address.
    #[error(transparent)]
    Address(#[from] Invalid),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The HTTP/3 connection or a request failed.
    #[error(transparent)]
    Http3(#[from] fathom_http3::Error),
    /// The URL does not make a request.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The requests were not complete within this time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The stack runs without the plug-in.
    #[error("this stack has no plug-in for timestamps")]
    NoPlugin,
}

/// Reaction of a server to the timestamp transport parameters.
#[derive(Debug)]
pub enum ExtensionSupport {
    /// The server supports this frame, and the frame is in use.
    Speaks(InUse),
    /// The server ignores the parameters, as RFC 9000 §7.4.2 requires.
    Ignores,
    /// The server works only without the parameters. This is the error of the connection with the
    /// parameters.
    Refuses(ProbeError),
    /// The server works neither with nor without the parameters. This is the error of the
    /// connection without the parameters.
    Unreachable(ProbeError),
}

impl ProbeError {
    /// Returns whether the server's certificate was rejected.
    pub fn is_untrusted_certificate(&self) -> bool {
        matches!(self, Self::Handshake(error) if error.is_untrusted_certificate())
    }
}

impl ExtensionSupport {
    /// Returns the error of a server that refuses the parameters or cannot be reached.
    pub const fn error(&self) -> Option<&ProbeError> {
        match self {
            Self::Refuses(error) | Self::Unreachable(error) => Some(error),
            Self::Speaks(_) | Self::Ignores => None,
        }
    }
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
#[derive(Debug)]
pub struct ProbeReport {
    /// Reaction of the server to the parameters.
    pub verdict: ExtensionSupport,
    /// The successful connection; `None` if there was none.
    pub visit: Option<ConnectionReport>,
}

/// Report of a successful connection.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Time from the first packet to the end of the handshake.
    pub handshake: Duration,
    /// Smoothed round-trip time at the end of the connection.
    pub rtt: Duration,
    /// Status of the last response.
    pub status: u16,
    /// Number of bytes that were read of the last response's body.
    pub bytes: u64,
    /// Field `server` of the last response.
    pub server: Option<String>,
    /// Number of the cipher suite (RFC 8446 §B.4).
    pub suite: Option<u16>,
    /// Transport parameter sync_timestamp of the server; `None` if the server sent none.
    pub sync_timestamp: Option<Offer>,
    /// Transport parameter enable_timestamp of the server (draft-huitema-quic-ts); `None` if the
    /// server sent none.
    pub enable_timestamp: Option<EnableTimestamp>,
    /// Timestamps received.
    pub stamps: u64,
    /// ECN counts of the server's last ACK frame with ECN counts. `None` if the server reports none
    /// or the path removes the marks.
    pub ecn: Option<EcnCounts>,
    /// ACK frames in the server's 1-RTT packets.
    pub acks: u64,
    /// Longest delay of an ACK frame that the server reported.
    pub longest_ack_delay: Duration,
    /// Packets sent.
    pub sent: u64,
    /// Number of sent packets that were lost.
    pub lost: u64,
}

/// Probes a server.
///
/// # Errors
/// Returns an error if the client cannot be set up. Such an error says nothing about the server.
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

type ConnectionOutcome = Result<(ConnectionReport, InUse), ProbeError>;

async fn visit(
    origin: &Origin,
    url: &Uri,
    tls: &Arc<ClientConfig>,
    extension: Extension,
    options: &ProbeOptions,
) -> Result<ConnectionOutcome, LoadError> {
    let controller = Controller::read("cubic", Stack::Quinn)
        .map_err(|reason| SetupError::Controller { spec: "cubic".to_owned(), reason })?;
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
    let socket = UdpSocket::bind(wildcard_address(origin.address()))?;
    let endpoint = Endpoint::on_tokio(socket, settings)?;
    let connecting =
        endpoint.connect(origin.address(), origin.server_name(), None, None).map_err(|why| {
            LoadError::Unreachable(origin.clone(), Box::new(HandshakeError::not_started(why)))
        })?;
    let visited = tokio::time::timeout(options.timeout, run_requests(connecting, url, options))
        .await
        .unwrap_or(Err(ProbeError::TimedOut(options.timeout)));
    endpoint.close(NO_ERROR);
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
    Ok(visited)
}

// Durations are in real time.
#[allow(clippy::disallowed_methods)]
async fn run_requests(
    connecting: Connecting,
    url: &Uri,
    options: &ProbeOptions,
) -> ConnectionOutcome {
    let started = Instant::now();
    let connection = connecting.await.map_err(HandshakeError::from)?;
    let handshake = started.elapsed();
    let (mut driver, mut sender) = client::Connection::new(
        connection.http(ReadOrder::Ordered),
        http3::config(RESPONSE_BYTES, RESPONSE_BYTES),
    );
    let responses = async {
        let mut got = get(&mut sender, url, options.max_body_bytes).await?;
        for _ in 1..options.requests {
            got = get(&mut sender, url, options.max_body_bytes).await?;
        }
        Ok::<_, ProbeError>(got)
    };
    // Process the server's other streams in the meantime. If these streams end first, the
    // connection is over.
    let (status, bytes, server) = tokio::select! {
        responses = responses => responses?,
        closed = std::future::poll_fn(|cx| driver.poll_close(cx)) => return Err(closed.into()),
    };
    let report = connection.monitor().and_then(Monitor::report).ok_or(ProbeError::NoPlugin)?;
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

/// Sends a request. Returns the response's status, the bytes read of its body, and its field
/// `server`.
async fn get(
    sender: &mut client::RequestSender<<Connection as fathom_stacks::Connection>::Http>,
    url: &Uri,
    max_body_bytes: u64,
) -> Result<(u16, u64, Option<String>), ProbeError> {
    let request =
        Request::get(url.clone()).header(http::header::USER_AGENT, "fathom-probe").body(());
    let mut stream = sender.send(&request?, Bytes::new()).await?;
    let status = stream.head().await?.status;
    let mut bytes = 0;
    while let Some(data) = stream.data().await? {
        bytes += data.len() as u64;
        if bytes >= max_body_bytes {
            // Dropping the stream sends STOP_SENDING.
            break;
        }
    }
    // The text is printed on a terminal, so remove control characters.
    let text = |value: &[u8]| {
        let value = std::str::from_utf8(value).unwrap_or_default();
        value.chars().filter(|c| !c.is_control()).take(60).collect::<String>()
    };
    Ok((status, bytes, stream.fields().get(b"server").map(text)))
}
