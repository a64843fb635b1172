//! The server, on stacks with rustls.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fathom_net::connection_log::ConnectionLog;
use fathom_net::limits::Limits;
use fathom_net::site::{Body, Site, SiteResponse};
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use h3::quic::BidiStream;
use h3::server::RequestResolver;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;

use super::facts::{self, Books};
use super::stack::{Connection, Ear, Stack};
use super::{Case, Outcome, Setup, hq, tls};

/// Connections at once; more are refused.
const CONNECTIONS: usize = 1_000;
/// Bytes handed to a stream at once.
const CHUNK: usize = 64 << 10;
/// For closed connections' last packets.
const FAREWELL: Duration = Duration::from_millis(500);

struct Server<S> {
    stack: S,
    setup: Arc<Setup>,
    books: Arc<Books>,
    site: Site,
    logs: Option<LogFolder>,
}

/// Serves until `stop` is over.
pub(super) async fn run<S: Stack>(setup: &Arc<Setup>, books: &Arc<Books>, stop: impl Future<Output = ()>) -> Outcome {
    let made = || -> Result<_, String> {
        let stack = S::server(setup, tls::server(setup)?)?;
        let site = Site::new(Some(&setup.www), Limits::default())?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| e.to_string())?;
        Ok(Server { stack, setup: Arc::clone(setup), books: Arc::clone(books), site, logs })
    };
    let server = match made() {
        Ok(server) => Arc::new(server),
        Err(why) => return Outcome::Wrong(why),
    };
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            incoming = server.stack.accept() => {
                let Some(incoming) = incoming else { break };
                let (.., may_retry) = S::of(&incoming);
                if server.setup.case == Case::Retry && may_retry {
                    S::retry(incoming);
                } else if connections.len() < CONNECTIONS {
                    let server = Arc::clone(&server);
                    connections.spawn(async move { server.connection(incoming).await });
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => break,
        }
    }
    server.stack.close();
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, async { tokio::join!(all, server.stack.idle()) }).await;
    if let Some(logs) = &server.logs {
        logs.finish();
    }
    Outcome::Done
}

impl<S: Stack> Server<S> {
    /// One client, from its first packet to its last.
    async fn connection(self: Arc<Self>, incoming: S::Incoming) {
        let setup = &*self.setup;
        let (peer, id, may_retry) = S::of(&incoming);
        let number = self.books.begin(facts::Connection {
            peer: peer.to_string(),
            controller: setup.controller.clone(),
            retry: Some(!may_retry),
            early_requests: (setup.case == Case::ZeroRtt).then_some(0),
            ..facts::Connection::default()
        });
        let close = match self.begin(incoming, id).await {
            Ok(connection) => {
                match setup.case {
                    Case::Http3 => self.over_http3(&connection, number).await,
                    _ => self.over_hq(&connection, number).await,
                }
                let close = connection.closed().await;
                self.books.note(number, |facts| {
                    connection.tell(facts);
                    // 0-RTT streams are there before the handshake is over.
                    facts.complete = facts.resumed.is_some() || !setup.stack.is_ours();
                });
                close
            }
            Err(close) => close,
        };
        self.books.note(number, |facts| facts.close = Some(close));
        if let Err(why) = self.books.write() {
            tracing::warn!("{why}");
        }
    }

    async fn begin(&self, incoming: S::Incoming, id: String) -> Result<S::Connection, facts::Close> {
        let connecting = self.stack.take(incoming, self.ear(id))?;
        if self.setup.case != Case::ZeroRtt {
            return S::complete(connecting).await;
        }
        // Servers can always; what the client sent in 0-RTT is here at once.
        match S::early(connecting) {
            Ok((connection, _)) => Ok(connection),
            Err(connecting) => S::complete(connecting).await,
        }
    }

