//! Futures of the stack that are kept from poll to poll.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_util::stream::Stream;

use super::stack::ConnectionError;

type Answer<T> = Result<T, ConnectionError>;

/// Repeated results of a connection. The stream never ends, not even after an error.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Answer<T>> + Send + Sync>>;

/// A repeated operation of a connection that may have to wait.
///
/// The stack's futures borrow the connection, and a dropped future is no longer woken. The waiting
/// future is therefore kept in a box, together with a handle of its connection. The box is created
/// when an operation has to wait for the first time, and is then reused. Results that are available
/// at once need no allocation.
pub(crate) struct Waiting<T>(Option<Answers<T>>);

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Polls the waiting box, if there is one, or else `once`. If `once` has to wait, `again` makes
    /// the box that waits instead.
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
