//! Live streams over HTTP/3. A client requests every frame one second before its capture, and the
//! server responds when the frame is captured. Each frame is a response on its own stream, so media
//! run over the HTTP/3 of every stack, and a late frame does not block other frames. In
//! `datagrams.rs`, frames travel in datagrams instead.

use std::iter::{Enumerate, Peekable};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::{Completed, LiveStream};
use fathom_netsim::sim::Sleep;
use fathom_traffic::media::LEAD;
use fathom_traffic::pages::IN_FLIGHT;
use fathom_traffic::{Frame, Frames, MediaStream, WebRequest};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::super::MediaTransport;
use super::{Clients, Endpoints, add_needs};
use crate::http::{Ask, Fetched, HttpError, Lost};
use crate::stack::{BoxFuture, Client};

/// Bytes of the request for a frame.
const FRAME_REQUEST: u64 = 40;
/// Time after which a client reconnects if its connection was lost.
const AGAIN: Duration = Duration::from_millis(500);

/// One live stream at its client.
pub(super) struct Live<'a> {
    pub(super) endpoints: &'a Endpoints,
    pub(super) stream: MediaStream,
    /// Remaining frames with their numbers.
    pub(super) frames: Peekable<Enumerate<Frames>>,
    pub(super) deadline: Duration,
    /// Number of the stream in the statistics.
    pub(super) number: usize,
}

enum Event {
    Due,
    Came(usize, Time, Result<Fetched, HttpError>),
    Done,
}

/// A frame in transit: its number, its capture time, and its response.
struct OnItsWay(usize, Time, BoxFuture<'static, Result<Fetched, HttpError>>);

impl Future for OnItsWay {
    type Output = (usize, Time, Result<Fetched, HttpError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        self.2.as_mut().poll(cx).map(|result| (self.0, self.1, result))
    }
}

impl Clients {
    /// Plays a live stream from its start to its end.
    pub(super) async fn watch(
        &self,
        stream: MediaStream,
        index: usize,
        deadline: Duration,
        transport: MediaTransport,
    ) {
        let Some(endpoints) = self.endpoints(index) else { return };
        let number = {
            let mut stats = endpoints.part.stats();
            let (first, frames) = (stream.start + LEAD, stream.frames);
            let pause = stream.pause.map(|(from, to)| (first + from, first + to));
            let live = LiveStream::new(stream.fps, deadline, first, frames).with_pause(pause);
            stats.live.push(live);
            stats.live.len() - 1
        };
        let frames = stream.sizes().enumerate().peekable();
        let mut live = Live { endpoints, stream, frames, deadline, number };
        let sim = &endpoints.part.state.sim;
        while live.frames.peek().is_some() {
            let request = WebRequest {
                start: sim.time(),
                request_bytes: 0,
                response_bytes: 0,
                client_rtt: Duration::ZERO,
                server_rtt: Duration::ZERO,
                server_delay: Duration::ZERO,
            };
            if let Ok((mut client, flow)) = self.open(endpoints, &request, index, 0).await {
                let over = match transport {
                    MediaTransport::Stream => live.play(&mut *client, flow).await,
                    MediaTransport::Datagram => live.receive(&mut *client, flow).await,
                };
                match over {
                    Ok(()) => client.close(),
                    Err(_) => drop(client),
                }
                endpoints.part.closed(flow);
            }
            if live.frames.peek().is_some() {
                sim.sleep_until(sim.time() + AGAIN).await;
            }
        }
    }
}

impl Live<'_> {
    /// Returns the capture time of a frame.
    pub(super) fn captured(&self, frame: &Frame) -> Time {
        self.stream.start + LEAD + frame.at
    }

    /// Requests frames until the stream ends or the connection fails.
    async fn play(&mut self, client: &mut (dyn Client + '_), flow: u32) -> Result<(), HttpError> {
        let part = &self.endpoints.part;
        let sim = &part.state.sim;
        let mut requests: FuturesUnordered<OnItsWay> = FuturesUnordered::new();
        let mut timer: Option<Sleep> = None;
        loop {
            while let Some((_, frame)) =
                self.frames.next_if(|(_, frame)| self.stream.start + frame.at <= sim.time())
            {
                timer = None;
                if let Some(request) = self.ask(client, flow, frame, requests.len()) {
                    requests.push(request);
                }
            }
            if timer.is_none()
                && let Some((_, frame)) = self.frames.peek()
            {
                timer = Some(sim.sleep_until(self.stream.start + frame.at));
            }
            let event = std::future::poll_fn(|cx| {
                if let Some(timer) = &mut timer
                    && Pin::new(timer).poll(cx).is_ready()
                {
                    return Poll::Ready(Event::Due);
                }
                match requests.poll_next_unpin(cx) {
                    Poll::Ready(Some((frame, captured, result))) => {
                        Poll::Ready(Event::Came(frame, captured, result))
                    }
                    Poll::Ready(None) if timer.is_none() => Poll::Ready(Event::Done),
                    _ => Poll::Pending,
                }
            });
            match event.await {
                Event::Due => timer = None,
                Event::Done => return Ok(()),
                Event::Came(frame, captured, result) => {
                    if let Ok(fetched) = &result {
                        let mut stats = part.stats();
                        stats.live[self.number].arrived(frame, fetched.last_byte, fetched.bytes);
                    }
                    let lost = result
                        .as_ref()
                        .err()
                        .map(|e| Lost { text: e.reason(), timed_out: e.timed_out() });
                    let completed = result.map(|fetched| Completed {
                        bytes: fetched.bytes,
                        took: fetched.last_byte.since(captured),
                        first_byte: fetched.first_byte.since(captured),
                    });
                    part.record_outcome(captured, completed);
                    if let Some(why) = lost {
                        // The other frames fail with the connection.
                        for OnItsWay(_, captured, _) in &requests {
                            part.record_outcome(*captured, Err(HttpError::Connection(why.clone())));
                        }
                        return Err(HttpError::Connection(why));
                    }
                }
            }
        }
    }

    /// Requests a frame. Returns `None` if the deadline of the frame has passed or too many frames
    /// are in transit. The frame then counts as abandoned.
    fn ask(
        &self,
        client: &mut (dyn Client + '_),
        flow: u32,
        frame: Frame,
        open: usize,
    ) -> Option<OnItsWay> {
        let part = &self.endpoints.part;
        let captured = self.captured(&frame);
        let number = part.stats().live[self.number].add(captured, frame.intra);
        part.begins(captured);
        if open >= IN_FLIGHT as usize || captured + self.deadline < part.state.sim.time() {
            part.record_outcome(captured, Err(HttpError::Abandoned));
            return None;
        }
        add_needs(part, flow, frame.bytes, FRAME_REQUEST);
        let ask = Ask {
            bytes: frame.bytes,
            request_bytes: FRAME_REQUEST,
            not_before: Some(captured),
            adaptive: self.stream.adaptive.then_some(self.stream.rate),
            ..Ask::default()
        };
        Some(OnItsWay(number, captured, client.fetch(ask)))
    }
}
