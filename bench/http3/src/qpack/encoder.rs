//! Encodes field sections with the static table (RFC 9204 §4.5).

use super::static_table::{Match, find};
use super::{FieldSection, integer};
use crate::huffman;

/// Fields that can be encoded.
pub trait Fields {
    /// Passes each field's name and value to `take`, in order, until it returns `false`. Returns
    /// whether all fields were taken.
    fn all(&self, take: impl FnMut(&[u8], &[u8]) -> bool) -> bool;
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> Fields for [(N, V)] {
    #[inline]
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        self.iter().all(|(name, value)| take(name.as_ref(), value.as_ref()))
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const COUNT: usize> Fields for [(N, V); COUNT] {
    #[inline]
    fn all(&self, take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        self[..].all(take)
    }
}

impl Fields for FieldSection {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        self.iter().all(|(name, value)| take(name, value))
    }
}

impl Fields for http::HeaderMap {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        self.iter().all(|(name, value)| take(name.as_str().as_bytes(), value.as_bytes()))
    }
}

impl Fields for http::Response<()> {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        take(b":status", self.status().as_str().as_bytes()) && self.headers().all(take)
    }
}

/// The pseudo-header fields come from the method and the URI (RFC 9114 §4.3.1). A request with the
/// method CONNECT has no `:scheme` and no `:path` unless it has a [`Protocol`], which makes it an
/// extended CONNECT (RFC 9220).
impl Fields for http::Request<()> {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        let uri = self.uri();
        let protocol = self.extensions().get::<Protocol>();
        let plain_connect = self.method() == http::Method::CONNECT && protocol.is_none();
        if !take(b":method", self.method().as_str().as_bytes()) {
            return false;
        }
        if !plain_connect && !take(b":scheme", uri.scheme_str().unwrap_or("https").as_bytes()) {
            return false;
        }
        if let Some(authority) = uri.authority()
            && !take(b":authority", authority.as_str().as_bytes())
        {
            return false;
        }
        if !plain_connect {
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            if !take(b":path", if path.is_empty() { b"/" } else { path.as_bytes() }) {
                return false;
            }
        }
        if let Some(protocol) = protocol
            && !take(b":protocol", protocol.0.as_bytes())
        {
            return false;
        }
        self.headers().all(take)
    }
}

/// Value of `:protocol`, as an extension of an [`http::Request`] (RFC 9220).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

/// Appends an encoded field section. Strings are Huffman-coded if that makes them shorter.
pub fn encode<F: Fields + ?Sized>(fields: &F, to: &mut Vec<u8>) {
    // No required insert count, and no base (§4.5.1).
    to.extend_from_slice(&[0, 0]);
    fields.all(|name, value| {
        match find(name, value) {
            // Indexed field line (§4.5.2).
            Some(Match::Field(entry)) => integer::write(6, 0xc0, entry.into(), to),
            // Literal field line with name reference (§4.5.4).
            Some(Match::Name(entry)) => {
                integer::write(4, 0x50, entry.into(), to);
                string(7, 0, value, to);
            }
            // Literal field line with literal name (§4.5.6).
            None => {
                string(3, 0x20, name, to);
                string(7, 0, value, to);
            }
        }
        true
    });
}

/// Appends a string literal (§4.1.2). `flags` has the bits before the Huffman bit, in place.
fn string(prefix: u32, flags: u8, text: &[u8], to: &mut Vec<u8>) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        integer::write(prefix, flags | 1 << prefix, length as u64, to);
        huffman::encode(text, to);
    } else {
        integer::write(prefix, flags, text.len() as u64, to);
        to.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, decode};
    use super::*;
    use crate::noise::{Noise, cases};

    fn fields<F: Fields + ?Sized>(fields: &F) -> Vec<(String, String)> {
        let (mut bytes, mut section) = (Vec::new(), FieldSection::new());
        encode(fields, &mut bytes);
        decode(&bytes, Limits::default(), &mut section).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        section.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn static_entries_take_one_or_two_bytes() {
        let mut bytes = Vec::new();
        encode(&[(":method", "GET"), (":status", "500"), (":path", "/")], &mut bytes);
        assert_eq!(bytes, b"\0\0\xd1\xff\x08\xc1");
    }

    #[test]
    fn requests_and_responses_become_fields() {
        let request = http::Request::get("https://a.test/b?c").header("x-d", "e").body(()).unwrap();
        let wanted = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a.test"),
            (":path", "/b?c"),
            ("x-d", "e"),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fields(&request), wanted);
        let request = http::Request::builder().method("CONNECT").uri("a.test:1").body(()).unwrap();
        assert_eq!(fields(&request), fields(&[(":method", "CONNECT"), (":authority", "a.test:1")]));
        let request = http::Request::builder()
            .method("CONNECT")
            .uri("https://a.test/chat")
            .extension(Protocol("websocket".into()))
            .body(())
            .unwrap();
        assert_eq!(fields(&request).last().unwrap().0, ":protocol");
        assert_eq!(fields(&request).len(), 5);
        let response = http::Response::builder().status(204).header("server", "x").body(());
        assert_eq!(fields(&response.unwrap()), fields(&[(":status", "204"), ("server", "x")]));
    }

    #[test]
    fn encoded_fields_round_trip() {
        let mut noise = Noise::new(10);
        for _ in 0..cases() {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = (0..noise.below(9))
                .map(|_| match noise.below(4) {
                    0 => (noise.bytes(30), noise.bytes(60)),
                    1 => (noise.text(30), noise.text(300)),
                    kind => {
                        let entry = super::super::STATIC_TABLE[noise.below(99)];
                        let value =
                            if kind == 2 { entry.1.as_bytes().to_vec() } else { noise.text(9) };
                        (entry.0.as_bytes().to_vec(), value)
                    }
                })
                .collect();
            let (mut bytes, mut section) = (Vec::new(), FieldSection::new());
            encode(&fields[..], &mut bytes);
            decode(&bytes, Limits { bytes: 1 << 20, fields: 100 }, &mut section).unwrap();
            assert!(section.iter().eq(fields.iter().map(|(n, v)| (&n[..], &v[..]))));
        }
    }
}
