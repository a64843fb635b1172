//! Input of a log or table, plain or compressed, from a file, standard input or a pipe. The input
//! can be read more than once.
//!
//! Compressed input is decompressed while it is read. The decompressed size is limited to [`RATIO`]
//! times the compressed size, so that a small file cannot expand without end. Logs are read more
//! than once, so data from a pipe are kept in memory, at most [`PIPE`] bytes.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Maximum number of bytes kept from a pipe.
const PIPE: u64 = 256 << 20;
/// Maximum ratio of decompressed to compressed size. For qlog of any stack, the ratio is below 40.
const RATIO: u64 = 100;
/// Decompressed size in bytes that is always allowed.
const SMALL: u64 = 64 << 20;
/// Maximum window of a zstd frame in bytes; `zstd --long` needs no more.
const WINDOW: u64 = 128 << 20;
/// Number of bytes that are read to identify a file.
const BEGINS: usize = 1 << 16;

/// Compression of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    Plain,
    Gzip,
    Zstd,
}

impl Packed {
    fn of(begins: &[u8]) -> Self {
        match begins {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A zstd file may begin with a skippable frame (RFC 8878 §3.1.2).
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// An opened input that can be read from its beginning any number of times.
#[derive(Debug)]
pub struct Input {
    from: From,
    packed: Packed,
    begins: Vec<u8>,
}

#[derive(Debug)]
enum From {
    /// A file, which is opened again for each pass.
    File(std::path::PathBuf),
    /// Data from a pipe.
    Kept(Arc<[u8]>),
}

impl Input {
    /// Opens a file or pipe. The path `-` means standard input.
    ///
    /// # Errors
    /// Returns an error if the path cannot be opened or read, if it is a folder, or if a pipe holds
    /// too much data.
    pub fn open(path: &Path) -> io::Result<Self> {
        let from = if path.as_os_str() == "-" {
            Self::keep(io::stdin().lock())?
        } else {
            // Limit endless devices and sockets in the same way as pipes.
            let file = File::open(path)?;
            let kind = file.metadata()?;
            if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if kind.is_file() { From::File(path.to_owned()) } else { Self::keep(file)? }
        };
        let mut input = Self { from, packed: Packed::Plain, begins: Vec::new() };
        let magic = first(&mut *input.raw(&Rc::default())?, 4)?;
        input.packed = Packed::of(&magic);
        let begins = first(&mut input.reader(&mut |_| {})?, BEGINS);
        input.begins = match begins {
            Ok(begins) => begins,
            // The reader will reach the same error and report it.
            Err(_) if input.packed != Packed::Plain => Vec::new(),
            Err(e) => return Err(e),
        };
        Ok(input)
    }

    fn keep(from: impl Read) -> io::Result<From> {
        let mut kept = Vec::new();
        from.take(PIPE + 1).read_to_end(&mut kept)?;
        if kept.len() as u64 > PIPE {
            return Err(io::Error::other(format!(
                "the pipe delivers more than {PIPE} bytes; write the data to a file and name the \
                 file"
            )));
        }
        Ok(From::Kept(kept.into()))
    }

    /// Returns the first bytes, decompressed and without a byte order mark.
    pub fn begins(&self) -> &[u8] {
        self.begins.strip_prefix(BOM).unwrap_or(&self.begins)
    }

    /// Returns whether the input is compressed.
    pub fn is_compressed(&self) -> bool {
        self.packed != Packed::Plain
    }

    /// Returns the bytes of a plain file.
    pub(crate) fn plain_size(&self) -> Option<u64> {
        match &self.from {
            From::File(path) if !self.is_compressed() => {
                std::fs::metadata(path).ok().map(|m| m.len())
            }
            _ => None,
        }
    }

    fn raw(&self, used: &Rc<Cell<u64>>) -> io::Result<Box<dyn Read + '_>> {
        let used = Rc::clone(used);
        Ok(match &self.from {
            From::File(path) => Box::new(Used { from: File::open(path)?, used }),
            From::Kept(bytes) => Box::new(Used { from: Cursor::new(&bytes[..]), used }),
        })
    }

    /// Reads from the beginning, decompressed and without a byte order mark. `bytes` is called with
    /// the number of additional bytes read from the file.
    ///
    /// # Errors
    /// Returns an error if the file can no longer be opened.
    pub fn reader<'a>(&'a self, bytes: &'a mut dyn FnMut(u64)) -> io::Result<InputReader<'a>> {
        let used = Rc::new(Cell::new(0));
        let raw = BufReader::with_capacity(1 << 16, self.raw(&used)?);
        let problem = Rc::default();
        let plain: Box<dyn Read + 'a> = match self.packed {
            Packed::Plain => Box::new(raw),
            Packed::Gzip => Box::new(Unpacked::new(MultiGzDecoder::new(raw), &used, &problem)),
            Packed::Zstd => Box::new(Unpacked::new(Frames::new(raw), &used, &problem)),
        };
        let mut text = BufReader::with_capacity(1 << 16, plain);
        // A byte order mark at the beginning is not part of the text.
        if let Ok([0xef, ..]) = text.fill_buf()
            && text.buffer().starts_with(BOM)
        {
            text.consume(BOM.len());
        }
        Ok(InputReader { text, used, told: 0, bytes, problem })
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads up to `most` bytes.
fn first(from: &mut dyn Read, most: usize) -> io::Result<Vec<u8>> {
    let mut begins = Vec::new();
    from.take(most as u64).read_to_end(&mut begins)?;
    Ok(begins)
}

/// Reader that counts the bytes read from a file.
struct Used<R> {
    from: R,
    used: Rc<Cell<u64>>,
}

impl<R: Read> Read for Used<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.used.set(self.used.get() + n as u64);
        Ok(n)
    }
}

/// Reader of an [`Input`].
pub struct InputReader<'a> {
    text: BufReader<Box<dyn Read + 'a>>,
    used: Rc<Cell<u64>>,
    told: u64,
    bytes: &'a mut dyn FnMut(u64),
    problem: Rc<RefCell<Option<String>>>,
}

