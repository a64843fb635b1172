//! The integration tests of this crate as one program, which is linked once. Each file is a module.

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
