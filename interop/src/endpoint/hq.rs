//! HTTP/0.9 over QUIC (`hq-interop`). A request is `GET /path` and CRLF on its own stream, and the
//! response is the contents of the file.

/// Longest request in bytes.
pub(crate) const MAX_REQUEST: usize = 4096;

/// Error code with which a request for a missing file is reset. HTTP/0.9 defines no code.
pub(crate) const NOT_FOUND: u32 = 4;

/// Encodes a request for a path.
pub(crate) fn request(path: &str) -> Vec<u8> {
    format!("GET {path}\r\n").into_bytes()
}

/// Parses a request and returns its path.
///
/// # Errors
/// Returns an error if the request is malformed.
pub(crate) fn parse(request: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(request).map_err(|_| "the request is not UTF-8")?;
    let line = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
    let path = line.strip_prefix("GET ").ok_or("the request does not begin with GET")?.trim_end();
    if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the request has no path");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hq_requests_round_trip_and_malformed_requests_fail() {
        assert_eq!(parse(&request("/a/b.bin")), Ok("/a/b.bin"));
        for (text, path) in
            [("GET /x\r\n", "/x"), ("GET /x\n", "/x"), ("GET /x", "/x"), ("GET /x \r\n", "/x")]
        {
            assert_eq!(parse(text.as_bytes()), Ok(path), "{text:?}");
        }
        for text in [
            "",
            "GET",
            "GET ",
            "GET x\r\n",
            "POST /x\r\n",
            "GET /a b\r\n",
            "GET /a\r\nGET /b\r\n",
            "GET /\u{0}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(&[0xff; 5]).is_err());
    }
}
