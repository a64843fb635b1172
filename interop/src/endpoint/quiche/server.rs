//! The server on quiche.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use fathom_http::connection_log::ConnectionLog;
use fathom_http::limits::Limits;
use fathom_http::server::{RetryTokens, packets_after_handshake};
use fathom_http::site::Site;
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use http::{Method, StatusCode};
use quiche::{ConnectionId, Header};
use tokio::runtime::Runtime;

use super::super::facts::{self, FactsLog};
use super::super::server::BodyChunks;
use super::super::{Outcome, Setup, TestName, hq};
use super::api::{CID, Datagram, Http3Event, NewConnection, QuicheConnection, StreamError};
use super::socket::{DatagramSocket, EARLY_SEND, Received, SendQueue};
use super::{record_facts, server_tls};

/// Limit for concurrent connections; further Initial packets are dropped.
const MAX_CONNECTIONS: usize = 1_000;
/// Minimum size of a client's first datagram (RFC 9000 §14.1) and of its destination connection ID (§7.2).
const MIN_INITIAL_DATAGRAM: usize = 1_200;
const MIN_INITIAL_DCID: usize = 8;
/// Limit for a stateless response in bytes.
const MAX_STATELESS_RESPONSE: usize = 1_200;

/// Serves until `stop` is set.
// An endpoint works in real time.
#[allow(clippy::disallowed_methods)]
pub(super) fn run<Q: QuicheConnection>(setup: &Setup, facts_log: &FactsLog, stop: &AtomicBool) -> Outcome {
    let build = || -> Result<_, String> {
        let config = Q::config(setup, server_tls(setup)?, false)?;
        let site = Site::new(Some(&setup.www), Limits::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| e.to_string())?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| e.to_string())?;
        let at = setup.address;
        let socket =
            DatagramSocket::open(at).map_err(|e| format!("cannot listen at {at}: {e}; choose another port"))?;
        let files = Files { site, runtime };
        let server = Server::<Q> {
            setup,
            facts_log,
            config,
            logs,
            began: Instant::now(),
            tokens: RetryTokens::new(),
            connections: HashMap::new(),
            routes: HashMap::new(),
            next: 0,
        };
        Ok((socket, files, server))
    };
    let (mut socket, files, mut server) = match build() {
        Ok(parts) => parts,
        Err(why) => return Outcome::InvalidInput(why),
    };
    while !stop.load(Ordering::Relaxed) {
        let due = server.drive(&socket, &files, Instant::now());
        socket.wait(Instant::now(), due);
        let mut responses = Vec::new();
        socket.receive(|datagram| responses.extend(server.route(datagram)));
        for response in &responses {
            socket.send(response);
        }
    }
    for connection in server.connections.values_mut() {
        connection.quic.close(0);
    }
    server.drive(&socket, &files, Instant::now());
    for (_, connection) in server.connections.drain() {
        let status = connection.quic.status();
        facts_log.update(connection.number, |facts| record_facts(&status, facts));
    }
    if let Some(logs) = &server.logs {
        logs.finish();
    }
    Outcome::Success
}

/// The served files.
struct Files {
    site: Site,
    runtime: Runtime,
}

/// All connections, and the configuration for new ones.
struct Server<'a, Q: QuicheConnection> {
    setup: &'a Setup,
    facts_log: &'a FactsLog,
    config: Q::Config,
    logs: Option<LogFolder>,
    began: Instant,
    tokens: RetryTokens,
    connections: HashMap<u64, ServerConnection<Q>>,
    routes: HashMap<Vec<u8>, u64>,
    next: u64,
}

/// A connection.
struct ServerConnection<Q> {
    quic: Q,
    number: usize,
    send_queue: SendQueue,
    requests: HashMap<u64, Vec<u8>>,
    responses: HashMap<u64, Response>,
    http3: bool,
    early: bool,
}

/// A response in progress.
struct Response {
    chunks: BodyChunks,
    chunk: Bytes,
    /// Status and length, until the header fields are sent.
    head: Option<(StatusCode, u64)>,
}

