//! The server, which runs on any stack.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fathom_http::connection_log::ConnectionLog;
use fathom_http::limits::Limits;
use fathom_http::site::{Body, Site, SiteResponse};
use fathom_http3::Config;
use fathom_http3::error::Kind;
use fathom_http3::server::{self, RequestStream};
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use fathom_stacks::{Connecting, Connection, Endpoint, Incoming, ReadOrder};
use http::{HeaderMap, Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use super::error::{InputError, RequestError};
use super::facts::{self, FactsLog};
use super::stack_endpoint::{self, OpenEndpoint};
use super::{Outcome, Setup, TestName, hq};

/// Maximum number of concurrent connections. Further connections are refused.
const MAX_CONNECTIONS: usize = 1_000;
/// Number of bytes written to a stream at once.
const CHUNK: usize = 64 << 10;
/// Time for closed connections to drain.
const DRAIN: Duration = Duration::from_millis(500);

struct Server<E> {
    endpoint: E,
    setup: Arc<Setup>,
    facts_log: Arc<FactsLog>,
    site: Site,
    logs: Option<LogFolder>,
}

/// Serves until `stop` resolves.
pub(super) async fn run<E: Endpoint>(
    open: impl FnOnce(&Setup) -> Result<OpenEndpoint<E>, InputError>,
    setup: &Arc<Setup>,
    facts_log: &Arc<FactsLog>,
    stop: impl Future<Output = ()>,
) -> Outcome {
    let build = || -> Result<_, InputError> {
        let endpoint = open(setup)?.endpoint;
        let site = Site::new(Some(&setup.www), Limits::default())?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose()?;
        Ok(Server {
            endpoint,
            setup: Arc::clone(setup),
            facts_log: Arc::clone(facts_log),
            site,
            logs,
        })
    };
    let server = match build() {
        Ok(server) => Arc::new(server),
        Err(error) => return Outcome::InvalidInput(error.to_string()),
    };
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            incoming = server.endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                if server.setup.test_name == TestName::Retry && incoming.may_retry() {
                    incoming.retry();
                } else if connections.len() < MAX_CONNECTIONS {
                    let server = Arc::clone(&server);
                    connections.spawn(async move { server.connection(incoming).await });
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => break,
        }
    }
    server.endpoint.close(0);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ =
        tokio::time::timeout(DRAIN, async { tokio::join!(all, server.endpoint.wait_idle()) }).await;
    if let Some(logs) = &server.logs {
        logs.finish();
    }
    Outcome::Success
}

impl<E: Endpoint> Server<E> {
    /// Serves one connection.
    async fn connection(self: Arc<Self>, incoming: E::Incoming) {
        let setup = &*self.setup;
        let (id, may_retry) = (incoming.original_dcid(), incoming.may_retry());
        let number = self.facts_log.add(facts::Connection {
            peer: incoming.remote_address().to_string(),
            controller: setup.controller.clone(),
            retry: Some(!may_retry),
            early_requests: (setup.test_name == TestName::ZeroRtt).then_some(0),
            ..facts::Connection::default()
        });
        let close = match self.handshake(incoming, id).await {
            Ok(connection) => {
                match setup.test_name {
                    TestName::Http3 => self.serve_http3(&connection, number).await,
                    _ => self.serve_hq(&connection, number).await,
                }
                let close = connection.closed().await;
                self.facts_log.update(number, |facts| {
                    stack_endpoint::record(&connection, facts);
                    // 0-RTT streams arrive before the handshake completes.
                    facts.complete = facts.resumed.is_some() || !setup.stack.is_ours();
                });
                close.into()
            }
            Err(close) => close,
        };
        self.facts_log.update(number, |facts| facts.close = Some(close));
        if let Err(why) = self.facts_log.write() {
            tracing::warn!("{why}");
        }
    }

    async fn handshake(
        &self,
        incoming: E::Incoming,
        id: String,
    ) -> Result<E::Connection, facts::Close> {
        // The first packet was invalid, so there is no connection.
        let mut connecting = self
            .endpoint
            .begin(incoming, 0, self.observer(id))
            .map_err(|why| facts::Close::without_code("us", "refused", &why.to_string()))?;
        if self.setup.test_name == TestName::ZeroRtt {
            // A server can always serve before the handshake is complete. 0-RTT data are then
            // available at once.
            match connecting.into_0rtt() {
                Ok((connection, _)) => return Ok(connection),
                Err(failed) => connecting = failed,
            }
        }
        Ok(connecting.await?)
    }

