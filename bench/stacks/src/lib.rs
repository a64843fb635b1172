//! QUIC stacks behind a common set of traits. Only this crate knows the stacks. The laboratory, the
//! server, the load generator and the interop endpoint use the traits.
//!
//! | file | contents |
//! |---|---|
//! | `stack.rs` | [`Stack`]: the stacks by name, and their capabilities |
//! | `dispatch.rs` | [`UseOfStack`]: work on a stack that the user chose |
//! | `controller.rs` | [`Controller`]: one of ours or a stack's own, as users write it |
//! | `traits.rs` | traits of endpoints, connection attempts and connections |
//! | `settings.rs` | settings of an endpoint |
//! | `steering.rs` | several endpoints at one address, and which packets belong to each |
//! | `native.rs` | observing a stack's own controller from outside |
//! | `quinn.rs`, `noq.rs` | differences between quinn and noq: names, numbers, signatures |
//! | `endpoint.rs`, `watched.rs` | traits and watched controllers; compiled once for each of quinn and noq |
//! | `http.rs`, `unordered.rs` | connections for HTTP/3, also compiled for each of quinn and noq |
//! | `quiche.rs`, `quiche/` | quiche and its driver |
//!
//! quiche does no I/O and has its own TLS. `quiche.rs` and `quiche/` drive it on the traits of
//! [`fathom_netsim::runtime`].

// `endpoint.rs`, `watched.rs` and the files of `quiche/` are deliberately loaded twice, each time
// with the types of another stack.
#![allow(clippy::duplicate_mod)]

mod controller;
mod dispatch;
mod native;
pub mod noq;
#[cfg(feature = "quiche")]
pub mod quiche;
pub mod quinn;
mod settings;
mod stack;
pub mod steering;
mod traits;

pub use controller::{Controller, ControllerError, ControllerSpec};
pub use dispatch::UseOfStack;
pub use native::{NativeBatch, NativeClock, NativeMonitor, NativeWatch};
#[cfg(feature = "quiche")]
pub use settings::{BoringTls, Sessions};
pub use settings::{EndpointSettings, SetupError, Tls, TransportSettings, UNLIMITED};
pub use stack::Stack;
pub use traits::{
    Close, CloseKind, Closer, ConnectError, Connecting, Connection, ConnectionStats, DatagramError,
    EarlyDataAccepted, Endpoint, Incoming, Monitor, ReadOrder,
};
