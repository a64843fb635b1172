//! Unchanged quiche under the traits of `fathom-stacks`, as a peer in tests.
//!
//! A crate of its own: a feature of `fathom-stacks` would compile everything above it a second time for the tests.

#![cfg(feature = "quiche")]

// The driver's files name what `fathom-stacks` shares by its place there.
mod native {
    pub(crate) use fathom_stacks::{NativeClock, NativeMonitor, NativeWatch};
}
mod settings {
    pub(crate) use fathom_stacks::{
        BoringTls, EndpointSettings, Sessions, SetupError, TransportSettings,
    };
}
mod traits {
    pub(crate) use fathom_stacks::{
        Close, CloseKind, Closer, Connecting, Connection, ConnectionStats, Delivery,
        EarlyDataAccepted, Endpoint, Incoming, Monitor, ReadOrder, RequestStream, SetPriority,
    };
}

mod stock_quiche;

pub use stock_quiche::{Connecting, Connection, Endpoint, Incoming, RecvStream, SendStream, h3};