impl<Q: QuicheConnection> Server<'_, Q> {
    /// Passes a datagram to its connection or starts one. Returns a stateless response, if any.
    fn route(&mut self, datagram: Received<'_>) -> Option<Datagram> {
        let id = destination_cid(datagram.bytes)?;
        let connection = match self.routes.get(id) {
            Some(connection) => *connection,
            None => match self.on_unknown_packet(datagram.bytes, datagram.from, datagram.to)? {
                Ok(connection) => connection,
                Err(bytes) => return Some(Datagram { bytes, to: datagram.from, ecn: 0, at: self.began }),
            },
        };
        let connection = self.connections.get_mut(&connection)?;
        let packets =
            if connection.quic.status().established { packets_after_handshake(datagram.bytes) } else { datagram.bytes };
        if !packets.is_empty() {
            connection.quic.on_datagram(packets, datagram.from, datagram.to, datagram.ecn);
        }
        None
    }

    /// Processes a packet of no known connection: a new connection's ID, or a stateless response.
    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    fn on_unknown_packet(
        &mut self,
        packet: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<Result<u64, Vec<u8>>> {
        if packet.first()? & 0x80 == 0 || packet.len() < MIN_INITIAL_DATAGRAM {
            return None;
        }
        let header = Header::from_slice(packet, CID).ok()?;
        let mut answer = vec![0; MAX_STATELESS_RESPONSE];
        if header.ty == quiche::Type::VersionNegotiation {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut answer).ok()?;
            answer.truncate(len);
            return Some(Err(answer));
        }
        if header.ty != quiche::Type::Initial
            || header.dcid.len() < MIN_INITIAL_DCID
            || self.connections.len() >= MAX_CONNECTIONS
        {
            return None;
        }
        let now = self.began.elapsed();
        let token = header.token.as_deref().unwrap_or_default();
        let original = self.tokens.check(now, token, from, &header.dcid);
        if self.setup.test_name == TestName::Retry && original.is_none() {
            let given: [u8; CID] = rand::random();
            let token = self.tokens.make(now, from, &header.dcid, &given);
            let given = ConnectionId::from_ref(&given);
            let len = quiche::retry(&header.scid, &header.dcid, &given, &token, header.version, &mut answer).ok()?;
            answer.truncate(len);
            return Some(Err(answer));
        }
        let id: [u8; CID] = rand::random();
        let name: String = original.unwrap_or(&header.dcid).iter().map(|byte| format!("{byte:02x}")).collect();
        let retried = original.map(|original| (original, &header.dcid[..]));
        let observer = self.observer(name);
        let quic = Q::accept(&mut self.config, &NewConnection { id: &id, retried, local: to, peer: from }, observer)?;
        let number = self.facts_log.add(facts::Connection {
            peer: from.to_string(),
            controller: self.setup.controller.clone(),
            retry: Some(original.is_some()),
            early_requests: (self.setup.test_name == TestName::ZeroRtt).then_some(0),
            ..facts::Connection::default()
        });
        self.next += 1;
        for id in [&id[..], &header.dcid] {
            self.routes.insert(id.to_vec(), self.next);
        }
        let connection = ServerConnection {
            quic,
            number,
            send_queue: SendQueue::default(),
            requests: HashMap::new(),
            responses: HashMap::new(),
            http3: self.setup.test_name == TestName::Http3,
            early: false,
        };
        self.connections.insert(self.next, connection);
        Some(Ok(self.next))
    }

    fn observer(&self, id: String) -> Option<Arc<dyn Observer>> {
        let setup = self.setup;
        self.logs.as_ref().map(|logs| {
            let title =
                format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.test_name);
            Arc::new(ConnectionLog::open(logs, id, VantagePoint::Server, title)) as Arc<dyn Observer>
        })
    }

    /// Processes timers, requests and responses and sends packets. Returns when to call it again.
    fn drive(&mut self, socket: &DatagramSocket, files: &Files, now: Instant) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        let mut closed = Vec::new();
        for (connection_id, connection) in &mut self.connections {
            if connection.quic.next_timeout().is_some_and(|due| due <= now) {
                connection.quic.on_timeout();
            }
            for id in connection.quic.issue_connection_ids() {
                self.routes.insert(id, *connection_id);
            }
            connection.serve(self.facts_log, files);
            let held = connection.send_queue.flush(&mut connection.quic, socket, EARLY_SEND);
            due = [due, held, connection.quic.next_timeout()].into_iter().flatten().min();
            if connection.quic.status().closed {
                closed.push(*connection_id);
            }
        }
        for id in closed {
            if let Some(connection) = self.connections.remove(&id) {
                let status = connection.quic.status();
                self.facts_log.update(connection.number, |facts| record_facts(&status, facts));
                if let Err(why) = self.facts_log.write() {
                    tracing::warn!("{why}");
                }
            }
            self.routes.retain(|_, to| *to != id);
        }
        due
    }
}

