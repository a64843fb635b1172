//! URLs, and the server to which they belong.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_cc::Invalid;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// A server: its name in URLs and its address.
#[derive(Clone, Debug)]
pub struct Origin {
    authority: Authority,
    address: SocketAddr,
}

impl Origin {
    /// Returns the server with this name at this address.
    pub const fn new(authority: Authority, address: SocketAddr) -> Self {
        Self { authority, address }
    }

    /// Returns the address to which packets are sent.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the name that the certificate must contain.
    pub fn server_name(&self) -> &str {
        bare(self.authority.host())
    }

    /// Returns the URL of this path on the server. The path may contain a query.
    ///
    /// # Errors
    /// Returns an error if the text is not a path.
    pub fn url(&self, path: &str) -> Result<Uri, Invalid> {
        let wrong = |why: &dyn std::fmt::Display| {
            Invalid::value(path, format!("is not a path: {why}"))
                .hint("write a path such as /index.html")
        };
        if !path.starts_with('/') {
            return Err(wrong(&"a path begins with '/'"));
        }
        let path = PathAndQuery::try_from(path).map_err(|e| wrong(&e))?;
        let parts = Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.authority.clone())
            .path_and_query(path);
        parts.build().map_err(|e| wrong(&e))
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.server_name(), self.address)
    }
}

/// Parses the URLs of one server. Returns the server's name with the port, and the URLs for
/// requests.
///
/// # Errors
/// Returns an error if a URL is not an `https` URL or if the URLs name several servers.
pub fn urls<S: AsRef<str>>(texts: &[S]) -> Result<(Authority, Vec<Uri>), Invalid> {
    let mut found: Option<Authority> = None;
    let mut urls = Vec::with_capacity(texts.len());
    for text in texts {
        let text = text.as_ref();
        let wrong = |problem: Cow<'static, str>| {
            Invalid::value(text, problem).hint("write a URL such as https://localhost:4433/")
        };
        let url: Uri = text.parse().map_err(|e| wrong(format!("is not a URL: {e}").into()))?;
        let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
            return Err(wrong("is not a complete URL".into()));
        };
        if *scheme != Scheme::HTTPS {
            return Err(wrong("is not https, which HTTP/3 requires".into()));
        }
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(wrong("has no host, or has a user name".into()));
        }
        if !has_port(authority) {
            return Err(wrong("has an invalid port: ports are 1 to 65535".into()));
        }
        match &found {
            None => found = Some(authority.clone()),
            Some(first) if same(first, authority) => {}
            Some(first) => {
                let problem = format!("'{first}' and '{authority}' are different servers");
                return Err(Invalid::because(problem).hint("name URLs of one server"));
            }
        }
        urls.push(url);
    }
    found
        .map(|authority| (authority, urls))
        .ok_or_else(|| Invalid::because("there is no URL").hint("write one"))
}

/// Returns whether the authority has a valid port or no port. The `http` crate would treat an
/// invalid port as no port.
fn has_port(authority: &Authority) -> bool {
    let given =
        authority.as_str().strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':'));
    given.is_none_or(str::is_empty) || authority.port_u16().is_some_and(|port| port > 0)
}

/// Returns the port of a server: 443 if its URL has none.
pub fn port(authority: &Authority) -> u16 {
    authority.port_u16().unwrap_or(443)
}

/// Returns the host of a server, without the brackets of an IPv6 address.
pub fn host(authority: &Authority) -> &str {
    bare(authority.host())
}

/// Selects one of a server's addresses. Servers often listen on only one IP version, usually IPv4.
pub fn choose_address(found: impl IntoIterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let found: Vec<_> = found.into_iter().collect();
    found.iter().find(|a| a.is_ipv4()).or(found.first()).copied()
}

/// Returns the wildcard address of the IP version of `towards`, with any port.
pub const fn wildcard_address(towards: SocketAddr) -> SocketAddr {
    match towards {
        SocketAddr::V4(_) => SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        SocketAddr::V6(_) => SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

fn same(one: &Authority, other: &Authority) -> bool {
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_accepts_several_urls_of_one_server() {
        let (authority, found) =
            urls(&["https://a.example/x?y=1", "https://A.example:443"]).unwrap();
        assert_eq!((host(&authority), port(&authority), found.len()), ("a.example", 443, 2));
        assert_eq!((found[0].path(), found[0].query(), found[1].path()), ("/x", Some("y=1"), "/"));
        assert_eq!(port(&urls(&["https://a:/"]).unwrap().0), 443);
        let (authority, _) = urls(&["https://[::1]:4433/"]).unwrap();
        let origin = Origin::new(authority, "[::1]:9".parse().unwrap());
        assert_eq!((origin.server_name(), origin.address().port()), ("::1", 9));
        assert_eq!(origin.url("/bytes/5").unwrap().to_string(), "https://[::1]:4433/bytes/5");
    }

    #[test]
    fn errors_of_invalid_urls_have_a_hint() {
        for (texts, hint) in [
            (&["http://localhost/"][..], "https"),
            (&["localhost:4433"], "complete URL"),
            (&["https://a b/"], "not a URL"),
            (&["https://me@a/"], "user name"),
            (&["https://a:99999/"], "1 to 65535"),
            (&["https://[::1]:65536/"], "1 to 65535"),
            (&["https://a:0/"], "1 to 65535"),
            (&["https://a/", "https://b/"], "of one server"),
            (&["https://a/", "https://a:8443/"], "of one server"),
            (&[], "write one"),
        ] {
            let error = urls(texts).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains('\n'), "{texts:?}: {error}");
        }
        let origin = Origin::new(Authority::from_static("a"), "127.0.0.1:9".parse().unwrap());
        assert!(origin.url("x").unwrap_err().problem.contains("begins with"));
        assert!(origin.url("/a b").unwrap_err().problem.contains("not a path"));
    }
}
