//! The client.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_net::connection_log::ConnectionLog;
use fathom_net::load::wildcard_address;
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};

use super::super::downloads::Wanted;
use super::super::facts::{self, Books};
use super::super::{Case, Outcome, Setup, hq};
use super::mail::{EARLY, Mail, Outbox};
use super::seam::{CID, Event, Quic, State, Trouble};
use super::{client_tls, tell};

/// How long a ticket may take after the first file.
const TICKET: Duration = Duration::from_secs(5);
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Fetches what is wanted, as the test case has it.
pub(super) fn run<Q: Quic>(setup: &Setup, books: &Books, stop: &AtomicBool) -> Outcome {
    let made = || -> Result<_, String> {
        let downloads = &setup.downloads;
        std::fs::create_dir_all(downloads)
            .map_err(|e| format!("DOWNLOADS is '{}': {e}; set a folder that can be written to", downloads.display()))?;
        let (context, verifies) = client_tls(setup)?;
        let config = Q::config(setup, context, verifies)?;
        let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| e.to_string())?;
        Ok(Client { setup, books, stop, config, logs, ticket: None })
    };
    let mut client = match made() {
        Ok(client) => client,
        Err(why) => return Outcome::Wrong(why),
    };
    let all = &setup.wanted[..];
    let fetched = match setup.case {
        Case::MultiConnect => all.chunks(1).try_for_each(|one| client.connection::<Q>(one, false)),
        case if case.resumes() => {
            let (first, rest) = all.split_at(1);
            client.connection::<Q>(first, false).and_then(|()| client.connection::<Q>(rest, true))
        }
        _ => client.connection::<Q>(all, false),
    };
    if let Some(logs) = &client.logs {
        logs.finish();
    }
    match fetched {
        Ok(()) => Outcome::Done,
        Err(why) => Outcome::Failed(why),
    }
}

struct Client<'a, C> {
    setup: &'a Setup,
    books: &'a Books,
    stop: &'a AtomicBool,
    config: C,
    logs: Option<LogFolder>,
    ticket: Option<Vec<u8>>,
}

impl<C> Client<'_, C> {
    /// Fetches these over one connection; `second`: one that goes on from an earlier one.
    fn connection<Q: Quic<Config = C>>(&mut self, wanted: &[Wanted], second: bool) -> Result<(), String> {
        let number = self.books.begin(facts::Connection {
            peer: self.setup.address.to_string(),
            controller: self.setup.controller.clone(),
            ..facts::Connection::default()
        });
        let fetched = self.over_one::<Q>(wanted, second, number);
        let written = self.books.write();
        fetched.and(written)
    }

    fn ear(&self, number: usize) -> Option<Arc<dyn Observer>> {
        let setup = self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.case);
            Arc::new(ConnectionLog::open(logs, format!("{}-{number}", setup.case), VantagePoint::Client, title))
                as Arc<dyn Observer>
        })
    }

    // An endpoint works in real time.
    #[allow(clippy::disallowed_methods)]
    fn over_one<Q: Quic<Config = C>>(&mut self, wanted: &[Wanted], second: bool, number: usize) -> Result<(), String> {
        let setup = self.setup;
        let mut mail = Mail::open(wildcard_address(setup.address)).map_err(|e| format!("a socket: {e}"))?;
        // The address that packets leave from: quiche wants to know it.
        let local = SocketAddr::new(from(setup.address), mail.address().port());
        let id: [u8; CID] = rand::random();
        let ear = self.ear(number);
        let mut quic = Q::connect(&mut self.config, &setup.server_name, &id, (local, setup.address), ear)?;
        if second {
            let ticket = self.ticket.take().ok_or("the server gave no ticket")?;
            quic.resume(&ticket)?;
        }
        let mut fetch = Fetch::new(wanted, setup.case == Case::Http3);
        let mut outbox = Outbox::default();
        let mut whole = None;
        loop {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) {
                return Err("told to end before all was there".into());
            }
            if quic.due().is_some_and(|due| due <= now) {
                quic.tick();
            }
            let state = quic.state();
            if state.closed {
                self.books.note(number, |facts| tell(&state, facts));
                return Err(ended(&state));
            }
            // No more connection IDs are offered: quinn and noq take the newest at once and retire the others, and where the frame that
            // offered one of these was lost, quiche 0.30 wants to send it again, cannot, and ends the connection.
            if state.established || (state.early && setup.case == Case::ZeroRtt) {
                fetch.go_on(&mut quic, &state)?;
            }
            if fetch.is_whole() {
                let since = *whole.get_or_insert(now);
                let ticket = quic.ticket();
                let waits = setup.case.resumes() && !second && ticket.is_none() && now < since + TICKET;
                if state.established && !waits {
                    self.ticket = ticket;
                    break;
                }
            }
            let held = outbox.flush(&mut quic, &mail, EARLY);
            if quic.state().early && !state.early {
                // The first packet has left, and 0-RTT may follow at once.
                continue;
            }
            mail.wait(Instant::now(), [quic.due(), held].into_iter().flatten().min());
            mail.take(|came| quic.take(came.bytes, came.from, local, came.ecn));
        }
        let state = quic.state();
        quic.close(if setup.case == Case::Http3 { 0x100 } else { 0 });
        // What is held back goes now: nothing follows it.
        outbox.flush(&mut quic, &mail, Duration::MAX);
        let after = quic.state();
        self.books.note(number, |facts| {
            tell(&State { closed: true, error: after.error.clone(), ..state.clone() }, facts);
            facts.requests = fetch.done as u64;
            facts.early_requests = (setup.case == Case::ZeroRtt && second).then_some(fetch.early);
            facts.early_data_accepted =
                (setup.case == Case::ZeroRtt && second).then_some(state.resumed && fetch.early > 0);
        });
        if second && !state.resumed {
            return Err("all files are there, but nothing was resumed".into());
        }
        if second && setup.case == Case::ZeroRtt && fetch.early == 0 {
            return Err("all files are there, but no request went in 0-RTT".into());
        }
        Ok(())
    }
}

