//! QPACK's static table (RFC 9204 Appendix A).

/// Names and values by index.
pub(crate) static STATIC_TABLE: [(&str, &str); 99] = ENTRY_LIST;

const ENTRY_LIST: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Number of entries.
const ENTRIES: usize = ENTRY_LIST.len();
/// No entry.
const NONE: u8 = u8::MAX;
/// Slots of the hash table of names; a power of two.
const SLOTS: usize = 256;

/// Index of the entries by name, computed when the crate is compiled.
struct Names {
    /// First entry of the name in each slot, or [`NONE`]. A name whose slot is taken is in one of
    /// the next slots.
    slots: [u8; SLOTS],
    /// Next entry with the same name, or [`NONE`].
    next: [u8; ENTRIES],
}

static NAMES: Names = names();

/// Returns the slot of a name, which is not empty.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let (first, middle, last) = (name[0], name[name.len() / 2], name[name.len() - 1]);
    let hash = (name.len() as u32)
        .wrapping_mul(0x9e37)
        .wrapping_add(first as u32 * 31)
        .wrapping_add(middle as u32 * 157)
        .wrapping_add(last as u32 * 7);
    (hash ^ hash >> 8) as usize % SLOTS
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    a.len() == b.len()
}

const fn names() -> Names {
    let mut names = Names { slots: [NONE; SLOTS], next: [NONE; ENTRIES] };
    let mut last = [NONE; ENTRIES];
    let mut entry = 0;
    while entry < ENTRIES {
        let name = ENTRY_LIST[entry].0.as_bytes();
        let mut at = slot(name);
        loop {
            let first = names.slots[at];
            if first == NONE {
                names.slots[at] = entry as u8;
                last[entry] = entry as u8;
                break;
            }
            if equal(ENTRY_LIST[first as usize].0.as_bytes(), name) {
                names.next[last[first as usize] as usize] = entry as u8;
                last[first as usize] = entry as u8;
                break;
            }
            at = (at + 1) % SLOTS;
        }
        entry += 1;
    }
    names
}

/// Entry of the static table that serves a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The entry has this name and value.
    Field(u8),
    /// The entry has this name and another value.
    Name(u8),
}

/// Returns the entry for a field, if one has at least its name.
#[inline]
pub(crate) fn find(name: &[u8], value: &[u8]) -> Option<Match> {
    if name.is_empty() {
        return None;
    }
    let mut at = slot(name);
    let first = loop {
        let first = NAMES.slots[at];
        if first == NONE {
            return None;
        }
        if STATIC_TABLE[usize::from(first)].0.as_bytes() == name {
            break first;
        }
        at = (at + 1) % SLOTS;
    };
    let mut entry = first;
    while entry != NONE {
        if STATIC_TABLE[usize::from(entry)].1.as_bytes() == value {
            return Some(Match::Field(entry));
        }
        entry = NAMES.next[usize::from(entry)];
    }
    Some(Match::Name(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_rfc_9204_appendix_a() {
        for (index, name, value) in [
            (0, ":authority", ""),
            (17, ":method", "GET"),
            (24, ":status", "103"),
            (55, "range", "bytes=0-"),
            (58, "strict-transport-security", "max-age=31536000; includesubdomains; preload"),
            (63, ":status", "100"),
            (
                85,
                "content-security-policy",
                "script-src 'none'; object-src 'none'; base-uri 'none'",
            ),
            (98, "x-frame-options", "sameorigin"),
        ] {
            assert_eq!(STATIC_TABLE[index], (name, value));
        }
    }

    #[test]
    fn every_entry_is_found_by_name_and_by_field() {
        for (index, (name, value)) in STATIC_TABLE.iter().enumerate() {
            let found = find(name.as_bytes(), value.as_bytes());
            assert_eq!(found, Some(Match::Field(index as u8)), "{name}: {value}");
            let Some(Match::Name(first)) = find(name.as_bytes(), b"another value") else {
                panic!("{name}")
            };
            assert_eq!(STATIC_TABLE[usize::from(first)].0, *name);
        }
        assert_eq!(find(b"", b""), None);
        assert_eq!(find(b"x-unknown", b""), None);
    }
}
