//! The environment, read once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use fathom_net::load::{host, port, urls};

use super::Outcome;
use super::case::Case;
use super::downloads::Wanted;

/// Which side this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that connects.
    Client,
    /// The one that accepts.
    Server,
}

impl Role {
    /// As the environment has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// A stack that is an endpoint here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// quinn with our plug-in.
    #[default]
    Quinn,
    /// noq with our plug-in.
    Noq,
    /// quinn as it comes.
    StockQuinn,
    /// The derived quiche.
    #[cfg(feature = "quiche")]
    Quiche,
    /// quiche as it comes.
    #[cfg(feature = "quiche")]
    StockQuiche,
}

impl Stack {
    /// Those that are built in.
    pub const ALL: &'static [Self] = &[
        Self::Quinn,
        Self::Noq,
        #[cfg(feature = "quiche")]
        Self::Quiche,
        Self::StockQuinn,
        #[cfg(feature = "quiche")]
        Self::StockQuiche,
    ];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::Noq => "noq",
            Self::StockQuinn => "stock-quinn",
            #[cfg(feature = "quiche")]
            Self::Quiche => "quiche",
            #[cfg(feature = "quiche")]
            Self::StockQuiche => "stock-quiche",
        }
    }

    /// It carries our plug-in, and so offers our extension.
    pub const fn is_ours(self) -> bool {
        match self {
            Self::Quinn | Self::Noq => true,
            Self::StockQuinn => false,
            #[cfg(feature = "quiche")]
            Self::Quiche => true,
            #[cfg(feature = "quiche")]
            Self::StockQuiche => false,
        }
    }

    /// It is quiche, of either kind.
    pub const fn is_quiche(self) -> bool {
        match self {
            Self::Quinn | Self::Noq | Self::StockQuinn => false,
            #[cfg(feature = "quiche")]
            Self::Quiche | Self::StockQuiche => true,
        }
    }

    /// The controller where none is named.
    pub const fn usual_controller(self) -> &'static str {
        if self.is_ours() { "sync:signal=either" } else { "native:cubic" }
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|s| s.name()).collect::<Vec<_>>().join(", ");
        Self::ALL.iter().copied().find(|stack| stack.name() == s).ok_or_else(|| match s {
            "quiche" | "stock-quiche" => {
                format!("this build has no quiche; build with --features quiche, or write one of {}", known())
            }
            _ => format!("'{}' is no stack that is built in; write one of {}", s.escape_debug(), known()),
        })
    }
}

/// What the command line may say over the environment.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Stack.
    pub stack: Option<Stack>,
    /// Controller.
    pub controller: Option<String>,
}

/// What an endpoint is to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which side.
    pub role: Role,
    /// What is tested.
    pub case: Case,
    /// On what.
    pub stack: Stack,
    /// With which controller.
    pub controller: String,
    /// What a client fetches.
    pub wanted: Vec<Wanted>,
    /// The name in the server's certificate, for clients.
    pub server_name: String,
    /// Where the server's packets go to, for clients; where it listens, for servers.
    pub address: SocketAddr,
    /// Files that are served.
    pub www: PathBuf,
    /// Where clients store.
    pub downloads: PathBuf,
    /// `cert.pem`, `priv.key`, perhaps `ca.pem`.
    pub certs: PathBuf,
    /// Where facts go.
    pub logs: PathBuf,
    /// Where qlog goes.
    pub qlog: Option<PathBuf>,
}

impl Setup {
    /// Reads the environment through `env`.
    ///
    /// # Errors
    /// [`Outcome::Wrong`] for what cannot be read, [`Outcome::Unsupported`] for a test that nobody here knows.
    pub fn read(choice: &Choice, env: impl Fn(&str) -> Option<String>) -> Result<Self, Outcome> {
        let wrong = Outcome::Wrong;
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let role = match set("ROLE").as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            Some(other) => return Err(wrong(format!("ROLE is '{}'; set client or server", other.escape_debug()))),
            None => return Err(wrong("ROLE is not set; set client or server".into())),
        };
        let case = set("TESTCASE").ok_or_else(|| wrong("TESTCASE is not set; set one such as transfer".into()))?;
        let case = Case::named(&case).ok_or_else(|| {
            Outcome::Unsupported(format!("no test case '{}' here; there is no such code", case.escape_debug()))
        })?;
        let stack = match choice.stack {
            Some(stack) => stack,
            None => set("FATHOM_STACK").map_or(Ok(Stack::default()), |name| name.parse()).map_err(wrong)?,
        };
        let controller = choice.controller.clone().or_else(|| set("FATHOM_CONTROLLER"));
        let controller = controller.unwrap_or_else(|| stack.usual_controller().to_owned());
        let folder = |name: &str, usual: &str| PathBuf::from(set(name).unwrap_or_else(|| usual.to_owned()));
        let downloads = folder("DOWNLOADS", "/downloads");
        let ip = |name: &str| {
            let wrong = |text: String| wrong(format!("{name} is '{}', which is no IP address", text.escape_debug()));
            set(name).map(|text| text.parse::<IpAddr>().map_err(|_| wrong(text))).transpose()
        };
        let (wanted, server_name, address) = match role {
            Role::Client => {
                let requests = set("REQUESTS").ok_or_else(|| wrong("REQUESTS is not set; set URLs".into()))?;
                let texts: Vec<&str> = requests.split_whitespace().collect();
                let (authority, urls) = urls(&texts).map_err(wrong)?;
                let wanted = urls.into_iter().map(|url| Wanted::new(url, &downloads)).collect::<Result<_, _>>();
                let ip = ip("FATHOM_ADDRESS")?.map(Ok).unwrap_or_else(|| find(host(&authority))).map_err(wrong)?;
                (wanted.map_err(wrong)?, host(&authority).to_owned(), SocketAddr::new(ip, port(&authority)))
            }
            Role::Server => {
                let text = set("PORT").unwrap_or_else(|| "443".into());
                let port = text.parse().map_err(|_| wrong(format!("PORT is '{}', no port", text.escape_debug())))?;
                let ip = ip("IP")?.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
                (Vec::new(), String::new(), SocketAddr::new(ip, port))
            }
        };
        Ok(Self {
            role,
            case,
            stack,
            controller,
            wanted,
            server_name,
            address,
            www: folder("WWW", "/www"),
            downloads,
            certs: folder("CERTS", "/certs"),
            logs: folder("LOGS", "/logs"),
            qlog: set("QLOGDIR").map(PathBuf::from),
        })
    }

    /// Why this stack does not do this in this role.
    pub fn unsupported(&self) -> Option<String> {
        let no = |why: &str| Some(format!("{} as {}: {}: {why}", self.stack.name(), self.role.name(), self.case));
        match (self.case, self.role) {
            (Case::KeyUpdate, Role::Client) if self.stack.is_quiche() => {
                no("quiche follows key updates and never begins one; it has no call for it")
            }
            (Case::ChaCha20, Role::Client) if self.stack.is_quiche() => {
                no("BoringSSL offers all suites of TLS 1.3, and has no call to offer one")
            }
            (Case::Ecn, _) if self.stack.is_quiche() && !self.stack.is_ours() => no("stock quiche knows no ECN"),
            _ => None,
        }
    }
}

