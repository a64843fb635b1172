//! Checks whether a request's path stays below a folder, in every way in which an upstream server
//! may decode the path.
//!
//! The proxy forwards a path exactly as the client wrote it, but servers decode paths in different
//! ways. Some decode `%2e` twice, treat `\` or `%2f` as a separator, cut `;parameters` off a
//! segment, or accept overlong UTF-8. The check therefore considers every reading. The reading that
//! leads furthest up decides.

/// Returns whether `path` equals `prefix` or lies below it in every reading of its `..` segments.
/// The prefix ends at a segment boundary.
pub(crate) fn stays_below(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    let mut depth = 0_usize;
    for segment in rest.as_bytes().split(|byte| *byte == b'/') {
        let readings =
            [segment.to_vec(), decoded(segment, false), decoded(segment, true)].map(Parts::of);
        let up = readings.iter().map(|parts| parts.up).max().unwrap_or_default();
        if up > depth {
            return false;
        }
        // A segment leads down only if it is a name in every reading.
        let down = up == 0 && readings.iter().all(|parts| parts.named);
        depth = depth - up + usize::from(down);
    }
    true
}

/// Contents of one reading of a segment.
struct Parts {
    /// Number of `..` parts.
    up: usize,
    /// Whether there is also a name.
    named: bool,
}

impl Parts {
    fn of(reading: Vec<u8>) -> Self {
        let plain = without_disguise(&reading);
        let mut parts = Self { up: 0, named: false };
        for part in plain.split(|byte| matches!(byte, b'/' | b'\\')) {
            // A server may cut off a path's parameters, its query, and everything after a NUL byte.
            let cut = part
                .iter()
                .position(|byte| matches!(byte, b';' | b'?' | b'#' | 0))
                .unwrap_or(part.len());
            // A server may drop control characters and spaces.
            let shown = |part: &[u8]| -> Vec<u8> {
                part.iter().copied().filter(|byte| *byte > b' ' && *byte != 0x7f).collect()
            };
            let (cut, whole) = (shown(&part[..cut]), shown(part));
            if cut == b".." || whole == b".." {
                parts.up += 1;
            } else if !cut.is_empty() && cut != b"." {
                parts.named = true;
            }
        }
        parts
    }
}

/// Returns a segment percent-decoded once or until nothing is left to decode, including `%uHHHH`,
/// which some servers decode. The time is proportional to the length of the segment, even if it is
/// encoded many times.
fn decoded(segment: &[u8], fully: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(segment.len());
    // Bytes decoded before this offset are not decoded again.
    let mut settled = 0;
    for byte in segment {
        out.push(*byte);
        while let Some((length, code)) = last_escape(&out[settled..]) {
            out.truncate(out.len() - length);
            match (u8::try_from(code), char::from_u32(code)) {
                (Ok(byte), _) => out.push(byte),
                (Err(_), Some(letter)) => {
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes())
                }
                (Err(_), None) => out.push(b'_'),
            }
            if !fully {
                settled = out.len();
            }
        }
    }
    out
}

/// Returns the escape at the end of these bytes: its length and its value.
fn last_escape(bytes: &[u8]) -> Option<(usize, u32)> {
    let (length, digits) = match bytes {
        [.., b'%', b'u' | b'U', _, _, _, _] => (6, &bytes[bytes.len() - 4..]),
        [.., b'%', _, _] => (3, &bytes[bytes.len() - 2..]),
        _ => return None,
    };
    let code = digits
        .iter()
        .try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))?;
    Some((length, code))
}

/// Characters that some servers take for a dot or a separator: Unicode compatibility forms (NFKC),
/// and slashes that Windows maps to `/`.
const LOOKALIKES: [(&str, &[u8]); 10] = [
    ("\u{2024}", b"."),
    ("\u{2025}", b".."),
    ("\u{fe52}", b"."),
    ("\u{ff0e}", b"."),
    ("\u{2044}", b"/"),
    ("\u{2215}", b"/"),
    ("\u{ff0f}", b"/"),
    ("\u{2216}", b"\\"),
    ("\u{fe68}", b"\\"),
    ("\u{ff3c}", b"\\"),
];

