//! s2n-quic with its own controllers, in virtual time: a baseline beside the other stacks.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | both ends: limits, client, server |
//! | `io.rs` | the simulation as s2n-quic's I/O: clock, timer, datagrams |
//! | `random.rs` | everything that s2n-quic draws at random, seeded |
//! | `events.rs` | senders as s2n-quic's events show them |
//! | `h3.rs` | the transport of the `h3` crate on s2n-quic's streams |
//!
//! Here and not in `fathom-stacks`: s2n-quic hands a connection over when its handshake is done, chooses no controller by connection, and
//! has neither Retry by choice nor a key update to ask for, which the traits there promise. The laboratory needs none of it.

mod events;
mod h3;
mod io;
mod random;

use std::fmt::Display;
use std::sync::Arc;

use ::h3::error::Code;
use ::h3::quic::{Connection as _, OpenStreams as _};
use fathom_netsim::sim::{SimHandle, SimSocket, flow_of, server_address};
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{self, Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::{Client, Server};
use s2n_quic_core::connection::limits::ValidationError;

use self::events::ServerEvents;
use self::io::Io;
use self::random::Random;
use super::{BoxFuture, Connector, Controller, EndpointPair, EndpointSettings, Host, OpenConnection, SetupError, Side};
use crate::http::{HttpError, Requests, serve};

/// Streams of each kind a peer may have open: quinn's default.
const STREAMS: u64 = 100;

pub(super) fn ends(
    settings: &EndpointSettings<'_>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    match settings.control {
        Controller::Native("cubic") => ends_under(settings, Cubic::default, client, server, host),
        Controller::Native("bbr") => ends_under(settings, Bbr::default, client, server, host),
        other => Err(SetupError::Controller(other.spec(), "is not one of s2n-quic's own".into())),
    }
}

fn ends_under<C: congestion_controller::Provider>(
    settings: &EndpointSettings<'_>,
    controller: impl Fn() -> C,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    let sim = settings.sim;
    let limits = limits(settings).map_err(wrong)?;
    let events = ServerEvents::new(sim.clone(), Arc::clone(&host));
    let random = |side, part| Random::new(settings.seed_of(side), part);
    // Both builders take the same, but are not of one type.
    macro_rules! start {
        ($builder:expr, $side:expr, $socket:expr, $tls:expr) => {
            $builder
                .with_tls($tls)
                .map_err(wrong)?
                .with_limits(limits)
                .map_err(wrong)?
                .with_congestion_controller(controller())
                .map_err(wrong)?
                .with_random(random($side, 0))
                .map_err(wrong)?
                .with_connection_id(random($side, 1))
                .map_err(wrong)?
                .with_stateless_reset_token(random($side, 2))
                .map_err(wrong)?
                .with_io(Io::new(sim.clone(), $socket, settings.datagram).map_err(wrong)?)
                .map_err(wrong)?
                .start()
                .map_err(wrong)?
        };
    }
    let identity = settings.identity;
    let server = start!(
        Server::builder().with_event(events).map_err(wrong)?,
        Side::Server,
        server,
        tls::Server::from(Arc::clone(&identity.server))
    );
    let client = start!(Client::builder(), Side::Client, client, tls::Client::from(Arc::clone(&identity.client)));
    Ok(EndpointPair {
        connector: Arc::new(Opener { client, sim: sim.clone() }),
        accept: Box::pin(accept(server, sim.clone(), host)),
    })
}

fn wrong(why: impl Display) -> SetupError {
    SetupError::Endpoint(std::io::Error::other(why.to_string()))
}

/// Settings of every connection, as near to the other stacks' as s2n-quic has them.
fn limits(settings: &EndpointSettings<'_>) -> Result<Limits, ValidationError> {
    /// The most that s2n-quic takes: its flow control renews windows long before.
    const MOST: u64 = u32::MAX as u64;
    let mut limits = Limits::new();
    if let Some(window) = settings.stream_window().map(|bytes| bytes.min(MOST)) {
        limits = limits
            .with_bidirectional_local_data_window(window)?
            .with_bidirectional_remote_data_window(window)?
            .with_unidirectional_data_window(window)?;
    }
    if let Some(window) = settings.window() {
        limits = limits.with_data_window(window.min(MOST))?;
    }
    if let Some(buffer) = settings.send_window() {
        limits = limits.with_max_send_buffer_size(buffer.try_into().unwrap_or(u32::MAX))?;
    }
    limits
        .with_max_idle_timeout(settings.idle)?
        // The others bound a handshake by the idle timeout only.
        .with_max_handshake_duration(settings.idle)?
        .with_max_open_local_bidirectional_streams(STREAMS)?
        .with_max_open_local_unidirectional_streams(STREAMS)?
        .with_max_open_remote_bidirectional_streams(STREAMS)?
        .with_max_open_remote_unidirectional_streams(STREAMS)
}

struct Opener {
    client: Client,
    sim: SimHandle,
}

impl Connector for Opener {
    fn open(&self, flow: u32, _ticket: bool) -> BoxFuture<'static, Result<Box<dyn super::Client>, HttpError>> {
        let connecting = self.client.connect(Connect::new(server_address(flow)).with_server_name("lab.test"));
        let sim = self.sim.clone();
        Box::pin(async move {
            let connection = connecting.await.map_err(|e| HttpError::Connection(e.to_string()))?;
            let transport = h3::Connection::new(connection);
            let opener = transport.opener();
            let requests = Requests::open(transport, sim).await?;
            Ok(Box::new(OpenConnection { opener, requests, datagrams: None, why_lost: Arc::new(|| None) })
                as Box<dyn super::Client>)
        })
    }
}

async fn accept(mut server: Server, sim: SimHandle, host: Arc<dyn Host>) {
    while let Some(connection) = server.accept().await {
        let flow = connection.local_addr().ok().and_then(|at| flow_of(at.ip()));
        let host = Arc::clone(&host);
        sim.spawn(async move {
            let transport = h3::Connection::new(connection);
            let mut opener = transport.opener();
            // The client reports what fails.
            let _ = serve(transport, |at| host.think(flow, at), |_| std::future::ready(()), |_, _| (), |_| ()).await;
            opener.close(Code::H3_NO_ERROR, b"");
        });
    }
}
