//! quiche under its own HTTP/3: the derived crate, whose clock and randomness the simulation sets.
//!
//! quiche does no I/O and has no runtime, so the tasks are here: one per endpoint that receives (`endpoint.rs`), one per connection that
//! sends and keeps its timers (`connection.rs`), and what asks and answers (`client.rs`, `server.rs`).

mod client;
mod connection;
mod endpoint;
mod server;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use fathom_netsim::sim::SimSocket;
use fathom_plugin::Observer;
use fathom_stacks::quiche::{algorithm, needs_pacing};
use parking_lot::Mutex;
use quiche::CongestionControlAlgorithm;
use quiche::h3;

use self::client::QuicheConnector;
use self::connection::Quic;
use self::endpoint::Endpoint;
use self::server::Acceptor;
use super::{Controller, EndpointPair, EndpointSettings, Host, IDLE, SetupError, Side};
use crate::http::{CHUNK, ZEROS};

/// Receive window of a stream where the plan sets none: quinn's default (100 ms at 100 Mbps), as noq's.
const STREAM_WINDOW: u64 = 1_250_000;
/// No limit on a connection's data, as quinn's default.
const NO_LIMIT: u64 = (1 << 62) - 1;
/// Streams of each kind a peer may have open: quinn's default.
const STREAMS: u64 = 100;

pub(super) fn ends(
    settings: &EndpointSettings<'_>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    let sim = settings.sim;
    let http = || h3::Config::new().map_err(|e| SetupError::Tls(e.to_string()));
    let mut opening = tls::client(settings.identity)?;
    let mut accepting = tls::server(settings.identity)?;
    transport(&mut opening, settings);
    transport(&mut accepting, settings);
    let (opening_setup, setup) = (Setup::new(settings, Side::Client)?, Setup::new(settings, Side::Server)?);
    let client = Endpoint::new(sim.clone(), client, http()?, settings.seed_of(Side::Client));
    let server = Endpoint::new(sim.clone(), server, http()?, settings.seed_of(Side::Server));
    // A client takes packets of its own connections only.
    sim.spawn(Arc::clone(&client).receive(|_, _, _| None));
    let connector = QuicheConnector { endpoint: client, config: Mutex::new(opening), setup: opening_setup };
    let acceptor = Acceptor { endpoint: server, config: Mutex::new(accepting), setup, host };
    Ok(EndpointPair { connector: Arc::new(connector), accept: Box::pin(acceptor.run()) })
}

/// Settings of every connection, as near to the other stacks' as quiche has them.
fn transport(config: &mut quiche::Config, settings: &EndpointSettings<'_>) {
    config.set_max_send_udp_payload_size(settings.datagram.into());
    config.set_max_idle_timeout(IDLE.as_millis() as u64);
    let window = settings.stream_window().map_or(STREAM_WINDOW, u64::from);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_initial_max_stream_data_uni(window);
    // The windows stay as they begin: the others do not tune theirs.
    config.set_max_stream_window(window);
    config.set_initial_max_data(NO_LIMIT);
    config.set_max_connection_window(NO_LIMIT);
    config.set_initial_max_streams_bidi(STREAMS);
    config.set_initial_max_streams_uni(STREAMS);
    config.grease(false);
}

/// What a run's connections have for a controller.
#[derive(Clone)]
pub(super) struct Setup {
    algorithm: CongestionControlAlgorithm,
    /// Clock and extension of our controllers; quiche's own run on quiche as it comes.
    plugin: Option<quiche::fathom::ConnectionConfig>,
}

impl Setup {
    fn new(settings: &EndpointSettings<'_>, side: Side) -> Result<Self, SetupError> {
        let wrong = |why| SetupError::Controller(settings.control.spec(), why);
        let algorithm = algorithm(settings.control).map_err(wrong)?;
        let plugin = matches!(settings.control, Controller::Fathom(_)).then(|| quiche::fathom::ConnectionConfig {
            clock: settings.clock(side),
            extension: settings.extension,
            ..Default::default()
        });
        Ok(Self { algorithm, plugin })
    }

    /// Readies a configuration for the next connection.
    fn apply(&self, config: &mut quiche::Config, observer: Option<Arc<dyn Observer>>) {
        config.set_cc_algorithm(self.algorithm);
        config.enable_pacing(needs_pacing(self.algorithm));
        if let Some(plugin) = &self.plugin {
            config.set_fathom(quiche::fathom::ConnectionConfig { observer, ..plugin.clone() });
        }
    }
}

/// Writes up to `left` bytes of a body that ends with them, as far as there is room: what is left then.
fn write_zeros(quic: &mut Quic, http: &mut h3::Connection, stream: u64, mut left: u64) -> Result<u64, h3::Error> {
    while left > 0 {
        let chunk = left.min(CHUNK as u64);
        let mut body = Bytes::from_static(&ZEROS[..chunk as usize]);
        match http.send_body_zc(quic, stream, &mut body, chunk == left) {
            Ok(written) => left -= written as u64,
            Err(h3::Error::Done) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(left)
}
