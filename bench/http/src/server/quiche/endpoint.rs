//! A socket that listens, and the configuration of its connections.

use std::net::SocketAddr;
use std::sync::Arc;

use fathom_stacks::quiche::{algorithm, needs_pacing};
use fathom_stacks::{Controller, Stack};
use quiche::fathom::{Extension, PluginError};
use quiche::h3;

use super::socket::{LARGEST, Socket};
use super::tls;
use crate::controller_shares::ControllerShares;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::server::{SetupError, WINDOW, stream_window};
use crate::udp::SocketBuffers;

/// The largest packet sent, as tokio-quiche has it: it fits where tunnels take their share of an Ethernet frame.
const PACKET: usize = 1350;
/// HTTP/3 has three streams in one direction: control and QPACK's two (RFC 9114 §6.2).
const UNI_STREAMS: u64 = 8;

/// How connections of one share are accepted.
pub(super) struct ShareConfig {
    pub(super) config: quiche::Config,
    /// The controller is one of Fathom's.
    pub(super) fathom_controller: bool,
}

/// A socket that listens, and what its connections are made from.
pub(in crate::server) struct ServerEndpoint {
    pub(super) socket: Arc<Socket>,
    pub(super) share_configs: Vec<ShareConfig>,
    pub(super) http: h3::Config,
    /// How connections with a controller of Fathom's exchange one-way delays.
    pub(super) extension: Extension,
}

impl ServerEndpoint {
    pub(in crate::server) fn open(
        listen: SocketAddr,
        shares: &ControllerShares,
        identity: &Identity,
        limits: &Limits,
        extension: Extension,
    ) -> Result<Self, SetupError> {
        if limits.early_data {
            return Err(SetupError::EarlyData(Stack::Quiche));
        }
        let mut share_configs = Vec::new();
        for controller in shares.controllers() {
            share_configs.push(share_config(controller, identity, limits, extension)?);
        }
        let mut http = h3::Config::new().map_err(|e| tls::boring_error(&e))?;
        http.set_max_field_section_size(limits.header_bytes);
        let socket = Socket::bind(listen).map_err(|e| SetupError::Listen(listen, e))?;
        Ok(Self { socket: Arc::new(socket), share_configs, http, extension })
    }

    pub(in crate::server) fn address(&self) -> SocketAddr {
        self.socket.address()
    }

    pub(in crate::server) fn buffers(&self) -> SocketBuffers {
        self.socket.buffers()
    }
}

fn share_config(
    controller: &str,
    identity: &Identity,
    limits: &Limits,
    extension: Extension,
) -> Result<ShareConfig, SetupError> {
    let wrong = |why: String| SetupError::controller(controller, why);
    let chosen = Controller::read(controller, Stack::Quiche).map_err(wrong)?;
    if let Controller::Fathom(config) = &chosen
        && extension.is_off()
        && config.required().one_way
    {
        return Err(wrong(PluginError::ExtensionOff(config.name()).to_string()));
    }
    let algorithm = algorithm(&chosen).map_err(wrong)?;
    let mut config = tls::config(identity)?;
    config.set_cc_algorithm(algorithm);
    config.enable_pacing(needs_pacing(algorithm));
    config.set_max_send_udp_payload_size(PACKET);
    config.discover_pmtu(true);
    config.set_max_recv_udp_payload_size(LARGEST);
    config.set_max_idle_timeout(u64::try_from(limits.idle_timeout.as_millis()).unwrap_or(u64::MAX));
    config.set_initial_max_data(WINDOW.into());
    config.set_max_connection_window(WINDOW.into());
    let stream = stream_window(limits).into();
    config.set_initial_max_stream_data_bidi_remote(stream);
    config.set_initial_max_stream_data_uni(stream);
    config.set_max_stream_window(stream);
    config.set_initial_max_streams_bidi(limits.streams.into());
    config.set_initial_max_streams_uni(UNI_STREAMS);
    config.grease(false);
    Ok(ShareConfig { config, fathom_controller: matches!(chosen, Controller::Fathom(_)) })
}
