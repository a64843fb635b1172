//! HTTP/3 with stream priorities (RFC 9218), for a stack with quinn's interface. It uses the
//! sources of `h3-noq`, with streams that look up their priority at the first write. The lookup is
//! by stream number, because the `h3` crate reveals nothing else about its streams to a server.
//!
//! Streams are read in stream order or in arrival order (`unordered.rs`).
//!
//! This file is compiled once per such stack, like `endpoint.rs`.

#[path = "../../../cc/noq/h3/src/bidi.rs"]
mod bidi;
#[path = "../../../cc/noq/h3/src/connection.rs"]
#[allow(dead_code)] // `stack`, which the published crates expose to their users.
mod connection;
#[path = "../../../cc/noq/h3/src/error.rs"]
mod error;
#[path = "../../../cc/noq/h3/src/recv.rs"]
mod recv;
#[path = "../../../cc/noq/h3/src/send.rs"]
mod send;
#[path = "unordered.rs"]
mod unordered;
#[path = "../../../cc/noq/h3/src/waiting.rs"]
mod waiting;

use std::sync::Arc;

pub use self::bidi::BidiStream;
pub use self::connection::{Connection, OpenStreams};
pub use self::recv::RecvStream;
pub use self::send::{NotReady, SendStream};
use crate::traits::{ReadOrder, SetPriority};

/// Returns the connection for HTTP/3, which reads streams in this order, and the function that sets
/// the priority of a stream.
pub fn prioritised(
    connection: super::stack::Connection,
    order: ReadOrder,
) -> (Connection, SetPriority) {
    let priorities = Arc::<stack::Priorities>::default();
    let transport =
        Connection::new(stack::Connection::new(connection, Arc::clone(&priorities), order));
    (
        transport,
        Arc::new(move |stream, urgency, incremental| priorities.set(stream, urgency, incremental)),
    )
}

/// Returns the stream number in h3's type.
fn stream_id(id: stack::StreamId) -> h3::quic::StreamId {
    // Both numbers have 62 bits (RFC 9000 §2.1), so h3 accepts every number of the stack.
    h3::quic::StreamId::try_from(u64::from(id)).expect("a stream number of 62 bits")
}

/// The stack's types, under the names that the shared modules use. Sending streams have priorities.
mod stack {
    use std::collections::HashMap;
    use std::fmt;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::task::{Context, Poll, ready};

    use bytes::{Buf, Bytes};

    use super::super::{poll_write_chunk, stack as plain};
    pub(crate) use super::unordered::{RecvStream, poll_read};
    use crate::traits::ReadOrder;
    use crate::zeros::as_static;
    use plain::{ClosedStream, StoppedError};
    pub(crate) use plain::{ConnectionError, ReadError, StreamId, VarInt, WriteError};

    /// Priorities of streams that have not been written to yet, as levels of the stack. Streams
    /// with a higher level are sent first.
    #[derive(Debug, Default)]
    pub(crate) struct Priorities(Mutex<HashMap<u64, i32>>);

    impl Priorities {
        pub(crate) fn set(&self, stream: u64, urgency: u8, incremental: bool) {
            let priority = level(stream, urgency, incremental);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(stream, priority);
        }

        fn take(&self, stream: u64) -> Option<i32> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream)
        }
    }

    /// Returns the priority level of a stream. The stack sends the highest level first and shares
    /// between equal levels. Within one urgency, non-incremental responses come first, in stream
    /// order. Incremental responses share the remaining bandwidth (RFC 9218 §10).
    pub(crate) fn level(stream: u64, urgency: u8, incremental: bool) -> i32 {
        const STREAMS: i32 = 1 << 24;
        let order = i32::try_from(stream / 4).unwrap_or(i32::MAX).min(STREAMS - 2);
        i32::from(7 - urgency.min(7)) * STREAMS + if incremental { 0 } else { STREAMS - 1 - order }
    }

    /// A connection whose streams have priorities.
    #[derive(Clone)]
    pub struct Connection {
        plain: plain::Connection,
        priorities: Arc<Priorities>,
        order: ReadOrder,
    }

    impl Connection {
        pub(crate) fn new(
            plain: plain::Connection,
            priorities: Arc<Priorities>,
            order: ReadOrder,
        ) -> Self {
            Self { plain, priorities, order }
        }

        fn send(&self, stream: plain::SendStream) -> SendStream {
            SendStream { plain: stream, priorities: Some(Arc::clone(&self.priorities)) }
        }

        pub(crate) async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
            let (send, recv) = self.plain.accept_bi().await?;
            Ok((self.send(send), RecvStream::new(recv, self.order)))
        }

        pub(crate) async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
            let (send, recv) = self.plain.open_bi().await?;
            Ok((self.send(send), RecvStream::new(recv, self.order)))
        }

        pub(crate) async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
            self.plain.accept_uni().await.map(|recv| RecvStream::new(recv, self.order))
        }

        pub(crate) async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
            Ok(self.send(self.plain.open_uni().await?))
        }

        pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
            self.plain.close(code, reason);
        }

        pub(crate) fn stable_id(&self) -> usize {
            self.plain.stable_id()
        }
    }

    /// A sending stream. The first write sets its priority, which never changes afterwards.
    pub(crate) struct SendStream {
        plain: plain::SendStream,
        /// Priorities to look up at the first write; `None` after the first write.
        priorities: Option<Arc<Priorities>>,
    }

    impl fmt::Debug for SendStream {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.plain.fmt(f)
        }
    }

    impl SendStream {
        pub(crate) fn id(&self) -> StreamId {
            self.plain.id()
        }

        pub(crate) fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<Result<usize, WriteError>> {
            if let Some(priority) =
                self.priorities.take().and_then(|all| all.take(self.plain.id().into()))
            {
                // This fails only on a closed stream, which the write below reports.
                let _ = self.plain.set_priority(priority);
            }
            match as_static(data) {
                Some(data) => poll_write_chunk(&mut self.plain, cx, Bytes::from_static(data)),
                None => Pin::new(&mut self.plain).poll_write(cx, data),
            }
        }

        pub(crate) fn finish(&mut self) -> Result<(), ClosedStream> {
            self.plain.finish()
        }

        pub(crate) fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
            self.plain.reset(code)
        }

        pub(crate) fn stopped(
            &self,
        ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + use<>
        {
            self.plain.stopped()
        }
    }

    pub(crate) fn poll_write(
        stream: &mut SendStream,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), WriteError>> {
        for chunk in chunks.iter_mut().filter(|chunk| !chunk.is_empty()) {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, chunk))?;
            chunk.advance(written);
            if !chunk.is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn lost(error: StoppedError) -> Option<ConnectionError> {
        match error {
            StoppedError::ConnectionLost(error) => Some(error),
            StoppedError::ZeroRttRejected => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stack::level;

    #[test]
    fn streams_are_served_by_urgency_and_then_in_order_of_ids() {
        let order = [
            level(400, 0, false),
            level(404, 0, false),
            level(0, 0, true),
            level(8, 1, false),
            level(u64::MAX >> 2, 1, false),
            level(4, 1, true),
            level(0, 7, false),
            level(0, 7, true),
        ];
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        assert_eq!(level(4, 3, true), level(400, 3, true), "incremental ones share");
    }
}
