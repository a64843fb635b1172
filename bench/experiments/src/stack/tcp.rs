//! TCP at packet level in place of a stack: HTTP without TLS and headers. Requests and responses
//! are numbers of bytes.
//!
//! A connection that makes one request follows HTTP/1.0: the server closes it after its response,
//! and the FIN completes the response (Sync-TCP §4.2). The client closes a persistent connection.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fathom_cc::{
    AckEvent, Capabilities, CongestionEvent, Controller as CongestionController, ControllerConfig,
    ControllerMetrics, Pacing, PathChange, SendParams, Sent, Start, Time,
};
use fathom_netsim::sim::SimHandle;
use fathom_packet_level::ClientOrServer::{Client, Server};
use fathom_packet_level::{TcpConnection, TcpConnections, TcpEnd, TcpOptions, TcpReceiverOptions};
use fathom_plugin::{Observer, PluginError};
use fathom_stacks::SetupError;
use parking_lot::Mutex;

use super::senders::{ReportSender, SenderReport};
use super::{
    BoxFuture, Connector, Controller, ControllerError, EndpointPair, EndpointSettings, Host, Stack,
};
use crate::http::{Ask, Fetched, HttpError, LiveRequest};
use crate::tcp::{TcpOutcome, TcpSettings};

/// Makes both ends. They need no sockets.
pub(super) fn ends(
    settings: &EndpointSettings<'_>,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    let wrong = |reason| SetupError::Controller { spec: settings.control.spec(), reason };
    let config = match settings.control {
        Controller::Fathom(config) => config,
        Controller::Native(name) => {
            let name = (*name).to_owned();
            return Err(wrong(ControllerError::UnknownNative { stack: Stack::Tcp, name }));
        }
    };
    let provided = settings.tcp.provided();
    let timestamps = TcpSettings::stamps(&**config) && !settings.extension.is_off();
    let sender = settings.tcp.sender(
        settings.datagram,
        settings.max_window.packets(),
        timestamps,
        config.required().l4s,
    );
    let opener = Opener {
        connections: TcpConnections::new(settings.sim),
        sim: settings.sim.clone(),
        config: Arc::clone(config),
        sender,
        receiver: sender.receiver(settings.tcp.acks),
        provided,
        one_request: settings.one_request,
        host,
    };
    let start = Start { now: settings.sim.time(), datagram: opener.sender.smss(), provided };
    config.start(&start).map_err(|missing| {
        wrong(PluginError::Missing { missing, shaping_socket_suffices: false }.into())
    })?;
    Ok(EndpointPair { connector: Arc::new(opener), accept: Box::pin(async {}) })
}

#[derive(Clone)]
struct Opener {
    connections: TcpConnections,
    sim: SimHandle,
    config: Arc<dyn ControllerConfig>,
    sender: TcpOptions,
    receiver: TcpReceiverOptions,
    provided: Capabilities,
    one_request: bool,
    host: Arc<dyn Host>,
}

/// Requests that a client has made and its server has not answered yet. Each entry has the bytes of
/// the request and the bytes of the response.
type Asked = Arc<Mutex<Vec<(u64, u64)>>>;

impl Opener {
    fn end(&self, observer: Option<Arc<dyn Observer>>) -> TcpEnd {
        let start =
            Start { now: self.sim.time(), datagram: self.sender.smss(), provided: self.provided };
        let controller = self.config.start(&start).expect("one started before on the same terms");
        let controller = match observer {
            Some(observer) => Box::new(Observed { inner: controller, observer }),
            None => controller,
        };
        TcpEnd { controller, sender: self.sender, receiver: self.receiver }
    }

    /// Runs the server's side of a connection.
    async fn serve(self, connection: TcpConnection, flow: u32, asked: Asked) {
        let id = self.host.began(Arc::new(Sender {
            connection: connection.clone(),
            one_way: self.sender.timestamps,
        }));
        let mut taken = 0;
        loop {
            connection.received_or_finished(Server, taken + 1).await;
            // The client pushes a request before it sends the bytes.
            let next = asked.lock().pop();
            let Some((request, response)) = next else { break };
            taken += request;
            connection.received(Server, taken).await;
            self.host.think(Some(flow), None).await;
            connection.write(Server, response);
            if self.one_request {
                break;
            }
        }
        connection.finish(Server);
        connection.over().await;
        self.host.ended(id);
    }
}

