//! A request as it came, over any version of HTTP.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};

/// Fields that belong to one connection (RFC 9110 §7.6.1), and that HTTP/2 and HTTP/3 do not have but for TE (RFC 9114 §4.2).
pub const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The body of a request, read as its reader asks for it.
pub type RequestBody = UnsyncBoxBody<Bytes, RequestBodyError>;

/// Why a request's body ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestBodyError {
    /// It is larger than the bound.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(u64),
    /// The client sends too slowly.
    #[error("the request body came too slowly")]
    Slow,
    /// It is not as long as `content-length` says.
    #[error("the request body is not as long as content-length says")]
    Length,
    /// The client gave it up, or broke the protocol.
    #[error("the request body broke off: {0}")]
    Broken(String),
}

/// No body.
pub fn empty() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A request.
pub struct SiteRequest {
    /// Method.
    pub method: Method,
    /// Target: path, query, and the authority, where the request had one.
    pub uri: Uri,
    /// Version of HTTP.
    pub version: Version,
    /// Header fields.
    pub headers: HeaderMap,
    /// The client's address.
    pub client: SocketAddr,
    /// Body.
    pub body: RequestBody,
}

impl SiteRequest {
    /// Without header fields or a body.
    pub fn new(method: Method, uri: Uri, client: SocketAddr) -> Self {
        Self { method, uri, version: Version::HTTP_3, headers: HeaderMap::new(), client, body: empty() }
    }

    /// The authority that was asked: `:authority`, or `host`.
    pub fn authority(&self) -> Option<&str> {
        let host = || self.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        self.uri.authority().map(http::uri::Authority::as_str).or_else(host)
    }
}

impl fmt::Debug for SiteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteRequest").field("method", &self.method).field("uri", &self.uri).finish_non_exhaustive()
    }
}