impl InputReader<'_> {
    /// Returns the reason why the compressed data ended early; `None` if they did not. All data
    /// before that point were read.
    pub fn broken_off(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    fn tell(&mut self) {
        let used = self.used.get();
        if used > self.told {
            (self.bytes)(used - self.told);
            self.told = used;
        }
    }
}

impl Read for InputReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.text.read(to)?;
        self.tell();
        Ok(n)
    }
}

impl BufRead for InputReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.text.buffer().is_empty() {
            self.text.fill_buf()?;
            self.tell();
        }
        self.text.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.text.consume(n);
    }
}

/// Decompressed data with a size limit. Damaged data end at the damage, like a log whose writer
/// crashed.
struct Unpacked<R> {
    from: R,
    made: u64,
    used: Rc<Cell<u64>>,
    problem: Rc<RefCell<Option<String>>>,
}

impl<R: Read> Unpacked<R> {
    fn new(from: R, used: &Rc<Cell<u64>>, problem: &Rc<RefCell<Option<String>>>) -> Self {
        Self { from, made: 0, used: Rc::clone(used), problem: Rc::clone(problem) }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.problem.borrow().is_some() {
            return Ok(0);
        }
        let n = match self.from.read(to) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(_) => {
                let why = format!(
                    "the compressed data end early or are damaged after {} bytes",
                    self.made
                );
                *self.problem.borrow_mut() = Some(why);
                return Ok(0);
            }
        };
        self.made += n as u64;
        if self.made > SMALL && self.made > self.used.get().saturating_mul(RATIO) {
            return Err(io::Error::other(format!(
                "the file decompresses to more than {RATIO} times its size, which is implausible \
                 for a log; if the file is a log, decompress it first"
            )));
        }
        Ok(n)
    }
}

/// Consecutive frames of a zstd file.
struct Frames<R> {
    from: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Self { from, decoder, inside: false }
    }

    /// Begins the next frame. Returns `false` if there is no further frame.
    fn next(&mut self) -> io::Result<bool> {
        while !self.from.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.from) {
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.from).take(u64::from(length)), &mut io::sink())?;
                }
                Err(e) => return Err(io::Error::other(e)),
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.inside || self.next()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.from, one).map_err(io::Error::other)?;
            }
            let n = self.decoder.read(to)?;
            if n > 0 || to.is_empty() {
                return Ok(n);
            }
            self.inside = false;
        }
        Ok(0)
    }
}
