//! The stack's futures, held from poll to poll.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_util::stream::Stream;

use super::stack::ConnectionError;

type Answer<T> = Result<T, ConnectionError>;

/// What a connection gives again and again; it never ends, errors included.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Answer<T>> + Send + Sync>>;

/// Something a connection gives again and again, and that may have to be waited for.
///
/// The stack's futures borrow the connection, and one that is dropped is not woken any more. So the future that waits is kept
/// in a box together with a handle on its connection. The box is made the first time something has to be waited for,
/// and serves from then on: what is there at once costs no allocation.
pub(crate) struct Waiting<T>(Option<Answers<T>>);

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Polls `once`, or what waits already. If `once` has to wait, `again` makes the box that waits in its place.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        once: impl Future<Output = Answer<T>>,
        again: impl FnOnce() -> Answers<T>,
    ) -> Poll<Answer<T>> {
        if self.0.is_none()
            && let ready @ Poll::Ready(_) = pin!(once).poll(cx)
        {
            return ready;
        }
        let waiting = self.0.get_or_insert_with(again);
        match ready!(waiting.as_mut().poll_next(cx)) {
            Some(answer) => Poll::Ready(answer),
            None => unreachable!("made to give answers without end"),
        }
    }
}
