//! Configuration of an endpoint, from environment variables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fathom_cc::Invalid;
use fathom_http::load::{host, port, urls};
use fathom_stacks::Stack;

use super::Outcome;
use super::request::Request;
use super::test_name::TestName;

/// Role of an endpoint, which is the value of ROLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// The endpoint that connects.
    Client,
    /// The endpoint that accepts connections.
    Server,
}

/// A stack as an endpoint: with our plug-in or patch, or unmodified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStack {
    /// The stack.
    pub stack: Stack,
    /// Whether the stack is unmodified and does not offer our extension.
    pub stock: bool,
}

impl EndpointStack {
    /// Returns the endpoints in this build.
    pub fn all() -> impl Iterator<Item = Self> {
        // There is no endpoint for unmodified noq.
        let with = |stock| move |stack: &Stack| Self { stack: *stack, stock };
        Stack::ALL
            .iter()
            .map(with(false))
            .chain(Stack::ALL.iter().filter(|stack| **stack != Stack::Noq).map(with(true)))
    }

    /// Returns the name on the command line.
    pub fn name(self) -> String {
        let stock = if self.stock { "stock-" } else { "" };
        format!("{stock}{}", self.stack)
    }

    /// Returns whether the stack has our plug-in or patch and offers our extension.
    pub const fn is_ours(self) -> bool {
        !self.stock
    }

    /// Returns whether the stack is quiche, patched or not.
    pub const fn is_quiche(self) -> bool {
        !self.stack.on_rustls()
    }

    /// Returns the name of the default congestion controller.
    pub const fn default_controller(self) -> &'static str {
        if self.is_ours() { "sync:signal=either" } else { "native:cubic" }
    }
}

impl FromStr for EndpointStack {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let known = || Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
        Self::all().find(|stack| stack.name() == s).ok_or_else(|| match s {
            "quiche" | "stock-quiche" => Invalid::because("this build has no quiche")
                .hint(format!("build with --features quiche, or choose one of {}", known())),
            _ => Invalid::value(s, "is not a stack").hint(format!("choose one of {}", known())),
        })
    }
}

/// Command-line options that override environment variables.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Stack.
    pub stack: Option<EndpointStack>,
    /// Controller.
    pub controller: Option<String>,
}

/// Configuration of an endpoint.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Role.
    pub role: Role,
    /// Test.
    pub test_name: TestName,
    /// Stack.
    pub stack: EndpointStack,
    /// Congestion controller.
    pub controller: String,
    /// Requests of the client.
    pub requests: Vec<Request>,
    /// Name in the server's certificate, for the client.
    pub server_name: String,
    /// Address of the server for the client, or the address on which the server listens.
    pub address: SocketAddr,
    /// Directory of the files that the server sends.
    pub www: PathBuf,
    /// Directory for the client's downloads.
    pub downloads: PathBuf,
    /// Directory with `cert.pem`, `priv.key` and optionally `ca.pem`.
    pub certs: PathBuf,
    /// Directory for `facts.json`.
    pub logs: PathBuf,
    /// Directory for qlog files; `None` if qlog is off.
    pub qlog: Option<PathBuf>,
}

