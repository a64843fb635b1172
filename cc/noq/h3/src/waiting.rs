//! Futures of the stack that are kept between polls.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_util::stream::Stream;

use super::stack::ConnectionError;

type Answer<T> = Result<T, ConnectionError>;

/// Stream of the results of a repeated operation on a connection. It never ends, not even after an
/// error.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Answer<T>> + Send + Sync>>;

/// A repeated operation on a connection. The operation may have to wait.
///
/// The stack's futures borrow the connection, and a dropped future is no longer woken. Therefore,
/// the waiting future is kept in a box, together with a handle to its connection. The box is
/// created when an operation has to wait for the first time, and is then reused. Results that are
/// available at once need no allocation.
pub(crate) struct Waiting<T>(Option<Answers<T>>);

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Polls the waiting box if there is one, and otherwise polls `once`. If `once` has to wait,
    /// `again` creates the box that waits instead.
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
