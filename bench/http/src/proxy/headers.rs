//! Edits header fields as they pass through the proxy.

use std::net::SocketAddr;

use http::header::{ALT_SVC, CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, HeaderName, VIA};
use http::{HeaderMap, HeaderValue, Version};

use crate::request::HOP_BY_HOP;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Pseudonym of this proxy in `via`.
const PSEUDONYM: &str = "fathom";

/// Removes fields that belong to one connection only (RFC 9110 §7.6.1), and fields that
/// `connection` names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        // Fields that give a message's length or host must not be removed.
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Returns the version as written in `via` (RFC 9110 §7.6.3).
const fn received(version: Version) -> &'static str {
    match version {
        Version::HTTP_3 => "3",
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

fn add_via(headers: &mut HeaderMap, version: Version) {
    if let Ok(value) = HeaderValue::try_from(format!("{} {PSEUDONYM}", received(version))) {
        headers.append(VIA, value);
    }
}

/// Turns a client's header fields into the fields of a request to the upstream server. Clients'
/// statements about earlier proxies are dropped, because a client could invent them.
pub(super) fn to_upstream(
    headers: &mut HeaderMap,
    version: Version,
    client: SocketAddr,
    authority: &str,
) {
    remove_hop_by_hop(headers);
    for name in [FORWARDED, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
        headers.remove(name);
    }
    let ip = client.ip().to_canonical();
    // An IPv6 address is in brackets and quoted (RFC 7239 §6).
    let node = if ip.is_ipv6() { format!("\"[{ip}]\"") } else { ip.to_string() };
    // A host with only these characters needs no escapes in a quoted string.
    let plain = authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]%".contains(&b));
    let host = if plain { format!("host=\"{authority}\";") } else { String::new() };
    for (name, value) in [
        (FORWARDED, format!("for={node};{host}proto=https")),
        (FORWARDED_FOR, ip.to_string()),
        (FORWARDED_HOST, authority.to_owned()),
        (FORWARDED_PROTO, "https".to_owned()),
        (HOST, authority.to_owned()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    add_via(headers, version);
}

/// Turns an upstream server's header fields into the fields of a response. Drops `alt-svc`, which
/// applies to the upstream server's address and not to ours.
pub(super) fn to_client(headers: &mut HeaderMap, version: Version) {
    remove_hop_by_hop(headers);
    headers.remove(ALT_SVC);
    add_via(headers, version);
}

/// Reads `content-length`; returns `Ok(None)` if there is no such field. A length that is repeated
/// in several lines or in a list counts as one length (RFC 9110 §8.6).
///
/// # Errors
/// Returns an error if a value is not a number, or if the values differ.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, &'static str> {
    let mut found = None;
    let values = headers
        .get_all(CONTENT_LENGTH)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    for value in values {
        let digits = std::str::from_utf8(value.trim_ascii())
            .ok()
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let length = digits
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or("content-length is not a number")?;
        if found.is_some_and(|found| found != length) {
            return Err("content-length occurs twice");
        }
        found = Some(length);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
        let mut headers = fields(&[
            ("connection", "close, X-Mine ,content-length, host"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("content-length", "3"),
            ("host", "a"),
            ("cookie", "kept"),
        ]);
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "cookie", "host"]);
    }

    #[test]
    fn proxy_overwrites_forwarding_fields_of_the_client() {
        let mut headers = fields(&[
            ("x-forwarded-for", "8.8.8.8"),
            ("forwarded", "for=8.8.8.8"),
            ("x-forwarded-proto", "http"),
            ("host", "other"),
            ("via", "1.1 before"),
        ]);
        to_upstream(
            &mut headers,
            Version::HTTP_3,
            "[2001:db8::1]:4000".parse().unwrap(),
            "example.org:8443",
        );
        assert_eq!(
            headers["forwarded"],
            "for=\"[2001:db8::1]\";host=\"example.org:8443\";proto=https"
        );
        assert_eq!(headers["x-forwarded-for"], "2001:db8::1");
        assert_eq!(headers["x-forwarded-host"], "example.org:8443");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["host"], "example.org:8443");
        assert_eq!(headers.get_all("via").iter().collect::<Vec<_>>(), ["1.1 before", "3 fathom"]);
        to_upstream(&mut headers, Version::HTTP_2, "[::ffff:192.0.2.1]:4".parse().unwrap(), "a\"b");
        assert_eq!(headers["forwarded"], "for=192.0.2.1;proto=https");
    }

    #[test]
    fn proxy_requires_content_length_to_be_one_number() {
        let of = |values: &[&'static str]| {
            let values: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
            content_length(&fields(&values))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["7"]), Ok(Some(7)));
        assert_eq!(of(&["7", "7"]), Ok(Some(7)));
        assert_eq!(of(&["7, 7"]), Ok(Some(7)));
        for wrong in [
            &["7", "8"][..],
            &["+7"],
            &["7, 8"],
            &["7,"],
            &[""],
            &["-1"],
            &["99999999999999999999999"],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
