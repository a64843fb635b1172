//! Live streams in QUIC DATAGRAM frames (RFC 9221). A media frame arrives in pieces, which are
//! never retransmitted, and is complete when all of its pieces have arrived.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fathom_cc::Time;
use fathom_metrics::Completed;
use fathom_netsim::sim::Sleep;
use fathom_traffic::Frame;
use fathom_traffic::media::LEAD;

use super::add_needs;
use super::media::Live;
use crate::http::{HttpError, LiveRequest, Lost, Piece};
use crate::stack::{BoxFuture, Client};

/// Time after its deadline at which an incomplete frame is given up (our choice). It is missed in any
/// case.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// A frame with missing pieces.
struct Pending {
    /// Number of the frame in its stream, and in the statistics.
    frame: u64,
    number: usize,
    /// Bytes that have arrived.
    bytes: u64,
    captured: Time,
    /// Whether each piece has arrived (empty before the first piece), and the number of missing
    /// pieces.
    there: Vec<bool>,
    missing: usize,
    first_byte: Time,
}

impl Pending {
    /// Adds a piece of `bytes` bytes. Returns whether the frame is complete.
    fn take(&mut self, piece: Piece, bytes: u64, now: Time) -> bool {
        if self.there.is_empty() {
            self.first_byte = now;
            self.missing = piece.pieces.into();
            self.there = vec![false; self.missing];
        }
        if let Some(there) = self.there.get_mut(usize::from(piece.piece)).filter(|there| !**there) {
            *there = true;
            self.missing -= 1;
            self.bytes += bytes;
        }
        self.missing == 0
    }
}

enum Event {
    Due,
    Datagram(Bytes),
    Lost,
    Done,
}

impl Live<'_> {
    /// Requests the remaining frames and receives their pieces until the stream ends or the
    /// connection fails.
    pub(super) async fn receive(
        &mut self,
        client: &mut (dyn Client + '_),
        flow: u32,
    ) -> Result<(), HttpError> {
        let part = &self.endpoints.part;
        let sim = &part.state.sim;
        // Frames whose deadline passed before the connection was open are not requested.
        let (first_capture, now) = (self.stream.start + LEAD, sim.time());
        while let Some((_, frame)) =
            self.frames.next_if(|(_, frame)| first_capture + frame.at + self.deadline < now)
        {
            let captured = self.captured(&frame);
            part.stats().live[self.number].add(captured, frame.intra);
            part.begins(captured);
            part.record_outcome(captured, Err(HttpError::Abandoned));
        }
        let Some((first, _)) = self.frames.peek() else { return Ok(()) };
        let mut request =
            Some(client.live(LiveRequest { stream: self.stream, first: *first as u64 }));
        let mut datagram: BoxFuture<'static, Option<Bytes>> = client.read_datagram();
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut timer: Option<(Time, Sleep)> = None;
        loop {
            let now = sim.time();
            while let Some((number, frame)) =
                self.frames.next_if(|(_, frame)| self.stream.start + frame.at <= now)
            {
                pending.push_back(self.expect(flow, number as u64, frame));
            }
            let until = |frame: &Pending| frame.captured + self.deadline + GIVEN_UP;
            while let Some(frame) = pending.pop_front() {
                if until(&frame) > now {
                    pending.push_front(frame);
                    break;
                }
                part.record_outcome(frame.captured, Err(HttpError::Abandoned));
            }
            let next = self.frames.peek().map(|(_, frame)| self.stream.start + frame.at);
            let due = next.into_iter().chain(pending.front().map(until)).min();
            if due != timer.as_ref().map(|(at, _)| *at) {
                timer = due.map(|at| (at, sim.sleep_until(at)));
            }
            let event = std::future::poll_fn(|cx| {
                let Some((_, timer)) = &mut timer else { return Poll::Ready(Event::Done) };
                if Pin::new(timer).poll(cx).is_ready() {
                    return Poll::Ready(Event::Due);
                }
                if let Some(asked) = &mut request
                    && let Poll::Ready(answered) = asked.as_mut().poll(cx)
                {
                    request = None;
                    if answered.is_err() {
                        return Poll::Ready(Event::Lost);
                    }
                }
                datagram
                    .as_mut()
                    .poll(cx)
                    .map(|datagram| datagram.map_or(Event::Lost, Event::Datagram))
            });
            match event.await {
                Event::Due => timer = None,
                Event::Done => return Ok(()),
                Event::Datagram(bytes) => {
                    datagram = client.read_datagram();
                    self.on_datagram(&bytes, &mut pending);
                }
                Event::Lost => {
                    // Frames in transit are lost with the connection.
                    let why = client.lost().unwrap_or_else(|| Lost {
                        text: "connection lost".into(),
                        timed_out: false,
                    });
                    for frame in &pending {
                        part.record_outcome(
                            frame.captured,
                            Err(HttpError::Connection(why.clone())),
                        );
                    }
                    return Err(HttpError::Connection(why));
                }
            }
        }
    }

    /// Registers a frame that the server will send when the frame is captured.
    fn expect(&self, flow: u32, frame_number: u64, frame: Frame) -> Pending {
        let part = &self.endpoints.part;
        let captured = self.captured(&frame);
        let number = part.stats().live[self.number].add(captured, frame.intra);
        part.begins(captured);
        add_needs(part, flow, frame.bytes, 0);
        Pending {
            frame: frame_number,
            number,
            bytes: 0,
            captured,
            there: Vec::new(),
            missing: 0,
            first_byte: captured,
        }
    }

    fn on_datagram(&self, bytes: &[u8], pending: &mut VecDeque<Pending>) {
        let part = &self.endpoints.part;
        let now = part.state.sim.time();
        let Some(piece) = Piece::read(bytes) else { return };
        // Ignore pieces of frames that are already complete or given up.
        let Some(at) = pending.iter().position(|frame| frame.frame == u64::from(piece.frame))
        else {
            return;
        };
        if !pending[at].take(piece, (bytes.len() - Piece::HEADER) as u64, now) {
            return;
        }
        let Some(frame) = pending.remove(at) else { return };
        part.stats().live[self.number].arrived(frame.number, now, frame.bytes);
        let completed = Completed {
            bytes: frame.bytes,
            took: now.since(frame.captured),
            first_byte: frame.first_byte.since(frame.captured),
        };
        part.record_outcome(frame.captured, Ok(completed));
    }
}
