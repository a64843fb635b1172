//! A connection's requests and responses.
//!
//! A response is a future, run by the connection's task. It hands its steps over one at a time, and each is done when quiche has taken it.
//! Then it waits until the client has acknowledged all of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use quiche::Shutdown;
use quiche::fathom::StreamDelivery;
use quiche::h3::{self, Event, Header, HeaderRef, NameValue};
use tokio::sync::{mpsc, oneshot};

use super::header_timeouts::HeaderTimeouts;
use super::quic::Quic;
use crate::digest::{self, CONTENT_DIGEST, WANT_CONTENT_DIGEST};
use crate::server::response::{ConnectionContext, DeliveryOutcome, RequestHead, ResponseWriter, answer};
use crate::site::RETRY_AFTER;

/// Bytes of bodies that a connection's requests may bring; nothing here takes one.
const MAX_BODY_BYTES: u64 = 1 << 20;
/// Responses of a connection that may be given up or refused. quiche's HTTP/3 remembers each of them until the connection ends.
const MAX_ABORTED: usize = 1_000;

// Codes of HTTP/3 (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const REQUEST_REJECTED: u64 = 0x10b;
const MESSAGE_ERROR: u64 = 0x10e;

/// A part of a response. `done` hears when quiche has taken all of it.
struct Step {
    stream: u64,
    /// What comes first stands last.
    what: Vec<ResponsePart>,
    done: oneshot::Sender<Result<(), String>>,
}

enum ResponsePart {
    Head {
        status: StatusCode,
        length: u64,
        content_type: String,
    },
    Body(Bytes),
    /// With the body's digest, where it was asked for.
    End(Option<String>),
}

/// A response's way into the connection's task.
struct ResponseHandle {
    stream: u64,
    steps: mpsc::Sender<Step>,
}

