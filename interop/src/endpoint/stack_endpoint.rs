//! Creates an endpoint on a stack and records facts about its connections.

use std::net::UdpSocket;
use std::time::Duration;

use fathom_http::load::wildcard_address;
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
use fathom_stacks::{
    Close, CloseKind, Closer, Connection, Controller, Endpoint, EndpointSettings, Monitor,
    SetupError, Tls, TransportSettings,
};

use super::error::InputError;
use super::facts;
use super::{Role, Setup, tls};

/// An open endpoint.
pub(super) struct OpenEndpoint<E> {
    pub(super) endpoint: E,
    /// Returns whether the endpoint has a session ticket, with which the next connection resumes
    /// the session.
    pub(super) has_ticket: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Settings that are large enough never to limit a transfer.
const TRANSPORT: TransportSettings = TransportSettings {
    // With 30 % loss, the first round-trip time sample may be 1 s, and the probe timeout then
    // doubles from 3 s. The usual idle timeout of 30 s would be too short for several probe
    // timeouts.
    idle: Some(Duration::from_secs(90)),
    bidi_streams: Some(256),
    uni_streams: Some(8),
    stream_window: Some(16 << 20),
    window: Some(64 << 20),
    send_window: None,
    datagram: None,
    mtu_discovery: false,
    datagrams: None,
};

/// Creates the endpoint of `setup` on a stack with rustls.
pub(super) fn on_rustls<E: Endpoint<Tls = Tls>>(
    setup: &Setup,
) -> Result<OpenEndpoint<E>, InputError> {
    match setup.role {
        Role::Client => {
            let (tls, tickets) = tls::client(setup)?;
            let endpoint = make(setup, Tls::Client(tls), TRANSPORT)?;
            Ok(OpenEndpoint { endpoint, has_ticket: Box::new(move || tickets.any()) })
        }
        Role::Server => {
            let endpoint = make(setup, Tls::Server(tls::server(setup)?), TRANSPORT)?;
            Ok(OpenEndpoint { endpoint, has_ticket: Box::new(|| false) })
        }
    }
}

/// Creates the endpoint of `setup` on a stack with BoringSSL, which is quiche.
#[cfg(feature = "quiche")]
pub(super) fn on_boring<E: Endpoint<Tls = BoringTls>>(
    setup: &Setup,
) -> Result<OpenEndpoint<E>, InputError> {
    // This is tokio-quiche's packet size. The runner's network carries larger packets, and MTU
    // discovery is off.
    let transport = TransportSettings { datagram: Some(1350), ..TRANSPORT };
    let tls = tls::boring(setup)?;
    let sessions = tls.sessions.clone();
    let endpoint = make(setup, tls, transport)?;
    Ok(OpenEndpoint {
        endpoint,
        has_ticket: Box::new(move || sessions.as_ref().is_some_and(|sessions| sessions.any())),
    })
}

/// Creates an endpoint. A server listens on the setup's address.
fn make<E: Endpoint>(
    setup: &Setup,
    tls: E::Tls,
    transport: TransportSettings,
) -> Result<E, InputError> {
    let at = match setup.role {
        Role::Client => wildcard_address(setup.address),
        Role::Server => setup.address,
    };
    let stack = setup.stack.stack;
    let controller = Controller::read(&setup.controller, stack)
        .map_err(|why| InputError::Controller(setup.controller.clone(), why.to_string()))?;
    let settings = EndpointSettings {
        initial: Some(tls::initial().ok_or(InputError::NoInitialSuite)?),
        shaping: controller.needs_shaping(stack),
        transport,
        ..EndpointSettings::new(tls, vec![controller])
    };
    let socket = UdpSocket::bind(at).map_err(|e| InputError::Listen(at, e))?;
    E::on_tokio(socket, settings).map_err(|e| match e {
        SetupError::Endpoint(e) => InputError::Listen(at, e),
        e => InputError::Stack(e),
    })
}

/// Records the reports of the stack and the plug-in.
pub(super) fn record<C: Connection>(connection: &C, facts: &mut facts::Connection) {
    let stats = connection.stats();
    facts.bytes_sent = Some(stats.sent_bytes);
    facts.bytes_received = Some(stats.received_bytes);
    facts.protocol = connection.protocol().or(facts.protocol.take());
    if let Some(report) = connection.monitor().and_then(Monitor::report) {
        facts.add_monitor_report(&report);
    }
    facts.resumed = connection.resumed().or(facts.resumed);
}

impl From<Close> for facts::Close {
    fn from(close: Close) -> Self {
        let by = match close.by {
            Closer::Us => "us",
            Closer::Peer => "peer",
            Closer::Nobody => "nobody",
        };
        match (close.kind, close.code) {
            (kind @ (CloseKind::Transport | CloseKind::Application), Some(code)) => {
                Self::with_code(by, kind == CloseKind::Transport, code, &close.reason)
            }
            (CloseKind::Timeout, _) => Self::without_code(by, "timeout", ""),
            (CloseKind::Reset, _) => Self::without_code(by, "reset", ""),
            _ => Self::without_code(by, "other", &String::from_utf8_lossy(&close.reason)),
        }
    }
}
