//! The integration tests of this crate as one program, which links once: a file here is a module of it.

mod common;
mod guard;
mod hostile;
mod load;
mod malformed;
mod proxy;
mod proxy_attack;
mod reload;
mod serve;
mod tcp;
