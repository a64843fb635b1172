//! Checks the host in a request, according to the request's version of HTTP.

use fathom_http3::fields::is_host_and_port;
use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Uri, Version};

/// Status and reason of a request that is refused before its path is examined.
pub(crate) type Malformed = (StatusCode, &'static str);

const fn bad(line: &'static str) -> Malformed {
    (StatusCode::BAD_REQUEST, line)
}

/// Checks a request's host and the transfer coding of its body. An upstream server might interpret
/// an ambiguous host or coding in another way.
///
/// # Errors
/// Returns an error for HTTP/1.1 without exactly one `host` (RFC 9112 §3.2), and for HTTP/2 and
/// HTTP/3 without an authority or with two that differ (RFC 9114 §4.3.1). Also returns an error
/// for an authority that is not a host and port or names a user (RFC 9110 §4.2.4), and for a
/// transfer coding other than chunked (RFC 9112 §6.1).
pub(crate) fn check(
    method: &Method,
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
) -> Result<(), Malformed> {
    let mut hosts = headers.get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() {
        return Err(bad("the request has more than one host"));
    }
    if *method == Method::CONNECT {
        return Ok(());
    }
    let asked = uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.map(|host| host.as_bytes());
    match version {
        Version::HTTP_09 | Version::HTTP_10 => {}
        Version::HTTP_11 if host.is_none() => return Err(bad("the request has no host")),
        _ if host.is_none() && asked.is_none() => return Err(bad("the request has no host")),
        _ => {}
    }
    if [asked, host].into_iter().flatten().any(|authority| !is_host_and_port(authority)) {
        return Err(bad("the request's host is not a valid host and port"));
    }
    // In HTTP/1.1, the absolute form of the target overrides the `host` field (RFC 9112 §3.2.2).
    if matches!(version, Version::HTTP_2 | Version::HTTP_3)
        && let (Some(asked), Some(host)) = (asked, host)
        && !asked.eq_ignore_ascii_case(host)
    {
        return Err(bad("the request names two different hosts"));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) =
        codings.next().filter(|_| matches!(version, Version::HTTP_10 | Version::HTTP_11))
        && (codings.next().is_some()
            || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
    {
        return Err((
            StatusCode::NOT_IMPLEMENTED,
            "the only supported transfer-encoding is chunked",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use http::{HeaderName, HeaderValue};

    fn checked(version: Version, uri: &str, fields: &[(&'static str, &[u8])]) -> Result<(), u16> {
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
            })
            .collect();
        check(&Method::GET, &uri.parse().unwrap(), version, &headers)
            .map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn request_must_name_exactly_one_host() {
        let host = |value: &'static [u8]| ("host", value);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert_eq!(checked(version, "/a", &[host(b"example.org")]), Ok(()));
            assert_eq!(checked(version, "/a", &[host(b"a"), host(b"b")]), Err(400));
            assert_eq!(checked(version, "/a", &[host(b"a"), host(b"a")]), Err(400));
            assert_eq!(checked(version, "http://b/a", &[host(b"a")]), Ok(()));
        }
        assert_eq!(checked(Version::HTTP_11, "/a", &[]), Err(400));
        assert_eq!(checked(Version::HTTP_11, "http://b/a", &[]), Err(400));
        assert_eq!(checked(Version::HTTP_10, "/a", &[]), Ok(()));
        for version in [Version::HTTP_2, Version::HTTP_3] {
            assert_eq!(checked(version, "/a", &[]), Err(400));
            assert_eq!(checked(version, "/a", &[host(b"b")]), Ok(()));
            assert_eq!(checked(version, "https://b/a", &[]), Ok(()));
            assert_eq!(checked(version, "https://b/a", &[host(b"B")]), Ok(()));
            assert_eq!(checked(version, "https://b/a", &[host(b"c")]), Err(400));
            assert_eq!(checked(version, "https://user@b/a", &[]), Err(400));
        }
    }

    #[test]
    fn host_is_a_name_or_an_address_with_optional_port() {
        let is = |host: &'static [u8]| checked(Version::HTTP_11, "/", &[("host", host)]) == Ok(());
        for host in [
            &b"example.org"[..],
            b"EXAMPLE.org:443",
            b"127.0.0.1",
            b"[::1]",
            b"[2001:db8::1]:8443",
            b"xn--caf-dma.example",
            b"a_b.example",
            b"caf%c3%a9",
            b"localhost:",
        ] {
            assert!(is(host), "{host:?}");
        }
        for host in [
            &b""[..],
            b":443",
            b"a/b?c#d@e",
            b"a/b",
            b"a?b",
            b"a#b",
            b"user@a",
            b"user:password@a",
            b"a b",
            b"a,b c",
            b"caf\xc3\xa9",
            b"\xff",
            b"a\\b",
            b"a\"b",
            b"a:b",
            b"a:443:443",
            b"a:123456",
            b"a:-1",
            b"[::1",
            b"[::1]x",
            b"[x]",
            b"::1",
            b"a%",
            b"a%zz",
            b"<script>",
        ] {
            assert!(!is(host), "{host:?}");
        }
    }

    #[test]
    fn only_chunked_transfer_coding_is_accepted() {
        let with = |values: &[&'static [u8]]| {
            let mut fields = vec![("host", &b"a"[..])];
            fields.extend(values.iter().map(|value| ("transfer-encoding", *value)));
            checked(Version::HTTP_11, "/", &fields)
        };
        assert_eq!(
            (with(&[]), with(&[b"chunked"]), with(&[b"Chunked "])),
            (Ok(()), Ok(()), Ok(()))
        );
        for values in [
            &[&b"gzip, chunked"[..]][..],
            &[b"gzip"],
            &[b"gzip", b"chunked"],
            &[b"chunked", b"chunked"],
        ] {
            assert_eq!(with(values), Err(501), "{values:?}");
        }
    }
}
