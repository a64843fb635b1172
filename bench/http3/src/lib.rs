#![doc = include_str!("../README.md")]

pub mod client;
pub mod control;
pub mod convert;
pub mod datagram;
mod driver;
pub mod error;
pub mod fields;
pub mod frame;
pub mod huffman;
pub mod message;
#[cfg(test)]
mod noise;
pub mod priority;
pub mod qpack;
pub mod repeated;
pub mod server;
pub mod settings;
mod shared;
pub mod stream;
pub mod transport;
pub mod unidirectional;
pub mod varint;
mod wakers;

pub use shared::{Config, Error};
