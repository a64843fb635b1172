//! Which connection a stack is at, where all connections of an endpoint share one configuration.
//!
//! Frameworks that own the accept loop take one configuration for all connections. A stack then starts a TLS session and builds a
//! controller for each connection, and says of neither whose it is. But one thread does both without another connection in between: it starts
//! the session, then builds the first controller; and it builds a later one, after a migration or for a path that the peer opened,
//! while it processes a packet that a key of ours has just opened. So each thread remembers the connection whose session it started, or whose packet it
//! opened, last. What a client opens by itself, a second path, is built at any time: [`Stack::disable_multipath`](crate::Stack::disable_multipath)
//! for shared configurations.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Weak};

use fathom_cc::Capabilities;

use crate::config::PluginError;
use crate::connection_state::ConnectionState;
use crate::core::Core;

thread_local! {
    static CURRENT: RefCell<Weak<ConnectionState>> = const { RefCell::new(Weak::new()) };
}

/// What the connections of an endpoint share that were not wired one by one.
pub struct SharedEndpoint {
    core: Core,
    /// What the stack provides by itself.
    bare: Capabilities,
}

impl fmt::Debug for SharedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedEndpoint({})", self.core.controller_config.spec())
    }
}

impl SharedEndpoint {
    pub(crate) const fn new(core: Core, bare: Capabilities) -> Self {
        Self { core, bare }
    }

    /// The state of a connection whose session starts on this thread now.
    pub(crate) fn start_connection(self: &Arc<Self>) -> Arc<ConnectionState> {
        let state = Arc::new(self.core.connection(self.bare, None).of_endpoint(self));
        state.enter();
        state
    }

    /// The state of a connection without a session of ours: no extension, and nothing that is read from packets.
    fn without_session(&self) -> Arc<ConnectionState> {
        Arc::new(self.core.connection_without_session(self.bare))
    }

    /// The state of the connection that this thread is at; of a new one without a session, where that is none of this endpoint's.
    fn current(self: &Arc<Self>) -> Arc<ConnectionState> {
        let current = CURRENT.with_borrow(Weak::upgrade);
        current.filter(|state| state.is_of(self)).unwrap_or_else(|| self.without_session())
    }
}

/// Where a stack's controllers get their connection from.
#[derive(Clone, Debug)]
pub enum ControllerSource {
    /// It is this one.
    Connection(Arc<ConnectionState>),
    /// It is whichever connection of the endpoint the calling thread is at.
    Endpoint(Arc<SharedEndpoint>),
}

impl ControllerSource {
    /// That of controllers under no session of ours.
    ///
    /// # Errors
    /// The controller needs what only a session brings: one-way delays.
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

    /// The connection whose session starts now, on this thread.
    pub(crate) fn start_connection(&self) -> Arc<ConnectionState> {
        match self {
            Self::Connection(state) => Arc::clone(state),
            Self::Endpoint(endpoint) => endpoint.start_connection(),
        }
    }

    /// The connection that a controller is built for now, on this thread.
    pub fn connection(&self) -> Arc<ConnectionState> {
        match self {
            Self::Connection(state) => Arc::clone(state),
            Self::Endpoint(endpoint) => endpoint.current(),
        }
    }
}

impl ConnectionState {
    /// This thread is at this connection, if it is one of a shared endpoint.
    pub(crate) fn enter(self: &Arc<Self>) {
        if self.endpoint().is_some() {
            CURRENT.with_borrow_mut(|current| {
                if !std::ptr::eq(current.as_ptr(), Arc::as_ptr(self)) {
                    *current = Arc::downgrade(self);
                }
            });
        }
    }

    fn is_of(&self, endpoint: &Arc<SharedEndpoint>) -> bool {
        self.endpoint().is_some_and(|own| Arc::ptr_eq(own, endpoint))
    }
}
