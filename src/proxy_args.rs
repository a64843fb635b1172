//! `fathom serve --proxy`: options of an upstream server that answers requests.

use std::path::PathBuf;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::parse_nonzero_duration;
use fathom_http::descriptors::Descriptors;
use fathom_http::limits::Limits;
use fathom_http::metrics::Metrics;
use fathom_http::proxy::{Proxy, ProxySettings, Upstream};
use fathom_http::site::Site;
use fathom_http::trust::Trust;

use crate::{Failure, numbers};

/// Options of the upstream server that answers requests.
#[derive(clap::Args)]
#[command(next_help_heading = "Reverse proxy")]
pub(crate) struct ProxyArgs {
    /// Upstream server that answers the requests: http://HOST:PORT (HTTP/1.1), https://HOST:PORT
    /// (HTTP/2 or HTTP/1.1, TLS 1.3) or h2c://HOST:PORT (HTTP/2 without TLS).
    #[arg(long, value_name = "URL")]
    proxy: Option<Upstream>,
    /// Proxy only paths below this path; other paths are answered from --root.
    #[arg(long, value_name = "PATH", requires = "proxy", default_value = "/", value_parser = path)]
    proxy_path: String,
    /// Root certificates in PEM for an https upstream, instead of the platform's.
    #[arg(long, value_name = "FILE", requires = "proxy")]
    proxy_ca: Option<PathBuf>,
    /// Maximum number of concurrent requests, and of connections, to the upstream server; a client
    /// prefix may use a quarter of them. Further requests wait up to five seconds.
    #[arg(long, value_name = "N", requires = "proxy", default_value_t = 512, value_parser = numbers::whole::<usize>(1..=100_000))]
    proxy_requests: usize,
    /// Timeout for the upstream server's response header, and for each wait between two parts of
    /// its body.
    #[arg(long, value_name = "TIME", requires = "proxy", default_value = "60s", value_parser = parse_nonzero_duration)]
    proxy_timeout: Duration,
    /// Maximum size of a request body in MiB; larger bodies get status 413.
    #[arg(long, value_name = "MIB", requires = "proxy", default_value_t = 100, value_parser = numbers::whole::<u64>(0..=1 << 20))]
    max_request_body: u64,
}

/// Parses the path under which requests are proxied.
fn path(s: &str) -> Result<String, Invalid> {
    let plain =
        s.starts_with('/') && s.bytes().all(|b| b.is_ascii_graphic() && !b"?#%\\".contains(&b));
    let dots = s.split('/').any(|part| part == "." || part == "..");
    if plain && !dots {
        Ok(s.to_owned())
    } else {
        Err(Invalid::value(s, "is not a path").hint("write a path such as /api"))
    }
}

impl ProxyArgs {
    /// Adds the upstream server to the site if `--proxy` is given.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used, or if the proxy leaves no paths to
    /// `--root`.
    pub(crate) fn add_to(
        &self,
        site: Site,
        root: bool,
        limits: &Limits,
        descriptors: Descriptors,
        metrics: &Metrics,
    ) -> Result<Site, Failure> {
        let Some(upstream) = &self.proxy else { return Ok(site) };
        if root && self.proxy_path == "/" {
            let line = "--proxy answers all paths, so --root would serve none; name the paths to \
                proxy, such as --proxy-path /api";
            return Err(Failure::input(line));
        }
        if self.proxy_ca.is_some() && !upstream.uses_tls() {
            let line = format!(
                "--proxy-ca has no effect on --proxy {upstream}, which has no TLS; omit it, or name an https:// upstream"
            );
            return Err(Failure::input(line));
        }
        let mut settings = ProxySettings::new(upstream.clone());
        settings
            .trust(&Trust::from_options(self.proxy_ca.as_deref(), false))
            .map_err(Failure::input)?;
        settings.requests = self.proxy_requests.min(descriptors.upstream.max(1));
        settings.timeout = self.proxy_timeout;
        settings.max_body = self.max_request_body << 20;
        settings.client_prefix = limits.client_prefix;
        Ok(site.with_proxy(Proxy::new(settings, metrics.upstream()), &self.proxy_path))
    }
}