/// The address of a host; in the runner's network it is found as any.
fn find(host: &str) -> Result<IpAddr, String> {
    if host == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(host, 0)).map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address.ip()),
        Ok(None) => Err(format!("'{host}' has no address; set FATHOM_ADDRESS")),
        Err(e) => Err(format!("'{host}' has no address: {e}; set FATHOM_ADDRESS")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Setup, Outcome> {
        let find = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Setup::read(&Choice::default(), find)
    }

    const CLIENT: [(&str, &str); 3] = [
        ("ROLE", "client"),
        ("TESTCASE", "transfer"),
        ("REQUESTS", "https://localhost:4443/a https://localhost:4443/b/c.bin"),
    ];

    #[test]
    fn a_clients_environment_is_read() {
        let setup = read(&[&CLIENT[..], &[("DOWNLOADS", "/d"), ("FATHOM_STACK", "noq")]].concat()).unwrap();
        assert_eq!((setup.role, setup.case, setup.stack), (Role::Client, Case::Transfer, Stack::Noq));
        assert_eq!((setup.address, &setup.server_name[..]), ("127.0.0.1:4443".parse().unwrap(), "localhost"));
        let wanted: Vec<_> = setup.wanted.iter().map(|w| (w.path().to_owned(), w.file.clone())).collect();
        assert_eq!(wanted, [("/a".to_owned(), "/d/a".into()), ("/b/c.bin".to_owned(), "/d/c.bin".into())]);
        assert_eq!(setup.controller, "sync:signal=either");
        let setup =
            read(&[&CLIENT[..], &[("FATHOM_ADDRESS", "::1"), ("FATHOM_STACK", "stock-quinn")]].concat()).unwrap();
        assert_eq!((setup.address, &setup.controller[..]), ("[::1]:4443".parse().unwrap(), "native:cubic"));
    }

    #[test]
    fn a_servers_environment_has_defaults() {
        let setup = read(&[("ROLE", "server"), ("TESTCASE", "retry")]).unwrap();
        assert_eq!((setup.address, setup.www), ("[::]:443".parse().unwrap(), "/www".into()));
        assert_eq!((setup.certs, setup.logs), ("/certs".into(), "/logs".into()));
    }

    #[test]
    fn what_is_wrong_is_named_and_what_is_unknown_is_unsupported() {
        let outcome = |vars: &[(&str, &str)]| read(vars).unwrap_err();
        for (vars, mend) in [
            (&[][..], "ROLE"),
            (&[("ROLE", "proxy")], "client or server"),
            (&[("ROLE", "client")], "TESTCASE"),
            (&CLIENT[..2], "REQUESTS"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("PORT", "x")], "no port"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("IP", "x")], "no IP"),
            (&[("ROLE", "server"), ("TESTCASE", "retry"), ("FATHOM_STACK", "x")], "quinn, noq"),
            (&[("ROLE", "client"), ("TESTCASE", "retry"), ("REQUESTS", "https://localhost/")], "last part"),
            (&[("ROLE", "client"), ("TESTCASE", "retry"), ("REQUESTS", "https://localhost/..")], "last part"),
        ] {
            let Outcome::Wrong(line) = outcome(vars) else { panic!("{vars:?}: {:?}", outcome(vars)) };
            assert!(line.contains(mend) && !line.contains('\n'), "{vars:?}: {line}");
        }
        for name in ["v2", "connectionmigration", "rebind-addr", "ipv6!"] {
            let outcome = outcome(&[("ROLE", "server"), ("TESTCASE", name)]);
            assert_eq!(outcome.code(), 127, "{name}");
        }
    }
}
