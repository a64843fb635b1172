//! Limits on the bytes that a peer's streams may bring to `h3`.
//!
//! `h3` collects every frame but DATA whole before it looks at it, whatever length the frame has, and gives flow control its credit back
//! while it does. Here a frame is refused as soon as it tells its length, if all but DATA would then be more than the bound. DATA frames
//! may bring any amount. But `h3` reads once for each frame that it takes, needed or not: it gets one at a time, or small ones would heap
//! up in it.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::{Code, ConnectionError};
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};

use crate::limits::RESPONSE_BYTES;

/// Bytes that a unidirectional stream may bring in all its time: settings, and the priorities of some fifty thousand requests.
const UNIDIRECTIONAL: u64 = 1 << 20;

/// Drives a client's HTTP/3 connection: settings, GOAWAY.
pub(crate) type Http3Driver<C> = h3::client::Connection<LimitedConnection<C>, Bytes>;

/// Sends a client's requests.
pub(crate) type RequestSender<O> = h3::client::SendRequest<LimitedConnection<O>, Bytes>;

/// HTTP/3 on a client's connection.
pub(crate) async fn client<C: Connection<Bytes>>(
    transport: C,
) -> Result<(Http3Driver<C>, RequestSender<C::OpenStreams>), ConnectionError> {
    let mut builder = h3::client::builder();
    builder.max_field_section_size(RESPONSE_BYTES).send_grease(false);
    builder.build(LimitedConnection::new(transport, RESPONSE_BYTES)).await
}

/// A connection, or the opener of its streams, whose incoming streams are limited.
#[derive(Clone)]
pub(crate) struct LimitedConnection<C> {
    inner: C,
    /// Bytes besides DATA frames that a stream may bring which goes both ways.
    bound: u64,
}

impl<C> LimitedConnection<C> {
    pub(crate) const fn new(inner: C, bound: u64) -> Self {
        Self { inner, bound }
    }
}

impl<C: OpenStreams<Bytes>> OpenStreams<Bytes> for LimitedConnection<C> {
    type BidiStream = LimitedStream<C::BidiStream>;
    type SendStream = C::SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Ok(LimitedStream::framed(ready!(self.inner.poll_open_bidi(cx))?, self.bound)))
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl<C: Connection<Bytes>> Connection<Bytes> for LimitedConnection<C> {
    type RecvStream = LimitedStream<C::RecvStream>;
    type OpenStreams = LimitedConnection<C::OpenStreams>;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(LimitedStream::new(ready!(self.inner.poll_accept_recv(cx))?, UNIDIRECTIONAL, None)))
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(LimitedStream::framed(ready!(self.inner.poll_accept_bidi(cx))?, self.bound)))
    }

    fn opener(&self) -> Self::OpenStreams {
        LimitedConnection { inner: self.inner.opener(), bound: self.bound }
    }
}

/// A stream with a limit on its incoming bytes other than DATA.
pub(crate) struct LimitedStream<S> {
    inner: S,
    id: StreamId,
    left: u64,
    /// Where frames are, DATA's bytes do not count. Elsewhere all do.
    frames: Option<FrameParser>,
    /// What has come and was not handed over.
    rest: Bytes,
    /// The last read is still waiting. `h3-quinn` has then lent its stream to the read: whatever is called, it panics.
    reading: bool,
}

impl<S: RecvStream> LimitedStream<S> {
    fn new(inner: S, left: u64, frames: Option<FrameParser>) -> Self {
        Self { id: inner.recv_id(), inner, left, frames, rest: Bytes::new(), reading: false }
    }

    fn framed(inner: S, left: u64) -> Self {
        Self::new(inner, left, Some(FrameParser::default()))
    }
}

