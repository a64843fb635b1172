//! Options of the commands that are HTTP/3 clients: the certificates that they accept and the
//! addresses to which they send. With one definition, the options have the same names in all
//! commands.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use fathom_cc::Invalid;
use fathom_http::load;
use fathom_http::trust::Trust;
use http::uri::Authority;

use crate::Failure;

/// Options for the server of a client.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Server")]
pub(crate) struct ClientArgs {
    /// Accept any certificate.
    #[arg(short = 'k', long, conflicts_with = "ca")]
    insecure: bool,
    /// Root certificates in PEM, instead of the platform's.
    #[arg(long, visible_alias = "cacert", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Connect to this host and port; SNI and :authority stay those of the URL.
    #[arg(long, value_name = "ADDR")]
    connect_to: Option<String>,
    /// Connect to this address if the URL names this host and port, as in curl:
    /// example.com:443:127.0.0.1.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", conflicts_with = "connect_to", value_parser = parse_resolve)]
    resolve: Vec<(String, SocketAddr)>,
}

impl ClientArgs {
    /// Returns the certificates to accept.
    pub(crate) fn trust(&self) -> Trust {
        Trust::from_options(self.ca.as_deref(), self.insecure)
    }

    /// Returns whether certificates are accepted without verification.
    pub(crate) fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// Checks that a URL names the servers of `--resolve`.
    ///
    /// # Errors
    /// Returns an error if `--resolve` names a different server.
    pub(crate) fn check(&self, servers: &[Authority]) -> Result<(), Failure> {
        let names: Vec<String> = servers.iter().map(named).collect();
        match self.resolve.iter().find(|(of, _)| !names.contains(of)) {
            None => Ok(()),
            Some((of, _)) => Err(Failure::input(format!(
                "--resolve names '{of}', but no URL does; write the URL's host and port, such as {}",
                names.first().map_or("example.com:443", String::as_str)
            ))),
        }
    }

    /// Returns the address of a server. It comes from `--connect-to` or `--resolve`, or from
    /// resolving the host name.
    ///
    /// # Errors
    /// Returns an error if a name does not resolve.
    pub(crate) fn address(&self, server: &Authority) -> Result<SocketAddr, Invalid> {
        let own = named(server);
        if let Some((_, address)) = self.resolve.iter().find(|(of, _)| *of == own) {
            return Ok(*address);
        }
        let found = match &self.connect_to {
            Some(name) => name.to_socket_addrs().map(|found| found.collect::<Vec<_>>()),
            None => {
                (load::host(server), load::port(server)).to_socket_addrs().map(Iterator::collect)
            }
        };
        let name = self.connect_to.as_ref().unwrap_or(&own);
        let wrong = |why: &dyn std::fmt::Display| {
            Invalid::value(name, format!("has no address: {why}"))
                .hint("write HOST:PORT, or name an address with --connect-to")
        };
        let found = found.map_err(|e| wrong(&e))?;
        load::choose_address(found).ok_or_else(|| wrong(&"the name does not resolve"))
    }
}

/// Returns the host and port of a server in the form of `--resolve`, in lower case.
fn named(server: &Authority) -> String {
    format!("{}:{}", server.host(), load::port(server)).to_ascii_lowercase()
}

/// Parses an argument of `--resolve`, which has curl's syntax. Returns the host and port in the
/// URL, and the address to send to.
fn parse_resolve(s: &str) -> Result<(String, SocketAddr), Invalid> {
    let read = || {
        let host_end = if s.starts_with('[') { s.find(']')? + 1 } else { s.find(':')? };
        let (port, address) = s.get(host_end..)?.strip_prefix(':')?.split_once(':')?;
        let address =
            address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some((
            format!("{}:{port}", s[..host_end].to_ascii_lowercase()),
            SocketAddr::new(address.parse().ok()?, port),
        ))
    };
    read().ok_or_else(|| {
        Invalid::value(s, "names no address")
            .hint("write HOST:PORT:ADDRESS, such as example.com:443:127.0.0.1")
    })
}
