//! Unmodified quiche under the traits of `fathom-stacks`, as a peer in tests.
//!
//! This is a separate crate because a feature of `fathom-stacks` would make the tests compile every
//! crate above it a second time.

#![cfg(feature = "quiche")]

// The driver's files refer to the shared items of `fathom-stacks` by these paths.
mod native {
    pub(crate) use fathom_stacks::{NativeClock, NativeMonitor, NativeWatch};
}
mod settings {
    pub(crate) use fathom_stacks::{
        BoringTls, EndpointSettings, Sessions, SetupError, TransportSettings,
    };
}
mod steering {
    pub(crate) use fathom_stacks::steering::Place;
}
mod traits {
    pub(crate) use fathom_stacks::{
        Close, CloseKind, Closer, ConnectError, Connecting, Connection, ConnectionStats,
        DatagramError, EarlyDataAccepted, Endpoint, Incoming, Monitor, ReadOrder,
    };
}

mod stock_quiche;

pub use stock_quiche::{Connecting, Connection, Endpoint, Incoming, RecvStream, SendStream, http};
