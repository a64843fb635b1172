//! The simulation as the runtime of a stack with quinn's interface. Compiled once per such stack, on the types that `super` names.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Socket, stack};
use crate::sim::{Ecn, SimHandle, Sleep};

impl stack::Runtime for SimHandle {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn stack::AsyncTimer>> {
        Box::pin(Sleep::new(self.clone(), self.nanos_of(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn_boxed(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Socket> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the simulation has no operating-system sockets"))
    }

    fn now(&self) -> Instant {
        self.instant()
    }
}

impl stack::AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Sleep::reset(&self, at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}

/// The stack's codepoint.
pub(super) fn codepoint(ecn: Ecn) -> stack::udp::EcnCodepoint {
    match ecn {
        Ecn::Ect0 => stack::udp::EcnCodepoint::Ect0,
        Ecn::Ect1 => stack::udp::EcnCodepoint::Ect1,
        Ecn::Ce => stack::udp::EcnCodepoint::Ce,
    }
}

/// The simulation's codepoint.
pub(super) fn of_codepoint(ecn: stack::udp::EcnCodepoint) -> Ecn {
    match ecn {
        stack::udp::EcnCodepoint::Ect0 => Ecn::Ect0,
        stack::udp::EcnCodepoint::Ect1 => Ecn::Ect1,
        stack::udp::EcnCodepoint::Ce => Ecn::Ce,
    }
}
