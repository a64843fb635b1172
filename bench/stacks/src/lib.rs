//! QUIC stacks under one set of traits. The one place that knows them: the laboratory, the server, the load generator and the interop
//! endpoint are written against the traits.
//!
//! | file | what is in it |
//! |---|---|
//! | `stack.rs` | [`Stack`]: the stacks by name, what each provides |
//! | `controller.rs` | [`Controller`]: one of ours or a stack's own, as users write it |
//! | `traits.rs` | what an endpoint, a connection attempt, a connection and its HTTP/3 streams can do |
//! | `settings.rs` | what an endpoint is made from |
//! | `native.rs` | watching a stack's own controller from outside |
//! | `quinn.rs`, `noq.rs` | what differs between the two: names, numbers, the signature of a controller |
//! | `endpoint.rs`, `watched.rs` | the traits for both, and how a controller of theirs is watched: compiled once per stack, on its types |
//! | `prioritised.rs`, `zeros.rs` | HTTP/3 whose streams have priorities, for both; what its streams send without a copy |
//! | `quiche.rs`, `quiche/` | quiche, and what runs it |
//!
//! quiche does no I/O and has its own TLS: `quiche.rs` and `quiche/` run it, on quinn's traits of a runtime and a socket.

// `endpoint.rs`, `watched.rs` and the files of `quiche/` are meant to be loaded twice: once on the types of each stack.
#![allow(clippy::duplicate_mod)]

mod controller;
mod native;
pub mod noq;
#[cfg(feature = "quiche")]
pub mod quiche;
pub mod quinn;
mod settings;
mod stack;
mod traits;
mod zeros;

pub use controller::Controller;
pub use native::{NativeBatch, NativeClock, NativeMonitor, NativeWatch};
#[cfg(feature = "quiche")]
pub use settings::{BoringTls, Sessions};
pub use settings::{EndpointSettings, SetupError, Tls, TransportSettings, UNLIMITED};
pub use stack::Stack;
pub use traits::{
    Close, CloseKind, Closer, Connecting, Connection, ConnectionStats, Delivery, EarlyDataAccepted,
    Endpoint, Incoming, Monitor, ReadOrder, RequestStream, SetPriority,
};
pub use zeros::ZEROS;
