//! The server behind the proxy, as written on the command line.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Invalid;
use http::Uri;
use rustls::pki_types::ServerName;

/// URL of an upstream server: `http://HOST[:PORT]`, `https://HOST[:PORT]` or `h2c://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    scheme: Scheme,
    host: String,
    port: u16,
}

/// Protocol of an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// HTTP/1.1 without TLS.
    Http,
    /// HTTP/2 or HTTP/1.1 over TLS 1.3, chosen by ALPN.
    Https,
    /// HTTP/2 without TLS, by prior knowledge (RFC 9113 §3.3).
    H2c,
}

impl Upstream {
    pub(super) const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns whether connections to the server use TLS.
    pub fn uses_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Returns the host and port to connect to. IPv6 addresses have no brackets.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.host.trim_matches(['[', ']']), self.port)
    }

    /// Returns the server's name in TLS.
    pub(super) fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.address().0.to_owned()).ok()
    }

    /// Returns the authority for requests that have none.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::H2c => "h2c",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl FromStr for Upstream {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let wrong = |problem: &'static str| {
            Invalid::value(s, problem)
                .hint("write http://127.0.0.1:8080, https://HOST or h2c://HOST:PORT")
        };
        let uri: Uri = s.parse().map_err(|_| wrong("is not a URL"))?;
        let (scheme, default) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            Some("h2c") => (Scheme::H2c, 80),
            _ => return Err(wrong("does not have the scheme http, https or h2c")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("names a user"));
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(wrong("has a path, but each request keeps its own path"));
        }
        let port = match &authority.as_str()[authority.host().len()..] {
            "" => None,
            port => Some(port[1..].parse::<u16>().map_err(|_| wrong("has no valid port"))?),
        };
        let (host, port) = (authority.host().to_owned(), port.unwrap_or(default));
        let upstream = Self { scheme, host, port };
        if upstream.host.is_empty() || port == 0 || upstream.server_name().is_none() {
            return Err(wrong("names no host"));
        }
        Ok(upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_urls_are_parsed_or_refused_in_one_line() {
        for (url, shown, host) in [
            ("http://localhost:8080", "http://localhost:8080", "localhost"),
            ("http://localhost/", "http://localhost:80", "localhost"),
            ("https://example.org", "https://example.org:443", "example.org"),
            ("h2c://[::1]:9", "h2c://[::1]:9", "::1"),
        ] {
            let upstream: Upstream = url.parse().unwrap();
            assert_eq!((upstream.to_string().as_str(), upstream.address().0), (shown, host));
        }
        for url in [
            "",
            "localhost:8080",
            "/x",
            "ftp://localhost",
            "http://",
            "http://a:b@host",
            "http://host:99999",
            "http://host:0",
            "http://host:",
            "http://host/path",
            "http://host?x",
            "http://ho st",
            "http://a_b..:80\n",
        ] {
            let error = url.parse::<Upstream>().unwrap_err().to_string();
            assert!(
                error.contains("http://127.0.0.1:8080") && !error.contains('\n'),
                "{url}: {error}"
            );
        }
    }
}