impl Connector for Opener {
    fn open(
        &self,
        flow: u32,
        _ticket: bool,
    ) -> BoxFuture<'static, Result<Box<dyn super::Client>, HttpError>> {
        let opener = self.clone();
        Box::pin(async move {
            let (client, server) = (opener.end(None), opener.end(opener.host.observer(Some(flow))));
            let connection = opener.connections.open(flow, client, server);
            let (sim, asked, one_request) =
                (opener.sim.clone(), Asked::default(), opener.one_request);
            let host = Arc::clone(&opener.host);
            sim.spawn(opener.serve(connection.clone(), flow, Arc::clone(&asked)));
            connection.connected().await;
            host.established(Some(flow));
            Ok(Box::new(Requests { connection, sim, asked, got: 0, one_request })
                as Box<dyn super::Client>)
        })
    }
}

/// The client's side of a connection.
struct Requests {
    connection: TcpConnection,
    sim: SimHandle,
    asked: Asked,
    /// Total bytes of all responses so far.
    got: u64,
    one_request: bool,
}

impl super::Client for Requests {
    fn get(&mut self, bytes: u64, request_bytes: u64) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        Box::pin(async move {
            let request = request_bytes.max(1);
            self.asked.lock().push((request, bytes));
            self.connection.write(Client, request);
            self.connection.received(Client, self.got + bytes.min(1)).await;
            let first_byte = self.sim.time();
            self.got += bytes;
            match self.one_request && self.connection.has_fin() {
                true => self.connection.finished(Client).await,
                false => self.connection.received(Client, self.got).await,
            }
            Ok(Fetched { first_byte, last_byte: self.sim.time(), bytes })
        })
    }

    /// Returns an error, because a TCP connection has one request at a time. Scenarios never ask
    /// for more.
    fn fetch(&self, _: Ask) -> BoxFuture<'static, Result<Fetched, HttpError>> {
        Box::pin(async {
            Err(HttpError::Connect("TCP in the laboratory has one request at a time".into()))
        })
    }

    fn live(&self, _: LiveRequest) -> BoxFuture<'static, Result<(), HttpError>> {
        Box::pin(std::future::ready(Err(HttpError::Connect("TCP has no datagrams".into()))))
    }

    fn read_datagram(&self) -> BoxFuture<'static, Option<Bytes>> {
        Box::pin(std::future::ready(None))
    }

    /// Does nothing, because [`Drop`] ends the connection.
    fn close(self: Box<Self>) {}
}

impl Drop for Requests {
    /// Ends the connection.
    fn drop(&mut self) {
        self.connection.finish(Client);
    }
}

/// The server's sender.
struct Sender {
    connection: TcpConnection,
    one_way: bool,
}

impl ReportSender for Sender {
    fn report(&self) -> SenderReport {
        let (metrics, counts) = (self.connection.metrics(Server), self.connection.counts(Server));
        SenderReport {
            one_way_negotiated: u64::from(self.one_way),
            early_reductions: metrics.early_reductions,
            reductions: metrics.reductions,
            tcp: TcpOutcome {
                retransmitted: counts.retransmitted,
                fast_recoveries: counts.fast_recoveries,
                timeouts: counts.timeouts,
                syn_timeouts: self.connection.counts(Client).syn_timeouts,
            },
            ..SenderReport::default()
        }
    }
}

/// A controller with an observer.
struct Observed {
    inner: Box<dyn CongestionController>,
    observer: Arc<dyn Observer>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl CongestionController for Observed {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
        self.observer.on_sent(sent);
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.inner.on_ack(acks);
        let rate = match self.inner.send_params().pacing {
            Pacing::Rate(rate) => Some(rate),
            Pacing::Window | Pacing::Delay(_) => None,
        };
        self.observer.on_ack(acks, rate);
        self.observer.on_metrics(acks.now, &self.inner.metrics(), acks.one_way);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.inner.on_congestion_event(event);
        self.observer.on_congestion_event(event);
        self.observer.on_metrics(event.now, &self.inner.metrics(), None);
    }

    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.inner.on_spurious_congestion_event(now);
        self.observer.on_metrics(now, &self.inner.metrics(), None);
    }

    fn on_probe_timeout(&mut self, now: Time, count: u32) {
        self.inner.on_probe_timeout(now, count);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        self.inner.on_path(now, change);
    }

    fn send_params(&self) -> SendParams {
        self.inner.send_params()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn boxed(&self) -> Box<dyn CongestionController> {
        Box::new(Self { inner: self.inner.boxed(), observer: Arc::clone(&self.observer) })
    }
}
