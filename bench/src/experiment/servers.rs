//! The servers of a run: every sender reports its counts at the end.

use std::sync::{Arc, PoisonError};

use fathom_plugin::Observer;

use super::state::RunState;
use crate::stack::{BoxFuture, Host, Sender};

/// The servers of one direction.
pub(super) struct Servers {
    pub(super) state: Arc<RunState>,
    pub(super) forward: bool,
}

impl Host for Servers {
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>> {
        let mut traced = self.state.traced_flow.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: later connections may come to have the same number.
        let follow = self.forward && traced.take_if(|traced| Some(*traced) == flow).is_some();
        follow.then(|| Arc::clone(&self.state.window) as Arc<dyn Observer>)
    }

    fn began(&self, sender: Arc<dyn Sender>) -> u64 {
        if self.forward { self.state.stats().senders.began(sender) } else { 0 }
    }

    fn ended(&self, id: u64) {
        if self.forward {
            self.state.stats().senders.ended(id);
        }
    }

    fn think(&self, flow: Option<u32>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let delays = || self.state.delays.lock().unwrap_or_else(PoisonError::into_inner);
            let delay = flow.and_then(|f| delays().get(&f).copied());
            if let Some(delay) = delay.filter(|d| !d.is_zero()) {
                self.state.sim.sleep_until(self.state.sim.time() + delay).await;
            }
        })
    }
}
