//! A view of a live connection for the application.

use std::sync::Arc;

use crate::connection_state::ConnectionState;
use crate::report::Report;

/// A view of a live connection.
#[derive(Clone, Debug)]
pub struct ConnectionMonitor(Arc<ConnectionState>);

impl ConnectionMonitor {
    pub(crate) const fn new(state: Arc<ConnectionState>) -> Self {
        Self(state)
    }

    /// Returns a report of the connection's current state.
    ///
    /// Do not call this from a [`Controller`](fathom_cc::Controller) of the same connection: the
    /// controller runs under the lock that this method takes.
    pub fn report(&self) -> Report {
        self.0.report()
    }
}

impl ConnectionState {
    /// Returns a view for the application.
    pub fn monitor(self: &Arc<Self>) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(self))
    }
}
