//! A receiving stream that is read in stream order or in arrival order. This file is compiled once
//! per stack, like `http.rs`.

use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::super::{
    UnorderedRecvStream, poll_read as poll_read_ordered, poll_read_unordered, stack, unordered,
};
use crate::traits::ReadOrder;

/// A receiving stream.
#[derive(Debug)]
pub(crate) enum RecvStream {
    /// The stack puts the data in order.
    Ordered(stack::RecvStream),
    /// This module puts the data in order.
    Unordered(Reordered),
}

/// A stream that is read in arrival order.
#[derive(Debug)]
pub(crate) struct Reordered {
    stream: UnorderedRecvStream,
    /// Data beyond `next`, by offset. The stack never delivers a byte twice.
    ahead: BTreeMap<u64, Bytes>,
    /// Offset of the next byte to deliver.
    next: u64,
}

impl RecvStream {
    pub(super) fn new(stream: stack::RecvStream, order: ReadOrder) -> Self {
        match order {
            ReadOrder::Ordered => Self::Ordered(stream),
            ReadOrder::Unordered => Self::Unordered(Reordered {
                stream: unordered(stream),
                ahead: BTreeMap::new(),
                next: 0,
            }),
        }
    }

    pub(crate) fn id(&self) -> stack::StreamId {
        match self {
            Self::Ordered(stream) => stream.id(),
            Self::Unordered(reordered) => reordered.stream.id(),
        }
    }

    pub(crate) fn stop(&mut self, code: stack::VarInt) -> Result<(), stack::ClosedStream> {
        match self {
            Self::Ordered(stream) => stream.stop(code),
            Self::Unordered(reordered) => {
                reordered.ahead.clear();
                reordered.stream.stop(code)
            }
        }
    }
}

/// Reads the next data in stream order, or registers the task's waker with the stack.
pub(crate) fn poll_read(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, stack::ReadError>> {
    match stream {
        RecvStream::Ordered(stream) => poll_read_ordered(stream, cx),
        RecvStream::Unordered(Reordered { stream, ahead, next }) => {
            loop {
                if let Some(first) = ahead.first_entry().filter(|first| first.key() == next) {
                    let chunk = first.remove();
                    *next += chunk.len() as u64;
                    return Poll::Ready(Ok(Some(chunk)));
                }
                match ready!(poll_read_unordered(stream, cx))? {
                    Some((_, chunk)) if chunk.is_empty() => {}
                    Some((offset, chunk)) => drop(ahead.insert(offset, chunk)),
                    // The stack returns `None` only after all data were read.
                    None => return Poll::Ready(Ok(None)),
                }
            }
        }
    }
}
