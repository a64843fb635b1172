//! HTTP/3 over any QUIC stack.

pub mod control;
pub mod datagram;
pub mod error;
pub mod fields;
pub mod frame;
pub mod huffman;
pub mod message;
#[cfg(test)]
mod noise;
pub mod priority;
pub mod qpack;
pub mod settings;
pub mod unidirectional;
pub mod varint;
