//! The simulation as QUIC stacks see it. A stack's types meet the simulation's here and nowhere else.

#[cfg(feature = "noq")]
mod noq;
#[cfg(feature = "quiche")]
mod quiche;
#[cfg(feature = "quinn")]
mod quinn;
