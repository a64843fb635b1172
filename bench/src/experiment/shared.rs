//! What all tasks of a run share: the world, the tally of what happened, the settings of its connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathom_quinn::Probe;
use quinn::{TransportConfig, VarInt};

use super::traffic;
use crate::hash::StableHash;
use crate::http::HttpError;
use crate::measure::{Completed, Responses, WindowTrace};
use crate::workload::WebRequest;
use crate::world::Virtual;

/// UDP payload of a full packet: with [`crate::world::WIRE_OVERHEAD`] the paper's 1420 bytes (Sync-TCP §4.4).
pub(crate) const DATAGRAM: u16 = 1392;
/// Bytes of stream data in such a packet, for turning the paper's window in packets into flow control in bytes: minus 1 + 8 + 2 bytes
/// of short header, 16 of tag, about 8 of STREAM frame header.
const STREAM_BYTES: u32 = DATAGRAM as u32 - 35;
/// Longest silence before a connection is given up. The paper's longest base round trip is over 9 s, the model's over 12 s.
const IDLE: Duration = Duration::from_secs(120);

/// Completed responses of a running cell, for progress bars.
pub type Progress = Arc<AtomicU64>;

/// What all tasks of a run share.
pub(super) struct Shared {
    pub(super) world: Virtual,
    pub(super) wanted: u64,
    pub(super) progress: Progress,
    pub(super) tally: Mutex<Tally>,
    /// Server delays of the flows that have one.
    pub(super) delays: Mutex<HashMap<u32, Duration>>,
    pub(super) traced_flow: Mutex<Option<u32>>,
    pub(super) window: Arc<WindowTrace>,
    pub(super) max_window: Option<u32>,
    /// The workload has no more requests than those wanted.
    pub(super) finite: bool,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) responses: Responses,
    /// Over the requests made.
    pub(super) requests: StableHash,
    pub(super) failed: u64,
    pub(super) connections: u64,
    pub(super) senders: u64,
    /// Forward senders that have not ended.
    pub(super) live: HashMap<u64, Probe>,
    pub(super) heard_one_way: u64,
    pub(super) early_reductions: u64,
    pub(super) loss_reductions: u64,
}

impl Tally {
    pub(super) fn add_sender(&mut self, probe: &Probe) {
        let report = probe.report();
        self.heard_one_way += u64::from(report.negotiated);
        if let Some(snapshot) = report.controller {
            self.early_reductions += snapshot.early_reductions;
            self.loss_reductions += snapshot.reductions;
        }
    }
}

impl Shared {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn transport(&self) -> TransportConfig {
        let mut t = TransportConfig::default();
        t.initial_mtu(DATAGRAM);
        // The emulated path carries this size and no other: nothing to discover.
        t.mtu_discovery_config(None);
        t.max_idle_timeout(Some(IDLE.try_into().expect("two minutes fit a varint")));
        t.datagram_receive_buffer_size(None);
        if let Some(packets) = self.max_window {
            t.stream_receive_window(VarInt::from_u32(packets * STREAM_BYTES));
        }
        t
    }

    /// A forward sender began; the number to end it by.
    pub(super) fn sender_began(&self, probe: Probe) -> u64 {
        let mut tally = self.tally();
        tally.senders += 1;
        let id = tally.senders;
        tally.live.insert(id, probe);
        id
    }

    /// A forward sender ended.
    pub(super) fn sender_ended(&self, id: u64) {
        let mut tally = self.tally();
        if let Some(probe) = tally.live.remove(&id) {
            tally.add_sender(&probe);
        }
    }

    /// A request is being made, as number `index` of its direction.
    pub(super) fn note_request(&self, request: &WebRequest, forward: bool, index: usize) {
        if forward && (index as u64) < self.wanted {
            traffic::note(&mut self.tally().requests, request);
        }
    }

    pub(super) fn note_outcome(&self, outcome: Result<Completed, HttpError>) {
        let mut tally = self.tally();
        match outcome {
            Ok(completed) => tally.responses.add(completed),
            Err(e) => {
                tracing::debug!("request failed: {e}");
                tally.failed += 1;
            }
        }
        let count = tally.responses.count();
        self.progress.store(count, Ordering::Relaxed);
        // A workload with an end is over when nothing is left to wait for.
        if count == self.wanted || self.finite && count + tally.failed == self.wanted {
            self.world.stop();
        }
    }
}