fn ended(state: &State) -> String {
    match &state.error {
        Some((by, transport, code, reason)) => {
            let kind = if *transport { "transport" } else { "application" };
            format!("closed by {by}: {kind} error {code:#x} '{}'", String::from_utf8_lossy(reason).escape_debug())
        }
        None if state.timed_out => "the server fell silent".into(),
        None => "the connection ended".into(),
    }
}

/// The address of this host's from which it reaches there.
fn from(towards: SocketAddr) -> std::net::IpAddr {
    let probe = std::net::UdpSocket::bind(wildcard_address(towards)).and_then(|socket| {
        socket.connect(towards)?;
        socket.local_addr()
    });
    probe.map_or(wildcard_address(towards).ip(), |address| address.ip())
}

/// Requests under way.
struct Fetch<'a> {
    waiting: std::slice::Iter<'a, Wanted>,
    next: Option<&'a Wanted>,
    open: HashMap<u64, (File, &'a Wanted, bool)>,
    wanted: usize,
    done: usize,
    /// Requests that went in 0-RTT.
    early: u64,
    http3: bool,
    streams: u64,
    /// The part of the last request for which there was no room: its stream, and what is left.
    rest: Option<(u64, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl<'a> Fetch<'a> {
    fn new(wanted: &'a [Wanted], http3: bool) -> Self {
        let mut waiting = wanted.iter();
        let next = waiting.next();
        let open = HashMap::new();
        let (wanted, buffer) = (wanted.len(), vec![0; CHUNK]);
        Self { waiting, next, open, wanted, done: 0, early: 0, http3, streams: 0, rest: None, buffer }
    }

    const fn is_whole(&self) -> bool {
        self.done == self.wanted
    }

    /// Sends requests, and takes what came.
    fn go_on<Q: Quic>(&mut self, quic: &mut Q, state: &State) -> Result<(), String> {
        if self.http3 {
            quic.http()?;
        }
        self.finish_request(quic)?;
        while let Some(one) = self.next.filter(|_| self.rest.is_none()) {
            match self.ask(quic, one) {
                Ok(stream) => {
                    let file = File::create(&one.file).map_err(|e| format!("'{}': {e}", one.file.display()))?;
                    self.open.insert(stream, (file, one, false));
                    self.early += u64::from(state.early && !state.established);
                    self.next = self.waiting.next();
                }
                Err(Trouble::Done) => break,
                Err(Trouble::Over) => return Err(format!("{}: it cannot be asked for", one.path())),
            }
        }
        if self.http3 { self.hear(quic) } else { self.read(quic) }
    }

    fn ask<Q: Quic>(&mut self, quic: &mut Q, one: &Wanted) -> Result<u64, Trouble> {
        if self.http3 {
            let authority = one.url.authority().map_or("localhost", |authority| authority.as_str());
            let fields: [(&[u8], &[u8]); 4] = [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", authority.as_bytes()),
                (b":path", one.path().as_bytes()),
            ];
            return quic.head(None, &fields);
        }
        if !quic.may_open() {
            return Err(Trouble::Done);
        }
        let stream = self.streams * 4;
        let request = hq::request(one.path());
        match quic.write(stream, &request, true) {
            Ok(written) => {
                self.streams += 1;
                self.rest = Some((stream, request[written..].to_vec())).filter(|(_, rest)| !rest.is_empty());
                Ok(stream)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Sends what is left of a request.
    fn finish_request<Q: Quic>(&mut self, quic: &mut Q) -> Result<(), String> {
        let Some((stream, rest)) = &mut self.rest else { return Ok(()) };
        match quic.write(*stream, rest, true) {
            Ok(written) => {
                rest.drain(..written);
                if rest.is_empty() {
                    self.rest = None;
                }
                Ok(())
            }
            Err(Trouble::Done) => Ok(()),
            Err(Trouble::Over) => Err("a request could not be sent".into()),
        }
    }

    fn read<Q: Quic>(&mut self, quic: &mut Q) -> Result<(), String> {
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
                    Err(Trouble::Done) => break,
                    Err(Trouble::Over) => return Err(format!("{}: the server gave it up", one.path())),
                }
            }
        }
        Ok(())
    }

    fn hear<Q: Quic>(&mut self, quic: &mut Q) -> Result<(), String> {
        while let Some((stream, event)) = quic.event() {
            let Some((file, one, answered)) = self.open.get_mut(&stream) else { continue };
            match event {
                Event::Head(fields) => {
                    let status = fields.iter().find(|(name, _)| name == b":status").map(|(_, status)| &status[..]);
                    if status != Some(b"200") {
                        let status = String::from_utf8_lossy(status.unwrap_or_default()).into_owned();
                        return Err(format!("{}: status '{}'", one.path(), status.escape_debug()));
                    }
                    *answered = true;
                }
                Event::Data => {
                    while let Ok(read) = quic.read_body(stream, &mut self.buffer) {
                        file.write_all(&self.buffer[..read]).map_err(|e| format!("'{}': {e}", one.file.display()))?;
                    }
                }
                Event::Finished if *answered => {
                    self.open.remove(&stream);
                    self.done += 1;
                }
                Event::Finished | Event::Reset => return Err(format!("{}: the server gave it up", one.path())),
            }
        }
        Ok(())
    }
}
