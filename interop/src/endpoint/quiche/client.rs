//! The client on quiche.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_http::connection_log::ConnectionLog;
use fathom_http::load::wildcard_address;
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};

use super::super::facts::{self, FactsLog};
use super::super::request::Request;
use super::super::{Outcome, Setup, TestName, hq};
use super::api::{CID, ConnectionStatus, Http3Event, QuicheConnection, StreamError};
use super::socket::{DatagramSocket, EARLY_SEND, SendQueue};
use super::{client_tls, record_facts};

/// Time limit for a session ticket after the first file.
const TICKET_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Fetches all requests as the test requires.
pub(super) fn run<Q: QuicheConnection>(setup: &Setup, facts_log: &FactsLog, stop: &AtomicBool) -> Outcome {
    let build = || -> Result<_, String> {
        let downloads = &setup.downloads;
        std::fs::create_dir_all(downloads)
            .map_err(|e| format!("DOWNLOADS is '{}': {e}; set a writable directory", downloads.display()))?;
        let (context, verifies) = client_tls(setup)?;
        let config = Q::config(setup, context, verifies)?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| e.to_string())?;
        Ok(Client { setup, facts_log, stop, config, logs, session_ticket: None })
    };
    let mut client = match build() {
        Ok(client) => client,
        Err(why) => return Outcome::InvalidInput(why),
    };
    let all = &setup.requests[..];
    let fetched = match setup.test_name {
        TestName::MultiConnect => all.chunks(1).try_for_each(|one| client.connection::<Q>(one, false)),
        test_name if test_name.resumes() => {
            let (first, rest) = all.split_at(1);
            client.connection::<Q>(first, false).and_then(|()| client.connection::<Q>(rest, true))
        }
        _ => client.connection::<Q>(all, false),
    };
    if let Some(logs) = &client.logs {
        logs.finish();
    }
    match fetched {
        Ok(()) => Outcome::Success,
        Err(why) => Outcome::Failed(why),
    }
}

struct Client<'a, C> {
    setup: &'a Setup,
    facts_log: &'a FactsLog,
    stop: &'a AtomicBool,
    config: C,
    logs: Option<LogFolder>,
    session_ticket: Option<Vec<u8>>,
}

