//! A view into a live connection.

use std::sync::Arc;

use crate::connection_state::ConnectionState;
use crate::report::Report;

/// A view into a live connection.
#[derive(Clone, Debug)]
pub struct ConnectionMonitor(Arc<ConnectionState>);

impl ConnectionMonitor {
    pub(crate) const fn new(state: Arc<ConnectionState>) -> Self {
        Self(state)
    }

    /// How the connection stands now. Not to be called from within a [`Controller`](fathom_cc::Controller) of the same connection, which
    /// runs under the lock that this takes.
    pub fn report(&self) -> Report {
        self.0.report()
    }
}

impl ConnectionState {
    /// A view for the application.
    pub fn monitor(self: &Arc<Self>) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(self))
    }
}
