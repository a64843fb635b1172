//! The server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use fathom_net::connection_log::ConnectionLog;
use fathom_net::limits::Limits;
use fathom_net::server::{RetryTokens, packets_after_handshake};
use fathom_net::site::Site;
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use http::{Method, StatusCode};
use quiche::{ConnectionId, Header};
use tokio::runtime::Runtime;

use super::super::facts::{self, Books};
use super::super::server::Pieces;
use super::super::{Case, Outcome, Setup, hq};
use super::mail::{Came, EARLY, Mail, Outbox};
use super::seam::{Begun, CID, Event, Letter, Quic, Trouble};
use super::{server_tls, tell};

/// Connections at once; what comes on top is dropped.
const CONNECTIONS: usize = 1_000;
/// A client's first datagram is no shorter (RFC 9000 §14.1), nor the connection ID it makes up (§7.2).
const FIRST: usize = 1_200;
const SHORTEST_ID: usize = 8;
/// The largest stateless answer.
const ANSWER: usize = 1_200;

/// Serves until `stop` is set.
// An endpoint works in real time.
#[allow(clippy::disallowed_methods)]
pub(super) fn run<Q: Quic>(setup: &Setup, books: &Books, stop: &AtomicBool) -> Outcome {
    let made = || -> Result<_, String> {
        let config = Q::config(setup, server_tls(setup)?, false)?;
        let site = Site::new(Some(&setup.www), Limits::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| e.to_string())?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| e.to_string())?;
        let at = setup.address;
        let mail = Mail::open(at).map_err(|e| format!("cannot listen at {at}: {e}; choose another port"))?;
        let files = Files { site, runtime };
        let entry = Entry::<Q> {
            setup,
            books,
            config,
            logs,
            began: Instant::now(),
            tokens: RetryTokens::new(),
            guests: HashMap::new(),
            routes: HashMap::new(),
            next: 0,
        };
        Ok((mail, files, entry))
    };
    let (mut mail, files, mut entry) = match made() {
        Ok(made) => made,
        Err(why) => return Outcome::Wrong(why),
    };
    while !stop.load(Ordering::Relaxed) {
        let due = entry.go_on(&mail, &files, Instant::now());
        mail.wait(Instant::now(), due);
        let mut answers = Vec::new();
        mail.take(|came| answers.extend(entry.route(came)));
        for answer in &answers {
            mail.send(answer);
        }
    }
    for guest in entry.guests.values_mut() {
        guest.quic.close(0);
    }
    entry.go_on(&mail, &files, Instant::now());
    for (_, guest) in entry.guests.drain() {
        let state = guest.quic.state();
        books.note(guest.number, |facts| tell(&state, facts));
    }
    if let Some(logs) = &entry.logs {
        logs.finish();
    }
    Outcome::Done
}

/// What is served.
struct Files {
    site: Site,
    runtime: Runtime,
}

/// All connections, and what new ones are made from.
struct Entry<'a, Q: Quic> {
    setup: &'a Setup,
    books: &'a Books,
    config: Q::Config,
    logs: Option<LogFolder>,
    began: Instant,
    tokens: RetryTokens,
    guests: HashMap<u64, Guest<Q>>,
    routes: HashMap<Vec<u8>, u64>,
    next: u64,
}

/// A connection.
struct Guest<Q> {
    quic: Q,
    number: usize,
    outbox: Outbox,
    requests: HashMap<u64, Vec<u8>>,
    answers: HashMap<u64, Reply>,
    http3: bool,
    early: bool,
}

/// A response under way.
struct Reply {
    pieces: Pieces,
    piece: Bytes,
    /// The header, where it is still to be sent.
    head: Option<(StatusCode, u64)>,
}