impl<C> Client<'_, C> {
    /// Fetches `requests` over one connection; `second` if it resumes the session of the first.
    fn connection<Q: QuicheConnection<Config = C>>(
        &mut self,
        requests: &[Request],
        second: bool,
    ) -> Result<(), String> {
        let number = self.facts_log.add(facts::Connection {
            peer: self.setup.address.to_string(),
            controller: self.setup.controller.clone(),
            ..facts::Connection::default()
        });
        let fetched = self.fetch_over::<Q>(requests, second, number);
        let written = self.facts_log.write();
        fetched.and(written)
    }

    fn observer(&self, number: usize) -> Option<Arc<dyn Observer>> {
        let setup = self.setup;
        self.logs.as_ref().map(|logs| {
            let title =
                format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.test_name);
            Arc::new(ConnectionLog::open(logs, format!("{}-{number}", setup.test_name), VantagePoint::Client, title))
                as Arc<dyn Observer>
        })
    }

    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    fn fetch_over<Q: QuicheConnection<Config = C>>(
        &mut self,
        requests: &[Request],
        second: bool,
        number: usize,
    ) -> Result<(), String> {
        let setup = self.setup;
        let mut socket =
            DatagramSocket::open(wildcard_address(setup.address)).map_err(|e| format!("cannot open a socket: {e}"))?;
        // quiche needs the local address of the path.
        let local = SocketAddr::new(local_address(setup.address), socket.address().port());
        let id: [u8; CID] = rand::random();
        let observer = self.observer(number);
        let mut quic = Q::connect(&mut self.config, &setup.server_name, &id, (local, setup.address), observer)?;
        if second {
            let session_ticket = self.session_ticket.take().ok_or("the server sent no session ticket")?;
            quic.resume(&session_ticket)?;
        }
        let mut fetch = Fetch::new(requests, setup.test_name == TestName::Http3);
        let mut send_queue = SendQueue::default();
        let mut complete_since = None;
        loop {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) {
                return Err("interrupted before all files arrived".into());
            }
            if quic.next_timeout().is_some_and(|due| due <= now) {
                quic.on_timeout();
            }
            let status = quic.status();
            if status.closed {
                self.facts_log.update(number, |facts| record_facts(&status, facts));
                return Err(ended(&status));
            }
            // No further connection IDs are issued: quinn and noq switch to the newest at once and retire the others. If the
            // NEW_CONNECTION_ID of a retired one was lost, quiche 0.30 fails to retransmit it and closes the connection.
            if status.established || (status.early && setup.test_name == TestName::ZeroRtt) {
                fetch.drive(&mut quic, &status)?;
            }
            if fetch.is_complete() {
                let since = *complete_since.get_or_insert(now);
                let session_ticket = quic.session_ticket();
                let waits =
                    setup.test_name.resumes() && !second && session_ticket.is_none() && now < since + TICKET_TIMEOUT;
                if status.established && !waits {
                    self.session_ticket = session_ticket;
                    break;
                }
            }
            let held = send_queue.flush(&mut quic, &socket, EARLY_SEND);
            if quic.status().early && !status.early {
                // The first packet was sent; 0-RTT can follow at once.
                continue;
            }
            socket.wait(Instant::now(), [quic.next_timeout(), held].into_iter().flatten().min());
            socket.receive(|datagram| quic.on_datagram(datagram.bytes, datagram.from, local, datagram.ecn));
        }
        let status = quic.status();
        quic.close(if setup.test_name == TestName::Http3 { 0x100 } else { 0 });
        // Sends held datagrams now, as nothing follows them.
        send_queue.flush(&mut quic, &socket, Duration::MAX);
        let after = quic.status();
        self.facts_log.update(number, |facts| {
            record_facts(&ConnectionStatus { closed: true, error: after.error.clone(), ..status.clone() }, facts);
            facts.requests = fetch.done as u64;
            facts.early_requests = (setup.test_name == TestName::ZeroRtt && second).then_some(fetch.early);
            facts.early_data_accepted =
                (setup.test_name == TestName::ZeroRtt && second).then_some(status.resumed && fetch.early > 0);
        });
        if second && !status.resumed {
            return Err("all files arrived, but the session was not resumed".into());
        }
        if second && setup.test_name == TestName::ZeroRtt && fetch.early == 0 {
            return Err("all files arrived, but no request was sent in 0-RTT".into());
        }
        Ok(())
    }
}

fn ended(status: &ConnectionStatus) -> String {
    match &status.error {
        Some((by, transport, code, reason)) => {
            let kind = if *transport { "transport" } else { "application" };
            format!("closed by {by}: {kind} error {code:#x} '{}'", String::from_utf8_lossy(reason).escape_debug())
        }
        None if status.timed_out => "idle timeout".into(),
        None => "the connection ended".into(),
    }
}

/// The local address of the route to a destination.
fn local_address(towards: SocketAddr) -> std::net::IpAddr {
    let probe = std::net::UdpSocket::bind(wildcard_address(towards)).and_then(|socket| {
        socket.connect(towards)?;
        socket.local_addr()
    });
    probe.map_or(wildcard_address(towards).ip(), |address| address.ip())
}

