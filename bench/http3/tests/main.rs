//! Servers and clients over a connection in memory.

mod allocations;
mod connections;
mod memory;
mod qifs;
mod violations;
