//! The simulation as QUIC stacks see it. A stack's types meet the simulation's here and nowhere else.

// `runtime.rs` is meant to be loaded twice: once on the types of each stack.
#![allow(clippy::duplicate_mod)]

#[cfg(feature = "noq")]
mod noq;
#[cfg(feature = "quinn")]
mod quinn;
