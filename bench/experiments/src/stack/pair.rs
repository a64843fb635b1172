//! Both ends of connections on any QUIC stack, under the laboratory's HTTP/3, through the traits of
//! `fathom_stacks`.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fathom_netsim::sim::{SimHandle, flow_of, server_address};
use fathom_stacks::{
    Close, CloseKind, Connecting, Connection, ConnectionStats, Endpoint,
    EndpointSettings as Settings, Incoming, Monitor, ReadOrder, SetupError, Tls, TransportSettings,
};

use super::senders::{ReportSender, SenderReport, SenderStats};
use super::{
    BoxFuture, Client, Connector, EndpointPair, EndpointSettings, Ends, Host, OpenConnection,
    ReadDatagram, Side, WhyLost,
};
use crate::http::{
    HttpError, Identity, Lost, NO_ERROR, Requests, Sessions, available, push, serve,
};

/// Makes both ends of connections. `tls` returns the TLS configuration of a side.
pub(super) fn ends<E: Endpoint>(
    Ends { settings, client, server, host }: Ends<'_, '_>,
    tls: impl Fn(Side, &Identity) -> Result<E::Tls, SetupError>,
) -> Result<EndpointPair, SetupError> {
    let endpoint = |socket, side| {
        let settings_of_side = of_side(settings, side, tls(side, settings.identity)?);
        E::in_simulation(socket, settings.sim, settings_of_side)
    };
    let (client, server) = (endpoint(client, Side::Client)?, endpoint(server, Side::Server)?);
    Ok(EndpointPair {
        connector: Arc::new(Opener {
            endpoint: client,
            sim: settings.sim.clone(),
            senders: settings.uploads.then(|| Arc::clone(&host)),
            order: settings.read_order(),
            sessions: settings.identity.sessions.clone(),
            early_data: settings.identity.early_data(),
            datagrams: settings.datagrams.is_some(),
        }),
        accept: Box::pin(accept(server, settings.sim.clone(), host, Serving::of(settings))),
    })
}

/// Returns the TLS configuration of one side, for stacks on rustls.
pub(super) fn rustls(side: Side, identity: &Identity) -> Result<Tls, SetupError> {
    Ok(match side {
        Side::Client => Tls::Client(Arc::clone(&identity.client)),
        Side::Server => Tls::Server(Arc::clone(&identity.server)),
    })
}

/// Returns the endpoint settings of one side.
fn of_side<T>(settings: &EndpointSettings<'_>, side: Side, tls: T) -> Settings<T> {
    let sim = settings.sim.clone();
    Settings {
        extension: settings.extension,
        clock: Some(settings.clock(side)),
        // The other end sends only requests and acknowledgements, so its window is not recorded.
        watch_natives: (side == settings.sender()).then(|| Arc::new(move || sim.time()) as _),
        shaping: settings.shaping,
        seed: Some(settings.seed_of(side)),
        transport: TransportSettings {
            idle: Some(settings.idle),
            stream_window: settings.stream_window(),
            window: settings.window(),
            send_window: settings.send_window(),
            // The emulated path carries packets of this size.
            datagram: Some(settings.datagram),
            mtu_discovery: settings.mtu_discovery,
            datagrams: settings.datagrams,
            ..TransportSettings::default()
        },
        ..Settings::new(tls, vec![settings.control.clone()])
    }
}

struct Opener<E> {
    endpoint: E,
    sim: SimHandle,
    /// Observer of the clients' senders, if bodies travel from clients.
    senders: Option<Arc<dyn Host>>,
    order: ReadOrder,
    /// Sessions that clients resume; `None` if sessions are not resumed.
    sessions: Option<Arc<Sessions>>,
    /// Whether clients that hold a ticket send requests with the handshake.
    early_data: bool,
    /// Whether connections carry datagrams.
    datagrams: bool,
}

