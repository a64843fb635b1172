//! The unidirectional streams of a peer (RFC 9114 §6.2). `h3` gets the control stream after
//! checks. This module itself reads QPACK's two streams, and refuses all other streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use h3::error::Code;
use h3::quic::{RecvStream, StreamErrorIncoming, StreamId};

use super::PeerError;
use super::closer::Closer;
use super::control_frames::{ControlFrames, too_much};
use super::message::Peer;
use super::qpack;
use super::varint;

/// Largest number of bytes of a control or QPACK stream in its lifetime: settings, and the
/// priorities of about fifty thousand requests.
const LIMIT: u64 = 1 << 20;

/// Types of streams (RFC 9114 §6.2, RFC 9204 §4.2).
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const ENCODER: u64 = 0x2;
const DECODER: u64 = 0x3;

fn critical(name: &'static str) -> PeerError {
    PeerError::connection(Code::H3_CLOSED_CRITICAL_STREAM, format!("the {name} stream ended"))
}

/// A stream that this module reads.
struct Pending<S> {
    stream: S,
    kind: Kind,
    /// Received part of the stream type or of an instruction.
    begun: Vec<u8>,
    left: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The type has not arrived.
    Unknown,
    Encoder,
    Decoder,
}

/// Waker that records that a stream has data to read, and then wakes the connection's task. Without
/// this record, the task would read every stream whenever it is polled, which is far more often
/// than streams have data.
#[derive(Default)]
struct Readable {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Readable {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// The unidirectional streams of a peer.
pub(super) struct UnidirectionalStreams<S> {
    peer: Peer,
    closer: Closer,
    pending: Vec<Pending<S>>,
    /// Whether the control, encoder and decoder streams were seen.
    seen: [bool; 3],
    readable: Arc<Readable>,
    waker: Waker,
}

/// Result of reading a stream.
enum Read {
    /// The control stream.
    Control,
    /// A stream of unknown type, or one that ended before its type.
    Over,
}

impl<S: RecvStream> UnidirectionalStreams<S> {
    pub(super) fn new(peer: Peer, closer: Closer) -> Self {
        let readable = Arc::<Readable>::default();
        let waker = Arc::clone(&readable).into();
        Self { peer, closer, pending: Vec::new(), seen: [false; 3], readable, waker }
    }

    /// Adds a stream that the peer has opened.
    pub(super) fn push(&mut self, stream: S) {
        self.pending.push(Pending { stream, kind: Kind::Unknown, begun: Vec::new(), left: LIMIT });
        self.readable.woken.store(true, Ordering::Relaxed);
    }

    /// Reads the received data. Returns `Ready` with the control stream, once.
    ///
    /// # Errors
    /// Returns the error of the peer; every such error ends the connection.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<ControlStream<S>, PeerError>> {
        self.readable.task.register(cx.waker());
        if !self.readable.woken.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        let mut number = 0;
        while number < self.pending.len() {
            let mut pending = self.pending.swap_remove(number);
            match self.read(&mut pending, &mut cx)? {
                Poll::Ready(Read::Over) => {}
                Poll::Ready(Read::Control) => {
                    // Other streams may have data, too.
                    self.readable.woken.store(true, Ordering::Relaxed);
                    return Poll::Ready(Ok(ControlStream::new(
                        pending,
                        self.peer,
                        self.closer.clone(),
                    )));
                }
                Poll::Pending => {
                    let last = self.pending.len();
                    self.pending.push(pending);
                    self.pending.swap(number, last);
                    number += 1;
                }
            }
        }
        Poll::Pending
    }