/// Replaces overlong UTF-8 (RFC 3629 §10) and [`LOOKALIKES`] by the characters that servers take
/// them for.
fn without_disguise(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let (replaced, length) = match rest {
            [0xc0 | 0xc1, low, ..] => (vec![(first & 1) << 6 | low & 0x3f], 2),
            [0xe0, middle @ (0x80 | 0x81), low, ..] => (vec![(middle & 1) << 6 | low & 0x3f], 3),
            [0xf0, 0x80, middle @ (0x80 | 0x81), low, ..] => {
                (vec![(middle & 1) << 6 | low & 0x3f], 4)
            }
            [0xe2 | 0xef, ..] => {
                let found =
                    LOOKALIKES.iter().find(|(letter, _)| rest.starts_with(letter.as_bytes()));
                found.map_or_else(
                    || (vec![*first], 1),
                    |(letter, stands_for)| (stands_for.to_vec(), letter.len()),
                )
            }
            _ => {
                out.push(*first);
                rest = after;
                continue;
            }
        };
        out.extend_from_slice(&replaced);
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_the_prefix_are_detected_in_every_spelling() {
        for path in [
            "/api/../secret",
            "/api/..",
            "/api/a/../../secret",
            "/api/%2e%2e/secret",
            "/api/%2E./secret",
            "/api/.%2e/secret",
            "/api/..%2fsecret",
            "/api/a/..%2f..%2fsecret",
            "/api/..\\secret",
            "/api/..%5csecret",
            "/api/x\\..\\..\\secret",
            "/api/..;/secret",
            "/api/..;a=b/secret",
            "/api/..%3b/secret",
            "/api/%252e%252e/secret",
            "/api/%25252e%25252e%25252fsecret",
            "/api/%%32%65%%32%65/secret",
            "/api/%u002e%u002e/secret",
            "/api/%uff0e%uff0e/secret",
            "/api/%c0%ae%c0%ae/secret",
            "/api/%c0%2e%c0%2e/secret",
            "/api/%e0%80%ae%e0%80%ae/secret",
            "/api/%f0%80%80%ae./secret",
            "/api/..%c0%afsecret",
            "/api/..%c1%9csecret",
            "/api/%ef%bc%8e%ef%bc%8e%ef%bc%8fsecret",
            "/api/%e2%80%a5/secret",
            "/api/..%00/secret",
            "/api/..%00.png/secret",
            "/api/..%20/secret",
            "/api/.%09./secret",
            "/api/..%3f/secret",
            "/api/..%23/secret",
            "/api//../../secret",
            "/api/./../../secret",
            "/api/;/../secret",
            "/api/%2f/../secret",
            "/api/a%2fb/../../secret",
            "/api/a/../b/../../secret",
        ] {
            assert!(!stays_below(path, "/api"), "{path}");
        }
        // The upstream server may read `a%2f..` as one name or as two segments.
        assert!(!stays_below("/api/a%2f../x/../../y", "/api"));
        assert!(!stays_below("/other/x", "/api"));
    }

    #[test]
    fn paths_inside_the_prefix_are_accepted() {
        for path in [
            "/api",
            "/api/",
            "/api/a/b",
            "/api/a/../b",
            "/api/a/b/../../c",
            "/api/./a/../b",
            "/api/...",
            "/api/..a/a..",
            "/api/a..b/%2e",
            "/api/v1.0/x;y=..",
            "/api/caf%c3%a9/%e2%82%ac",
            "/api/100%/%zz/%",
            "/api/a%2fb/c",
            "/api/a%20b//c/",
            "/api/%25",
        ] {
            assert!(stays_below(path, "/api"), "{path}");
        }
        assert!(stays_below("/", "/") && stays_below("/a/../b", "/") && !stays_below("/../b", "/"));
        assert!(stays_below("/api/x", "/api/") && !stays_below("/api/../x", "/api/"));
    }

    #[test]
    fn checking_a_path_takes_linear_time() {
        // The path is as long as a request header may be. Decoding in rounds would scan it eight
        // thousand times.
        let path = format!("/api/%{}2e%2e/secret", "25".repeat(8_000));
        assert!(!stays_below(&path, "/api"));
        let path = format!("/api/{}", "..%2f".repeat(3_000));
        assert!(!stays_below(&path, "/api"));
    }
}