/// Requests in progress.
struct Fetch<'a> {
    waiting: std::slice::Iter<'a, Request>,
    next: Option<&'a Request>,
    open: HashMap<u64, (File, &'a Request, bool)>,
    requests: usize,
    done: usize,
    /// Requests sent in 0-RTT.
    early: u64,
    http3: bool,
    streams: u64,
    /// The unsent rest of the last request: its stream and bytes.
    rest: Option<(u64, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl<'a> Fetch<'a> {
    fn new(requests: &'a [Request], http3: bool) -> Self {
        let mut waiting = requests.iter();
        let next = waiting.next();
        let open = HashMap::new();
        let (requests, buffer) = (requests.len(), vec![0; CHUNK]);
        Self { waiting, next, open, requests, done: 0, early: 0, http3, streams: 0, rest: None, buffer }
    }

    const fn is_complete(&self) -> bool {
        self.done == self.requests
    }

    /// Sends requests and processes responses.
    fn drive<Q: QuicheConnection>(&mut self, quic: &mut Q, status: &ConnectionStatus) -> Result<(), String> {
        if self.http3 {
            quic.start_http3()?;
        }
        self.finish_request(quic)?;
        while let Some(one) = self.next.filter(|_| self.rest.is_none()) {
            match self.send_request(quic, one) {
                Ok(stream) => {
                    let file = File::create(&one.file).map_err(|e| format!("'{}': {e}", one.file.display()))?;
                    self.open.insert(stream, (file, one, false));
                    self.early += u64::from(status.early && !status.established);
                    self.next = self.waiting.next();
                }
                Err(StreamError::Blocked) => break,
                Err(StreamError::Closed) => return Err(format!("{}: cannot send the request", one.path())),
            }
        }
        if self.http3 { self.on_http3_events(quic) } else { self.read(quic) }
    }

    fn send_request<Q: QuicheConnection>(&mut self, quic: &mut Q, one: &Request) -> Result<u64, StreamError> {
        if self.http3 {
            let authority = one.url.authority().map_or("localhost", |authority| authority.as_str());
            let fields: [(&[u8], &[u8]); 4] = [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", authority.as_bytes()),
                (b":path", one.path().as_bytes()),
            ];
            return quic.send_headers(None, &fields);
        }
        if !quic.can_open_stream() {
            return Err(StreamError::Blocked);
        }
        let stream = self.streams * 4;
        let request = hq::request(one.path());
        match quic.write(stream, &request, true) {
            Ok(written) => {
                self.streams += 1;
                self.rest = Some((stream, request[written..].to_vec())).filter(|(_, rest)| !rest.is_empty());
                Ok(stream)
            }
            Err(stream_error) => Err(stream_error),
        }
    }

    /// Sends the rest of a request.
    fn finish_request<Q: QuicheConnection>(&mut self, quic: &mut Q) -> Result<(), String> {
        let Some((stream, rest)) = &mut self.rest else { return Ok(()) };
        match quic.write(*stream, rest, true) {
            Ok(written) => {
                rest.drain(..written);
                if rest.is_empty() {
                    self.rest = None;
                }
                Ok(())
            }
            Err(StreamError::Blocked) => Ok(()),
            Err(StreamError::Closed) => Err("cannot send a request".into()),
        }
    }

    fn read<Q: QuicheConnection>(&mut self, quic: &mut Q) -> Result<(), String> {
        for stream in quic.readable() {
            while let Some((file, one, _)) = self.open.get_mut(&stream) {
                match quic.read(stream, &mut self.buffer) {
                    Ok((read, last)) => {
                        file.write_all(&self.buffer[..read]).map_err(|e| format!("'{}': {e}", one.file.display()))?;
                        if last {
                            self.open.remove(&stream);
                            self.done += 1;
                        }
                    }
                    Err(StreamError::Blocked) => break,
                    Err(StreamError::Closed) => return Err(format!("{}: the server reset the stream", one.path())),
                }
            }
        }
        Ok(())
    }

    fn on_http3_events<Q: QuicheConnection>(&mut self, quic: &mut Q) -> Result<(), String> {
        while let Some((stream, event)) = quic.poll_http3() {
            let Some((file, one, answered)) = self.open.get_mut(&stream) else { continue };
            match event {
                Http3Event::Headers(fields) => {
                    let status = fields.iter().find(|(name, _)| name == b":status").map(|(_, status)| &status[..]);
                    if status != Some(b"200") {
                        let status = String::from_utf8_lossy(status.unwrap_or_default()).into_owned();
                        return Err(format!("{}: status '{}'", one.path(), status.escape_debug()));
                    }
                    *answered = true;
                }
                Http3Event::Data => {
                    while let Ok(read) = quic.recv_body(stream, &mut self.buffer) {
                        file.write_all(&self.buffer[..read]).map_err(|e| format!("'{}': {e}", one.file.display()))?;
                    }
                }
                Http3Event::Finished if *answered => {
                    self.open.remove(&stream);
                    self.done += 1;
                }
                Http3Event::Finished | Http3Event::Reset => {
                    return Err(format!("{}: the server reset the stream", one.path()));
                }
            }
        }
        Ok(())
    }
}