    fn read(
        &mut self,
        pending: &mut Pending<S>,
        cx: &mut Context<'_>,
    ) -> Result<Poll<Read>, PeerError> {
        loop {
            let data = match pending.stream.poll_data(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Ok(Some(mut data))) => data.copy_to_bytes(data.remaining()),
                // The stream ended or was reset. If the connection was lost, this is reported
                // elsewhere.
                Poll::Ready(_) => {
                    return match pending.kind {
                        Kind::Unknown => Ok(Poll::Ready(Read::Over)),
                        Kind::Encoder => Err(critical("QPACK encoder")),
                        Kind::Decoder => Err(critical("QPACK decoder")),
                    };
                }
            };
            pending.left = pending.left.checked_sub(data.len() as u64).ok_or_else(too_much)?;
            if let Some(read) = self.take(pending, data)? {
                return Ok(Poll::Ready(read));
            }
        }
    }

    /// Processes the data that arrived on a stream.
    fn take(&mut self, pending: &mut Pending<S>, data: Bytes) -> Result<Option<Read>, PeerError> {
        pending.begun.extend_from_slice(&data);
        if pending.kind == Kind::Unknown {
            let Some((kind, size)) = varint::read(&pending.begun) else { return Ok(None) };
            pending.begun.drain(..size);
            match kind {
                CONTROL => {
                    self.first(0, "control")?;
                    return Ok(Some(Read::Control));
                }
                ENCODER => {
                    self.first(1, "QPACK encoder")?;
                    pending.kind = Kind::Encoder;
                }
                DECODER => {
                    self.first(2, "QPACK decoder")?;
                    pending.kind = Kind::Decoder;
                }
                PUSH if self.peer == Peer::Client => {
                    return Err(PeerError::connection(
                        Code::H3_STREAM_CREATION_ERROR,
                        "the client opened a push stream",
                    ));
                }
                // No MAX_PUSH_ID was sent, so every push ID is too large (RFC 9114 §4.6).
                PUSH => {
                    return Err(PeerError::connection(
                        Code::H3_ID_ERROR,
                        "the server opened a push stream, but no MAX_PUSH_ID was sent",
                    ));
                }
                _ => {
                    pending.stream.stop_sending(Code::H3_STREAM_CREATION_ERROR.value());
                    return Ok(Some(Read::Over));
                }
            }
        }
        match pending.kind {
            Kind::Encoder => encoder_instructions(&mut pending.begun)?,
            _ => decoder_instructions(&mut pending.begun)?,
        }
        Ok(None)
    }

    /// Records a stream of this type. A second stream of the same type is an error
    /// (RFC 9114 §6.2.1, RFC 9204 §4.2).
    fn first(&mut self, number: usize, name: &str) -> Result<(), PeerError> {
        if std::mem::replace(&mut self.seen[number], true) {
            let reason = format!("a second {name} stream");
            return Err(PeerError::connection(Code::H3_STREAM_CREATION_ERROR, reason));
        }
        Ok(())
    }
}

/// Takes whole instructions off `bytes` (RFC 9204 §4.3). The dynamic table has no room, so only a
/// capacity of zero is allowed.
fn encoder_instructions(bytes: &mut Vec<u8>) -> Result<(), PeerError> {
    /// Set Dynamic Table Capacity (§4.3.1), to zero.
    const NO_CAPACITY: u8 = 0x20;
    if bytes.iter().any(|byte| *byte != NO_CAPACITY) {
        let reason = "an instruction for a dynamic table that has no room";
        return Err(PeerError::connection(Code::QPACK_ENCODER_STREAM_ERROR, reason));
    }
    bytes.clear();
    Ok(())
}

/// Takes whole instructions off `bytes` (RFC 9204 §4.4). Our encoders use no dynamic table, so only
/// cancellations of streams are allowed.
fn decoder_instructions(bytes: &mut Vec<u8>) -> Result<(), PeerError> {
    let error = |reason| PeerError::connection(Code::QPACK_DECODER_STREAM_ERROR, reason);
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        // Stream Cancellation (§4.4.2).
        if first >> 6 != 0b01 {
            return Err(error(
                "the peer acknowledged an entry that was not inserted into the dynamic table",
            ));
        }
        match qpack::integer(&bytes[at..], 6) {
            Ok(Some((_, _, size))) => at += size,
            Ok(None) => break,
            Err(_) => return Err(error("a stream number is too large")),
        }
    }
    bytes.drain(..at);
    Ok(())
}

