//! Visits: page views one after the other. Each page is loaded in waves of requests over a
//! connection, which clients keep open as browsers do.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::Completed;
use fathom_netsim::sim::{SimHandle, Sleep};
use fathom_traffic::pages::{KEPT_IDLE, WAVES};
use fathom_traffic::{Kind, PageView, Visit, WebRequest};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::super::responses::ResponseKind;
use super::super::workload::Browsing;
use super::{Clients, Endpoints, add_needs, before};
use crate::http::{Ask, Fetched, HttpError, Priority};
use crate::stack::{BoxFuture, Client};

/// Arrival times of the parts of a page.
struct Loaded {
    /// Arrival of the first byte of the page itself.
    first_byte: Time,
    /// Arrival of the last byte of the objects that are needed to draw the page.
    critical: Time,
    /// Arrival of the last byte of all objects.
    last_byte: Time,
}

/// Largest urgency of critical objects: documents, style sheets, scripts and fonts.
const CRITICAL: u8 = 1;

/// The connection to the origin and its flow, if it is open.
type Kept = Option<(Box<dyn Client>, u32)>;

impl Clients {
    /// Runs all page views of a visit.
    pub(super) async fn visit(&self, visit: Visit, index: usize, browser: Browsing) {
        let Some(endpoints) = self.endpoints(index) else { return };
        let part = &endpoints.part;
        let sim = &part.state.sim;
        let mut kept: Kept = None;
        for number in visit.first..visit.views {
            let page = visit.view(number);
            let start = sim.time();
            part.begins(start);
            let loaded = self.view(endpoints, &mut kept, &page, (index, number), browser).await;
            if start >= self.since {
                let mut stats = part.stats();
                let pages = stats.pages.get_or_insert_default();
                match &loaded {
                    Ok((completed, critical)) => pages.loaded(completed.took, *critical),
                    Err(_) => pages.failed(),
                }
            }
            if let Err(e) = &loaded
                && let Some((client, flow)) = kept.take()
            {
                match e {
                    HttpError::Abandoned => client.close(),
                    _ => drop(client),
                }
                part.closed(flow);
            }
            part.record_outcome(start, loaded.map(|(completed, _)| completed));
            if number + 1 < visit.views {
                self.read(endpoints, &mut kept, page.reading).await;
            }
        }
        if let Some((client, flow)) = kept {
            client.close();
            part.closed(flow);
        }
    }

    /// Waits while the user reads. Closes the connection if it is idle for too long.
    async fn read(&self, endpoints: &Endpoints, kept: &mut Kept, reading: Duration) {
        let part = &endpoints.part;
        let sim = &part.state.sim;
        let next = sim.time() + reading;
        if reading > KEPT_IDLE && kept.is_some() {
            sim.sleep_until(sim.time() + KEPT_IDLE).await;
            if let Some((client, flow)) = kept.take() {
                client.close();
                part.closed(flow);
            }
        }
        sim.sleep_until(next).await;
    }

    /// Runs the page view with this number of the visit with this index.
    async fn view(
        &self,
        endpoints: &Endpoints,
        kept: &mut Kept,
        page: &PageView,
        (index, number): (usize, u32),
        browser: Browsing,
    ) -> Result<(Completed, Duration), HttpError> {
        let sim = &endpoints.part.state.sim;
        let start = sim.time();
        if kept.is_none() {
            // This request only opens the connection. Pages add no delays of their own.
            let request = WebRequest {
                start,
                request_bytes: 0,
                response_bytes: 0,
                client_rtt: Duration::ZERO,
                server_rtt: Duration::ZERO,
                server_delay: Duration::ZERO,
            };
            *kept = Some(self.open(endpoints, &request, index, number).await?);
        }
        let Some((client, flow)) = kept else { return Err(HttpError::Abandoned) };
        let gives_up = self.patience.map(|patience| start + patience);
        let load = self.load(endpoints, &mut **client, *flow, page, browser);
        let Loaded { first_byte, critical, last_byte } = before(sim, gives_up, load).await?;
        let completed = Completed {
            bytes: page.bytes(),
            took: last_byte.since(start),
            first_byte: first_byte.since(start),
        };
        Ok((completed, critical.since(start)))
    }