impl Setup {
    /// Reads the configuration. `env` looks up environment variables.
    ///
    /// # Errors
    /// Returns [`Outcome::InvalidInput`] if a value is invalid, and [`Outcome::Unsupported`] if the
    /// test is unknown.
    pub fn read(
        overrides: &Overrides,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Outcome> {
        let env = Environment(env);
        let role = env.role()?;
        let test_name = env.required("TESTCASE", "a test such as transfer")?;
        let test_name = test_name.parse().map_err(|_| {
            Outcome::Unsupported(format!(
                "test case '{}' is not supported",
                test_name.escape_debug()
            ))
        })?;
        let stack = match overrides.stack {
            Some(stack) => stack,
            None => env
                .get("FATHOM_STACK")
                .map_or(Ok(EndpointStack::default()), |name| name.parse())
                .map_err(|error| error.in_field("FATHOM_STACK"))?,
        };
        let controller = overrides.controller.clone().or_else(|| env.get("FATHOM_CONTROLLER"));
        let controller = controller.unwrap_or_else(|| stack.default_controller().to_owned());
        let downloads = env.folder("DOWNLOADS", "/downloads");
        let (requests, server_name, address) = match role {
            Role::Client => env.client(&downloads)?,
            Role::Server => (Vec::new(), String::new(), env.server()?),
        };
        Ok(Self {
            role,
            test_name,
            stack,
            controller,
            requests,
            server_name,
            address,
            www: env.folder("WWW", "/www"),
            downloads,
            certs: env.folder("CERTS", "/certs"),
            logs: env.folder("LOGS", "/logs"),
            qlog: env.get("QLOGDIR").map(PathBuf::from),
        })
    }

    /// Returns the reason why this stack does not support this test in this role; `None` if it
    /// supports the test.
    pub fn unsupported(&self) -> Option<String> {
        let no = |why: &str| {
            Some(format!("{} as {}: {}: {why}", self.stack.name(), self.role, self.test_name))
        };
        match (self.test_name, self.role) {
            (TestName::KeyUpdate, Role::Client) if self.stack.is_quiche() => {
                no("quiche follows key updates but has no call to initiate one")
            }
            (TestName::ChaCha20, Role::Client) if self.stack.is_quiche() => {
                no("BoringSSL offers all TLS 1.3 cipher suites and has no call to restrict them")
            }
            (TestName::Ecn, _) if self.stack.is_quiche() && !self.stack.is_ours() => {
                no("stock quiche does not support ECN")
            }
            _ => None,
        }
    }
}

/// Environment variables of an endpoint, given by the function that looks them up.
struct Environment<F>(F);

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    /// Returns the value of a variable, or `None` if it is not set or empty.
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable. An error says that the variable must be set to `what`.
    fn required(&self, name: &'static str, what: &str) -> Result<String, Invalid> {
        let missing = || Invalid::because(format!("{name} is not set")).hint(format!("set {what}"));
        self.get(name).ok_or_else(missing)
    }

    /// Returns the directory in a variable, which is `usual` by default.
    fn folder(&self, name: &str, usual: &str) -> PathBuf {
        PathBuf::from(self.get(name).unwrap_or_else(|| usual.to_owned()))
    }

    fn role(&self) -> Result<Role, Invalid> {
        match self.required("ROLE", "client or server")?.as_str() {
            "client" => Ok(Role::Client),
            "server" => Ok(Role::Server),
            other => Err(Invalid::value(other, "is not a role")
                .hint("set client or server")
                .in_field("ROLE")),
        }
    }

    /// Returns the IP address in a variable, if it is set.
    fn ip(&self, name: &'static str) -> Result<Option<IpAddr>, Invalid> {
        let wrong = |text: &str| Invalid::value(text, "is not an IP address").in_field(name);
        self.get(name).map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
    }

    /// Returns a client's requests, and the server's name and address.
    fn client(&self, downloads: &Path) -> Result<(Vec<Request>, String, SocketAddr), Invalid> {
        let requests = self.required("REQUESTS", "one or more URLs")?;
        let texts: Vec<&str> = requests.split_whitespace().collect();
        let (authority, urls) = urls(&texts).map_err(|error| error.in_field("REQUESTS"))?;
        let requests = urls
            .into_iter()
            .map(|url| Request::new(url, downloads))
            .collect::<Result<_, _>>()
            .map_err(|error| error.in_field("REQUESTS"))?;
        let ip = match self.ip("FATHOM_ADDRESS")? {
            Some(ip) => ip,
            None => resolve(host(&authority))?,
        };
        Ok((requests, host(&authority).to_owned(), SocketAddr::new(ip, port(&authority))))
    }

    /// Returns the address on which a server listens.
    fn server(&self) -> Result<SocketAddr, Invalid> {
        let text = self.get("PORT").unwrap_or_else(|| "443".into());
        let port = text
            .parse()
            .map_err(|_| Invalid::value(&text, "is not a port number").in_field("PORT"))?;
        Ok(SocketAddr::new(self.ip("IP")?.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), port))
    }
}