    fn ear(&self, id: String) -> Ear {
        let setup = &*self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.case);
            Arc::new(ConnectionLog::open(logs, id, VantagePoint::Server, title)) as Arc<dyn Observer>
        })
    }

    async fn over_hq(self: &Arc<Self>, connection: &S::Connection, number: usize) {
        let mut requests = JoinSet::new();
        while let Some((mut send, mut recv, early)) = connection.next().await {
            while requests.try_join_next().is_some() {}
            if early {
                self.books.note(number, |facts| *facts.early_requests.get_or_insert(0) += 1);
            }
            let server = Arc::clone(self);
            requests.spawn(async move {
                match server.answer_hq(&mut send, &mut recv).await {
                    Ok(()) => server.books.note(number, |facts| facts.requests += 1),
                    Err(e) => {
                        tracing::debug!("request: {e}");
                        <S::Connection as Connection>::reset(&mut send, hq::NOT_THERE);
                    }
                }
            });
        }
    }

    async fn answer_hq(
        &self,
        send: &mut <S::Connection as Connection>::Send,
        recv: &mut <S::Connection as Connection>::Recv,
    ) -> io::Result<()> {
        let mut request = Vec::new();
        recv.take(hq::LONGEST as u64).read_to_end(&mut request).await?;
        let path = hq::parse(&request).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let answer = self.site.answer(&Method::GET, path).await;
        body(answer, send).await?;
        send.shutdown().await
    }

    async fn over_http3(self: &Arc<Self>, connection: &S::Connection, number: usize) {
        let built = h3::server::builder().send_grease(false).build(connection.transport()).await;
        let mut http = match built {
            Ok(http) => http,
            Err(e) => return tracing::debug!("HTTP/3: {e}"),
        };
        let mut requests = JoinSet::new();
        while let Ok(Some(resolver)) = http.accept().await {
            while requests.try_join_next().is_some() {}
            let server = Arc::clone(self);
            requests.spawn(async move {
                match server.answer_http3(resolver).await {
                    Ok(()) => server.books.note(number, |facts| facts.requests += 1),
                    Err(e) => tracing::debug!("request: {e}"),
                }
            });
        }
    }

    async fn answer_http3<C>(&self, resolver: RequestResolver<C, Bytes>) -> Result<(), String>
    where
        C: h3::quic::Connection<Bytes, BidiStream: BidiStream<Bytes> + Send>,
    {
        let (request, mut stream) = resolver.resolve_request().await.map_err(|e| e.to_string())?;
        let answer = self.site.answer(request.method(), request.uri().path()).await;
        let head = http::Response::builder().status(answer.status).header("content-length", answer.length);
        let head = head.header("content-type", &answer.content_type).body(()).map_err(|e| e.to_string())?;
        stream.send_response(head).await.map_err(|e| e.to_string())?;
        let mut pieces = Pieces::of(answer);
        while let Some(piece) = pieces.next().await.map_err(|e| e.to_string())? {
            stream.send_data(piece).await.map_err(|e| e.to_string())?;
        }
        stream.finish().await.map_err(|e| e.to_string())
    }
}

/// Writes the body of an answer that is one.
async fn body(answer: SiteResponse, out: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    if answer.status != StatusCode::OK {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut pieces = Pieces::of(answer);
    while let Some(piece) = pieces.next().await? {
        out.write_all(&piece).await?;
    }
    Ok(())
}

/// A body, piece by piece.
pub(super) struct Pieces {
    body: Body,
    left: u64,
}

impl Pieces {
    pub(super) fn of(answer: SiteResponse) -> Self {
        Self { body: answer.body, left: answer.length }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left == 0 {
            return Ok(None);
        }
        let most = self.left.min(CHUNK as u64) as usize;
        let piece = match &mut self.body {
            Body::Empty => return Ok(None),
            Body::Zeros => Bytes::from(vec![0; most]),
            Body::Text(text) => Bytes::from(std::mem::take(text)),
            Body::File(file) => {
                let mut piece = BytesMut::with_capacity(most);
                if file.take(most as u64).read_buf(&mut piece).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.freeze()
            }
        };
        self.left = self.left.saturating_sub(piece.len() as u64);
        Ok(Some(piece))
    }
}
