//! Finds the connection that a stack is processing when all connections of an endpoint share one
//! configuration.
//!
//! Frameworks that own the accept loop take one configuration for all connections. For each
//! connection, the stack then starts a TLS session and builds a controller, without naming the
//! connection to which they belong. However, one thread first starts the session and then builds
//! the first controller, without processing another connection in between. The stack builds later
//! controllers, after a migration or for a path that the peer opened, while it processes a packet
//! that one of our keys has just opened. Each thread therefore remembers the connection whose
//! session it started, or whose packet it opened, last.
//!
//! A client may open a second path by itself at any time. The path's controller is then built
//! outside of this order. Therefore, shared configurations call
//! [`Stack::disable_multipath`](crate::Stack::disable_multipath).

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Weak};

use fathom_cc::Capabilities;

use crate::config::PluginError;
use crate::connection_state::{ConnectionState, EndpointId};
use crate::core::Core;

thread_local! {
    static CURRENT: RefCell<Weak<ConnectionState>> = const { RefCell::new(Weak::new()) };
}

/// Settings shared by all connections of an endpoint that were not configured one by one.
pub struct SharedEndpoint {
    id: EndpointId,
    core: Core,
    /// Capabilities that the stack itself provides.
    bare: Capabilities,
}

impl fmt::Debug for SharedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedEndpoint({})", self.core.controller_config.spec())
    }
}

impl SharedEndpoint {
    pub(crate) fn new(core: Core, bare: Capabilities) -> Self {
        Self { id: EndpointId::default(), core, bare }
    }

    /// Creates the state of a connection whose session starts on this thread now.
    pub(crate) fn start_connection(&self) -> Arc<ConnectionState> {
        let state = Arc::new(self.core.connection(self.bare, None).of_endpoint(&self.id));
        state.enter();
        state
    }

    /// Creates the state of a connection without a session of ours. Such a connection has no
    /// extension, and its packets are not read.
    fn without_session(&self) -> Arc<ConnectionState> {
        Arc::new(self.core.connection_without_session(self.bare))
    }

    /// Returns the state of the connection that this thread is processing. If this connection
    /// belongs to another endpoint, returns the state of a new connection without a session.
    fn current(&self) -> Arc<ConnectionState> {
        let current = CURRENT.with_borrow(Weak::upgrade);
        current.filter(|state| state.is_of(&self.id)).unwrap_or_else(|| self.without_session())
    }
}

/// Source of the connection for a stack's controllers.
#[derive(Clone, Debug)]
pub enum ControllerSource {
    /// A known connection.
    Connection(Arc<ConnectionState>),
    /// The connection of the endpoint that the calling thread is processing.
    Endpoint(Arc<SharedEndpoint>),
}

impl ControllerSource {
    /// Returns the source for controllers without a session of ours.
    ///
    /// # Errors
    /// Returns an error if the controller requires one-way delays, ECN counts or a shaping socket,
    /// which all need a session.
    pub(crate) fn without_sessions(core: &Core, bare: Capabilities) -> Result<Self, PluginError> {
        let provided = Core::without_session(bare);
        core.controller_config.check(provided).map_err(|missing| match missing {
            _ if core.controller_config.required().one_way => {
                PluginError::NeedsSession(core.controller_config.name())
            }
            missing => PluginError::Missing { missing, shaping_socket_suffices: false },
        })?;
        Ok(Self::Endpoint(Arc::new(SharedEndpoint::new(core.clone(), bare))))
    }

    /// Returns the connection whose session starts on this thread now.
    pub(crate) fn start_connection(&self) -> Arc<ConnectionState> {
        match self {
            Self::Connection(state) => Arc::clone(state),
            Self::Endpoint(endpoint) => endpoint.start_connection(),
        }
    }

    /// Returns the connection for which a controller is built on this thread now.
    pub fn connection(&self) -> Arc<ConnectionState> {
        match self {
            Self::Connection(state) => Arc::clone(state),
            Self::Endpoint(endpoint) => endpoint.current(),
        }
    }
}

impl ConnectionState {
    /// Marks this connection as the one that the thread is processing, if it belongs to a shared
    /// endpoint.
    pub(crate) fn enter(self: &Arc<Self>) {
        if self.endpoint().is_some() {
            CURRENT.with_borrow_mut(|current| {
                if !std::ptr::eq(current.as_ptr(), Arc::as_ptr(self)) {
                    *current = Arc::downgrade(self);
                }
            });
        }
    }

    fn is_of(&self, endpoint: &EndpointId) -> bool {
        self.endpoint().is_some_and(|own| own.is(endpoint))
    }
}
