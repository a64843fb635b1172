//! The integration tests of this crate as one program, which links once: a file here is a module of it.

mod alloc;
mod stacks;
mod units;
mod variants;
