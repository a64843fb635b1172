//! One configuration for all connections of an endpoint, as frameworks use that accept and connect
//! themselves. Each connection still has its own controller and delays, on both stacks.

mod on_noq;
mod on_quinn;