impl<Q: QuicheConnection> ServerConnection<Q> {
    fn serve(&mut self, facts_log: &FactsLog, files: &Files) {
        let status = self.quic.status();
        self.early = status.early && !status.established;
        if !status.established && !status.early || status.closed {
            return;
        }
        if self.http3 {
            if self.quic.start_http3().is_err() {
                self.quic.close(0x100);
                return;
            }
            self.on_http3_events(files);
        } else {
            self.read(facts_log, files);
        }
        self.write(facts_log, files);
    }

    fn read(&mut self, facts_log: &FactsLog, files: &Files) {
        let mut buffer = [0; hq::MAX_REQUEST];
        for stream in self.quic.readable() {
            // Requests come on client-initiated bidirectional streams.
            if stream % 4 != 0 {
                continue;
            }
            let mut whole = false;
            while let Ok((read, last)) = self.quic.read(stream, &mut buffer) {
                let request = self.requests.entry(stream).or_default();
                if request.len() + read <= hq::MAX_REQUEST {
                    request.extend_from_slice(&buffer[..read]);
                }
                if last {
                    whole = true;
                    break;
                }
            }
            if !whole {
                continue;
            }
            let request = self.requests.remove(&stream).unwrap_or_default();
            if self.early {
                facts_log.update(self.number, |facts| {
                    *facts.early_requests.get_or_insert(0) += 1;
                    facts.early_data_accepted = Some(true);
                });
            }
            let answer =
                hq::parse(&request).ok().map(|path| files.runtime.block_on(files.site.answer(&Method::GET, path)));
            match answer.filter(|answer| answer.status == StatusCode::OK) {
                Some(answer) => {
                    self.responses
                        .insert(stream, Response { chunks: BodyChunks::of(answer), chunk: Bytes::new(), head: None });
                }
                None => self.quic.reset(stream, hq::NOT_FOUND.into()),
            }
        }
    }

    fn on_http3_events(&mut self, files: &Files) {
        while let Some((stream, event)) = self.quic.poll_http3() {
            let Http3Event::Headers(fields) = event else { continue };
            let field = |name: &[u8]| fields.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..]);
            let method = field(b":method").and_then(|method| Method::from_bytes(method).ok()).unwrap_or_default();
            let path = field(b":path").and_then(|path| std::str::from_utf8(path).ok()).unwrap_or_default();
            let answer = files.runtime.block_on(files.site.answer(&method, path));
            let head = Some((answer.status, answer.length));
            self.responses.insert(stream, Response { chunks: BodyChunks::of(answer), chunk: Bytes::new(), head });
        }
    }

    /// Writes responses as far as flow control permits.
    fn write(&mut self, facts_log: &FactsLog, files: &Files) {
        let streams: Vec<u64> = self.responses.keys().copied().collect();
        for stream in streams {
            let Some(mut response) = self.responses.remove(&stream) else { continue };
            match self.write_response(stream, &mut response, files) {
                Ok(()) => facts_log.update(self.number, |facts| facts.requests += 1),
                Err(StreamError::Blocked) => {
                    self.responses.insert(stream, response);
                }
                Err(StreamError::Closed) => self.quic.reset(stream, hq::NOT_FOUND.into()),
            }
        }
    }

    /// Continues a response until it is complete or blocked.
    fn write_response(&mut self, stream: u64, response: &mut Response, files: &Files) -> Result<(), StreamError> {
        if let Some((status, length)) = response.head {
            let (status, length) = (status.as_u16().to_string(), length.to_string());
            let fields: [(&[u8], &[u8]); 2] = [(b":status", status.as_bytes()), (b"content-length", length.as_bytes())];
            self.quic.send_headers(Some(stream), &fields)?;
            response.head = None;
        }
        loop {
            if response.chunk.is_empty() {
                match files.runtime.block_on(response.chunks.next()).map_err(|_| StreamError::Closed)? {
                    Some(chunk) => response.chunk = chunk,
                    None => {
                        return if self.http3 {
                            self.quic.send_body(stream, b"", true).map(drop)
                        } else {
                            self.quic.write(stream, b"", true).map(drop)
                        };
                    }
                }
            }
            let chunk = &response.chunk;
            let written = if self.http3 {
                self.quic.send_body(stream, chunk, false)?
            } else {
                self.quic.write(stream, chunk, false)?
            };
            if written == 0 {
                return Err(StreamError::Blocked);
            }
            let _ = response.chunk.split_to(written);
        }
    }
}

/// The destination connection ID of a packet (RFC 8999 §5).
fn destination_cid(packet: &[u8]) -> Option<&[u8]> {
    let long = packet.first()? & 0x80 != 0;
    if long { packet.get(6..6 + usize::from(*packet.get(5)?)) } else { packet.get(1..=CID) }
}
