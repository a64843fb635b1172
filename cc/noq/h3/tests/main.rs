//! The integration tests of this crate as one program, which links only once. Each file here is a
//! module.

mod common;
mod datagram;
mod ends;
mod interop;
mod requests;
mod streams;
