//! The servers of a run: every sender is asked at the end what it did.

use std::sync::{Arc, PoisonError};

use fathom_quinn::Observer;

use super::shared::Shared;
use crate::stack::{Boxed, Host, Sender};

/// The servers of one direction.
pub(super) struct Servers {
    pub(super) shared: Arc<Shared>,
    pub(super) forward: bool,
}

impl Host for Servers {
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>> {
        let mut traced = self.shared.traced_flow.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: later connections may come to have the same number.
        let follow = self.forward && traced.take_if(|traced| Some(*traced) == flow).is_some();
        follow.then(|| Arc::clone(&self.shared.window) as Arc<dyn Observer>)
    }

    fn began(&self, sender: Arc<dyn Sender>) -> u64 {
        if self.forward { self.shared.tally().senders.began(sender) } else { 0 }
    }

    fn ended(&self, id: u64) {
        if self.forward {
            self.shared.tally().senders.ended(id);
        }
    }

    fn think(&self, flow: Option<u32>) -> Boxed<'_, ()> {
        Box::pin(async move {
            let delays = || self.shared.delays.lock().unwrap_or_else(PoisonError::into_inner);
            let delay = flow.and_then(|f| delays().get(&f).copied());
            if let Some(delay) = delay.filter(|d| !d.is_zero()) {
                self.shared.world.sleep_until(self.shared.world.time() + delay).await;
            }
        })
    }
}
