//! quiche, in the derived crate. quiche does no I/O and has no runtime. The driver in `quiche/`
//! runs quiche on the traits of [`fathom_netsim::runtime`], on tokio and in the simulation.
//!
//! | file | contents |
//! |---|---|
//! | `endpoint.rs` | configuration of connections; the traits |
//! | `router.rs` | the socket: packets by connection, new connections, stateless replies |
//! | `stateless.rs` | Retry tokens and refusals, without state per client |
//! | `connection.rs` | handle to one connection |
//! | `connection/driver.rs` | task that reads, sends and keeps a connection's timers |
//! | `native.rs` | quiche's own controllers |
//! | `send_batch.rs` | sending packets in batches and at their time |
//! | `coalesced.rs` | coalesced packets |
//! | `stream.rs` | the halves of a stream; opening and accepting streams |
//! | `http.rs` | connections and streams for HTTP/3 |

mod coalesced;
mod connection;
mod endpoint;
pub mod http;
mod native;
mod router;
mod send_batch;
mod stateless;
mod stream;

use std::sync::Arc;

use ::quiche as stack;
use fathom_plugin::{Clock, ConnectionMonitor, Extension, Observer};
use quiche::CongestionControlAlgorithm;
use quiche::fathom::simulation::{ConnectionRng, run_at};
use quiche::fathom::{ConnectionConfig, PluginError, StreamDelivery, algorithm_of};

pub use self::connection::Connection;
pub use self::endpoint::{Connecting, Endpoint};
use self::native::{Quic, native, needs_pacing};
pub use self::router::Incoming;
pub use self::stream::{RecvStream, SendStream};
use crate::controller::{Controller, ControllerError};

/// Returns a controller in the form that quiche's configuration takes. Returns an error if one of
/// our controllers needs a capability that quiche lacks.
fn algorithm(controller: &Controller) -> Result<CongestionControlAlgorithm, PluginError> {
    match controller {
        Controller::Fathom(config) => algorithm_of(Arc::clone(config)),
        Controller::Native(name) => Ok(native(name)),
    }
}

/// Configuration with which connections under one controller start.
struct Share {
    algorithm: CongestionControlAlgorithm,
    /// Clock and extension of our controllers. `None` for quiche's own controllers, which run on
    /// unmodified quiche.
    plugin: Option<ConnectionConfig>,
}

impl Share {
    fn new(
        controller: &Controller,
        extension: Extension,
        clock: Option<&Arc<dyn Clock>>,
    ) -> Result<Self, ControllerError> {
        let algorithm = algorithm(controller)?;
        let Controller::Fathom(config) = controller else {
            return Ok(Self { algorithm, plugin: None });
        };
        if extension.is_off() && config.required().one_way {
            return Err(PluginError::ExtensionOff(config.name()).into());
        }
        let plugin = ConnectionConfig { extension, ..ConnectionConfig::default() };
        let plugin = clock.map_or(plugin.clone(), |clock| ConnectionConfig {
            clock: Arc::clone(clock),
            ..plugin
        });
        Ok(Self { algorithm, plugin: Some(plugin) })
    }

    const fn is_native(&self) -> bool {
        self.plugin.is_none()
    }

    /// Prepares a configuration for the next connection.
    fn apply(&self, config: &mut quiche::Config, observer: Option<Arc<dyn Observer>>) {
        config.set_cc_algorithm(self.algorithm);
        config.enable_pacing(needs_pacing(self.algorithm));
        if let Some(plugin) = &self.plugin {
            config.set_fathom(ConnectionConfig { observer, ..plugin.clone() });
        }
    }
}

/// Returns the monitor of the connection's plug-in; `None` without a plug-in.
fn monitor(quic: &Quic) -> Option<ConnectionMonitor> {
    quic.fathom()
}

/// Returns the bytes in flight, and whether flow control permits more.
fn send_state(quic: &Quic) -> Option<(u64, bool)> {
    quic.send_state()
}

fn set_received_ecn(quic: &mut Quic, codepoint: u8) {
    quic.set_received_ecn(codepoint);
}

fn ecn_to_send(quic: &Quic) -> u8 {
    quic.ecn_to_send()
}

fn stream_delivery(quic: &mut Quic, stream: u64) -> StreamDelivery {
    quic.stream_delivery(stream)
}
