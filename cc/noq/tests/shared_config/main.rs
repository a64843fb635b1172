//! One configuration for all connections of an endpoint, as frameworks take it that accept and connect by themselves: each connection has
//! its own controller and delays all the same, on both stacks.

mod on_noq;
mod on_quinn;
