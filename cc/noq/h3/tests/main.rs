//! The integration tests of this crate as one program, which links once: a file here is a module of it.

mod common;
mod datagram;
mod ends;
mod interop;
mod requests;
mod streams;
