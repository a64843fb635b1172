//! The simulation as a runtime for QUIC stacks and for tokio programs. The types of stacks and of
//! tokio are used only in this folder.

// `runtime.rs` is loaded twice on purpose, once with the types of each stack.
#![allow(clippy::duplicate_mod)]

#[cfg(feature = "noq")]
mod noq;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "tokio")]
mod tokio;