impl<Q: Quic> Entry<'_, Q> {
    /// Takes a datagram to its connection, or begins one. What is answered without one.
    fn route(&mut self, came: Came<'_>) -> Option<Letter> {
        let id = addressed(came.bytes)?;
        let guest = match self.routes.get(id) {
            Some(guest) => *guest,
            None => match self.begin(came.bytes, came.from, came.to)? {
                Ok(guest) => guest,
                Err(bytes) => return Some(Letter { bytes, to: came.from, ecn: 0, at: self.began }),
            },
        };
        let guest = self.guests.get_mut(&guest)?;
        let packets = if guest.quic.state().established { packets_after_handshake(came.bytes) } else { came.bytes };
        if !packets.is_empty() {
            guest.quic.take(packets, came.from, came.to, came.ecn);
        }
        None
    }

    /// A packet that belongs to no connection: a new one, or what is told without one.
    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    fn begin(&mut self, packet: &mut [u8], from: SocketAddr, to: SocketAddr) -> Option<Result<u64, Vec<u8>>> {
        if packet.first()? & 0x80 == 0 || packet.len() < FIRST {
            return None;
        }
        let header = Header::from_slice(packet, CID).ok()?;
        let mut answer = vec![0; ANSWER];
        if header.ty == quiche::Type::VersionNegotiation {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut answer).ok()?;
            answer.truncate(len);
            return Some(Err(answer));
        }
        if header.ty != quiche::Type::Initial || header.dcid.len() < SHORTEST_ID || self.guests.len() >= CONNECTIONS {
            return None;
        }
        let now = self.began.elapsed();
        let token = header.token.as_deref().unwrap_or_default();
        let original = self.tokens.check(now, token, from, &header.dcid);
        if self.setup.case == Case::Retry && original.is_none() {
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
        let ear = self.ear(name);
        let quic = Q::accept(&mut self.config, &Begun { id: &id, retried, local: to, peer: from }, ear)?;
        let number = self.books.begin(facts::Connection {
            peer: from.to_string(),
            controller: self.setup.controller.clone(),
            retry: Some(original.is_some()),
            early_requests: (self.setup.case == Case::ZeroRtt).then_some(0),
            ..facts::Connection::default()
        });
        self.next += 1;
        for id in [&id[..], &header.dcid] {
            self.routes.insert(id.to_vec(), self.next);
        }
        let guest = Guest {
            quic,
            number,
            outbox: Outbox::default(),
            requests: HashMap::new(),
            answers: HashMap::new(),
            http3: self.setup.case == Case::Http3,
            early: false,
        };
        self.guests.insert(self.next, guest);
        Some(Ok(self.next))
    }

    fn ear(&self, id: String) -> Option<Arc<dyn Observer>> {
        let setup = self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.case);
            Arc::new(ConnectionLog::open(logs, id, VantagePoint::Server, title)) as Arc<dyn Observer>
        })
    }

    /// Timers, requests, responses, packets. When to come again.
    fn go_on(&mut self, mail: &Mail, files: &Files, now: Instant) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        let mut gone = Vec::new();
        for (guest_id, guest) in &mut self.guests {
            if guest.quic.due().is_some_and(|due| due <= now) {
                guest.quic.tick();
            }
            for id in guest.quic.more_ids() {
                self.routes.insert(id, *guest_id);
            }
            guest.serve(self.books, files);
            let held = guest.outbox.flush(&mut guest.quic, mail, EARLY);
            due = [due, held, guest.quic.due()].into_iter().flatten().min();
            if guest.quic.state().closed {
                gone.push(*guest_id);
            }
        }
        for id in gone {
            if let Some(guest) = self.guests.remove(&id) {
                let state = guest.quic.state();
                self.books.note(guest.number, |facts| tell(&state, facts));
                if let Err(why) = self.books.write() {
                    tracing::warn!("{why}");
                }
            }
            self.routes.retain(|_, to| *to != id);
        }
        due
    }
}

impl<Q: Quic> Guest<Q> {
    fn serve(&mut self, books: &Books, files: &Files) {
        let state = self.quic.state();
        self.early = state.early && !state.established;
        if !state.established && !state.early || state.closed {
            return;
        }
        if self.http3 {
            if self.quic.http().is_err() {
                self.quic.close(0x100);
                return;
            }
            self.hear(files);
        } else {
            self.read(books, files);
        }
        self.write(books, files);
    }

