//! The body of a request over HTTP/3.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fathom_http3::error::Kind;
use fathom_http3::message::Event;
use fathom_http3::stream::ReceiveStream;
use fathom_http3::transport::Connection;
use fathom_http3::{Error, convert};
use http_body::{Body, Frame};

use crate::request::RequestBodyError;

/// Body of a request. It is read on demand, so that flow control slows down the client. Dropping
/// the body before its end stops the stream.
pub(super) struct Http3Body<C: Connection> {
    /// The stream, until an error or the end.
    stream: Option<ReceiveStream<C>>,
}

impl<C: Connection> Http3Body<C> {
    pub(super) const fn new(stream: ReceiveStream<C>) -> Self {
        Self { stream: Some(stream) }
    }
}

/// Returns the reason why a body ended early.
pub(super) fn body_error(error: &Error) -> RequestBodyError {
    match error.protocol() {
        Some(error) if error.kind == Kind::ContentLength => RequestBodyError::Length,
        _ => RequestBodyError::Broken(error.to_string()),
    }
}

// None of the fields is pinned.
impl<C: Connection> Unpin for Http3Body<C> {}

impl<C: Connection> Body for Http3Body<C> {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let frame = match ready!(stream.poll_event(cx)) {
            Ok(Some(Event::Data(data))) => return Poll::Ready(Some(Ok(Frame::data(data)))),
            Ok(Some(Event::Trailers)) => {
                let trailers = convert::headers(stream.trailers());
                // Read the end of the stream, so that a complete request is not stopped.
                let _ = stream.poll_event(cx);
                Some(trailers.map(Frame::trailers).map_err(|error| body_error(&error.into())))
            }
            // No other event follows the header.
            Ok(_) => None,
            Err(error) => Some(Err(body_error(&error))),
        };
        self.stream = None;
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none()
    }
}
