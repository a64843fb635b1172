//! Syntax of names and values.

/// Returns whether a text has control characters other than HTAB, which are allowed nowhere
/// (RFC 9114 §10.3, RFC 9110 §5.5). Looks at eight bytes at a time.
#[inline]
pub(super) fn has_control_character(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
    // Sets the highest bit of each byte that is less than `limit`, or of none. Bytes above ASCII
    // are not less.
    let less = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    let suspicious = words.iter().fold(0, |found, word| {
        let word = u64::from_le_bytes(*word);
        found | less(word, 0x20) | less(word ^ (ONES * 0x7f), 1)
    });
    // HTAB is rare, so it takes the slow path.
    rest.iter().any(is_control) || (suspicious != 0 && text.iter().any(is_control))
}

/// Characters of a token (RFC 9110 §5.6.2).
pub(super) const TOKEN: u8 = 1;
/// The same without uppercase letters.
pub(super) const LOWER_TOKEN: u8 = 2;
/// Characters of a registered name except escapes (RFC 3986 §3.2.2).
const REGISTERED_NAME: u8 = 8;
/// Characters of a path with a query and without a fragment. It may have bytes above ASCII,
/// because some clients do not encode them.
const PATH: u8 = 16;
/// Characters of a scheme (RFC 3986 §3.1).
const SCHEME: u8 = 32;

static CHARACTERS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let token = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.')
            || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~');
        if token {
            sets[at] |= TOKEN;
        }
        if token && !byte.is_ascii_uppercase() {
            sets[at] |= LOWER_TOKEN;
        }
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(byte, b'*' | b'+' | b',' | b';' | b'=')
        {
            sets[at] |= REGISTERED_NAME;
        }
        if !matches!(byte, 0..=32 | b'#' | 127) {
            sets[at] |= PATH;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') {
            sets[at] |= SCHEME;
        }
        at += 1;
    }
    sets
};

/// Returns whether all characters belong to a set.
#[inline]
pub(super) fn all(text: &[u8], set: u8) -> bool {
    text.iter().fold(set, |sets, byte| sets & CHARACTERS[usize::from(*byte)]) != 0
}

/// Returns a status of three digits, at least 100, or 0 if the value is none.
pub(super) fn status(value: &[u8]) -> u16 {
    match value {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

/// Returns the value of a `content-length` field, or `None` if it is not a number (RFC 9110 §8.6).
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    let mut length = (!value.is_empty()).then_some(0_u64)?;
    for digit in value {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        length = length.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(length)
}

/// Returns whether the value is a scheme (RFC 3986 §3.1).
pub(super) fn is_scheme(value: &[u8]) -> bool {
    value == b"https" || (value.first().is_some_and(u8::is_ascii_alphabetic) && all(value, SCHEME))
}

/// Returns whether the value is `*`, or a path with an optional query and without a fragment.
pub(super) fn is_path(value: &[u8]) -> bool {
    value == b"*" || (value.first() == Some(&b'/') && all(value, PATH))
}

/// Returns whether `authority` is `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2) with a
/// non-empty host.
pub fn is_host_and_port(authority: &[u8]) -> bool {
    let (host, port) = match authority {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let literal = std::str::from_utf8(&rest[..end])
                .ok()
                .and_then(|text| text.parse::<std::net::Ipv6Addr>().ok());
            if literal.is_none() {
                return false;
            }
            (&b"ipv6"[..], &rest[end + 1..])
        }
        _ => authority
            .split_at(authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len())),
    };
    let port = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    port && !host.is_empty() && is_registered_name(host)
}

/// Returns whether `host` has only unreserved characters, sub-delimiters and escapes
/// (RFC 3986 §3.2.2).
fn is_registered_name(host: &[u8]) -> bool {
    if all(host, REGISTERED_NAME) {
        return true;
    }
    let mut rest = host;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            (byte, _) if all(&[*byte], REGISTERED_NAME) => after,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_found_anywhere() {
        for length in 1..30 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let wanted = matches!(byte, 0..=8 | 10..=31 | 127);
                    assert_eq!(has_control_character(&text), wanted, "{byte} of {length}");
                }
            }
        }
    }
}
