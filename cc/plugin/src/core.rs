//! What every connection of a plug-in starts from, on any stack.

use std::sync::Arc;

use fathom_cc::{Capabilities, ControllerConfig};

use crate::clock::Clock;
use crate::config::ConnectionConfig;
use crate::connection_state::ConnectionState;
use crate::extension::Extension;
use crate::report::Observer;
use crate::shaping::Shaping;
use crate::shaping_socket::TrailerRegistry;

/// What every connection of a plug-in starts from.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) controller_config: Arc<dyn ControllerConfig>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) extension: Extension,
    /// Bytes sent in place of our transport parameters.
    pub(crate) parameter: Option<Arc<[u8]>>,
    /// Bytes sent in place of our frame.
    pub(crate) stamp: Option<Arc<[u8]>>,
    /// Where the endpoint's datagrams are trimmed and held.
    pub(crate) registry: Option<Arc<TrailerRegistry>>,
    /// ACK frames are read, even where no controller needs them.
    pub(crate) monitors_acks: bool,
}

impl Core {
    /// What `bare` becomes with a shaping socket, if there is one.
    pub(crate) fn provided(&self, bare: Capabilities) -> Capabilities {
        if self.registry.is_some() { with_shaping_socket(bare) } else { bare }
    }

    /// What is left of `bare`, which a stack provides by itself, where packets are not sealed and opened by keys of ours: a shaping socket needs them, too.
    pub(crate) const fn without_session(bare: Capabilities) -> Capabilities {
        Capabilities { one_way: false, ecn: false, ..bare }
    }

    /// The state of a connection without a session of ours. Where the controller cannot do without, Reno takes its place: a connection is
    /// not the place to fail.
    pub(crate) fn connection_without_session(&self, bare: Capabilities) -> ConnectionState {
        let provided = Self::without_session(bare);
        let controller_config = if self.controller_config.check(provided).is_ok() {
            Some(Arc::clone(&self.controller_config))
        } else {
            let name = self.controller_config.name();
            tracing::warn!("controller '{name}' has no TLS session to read delays with; Reno runs");
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

    /// The state of a new connection, on a stack that provides `bare` by itself.
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

/// What a stack offers that sends through a shaping socket; `bare` is what it offers by itself.
pub const fn with_shaping_socket(bare: Capabilities) -> Capabilities {
    Capabilities { pacing: true, datagram: true, ..bare }
}
