//! Servers and clients over a connection in memory.

mod allocations;
mod connections;
mod h3spec;
mod malformed;
mod memory;
mod qifs;
mod violations;
