//! How far the window may grow on a peer's word (`trust=limited`): as far as Reno's, of the same losses and acknowledged bytes.

use crate::aimd::Aimd;
use crate::event::{AckEvent, CongestionEvent};
use crate::reno::LOSS_REDUCTION;

/// A Reno beside Sync-TCP that gets the same events after it.
#[derive(Clone, Debug)]
pub(super) struct RenoBound(Aimd);

impl RenoBound {
    /// From the window as it stands.
    pub(super) fn new(aimd: &Aimd) -> Self {
        Self(aimd.clone())
    }

    /// Grows as Reno, and takes back what `aimd` has grown beyond that from a window of `before` bytes.
    pub(super) fn hold(&mut self, aimd: &mut Aimd, before: u64, acks: &AckEvent<'_>) {
        let acked = self.0.on_ack(acks);
        self.0.grow_as_reno(acked);
        aimd.confine(self.0.window().max(before));
    }

    /// After a reaction (`reacted`) it goes on from what Sync-TCP is left with, not from what Reno would be: the peer's word decided how
    /// far apart they were.
    pub(super) fn on_congestion_event(
        &mut self,
        aimd: &Aimd,
        congestion_event: &CongestionEvent,
        reacted: bool,
    ) {
        self.0.on_congestion_event(congestion_event, LOSS_REDUCTION);
        if reacted {
            let threshold = self.0.threshold();
            self.0 = aimd.clone();
            self.0.lower_threshold(threshold);
        }
    }

    pub(super) fn on_spurious_congestion_event(&mut self) {
        self.0.on_spurious_congestion_event();
    }

    pub(super) fn on_datagram(&mut self, bytes: u16) {
        self.0.on_datagram(bytes);
    }
}
