//! The server on quiche: the derived crate, on our own sockets.
//!
//! quiche does no I/O, has no runtime and brings its own HTTP/3, so it does not implement [`Endpoint`](fathom_stacks::Endpoint). One
//! task receives for all connections; each connection has a task of its own, which also runs its responses.
//!
//! | file | contents |
//! |---|---|
//! | `tls.rs` | certificate and key in BoringSSL |
//! | `endpoint.rs` | a socket that listens, and the configuration of its connections |
//! | `quic.rs` | quiche's connections as the server has them |
//! | `socket.rs` | the socket; sending packets in batches |
//! | `router.rs` | routes packets to connections; accepts, refuses, sends Retry |
//! | `stateless.rs` | Retry tokens and refusals, without state per client |
//! | `connection.rs` | one connection: timers, packets, shutdown |
//! | `coalesced.rs` | coalesced packets |
//! | `header_timeouts.rs` | timeouts of request headers |
//! | `request_streams.rs` | a connection's requests and responses |

mod coalesced;
mod connection;
mod endpoint;
mod header_timeouts;
mod quic;
mod request_streams;
mod router;
mod socket;
mod stateless;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

pub use self::coalesced::packets_after_handshake;
pub(super) use self::endpoint::ServerEndpoint;
use self::quic::FAR_FUTURE;
use self::router::PacketRouter;
use self::socket::RecvBatch;
pub use self::stateless::RetryTokens;
use super::{ServerContext, stopped};

/// How long what is closed may take to hear of it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl ServerEndpoint {
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
