//! The body of a request over HTTP/3.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use h3::quic::RecvStream;
use h3::server::RequestStream;
use http_body::{Body, Frame};

use crate::http3::PeerError;
use crate::request::RequestBodyError;

/// Body of a request. It is read on demand, so that flow control slows down the client. Dropping
/// the body before its end stops the stream.
pub(super) struct H3Body<S: RecvStream> {
    stream: RequestStream<S, Bytes>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Data,
    Trailers,
    Over,
}

impl<S: RecvStream> H3Body<S> {
    pub(super) const fn new(stream: RequestStream<S, Bytes>) -> Self {
        Self { stream, state: State::Data }
    }

    fn broken(&mut self, e: &StreamError) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        self.state = State::Over;
        Poll::Ready(Some(Err(body_error(e))))
    }
}

/// Returns the reason why a body ended early.
pub(super) fn body_error(error: &StreamError) -> RequestBodyError {
    match PeerError::of(error) {
        Some(PeerError::Length { .. }) => RequestBodyError::Length,
        Some(error) => RequestBodyError::Broken(error.to_string()),
        None => RequestBodyError::Broken(error.to_string()),
    }
}

// None of the fields is pinned.
impl<S: RecvStream> Unpin for H3Body<S> {}

impl<S: RecvStream> Body for H3Body<S> {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let this = self.get_mut();
        if this.state == State::Data {
            match ready!(this.stream.poll_recv_data(cx)) {
                Ok(Some(mut data)) => {
                    // All stacks here deliver `Bytes`, so this call copies nothing.
                    let data = data.copy_to_bytes(data.remaining());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(None) => this.state = State::Trailers,
                Err(e) => return this.broken(&e),
            }
        }
        if this.state == State::Trailers {
            match ready!(this.stream.poll_recv_trailers(cx)) {
                Ok(fields) => {
                    this.state = State::Over;
                    return Poll::Ready(fields.map(|fields| Ok(Frame::trailers(fields))));
                }
                Err(e) => return this.broken(&e),
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Over
    }
}

impl<S: RecvStream> Drop for H3Body<S> {
    fn drop(&mut self) {
        if self.state != State::Over {
            self.stream.stop_sending(Code::H3_NO_ERROR);
        }
    }
}
