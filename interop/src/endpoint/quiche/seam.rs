//! What is called of quiche, the same for both crates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use boring::ssl::SslContextBuilder;
use fathom_plugin::{Observer, Report};

use super::super::Setup;

/// Length of the connection IDs given here.
pub(super) const CID: usize = 8;

/// A datagram to send.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) bytes: Vec<u8>,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
    pub(super) at: Instant,
}

/// Which connection a server begins.
pub(super) struct Begun<'a> {
    pub(super) id: &'a [u8],
    /// After a Retry: the client's first destination, and the one that the Retry gave.
    pub(super) retried: Option<(&'a [u8], &'a [u8])>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// How a connection stands.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) established: bool,
    /// 0-RTT can be sent, or comes.
    pub(super) early: bool,
    pub(super) closed: bool,
    pub(super) timed_out: bool,
    pub(super) resumed: bool,
    pub(super) protocol: Option<String>,
    /// By whom, whether with a code of QUIC's, the code, the reason.
    pub(super) error: Option<(&'static str, bool, u64, Vec<u8>)>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) report: Option<Report>,
}

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is nothing, or no room, now.
    Done,
    /// It will never be.
    Over,
}

/// What HTTP/3 has to say of a stream.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Header fields came.
    Head(Vec<(Vec<u8>, Vec<u8>)>),
    /// A part of the body came.
    Data,
    /// There is no more.
    Finished,
    /// It was given up.
    Reset,
}

/// A connection.
pub(super) trait Quic: Sized {
    /// What connections are made from.
    type Config;

    /// That, with this TLS; `verifies`: the server's certificate is checked.
    fn config(setup: &Setup, context: SslContextBuilder, verifies: bool) -> Result<Self::Config, String>;
    /// Begins one to a server of this name.
    fn connect(
        config: &mut Self::Config,
        name: &str,
        id: &[u8],
        ends: (SocketAddr, SocketAddr),
        ear: Option<Arc<dyn Observer>>,
    ) -> Result<Self, String>;
    /// Begins one that a client asked for.
    fn accept(config: &mut Self::Config, begun: &Begun<'_>, ear: Option<Arc<dyn Observer>>) -> Option<Self>;

    /// Takes a datagram. What cannot be read is dropped; a violation closes the connection, which sending tells the peer.
    fn take(&mut self, bytes: &mut [u8], from: SocketAddr, to: SocketAddr, ecn: u8);
    /// The next datagram.
    fn give(&mut self) -> Option<Letter>;
    /// When to call [`Quic::tick`].
    fn due(&self) -> Option<Instant>;
    /// A timer is due.
    fn tick(&mut self);
    /// How it stands.
    fn state(&self) -> State;
    /// Closes it with a code of the application's.
    fn close(&mut self, code: u64);
    /// Offers the peer more connection IDs; those.
    fn more_ids(&mut self) -> Vec<Vec<u8>>;

    /// The ticket, once there is one.
    fn ticket(&self) -> Option<Vec<u8>>;
    /// Goes on from a ticket; before any packet.
    fn resume(&mut self, ticket: &[u8]) -> Result<(), String>;

    /// Streams that have something to read.
    fn readable(&mut self) -> Vec<u64>;
    /// Reads; how much, and whether that is all.
    fn read(&mut self, stream: u64, into: &mut [u8]) -> Result<(usize, bool), Trouble>;
    /// Writes; how much.
    fn write(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, Trouble>;
    /// Gives a stream up.
    fn reset(&mut self, stream: u64, code: u64);
    /// More streams may be opened.
    fn may_open(&self) -> bool;

    /// Begins HTTP/3.
    fn http(&mut self) -> Result<(), String>;
    /// What HTTP/3 has to say next.
    fn event(&mut self) -> Option<(u64, Event)>;
    /// Sends a request's or a response's header fields; the stream. `stream`: the request that is answered.
    fn head(&mut self, stream: Option<u64>, fields: &[(&[u8], &[u8])]) -> Result<u64, Trouble>;
    /// Sends a part of a body; how much.
    fn body(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, Trouble>;
    /// Reads a part of a body.
    fn read_body(&mut self, stream: u64, into: &mut [u8]) -> Result<usize, Trouble>;
}
