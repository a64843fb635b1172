//! Work on a stack that the user chose, with the types of this stack.

#[cfg(feature = "quiche")]
use crate::settings::BoringTls;
use crate::settings::Tls;
use crate::stack::Stack;
use crate::traits::Endpoint;

/// Work on a stack that the user chose. It has a method for each kind of stack.
pub trait UseOfStack {
    /// Result of the work.
    type Output;

    /// Does the work on a QUIC stack whose TLS is rustls.
    fn on_rustls<E: Endpoint<Tls = Tls>>(self) -> Self::Output;

    /// Does the work on a QUIC stack whose TLS is BoringSSL.
    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) -> Self::Output;

    /// Does the work on packet-level TCP, which has no endpoints.
    fn on_tcp(self) -> Self::Output;
}

impl Stack {
    /// Does this work on the stack.
    pub fn with<U: UseOfStack>(self, work: U) -> U::Output {
        match self {
            Self::Quinn => work.on_rustls::<crate::quinn::Endpoint>(),
            Self::Noq => work.on_rustls::<crate::noq::Endpoint>(),
            #[cfg(feature = "quiche")]
            Self::Quiche => work.on_boring::<crate::quiche::Endpoint>(),
            Self::Tcp => work.on_tcp(),
        }
    }
}
