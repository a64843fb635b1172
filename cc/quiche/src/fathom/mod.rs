//! What Fathom adds to quiche.

pub mod world;
