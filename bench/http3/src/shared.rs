//! State that the streams of a connection share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Wake as _, Waker};

use bytes::Bytes;

use crate::control::Role;
use crate::error::{Code, ProtocolError};
use crate::message::{Message, MessageLimits, MessageReader};
use crate::qpack::{Cache, Decoder, FieldSection};
use crate::repeated::Repeated;
use crate::settings::Settings;
use crate::transport::{Connection, ConnectionError, StreamError};
use crate::wakers::{Waiting, Wakeup, lock};

/// Configuration of a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Limits of each message. The limit of a section in bytes is sent in SETTINGS.
    pub message: MessageLimits,
    /// Largest number of bytes of the peer's unidirectional streams. Each request permits 256 more
    /// bytes, up to this number.
    pub unidirectional_bytes: u64,
    /// Largest number of the peer's unidirectional streams at a time.
    pub unidirectional_streams: usize,
    /// Largest size of the QPACK decoder's dynamic table in bytes.
    pub qpack_table_capacity: u32,
    /// Largest number of requests that may wait for the dynamic table.
    pub qpack_blocked_streams: u16,
    /// Whether a server accepts extended CONNECT (RFC 9220).
    pub extended_connect: bool,
    /// Whether HTTP datagrams are announced (RFC 9297). The stack must support datagrams.
    pub datagrams: bool,
    /// Whether SETTINGS has a reserved setting, which peers must ignore (RFC 9114 §7.2.4.1).
    pub grease: bool,
}

impl Default for Config {
    /// No dynamic table, no datagrams, and limits that suit most servers.
    fn default() -> Self {
        Self {
            message: MessageLimits::default(),
            unidirectional_bytes: 256 << 10,
            unidirectional_streams: 16,
            qpack_table_capacity: 0,
            qpack_blocked_streams: 0,
            extended_connect: false,
            datagrams: false,
            grease: false,
        }
    }
}

impl Config {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            qpack_max_table_capacity: self.qpack_table_capacity.into(),
            qpack_blocked_streams: self.qpack_blocked_streams.into(),
            max_field_section_size: Some(self.message.section.bytes),
            enable_connect_protocol: self.extended_connect,
            h3_datagram: self.datagrams,
        }
    }
}

/// Reason why an operation on a connection or a stream failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer violated the protocol or exceeded a limit of this end.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The peer reset or stopped the stream.
    #[error("the peer ended the stream: {0}")]
    Peer(Code),
    /// The connection is over.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server has sent GOAWAY and does not process the request (RFC 9114 §5.2). The request may
    /// be sent again on another connection.
    #[error("the server has sent GOAWAY and accepts no more requests on this connection")]
    GoAway,
    /// This end finished, reset or stopped the stream before.
    #[error("the stream is closed")]
    Closed,
    /// The server rejected the 0-RTT data of the request, which may be sent again.
    #[error("the server rejected 0-RTT data")]
    ZeroRttRejected,
}

impl Error {
    /// Returns the violation of the protocol, if there is one.
    pub fn protocol(&self) -> Option<&ProtocolError> {
        match self {
            Self::Protocol(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the server has not processed the request, so that it may be sent again on
    /// another connection, whatever its method (RFC 9114 §4.1.1, §5.2).
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::GoAway | Self::ZeroRttRejected | Self::Peer(Code::H3_REQUEST_REJECTED))
    }
}

/// Largest number of inboxes that are kept for reuse.
const INBOXES: usize = 64;
/// Largest memory of a field section that is kept for reuse, in bytes.
const SECTION_MEMORY: usize = 8 << 10;

/// Largest number of malformed messages whose codes are kept for the sending halves.
const MALFORMED: usize = 64;

/// State of reading one message. Boxed and reused, so that streams are small and cost no
/// allocation.
pub(crate) struct Inbox {
    pub(crate) reader: MessageReader,
    /// Received data that were not parsed.
    pub(crate) rest: Bytes,
    pub(crate) head: FieldSection,
    pub(crate) trailers: FieldSection,
}

/// State that the streams of a connection share.
pub(crate) struct Shared<C> {
    pub(crate) connection: C,
    pub(crate) config: Config,
    encoder: Mutex<Cache>,
    /// Field sections of the peer that repeat.
    pub(crate) repeated: Mutex<Repeated>,
    /// States for reuse, boxed because their boxes move into streams.
    #[allow(clippy::vec_box)]
    inboxes: Mutex<Vec<Box<Inbox>>>,
    pub(crate) decoder: Mutex<Decoder>,
    /// Tasks of requests that wait for the dynamic table.
    pub(crate) blocked: Mutex<Vec<Waker>>,
    /// Settings of the peer, once they have arrived.
    pub(crate) settings: OnceLock<Settings>,
    role: Role,
    /// ID in the peer's last GOAWAY, or the largest number.
    goaway: AtomicU64,
    /// Tasks of a client's requests that wait.
    pub(crate) waiting: Waiting,
    /// Streams with malformed messages, and the codes of the errors.
    malformed: Mutex<VecDeque<(u64, Code)>>,
    /// Error for which this end closed the connection.
    error: OnceLock<ProtocolError>,
    /// Reason why no more entries of the dynamic table arrive.
    over: OnceLock<Error>,
    /// Wakes the task that drives the connection.
    pub(crate) driver: Arc<Wakeup>,
}

impl<C: Connection> Shared<C> {
    /// Returns the state of a connection at the end with this role.
    pub(crate) fn new(connection: C, config: Config, role: Role) -> Self {
        let capacity = config.qpack_table_capacity as usize;
        let decoder = Decoder::new(capacity, config.qpack_blocked_streams.into());
        Self {
            connection,
            config,
            encoder: Mutex::default(),
            repeated: Mutex::default(),
            inboxes: Mutex::default(),
            decoder: Mutex::new(decoder),
            blocked: Mutex::default(),
            settings: OnceLock::new(),
            role,
            goaway: AtomicU64::new(u64::MAX),
            waiting: Waiting::default(),
            malformed: Mutex::default(),
            error: OnceLock::new(),
            over: OnceLock::new(),
            driver: Arc::default(),
        }
    }