    fn read(&mut self, books: &Books, files: &Files) {
        let mut buffer = [0; hq::LONGEST];
        for stream in self.quic.readable() {
            // Requests come on streams that clients open for both directions.
            if stream % 4 != 0 {
                continue;
            }
            let mut whole = false;
            while let Ok((read, last)) = self.quic.read(stream, &mut buffer) {
                let request = self.requests.entry(stream).or_default();
                if request.len() + read <= hq::LONGEST {
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
                books.note(self.number, |facts| {
                    *facts.early_requests.get_or_insert(0) += 1;
                    facts.early_data_accepted = Some(true);
                });
            }
            let answer =
                hq::parse(&request).ok().map(|path| files.runtime.block_on(files.site.answer(&Method::GET, path)));
            match answer.filter(|answer| answer.status == StatusCode::OK) {
                Some(answer) => {
                    self.answers.insert(stream, Reply { pieces: Pieces::of(answer), piece: Bytes::new(), head: None });
                }
                None => self.quic.reset(stream, hq::NOT_THERE.into()),
            }
        }
    }

    fn hear(&mut self, files: &Files) {
        while let Some((stream, event)) = self.quic.event() {
            let Event::Head(fields) = event else { continue };
            let field = |name: &[u8]| fields.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..]);
            let method = field(b":method").and_then(|method| Method::from_bytes(method).ok()).unwrap_or_default();
            let path = field(b":path").and_then(|path| std::str::from_utf8(path).ok()).unwrap_or_default();
            let answer = files.runtime.block_on(files.site.answer(&method, path));
            let head = Some((answer.status, answer.length));
            self.answers.insert(stream, Reply { pieces: Pieces::of(answer), piece: Bytes::new(), head });
        }
    }

    /// Writes responses as far as there is room.
    fn write(&mut self, books: &Books, files: &Files) {
        let streams: Vec<u64> = self.answers.keys().copied().collect();
        for stream in streams {
            let Some(mut reply) = self.answers.remove(&stream) else { continue };
            match self.more(stream, &mut reply, files) {
                Ok(()) => books.note(self.number, |facts| facts.requests += 1),
                Err(Trouble::Done) => {
                    self.answers.insert(stream, reply);
                }
                Err(Trouble::Over) => self.quic.reset(stream, hq::NOT_THERE.into()),
            }
        }
    }

    /// Goes on with a response to its end, or to where there is no more room.
    fn more(&mut self, stream: u64, reply: &mut Reply, files: &Files) -> Result<(), Trouble> {
        if let Some((status, length)) = reply.head {
            let (status, length) = (status.as_u16().to_string(), length.to_string());
            let fields: [(&[u8], &[u8]); 2] = [(b":status", status.as_bytes()), (b"content-length", length.as_bytes())];
            self.quic.head(Some(stream), &fields)?;
            reply.head = None;
        }
        loop {
            if reply.piece.is_empty() {
                match files.runtime.block_on(reply.pieces.next()).map_err(|_| Trouble::Over)? {
                    Some(piece) => reply.piece = piece,
                    None => {
                        return if self.http3 {
                            self.quic.body(stream, b"", true).map(drop)
                        } else {
                            self.quic.write(stream, b"", true).map(drop)
                        };
                    }
                }
            }
            let piece = &reply.piece;
            let written = if self.http3 {
                self.quic.body(stream, piece, false)?
            } else {
                self.quic.write(stream, piece, false)?
            };
            if written == 0 {
                return Err(Trouble::Done);
            }
            let _ = reply.piece.split_to(written);
        }
    }
}

/// The identifier a packet is addressed to (RFC 8999 §5).
fn addressed(packet: &[u8]) -> Option<&[u8]> {
    let long = packet.first()? & 0x80 != 0;
    if long { packet.get(6..6 + usize::from(*packet.get(5)?)) } else { packet.get(1..=CID) }
}
