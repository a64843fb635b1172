//! QUIC extension frames.