impl ResponseHandle {
    /// What comes first stands last.
    async fn step(&self, what: Vec<ResponsePart>) -> Result<(), String> {
        let (done, told) = oneshot::channel();
        let gone = || "the connection is closed".to_owned();
        self.steps.send(Step { stream: self.stream, what, done }).await.map_err(|_| gone())?;
        told.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl ResponseWriter for ResponseHandle {
    async fn head(&mut self, status: StatusCode, length: u64, content_type: &str) -> Result<(), String> {
        self.step(vec![ResponsePart::Head { status, length, content_type: content_type.to_owned() }]).await
    }

    async fn data(&mut self, bytes: Bytes) -> Result<(), String> {
        self.step(vec![ResponsePart::Body(bytes)]).await
    }

    async fn finish(&mut self, digest: Option<String>) -> Result<(), String> {
        self.step(vec![ResponsePart::End(digest)]).await
    }

    async fn whole(
        &mut self,
        status: StatusCode,
        content_type: &str,
        body: Bytes,
        digest: Option<String>,
    ) -> Result<(), String> {
        let head = ResponsePart::Head { status, length: body.len() as u64, content_type: content_type.to_owned() };
        let mut what = vec![ResponsePart::End(digest)];
        what.extend((!body.is_empty()).then_some(ResponsePart::Body(body)));
        what.push(head);
        self.step(what).await
    }
}

/// A response that is over.
struct FinishedResponse {
    stream: u64,
    outcome: DeliveryOutcome,
}

/// A response that is open: tells it what becomes of what it sends.
struct OpenResponse {
    delivery: oneshot::Sender<Result<(), String>>,
    /// quiche has taken all of it.
    handed_over: bool,
}

/// A connection's requests and responses.
pub(super) struct RequestStreams {
    context: Arc<ConnectionContext>,
    responses: FuturesUnordered<Pin<Box<dyn Future<Output = FinishedResponse> + Send>>>,
    over: Vec<FinishedResponse>,
    handle: mpsc::Sender<Step>,
    steps: mpsc::Receiver<Step>,
    /// Steps that quiche has not taken, in the order in which they came: one of each response at most.
    waiting: VecDeque<Step>,
    /// Requests whose header came and whose end has not. No more than the streams a client may have open.
    arriving: HashSet<u64>,
    /// Responses by their stream, until it is known what became of them.
    open: HashMap<u64, OpenResponse>,
    /// Requests whose header has not come.
    headers: HeaderTimeouts,
    /// Requests so far.
    seen: u64,
    /// The first request that has not been seen.
    next: u64,
    /// The first that is not answered any more.
    goaway: Option<u64>,
    /// Bytes of bodies so far.
    unwanted: u64,
    /// Responses given up or refused so far.
    unfinished: usize,
}

impl RequestStreams {
    pub(super) fn new(context: Arc<ConnectionContext>) -> Self {
        let (handle, steps) = mpsc::channel((context.server.limits.streams as usize).max(1));
        Self {
            context,
            responses: FuturesUnordered::new(),
            over: Vec::new(),
            handle,
            steps,
            waiting: VecDeque::new(),
            arriving: HashSet::new(),
            open: HashMap::new(),
            headers: HeaderTimeouts::default(),
            seen: 0,
            next: 0,
            goaway: None,
            unwanted: 0,
            unfinished: 0,
        }
    }

    /// The client was evicted for holding response memory.
    pub(super) fn are_evicted(&self) -> bool {
        self.context.memory.is_evicted()
    }

    /// The connection has used up its quota of aborted streams: send GOAWAY.
    pub(super) const fn should_shut_down(&self) -> bool {
        self.unwanted > MAX_BODY_BYTES || self.unfinished > MAX_ABORTED
    }

    /// The client continues in spite of GOAWAY: close the connection.
    pub(super) const fn are_excessive(&self) -> bool {
        self.unfinished > 2 * MAX_ABORTED
    }

    /// No response is open, and the client knows that none will follow.
    pub(super) fn is_idle(&self) -> bool {
        self.responses.is_empty() && self.waiting.is_empty() && self.goaway.is_some()
    }

    /// Nothing is being answered.
    pub(super) fn are_answered(&self) -> bool {
        self.responses.is_empty() && self.waiting.is_empty()
    }

    /// Changes with every request that is complete.
    pub(super) const fn requests(&self) -> u64 {
        self.seen
    }

    /// When the header of a request will have taken too long.
    pub(super) fn due(&self) -> Option<tokio::time::Instant> {
        self.headers.due()
    }

    /// Processes HTTP/3 events and timeouts.
    pub(super) fn process_events(&mut self, quic: &mut Quic, http: &mut h3::Connection, now: tokio::time::Instant) {
        // Before a stream is asked for anything: quiche then forgets one that is over.
        self.report_deliveries(quic);
        let end = now + self.context.server.limits.header_timeout;
        self.headers.on_readable(quic.readable(), end);
        while let Some(stream) = self.headers.expired(now) {
            // One that has brought nothing is none to quiche.
            if quic.stream_shutdown(stream, Shutdown::Read, REQUEST_REJECTED).is_ok() {
                self.context.server.metrics.slow_header();
                self.give_up(quic, stream, REQUEST_REJECTED);
            } else {
                self.headers.restart(stream, end);
            }
        }
        // A client may stop a stream that has brought it all it wants. quiche keeps that stream, and the client's right to another, until
        // somebody has asked for it.
        while let Some(stream) = quic.stream_writable_next() {
            if let Err(quiche::Error::StreamStopped(code)) = quic.stream_capacity(stream) {
                self.finish_delivery(stream, Err(format!("the client stopped it with code {code}")));
            }
        }
        loop {
            match http.poll(quic) {
                Ok((stream, Event::Headers { list, more_frames })) => self.request(quic, stream, &list, more_frames),
                Ok((stream, Event::Data)) => self.discard(quic, http, stream),
                Ok((stream, Event::Finished | Event::Reset(_))) => {
                    self.headers.on_header(stream);
                    self.arriving.remove(&stream);
                }
                Ok((stream, Event::PriorityUpdate)) => drop(http.take_last_priority_update(stream)),
                Ok((_, Event::GoAway)) => {}
                // quiche has closed the connection with an error that is one.
                Err(_) => return,
            }
        }
    }

    /// Reports to responses that their data was acknowledged, or reset.
    fn report_deliveries(&mut self, quic: &Quic) {
        self.open.retain(|_, open| !open.delivery.is_closed());
        let over = |stream: u64, open: &OpenResponse| {
            let delivery = quic.stream_delivery(stream);
            match delivery {
                // Where quiche has forgotten it, nobody has stopped it before.
                StreamDelivery::Acknowledged | StreamDelivery::Forgotten if open.handed_over => Some(Ok(())),
                StreamDelivery::Reset => Some(Err("the client stopped it".to_owned())),
                _ => None,
            }
        };
        let told: Vec<_> = self.open.iter().filter_map(|(id, open)| Some((*id, over(*id, open)?))).collect();
        for (stream, what) in told {
            self.finish_delivery(stream, what);
        }
    }

    fn finish_delivery(&mut self, stream: u64, what: Result<(), String>) {
        if let Some(open) = self.open.remove(&stream) {
            // One that is over does not listen.
            let _ = open.delivery.send(what);
        }
    }

    /// Reads a body that nobody wants: a client may insist on sending it, and quiche lets go of a stream once it was read to its end.
    fn discard(&mut self, quic: &mut Quic, http: &mut h3::Connection, stream: u64) {
        let mut scratch = [0; 4096];
        while let Ok(read) = http.recv_body(quic, stream, &mut scratch) {
            self.unwanted += read as u64;
        }
        if self.unwanted > MAX_BODY_BYTES {
            self.unfinished += 1;
            let _ = quic.stream_shutdown(stream, Shutdown::Read, NO_ERROR);
        }
    }

    // Response times are of real time.
    #[allow(clippy::disallowed_methods)]
    fn request(&mut self, quic: &mut Quic, stream: u64, list: &[Header], more: bool) {
        if self.arriving.contains(&stream) {
            // Trailers.
            return;
        }
        self.headers.on_header(stream);
        self.seen += 1;
        if more {
            self.arriving.insert(stream);
        }
        self.next = self.next.max(stream + 4);
        // A client that cancels its requests at once could otherwise have any number answered.
        let many = self.responses.len() >= self.context.server.limits.streams as usize;
        if many || self.goaway.is_some_and(|first| stream >= first) {
            return self.give_up(quic, stream, REQUEST_REJECTED);
        }
        let Some((method, path)) = parts(list) else { return self.give_up(quic, stream, MESSAGE_ERROR) };
        let wanted = |field: &&Header| field.name() == WANT_CONTENT_DIGEST.as_str().as_bytes();
        let digest = list.iter().filter(wanted).any(|field| digest::is_wanted_by(field.value()));
        let started = Instant::now();
        let mut handle = ResponseHandle { stream, steps: self.handle.clone() };
        let context = Arc::clone(&self.context);
        let (delivery, told) = oneshot::channel();
        self.open.insert(stream, OpenResponse { delivery, handed_over: false });
        let told = Box::pin(async { told.await.unwrap_or_else(|_| Err("the connection is closed".into())) });
        self.responses.push(Box::pin(async move {
            let request_head = RequestHead { method: &method, path: path.path(), digest };
            let outcome = answer(&mut handle, told, started, request_head, &context).await;
            FinishedResponse { stream, outcome }
        }));
    }

    /// Waits until a response has got on.
    pub(super) async fn progress(&mut self) {
        tokio::select! {
            Some(step) = self.steps.recv() => self.waiting.push_back(step),
            Some(over) = self.responses.next(), if !self.responses.is_empty() => self.over.push(over),
        }
    }

    /// Lets responses go on, and hands quiche what it takes; where it is `shutting_down`, tells the client that it is.
    pub(super) fn write(&mut self, quic: &mut Quic, http: &mut h3::Connection, shutting_down: bool) {
        if shutting_down && self.goaway.is_none() {
            // GOAWAY (RFC 9114 §5.2): what is open is still answered, and a request that is on its way.
            let first = self.next + 4;
            match http.send_goaway(quic, first) {
                // Later, then.
                Err(h3::Error::StreamBlocked) => {}
                _ => self.goaway = Some(first),
            }
        }
        loop {
            while let Some(Some(over)) = self.responses.next().now_or_never() {
                self.over.push(over);
            }
            for over in std::mem::take(&mut self.over) {
                self.end(quic, &over);
            }
            while let Ok(step) = self.steps.try_recv() {
                self.waiting.push_back(step);
            }
            if !self.hand_over(quic, http) {
                return;
            }
        }
    }

    /// Whether quiche took a step in full, so that another may come.
    fn hand_over(&mut self, quic: &mut Quic, http: &mut h3::Connection) -> bool {
        let before = self.waiting.len();
        for mut step in std::mem::take(&mut self.waiting) {
            let ends = matches!(step.what.first(), Some(ResponsePart::End(_)));
            match Self::step(quic, http, &mut step) {
                Ok(true) => {
                    if ends && let Some(open) = self.open.get_mut(&step.stream) {
                        open.handed_over = true;
                    }
                    let _ = step.done.send(Ok(()));
                }
                Ok(false) => self.waiting.push_back(step),
                Err(e) => drop(step.done.send(Err(e.to_string()))),
            }
        }
        self.waiting.len() < before
    }

    /// Whether quiche took all of it.
    fn step(quic: &mut Quic, http: &mut h3::Connection, step: &mut Step) -> Result<bool, h3::Error> {
        while let Some(mut what) = step.what.pop() {
            let last = matches!(&step.what[..], [ResponsePart::End(None)]);
            if !Self::part(quic, http, step.stream, &mut what, last)? {
                step.what.push(what);
                return Ok(false);
            }
            if last {
                step.what.clear();
            }
        }
        Ok(true)
    }

    /// The same of a part. Nothing but the stream's end follows the `last`: it goes with it.
    fn part(
        quic: &mut Quic,
        http: &mut h3::Connection,
        stream: u64,
        what: &mut ResponsePart,
        last: bool,
    ) -> Result<bool, h3::Error> {
        let taken = match what {
            ResponsePart::Head { status, length, content_type } => {
                let length = length.to_string();
                let fields = [
                    HeaderRef::new(b":status", status.as_str().as_bytes()),
                    HeaderRef::new(b"content-length", length.as_bytes()),
                    HeaderRef::new(b"content-type", content_type.as_bytes()),
                    HeaderRef::new(b"retry-after", RETRY_AFTER.as_bytes()),
                ];
                let busy = *status == StatusCode::SERVICE_UNAVAILABLE;
                http.send_response(quic, stream, if busy { &fields } else { &fields[..3] }, last)
            }
            ResponsePart::Body(bytes) => loop {
                if bytes.is_empty() {
                    break Ok(());
                }
                let left = bytes.len();
                match http.send_body_zc(quic, stream, bytes, last) {
                    // What was taken whole is still there.
                    Ok(taken) if taken == left => *bytes = Bytes::new(),
                    Ok(_) => {}
                    Err(e) => break Err(e),
                }
            },
            ResponsePart::End(None) => http.send_body(quic, stream, b"", true).map(drop),
            ResponsePart::End(Some(digest)) => {
                let name = CONTENT_DIGEST;
                let trailers = [HeaderRef::new(name.as_str().as_bytes(), digest.as_bytes())];
                http.send_additional_headers(quic, stream, &trailers, true, true)
            }
        };
        match taken {
            Ok(()) => Ok(true),
            Err(h3::Error::Done | h3::Error::StreamBlocked) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn end(&mut self, quic: &mut Quic, over: &FinishedResponse) {
        match over.outcome {
            DeliveryOutcome::Acknowledged => {}
            // What nobody takes is not kept. A stream that the client stopped is over already.
            DeliveryOutcome::HandedOver => {
                if quic.stream_shutdown(over.stream, Shutdown::Write, INTERNAL_ERROR).is_ok() {
                    self.unfinished += 1;
                }
            }
            DeliveryOutcome::Cut => {
                // It has left a step behind.
                self.waiting.retain(|step| step.stream != over.stream);
                self.give_up(quic, over.stream, INTERNAL_ERROR);
            }
        }
    }

    fn give_up(&mut self, quic: &mut Quic, stream: u64, code: u64) {
        self.unfinished += 1;
        let _ = quic.stream_shutdown(stream, Shutdown::Write, code);
    }

    /// The connection is over: what is open hears of it.
    pub(super) fn over(&mut self) {
        self.steps.close();
        while self.steps.try_recv().is_ok() {}
        self.waiting.clear();
        self.open.clear();
        while let Some(Some(_)) = self.responses.next().now_or_never() {}
    }
}

/// Method and path of a request; `None` where it is malformed.
fn parts(list: &[Header]) -> Option<(Method, PathAndQuery)> {
    let field = |name: &[u8]| list.iter().find(|field| field.name() == name).map(NameValue::value);
    Some((Method::from_bytes(field(b":method")?).ok()?, PathAndQuery::try_from(field(b":path")?).ok()?))
}