    /// Returns the encoder of HEADERS frames.
    pub(crate) fn encoder(&self) -> MutexGuard<'_, Cache> {
        lock(&self.encoder)
    }

    /// Returns a state for reading a message, one that was returned if there is any.
    #[inline]
    pub(crate) fn take_inbox(&self, message: Message) -> Box<Inbox> {
        let inbox = lock(&self.inboxes).pop();
        match inbox {
            Some(mut inbox) => {
                inbox.reader.restart(message);
                inbox
            }
            None => Box::new(Inbox {
                reader: MessageReader::new(message, self.config.message),
                rest: Bytes::new(),
                head: FieldSection::new(),
                trailers: FieldSection::new(),
            }),
        }
    }

    /// Keeps a state for reuse, unless its memory is large.
    #[inline]
    pub(crate) fn return_inbox(&self, mut inbox: Box<Inbox>) {
        if inbox.head.capacity() + inbox.trailers.capacity() > SECTION_MEMORY {
            return;
        }
        inbox.head.clear();
        inbox.trailers.clear();
        if !inbox.rest.is_empty() {
            inbox.rest = Bytes::new();
        }
        let mut inboxes = lock(&self.inboxes);
        if inboxes.len() < INBOXES {
            inboxes.push(inbox);
        }
    }

    /// Returns whether requests may use the dynamic table.
    pub(crate) fn has_table(&self) -> bool {
        self.config.qpack_table_capacity > 0
    }

    /// Registers the task of a request that waits for the dynamic table.
    #[cold]
    pub(crate) fn wait_for_table(&self, task: &Waker) {
        let mut blocked = lock(&self.blocked);
        if blocked.iter().any(|waker| waker.will_wake(task)) {
            return;
        }
        // Some are of requests that were abandoned. The others register again.
        let full = blocked.len() > usize::from(self.config.qpack_blocked_streams);
        let before = if full { std::mem::take(&mut *blocked) } else { Vec::new() };
        blocked.push(task.clone());
        drop(blocked);
        before.into_iter().for_each(Waker::wake);
    }

    /// Fails the requests that wait for the dynamic table, because the connection is over.
    #[cold]
    pub(crate) fn end(&self, error: Error) {
        if self.over.set(error).is_ok() {
            std::mem::take(&mut *lock(&self.blocked)).into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the error of a request that waits for the dynamic table in vain.
    #[cold]
    pub(crate) fn over(&self) -> Option<Error> {
        self.over.get().cloned()
    }

    /// Closes the connection for an error of the peer.
    #[cold]
    pub(crate) fn fail(&self, error: &ProtocolError) {
        if self.error.set(error.clone()).is_ok() {
            self.connection.close(error.code.0, error.reason.as_bytes());
            self.driver.wake_by_ref();
        }
    }

    /// Returns the error for which this end closed the connection.
    pub(crate) fn failed(&self) -> Option<&ProtocolError> {
        self.error.get()
    }

    /// Returns an error of the transport, or the violation of the protocol that caused it.
    #[cold]
    pub(crate) fn connection_error(&self, error: ConnectionError) -> Error {
        match (self.failed(), error) {
            (Some(cause), ConnectionError::Local) => cause.clone().into(),
            (_, error) => error.into(),
        }
    }

    #[cold]
    pub(crate) fn stream_error(&self, error: StreamError) -> Error {
        match error {
            StreamError::Peer(code) => Error::Peer(Code(code)),
            StreamError::Connection(error) => self.connection_error(error),
            StreamError::Closed => Error::Closed,
            StreamError::ZeroRttRejected => Error::ZeroRttRejected,
        }
    }

    /// Records the ID of a GOAWAY, and wakes the requests that may fail for it.
    pub(crate) fn set_goaway(&self, id: u64) {
        self.goaway.fetch_min(id, Ordering::Relaxed);
        self.waiting.wake();
    }

    /// Returns whether this is the client's end.
    pub(crate) fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    /// Returns whether the server does not process the request of this stream (RFC 9114 §5.2).
    #[inline]
    pub(crate) fn is_rejected(&self, stream: u64) -> bool {
        stream >= self.goaway.load(Ordering::Relaxed) && self.is_client()
    }

    /// Records the code for a malformed message.
    #[cold]
    pub(crate) fn set_malformed(&self, stream: u64, code: Code) {
        let mut malformed = lock(&self.malformed);
        if malformed.len() >= MALFORMED {
            malformed.pop_front();
        }
        malformed.push_back((stream, code));
    }

    /// Returns the code for the malformed message of a stream, if it has one.
    #[cold]
    pub(crate) fn take_malformed(&self, stream: u64) -> Option<Code> {
        let mut malformed = lock(&self.malformed);
        let at = malformed.iter().position(|(id, _)| *id == stream)?;
        malformed.remove(at).map(|(_, code)| code)
    }

    /// Returns the ID of the last GOAWAY, if there was one.
    pub(crate) fn goaway(&self) -> Option<u64> {
        Some(self.goaway.load(Ordering::Relaxed)).filter(|id| *id != u64::MAX)
    }
}
