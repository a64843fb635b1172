//! Length of an upstream server's response according to its header. A contradictory header is an
//! error. A client might trust a different part of the header than the proxy, and take a truncated
//! response for a complete one (RFC 9112 §6.3).

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};

use super::headers::content_length;

/// Framing of a response's body according to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framing {
    /// Whether the response has no content whatever its header says. This follows from its status
    /// or from the method of its request.
    pub(super) empty: bool,
    /// Value of `content-length`.
    pub(super) length: Option<u64>,
}

/// Reads the framing of a response to a request with this method. Leaves at most one
/// `content-length` field in the header.
///
/// # Errors
/// Returns an error if the framing is contradictory or not supported. RFC 9112 §6.3 permits a
/// proxy to drop a `content-length` next to `transfer-encoding`. It also calls the combination a
/// sign of response splitting that "ought to be handled as an error". The proxy does not forward a
/// response whose end is in doubt.
pub(super) fn framing(
    method: &Method,
    status: StatusCode,
    version: Version,
    headers: &mut HeaderMap,
) -> Result<Framing, &'static str> {
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("status 101, although no other protocol was requested");
    }
    let length = content_length(headers)
        .map_err(|_| "an invalid content-length, or several different ones")?;
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if version != Version::HTTP_11 {
            return Err("transfer-encoding, which exists only in HTTP/1.1");
        }
        if length.is_some() {
            return Err("both content-length and transfer-encoding");
        }
        // The request offered no other coding (`te`). The client would not notice a coding that is
        // not decoded here.
        if codings.next().is_some()
            || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
        {
            return Err("a transfer-encoding other than chunked");
        }
    }
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let empty = bodiless || *method == Method::HEAD;
    // A 204 response has no `content-length` (RFC 9110 §8.6).
    match length.filter(|_| status != StatusCode::NO_CONTENT) {
        Some(length) => headers.insert(CONTENT_LENGTH, length.into()),
        None => headers.remove(CONTENT_LENGTH),
    };
    Ok(Framing { empty, length: length.filter(|_| !empty) })
}

#[cfg(test)]
mod tests {
    use super::*;

    use http::{HeaderName, HeaderValue};

    fn of(
        method: Method,
        status: u16,
        version: Version,
        all: &[(&'static str, &'static str)],
    ) -> Option<Framing> {
        let mut headers: HeaderMap = all
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let found =
            framing(&method, StatusCode::from_u16(status).unwrap(), version, &mut headers).ok();
        assert!(found.is_none() || headers.get_all(CONTENT_LENGTH).iter().count() <= 1);
        found
    }

    #[test]
    fn contradictory_message_framing_is_an_error() {
        let length = ("content-length", "3");
        for fields in [
            &[length, ("transfer-encoding", "chunked")][..],
            &[("transfer-encoding", "chunked"), ("content-length", "0")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "gzip")],
            &[("transfer-encoding", "chunked, chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "identity")],
            &[("transfer-encoding", "")],
            &[length, ("content-length", "4")],
            &[("content-length", "3, 4")],
            &[("content-length", "-1")],
            &[("content-length", "+3")],
            &[("content-length", "3 3")],
            &[("content-length", "")],
            &[("content-length", "0x3")],
            &[("content-length", "99999999999999999999999")],
        ] {
            for method in [Method::GET, Method::HEAD, Method::POST] {
                for status in [200, 204, 304, 404] {
                    assert_eq!(
                        of(method.clone(), status, Version::HTTP_11, fields),
                        None,
                        "{method} {status} {fields:?}"
                    );
                }
            }
        }
        assert_eq!(
            of(Method::GET, 200, Version::HTTP_10, &[("transfer-encoding", "chunked")]),
            None
        );
        assert_eq!(
            of(Method::GET, 200, Version::HTTP_2, &[("transfer-encoding", "chunked")]),
            None
        );
    }

    #[test]
    fn consistent_message_framing_is_accepted() {
        let of = |method, status, fields| of(method, status, Version::HTTP_11, fields).unwrap();
        let framing = |empty, length| Framing { empty, length };
        assert_eq!(
            of(Method::GET, 200, &[("transfer-encoding", "Chunked ")]),
            framing(false, None)
        );
        assert_eq!(of(Method::GET, 200, &[]), framing(false, None));
        for fields in [
            &[("content-length", "3")][..],
            &[("content-length", "3"), ("content-length", "3")],
            &[("content-length", "3, 3")],
        ] {
            assert_eq!(of(Method::GET, 200, fields), framing(false, Some(3)));
            assert_eq!(of(Method::HEAD, 200, fields), framing(true, None));
            assert_eq!(of(Method::GET, 304, fields), framing(true, None));
            assert_eq!(of(Method::GET, 204, fields), framing(true, None));
        }
    }
}