impl<E: Endpoint> Connector for Opener<E> {
    fn open(
        &self,
        flow: u32,
        ticket: bool,
    ) -> BoxFuture<'static, Result<Box<dyn Client>, HttpError>> {
        let observer = self.senders.as_ref().and_then(|host| host.observer(Some(flow)));
        if let Some(sessions) = &self.sessions {
            // The stack creates the client's first message during this call.
            sessions.offer(ticket);
        }
        let (early_data, datagrams) = (self.early_data, self.datagrams);
        let connecting = self
            .endpoint
            .connect(server_address(flow), "lab.test", None, observer)
            .map_err(|e| HttpError::Connect(e.to_string()));
        let (sim, senders, order) = (self.sim.clone(), self.senders.clone(), self.order);
        let uploads = senders.clone();
        Box::pin(async move {
            let connecting = connecting?;
            if let (Some(host), Some(monitor)) = (senders, connecting.monitor().cloned()) {
                host.began(Arc::new(monitor));
            }
            let connection = established(connecting, early_data).await;
            let connection = connection.map_err(|close| HttpError::Connection(close.into()))?;
            if let Some(host) = uploads {
                host.established(Some(flow));
            }
            let datagrams = datagrams.then(|| {
                let connection = connection.clone();
                let read = move || {
                    Box::pin(read_datagram(connection.clone())) as BoxFuture<'static, Option<Bytes>>
                };
                Box::new(read) as ReadDatagram
            });
            let lost = connection.clone();
            let why_lost: WhyLost = Arc::new(move || lost.close_reason().and_then(reason));
            let requests = Requests::open(connection.http(order), sim);
            Ok(Box::new(OpenConnection { requests, datagrams, why_lost }) as Box<dyn Client>)
        })
    }
}

/// Returns the connection after its handshake. With `early_data`, a server returns the connection
/// earlier, and so does a client that holds a ticket.
async fn established<C: Connecting>(
    connecting: C,
    early_data: bool,
) -> Result<C::Connection, Close> {
    if !early_data {
        return connecting.await;
    }
    match connecting.into_0rtt() {
        Ok((connection, _)) => Ok(connection),
        Err(connecting) => connecting.await,
    }
}

/// Returns why a connection was lost. Returns `None` if an application closed the connection,
/// because the application's error is then more specific.
fn reason(close: Close) -> Option<Lost> {
    (close.kind != CloseKind::Application).then(|| close.into())
}

async fn read_datagram(connection: impl Connection) -> Option<Bytes> {
    connection.read_datagram().await
}

/// Settings of a group's servers.
#[derive(Clone, Copy)]
struct Serving {
    /// Whether bodies travel to the servers. The servers' senders are then not observed.
    uploads: bool,
    order: ReadOrder,
    /// Whether requests can arrive with the handshake.
    early_data: bool,
}

impl Serving {
    fn of(settings: &EndpointSettings<'_>) -> Self {
        let early_data = settings.identity.early_data();
        Self { uploads: settings.uploads, order: settings.read_order(), early_data }
    }
}

/// Sender of a server: the report of its controller and, once its connection is open, the counters
/// of the stack.
struct Sender {
    monitor: Monitor,
    stats: OnceLock<Box<dyn Fn() -> ConnectionStats + Send + Sync>>,
}

impl ReportSender for Sender {
    fn report(&self) -> SenderReport {
        let stats = self.stats.get().map(|stats| SenderStats::of(&stats()));
        SenderReport { stats: stats.unwrap_or_default(), ..ReportSender::report(&self.monitor) }
    }
}

async fn accept<E: Endpoint>(endpoint: E, sim: SimHandle, host: Arc<dyn Host>, serving: Serving) {
    let Serving { uploads, order, early_data } = serving;
    while let Some(incoming) = endpoint.accept().await {
        let flow = incoming.local_ip().and_then(flow_of);
        // If an attempt is refused, the client reports the refusal.
        let observer = if uploads { None } else { host.observer(flow) };
        let Ok(connecting) = endpoint.begin(incoming, 0, observer) else { continue };
        let id = (!uploads).then(|| {
            let monitor = connecting
                .monitor()
                .cloned()
                .expect("servers watch native controllers, and ours report");
            let sender = Arc::new(Sender { monitor, stats: OnceLock::new() });
            (host.began(Arc::clone(&sender) as Arc<dyn ReportSender>), sender)
        });
        let (host, task) = (Arc::clone(&host), sim.clone());
        sim.spawn(async move {
            if let Ok(connection) = established(connecting, early_data).await {
                if let Some((_, sender)) = &id {
                    host.established(flow);
                    let of = connection.clone();
                    let _ = sender.stats.set(Box::new(move || of.stats()));
                }
                let writing = |begins| host.writing(flow, begins);
                // The client reports failures.
                let think = |at| host.think(flow, at);
                let live = |request| push(&task, &connection, request);
                let room = || available(&connection.stats());
                serve(connection.http(order), think, live, room, writing).await;
                connection.close(NO_ERROR);
            }
            if let Some((id, _)) = id {
                host.ended(id);
            }
        });
    }
}
