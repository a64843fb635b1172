//! quinn's types for `endpoint.rs`, and the differences between quinn and noq.

#[path = "endpoint.rs"]
mod endpoint;
#[path = "http.rs"]
pub mod http;
#[path = "watched.rs"]
mod watched;

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_cc::Rate;
use fathom_netsim::sim::SimSocket;
use fathom_quinn as adapter;
use quinn as stack;
use quinn::EndpointConfig;
use quinn::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, HashedConnectionIdGenerator, InvalidCid};

pub use self::endpoint::{Connecting, Connection, Endpoint, Incoming};
use self::watched::{Watched, watched};
use crate::steering::Place;
use crate::traits::ConnectionStats;

/// Reads available data or registers the task's waker. quinn keeps the state of a read in the
/// stream, so no data are lost if the future is dropped.
pub(crate) fn poll_read(
    stream: &mut quinn::RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, quinn::ReadError>> {
    let chunk = ready!(pin!(stream.read_chunk(usize::MAX, true)).poll(cx));
    Poll::Ready(chunk.map(|chunk| chunk.map(|chunk| chunk.bytes)))
}

/// A receiving stream that is read in arrival order.
pub(crate) type UnorderedRecvStream = quinn::RecvStream;

/// Converts an unread stream to one that is read in arrival order.
pub(crate) const fn unordered(stream: quinn::RecvStream) -> UnorderedRecvStream {
    stream
}

/// Reads like [`poll_read`], but in arrival order. Returns each chunk with its offset.
pub(crate) fn poll_read_unordered(
    stream: &mut UnorderedRecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<(u64, Bytes)>, quinn::ReadError>> {
    let chunk = ready!(pin!(stream.read_chunk(usize::MAX, false)).poll(cx));
    Poll::Ready(chunk.map(|chunk| chunk.map(|chunk| (chunk.offset, chunk.bytes))))
}

/// Writes some of `chunks` without a copy. Chunks that quinn has taken are empty afterwards. As
/// with reads, no state is lost if the future is dropped.
pub(crate) fn poll_write_chunks(
    stream: &mut quinn::SendStream,
    cx: &mut Context<'_>,
    chunks: &mut [Bytes],
) -> Poll<Result<(), quinn::WriteError>> {
    pin!(stream.write_chunks(chunks)).poll(cx).map_ok(drop)
}

/// The socket type of an endpoint.
type Socket = Arc<dyn quinn::AsyncUdpSocket>;

fn simulated(socket: SimSocket) -> Socket {
    Arc::new(socket)
}

/// Returns one of quinn's own controllers by its name in the [`crate::Stack::natives`].
pub fn native(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => Arc::new(NewRenoConfig::default()),
    }
}

fn set_connection_ids(config: &mut EndpointConfig, key: u64) {
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(key)));
}

/// Sets connection IDs of which the endpoint at this place gets the packets.
fn set_steered_connection_ids(config: &mut EndpointConfig, place: Place) {
    config.cid_generator(move || {
        let ids = HashedConnectionIdGenerator::new();
        Box::new(SteeredConnectionIds { ids, place })
    });
}

struct SteeredConnectionIds {
    ids: HashedConnectionIdGenerator,
    place: Place,
}

impl ConnectionIdGenerator for SteeredConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        loop {
            let id = self.ids.generate_cid();
            if self.place.owns(&id) {
                return id;
            }
        }
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.ids.validate(id)
    }

    fn cid_len(&self) -> usize {
        self.ids.cid_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.ids.cid_lifetime()
    }
}

fn own_stats(connection: &quinn::Connection) -> ConnectionStats {
    let stats = connection.stats();
    let path = stats.path;
    ConnectionStats {
        rtt: (!path.rtt.is_zero()).then_some(path.rtt),
        window: path.cwnd,
        sent: path.sent_packets,
        sent_bytes: stats.udp_tx.bytes,
        received_bytes: stats.udp_rx.bytes,
        peer_blocked: stats.frame_rx.data_blocked + stats.frame_rx.stream_data_blocked,
        lost: path.lost_packets,
        reductions: path.congestion_events,
        ..ConnectionStats::default()
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
        self.watch.sent(bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        self.batch.add(now, sent, bytes, rtt.get(), rtt.min());
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        if let Some(batch) = self.batch.take() {
            let rate = self.inner.metrics().pacing_rate.map(Rate::from_bits_per_sec);
            self.watch.acked(&batch, in_flight, app_limited, rate);
        }
        self.record();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.watch.reduced(before, self.inner.window());
        self.watch.lost(lost_bytes);
        self.record();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            watch: self.watch.clone(),
            batch: self.batch,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
