//! What all requests of a run share, and how connections begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::books::{Books, EarlyData, Failure, Kind, Request};
use super::clock::now;
use super::dialer::{Dialer, Early};
use super::session::Session;

/// How requests are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// The longest that one may take.
    pub(super) timeout: Duration,
    pub(super) zero_rtt: bool,
    pub(super) check_digests: bool,
}

/// A run's dialer and books, and how its requests are made.
pub(super) struct Shared<D> {
    pub(super) dialer: D,
    pub(super) books: Arc<Books>,
    pub(super) manner: Manner,
    connections: AtomicU64,
}

impl<D: Dialer> Shared<D> {
    pub(super) fn new(dialer: D, books: Arc<Books>, manner: Manner) -> Self {
        Self { dialer, books, manner, connections: AtomicU64::new(0) }
    }

    fn number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A connection that is kept for several requests.
    pub(super) async fn connect(&self) -> Result<Session<D>, Failure> {
        let failed = |why: String| Failure::new(Kind::Connect, why);
        let began = now();
        let connecting = self.dialer.dial().map_err(failed)?;
        let connection = match tokio::time::timeout(self.manner.timeout, connecting).await {
            Ok(connection) => connection.map_err(failed)?,
            Err(_) => return Err(failed(late(self.manner.timeout))),
        };
        self.books.connected(now() - began, true, began);
        // A server that lets no stream be opened would be waited for without end.
        let started = Session::start(connection, self.number(), Arc::clone(&self.books), self.manner.check_digests);
        tokio::time::timeout(self.manner.timeout, started)
            .await
            .unwrap_or_else(|_| Err(failed(late(self.manner.timeout))))
    }

    /// A request on a connection of its own, which is left in `kept`.
    pub(super) async fn fresh(&self, request: &mut Request, kept: &mut Option<Session<D>>) -> Result<(), Failure> {
        let failed = |why: String| Failure::new(Kind::Connect, why);
        let mut connecting = self.dialer.dial().map_err(failed)?;
        if self.manner.zero_rtt {
            connecting = match D::early(connecting) {
                Ok((connection, accepted)) => return self.early(connection, accepted, request, kept).await,
                Err(connecting) => {
                    self.books.early(EarlyData::Without);
                    connecting
                }
            };
        }
        let connection = connecting.await.map_err(failed)?;
        self.connected(request);
        self.on(connection, request, kept).await
    }

    /// A request in 0-RTT; where the server does not take it, once more when the handshake is over.
    async fn early(
        &self,
        connection: D::Connection,
        accepted: Early,
        request: &mut Request,
        kept: &mut Option<Session<D>>,
    ) -> Result<(), Failure> {
        let number = self.number();
        let (session, idle) =
            Session::<D>::prepare(connection, number, Arc::clone(&self.books), self.manner.check_digests).await?;
        request.connection = number;
        let session = kept.insert(session);
        let (mut sender, began) = (session.sender(), request.start);
        let handshake = async { (accepted.await, now().saturating_duration_since(began)) };
        let (answered, (accepted, took)) =
            tokio::join!(session.ask(&mut sender, &request.url, &mut request.seen), handshake);
        request.connect = Some(took);
        self.books.connected(took, false, request.intended);
        if accepted {
            self.books.early(EarlyData::Accepted);
            session.drive(idle);
            return answered;
        }
        drop((sender, idle));
        let connection = kept.take().and_then(Session::give_back);
        match connection {
            Some(connection) if D::alive(&connection) => {
                self.books.early(EarlyData::Rejected);
                request.seen = Default::default();
                self.on(connection, request, kept).await
            }
            // The handshake itself failed.
            connection => {
                if let Some(connection) = connection {
                    self.books.closed(&D::report(&connection));
                }
                answered.and(Err(failed_handshake()))
            }
        }
    }

    async fn on(
        &self,
        connection: D::Connection,
        request: &mut Request,
        kept: &mut Option<Session<D>>,
    ) -> Result<(), Failure> {
        let number = self.number();
        let session =
            Session::<D>::start(connection, number, Arc::clone(&self.books), self.manner.check_digests).await?;
        request.connection = number;
        let session = kept.insert(session);
        let mut sender = session.sender();
        session.ask(&mut sender, &request.url, &mut request.seen).await
    }

    fn connected(&self, request: &mut Request) {
        let took = now().saturating_duration_since(request.start);
        request.connect = Some(took);
        self.books.connected(took, false, request.intended);
    }
}

fn failed_handshake() -> Failure {
    Failure::new(Kind::Connect, "the handshake failed")
}

/// What is said of a step that took longer than it may.
pub(super) fn late(limit: Duration) -> String {
    format!("not over within {}", fathom_cc::units::duration_text(limit))
}

/// What a request failed for that was not over in time.
pub(super) fn timed_out(request: &Request, limit: Duration) -> Failure {
    let kind = if request.connection == 0 { Kind::Connect } else { Kind::Timeout };
    Failure::new(kind, late(limit))
}
