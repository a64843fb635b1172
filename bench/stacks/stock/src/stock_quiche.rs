//! The driver of `fathom-stacks` on unmodified quiche's types. Unmodified quiche has only its own
//! controllers and neither ECN nor a settable clock. About the delivery of a stream's data it tells
//! only that both halves are over.

#[path = "../../src/quiche/coalesced.rs"]
mod coalesced;
#[path = "../../src/quiche/connection.rs"]
mod connection;
#[path = "../../src/quiche/endpoint.rs"]
mod endpoint;
#[path = "../../src/quiche/http.rs"]
pub mod http;
#[path = "../../src/quiche/native.rs"]
mod native;
#[path = "../../src/quiche/router.rs"]
mod router;
#[path = "../../src/quiche/send_batch.rs"]
mod send_batch;
#[path = "../../src/quiche/stateless.rs"]
mod stateless;
#[path = "../../src/quiche/stream.rs"]
mod stream;

use std::sync::Arc;
use std::time::Instant;

use fathom_plugin::{Clock, ConnectionMonitor, Extension, Observer};
use fathom_quiche_stock::quiche as stack;
use fathom_stacks::{Controller, ControllerError};

pub use self::connection::Connection;
pub use self::endpoint::{Connecting, Endpoint};
use self::native::{Quic, native, needs_pacing};
pub use self::router::Incoming;
pub use self::stream::{RecvStream, SendStream};

/// Placeholder: nothing takes these random numbers.
#[derive(Clone, Copy)]
struct ConnectionRng;

impl ConnectionRng {
    const fn new(_: u64) -> Self {
        Self
    }
}

fn run_at<T>(_: Instant, _: &mut ConnectionRng, work: impl FnOnce() -> T) -> T {
    work()
}

/// Configuration from which connections under one controller start.
struct Share(stack::CongestionControlAlgorithm);

impl Share {
    fn new(
        controller: &Controller,
        _: Extension,
        _: Option<&Arc<dyn Clock>>,
    ) -> Result<Self, ControllerError> {
        match controller {
            Controller::Native(name) => Ok(Self(native(name))),
            Controller::Fathom(_) => Err(ControllerError::Stock),
        }
    }

    const fn is_native(&self) -> bool {
        true
    }

    fn apply(&self, config: &mut stack::Config, _: Option<Arc<dyn Observer>>) {
        config.set_cc_algorithm(self.0);
        config.enable_pacing(needs_pacing(self.0));
    }
}

/// Delivery state of the data sent on a stream.
enum StreamDelivery {
    Open,
    #[allow(dead_code)] // Only the derived crate reports it.
    Acknowledged,
    Reset,
    Forgotten,
}

fn stream_delivery(quic: &mut Quic, stream: u64) -> StreamDelivery {
    match quic.stream_capacity(stream) {
        Ok(_) => StreamDelivery::Open,
        Err(stack::Error::StreamStopped(_)) => StreamDelivery::Reset,
        Err(_) => StreamDelivery::Forgotten,
    }
}

fn monitor(_: &Quic) -> Option<ConnectionMonitor> {
    None
}

fn send_state(_: &Quic) -> Option<(u64, bool)> {
    None
}

fn set_received_ecn(_: &mut Quic, _: u8) {}

fn ecn_to_send(_: &Quic) -> u8 {
    0
}
