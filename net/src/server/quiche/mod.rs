//! The server on quiche: the derived crate, on our own sockets.
//!
//! quiche does no I/O, has no runtime and brings its own HTTP/3, so it does not implement [`Endpoint`](fathom_stacks::Endpoint). One
//! task receives for all connections; each connection has a task of its own, which also runs its responses.
//!
//! | file | contents |
//! |---|---|
//! | `tls.rs` | certificate and key in BoringSSL |
//! | `socket.rs` | the socket; sending packets in batches |
//! | `router.rs` | routes packets to connections; accepts, refuses, sends Retry |
//! | `stateless.rs` | Retry tokens and refusals, without state per client |
//! | `connection.rs` | one connection: timers, packets, shutdown |
//! | `coalesced.rs` | coalesced packets |
//! | `header_timeouts.rs` | timeouts of request headers |
//! | `request_streams.rs` | a connection's requests and responses |

mod coalesced;
mod connection;
mod header_timeouts;
mod request_streams;
mod router;
mod socket;
mod stateless;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::catalogue;
use quiche::CongestionControlAlgorithm;
use quiche::fathom::{Extension, PluginError, algorithm_of};
use quiche::h3;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::coalesced::packets_after_handshake;
use self::router::PacketRouter;
use self::socket::{LARGEST, RecvBatch, Socket};
pub use self::stateless::RetryTokens;
use super::{ServerContext, SetupError, Stack, WINDOW, stopped, stream_window};
use crate::controller_shares::ControllerShares;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::udp::SocketBuffers;

/// quiche's own controllers.
const NATIVE_CONTROLLERS: [(&str, CongestionControlAlgorithm); 3] = [
    ("reno", CongestionControlAlgorithm::Reno),
    ("cubic", CongestionControlAlgorithm::CUBIC),
    ("bbr2", CongestionControlAlgorithm::Bbr2Gcongestion),
];
/// The largest packet sent, as tokio-quiche has it: it fits where tunnels take their share of an Ethernet frame.
const PACKET: usize = 1350;
/// HTTP/3 has three streams in one direction: control and QPACK's two (RFC 9114 §6.2).
const UNI_STREAMS: u64 = 8;
/// How long what is closed may take to hear of it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A grace beyond what clocks count.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// quiche's connections with Fathom's buffers: bodies are not copied.
type Quic = quiche::Connection<Buffers>;

#[derive(Clone, Debug, Default)]
struct Buffers;

impl quiche::BufFactory for Buffers {
    type Buf = bytes::Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> bytes::Bytes {
        bytes::Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

/// How connections of one share are accepted.
struct ShareConfig {
    config: quiche::Config,
    /// The controller is one of Fathom's.
    fathom_controller: bool,
}

/// A socket that listens, and what its connections are made from.
pub(super) struct ServerEndpoint {
    socket: Arc<Socket>,
    share_configs: Vec<ShareConfig>,
    http: h3::Config,
    /// How connections with a controller of Fathom's exchange one-way delays.
    extension: Extension,
}

impl ServerEndpoint {
    pub(super) fn open(
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

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.address()
    }

    pub(super) fn buffers(&self) -> SocketBuffers {
        self.socket.buffers()
    }

    /// As [`Server::serve`](super::Server::serve).
    pub(super) async fn serve(self, server: Arc<ServerContext>, mut stop: watch::Receiver<bool>, grace: Duration) {
        let socket = Arc::clone(&self.socket);
        let (close, closed) = watch::channel(false);
        let mut router = PacketRouter::new(self, server, stop.clone(), closed);
        let mut received = RecvBatch::new(&socket);
        // Until it is to end: never.
        let mut deadline = Instant::now() + FAR_FUTURE;
        let mut ending = false;
        loop {
            tokio::select! {
                () = socket.receive(&mut received) => received.each(|packet, path| router.route(packet, path)),
                Some(ended) = router.connections.join_next_with_id(), if !router.connections.is_empty() => router.forget(&ended),
                () = stopped(&mut stop), if !ending => {
                    ending = true;
                    router.end();
                    deadline = Instant::now().checked_add(grace).unwrap_or(deadline);
                }
                () = tokio::time::sleep_until(deadline), if ending => {
                    // What is still there has had its time for saying farewell, too.
                    if close.send_replace(true) {
                        return;
                    }
                    deadline = Instant::now() + CLOSE_TIMEOUT;
                }
            }
            if ending && router.connections.is_empty() {
                return;
            }
        }
    }
}

fn share_config(
    controller: &str,
    identity: &Identity,
    limits: &Limits,
    extension: Extension,
) -> Result<ShareConfig, SetupError> {
    let wrong = |why: String| SetupError::Controller(controller.into(), why);
    let (algorithm, fathom_controller) = match controller.strip_prefix("native:") {
        Some(name) => {
            let found = NATIVE_CONTROLLERS.iter().find(|(native, _)| *native == name).map(|(_, algorithm)| *algorithm);
            let names = NATIVE_CONTROLLERS.map(|(name, _)| format!("native:{name}")).join(", ");
            (found.ok_or_else(|| wrong(format!("quiche has no such controller of its own; it has {names}")))?, false)
        }
        None => {
            let controller_config = catalogue::parse(controller).map_err(|e| wrong(e.to_string()))?;
            if extension.is_off() && controller_config.required().one_way {
                return Err(wrong(PluginError::ExtensionOff(controller_config.name()).to_string()));
            }
            (algorithm_of(controller_config).map_err(|e| wrong(e.to_string()))?, true)
        }
    };
    let mut config = tls::config(identity)?;
    config.set_cc_algorithm(algorithm);
    // Only BBR needs it: the others' windows are all there is to them, and Fathom's pace themselves.
    config.enable_pacing(algorithm == CongestionControlAlgorithm::Bbr2Gcongestion);
    config.set_max_send_udp_payload_size(PACKET);
    config.discover_pmtu(true);
    config.set_max_recv_udp_payload_size(LARGEST);
    config.set_max_idle_timeout(u64::try_from(limits.idle.as_millis()).unwrap_or(u64::MAX));
    config.set_initial_max_data(WINDOW.into());
    config.set_max_connection_window(WINDOW.into());
    let stream = stream_window(limits).into();
    config.set_initial_max_stream_data_bidi_remote(stream);
    config.set_initial_max_stream_data_uni(stream);
    config.set_max_stream_window(stream);
    config.set_initial_max_streams_bidi(limits.streams.into());
    config.set_initial_max_streams_uni(UNI_STREAMS);
    config.grease(false);
    Ok(ShareConfig { config, fathom_controller })
}
