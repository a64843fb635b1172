//! Limit of the growth that the peer's reports may cause (`trust=limited`): a Reno window that gets
//! the same losses and acknowledged bytes.

use crate::aimd::Aimd;
use crate::event::{AckEvent, CongestionEvent};
use crate::reno::LOSS_REDUCTION;

/// A Reno window that gets each event after Sync-TCP's window.
#[derive(Clone, Debug)]
pub(super) struct RenoBound(Aimd);

impl RenoBound {
    /// Creates the limit from the current window.
    pub(super) fn new(aimd: &Aimd) -> Self {
        Self(aimd.clone())
    }

    /// Grows this window like Reno, and limits `aimd` to it. `before` is the size of `aimd` before
    /// its growth. `aimd` is not reduced below this size.
    pub(super) fn hold(&mut self, aimd: &mut Aimd, before: u64, acks: &AckEvent<'_>) {
        let acked = self.0.on_ack(acks);
        self.0.grow_as_reno(acked);
        aimd.confine(self.0.window().max(before));
    }

    /// Reacts to the event. If Sync-TCP reduced its window (`reacted`), the limit continues from
    /// Sync-TCP's new window rather than from Reno's. The peer's reports decided how far the two
    /// windows were apart.
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
