//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod common;
mod event_loops;
mod guard;
mod hostile;
mod load;
mod malformed;
mod priorities;
mod proxy;
mod proxy_attack;
mod reload;
mod serve;
mod tcp;
