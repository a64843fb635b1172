//! Messages of the `http` crate from field sections.

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::error::ProtocolError;
use crate::qpack::{FieldSection, Protocol};

/// Returns a request from the fields of a header that has passed the checks of
/// [`fields`](crate::fields). A `:protocol` becomes an extension.
///
/// # Errors
/// Returns an error of the stream if a field is invalid for the `http` crate.
pub fn request(section: &FieldSection) -> Result<http::Request<()>, ProtocolError> {
    let mut request = http::Request::new(());
    let mut uri = http::uri::Parts::default();
    for (name, value) in section.iter() {
        match name {
            b":method" => {
                let method = Method::from_bytes(value);
                *request.method_mut() = method.map_err(|_| invalid("an invalid method"))?;
            }
            b":scheme" => {
                let scheme = Scheme::try_from(value);
                uri.scheme = Some(scheme.map_err(|_| invalid("an invalid scheme"))?);
            }
            b":authority" => {
                let authority = Authority::try_from(value);
                uri.authority = Some(authority.map_err(|_| invalid("an invalid authority"))?);
            }
            b":path" => {
                let path = PathAndQuery::try_from(value);
                uri.path_and_query = Some(path.map_err(|_| invalid("an invalid path"))?);
            }
            b":protocol" => {
                let protocol = String::from_utf8_lossy(value).into_owned();
                request.extensions_mut().insert(Protocol(protocol));
            }
            _ => {}
        }
    }
    if uri.authority.is_none() {
        // A relative URI; the authority is in the field `host`.
        uri.scheme = None;
    }
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| invalid("an invalid URI"))?;
    *request.headers_mut() = headers(section)?;
    *request.version_mut() = http::Version::HTTP_3;
    Ok(request)
}

/// Returns a response from the fields of a header that has passed the checks of
/// [`fields`](crate::fields).
///
/// # Errors
/// Returns an error of the stream if a field is invalid for the `http` crate.
pub fn response(section: &FieldSection) -> Result<http::Response<()>, ProtocolError> {
    let mut response = http::Response::new(());
    let status = section.get(b":status").and_then(|status| StatusCode::from_bytes(status).ok());
    *response.status_mut() = status.ok_or_else(|| invalid("an invalid status"))?;
    *response.headers_mut() = headers(section)?;
    *response.version_mut() = http::Version::HTTP_3;
    Ok(response)
}

/// Returns the regular fields. Several `cookie` fields become one (RFC 9114 §4.2.1).
///
/// # Errors
/// Returns an error of the stream if a field is invalid for the `http` crate.
pub fn headers(section: &FieldSection) -> Result<HeaderMap, ProtocolError> {
    let mut headers = HeaderMap::with_capacity(section.len());
    let mut cookies: Option<Vec<u8>> = None;
    for (name, value) in section.iter().filter(|(name, _)| !name.starts_with(b":")) {
        if name == b"cookie" {
            match &mut cookies {
                None => cookies = Some(value.to_vec()),
                Some(cookies) => {
                    cookies.extend_from_slice(b"; ");
                    cookies.extend_from_slice(value);
                }
            }
            continue;
        }
        let name = HeaderName::from_bytes(name).map_err(|_| invalid("an invalid field name"))?;
        let value = HeaderValue::from_bytes(value);
        let value = value.map_err(|_| invalid("an invalid field value"))?;
        headers.try_append(name, value).map_err(|_| invalid("too many fields"))?;
    }
    if let Some(cookies) = cookies {
        let cookies = HeaderValue::from_maybe_shared(bytes::Bytes::from(cookies));
        headers.insert(http::header::COOKIE, cookies.map_err(|_| invalid("an invalid cookie"))?);
    }
    Ok(headers)
}

fn invalid(reason: &'static str) -> ProtocolError {
    ProtocolError::malformed(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qpack::{Limits, decode, encode};

    fn section<F: crate::qpack::Fields + ?Sized>(fields: &F) -> FieldSection {
        let (mut bytes, mut section) = (Vec::new(), FieldSection::new());
        encode(fields, &mut bytes);
        decode(&bytes, Limits::default(), &mut section).unwrap();
        section
    }

    #[test]
    fn requests_survive_encoding_and_conversion() {
        let sent = http::Request::post("https://a.test:4433/b?c=d")
            .header("user-agent", "x")
            .header("x-y", "1")
            .header("x-y", "2")
            .body(())
            .unwrap();
        let received = request(&section(&sent)).unwrap();
        assert_eq!(received.method(), sent.method());
        assert_eq!(received.uri(), sent.uri());
        assert_eq!(received.headers(), sent.headers());
    }

    #[test]
    fn responses_survive_encoding_and_conversion() {
        let sent = http::Response::builder().status(418).header("server", "x").body(()).unwrap();
        let received = response(&section(&sent)).unwrap();
        assert_eq!((received.status(), received.headers()), (sent.status(), sent.headers()));
    }

    #[test]
    fn cookies_are_joined() {
        let fields = [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d")];
        let headers = headers(&section(&fields)).unwrap();
        assert_eq!(headers["cookie"], "a=b; c=d");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn connect_and_relative_requests_have_their_uris() {
        let connect = [(":method", "CONNECT"), (":authority", "a.test:1")];
        assert_eq!(request(&section(&connect)).unwrap().uri(), "a.test:1");
        let relative =
            [(":method", "GET"), (":scheme", "https"), (":path", "/b"), ("host", "a.test")];
        let relative = request(&section(&relative)).unwrap();
        assert_eq!(relative.uri(), "/b");
        assert_eq!(relative.headers()["host"], "a.test");
    }
}
