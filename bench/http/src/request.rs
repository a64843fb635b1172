//! A request as received, over any version of HTTP.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};

/// Fields that belong to one connection (RFC 9110 §7.6.1). HTTP/2 and HTTP/3 allow none of them
/// except TE (RFC 9114 §4.2).
pub const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Body of a request, read on demand.
pub type RequestBody = UnsyncBoxBody<Bytes, RequestBodyError>;

/// Reason why a request's body ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestBodyError {
    /// The body is larger than the limit.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(u64),
    /// The client sends too slowly.
    #[error("the request body arrived too slowly")]
    Slow,
    /// The length of the body differs from `content-length`.
    #[error("the length of the request body differs from its content-length")]
    Length,
    /// The client gave up the request or violated the protocol.
    #[error("the request body broke off: {0}")]
    Broken(String),
}

/// Returns an empty body.
pub fn empty() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A request.
pub struct SiteRequest {
    /// Method.
    pub method: Method,
    /// Target: path, query, and the authority if the request had one.
    pub uri: Uri,
    /// Version of HTTP.
    pub version: Version,
    /// Header fields.
    pub headers: HeaderMap,
    /// The client's address.
    pub client: SocketAddr,
    /// Body.
    pub body: RequestBody,
    /// Error of the body that is already known before the body is read.
    pub body_fault: Option<RequestBodyError>,
}

impl SiteRequest {
    /// Returns a request over HTTP/3 without header fields or a body.
    pub fn new(method: Method, uri: Uri, client: SocketAddr) -> Self {
        Self {
            method,
            uri,
            version: Version::HTTP_3,
            headers: HeaderMap::new(),
            client,
            body: empty(),
            body_fault: None,
        }
    }

    /// Checks the request's statements about the length of its body.
    ///
    /// # Errors
    /// Returns a line for clients if `content-length` is not a number, occurs with different
    /// values, or differs from the body's length (RFC 9110 §8.6, RFC 9114 §4.1.2).
    pub(crate) fn check_length(&self) -> Result<(), &'static str> {
        let mut lengths = self
            .headers
            .get_all(CONTENT_LENGTH)
            .iter()
            .map(|length| content_length(length.as_bytes()));
        if let Some(first) = lengths.next()
            && (first.is_none() || lengths.any(|length| length != first))
        {
            return Err("the content-length is invalid");
        }
        match &self.body_fault {
            Some(_) => Err("the length of the request body differs from its content-length"),
            None => Ok(()),
        }
    }

    /// Returns the requested authority: `:authority` or `host`.
    pub fn authority(&self) -> Option<&str> {
        let host = || self.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        self.uri.authority().map(http::uri::Authority::as_str).or_else(host)
    }
}

/// Reads the value of a `content-length` field. Returns `None` if it is not a number
/// (RFC 9110 §8.6).
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits?.parse().ok()
}

impl fmt::Debug for SiteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteRequest")
            .field("method", &self.method)
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_of_a_request_must_be_one_number() {
        for (lengths, valid) in [
            (&[][..], true),
            (&["7"], true),
            (&["7", "7"], true),
            (&["7", "8"], false),
            (&["x"], false),
            (&["+7"], false),
            (&["-7"], false),
            (&[""], false),
            (&["7, 7"], false),
            (&["99999999999999999999999"], false),
        ] {
            let mut request = SiteRequest::new(
                Method::GET,
                Uri::from_static("/"),
                "127.0.0.1:1".parse().unwrap(),
            );
            for length in lengths {
                request.headers.append(CONTENT_LENGTH, length.parse().unwrap());
            }
            assert_eq!(request.check_length().is_ok(), valid, "{lengths:?}");
            request.body_fault = Some(RequestBodyError::Length);
            assert!(request.check_length().is_err());
        }
    }
}
