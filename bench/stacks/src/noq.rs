//! noq's types for `endpoint.rs`, and the differences between noq and quinn.

#[path = "endpoint.rs"]
mod endpoint;
#[path = "http.rs"]
pub mod http;
#[path = "watched.rs"]
mod watched;

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_cc::Rate;
use fathom_netsim::sim::SimSocket;
use fathom_noq as adapter;
use noq as stack;
use noq::EndpointConfig;
use noq::congestion::{
    Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use noq_proto::{ConnectionId, ConnectionIdGenerator, HashedConnectionIdGenerator, InvalidCid};

pub use self::endpoint::{Connecting, Connection, Endpoint, Incoming};
use self::watched::{Watched, watched};
use crate::steering::Place;
use crate::traits::ConnectionStats;

/// Reads available data or registers the task's waker. noq keeps the state of a read in the stream,
/// so no data are lost if the future is dropped.
pub(crate) fn poll_read(
    stream: &mut noq::RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, noq::ReadError>> {
    pin!(stream.read_chunk(usize::MAX)).poll(cx)
}

/// A receiving stream that is read in arrival order.
pub(crate) type UnorderedRecvStream = noq::UnorderedRecvStream;

/// Converts an unread stream to one that is read in arrival order.
pub(crate) fn unordered(stream: noq::RecvStream) -> UnorderedRecvStream {
    stream.into_unordered()
}

/// Reads like [`poll_read`], but in arrival order. Returns each chunk with its offset.
pub(crate) fn poll_read_unordered(
    stream: &mut UnorderedRecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<(u64, Bytes)>, noq::ReadError>> {
    pin!(stream.read_chunk(usize::MAX))
        .poll(cx)
        .map_ok(|chunk| chunk.map(|chunk| (chunk.offset, chunk.bytes)))
}

/// Writes some of `chunks`. Chunks that noq has taken are empty afterwards. The data are not copied
/// if noq keeps a chunk as a whole (noq's own bound is 1,452 bytes). As with reads, no state is
/// lost if the future is dropped.
pub(crate) fn poll_write_chunks(
    stream: &mut noq::SendStream,
    cx: &mut Context<'_>,
    mut chunks: &mut [Bytes],
) -> Poll<Result<(), noq::WriteError>> {
    pin!(stream.write_many_chunks(&mut chunks)).poll(cx).map_ok(drop)
}

/// The socket type of an endpoint.
type Socket = Box<dyn noq::AsyncUdpSocket>;

fn simulated(socket: SimSocket) -> Socket {
    Box::new(socket)
}

/// Returns one of noq's own controllers by its name in the [`crate::Stack::natives`].
fn native(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr3" => Arc::new(Bbr3Config::default()),
        _ => Arc::new(NewRenoConfig::default()),
    }
}

fn set_connection_ids(config: &mut EndpointConfig, key: u64) {
    config.cid_generator(Arc::new(move || Box::new(HashedConnectionIdGenerator::from_key(key))));
}

/// Sets connection IDs of which the endpoint at this place gets the packets.
fn set_steered_connection_ids(config: &mut EndpointConfig, place: Place) {
    config.cid_generator(Arc::new(move || {
        let ids = HashedConnectionIdGenerator::new();
        Box::new(SteeredConnectionIds { ids, place })
    }));
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

    fn validate(&self, id: ConnectionId) -> Result<(), InvalidCid> {
        self.ids.validate(id)
    }

    fn cid_len(&self) -> usize {
        self.ids.cid_len()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        self.ids.cid_lifetime()
    }
}

fn own_stats(connection: &noq::Connection) -> ConnectionStats {
    let stats = connection.stats();
    let path = connection.path_stats(noq::PathId::ZERO);
    ConnectionStats {
        rtt: path.map(|path| path.rtt).filter(|rtt| !rtt.is_zero()),
        window: path.map_or(0, |path| path.cwnd),
        sent: stats.sent_packets,
        sent_bytes: path.map_or(0, |path| path.udp_tx.bytes),
        received_bytes: stats.udp_rx.bytes,
        peer_blocked: stats.frame_rx.data_blocked + stats.frame_rx.stream_data_blocked,
        lost: stats.lost_packets,
        reductions: path.map_or(0, |path| path.congestion_events),
        ..ConnectionStats::default()
    }
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
        self.watch.sent(bytes);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &noq_proto::RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
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
            let rate = self.inner.metrics().pacing_rate.map(Rate::from_bytes_per_sec);
            self.watch.acked(&batch, in_flight, app_limited, rate);
        }
        self.record();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        let before = self.inner.window();
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
        self.watch.reduced(before, self.inner.window());
        self.watch.lost(if is_ecn { 0 } else { lost_bytes });
        self.record();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
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
