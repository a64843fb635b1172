//! HTTP datagrams (RFC 9297).

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Code, ProtocolError};
use crate::varint;

/// An HTTP datagram: the stream of its request, and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// ID of the request stream, which is a client's bidirectional stream.
    pub stream: u64,
    /// Payload.
    pub payload: Bytes,
}

impl Datagram {
    /// Returns a datagram from the payload of a DATAGRAM frame (RFC 9297 §2.1). The payload is not
    /// copied.
    ///
    /// # Errors
    /// Returns an error that ends the connection if the payload does not begin with a valid quarter
    /// stream ID.
    pub fn read(mut frame: Bytes) -> Result<Self, ProtocolError> {
        let invalid = |reason| Err(ProtocolError::connection(Code::H3_DATAGRAM_ERROR, reason));
        let Some((quarter, size)) = varint::read(&frame) else {
            return invalid("a datagram without a quarter stream ID");
        };
        if quarter > varint::MAX / 4 {
            return invalid("a quarter stream ID that is too large");
        }
        frame.advance(size);
        Ok(Self { stream: quarter * 4, payload: frame })
    }

    /// Returns the payload of the DATAGRAM frame, which is a copy.
    pub fn write(&self) -> Bytes {
        let (quarter, size) = varint::encode(self.stream / 4);
        let mut frame = BytesMut::with_capacity(size + self.payload.len());
        frame.extend_from_slice(&quarter[..size]);
        frame.extend_from_slice(&self.payload);
        frame.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn written_datagrams_are_read_back() {
        let mut noise = Noise::new(16);
        for _ in 0..cases() {
            let stream = (noise.next() >> (2 + noise.below(60))) / 4 * 4;
            let datagram = Datagram { stream, payload: noise.bytes(30).into() };
            assert_eq!(Datagram::read(datagram.write()), Ok(datagram));
        }
    }

    #[test]
    fn arbitrary_frames_are_datagrams_or_errors_of_the_connection() {
        let mut noise = Noise::new(17);
        for _ in 0..cases() {
            let frame = Bytes::from(noise.bytes(12));
            match Datagram::read(frame.clone()) {
                Ok(datagram) => assert!(frame.ends_with(&datagram.payload)),
                Err(error) => assert_eq!(error.code, Code::H3_DATAGRAM_ERROR),
            }
        }
        for invalid in [&b""[..], b"\x40", b"\xd0\0\0\0\0\0\0\0"] {
            assert!(Datagram::read(Bytes::from_static(invalid)).is_err());
        }
    }
}