/// Resolves a host name. `localhost` always means 127.0.0.1.
fn resolve(host: &str) -> Result<IpAddr, Invalid> {
    if host == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(host, 0)).map(|mut found| found.next());
    let problem = match found {
        Ok(Some(address)) => return Ok(address.ip()),
        Ok(None) => "cannot be resolved".to_owned(),
        Err(e) => format!("cannot be resolved: {e}"),
    };
    Err(Invalid::value(host, problem).hint("set FATHOM_ADDRESS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Setup, Outcome> {
        let find = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Setup::read(&Overrides::default(), find)
    }

    const CLIENT: [(&str, &str); 3] = [
        ("ROLE", "client"),
        ("TESTCASE", "transfer"),
        ("REQUESTS", "https://localhost:4443/a https://localhost:4443/b/c.bin"),
    ];

    #[test]
    fn client_environment_is_parsed() {
        let setup =
            read(&[&CLIENT[..], &[("DOWNLOADS", "/d"), ("FATHOM_STACK", "noq")]].concat()).unwrap();
        assert_eq!(
            (setup.role, setup.test_name, setup.stack),
            (Role::Client, TestName::Transfer, EndpointStack { stack: Stack::Noq, stock: false })
        );
        assert_eq!(
            (setup.address, &setup.server_name[..]),
            ("127.0.0.1:4443".parse().unwrap(), "localhost")
        );
        let requests: Vec<_> =
            setup.requests.iter().map(|w| (w.path().to_owned(), w.file.clone())).collect();
        assert_eq!(
            requests,
            [("/a".to_owned(), "/d/a".into()), ("/b/c.bin".to_owned(), "/d/c.bin".into())]
        );
        assert_eq!(setup.controller, "sync:signal=either");
        let setup = read(
            &[&CLIENT[..], &[("FATHOM_ADDRESS", "::1"), ("FATHOM_STACK", "stock-quinn")]].concat(),
        )
        .unwrap();
        assert_eq!(
            (setup.address, &setup.controller[..]),
            ("[::1]:4443".parse().unwrap(), "native:cubic")
        );
    }

    #[test]
    fn server_environment_has_defaults() {
        let setup = read(&[("ROLE", "server"), ("TESTCASE", "retry")]).unwrap();
        assert_eq!((setup.address, setup.www), ("[::]:443".parse().unwrap(), "/www".into()));
        assert_eq!((setup.certs, setup.logs), ("/certs".into(), "/logs".into()));
    }

    #[test]
    fn invalid_values_are_errors_and_unknown_tests_unsupported() {
        let outcome = |vars: &[(&str, &str)]| read(vars).unwrap_err();
        for (vars, hint) in [
            (&[][..], "ROLE"),
            (&[("ROLE", "proxy")], "client or server"),
            (&[("ROLE", "client")], "TESTCASE"),
            (&CLIENT[..2], "REQUESTS"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("PORT", "x")], "not a port"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("IP", "x")], "not an IP"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("FATHOM_STACK", "x")], "quinn, noq"),
            (
                &[("ROLE", "client"), ("TESTCASE", "retry"), ("REQUESTS", "https://localhost/")],
                "no file name",
            ),
            (
                &[("ROLE", "client"), ("TESTCASE", "retry"), ("REQUESTS", "https://localhost/..")],
                "no file name",
            ),
        ] {
            let Outcome::InvalidInput(line) = outcome(vars) else {
                panic!("{vars:?}: {:?}", outcome(vars))
            };
            assert!(line.contains(hint) && !line.contains('\n'), "{vars:?}: {line}");
        }
        for name in ["v2", "connectionmigration", "rebind-addr", "ipv6!"] {
            let outcome = outcome(&[("ROLE", "server"), ("TESTCASE", name)]);
            assert_eq!(outcome.exit_code(), 127, "{name}");
        }
    }
}
