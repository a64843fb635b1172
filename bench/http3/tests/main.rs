//! Servers and clients over a connection in memory.

mod allocations;
mod arbitrary;
mod connections;
mod h3spec;
mod malformed;
mod memory;
#[path = "../src/noise.rs"]
mod noise;
mod qifs;
mod violations;
