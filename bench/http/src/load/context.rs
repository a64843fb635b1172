//! State of a run that all requests share, including connection setup and 0-RTT.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathom_stacks::{EarlyDataAccepted, Endpoint};

use super::client::{Client, Connection};
use super::clock::now;
use super::load_stats::{EarlyData, LoadStats};
use super::request::{Failure, Request};
use super::session::{RequestFields, Session};

/// Options of all requests.
#[derive(Clone, Debug)]
pub(super) struct RequestOptions {
    /// Timeout of a request.
    pub(super) timeout: Duration,
    pub(super) zero_rtt: bool,
    pub(super) fields: Arc<RequestFields>,
}

/// State of a run that all requests share.
pub(super) struct LoadContext<E: Endpoint> {
    pub(super) client: Client<E>,
    pub(super) stats: Arc<LoadStats>,
    pub(super) options: RequestOptions,
    connections: AtomicU64,
}

impl<E: Endpoint> LoadContext<E> {
    pub(super) fn new(client: Client<E>, stats: Arc<LoadStats>, options: RequestOptions) -> Self {
        Self { client, stats, options, connections: AtomicU64::new(0) }
    }

    fn number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Establishes a connection with this index for several requests.
    pub(super) async fn connect(&self, index: usize) -> Result<Session<E>, Failure> {
        let limit = self.options.timeout;
        let late = |_| Failure::TimedOut { limit, connected: false };
        let began = now();
        let connecting = self.client.connect(index)?;
        let connection = tokio::time::timeout(limit, connecting).await.map_err(late)??;
        self.stats.record_handshake(now() - began, true, began);
        Session::start(
            connection,
            self.number(),
            Arc::clone(&self.stats),
            Arc::clone(&self.options.fields),
        )
        .await
    }

    /// Sends a request on a fresh connection with this index, and stores the connection in `kept`.
    pub(super) async fn fresh(
        &self,
        index: usize,
        request: &mut Request,
        kept: &mut Option<Session<E>>,
    ) -> Result<(), Failure> {
        let mut connecting = self.client.connect(index)?;
        if self.options.zero_rtt {
            connecting = match connecting.into_0rtt() {
                Ok((connection, accepted)) => {
                    return self.early(connection, accepted, request, kept).await;
                }
                Err(connecting) => {
                    self.stats.record_early_data(EarlyData::Without);
                    connecting
                }
            };
        }
        let connection = connecting.await?;
        self.connected(request);
        self.on(connection, request, kept).await
    }

    /// Sends a request in 0-RTT, and sends it again after the handshake if the server rejects
    /// 0-RTT.
    async fn early(
        &self,
        connection: Connection<E>,
        accepted: EarlyDataAccepted,
        request: &mut Request,
        kept: &mut Option<Session<E>>,
    ) -> Result<(), Failure> {
        let number = self.number();
        let (session, http3) = Session::<E>::prepare(
            connection,
            number,
            Arc::clone(&self.stats),
            Arc::clone(&self.options.fields),
        )
        .await?;
        request.connection = number;
        let session = kept.insert(session);
        let (mut sender, began) = (session.sender(), request.start);
        let handshake = async { (accepted.await, now().saturating_duration_since(began)) };
        let (answered, (accepted, took)) = tokio::join!(
            session.send_request(&mut sender, &request.url, &mut request.progress),
            handshake
        );
        request.connect = Some(took);
        self.stats.record_handshake(took, false, request.intended);
        if accepted {
            self.stats.record_early_data(EarlyData::Accepted);
            session.drive(http3);
            return answered;
        }
        drop((sender, http3.into_transport()));
        let connection = kept.take().and_then(Session::give_back);
        match connection {
            Some(connection) if connection.is_open() => {
                self.stats.record_early_data(EarlyData::Rejected);
                request.progress = Default::default();
                self.on(connection, request, kept).await
            }
            // The handshake itself failed.
            connection => {
                if let Some(connection) = connection {
                    self.stats.record_connection(&connection.stats());
                }
                answered.and(Err(Failure::EarlyHandshake))
            }
        }
    }

    async fn on(
        &self,
        connection: Connection<E>,
        request: &mut Request,
        kept: &mut Option<Session<E>>,
    ) -> Result<(), Failure> {
        let number = self.number();
        let session = Session::<E>::start(
            connection,
            number,
            Arc::clone(&self.stats),
            Arc::clone(&self.options.fields),
        )
        .await?;
        request.connection = number;
        let session = kept.insert(session);
        let mut sender = session.sender();
        session.send_request(&mut sender, &request.url, &mut request.progress).await
    }

    fn connected(&self, request: &mut Request) {
        let took = now().saturating_duration_since(request.start);
        request.connect = Some(took);
        self.stats.record_handshake(took, false, request.intended);
    }
}

/// Returns the failure of a request that timed out.
pub(super) fn timed_out(request: &Request, limit: Duration) -> Failure {
    Failure::TimedOut { limit, connected: request.connection > 0 }
}
