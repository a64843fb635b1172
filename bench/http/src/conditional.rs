//! Conditional requests and ranges of served content (RFC 9110 §13, §14), for every version of
//! HTTP.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Method};

/// The content currently served under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    /// Length in bytes.
    pub(crate) length: u64,
    /// Validators; `None` for synthetic content.
    pub(crate) validators: Option<Validators>,
}

/// Values that distinguish the states of a file (RFC 9110 §8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Strong entity tag, including the quotation marks.
    etag: String,
    /// Modification time in whole seconds since 1970, as in HTTP dates; `None` before 1970.
    modified: Option<u64>,
}

impl Validators {
    /// Returns the validators of a file. The arguments are its inode number, its length, and the
    /// times of the last changes of its content and attributes, in nanoseconds since 1970. Nobody
    /// can set back the time of the attribute change, and another file has another inode number.
    /// Two states of a file therefore share a tag only if both lie within one tick of the kernel's
    /// clock, which is a few milliseconds.
    pub(crate) fn new(inode: u64, length: u64, modified_ns: i128, changed_ns: i128) -> Self {
        let etag = format!("\"{inode:x}-{length:x}-{modified_ns:x}-{changed_ns:x}\"");
        Self { etag, modified: u64::try_from(modified_ns / 1_000_000_000).ok() }
    }
}

/// Part of a representation that answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The whole representation (status 200).
    Whole,
    /// These bytes of the representation (status 206).
    Part(Range<u64>),
    /// No content, because the client already has the representation (status 304).
    NotModified,
    /// No content, because the representation is not the one that the client expects (status 412).
    PreconditionFailed,
    /// No content, because the representation does not have the requested bytes (status 416).
    Unsatisfiable,
}

/// Conditions and range of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    if_match: Vec<HeaderValue>,
    if_none_match: Vec<HeaderValue>,
    if_unmodified_since: Option<u64>,
    if_modified_since: Option<u64>,
    range: Option<ByteRange>,
    if_range: Option<HeaderValue>,
}

impl Conditions {
    /// Reads the conditions of a GET or HEAD request. Ignores dates and ranges that are invalid or
    /// occur several times.
    pub(crate) fn read(method: &Method, headers: &HeaderMap) -> Self {
        let all = |name: HeaderName| headers.get_all(name).iter().cloned().collect();
        let date = |name: HeaderName| {
            let date = httpdate::parse_http_date(only(headers, &name)?.to_str().ok()?).ok()?;
            date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
        };
        // Ranges are defined for GET only (RFC 9110 §14.2).
        let range = only(headers, &RANGE).filter(|_| method == Method::GET);
        Self {
            if_match: all(IF_MATCH),
            if_none_match: all(IF_NONE_MATCH),
            if_unmodified_since: date(IF_UNMODIFIED_SINCE),
            if_modified_since: date(IF_MODIFIED_SINCE),
            range: range.and_then(|range| ByteRange::read(range.as_bytes())),
            if_range: headers.get(IF_RANGE).cloned(),
        }
    }

    /// Selects the response, in the order of RFC 9110 §13.2.2.
    pub(crate) fn select(&self, of: &Representation) -> Selection {
        let etag = of.validators.as_ref().map(|validators| validators.etag.as_bytes());
        let modified = of.validators.as_ref().and_then(|validators| validators.modified);
        let after = |date: &Option<u64>| date.zip(modified).map(|(date, modified)| modified > date);
        if !self.if_match.is_empty() {
            if !names(&self.if_match, etag, Comparison::Strong) {
                return Selection::PreconditionFailed;
            }
        } else if after(&self.if_unmodified_since) == Some(true) {
            return Selection::PreconditionFailed;
        }
        if !self.if_none_match.is_empty() {
            if names(&self.if_none_match, etag, Comparison::Weak) {
                return Selection::NotModified;
            }
        } else if after(&self.if_modified_since) == Some(false) {
            return Selection::NotModified;
        }
        match self.range {
            Some(range) if self.if_range.as_ref().is_none_or(|value| is_current(value, of)) => {
                range.select(of.length)
            }
            _ => Selection::Whole,
        }
    }
}