    /// Loads the objects of a page.
    async fn load(
        &self,
        endpoints: &Endpoints,
        client: &mut (dyn Client + '_),
        flow: u32,
        page: &PageView,
        browser: Browsing,
    ) -> Result<Loaded, HttpError> {
        let part = &endpoints.part;
        let sim = &part.state.sim;
        let mut first_byte = None;
        let (mut critical, mut last_byte) = (Time::ZERO, Time::ZERO);
        let mut loading = Loading::new(page, sim.clone());
        loop {
            while loading.requests.len() < browser.in_flight as usize
                && let Some(number) = loading.next_object()
            {
                let object = page.objects[number];
                let kind = object.kind;
                let ask = Ask {
                    bytes: object.bytes,
                    request_bytes: object.request_bytes,
                    priority: browser.priorities.then(|| priority(kind)),
                    ..Ask::default()
                };
                add_needs(part, flow, object.bytes, object.request_bytes);
                loading.requests.push(Request {
                    object: loading.asked - 1,
                    asked: sim.time(),
                    future: client.fetch(ask),
                });
            }
            match loading.next_event().await {
                Event::Fetched { object, asked, result } => {
                    let completed = result.as_ref().map(|fetched| Completed {
                        bytes: fetched.bytes,
                        took: fetched.last_byte.since(asked),
                        first_byte: fetched.first_byte.since(asked),
                    });
                    part.keep_row(ResponseKind::Object, asked, completed);
                    let counted = asked >= self.since;
                    if counted {
                        let mut stats = part.stats();
                        let pages = stats.pages.get_or_insert_default();
                        match &result {
                            Ok(fetched) => pages.object(fetched.last_byte.since(asked)),
                            Err(_) => pages.object_failed(),
                        }
                    }
                    let fetched = result?;
                    first_byte.get_or_insert(fetched.first_byte);
                    last_byte = last_byte.max(fetched.last_byte);
                    if page.objects[object].kind.urgency() <= CRITICAL {
                        critical = critical.max(fetched.last_byte);
                    }
                    loading.complete(object);
                }
                Event::Parsed => {}
                Event::Done => {
                    return Ok(Loaded {
                        first_byte: first_byte.unwrap_or(last_byte),
                        critical,
                        last_byte,
                    });
                }
            }
        }
    }
}

fn priority(kind: Kind) -> Priority {
    Priority { urgency: kind.urgency(), incremental: kind.incremental() }
}

/// A page whose objects are being loaded.
struct Loading<'a> {
    page: &'a PageView,
    sim: SimHandle,
    requests: FuturesUnordered<Request>,
    /// Number of objects requested so far, in the order of the page's objects.
    asked: usize,
    /// Last known wave.
    wave: u8,
    /// Number of objects of the known wave that contain links to the next wave and have not
    /// arrived.
    finders: usize,
    /// End of the parsing of the known wave, while it is being parsed.
    parsing: Option<Sleep>,
}

enum Event {
    Fetched { object: usize, asked: Time, result: Result<Fetched, HttpError> },
    Parsed,
    Done,
}

/// A request in transit.
struct Request {
    object: usize,
    asked: Time,
    future: BoxFuture<'static, Result<Fetched, HttpError>>,
}

impl Future for Request {
    type Output = (usize, Time, Result<Fetched, HttpError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(cx).map(|result| (self.object, self.asked, result))
    }
}

impl<'a> Loading<'a> {
    fn new(page: &'a PageView, sim: SimHandle) -> Self {
        let mut loading = Self {
            page,
            sim,
            requests: FuturesUnordered::new(),
            asked: 0,
            wave: 0,
            finders: 0,
            parsing: None,
        };
        loading.enter(0);
        loading
    }

    /// Marks a wave as known, so that its objects can be requested.
    fn enter(&mut self, wave: u8) {
        self.wave = wave;
        self.finders =
            self.page.objects.iter().filter(|o| o.wave == wave && o.kind.finds_more()).count();
        self.parse_if_there();
    }

    /// Starts parsing if all objects that contain links to the next wave have arrived.
    fn parse_if_there(&mut self) {
        if self.finders == 0 && usize::from(self.wave) + 1 < WAVES {
            let took = self.page.parse[usize::from(self.wave)];
            self.parsing = Some(self.sim.sleep_until(self.sim.time() + took));
        }
    }

    /// Returns the next object to request, if it is known.
    fn next_object(&mut self) -> Option<usize> {
        let known =
            self.page.objects.get(self.asked).is_some_and(|object| object.wave <= self.wave);
        self.asked += usize::from(known);
        known.then(|| self.asked - 1)
    }

    fn complete(&mut self, object: usize) {
        let object = self.page.objects[object];
        if object.wave == self.wave && object.kind.finds_more() {
            self.finders -= 1;
            self.parse_if_there();
        }
    }

    async fn next_event(&mut self) -> Event {
        std::future::poll_fn(|cx| {
            if let Some(parsing) = &mut self.parsing
                && Pin::new(parsing).poll(cx).is_ready()
            {
                self.parsing = None;
                self.enter(self.wave + 1);
                return Poll::Ready(Event::Parsed);
            }
            match self.requests.poll_next_unpin(cx) {
                Poll::Ready(Some((object, asked, result))) => {
                    Poll::Ready(Event::Fetched { object, asked, result })
                }
                Poll::Ready(None) if self.parsing.is_none() => Poll::Ready(Event::Done),
                _ => Poll::Pending,
            }
        })
        .await
    }
}