impl<S: RecvStream> RecvStream for LimitedStream<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if self.rest.is_empty() {
            let read = self.inner.poll_data(cx);
            self.reading = read.is_pending();
            let Some(mut data) = ready!(read)? else { return Poll::Ready(Ok(None)) };
            // Of `Bytes`, which all stacks here bring, this is no copy.
            self.rest = data.copy_to_bytes(data.remaining());
        }
        let (length, counted) = match &mut self.frames {
            Some(frames) => frames.piece(&self.rest),
            None => (self.rest.len(), self.rest.len() as u64),
        };
        let Some(left) = self.left.checked_sub(counted) else {
            self.rest.clear();
            self.inner.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
            return Poll::Ready(Err(StreamErrorIncoming::Unknown("the stream brings more than its bound".into())));
        };
        self.left = left;
        Poll::Ready(Ok(Some(self.rest.split_to(length))))
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that is being read is stopped when it is dropped.
        if !self.reading {
            self.inner.stop_sending(error_code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for LimitedStream<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.inner.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<S: BidiStream<Bytes>> BidiStream<Bytes> for LimitedStream<S> {
    type SendStream = S::SendStream;
    type RecvStream = LimitedStream<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let Self { inner, id, left, frames, rest, reading } = self;
        let (send, recv) = inner.split();
        (send, LimitedStream { inner: recv, id, left, frames, rest, reading })
    }
}

/// A frame of a body (RFC 9114 §7.2.1).
const DATA: u64 = 0;

/// Follows frames (RFC 9114 §7.1) through bytes that are cut anywhere.
#[derive(Default)]
struct FrameParser {
    /// What is read of a header now, and its bytes so far.
    number: VarintReader,
    header: u64,
    /// The frame's type, while its length is read.
    kind: Option<u64>,
    /// Bytes of the payload that are still to come.
    payload: u64,
}

impl FrameParser {
    /// How much of the beginning of `bytes` belongs together: a header of DATA, its payload, or frames of other types. And what counts of
    /// it: frames that are not DATA, with all of the payload that they announce.
    fn piece(&mut self, bytes: &[u8]) -> (usize, u64) {
        let (mut length, mut counted) = (0, 0);
        while self.payload == 0 && length < bytes.len() {
            let number = self.number.read(bytes[length]);
            length += 1;
            self.header += 1;
            let Some(number) = number else { continue };
            let Some(kind) = self.kind.take() else {
                self.kind = Some(number);
                continue;
            };
            let header = std::mem::take(&mut self.header);
            self.payload = number;
            if kind == DATA {
                return (length, counted);
            }
            counted += header + number;
        }
        let rest = (bytes.len() - length) as u64;
        let passing = self.payload.min(rest);
        self.payload -= passing;
        (length + passing as usize, counted)
    }
}

/// A variable-length integer (RFC 9000 §16), as far as it has come.
#[derive(Default)]
struct VarintReader {
    value: u64,
    missing: u8,
}

impl VarintReader {
    /// Its next byte; the number, once that is whole.
    fn read(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            *self = Self { value: u64::from(byte & 0x3f), missing: 1 << (byte >> 6) };
        } else {
            self.value = self.value << 8 | u64::from(byte);
        }
        self.missing -= 1;
        (self.missing == 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A number in so many bytes: 1, 2, 4 or 8.
    fn varint(value: u64, bytes: usize) -> Vec<u8> {
        let prefix = u64::from(bytes.trailing_zeros()) << (bytes * 8 - 2);
        (value | prefix).to_be_bytes()[8 - bytes..].to_vec()
    }

    /// Ends of the pieces of a stream that comes in these chunks, and what counts of it.
    fn walk<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<usize>, u64) {
        let (mut frames, mut ends, mut counts, mut at) = (FrameParser::default(), Vec::new(), 0, 0);
        for mut chunk in chunks {
            while !chunk.is_empty() {
                let (length, counted) = frames.piece(chunk);
                chunk = &chunk[length..];
                at += length;
                ends.push(at);
                counts += counted;
            }
        }
        (ends, counts)
    }

    #[test]
    fn data_frames_are_passed_on_one_at_a_time() {
        // HEADERS, DATA, an empty frame that is reserved, DATA.
        let response = b"\x01\x03\0\0\xd9\0\x02ab\x21\0\0\x40\x01c";
        assert_eq!(walk([&response[..]]), (vec![5, 7, 9, 14, 15], 7));
    }

    #[test]
    fn an_announced_length_counts_at_once() {
        let most = (1 << 62) - 1;
        for kind in [1, 0x21, most] {
            let header = [varint(kind, 8), varint(most, 8)].concat();
            assert_eq!(FrameParser::default().piece(&header), (16, 16 + most));
        }
        assert_eq!(FrameParser::default().piece(&[varint(DATA, 8), varint(most, 8)].concat()), (16, 0));
    }

    proptest! {
        #[test]
        fn frame_parsing_is_independent_of_chunking(
            frames in vec((prop_oneof![Just(DATA), Just(1), 0..64_u64], 0_u64..64, 0..4_u32, 0..4_u32), 0..12),
            cuts in vec(1..20_usize, 1..8),
        ) {
            let (mut stream, mut ends, mut counts) = (Vec::new(), Vec::new(), 0);
            for (kind, length, kind_size, length_size) in frames {
                let header = [varint(kind, 1 << kind_size), varint(length, 1 << length_size)].concat();
                stream.extend(&header);
                if kind == DATA {
                    ends.push(stream.len());
                } else {
                    counts += header.len() as u64 + length;
                }
                stream.resize(stream.len() + length as usize, 0xff);
                if length > 0 {
                    ends.push(stream.len());
                }
            }
            let (mut rest, mut chunks) = (&stream[..], Vec::new());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            for chunks in [vec![&stream[..]], chunks] {
                let (pieces, counted) = walk(chunks);
                prop_assert_eq!(counted, counts);
                prop_assert!(ends.iter().all(|end| pieces.contains(end)));
            }
        }
    }
}