/// Returns the value of a field that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut all = headers.get_all(name).iter();
    all.next().filter(|_| all.next().is_none())
}

/// Comparison of entity tags (RFC 9110 §8.8.3.2). Our own tag is strong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Returns whether the lists of entity tags contain `etag`, or are `*`, which matches any tag.
fn names(lists: &[HeaderValue], etag: Option<&[u8]>, comparison: Comparison) -> bool {
    lists.iter().any(|list| {
        let list = list.as_bytes().trim_ascii();
        list == b"*"
            || etags(list)
                .any(|(weak, tag)| etag == Some(tag) && (!weak || comparison == Comparison::Weak))
    })
}

/// Returns the entity tags of a list up to the first invalid one, and whether each is weak.
fn etags(mut list: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', rest @ ..] = list {
            list = rest;
        }
        let (weak, tag) = match list {
            [b'W', b'/', rest @ ..] => (true, rest),
            tag => (false, tag),
        };
        let inner = tag.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        let (tag, rest) = tag.split_at(end + 2);
        list = rest;
        Some((weak, tag))
    })
}

/// Returns whether an `If-Range` matches the current representation (RFC 9110 §13.1.5). It must
/// have the same tag, or exactly the same date.
fn is_current(value: &HeaderValue, of: &Representation) -> bool {
    let Some(validators) = &of.validators else { return false };
    let text = value.as_bytes().trim_ascii();
    if text.starts_with(b"\"") || text.starts_with(b"W/") {
        return text == validators.etag.as_bytes();
    }
    let date = value.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
    let seconds =
        date.and_then(|date| date.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    seconds.is_some() && seconds == validators.modified
}

/// One requested range of bytes (RFC 9110 §14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteRange {
    /// All bytes from the first position on, or up to and including the second position if there is
    /// one.
    From(u64, Option<u64>),
    /// This many bytes at the end of the representation.
    Suffix(u64),
}

