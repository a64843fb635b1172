//! A stack's own controller under observation. This file is compiled once per stack with the types
//! that `super` names, because the controller traits differ.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::stack::congestion::{Controller, ControllerFactory};
use crate::native::{NativeBatch, NativeWatch};

/// Returns a factory of watched controllers.
pub(super) fn watched(
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    watch: NativeWatch,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    Arc::new(WatchedFactory { inner, watch })
}

struct WatchedFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    watch: NativeWatch,
}

impl ControllerFactory for WatchedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        let watched = Watched { inner, watch: self.watch.clone(), batch: NativeBatch::default() };
        watched.record();
        Box::new(watched)
    }
}

/// A controller with the observer of its window.
pub(super) struct Watched {
    pub(super) inner: Box<dyn Controller>,
    pub(super) watch: NativeWatch,
    pub(super) batch: NativeBatch,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    /// Reports the window after an event.
    pub(super) fn record(&self) {
        self.watch.record(self.inner.window(), self.inner.metrics().ssthresh);
    }
}
