//! What an endpoint on a stack with rustls is made from, and facts about its connections.

use std::net::UdpSocket;
use std::time::Duration;

use fathom_http::load::wildcard_address;
use fathom_stacks::{
    Close, CloseKind, Closer, Connection, Controller, Endpoint, EndpointSettings, Monitor, SetupError, Tls,
    TransportSettings,
};

use super::facts;
use super::{Setup, tls};

/// Makes an endpoint of a stack of its socket and settings.
pub(super) type Open<E> = fn(UdpSocket, EndpointSettings) -> Result<E, SetupError>;

/// Settings large enough never to limit a transfer.
const TRANSPORT: TransportSettings = TransportSettings {
    // With 30 % loss, the first round-trip time sample may be 1 s, and the probe timeout doubles from 3 s, so that the usual 30 s are too
    // short.
    idle: Some(Duration::from_secs(90)),
    bidi_streams: Some(256),
    uni_streams: Some(8),
    stream_window: Some(16 << 20),
    window: Some(64 << 20),
    send_window: None,
    datagram: None,
};

/// Makes the endpoint of `setup`; a server listens at the setup's address.
pub(super) fn open<E: Endpoint>(open: Open<E>, setup: &Setup, tls: Tls) -> Result<E, String> {
    let at = match tls {
        Tls::Client(_) => wildcard_address(setup.address),
        Tls::Server(_) => setup.address,
    };
    let stack = setup.stack.stack;
    let wrong = |why: &dyn std::fmt::Display| format!("controller '{}': {why}", setup.controller);
    let controller = Controller::read(&setup.controller, stack).map_err(|e| wrong(&e))?;
    let settings = EndpointSettings {
        initial: Some(tls::initial().ok_or("no cipher suite for Initial packets")?),
        shaping: controller.needs_shaping(stack),
        transport: TRANSPORT,
        ..EndpointSettings::new(tls, vec![controller])
    };
    let cannot = |e: &dyn std::fmt::Display| format!("cannot listen at {at}: {e}; choose another port");
    let socket = UdpSocket::bind(at).map_err(|e| cannot(&e))?;
    open(socket, settings).map_err(|e| match e {
        SetupError::Endpoint(e) => cannot(&e),
        e => e.to_string(),
    })
}

/// Records what the stack and the plug-in report.
pub(super) fn record<C: Connection>(connection: &C, facts: &mut facts::Connection) {
    let stats = connection.stats();
    facts.bytes_sent = Some(stats.sent_bytes);
    facts.bytes_received = Some(stats.received_bytes);
    facts.protocol = connection.protocol().or(facts.protocol.take());
    if let Some(report) = connection.monitor().and_then(Monitor::report) {
        facts.add_monitor_report(&report);
    }
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