/// The control stream, whose frames are checked. `h3` gets only whole SETTINGS and GOAWAY frames.
pub(crate) struct ControlStream<S> {
    stream: S,
    /// Identifier of the stream. It is stored because `h3-quinn` panics if asked for it during a
    /// pending read.
    id: StreamId,
    closer: Closer,
    rest: Bytes,
    left: u64,
    frames: ControlFrames,
    /// Whether `h3` has yet to read the type.
    begins: bool,
    failed: Option<PeerError>,
}

impl<S: RecvStream> ControlStream<S> {
    fn new(pending: Pending<S>, peer: Peer, closer: Closer) -> Self {
        let Pending { stream, begun, left, .. } = pending;
        let frames = ControlFrames::new(peer);
        Self {
            id: stream.recv_id(),
            stream,
            closer,
            rest: begun.into(),
            left,
            frames,
            begins: true,
            failed: None,
        }
    }

    fn fail(&mut self, error: PeerError) -> StreamErrorIncoming {
        self.closer.close(&error);
        self.failed = Some(error.clone());
        error.into()
    }
}

impl<S: RecvStream> RecvStream for ControlStream<S> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone().into()));
        }
        if std::mem::take(&mut self.begins) {
            return Poll::Ready(Ok(Some(Bytes::from_static(&[CONTROL as u8]))));
        }
        loop {
            match self.frames.next(&mut self.rest) {
                Ok(Some(frame)) => return Poll::Ready(Ok(Some(frame))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
            let Some(mut data) = ready!(self.stream.poll_data(cx))? else {
                return Poll::Ready(Err(self.fail(critical("control"))));
            };
            self.rest = data.copy_to_bytes(data.remaining());
            match self.left.checked_sub(self.rest.len() as u64) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Err(self.fail(too_much()))),
            }
        }
    }

    fn stop_sending(&mut self, _: u64) {
        // The control stream must not be stopped (RFC 9114 §6.2.1).
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::super::qpack::tests::write_integer;
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn qpack_instructions_that_need_a_dynamic_table_are_refused() {
        let encoder = |bytes: &[u8]| {
            encoder_instructions(&mut bytes.to_vec()).err().map(|error| error.code())
        };
        assert_eq!(encoder(b""), None);
        assert_eq!(encoder(b"\x20\x20"), None);
        // These instructions set a capacity, insert an entry in both ways, or duplicate an entry.
        for wrong in [b"\x3f\xbd", b"\x21\x20", b"\xc0\0", b"\x41a", b"\0\x20"] {
            assert_eq!(encoder(wrong), Some(Code::QPACK_ENCODER_STREAM_ERROR), "{wrong:?}");
        }
        let decoder =
            |bytes: &[u8]| decoder_instructions(&mut bytes.to_vec()).map_err(|error| error.code());
        let mut cancelled = [write_integer(6, 0b01, 4), write_integer(6, 0b01, 1 << 40)].concat();
        assert_eq!(decoder_instructions(&mut cancelled), Ok(()));
        assert!(cancelled.is_empty());
        let mut cut = write_integer(6, 0b01, 1 << 40);
        cut.pop();
        assert_eq!(decoder_instructions(&mut cut), Ok(()));
        assert!(!cut.is_empty(), "its rest may come");
        for wrong in [b"\x84", b"\x01", b"\0"] {
            assert_eq!(decoder(wrong), Err(Code::QPACK_DECODER_STREAM_ERROR), "{wrong:?}");
        }
        assert_eq!(
            decoder(&[&[0x7f][..], &[0xff; 12]].concat()),
            Err(Code::QPACK_DECODER_STREAM_ERROR)
        );
    }

    proptest! {
        #[test]
        fn qpack_instructions_of_any_bytes_never_panic(stream in vec(any::<u8>(), 0..80)) {
            let _ = encoder_instructions(&mut stream.clone());
            let _ = decoder_instructions(&mut stream.clone());
        }
    }
}
