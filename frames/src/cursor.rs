//! A cursor that reads a payload from front to back.

use crate::varint;

/// Error in the encoding of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The payload ends inside the frame.
    Truncated,
    /// The frame type is unknown to this crate, or not in its shortest form (RFC 9000 §12.4).
    Type(u64),
    /// A field has a value that its frame does not allow.
    Value,
}

/// The bytes that have not been read yet.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads one varint.
    #[inline]
    pub(crate) fn int(&mut self) -> Result<u64, FrameError> {
        let (value, len) = varint::decode(self.rest).ok_or(FrameError::Truncated)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    pub(crate) fn ints(&mut self, count: usize) -> Result<(), FrameError> {
        (0..count).try_for_each(|_| self.int().map(drop))
    }

    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), FrameError> {
        let bytes = usize::try_from(bytes).map_err(|_| FrameError::Truncated)?;
        self.rest = self.rest.get(bytes..).ok_or(FrameError::Truncated)?;
        Ok(())
    }

    /// Reads a varint, and skips as many bytes as it says.
    pub(crate) fn block(&mut self) -> Result<(), FrameError> {
        let len = self.int()?;
        self.skip(len)
    }

    pub(crate) fn swallow(&mut self) -> Result<(), FrameError> {
        self.rest = &[];
        Ok(())
    }

    /// Skips a run of PADDING, sixteen bytes at a time, because full-size datagrams may consist
    /// mostly of zeros.
    pub(crate) fn padding(&mut self) -> Result<(), FrameError> {
        let blocks = self.rest.chunks_exact(16).take_while(|b| **b == [0; 16]).count();
        self.rest = &self.rest[16 * blocks..];
        let tail = self.rest.iter().take_while(|b| **b == 0).count();
        self.rest = &self.rest[tail..];
        Ok(())
    }
}
