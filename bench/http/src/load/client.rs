//! A client on any stack: its sockets, and its connections to one server.

use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fathom_plugin::Observer;
use fathom_stacks::{
    Connecting as _, Connection as _, ConnectionStats, Controller, EarlyDataAccepted, Endpoint,
    EndpointSettings, ReadOrder, SetupError, Stack, Tls, TransportSettings, UNLIMITED,
};
use tokio::runtime::Handle;

use super::target::{Origin, wildcard_address};
use super::uplink_delay::UplinkDelay;
use super::{LoadError, Timestamps};
use crate::event_loops::EventLoops;
use crate::handshake_error::HandshakeError;
use crate::udp;

/// Configuration of clients.
#[derive(Clone, Debug)]
pub(super) struct ClientConfig {
    pub(super) stack: Stack,
    pub(super) origin: Origin,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) timestamps: Timestamps,
    /// Number of event loops, among which connections are divided. Each loop has one UDP socket.
    pub(super) loops: NonZeroU8,
    pub(super) idle: Duration,
    /// Flow control window of a response, in bytes.
    pub(super) stream_window: u64,
}

impl ClientConfig {
    fn endpoint(&self) -> Result<EndpointSettings, SetupError> {
        let extension = self.timestamps.extension();
        // This end sends only a few requests and acknowledgements, so its controller does not
        // matter.
        let controller = if extension.is_off() { "native:cubic" } else { "cubic" };
        let controller = Controller::read(controller, self.stack)
            .map_err(|reason| SetupError::Controller { spec: controller.to_owned(), reason })?;
        Ok(EndpointSettings {
            extension,
            transport: TransportSettings {
                idle: Some(self.idle),
                // Servers open three unidirectional streams: the control stream and QPACK's two
                // streams (RFC 9114 §6.2). The client accepts no others.
                uni_streams: Some(8),
                bidi_streams: Some(0),
                stream_window: Some(self.stream_window),
                // The number of streams limits the total, because each stream has its own window.
                window: Some(UNLIMITED),
                ..TransportSettings::default()
            },
            ..EndpointSettings::new(Tls::Client(Arc::clone(&self.tls)), vec![controller])
        })
    }
}

/// Event loops of a client with their sockets, and its configuration.
pub(super) struct Client<E> {
    endpoints: Vec<E>,
    loops: EventLoops,
    config: ClientConfig,
}

impl<E: Endpoint<Tls = Tls>> Client<E> {
    pub(super) fn open(config: ClientConfig) -> Result<Self, LoadError> {
        let loops = EventLoops::start(config.loops)?;
        let endpoints = loops.handles().map(|event_loop| {
            let _inside = event_loop.enter();
            let (socket, _) = udp::bind(wildcard_address(config.origin.address()))?;
            Ok(E::on_tokio(socket, config.endpoint()?)?)
        });
        let endpoints = endpoints.collect::<Result<_, LoadError>>()?;
        Ok(Self { endpoints, loops, config })
    }
}

impl<E: Endpoint> Client<E> {
    /// Returns the handle of the event loop on which the connections with this index run.
    pub(super) fn event_loop(&self, index: usize) -> &Handle {
        self.loops.handle(index)
    }

    /// Starts a connection with this index, on its [event loop](Self::event_loop).
    pub(super) fn connect(&self, index: usize) -> Result<Connecting<E>, HandshakeError> {
        let uplink_delay =
            (!self.config.timestamps.extension().is_off()).then(Arc::<UplinkDelay>::default);
        let observer = uplink_delay.clone().map(|uplink_delay| uplink_delay as Arc<dyn Observer>);
        let endpoint = &self.endpoints[index % self.endpoints.len()];
        let (origin, event_loop) = (&self.config.origin, self.event_loop(index).clone());
        let connecting = {
            let _inside = event_loop.enter();
            endpoint.connect(origin.address(), origin.server_name(), None, observer)
        };
        let connecting = connecting.map_err(HandshakeError::not_started)?;
        Ok(Connecting { connecting, event_loop, uplink_delay })
    }

    /// Waits until closed connections are drained.
    pub(super) async fn wait_idle(&self) {
        for endpoint in &self.endpoints {
            endpoint.wait_idle().await;
        }
    }
}

/// A connection in its handshake.
pub(super) struct Connecting<E: Endpoint> {
    connecting: E::Connecting,
    event_loop: Handle,
    uplink_delay: Option<Arc<UplinkDelay>>,
}

impl<E: Endpoint> Connecting<E> {
    /// Returns the connection before its handshake is complete, if a session ticket allows 0-RTT.
    pub(super) fn into_0rtt(self) -> Result<(Connection<E>, EarlyDataAccepted), Self> {
        let Self { connecting, event_loop, uplink_delay } = self;
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => {
                Ok((Connection { connection, event_loop, uplink_delay }, accepted))
            }
            Err(connecting) => Err(Self { connecting, event_loop, uplink_delay }),
        }
    }
}

impl<E: Endpoint> Future for Connecting<E> {
    type Output = Result<Connection<E>, HandshakeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.connecting).poll(cx).map(|done| match done {
            Ok(connection) => {
                let (event_loop, uplink_delay) =
                    (self.event_loop.clone(), self.uplink_delay.take());
                Ok(Connection { connection, event_loop, uplink_delay })
            }
            Err(close) => Err(close.into()),
        })
    }
}

/// A connection in use.
pub(super) struct Connection<E: Endpoint> {
    connection: E::Connection,
    event_loop: Handle,
    uplink_delay: Option<Arc<UplinkDelay>>,
}

impl<E: Endpoint> Connection<E> {
    /// Returns the connection for HTTP/3.
    pub(super) fn http(&self) -> <E::Connection as fathom_stacks::Connection>::Http {
        self.connection.http(ReadOrder::Ordered)
    }

    /// Returns the handle of the event loop on which the connection's tasks run.
    pub(super) const fn event_loop(&self) -> &Handle {
        &self.event_loop
    }

    /// Returns whether the connection is open.
    pub(super) fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    /// Closes the connection with this error code.
    pub(super) fn close(&self, code: u32) {
        self.connection.close(code);
    }

    /// Returns the connection's statistics. The queueing delay is that of the client's packets.
    pub(super) fn stats(&self) -> ConnectionStats {
        let stats = self.connection.stats();
        match &self.uplink_delay {
            Some(uplink_delay) => ConnectionStats { queueing: uplink_delay.mean(), ..stats },
            None => stats,
        }
    }
}
