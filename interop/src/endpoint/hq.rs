//! HTTP/0.9 over QUIC: a request is `GET /path` and the end of a line, on a stream of its own; the answer is the bare file.

/// The longest request that is read.
pub(crate) const LONGEST: usize = 4096;

/// The code with which a stream is reset that asks for what is not there. HTTP/0.9 knows none.
pub(crate) const NOT_THERE: u32 = 4;

/// A request for this path.
pub(crate) fn request(path: &str) -> Vec<u8> {
    format!("GET {path}\r\n").into_bytes()
}

/// The path of a request.
///
/// # Errors
/// It is none.
pub(crate) fn parse(request: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(request).map_err(|_| "the request is no text")?;
    let line = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
    let path = line.strip_prefix("GET ").ok_or("the request does not begin with GET")?.trim_end();
    if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the request names no path");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        assert_eq!(parse(&request("/a/b.bin")), Ok("/a/b.bin"));
        for (text, path) in [("GET /x\r\n", "/x"), ("GET /x\n", "/x"), ("GET /x", "/x"), ("GET /x \r\n", "/x")] {
            assert_eq!(parse(text.as_bytes()), Ok(path), "{text:?}");
        }
        for text in
            ["", "GET", "GET ", "GET x\r\n", "POST /x\r\n", "GET /a b\r\n", "GET /a\r\nGET /b\r\n", "GET /\u{0}"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(&[0xff; 5]).is_err());
    }
}