impl ByteRange {
    /// Reads a range. Returns `None` for an invalid range, for other units, and for several ranges,
    /// which a server may ignore (RFC 9110 §14.2).
    fn read(value: &[u8]) -> Option<Self> {
        let (unit, range) = value.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let range = range.trim_ascii();
        let (first, last) = range.split_at(range.iter().position(|byte| *byte == b'-')?);
        match (first.trim_ascii_end(), last[1..].trim_ascii_start()) {
            (b"", last) => number(last).map(Self::Suffix),
            (first, b"") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    fn select(self, length: u64) -> Selection {
        match self {
            Self::From(first, _) if first >= length => Selection::Unsatisfiable,
            Self::From(first, last) => {
                let end = last.map_or(length, |last| last.saturating_add(1).min(length));
                Selection::Part(first..end)
            }
            Self::Suffix(0) => Selection::Unsatisfiable,
            // An empty representation has no parts, so a suffix of it is the whole representation.
            Self::Suffix(_) if length == 0 => Selection::Whole,
            Self::Suffix(bytes) => Selection::Part(length.saturating_sub(bytes)..length),
        }
    }
}

/// Returns the value of a string of digits, capped at `u64::MAX`, or `None` if the string has other
/// characters.
fn number(text: &[u8]) -> Option<u64> {
    let digit =
        |value: u64, byte: &u8| value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    (!text.is_empty() && text.iter().all(u8::is_ascii_digit)).then(|| text.iter().fold(0, digit))
}

/// Adds the fields that describe a representation: its validators and support for ranges.
pub(crate) fn describe(of: &Representation, headers: &mut HeaderMap) {
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let Some(validators) = &of.validators else { return };
    if let Ok(etag) = HeaderValue::try_from(validators.etag.as_str()) {
        headers.insert(ETAG, etag);
    }
    let date = validators
        .modified
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    // HTTP dates have years with exactly four digits.
    let last = Duration::from_secs(253_402_300_799);
    let date = date.filter(|date| date.duration_since(UNIX_EPOCH).is_ok_and(|since| since <= last));
    if let Some(Ok(date)) = date.map(|date| HeaderValue::try_from(httpdate::fmt_http_date(date))) {
        headers.insert(LAST_MODIFIED, date);
    }
}

/// Adds `content-range` for these bytes, or for a range that cannot be satisfied.
pub(crate) fn add_content_range(part: Option<&Range<u64>>, length: u64, headers: &mut HeaderMap) {
    let value = match part {
        Some(part) => format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1)),
        None => format!("bytes */{length}"),
    };
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(CONTENT_RANGE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Returns a representation of 1,000 bytes, last modified Sun, 06 Nov 1994 08:49:37 GMT
    /// (RFC 9110 §5.6.7).
    fn file() -> Representation {
        let validators =
            Validators::new(42, 1_000, 784_111_777_500_000_000, 784_111_777_600_000_000);
        Representation { length: 1_000, validators: Some(validators) }
    }

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";
    const TAG: &str = "\"2a-3e8-ae1b981da166f00-ae1b981e00c5000\"";

    fn select_with(method: &Method, of: &Representation, fields: &[(&str, &str)]) -> Selection {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        Conditions::read(method, &headers).select(of)
    }

    fn select(fields: &[(&str, &str)]) -> Selection {
        select_with(&Method::GET, &file(), fields)
    }

    #[test]
    fn header_fields_describe_the_served_file() {
        let mut headers = HeaderMap::new();
        describe(&file(), &mut headers);
        assert_eq!(
            (&headers["last-modified"], &headers["accept-ranges"]),
            (&THEN.parse().unwrap(), &"bytes".parse().unwrap())
        );
        assert_eq!(headers["etag"], *TAG);
        let mut headers = HeaderMap::new();
        describe(
            &Representation { length: 1, validators: Some(Validators::new(1, 1, -5, i128::MAX)) },
            &mut headers,
        );
        assert!(headers.contains_key("etag"));
        describe(
            &Representation { length: 1, validators: Some(Validators::new(1, 1, i128::MAX, 0)) },
            &mut headers,
        );
    }

    #[test]
    fn range_header_selects_bytes_of_the_file() {
        let part = |from, to| Selection::Part(from..to);
        for (range, selected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=0-499", part(0, 500)),
            ("BYTES=500-", part(500, 1_000)),
            ("bytes=999-5000", part(999, 1_000)),
            ("bytes=0-99999999999999999999999", part(0, 1_000)),
            ("bytes=-1", part(999, 1_000)),
            ("bytes=-5000", part(0, 1_000)),
            ("bytes=1000-", Selection::Unsatisfiable),
            ("bytes=99999999999999999999999-", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            // Invalid ranges, ranges in other units and lists of several ranges are ignored.
            ("bytes=5-2", Selection::Whole),
            ("bytes=", Selection::Whole),
            ("bytes=-", Selection::Whole),
            ("bytes=a-b", Selection::Whole),
            ("bytes=+1-2", Selection::Whole),
            ("bytes 0-1", Selection::Whole),
            ("lines=0-1", Selection::Whole),
            ("bytes=0-1,3-4", Selection::Whole),
            ("", Selection::Whole),
        ] {
            assert_eq!(select(&[("range", range)]), selected, "{range}");
        }
        assert_eq!(select(&[("range", "bytes=0-1"), ("range", "bytes=3-4")]), Selection::Whole);
        assert_eq!(
            select_with(&Method::HEAD, &file(), &[("range", "bytes=0-1")]),
            Selection::Whole
        );
        let nothing = Representation { length: 0, validators: None };
        assert_eq!(
            select_with(&Method::GET, &nothing, &[("range", "bytes=0-")]),
            Selection::Unsatisfiable
        );
        assert_eq!(select_with(&Method::GET, &nothing, &[("range", "bytes=-5")]), Selection::Whole);
    }

    #[test]
    fn preconditions_are_evaluated_in_the_order_of_rfc_9110() {
        let (weak, other) = (format!("W/{TAG}"), "\"other\"");
        let list = format!("\"a, b\" , {TAG},");
        let part = Selection::Part(0..2);
        for (fields, selected) in [
            (&[("if-match", TAG)][..], Selection::Whole),
            (&[("if-match", "*")], Selection::Whole),
            (&[("if-match", &list)], Selection::Whole),
            (&[("if-match", other), ("if-match", TAG)], Selection::Whole),
            (&[("if-match", &weak)], Selection::PreconditionFailed),
            (&[("if-match", other)], Selection::PreconditionFailed),
            (&[("if-match", "no tag")], Selection::PreconditionFailed),
            // If-Match overrides If-Unmodified-Since.
            (&[("if-match", TAG), ("if-unmodified-since", BEFORE)], Selection::Whole),
            (&[("if-unmodified-since", BEFORE)], Selection::PreconditionFailed),
            (&[("if-unmodified-since", THEN)], Selection::Whole),
            (&[("if-unmodified-since", "no date")], Selection::Whole),
            (&[("if-none-match", TAG)], Selection::NotModified),
            (&[("if-none-match", &weak)], Selection::NotModified),
            (&[("if-none-match", "*")], Selection::NotModified),
            (&[("if-none-match", &list)], Selection::NotModified),
            (&[("if-none-match", other)], Selection::Whole),
            // If-None-Match overrides If-Modified-Since.
            (&[("if-none-match", other), ("if-modified-since", AFTER)], Selection::Whole),
            (&[("if-modified-since", AFTER)], Selection::NotModified),
            (&[("if-modified-since", THEN)], Selection::NotModified),
            (&[("if-modified-since", BEFORE)], Selection::Whole),
            (&[("if-modified-since", "yesterday")], Selection::Whole),
            // The first failing condition decides.
            (&[("if-match", other), ("if-none-match", TAG)], Selection::PreconditionFailed),
            (&[("if-none-match", TAG), ("range", "bytes=0-1")], Selection::NotModified),
            (&[("range", "bytes=0-1"), ("if-range", TAG)], part.clone()),
            (&[("range", "bytes=0-1"), ("if-range", THEN)], part.clone()),
            (&[("range", "bytes=0-1"), ("if-match", TAG)], part),
            (&[("range", "bytes=0-1"), ("if-range", &weak)], Selection::Whole),
            (&[("range", "bytes=0-1"), ("if-range", other)], Selection::Whole),
            (&[("range", "bytes=0-1"), ("if-range", AFTER)], Selection::Whole),
            (&[("range", "bytes=5000-"), ("if-range", other)], Selection::Whole),
            (&[("if-range", TAG)], Selection::Whole),
        ] {
            assert_eq!(select(fields), selected, "{fields:?}");
        }
        let synthetic = Representation { length: 10, validators: None };
        let of = |fields| select_with(&Method::GET, &synthetic, fields);
        assert_eq!(of(&[("if-match", "\"a\"")]), Selection::PreconditionFailed);
        assert_eq!(of(&[("if-modified-since", THEN)]), Selection::Whole);
        assert_eq!(of(&[("range", "bytes=0-1"), ("if-range", THEN)]), Selection::Whole);
        assert_eq!(of(&[("range", "bytes=8-20")]), Selection::Part(8..10));
    }

    proptest! {
        #[test]
        fn range_selection_never_panics(
            range in "(bytes=)?[0-9-]{0,12}", tags in "[W/\"a, *]{0,12}", date in "[A-Z0-9a-z, :]{0,30}", length in any::<u64>(),
        ) {
            let of = Representation { length, ..file() };
            for name in ["if-match", "if-none-match", "if-range", "if-modified-since"] {
                for value in [&tags, &date] {
                    if let Selection::Part(part) = select_with(&Method::GET, &of, &[(name, value), ("range", &range)]) {
                        prop_assert!(part.start < part.end && part.end <= length);
                    }
                }
            }
        }
    }
}
