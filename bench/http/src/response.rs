//! A response: its status, header fields and body.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::files::ServedFile;
use crate::proxy::upstream_body::UpstreamBody;

/// Seconds after which a client may repeat a request that was answered with 503
/// (RFC 9110 §10.2.3). A full server soon has room again.
pub(crate) const RETRY_AFTER: &str = "1";

/// The response to a request.
#[derive(Debug)]
pub struct SiteResponse {
    /// Status.
    pub status: StatusCode,
    /// Header fields.
    pub headers: HeaderMap,
    /// Delay before the response.
    pub wait: Duration,
    /// The body, empty for HEAD.
    pub body: Body,
    /// Value of `content-length`: the length of the body. For HEAD, the length of the body that GET
    /// would get. `None` if only the end of the body determines the length.
    pub length: Option<u64>,
}

impl SiteResponse {
    /// Returns a response with a body of this type and length.
    pub(crate) fn new(status: StatusCode, content_type: &str, length: u64, body: Body) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_LENGTH, length.into());
        if let Ok(value) = HeaderValue::from_str(content_type) {
            headers.insert(CONTENT_TYPE, value);
        }
        Self { status, headers, wait: Duration::ZERO, body, length: Some(length) }
    }

    /// Returns a response with a status that allows no content.
    pub(crate) fn without_content(status: StatusCode, headers: HeaderMap) -> Self {
        Self { status, headers, wait: Duration::ZERO, body: Body::Empty, length: None }
    }
}

/// Body of a response.
#[derive(Debug)]
pub enum Body {
    /// No body.
    Empty,
    /// This many zero bytes.
    Zeros(u64),
    /// A short text.
    Text(String),
    /// A file. The number of bytes sent is at most the length of the file when it was opened.
    File(ServedFile),
    /// Body from an upstream server.
    Upstream(Box<UpstreamBody>),
}

/// Returns a response with a short text.
pub(crate) fn plain(status: StatusCode, text: &str) -> SiteResponse {
    SiteResponse::new(
        status,
        "text/plain; charset=utf-8",
        text.len() as u64,
        Body::Text(text.into()),
    )
}