    fn observer(&self, id: String) -> Option<Arc<dyn Observer>> {
        let setup = &*self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!(
                "fathom-endpoint: {} with {}, {}",
                setup.stack.name(),
                setup.controller,
                setup.test_name
            );
            Arc::new(ConnectionLog::open(logs, id, VantagePoint::Server, title))
                as Arc<dyn Observer>
        })
    }

    async fn serve_hq(self: &Arc<Self>, connection: &E::Connection, number: usize) {
        let mut requests = JoinSet::new();
        while let Some((mut send, mut recv, early)) = connection.accept_bi().await {
            while requests.try_join_next().is_some() {}
            if early {
                self.facts_log.update(number, |facts| *facts.early_requests.get_or_insert(0) += 1);
            }
            let server = Arc::clone(self);
            requests.spawn(async move {
                match server.answer_hq(&mut send, &mut recv).await {
                    Ok(()) => server.facts_log.update(number, |facts| facts.requests += 1),
                    Err(e) => {
                        tracing::debug!("request: {e}");
                        <E::Connection as Connection>::reset(&mut send, hq::NOT_FOUND);
                    }
                }
            });
        }
    }

    async fn answer_hq(
        &self,
        send: &mut <E::Connection as Connection>::Send,
        recv: &mut <E::Connection as Connection>::Recv,
    ) -> io::Result<()> {
        let mut request = Vec::new();
        recv.take(hq::MAX_REQUEST as u64).read_to_end(&mut request).await?;
        let path =
            hq::parse(&request).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let answer = self.site.answer(&Method::GET, path, &HeaderMap::new()).await;
        body(answer, send).await?;
        send.shutdown().await
    }

    async fn serve_http3(self: &Arc<Self>, connection: &E::Connection, number: usize) {
        let mut http =
            server::Connection::new(connection.http(ReadOrder::Ordered), Config::default());
        let mut requests = JoinSet::new();
        loop {
            let request = match http.accept().await {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(e) => break tracing::debug!("HTTP/3: {e}"),
            };
            while requests.try_join_next().is_some() {}
            let server = Arc::clone(self);
            requests.spawn(async move {
                match server.answer_http3(request).await {
                    Ok(()) => server.facts_log.update(number, |facts| facts.requests += 1),
                    Err(e) => tracing::debug!("request: {e}"),
                }
            });
        }
    }

    async fn answer_http3<C>(&self, mut stream: RequestStream<C>) -> Result<(), RequestError>
    where
        C: fathom_http3::transport::Connection,
    {
        if let Err(error) = stream.head().await {
            if error.protocol().is_some_and(|error| error.kind == Kind::FieldsTooLarge) {
                stream.respond(&[(":status", "431")], Bytes::new()).await?;
            }
            return Err(error.into());
        }
        let request = stream.request()?;
        let answer =
            self.site.answer(request.method(), request.uri().path(), request.headers()).await;
        let mut head = http::Response::new(());
        *head.status_mut() = answer.status;
        head.headers_mut().clone_from(&answer.headers);
        let sender = stream.sender();
        sender.send_head(&head).await?;
        let mut chunks = BodyChunks::of(answer);
        while let Some(chunk) = chunks.next().await? {
            sender.send_data(chunk).await?;
        }
        Ok(sender.finish().await?)
    }
}

/// Writes the body of a successful response.
async fn body(answer: SiteResponse, out: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    if answer.status != StatusCode::OK {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut chunks = BodyChunks::of(answer);
    while let Some(chunk) = chunks.next().await? {
        out.write_all(&chunk).await?;
    }
    Ok(())
}

/// Reader of a body in chunks.
struct BodyChunks {
    body: Body,
    left: u64,
}

impl BodyChunks {
    fn of(answer: SiteResponse) -> Self {
        // Only bodies from an upstream server have an unknown length, and this server has no
        // upstream server.
        Self { body: answer.body, left: answer.length.unwrap_or_default() }
    }

    /// Returns the next chunk, or `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        let most = self.left.min(CHUNK as u64) as usize;
        let chunk = match &mut self.body {
            Body::Empty | Body::Upstream(_) => return Ok(None),
            Body::Zeros(_) => Bytes::from(vec![0; most]),
            Body::Text(text) => Bytes::from(std::mem::take(text)),
            Body::File(file) => {
                let mut chunk = BytesMut::with_capacity(most);
                if file.take(most as u64).read_buf(&mut chunk).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                chunk.freeze()
            }
        };
        self.left = self.left.saturating_sub(chunk.len() as u64);
        Ok(Some(chunk))
    }
}
