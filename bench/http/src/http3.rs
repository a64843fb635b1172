//! Settings of HTTP/3 for both ends.

use fathom_http3::Config;
use fathom_http3::error::Code;

/// Code with which a connection is closed without an error (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = Code::H3_NO_ERROR.0 as u32;

/// Returns the configuration of a connection whose peer may send field sections of this many bytes,
/// and messages of this many bytes besides the body. The number of fields has no other limit,
/// because each takes at least 32 bytes (RFC 9114 §4.2.2).
pub(crate) fn config(section_bytes: u64, overhead: u64) -> Config {
    let mut config = Config::default();
    config.message.section.bytes = section_bytes;
    config.message.section.fields = usize::try_from(section_bytes / 32).unwrap_or(usize::MAX);
    config.message.overhead = overhead;
    config
}
