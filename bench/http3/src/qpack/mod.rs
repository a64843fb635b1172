//! Field compression (RFC 9204).
//!
//! | file | contents |
//! |---|---|
//! | `section.rs` | [`FieldSection`]: decoded fields, and the decoder of field sections |
//! | `decoder.rs` | [`Decoder`]: the dynamic table of a decoder, and its two streams |
//! | `table.rs` | the dynamic table |
//! | `encoder.rs` | [`encode`]: the encoder, which uses the static table |
//! | `cache.rs` | [`Cache`]: encoded sections that repeat |
//! | `static_table.rs`, `integer.rs` | the static table, prefixed integers |

mod cache;
pub(crate) mod decoder;
mod encoder;
mod integer;
mod section;
mod static_table;
mod table;

pub use cache::Cache;
pub use decoder::{Decoded, Decoder};
pub use encoder::{Fields, Protocol, encode};
pub use section::{FieldSection, Limits, decode};

pub(crate) use section::NO_ENTRY;
pub(crate) use static_table::STATIC_TABLE;

/// Returns an encoded section of literals, for tests.
#[cfg(test)]
pub(crate) fn section_of_literals(fields: &[(&[u8], &[u8])], coded: bool) -> Vec<u8> {
    let mut to = vec![0, 0];
    let string = |prefix: u32, flags: u8, text: &[u8], to: &mut Vec<u8>| {
        let mut bytes = text.to_vec();
        if coded {
            bytes.clear();
            crate::huffman::encode(text, &mut bytes);
        }
        integer::write(prefix, flags | u8::from(coded) << prefix, bytes.len() as u64, to);
        to.extend_from_slice(&bytes);
    };
    for (name, value) in fields {
        string(3, 0x20, name, &mut to);
        string(7, 0, value, &mut to);
    }
    to
}
