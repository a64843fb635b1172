//! SETTINGS frames (RFC 9114 §7.2.4).

use crate::error::{Code, ProtocolError};
use crate::{frame, varint};

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 §5).
const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
/// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §7.2.4.1).
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
/// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 §5).
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 §3).
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
/// SETTINGS_H3_DATAGRAM (RFC 9297 §2.1.1).
const H3_DATAGRAM: u64 = 0x33;

/// Reserved setting, which peers ignore: one of 31 N + 33 (RFC 9114 §7.2.4.1).
const RESERVED: u64 = 31 * 1_000 + 33;

/// Largest number of settings in a frame, known and unknown. Peers send less than ten.
const MOST: usize = 64;

/// Settings of one end. The default has the values that apply before SETTINGS arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Largest size of the decoder's dynamic table in bytes (RFC 9204 §5).
    pub qpack_max_table_capacity: u64,
    /// Largest number of streams that may wait for the dynamic table (RFC 9204 §5).
    pub qpack_blocked_streams: u64,
    /// Largest size of a field section in bytes (RFC 9114 §4.2.2); `None` if unlimited.
    pub max_field_section_size: Option<u64>,
    /// Whether a server accepts extended CONNECT (RFC 9220).
    pub enable_connect_protocol: bool,
    /// Whether HTTP datagrams are supported (RFC 9297).
    pub h3_datagram: bool,
}

impl Settings {
    /// Parses the payload of a SETTINGS frame. Unknown settings are ignored.
    ///
    /// # Errors
    /// Returns an error that ends the connection if a setting is cut off, repeated, invalid or one
    /// of HTTP/2.
    pub fn parse(mut payload: &[u8]) -> Result<Self, ProtocolError> {
        let error = |reason: String| ProtocolError::connection(Code::H3_SETTINGS_ERROR, reason);
        let mut settings = Self::default();
        let (mut seen, mut count) = ([0; MOST], 0);
        while !payload.is_empty() {
            let pair = varint::read(payload).and_then(|(name, first)| {
                let (value, second) = varint::read(&payload[first..])?;
                Some((name, value, first + second))
            });
            let Some((name, value, size)) = pair else {
                let reason = "a SETTINGS frame ends within a setting";
                return Err(ProtocolError::connection(Code::H3_FRAME_ERROR, reason));
            };
            payload = &payload[size..];
            if seen[..count].contains(&name) {
                return Err(error(format!("setting {name:#x} comes twice")));
            }
            let Some(free) = seen.get_mut(count) else {
                let reason = "a SETTINGS frame has too many settings";
                return Err(ProtocolError::connection(Code::H3_EXCESSIVE_LOAD, reason));
            };
            (*free, count) = (name, count + 1);
            let flag = || match value {
                0 | 1 => Ok(value == 1),
                _ => Err(error(format!("setting {name:#x} is {value} instead of 0 or 1"))),
            };
            match name {
                QPACK_MAX_TABLE_CAPACITY => settings.qpack_max_table_capacity = value,
                QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams = value,
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                ENABLE_CONNECT_PROTOCOL => settings.enable_connect_protocol = flag()?,
                H3_DATAGRAM => settings.h3_datagram = flag()?,
                // Settings of HTTP/2 (RFC 9114 §7.2.4.1, §11.2.2).
                0x0 | 0x2..=0x5 => return Err(error(format!("setting {name:#x} is of HTTP/2"))),
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Appends the SETTINGS frame, without settings that have their default value.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.write_frame(false, to);
    }

    /// Appends the SETTINGS frame, with a reserved setting if `grease` is set.
    pub(crate) fn write_frame(&self, grease: bool, to: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let pairs = [
            (QPACK_MAX_TABLE_CAPACITY, Some(self.qpack_max_table_capacity).filter(|v| *v > 0)),
            (QPACK_BLOCKED_STREAMS, Some(self.qpack_blocked_streams).filter(|v| *v > 0)),
            (MAX_FIELD_SECTION_SIZE, self.max_field_section_size),
            (ENABLE_CONNECT_PROTOCOL, self.enable_connect_protocol.then_some(1)),
            (H3_DATAGRAM, self.h3_datagram.then_some(1)),
            (RESERVED, grease.then_some(0)),
        ];
        for (name, value) in pairs {
            if let Some(value) = value {
                varint::write(name, &mut payload);
                varint::write(value, &mut payload);
            }
        }
        frame::write_header(frame::SETTINGS, payload.len() as u64, to);
        to.extend_from_slice(&payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn wrong_settings_get_the_codes_of_rfc_9114() {
        for (payload, wanted) in [
            (&b"\x06"[..], Some(Code::H3_FRAME_ERROR)),
            (b"\x06\x40", Some(Code::H3_FRAME_ERROR)),
            (b"\x06\x01\x06\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x21\x01\x21\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x00\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x02\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x03\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x05\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x08\x02", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x33\x02", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x01\x3f\x07\x10\x06\x3f\x33\x01\x08\x01\x21\x00", None),
            (b"", None),
        ] {
            let found = Settings::parse(payload);
            assert_eq!(found.as_ref().err().map(|error| error.code), wanted, "{payload:?}");
            assert!(found.err().is_none_or(|error| error.ends_connection()));
        }
    }

    #[test]
    fn too_many_settings_are_excessive_load() {
        let mut payload = Vec::new();
        for name in 0..=MOST as u64 {
            varint::write(0x21 + 0x1f * name, &mut payload);
            payload.push(0);
        }
        assert_eq!(Settings::parse(&payload).unwrap_err().code, Code::H3_EXCESSIVE_LOAD);
        let fewer = &payload[..payload.len() - 3];
        assert!(Settings::parse(fewer).is_ok());
    }

    #[test]
    fn written_settings_are_read_back() {
        let mut noise = Noise::new(3);
        for _ in 0..cases() {
            let settings = Settings {
                qpack_max_table_capacity: noise.next() >> 40,
                qpack_blocked_streams: noise.next() >> 60,
                max_field_section_size: Some(noise.next() >> 2).filter(|v| v % 2 == 0),
                enable_connect_protocol: noise.below(2) == 1,
                h3_datagram: noise.below(2) == 1,
            };
            let mut bytes = Vec::new();
            settings.write(&mut bytes);
            let header = frame::Header::read(&bytes).unwrap();
            assert_eq!(header.kind, frame::SETTINGS);
            assert_eq!(Settings::parse(&bytes[header.size..]), Ok(settings));
        }
    }

    #[test]
    fn reserved_setting_is_sent_on_request_and_ignored() {
        assert!(frame::is_reserved(RESERVED));
        let settings = Settings { h3_datagram: true, ..Settings::default() };
        let (mut plain, mut greased) = (Vec::new(), Vec::new());
        settings.write(&mut plain);
        settings.write_frame(true, &mut greased);
        assert_eq!(greased.len(), plain.len() + 5);
        assert_eq!(Settings::parse(&greased[2..]), Ok(settings));
    }

    #[test]
    fn arbitrary_settings_never_panic() {
        let mut noise = Noise::new(4);
        for _ in 0..cases() {
            let payload = noise.bytes(80);
            if let Ok(settings) = Settings::parse(&payload) {
                let mut bytes = Vec::new();
                settings.write(&mut bytes);
                let size = frame::Header::read(&bytes).unwrap().size;
                assert_eq!(Settings::parse(&bytes[size..]), Ok(settings));
            }
        }
    }
}
