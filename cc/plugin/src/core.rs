//! Settings that a plug-in shares with all its connections, on any stack.

use std::sync::Arc;

use fathom_cc::{Capabilities, ControllerConfig};

use crate::clock::Clock;
use crate::config::ConnectionConfig;
use crate::connection_state::ConnectionState;
use crate::extension::Extension;
use crate::report::Observer;
use crate::shaping::Shaping;
use crate::shaping_socket::TrailerRegistry;

/// Settings that a plug-in shares with all its connections.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) controller_config: Arc<dyn ControllerConfig>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) extension: Extension,
    /// Bytes sent instead of the extension's transport parameters.
    pub(crate) parameter: Option<Arc<[u8]>>,
    /// Bytes sent instead of the timestamp frame.
    pub(crate) stamp: Option<Arc<[u8]>>,
    /// Registry of the shaping socket that trims and delays the endpoint's datagrams, if there is
    /// one.
    pub(crate) registry: Option<Arc<TrailerRegistry>>,
    /// Whether ACK frames are read even if no controller needs them.
    pub(crate) monitors_acks: bool,
}

impl Core {
    /// Returns `bare`, extended by the capabilities of the shaping socket if there is one.
    pub(crate) fn provided(&self, bare: Capabilities) -> Capabilities {
        if self.registry.is_some() { with_shaping_socket(bare) } else { bare }
    }

    /// Returns the part of `bare`, the stack's own capabilities, that remains if our keys do not
    /// seal and open its packets. A shaping socket also needs these keys.
    pub(crate) const fn without_session(bare: Capabilities) -> Capabilities {
        Capabilities { one_way: false, ecn: false, ..bare }
    }

    /// Creates the state of a connection without a session of ours. If the controller requires a
    /// session, Reno replaces it, because the stack could not handle an error here.
    pub(crate) fn connection_without_session(&self, bare: Capabilities) -> ConnectionState {
        let provided = Self::without_session(bare);
        let controller_config = if self.controller_config.check(provided).is_ok() {
            Some(Arc::clone(&self.controller_config))
        } else {
            let name = self.controller_config.name();
            tracing::warn!(
                "controller '{name}' cannot measure delays without a TLS session; Reno runs instead"
            );
            fathom_cc::catalogue::parse("reno").ok()
        };
        let setup = ConnectionConfig {
            controller_config,
            clock: Arc::clone(&self.clock),
            extension: Extension::OFF,
            ..ConnectionConfig::default()
        };
        ConnectionState::new(setup, provided, false, None)
    }

    /// Creates the state of a new connection on a stack with the capabilities `bare`.
    pub(crate) fn connection(
        &self,
        bare: Capabilities,
        observer: Option<Arc<dyn Observer>>,
    ) -> ConnectionState {
        let setup = ConnectionConfig {
            controller_config: Some(Arc::clone(&self.controller_config)),
            clock: Arc::clone(&self.clock),
            extension: self.extension,
            observer,
            parameter: self.parameter.clone(),
            stamp: self.stamp.clone(),
        };
        let shaping =
            self.registry.as_ref().map(|registry| Shaping::new(registry, self.extension.datagrams));
        ConnectionState::new(setup, self.provided(bare), self.monitors_acks, shaping)
    }
}

/// Returns the capabilities of a stack that sends through a shaping socket. `bare` has the stack's
/// own capabilities.
pub const fn with_shaping_socket(bare: Capabilities) -> Capabilities {
    Capabilities { pacing: true, datagram: true, ..bare }
}
